//! Rows in memory: batches, the head, deletes, and how much memory there may be.
//!
//! Does: hold rows, order them, hide what is deleted. Does not: touch the disk.

pub(crate) mod batch;
pub(crate) mod budget;
pub(crate) mod cast;
pub(crate) mod head;
pub(crate) mod kept_page;
pub(crate) mod mask;
pub(crate) mod order;
pub(crate) mod state;
pub(crate) mod tombstone;
