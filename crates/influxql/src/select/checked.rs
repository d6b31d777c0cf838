//! A SELECT before any database is looked at: checks, constants, the range of time, buckets.

pub(crate) mod arguments;
pub(crate) mod compile;
pub(crate) mod condition;
pub(crate) mod fields;
pub(crate) mod fold;
pub(crate) mod go_type;
pub(crate) mod window;
