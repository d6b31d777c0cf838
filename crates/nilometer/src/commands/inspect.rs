//! `nilometer inspect`: the contents of a data directory, for people and as JSON.

use std::path::PathBuf;

use clap::Args;
use nilometer_engine::disk::RealDisk;
use nilometer_engine::inspect::{
    ByteBudget, ColumnRole, EncodingUse, InspectedColumn, InspectedHome, InspectedSegment,
    InspectedTable, Inspection, inspect,
};
use serde_json::{Value, json};

use crate::print::{self, Table, thousands};
use crate::store::check_exists;

/// What to look into.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer inspect --data ./data\n  nilometer inspect --data ./data --json"
)]
pub(crate) struct InspectArgs {
    /// Data directory; a server may have it open.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    check_exists(&args.data)?;
    let found = inspect(&RealDisk, &args.data)?;
    if args.json {
        print::line(format!("{:#}", as_json(&found)));
    } else {
        print::line(as_text(&found));
    }
    Ok(())
}

/// Values of fields, in all tables.
fn values(found: &Inspection) -> u64 {
    let columns = found.tables.iter().flat_map(|table| &table.columns);
    let fields = columns.filter(|column| matches!(column.role, ColumnRole::Field(_)));
    fields.map(InspectedColumn::values).sum()
}

/// What the bytes are spent on, in the order in which it is told.
fn budget(bytes: &ByteBudget) -> [(&'static str, u64); 5] {
    [
        ("pages", bytes.pages),
        ("directory", bytes.directory),
        ("statistics", bytes.statistics),
        ("index", bytes.index),
        ("rest", bytes.rest),
    ]
}

/// Bytes a value with all that a store needs beside the values, except its log.
fn bytes_per_value(found: &Inspection) -> Option<f64> {
    let values = values(found);
    (values > 0).then(|| found.bytes.total() as f64 / values as f64)
}

fn table_name(table: &InspectedTable) -> String {
    let named = table.name.as_ref().map(|parts| parts.join("."));
    named.unwrap_or_else(|| format!("table {}", table.id.0))
}

fn column_name(column: &InspectedColumn) -> String {
    match (&column.name, column.role) {
        (Some(name), _) => name.clone(),
        (None, ColumnRole::Time) => "(time)".to_owned(),
        (None, ColumnRole::Series) => "(series)".to_owned(),
        (None, ColumnRole::Field(id)) => format!("field {id}"),
    }
}

/// `PlainZstd` as `plain-zstd`.
fn encoding_name(used: &EncodingUse) -> String {
    hyphenated(&format!("{:?}", used.encoding))
}

fn kind_name(column: &InspectedColumn) -> String {
    format!("{:?}", column.kind).to_lowercase()
}

fn hyphenated(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn as_json(found: &Inspection) -> Value {
    let bytes: serde_json::Map<String, Value> = budget(&found.bytes)
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), json!(bytes)))
        .collect();
    let tables: Vec<Value> = found.tables.iter().map(table_json).collect();
    let segments: Vec<Value> = found
        .segments
        .iter()
        .map(|segment| segment_json(segment, &found.tables))
        .collect();
    json!({
        "flushed_lsn": found.flushed_lsn,
        "values": values(found),
        "bytes_per_value": bytes_per_value(found),
        "bytes": bytes,
        "bytes_total": found.bytes.total(),
        "log_bytes": found.bytes.log,
        "segments": segments,
        "tables": tables,
    })
}

fn segment_json(segment: &InspectedSegment, tables: &[InspectedTable]) -> Value {
    let partition = match segment.home {
        InspectedHome::Mixed => Value::Null,
        InspectedHome::Partition { table, start, end } => {
            let known = tables.iter().find(|known| known.id == table);
            json!({ "table": known.map(table_name), "start": start, "end": end })
        }
    };
    json!({
        "file_id": segment.file_id,
        "format": segment.format,
        "tier": segment.tier.to_string(),
        "partition": partition,
        "min_lsn": segment.min_lsn,
        "max_lsn": segment.max_lsn,
        "applied_lsn": segment.applied_lsn,
        "rows": segment.rows,
        "groups": segment.groups,
        "own_blocks": segment.own_blocks,
        "shared_blocks": segment.shared_blocks,
        "device_pages": segment.device_pages,
        "bytes": segment.bytes,
        "page_bytes": segment.page_bytes,
        "directory_bytes": segment.directory_bytes,
        "statistics_bytes": segment.statistics_bytes,
        "rollup_bytes": segment.rollup_bytes,
        "rest_bytes": segment.rest_bytes(),
    })
}

