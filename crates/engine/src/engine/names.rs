//! The catalogue of a running store, and the number by which writers see that it changed.
//!
//! Does: let many read and one change it; keep the number in step, so that who has seen a change sees the new number. Does
//! not: decide about changes, or log them (`ddl.rs` does).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::Catalogue;
use crate::ranked::{Rank, Read, RwLock, Write};

#[derive(Debug)]
pub(super) struct SharedCatalogue {
    catalogue: RwLock<Catalogue>,
    /// The catalogue's, set while it is locked for the change.
    epoch: AtomicU64,
}

/// The catalogue while it is changed.
pub(super) struct Changing<'a> {
    catalogue: Write<'a, Catalogue>,
    epoch: &'a AtomicU64,
}

impl SharedCatalogue {
    pub(super) fn new(catalogue: Catalogue) -> Self {
        Self {
            epoch: AtomicU64::new(catalogue.epoch()),
            catalogue: RwLock::new(Rank::Catalogue, catalogue),
        }
    }

    pub(super) fn read(&self) -> Read<'_, Catalogue> {
        self.catalogue.read()
    }

    pub(super) fn change(&self) -> Changing<'_> {
        Changing {
            catalogue: self.catalogue.write(),
            epoch: &self.epoch,
        }
    }

    /// Rises whenever something is dropped, renamed or retyped.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}

impl Deref for Changing<'_> {
    type Target = Catalogue;

    fn deref(&self) -> &Catalogue {
        &self.catalogue
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Catalogue {
        &mut self.catalogue
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.epoch.store(self.catalogue.epoch(), Ordering::Release);
    }
}
