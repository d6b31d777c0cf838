//! Names and ids of databases, schemas, tables, columns and series.
//!
//! Does: say what is there, and apply what changes it. Does not: log a change, or decide whether it may be (`engine` does).

pub(crate) mod catalogue;
pub(crate) mod declared;
pub(crate) mod definition;
pub(crate) mod logical;
pub(crate) mod parts;
pub(crate) mod schema;
pub(crate) mod shown;
pub(crate) mod text_hash;