fn table_json(table: &InspectedTable) -> Value {
    let columns: Vec<Value> = table
        .columns
        .iter()
        .map(|column| {
            let encodings: Vec<Value> = column
                .encodings
                .iter()
                .map(|used| {
                    json!({
                        "encoding": encoding_name(used),
                        "pages": used.pages,
                        "values": used.values,
                        "bytes": used.bytes,
                    })
                })
                .collect();
            json!({
                "name": column_name(column),
                "type": kind_name(column),
                "values": column.values(),
                "bytes": column.bytes(),
                "bytes_per_value": column.bytes_per_value(),
                "encodings": encodings,
            })
        })
        .collect();
    json!({ "name": table_name(table), "rows": table.rows, "columns": columns })
}

fn as_text(found: &Inspection) -> String {
    let mut parts = vec![budget_text(found)];
    if !found.segments.is_empty() {
        parts.push(segments_text(found));
    }
    parts.extend(found.tables.iter().map(columns_text));
    parts.join("\n")
}

fn budget_text(found: &Inspection) -> String {
    let total = found.bytes.total();
    let part = |bytes: u64| format!("{:.1} %", bytes as f64 * 100.0 / total.max(1) as f64);
    let values = values(found);
    let per_value = |bytes: u64| match values {
        0 => "-".to_owned(),
        values => format!("{:.4}", bytes as f64 / values as f64),
    };
    let mut table = Table::new(&["part", "bytes", "share", "bytes per value"]);
    for (name, bytes) in budget(&found.bytes) {
        table.row([
            name.to_owned(),
            thousands(bytes),
            part(bytes),
            per_value(bytes),
        ]);
    }
    table.row([
        "total".to_owned(),
        thousands(total),
        part(total),
        per_value(total),
    ]);
    format!(
        "{table}{} values in segments; the log has {} bytes, which are not in the total\n",
        thousands(values),
        thousands(found.bytes.log)
    )
}

fn segments_text(found: &Inspection) -> String {
    let mut table = Table::new(&[
        "segment",
        "partition",
        "tier",
        "format",
        "LSN",
        "rows",
        "groups",
        "own blocks",
        "shared blocks",
        "bytes",
        "pages",
        "directory",
        "statistics",
        "rollups",
        "rest",
    ]);
    for segment in &found.segments {
        let home = match segment.home {
            InspectedHome::Mixed if segment.device_pages > 0 => {
                format!("{} pages of devices", thousands(segment.device_pages))
            }
            InspectedHome::Mixed => "any".to_owned(),
            InspectedHome::Partition { table, start, end } => {
                let known = found.tables.iter().find(|known| known.id == table);
                let name = known.map_or_else(|| format!("table {}", table.0), table_name);
                format!("{name} {start}..{end}")
            }
        };
        let numbers = [
            segment.rows,
            segment.groups,
            segment.own_blocks,
            segment.shared_blocks,
            segment.bytes,
            segment.page_bytes,
            segment.directory_bytes,
            segment.statistics_bytes,
            segment.rollup_bytes,
            segment.rest_bytes(),
        ];
        let lsn = format!("{}-{}", segment.min_lsn, segment.max_lsn);
        let (tier, format) = (segment.tier.to_string(), segment.format.to_string());
        let words = [segment.file_id.to_string(), home, tier, format, lsn];
        table.row(words.into_iter().chain(numbers.map(thousands)));
    }
    table.to_string()
}

fn columns_text(of: &InspectedTable) -> String {
    let mut table = Table::new(&[
        "column",
        "type",
        "values",
        "bytes",
        "bytes per value",
        "encodings",
    ]);
    for column in &of.columns {
        let encodings: Vec<String> = column
            .encodings
            .iter()
            .map(|used| format!("{} {}", encoding_name(used), thousands(used.pages)))
            .collect();
        let per_value = column.bytes_per_value();
        table.row([
            column_name(column),
            kind_name(column),
            thousands(column.values()),
            thousands(column.bytes()),
            per_value.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.4}")),
            encodings.join(", "),
        ]);
    }
    format!(
        "{}: {} rows; pages by encoding\n{table}",
        table_name(of),
        thousands(of.rows)
    )
}

#[cfg(test)]
mod tests {
    use super::hyphenated;

    #[test]
    fn names_of_encodings_are_words_with_hyphens() {
        for (name, shown) in [("Delta", "delta"), ("PlainZstd", "plain-zstd")] {
            assert_eq!(hyphenated(name), shown);
        }
    }
}
