//! Credentials that were verified, so that a client that shows them with each of its writes costs no Argon2.
//!
//! What is kept is a hash under a key of this process. The verifier is part of it: with another password, or without the user,
//! nothing of what is here is right any more.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::password::Verifiers;

/// More at once are users by the thousand; then it starts afresh.
const KEPT_MAX: usize = 10_000;

/// What was right before.
#[derive(Debug, Default)]
pub(super) struct Verified {
    key: OnceLock<Option<hmac::Key>>,
    kept: Mutex<HashSet<[u8; 32]>>,
}

impl Verified {
    pub(super) fn knows(&self, user: &str, password: &str, verifiers: &Verifiers) -> bool {
        let Some(hash) = self.hash(user, password, verifiers) else {
            return false;
        };
        // Whoever could use the time this takes would have to know the key.
        self.lock().contains(&hash)
    }

    pub(super) fn remember(&self, user: &str, password: &str, verifiers: &Verifiers) {
        if let Some(hash) = self.hash(user, password, verifiers) {
            let mut kept = self.lock();
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(hash);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` = the system gives no random numbers, and nothing is remembered.
    fn hash(&self, user: &str, password: &str, verifiers: &Verifiers) -> Option<[u8; 32]> {
        let new_key = || {
            let mut key = [0; 32];
            SystemRandom::new().fill(&mut key).ok()?;
            Some(hmac::Key::new(hmac::HMAC_SHA256, &key))
        };
        let key = self.key.get_or_init(new_key).as_ref()?;
        let mut context = hmac::Context::with_key(key);
        for part in [user, password, &verifiers.argon2, &verifiers.scram] {
            // With its length, so that no two lists are one text.
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        context.sign().as_ref().try_into().ok()
    }
}
