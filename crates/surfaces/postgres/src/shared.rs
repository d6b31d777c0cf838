//! State that all connections share, and the target of a cancel request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilometer_service::{CancellationToken, Service};
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::PostgresConfig;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) config: PostgresConfig,
    pub(crate) stop: CancellationToken,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    by_number: HashMap<i32, (i32, Cancel)>,
    last: i32,
}

/// What a connection is at, for a cancel request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<Mutex<CancellationToken>>);

impl Cancel {
    /// The next statement begins: what ends this one.
    pub(crate) fn renew(&self) -> CancellationToken {
        let token = CancellationToken::new();
        *self.lock() = token.clone();
        token
    }

    fn lock(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Number {
    shared: Arc<Shared>,
    pub(crate) of: i32,
    pub(crate) secret: i32,
    pub(crate) cancel: Cancel,
}

impl Drop for Number {
    fn drop(&mut self) {
        self.shared.lock().by_number.remove(&self.of);
    }
}

impl Shared {
    pub(crate) fn new(
        service: Arc<Service>,
        config: PostgresConfig,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            service,
            config,
            stop,
            connections: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a connection, and the secret that a cancel request shows.
    pub(crate) fn number(self: &Arc<Self>) -> Number {
        let mut secret = [0; 4];
        // Where the system gives none, the number alone would cancel a statement, which harms no data.
        let _ = SystemRandom::new().fill(&mut secret);
        let secret = i32::from_be_bytes(secret);
        let cancel = Cancel::default();
        let mut connections = self.lock();
        loop {
            connections.last = connections.last.wrapping_add(1).max(1);
            let number = connections.last;
            if let Entry::Vacant(free) = connections.by_number.entry(number) {
                free.insert((secret, cancel.clone()));
                break;
            }
        }
        let number = connections.last;
        drop(connections);
        Number {
            shared: Arc::clone(self),
            of: number,
            secret,
            cancel,
        }
    }

    /// Ends what a connection is at, if the secret is its own.
    pub(crate) fn cancel(&self, number: i32, secret: i32) {
        let found = self.lock().by_number.get(&number).cloned();
        if let Some((own, cancel)) = found
            && own == secret
        {
            cancel.lock().cancel();
        }
    }
}
