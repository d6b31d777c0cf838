//! Operators of our own: scans, joins by time, gap filling, aggregates from statistics.

pub(crate) mod aggregate;
pub(crate) mod asof;
pub(crate) mod frame;
pub(crate) mod gapfill;
pub(crate) mod scan;
pub(crate) mod window;
