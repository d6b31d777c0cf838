//! Jobs of an open store: opening with replay workers, maintenance threads, heap trimming, statements that run by the clock.
//!
//! Does: run threads, which the engine does not. Does not: decide what there is to do; the engine does.

pub(crate) mod background;
pub(crate) mod heap_trim;
pub(crate) mod maintenance;
pub(crate) mod opening;
pub(crate) mod schedule;
pub(crate) mod scheduler;
