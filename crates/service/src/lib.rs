//! What every surface needs and none has to itself: the seam between those who speak a protocol and the engine.
//!
//! Does: open a store and run its maintenance, keep sessions between writes, give queries threads of their own, say who
//! does what waits for the disk and what time it is. Does not: speak a protocol, or know a language; nothing of HTTP or
//! of `DataFusion` is named here.
//!
//! Where next: `executor.rs` for whatever waits; `maintenance.rs` for the threads of a store; `sessions.rs` for writes.
//! The whole of the seam, with what is still to come, is in docs/decisions/0009-one-seam.md.

mod error;
pub mod executor;
mod heap_trim;
mod maintenance;
mod opening;
mod runtime;
mod sessions;

pub use error::Error;
pub use heap_trim::use_few_arenas;
pub use maintenance::Maintenance;
pub use opening::open_store;
pub use runtime::QueryRuntime;
pub use sessions::{Check, Scope, Sessions, WhenMissing};
