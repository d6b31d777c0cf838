//! What SQL promises over a store: one binary, because linking the planner takes longer than all tests.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

mod acquisition;
mod aggregates;
mod cast_types;
mod chunks;
mod continuous;
mod continuous_answers;
mod continuous_below;
mod continuous_cost;
mod continuous_policies;
mod definitions;
mod first_rows;
mod frames;
mod functions;
mod gapfill;
mod guide;
mod headings;
mod hostile;
mod in_place;
mod library;
mod narrowed;
mod numbers;
mod numerics;
mod operators;
mod oracle;
mod plain;
mod relations;
mod resources;
mod routines;
mod series;
mod slt;
mod statements;
mod statements_explain;
mod statements_params;
mod statements_write;
mod stopped;
mod support;
mod tags;
mod templates;
mod time_range;
mod times;
mod values;
mod zones;

/// As in the program, so that every statement of these tests is held to what it allocates.
#[global_allocator]
static ALLOCATOR: nilometer_query::CountingAllocator = nilometer_query::CountingAllocator;
