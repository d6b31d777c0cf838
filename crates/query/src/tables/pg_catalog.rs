//! `pg_catalog` and `information_schema`: the store's names as clients of PostgreSQL read them.
//!
//! Does: answer for every table that PostgreSQL 15 has there, with rows where the store has something to say and none where it
//! has not; answer the functions that tools call with them. Rows are made when they are read, from the statement's snapshot, and
//! show what their reader may read. Does not: keep anything.
//!
//! `text/relations.txt` has the columns, `text/fixed.txt` the rows that never change (docs/decisions/0017-catalogue-of-postgresql.md says
//! where both come from). `objects.rs` is the store's names with their numbers, `rows.rs` makes rows of them.

mod cells;
mod definitions;
mod fixed;
mod functions;
mod names;
mod objects;
mod oids;
mod provider;
mod reading;
mod relations;
mod rows;
mod source;
mod values;

pub(crate) use functions::{HYPERTABLE, HYPERTABLE_BY_CLOCK, OF_SEQUENCES, functions};
pub(crate) use names::{NAMED_TYPES, is_catalogue, mentions};
pub(crate) use objects::{Catalogue, Reader};
pub(crate) use provider::{has, names_of, table, unknown_table};
pub(crate) use reading::Reading;
pub(crate) use relations::oid_of as table_oid;
