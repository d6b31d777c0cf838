//! What SQL promises over a store: one binary, because linking the planner takes longer than all tests.

mod functions;
mod statements;
mod support;
mod tags;
mod time_range;
