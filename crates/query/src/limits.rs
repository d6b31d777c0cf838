//! Limits of a statement: memory, time, size, cancellation.
//!
//! Does: count what a statement takes, and end it when that is too much. Does not: know what it computes.

pub(crate) mod allocated;
pub(crate) mod attempt;
pub(crate) mod batch_size;
pub(crate) mod cooperate;
pub(crate) mod guard;
pub(crate) mod memory;
pub(crate) mod patterns;
pub(crate) mod plan_time;
pub(crate) mod room;
pub(crate) mod scope;
pub(crate) mod sizes;
pub(crate) mod stop;
