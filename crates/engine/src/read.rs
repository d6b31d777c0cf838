//! Reading: snapshots, scans, and what a data directory consists of.
//!
//! Does: answer what was there at one moment. Does not: change anything.

pub mod inspect;
pub(crate) mod latest;
pub(crate) mod moment;
pub(crate) mod nearest;
pub(crate) mod pieces;
pub(crate) mod predicate;
pub(crate) mod scan;
pub(crate) mod slices;
pub(crate) mod snapshot;
pub(crate) mod total;
