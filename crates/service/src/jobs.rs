//! Jobs of an open store: opening with replay workers, maintenance threads, heap trimming.
//!
//! Does: run threads, which the engine does not. Does not: decide what there is to do; the engine does.

pub(crate) mod heap_trim;
pub(crate) mod maintenance;
pub(crate) mod opening;
