//! Formats of files that are imported.
//!
//! Does: read CSV, Parquet and the text that InfluxDB exports, and the encodings of text. Does not: decide what a column becomes
//! (`columns`, `schema`), or send rows (`send`).

pub(super) mod csv;
pub(super) mod encoding;
pub(super) mod exported;
pub(super) mod parquet;
