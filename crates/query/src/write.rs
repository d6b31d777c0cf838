//! INSERT, UPDATE, DELETE, MERGE and TRUNCATE: rows that the planner finds, written by the engine. Changes of names are in `change.rs`.
//!
//! Does: plan the part of a statement that reads, hold what it gives in the memory of the statement, and hand it to the
//! engine as one batch: all of it becomes durable, or nothing. Does not: decide about conflicts or convert values of
//! columns (the engine does), or write in parts: what is more than one batch takes is an error that names the limit.

pub(crate) mod call;
pub(crate) mod change;
mod declared;
mod delete;
mod insert;
mod relation;
mod returning;
mod rows;
mod source;
mod stored;
mod truncate;
mod update;
mod values;
mod writer;
mod writing;

pub(crate) use declared::{check_new, completed, look_at_rows};
pub(crate) use delete::delete;
pub(crate) use insert::insert;
pub(crate) use relation::{check_merge, merge};
pub(crate) use returning::Returning;
pub(crate) use source::{table_of, table_of_delete, table_of_insert};
pub(crate) use truncate::truncate;
pub(crate) use update::update;
pub(crate) use writer::Writer;
pub(crate) use writing::{TRIES_MAX, Writing, is_overtaken};
