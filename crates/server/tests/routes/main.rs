//! What the server promises, route by route: one binary, because linking the planner takes longer than all tests.

mod http;
mod query;
mod serve;
mod support;
mod write;
