//! A time-series database in a program of your own.
//!
//! Does: open a data directory, write line protocol to it, answer SQL as Arrow, and run what a store needs beside that
//! (threads for maintenance and for queries). Does not: listen on sockets (`nilometer serve` does), read the command
//! line, or print.
//!
//! One process has a data directory open at a time; a second one is told so. What a write returns for is on stable
//! storage and seen by every query that starts afterwards.
//!
//! ```
//! use nilometer::{Precision, open};
//!
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path().join("data");
//! let database = open(&dir)?;
//! let report = database.write_line_protocol(
//!     "weather",
//!     b"air,city=cairo temperature=31.5 1700000000\nair,city=aswan temperature=36.0 1700000000",
//!     Precision::Second,
//! )?;
//! assert_eq!((report.rows, report.rejected_total), (2, 0));
//!
//! let mut rows = 0;
//! for batch in database.sql("weather", "select city, temperature from air order by city")? {
//!     rows += batch?.num_rows();
//! }
//! assert_eq!(rows, 2);
//! database.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate's version follows semantic versioning: before 1.0 a change of the second number may break a program, a
//! change of the third does not. [`arrow`] is part of the interface, and so is its first version number.

mod library;
#[cfg(feature = "sql")]
pub use arrow;
pub use library::database::{Database, Options, open};
pub use library::error::Error;
#[doc(hidden)]
pub use library::languages::{languages, session_change};
pub use library::rows::{RowStream, Rows};
pub use library::session::Session;
pub use nilometer_engine::Options as StoreOptions;
pub use nilometer_engine::ingest::{
    Missing, OnConflict, Rejected, Target, TypedReport, WriteReport,
};
pub use nilometer_lineproto::Precision;
pub use nilometer_service::QueryOptions as SqlOptions;
