//! Settings of compression, under all the names that TimescaleDB has had for them.
//!
//! Does: read them. Does not: know what they change.

use nilometer_service::define::{CompressionChange, OrderBy};

use super::Setting;
use crate::error::Error;

/// Switches, columns of segments, columns of order; and the width of compressed chunks.
const SWITCHES: [&str; 3] = [
    "tsdb.columnstore",
    "tsdb.compress",
    "tsdb.enable_columnstore",
];
const SEGMENTS: [&str; 2] = ["tsdb.compress_segmentby", "tsdb.segmentby"];
const ORDERS: [&str; 2] = ["tsdb.compress_orderby", "tsdb.orderby"];
const WIDTH: &str = "tsdb.compress_chunk_time_interval";

/// Whether a setting is one of compression.
pub(super) fn is_setting(name: &str) -> bool {
    let all = SWITCHES.iter().chain(&SEGMENTS).chain(&ORDERS);
    all.chain([&WIDTH]).any(|known| *known == name)
}

/// What such settings change.
pub(super) fn change(list: &[&Setting]) -> Result<CompressionChange, Error> {
    let mut change = CompressionChange::default();
    for setting in list {
        let name = setting.name.as_str();
        if SWITCHES.contains(&name) {
            change.is_on = Some(setting.is_on()?);
        } else if SEGMENTS.contains(&name) {
            change.segment_by = Some(match setting.text()?.trim() {
                "" => Vec::new(),
                _ => setting.names()?.into_iter().map(|name| name.text).collect(),
            });
        } else if ORDERS.contains(&name) {
            change.order_by = Some(order(setting)?);
        } else {
            return Err(setting.refuse(
                "sparse partitions become wider by themselves; leave it out, or set_chunk_time_interval",
            ));
        }
    }
    Ok(change)
}

/// `time DESC NULLS LAST, x`.
fn order(setting: &Setting) -> Result<Vec<OrderBy>, Error> {
    let text = setting.text()?.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let columns = text.split(',').map(|column| {
        let mut words: Vec<&str> = column.split_whitespace().collect();
        let mut ends_with = |tail: &[&str]| {
            let from = words.len().saturating_sub(tail.len());
            let own = words.get(from..).unwrap_or_default();
            let is_it = own.len() == tail.len()
                && own.iter().zip(tail).all(|(one, other)| one.eq_ignore_ascii_case(other));
            if is_it && from > 0 {
                words.truncate(from);
            }
            is_it && from > 0
        };
        let nulls = if ends_with(&["nulls", "first"]) {
            Some(true)
        } else {
            ends_with(&["nulls", "last"]).then_some(false)
        };
        let is_descending = ends_with(&["desc"]);
        let _ = !is_descending && ends_with(&["asc"]);
        let [name] = words.as_slice() else {
            return Err(setting.refuse(format!(
                "{:?} is no order; write a column, then ASC or DESC, then NULLS FIRST or NULLS LAST",
                column.trim()
            )));
        };
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        Ok(OrderBy {
            column: bare.map_or_else(|| name.to_ascii_lowercase(), |bare| bare.replace("\"\"", "\"")),
            is_ascending: !is_descending,
            // As PostgreSQL has it: NULL is greater than everything else.
            nulls_first: nulls.unwrap_or(is_descending),
        })
    });
    columns.collect()
}
