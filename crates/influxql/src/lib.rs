//! InfluxQL, a language of the service: statements carried out on a store, answered as series.
//!
//! Does: plan SELECT as series queries, answer SHOW from names and the tag index, turn definitions and deletes into changes
//! of the store. Does not: parse or print (`influxql-syntax` does), speak HTTP or encode answers (the surface does).
//!
//! Start at [`InfluxQl`]; `statements` has everything but SELECT.

mod language;
mod statements;

pub use language::InfluxQl;
