//! Sketches: summaries of bounded size whose answers are within an error that they know.
//!
//! Next: [`uddsketch`] and [`tdigest`] for percentiles, [`hyperloglog`] for distinct values, [`frequencies`] for frequent ones.

pub(crate) mod frequencies;
pub(crate) mod hyperloglog;
pub(crate) mod tdigest;
pub(crate) mod uddsketch;
