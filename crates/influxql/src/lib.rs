//! InfluxQL, a language of the service: statements carried out on a store, answered as series.
//!
//! Does: plan SELECT as series queries ([`select`]), answer SHOW from names and the tag index, turn definitions and deletes
//! into changes of the store (`statements`). Does not: parse or print (`influxql-syntax` does), speak HTTP or
//! encode answers (the surface does).
//!
//! Start at [`InfluxQl`]. [`select::run`] answers a tree of `influxql-syntax` with a [`select::SelectContext`]: out come
//! [`nilometer_service::Set`]s in the order of their names and tags, as they are asked for.

mod continuous;
mod into;
mod language;
mod policies;
mod privileges;
mod reading;
pub mod select;
mod statements;

pub use language::InfluxQl;
