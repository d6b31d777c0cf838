//! One run of a SELECT: what it reads, and the memory that it holds.

use std::cell::RefCell;

use nilometer_engine::Snapshot;
use nilometer_series::{Charge, Context};

use crate::select::error::Error;

/// What all steps of a run share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) context: &'a Context,
    pub(crate) now_ns: i64,
    charge: RefCell<Charge>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, context: &'a Context, now_ns: i64) -> Self {
        let charge = RefCell::new(Charge::new(&context.memory));
        Self {
            snapshot,
            context,
            now_ns,
            charge,
        }
    }

    /// Counts memory that the run holds, and ends it if somebody wants it to.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Error> {
        self.context.check()?;
        Ok(self.charge.borrow_mut().grow(bytes)?)
    }

    /// What was counted, for as long as the answer is held.
    pub(crate) fn into_charge(self) -> Charge {
        self.charge.into_inner()
    }
}
