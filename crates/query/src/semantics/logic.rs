//! Three-valued logic, where the planner's own rules lose NULL.
//!
//! Does: keep conditions on one value out of each other's lists (`lists`), and spell subqueries so that what is unknown
//! stays unknown (`subqueries`), join those that are values (`marks`), know which of them may be NULL (`values`), and let `VALUES` have them (`written`). Does not: simplify anything; the planner does, with what is left to it.

mod lists;
mod marks;
mod subqueries;
mod values;
mod written;

pub(crate) use lists::KeepLists;
pub(crate) use marks::{DECORRELATE, MarkSubqueries};
pub(crate) use subqueries::SpellSubqueries;
pub(crate) use values::NullableSubqueries;
pub(crate) use written::SelectRows;
