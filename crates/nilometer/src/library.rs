//! The embedded database: opening, writing, rows of answers.

pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod rows;
