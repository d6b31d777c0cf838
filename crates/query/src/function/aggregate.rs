//! Aggregates, and what they share.

pub(crate) mod avg;
pub(crate) mod bookend;
pub(crate) mod dense;
pub(crate) mod ends;
pub(crate) mod extreme;
pub(crate) mod histogram;
pub(crate) mod moments;
pub(crate) mod numeric;
pub(crate) mod percentile;
pub(crate) mod percentile_cont;
pub(crate) mod samples;
pub(crate) mod series;
pub(crate) mod sketch;
pub(crate) mod sum;
