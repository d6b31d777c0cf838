//! Rows as they are written, changed and read back, of every kind of table.

mod aggregate;
#[path = "../support/counting.rs"]
mod counting;
mod declared;
#[path = "../support/device_page.rs"]
mod device_page;
mod duplicates;
mod idempotency;
mod inspect;
mod invalidations;
mod large;
mod many_columns;
mod narrowed;
mod pages;
mod relation_as_seen;
mod relations;
mod row_numbers;
mod sequenced;
mod series;
mod staged;
#[path = "../support/mod.rs"]
mod support;
mod thin_ranges;
mod transactions;
mod typed;
#[path = "../support/typed.rs"]
mod typed_store;
mod unique;
mod update;
mod write_read;
