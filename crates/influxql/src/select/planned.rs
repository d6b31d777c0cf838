//! A SELECT in a database: names, types, and what of its condition the scan answers.

pub(crate) mod columns;
pub(crate) mod names;
pub(crate) mod narrowed;
pub(crate) mod plan;
pub(crate) mod pushed;
pub(crate) mod types;
