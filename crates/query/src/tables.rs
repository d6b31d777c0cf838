//! Names and tables of a snapshot, as the planner sees them.
//!
//! Does: look names up; give tables, relations, views and the schemas `system`, `pg_catalog` and `information_schema`. Does not: read rows of tables (`operators` does).

pub(crate) mod aggregate;
pub(crate) mod catalogue;
pub(crate) mod describe;
pub(crate) mod names;
pub(crate) mod pg_catalog;
pub(crate) mod planned;
pub(crate) mod relation;
pub(crate) mod sequence;
pub(crate) mod system;
pub(crate) mod table;
