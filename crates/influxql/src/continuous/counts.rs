//! Outcomes of continuous queries since the start.
//!
//! Does: count. Does not: run one (`continuous.rs` does).

use std::sync::atomic::{AtomicU64, Ordering};

use nilometer_service::Runs;

/// How those that ran since the start have ended.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    ok: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// Counts one.
    pub(crate) fn ended(&self, is_well: bool) {
        let counter = if is_well { &self.ok } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Those so far.
    pub(crate) fn runs(&self) -> Runs {
        Runs {
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}
