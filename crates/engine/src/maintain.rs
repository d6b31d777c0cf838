//! Decisions of maintenance: which segments become one, and what is too old.
//!
//! Does: choose and rewrite. Does not: publish what it wrote (`engine` does).

pub(crate) mod compaction;
pub(crate) mod retention;
