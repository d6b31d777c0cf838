//! From a statement to an optimized plan.
//!
//! Does: plan, push filters into scans, keep plans of statements asked before. Does not: change what an answer is (`semantics`
//! does), or run a plan.

pub(crate) mod acquisition;
pub(crate) mod bounds;
pub(crate) mod by_aggregate;
pub(crate) mod caret;
pub(crate) mod enum_order;
pub(crate) mod filter;
pub(crate) mod incremental;
pub(crate) mod plan;
pub(crate) mod planner;
pub(crate) mod query_planner;
pub(crate) mod recognise;
pub(crate) mod recognised;
pub(crate) mod single_table;
pub(crate) mod templates;
pub(crate) mod threads;
