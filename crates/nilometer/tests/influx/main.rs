//! The `InfluxDB` surface with its language, over a store in memory and without SQL.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

mod answers;
mod changes;
mod continuous;
mod datagrams;
mod grafana;
mod into;
mod lists;
mod policies;
mod privileges;
mod refused;
mod shards;
mod status;
mod stored_answers;
mod support;
mod users;
mod v2;
