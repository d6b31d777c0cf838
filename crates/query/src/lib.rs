//! SQL over the engine.
//!
//! Does: plan and run one read-only statement on one snapshot ([`Sql::query`]), with `DataFusion` and our own table
//! provider, scan and functions; hold each query to its memory and its time; say where a statement is wrong. Does not:
//! open sockets, encode answers, write, or let a `DataFusion` type out (Arrow is what leaves).
//!
//! Where next: `sql.rs` is the way in; `filter.rs` decides what a scan may skip; `scan.rs` reads the engine.

mod aggregate;
mod answer;
mod asof;
mod catalogue;
mod cooperate;
mod error;
mod filter;
mod function;
mod gapfill;
mod lateral;
mod memory;
mod nearest;
mod parameter;
mod planner;
mod round;
mod scan;
mod spelling;
mod sql;
mod statement;
mod table;

pub use answer::Answer;
pub use error::{Error, OverMemory, Position};
pub use parameter::{Param, Params};
pub use sql::{Sql, SqlOptions};
