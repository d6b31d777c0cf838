//! SQL over the engine.
//!
//! Does: plan and run one statement ([`Sql::query`]): a query on one snapshot, with `DataFusion` and our own table
//! provider, scan and functions; changes of names and rows through the engine. Holds each statement to its memory and its
//! time; says where one is wrong. Does not: open sockets, encode answers, or let a `DataFusion` type out (Arrow is what
//! leaves).
//!
//! Where next: `sql.rs` is the way in; `statement.rs` reads the text; `catalogue.rs` has the names; `filter.rs` decides
//! what a scan may skip; `scan.rs` reads the engine.

mod aggregate;
mod allocated;
mod answer;
mod asof;
mod attempt;
mod catalogue;
mod checked;
mod clocks;
mod cooperate;
mod describe;
mod distinct_on;
mod error;
mod few_rows;
mod filter;
mod float_key;
mod frame;
mod function;
mod gapfill;
mod guard;
mod intervals;
mod language;
mod lateral;
mod logic;
mod memory;
mod merged;
mod names;
mod narrow;
mod numbers;
mod outer;
mod plain;
mod plan;
mod planner;
mod relation;
mod room;
mod round;
mod running;
mod scan;
mod scope;
mod set_all;
mod sizes;
mod spelling;
mod sql;
mod statement;
mod stop;
mod system;
mod table;
mod templates;
mod times;
mod view;
mod wide;
mod window;
mod write;
mod zone;

pub use allocated::CountingAllocator;
pub use answer::{Answer, Held};
pub use error::{Error, OverMemory, Position};
pub use nilometer_service::{
    CancellationToken, Param, Params, QueryOptions as SqlOptions, ShownSetting,
};
pub use sql::Sql;
