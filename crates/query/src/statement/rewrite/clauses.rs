//! Clauses that the parser does not read: their tokens are taken out before it, or spelled as it knows them.

pub(crate) mod counted;
pub(super) mod distinct_on;
pub(crate) mod explain_options;
pub(crate) mod insert_alias;
pub(super) mod join;
pub(crate) mod merge;
pub(crate) mod overriding;
