//! Tables for people: columns as wide as their widest value, numbers to the right.
//!
//! Rows are shown as soon as a screenful of them is known; a later one may widen the columns. A text of several lines
//! is shown on several lines, the later ones with a colon in the place of the bar before them. What could steer a
//! terminal is shown as an escape.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Rows whose widths are measured together.
const ROWS_MEASURED: usize = 10_000;

/// What stands between cells.
#[derive(Debug)]
pub(crate) struct Look {
    begin: &'static str,
    between: &'static str,
    end: &'static str,
    /// What the rule has where lines have bars.
    joint: &'static str,
    edge: &'static str,
    /// Colons in the rule say that a column is aligned to the right.
    colons: bool,
    escapes_bars: bool,
    counts_rows: bool,
    /// What stands between cells of a later line of a row, or what a line's end is shown as where a row is one line.
    lines: Lines,
}

#[derive(Debug)]
enum Lines {
    Below(&'static str),
    Joined(&'static str),
}

pub(crate) const ALIGNED: Look = Look {
    begin: " ",
    between: " | ",
    end: " ",
    joint: "+",
    edge: "",
    colons: false,
    escapes_bars: false,
    counts_rows: true,
    lines: Lines::Below(" : "),
};

pub(crate) const MARKDOWN: Look = Look {
    begin: "| ",
    between: " | ",
    end: " |",
    joint: "|",
    edge: "|",
    colons: true,
    escapes_bars: true,
    counts_rows: false,
    lines: Lines::Joined("<br>"),
};

struct Column {
    name: String,
    is_number: bool,
    width: usize,
}

pub(crate) fn write(
    schema: &Schema,
    batches: &mut dyn Iterator<Item = anyhow::Result<RecordBatch>>,
    look: &Look,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut columns: Vec<Column> = schema
        .fields()
        .iter()
        .map(|field| Column {
            name: shown(field.name(), look).replace('\n', "\\n"),
            is_number: is_number(field.data_type()),
            width: 0,
        })
        .collect();
    for column in &mut columns {
        column.width = width(&column.name).max(usize::from(look.colons) * 2).max(1);
    }
    let mut waiting: Vec<Vec<String>> = Vec::new();
    let mut has_head = false;
    let mut rows = 0;
    for batch in batches {
        rows += cells(&batch?, look, &mut waiting)?;
        if waiting.len() >= ROWS_MEASURED {
            flush(&mut columns, &mut waiting, &mut has_head, look, out)?;
        }
    }
    flush(&mut columns, &mut waiting, &mut has_head, look, out)?;
    if look.counts_rows {
        let word = if rows == 1 { "row" } else { "rows" };
        writeln!(out, "({rows} {word})")?;
    }
    Ok(())
}

fn cells(batch: &RecordBatch, look: &Look, into: &mut Vec<Vec<String>>) -> anyhow::Result<usize> {
    let options = FormatOptions::default().with_null("");
    let formatters = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cells = formatters.iter().map(|formatter| {
            let text = formatter.value(row).try_to_string()?;
            // A last line of nothing, as plans have it, is no line.
            Ok(shown(text.trim_end_matches('\n'), look))
        });
        into.push(cells.collect::<anyhow::Result<_>>()?);
    }
    Ok(batch.num_rows())
}

fn flush(
    columns: &mut [Column],
    waiting: &mut Vec<Vec<String>>,
    has_head: &mut bool,
    look: &Look,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for row in waiting.iter() {
        for (column, cell) in columns.iter_mut().zip(row) {
            column.width = column.width.max(width(cell));
        }
    }
    if !std::mem::replace(has_head, true) {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        line(columns, &names, look, out)?;
        rule(columns, look, out)?;
    }
    for row in waiting.drain(..) {
        line(columns, &row, look, out)?;
    }
    Ok(())
}

fn line(
    columns: &[Column],
    cells: &[String],
    look: &Look,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let count = cells.iter().map(|cell| lines_of(cell)).max().unwrap_or(1);
    if count == 1 {
        return part(columns, cells, look, look.between, out);
    }
    let Lines::Below(between) = look.lines else {
        return part(columns, cells, look, look.between, out);
    };
    for nth in 0..count {
        let parts = cells.iter().map(|cell| {
            let part = cell.split('\n').nth(nth);
            part.unwrap_or_default().to_owned()
        });
        let parts: Vec<String> = parts.collect();
        let between = if nth == 0 { look.between } else { between };
        part(columns, &parts, look, between, out)?;
    }
    Ok(())
}

/// A line of a row.
fn part(
    columns: &[Column],
    cells: &[String],
    look: &Look,
    between: &str,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut text = String::from(look.begin);
    for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if at > 0 {
            text.push_str(between);
        }
        let padding = " ".repeat(column.width.saturating_sub(width(cell)));
        text.push_str(if column.is_number { &padding } else { "" });
        text.push_str(cell);
        text.push_str(if column.is_number { "" } else { &padding });
    }
    text.push_str(look.end);
    Ok(writeln!(out, "{text}")?)
}

fn rule(columns: &[Column], look: &Look, out: &mut dyn Write) -> anyhow::Result<()> {
    // A blank to each side of a cell is ruled too.
    let parts = columns.iter().map(|column| {
        if look.colons && column.is_number {
            format!("{}:", "-".repeat(column.width + 1))
        } else {
            "-".repeat(column.width + 2)
        }
    });
    let parts: Vec<String> = parts.collect();
    let (edge, text) = (look.edge, parts.join(look.joint));
    Ok(writeln!(out, "{edge}{text}{edge}")?)
}

fn lines_of(cell: &str) -> usize {
    1 + cell.bytes().filter(|byte| *byte == b'\n').count()
}

/// Text as a cell shows it: without power over the terminal.
fn shown(text: &str, look: &Look) -> String {
    if !text.contains(|c: char| c.is_control() || (look.escapes_bars && c == '|')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '|' if look.escapes_bars => out.push_str("\\|"),
            '\n' => match look.lines {
                Lines::Below(_) => out.push('\n'),
                Lines::Joined(joint) => out.push_str(joint),
            },
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Characters of the longest line.
fn width(text: &str) -> usize {
    let lines = text.split('\n');
    lines.map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Cells of a batch, row by row.
pub(super) fn texts(batch: &RecordBatch) -> anyhow::Result<Vec<Vec<String>>> {
    let mut rows = Vec::with_capacity(batch.num_rows());
    cells(batch, &ALIGNED, &mut rows)?;
    Ok(rows)
}

/// A name as it stands above a column.
pub(super) fn heading(name: &str) -> String {
    shown(name, &ALIGNED).replace('\n', "\\n")
}

fn is_number(kind: &DataType) -> bool {
    kind.is_numeric()
}
