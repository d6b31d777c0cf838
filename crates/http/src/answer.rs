//! Answers on their way out: in chunks while they are computed, packed, counted and logged.

pub(crate) mod access;
pub(crate) mod chunks;
pub(crate) mod packed;
pub(crate) mod timing;
