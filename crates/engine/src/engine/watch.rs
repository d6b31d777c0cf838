//! Bounds of the store and its report of itself: limits, memory, room on the disk, metrics.

pub(in crate::engine) mod limits;
pub(in crate::engine) mod memory;
pub(in crate::engine) mod metrics;
pub(in crate::engine) mod report;
pub(in crate::engine) mod space;
