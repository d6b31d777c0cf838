//! From a statement to an optimized plan.

pub(crate) mod few_rows;
pub(crate) mod filter;
pub(crate) mod narrow;
pub(crate) mod plain;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod templates;
