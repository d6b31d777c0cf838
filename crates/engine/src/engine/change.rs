//! Changes that callers ask for: names, rows by their keys, deletes, relations.

pub(in crate::engine) mod copy;
pub(in crate::engine) mod ddl;
pub(in crate::engine) mod declare;
pub(in crate::engine) mod delete;
pub(in crate::engine) mod empty;
pub(in crate::engine) mod from_relation;
pub(in crate::engine) mod key;
pub(in crate::engine) mod key_lookup;
pub(in crate::engine) mod relations;
pub(in crate::engine) mod rows;
pub(in crate::engine) mod swap;
pub(in crate::engine) mod time;
