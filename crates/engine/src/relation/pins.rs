//! Pinned LSNs: no version that one of them sees is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ranked::{Locked, Mutex, Rank};
use crate::schema::Lsn;

/// The LSNs that snapshots and flushes hold. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Pins {
    held: Arc<Mutex<BTreeMap<Lsn, usize>>>,
}

/// An LSN that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    lsn: Lsn,
    pins: Pins,
}

impl Default for Pins {
    fn default() -> Self {
        Self {
            held: Arc::new(Mutex::new(Rank::Pins, BTreeMap::new())),
        }
    }
}

impl Pins {
    /// Holds the LSN that `lsn` says. It is asked under the lock that [`Self::lowest`] takes too: so what is durable
    /// by then cannot be passed between the question and the hold.
    pub(crate) fn pin(&self, lsn: impl FnOnce() -> Lsn) -> Arc<Pin> {
        let mut held = self.lock();
        let lsn = lsn();
        *held.entry(lsn).or_default() += 1;
        Arc::new(Pin {
            lsn,
            pins: self.clone(),
        })
    }

    /// The lowest LSN that is held or will be: from now on none below `durable` is.
    pub(crate) fn lowest(&self, durable: impl FnOnce() -> Lsn) -> Lsn {
        let held = self.lock();
        let durable = durable();
        held.keys().next().map_or(durable, |&lsn| lsn.min(durable))
    }

    fn lock(&self) -> Locked<'_, BTreeMap<Lsn, usize>> {
        self.held.lock()
    }
}

impl Pin {
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.lock();
        if let Some(count) = held.get_mut(&self.lsn) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.lsn);
            }
        }
    }
}
