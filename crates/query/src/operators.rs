//! Operators of our own: scans, series queries, joins by time, gap filling, frames of windows.
//!
//! Does: compute batches. Does not: decide where an operator stands, but for the rules beside ASOF joins and gap filling.

pub(crate) mod asof;
pub(crate) mod first_rows;
pub(crate) mod frame;
pub(crate) mod gapfill;
pub(crate) mod scan;
pub(crate) mod series;
pub(crate) mod window;
