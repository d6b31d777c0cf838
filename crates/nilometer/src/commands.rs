//! Commands of the program, one file each.
//!
//! Does: read a command's arguments, do it, print. Does not: hold the shell and the import, which have folders of their own.

pub(crate) mod bench;
pub(crate) mod check;
#[cfg(feature = "sql")]
pub(crate) mod demo;
pub(crate) mod edge;
#[cfg(feature = "sql")]
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod manual;
pub(crate) mod pg_schema;
pub(crate) mod serve;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod status;
pub(crate) mod upkeep;
