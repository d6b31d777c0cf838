//! The service layer: the seam between surfaces, which speak a protocol, and the engine.
//!
//! Does: open a store and run its maintenance, keep sessions between writes, give queries threads of their own and
//! their turns, count the memory of bodies, compare tokens; list and end running statements, carry definitions out; say what a language has to do, what an
//! error means, who does what waits for the disk and what time it is. Does not: speak a protocol, or know a language;
//! nothing of HTTP or of `DataFusion` is named here.
//!
//! Where next: `executor.rs` for whatever waits; `maintenance.rs` for the threads of a store; `sessions.rs` for writes;
//! `language.rs` for statements; `define.rs` for databases, tables and views; `class.rs` for what errors mean.
//! The whole of the seam, with what is still to come, is in docs/decisions/0009-one-seam.md.

mod admission;
mod body_memory;
mod catch_panic;
mod class;
pub mod define;
mod error;
pub mod executor;
mod heap_trim;
mod language;
mod maintenance;
mod opening;
mod options;
mod params;
mod runtime;
mod sessions;
mod statements;
mod token;

pub use admission::{QueryAdmission, Turn};
pub use body_memory::{BodyMemory, BodyPermit};
pub use catch_panic::catch_panic;
pub use class::Class;
pub use error::{Error, Position};
pub use heap_trim::use_few_arenas;
pub use language::{Charged, Language, Outcome, Prepared, RowStream, Rows, Session, SessionChange};
pub use maintenance::Maintenance;
pub use opening::open_store;
pub use options::{QueryOptions, ShownSetting};
pub use params::{Param, Params};
pub use runtime::QueryRuntime;
pub use sessions::{Check, Scope, Sessions, WhenMissing};
pub use statements::{
    Ended, MemoryTaken, OverMemory, QueryMemory, Running, ShownStatement, Statements, Stop,
};
pub use token::Token;
pub use tokio_util::sync::CancellationToken;
