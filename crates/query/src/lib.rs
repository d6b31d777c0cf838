//! SQL over the engine.
//!
//! Does: plan and run one statement ([`Sql::query`]): a query on one snapshot, with `DataFusion` and our own table
//! provider, scan and functions; changes of names and rows through the engine. Holds each statement to its memory and its
//! time; says where one is wrong. Does not: open sockets, encode answers, or let a `DataFusion` type out (Arrow is what
//! leaves).
//!
//! Where next: `sql.rs` is the entry point. A statement goes through `statement` (text), `tables` (names), `planning` with the
//! rules of `semantics`, and `operators`; `limits` holds it to its memory and time, `write` stores what it changes.

mod answer;
mod error;
mod execution;
mod function;
mod language;
mod limits;
mod operators;
mod planning;
mod semantics;
mod shared;
mod sql;
mod statement;
mod tables;
mod walk;
mod write;

pub use answer::{Answer, AnswerMemory};
pub use error::{Error, OverMemory, Position};
pub use limits::allocated::CountingAllocator;
pub use nilometer_service::{
    CancellationToken, Param, Params, QueryOptions as SqlOptions, ShownSetting,
};
pub use sql::Sql;
pub use statement::session::session_change;
