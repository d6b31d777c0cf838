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
    /// Queries inside are worked out value by value.
    by_values: bool,
    charge: RefCell<Charge>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, context: &'a Context, now_ns: i64) -> Self {
        let charge = RefCell::new(Charge::new(&context.memory));
        Self {
            snapshot,
            context,
            now_ns,
            by_values: false,
            charge,
        }
    }

    /// The same, without columns of queries inside.
    pub(crate) fn by_values(self) -> Self {
        Self {
            by_values: true,
            ..self
        }
    }

    /// Whether queries inside may become columns of those around them.
    pub(crate) fn has_columns(&self) -> bool {
        !self.by_values
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
