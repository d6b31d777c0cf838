//! The embedded database: opening, writing, rows of answers.
//!
//! Does: what `lib.rs` makes public. Does not: serve the program, which is built on the same crates.

pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod languages;
pub(crate) mod rows;
pub(crate) mod session;
