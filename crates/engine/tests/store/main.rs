//! The store over time: flushes, compaction, retention, changed definitions, limits, and what it promises across them.

mod compaction;
mod conservation;
mod convert;
#[path = "../support/counting.rs"]
mod counting;
mod floods;
mod full_disk;
#[path = "../support/gate.rs"]
mod gate;
mod order_of_files;
mod promises;
mod replay_workers;
mod retention;
#[path = "../support/rich.rs"]
mod rich;
mod schema_changes;
mod segment_cache;
mod stalls;
#[path = "../support/mod.rs"]
mod support;
mod tiers;
