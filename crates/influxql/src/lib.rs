//! InfluxQL over snapshots: SELECT planned onto series queries.
//!
//! Does: check a SELECT as InfluxDB does and in its words, read through [`nilometer_series`], and give series in the order of
//! their tags. Does not: parse (the crate `influxql-syntax` does), write what INTO asks for (its caller does), or speak HTTP.
//!
//! Start at [`select::run`]: a tree of `influxql-syntax`, a [`select::SelectContext`] with the snapshot, and out come
//! [`nilometer_service::Set`]s, lazily.

pub mod select;
