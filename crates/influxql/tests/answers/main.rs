//! Answers of SELECT as InfluxDB's: `sqltests/influxql/*.iql`, whose expected lines are those of InfluxDB 1.6.7, and the questions
//! of TSBS with its answers to them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

mod columns;
mod explained;
mod golden;
mod limits;
mod store;
mod tsbs;
