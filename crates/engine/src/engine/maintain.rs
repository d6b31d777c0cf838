//! What maintenance does: flushes, compactions, merges of index files, retention.

pub(in crate::engine) mod checkpoint;
pub(in crate::engine) mod compact;
pub(in crate::engine) mod expire;
pub(in crate::engine) mod flush;
pub(in crate::engine) mod index;
pub(in crate::engine) mod jobs;
