//! Limits that the clients of all surfaces share: turns of queries, memory of request bodies, running statements.
//!
//! Does: count, refuse, give back. Does not: know a protocol; an error here has a class, and each surface its codes.

pub(crate) mod admission;
pub(crate) mod body_memory;
pub(crate) mod statements;
