//! Writing: from what callers send to batches, and from batches to records of the log and back.
//!
//! Does: parse, type, encode and decode. Does not: order batches or make them durable (`engine` does).

pub(crate) mod idempotency;
pub mod ingest;
mod moved_relation;
pub(crate) mod record;
pub(crate) mod replay_workers;
mod rewrite;
