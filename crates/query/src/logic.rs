//! Three-valued logic where the planner's own rules lose the NULL.
//!
//! Does: keep conditions on one value out of each other's lists (`lists`), and spell subqueries in conditions so that what
//! is unknown stays unknown (`subqueries`). Does not: simplify anything; the planner does, with what is left to it.

mod lists;
mod subqueries;

pub(crate) use lists::KeepLists;
pub(crate) use subqueries::SpellSubqueries;
