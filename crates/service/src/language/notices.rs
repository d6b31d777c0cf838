//! Notices: what a statement tells its client beside its answer, and what is no error.
//!
//! Does: keep them until the surface sends them. Does not: keep more than a few, or survive the statement.

use std::sync::{Mutex, PoisonError};

/// Notices of one statement.
const NOTICES_MAX: usize = 64;

/// The notices of a connection that were not sent yet.
#[derive(Debug, Default)]
pub struct SessionNotices(Mutex<Vec<String>>);

impl SessionNotices {
    /// Adds one.
    pub fn add(&self, text: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < NOTICES_MAX {
            all.push(text);
        }
    }

    /// Takes them all.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
