//! A record a block, a line for each of its values, as psql's `\\x` shows them.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::table::{heading, texts};

/// Rows whose widths are measured together.
const ROWS_MEASURED: usize = 1_000;

pub(super) fn write(
    schema: &Schema,
    batches: &mut dyn Iterator<Item = anyhow::Result<RecordBatch>>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| heading(field.name()))
        .collect();
    let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let mut rows = 0;
    for batch in batches {
        let cells = texts(&batch?)?;
        for together in cells.chunks(ROWS_MEASURED) {
            let lines = together.iter().flatten().flat_map(|cell| cell.split('\n'));
            let value_width = lines.map(width).max().unwrap_or(0);
            for row in together {
                rows += 1;
                let title = format!("-[ RECORD {rows} ]");
                writeln!(out, "{title:-<0$}", name_width + 3 + value_width)?;
                record(&names, name_width, row, out)?;
            }
        }
    }
    let word = if rows == 1 { "row" } else { "rows" };
    Ok(writeln!(out, "({rows} {word})")?)
}

fn record(
    names: &[String],
    name_width: usize,
    row: &[String],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for (name, cell) in names.iter().zip(row) {
        for (nth, line) in cell.split('\n').enumerate() {
            let (name, bar) = if nth == 0 {
                (name.as_str(), '|')
            } else {
                ("", ':')
            };
            writeln!(out, "{name:name_width$} {bar} {line}")?;
        }
    }
    Ok(())
}

fn width(text: &str) -> usize {
    text.chars().count()
}
