//! CSV: a header of `name,tags` and the columns, then a line a row; an empty line where the header changes.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use nilometer_service::SetHead;

use super::cells::{Cell, Known};
use super::number::{push_int, push_plain_float, push_unsigned};
use super::time::{Times, push_epoch};
use super::{Encode, Message, ResultEnd};

/// A document that is nothing but an error.
pub(super) fn error(text: &str) -> Vec<u8> {
    let mut out = b"error\n".to_vec();
    push_text(text, &mut out);
    out.push(b'\n');
    out
}

/// Writes CSV.
#[derive(Debug)]
pub(crate) struct Csv {
    times: Times,
    /// The columns under the last header.
    columns: Vec<String>,
    has_written: bool,
    /// Whether anything was written when the result began.
    result_began: bool,
    statement: Option<usize>,
    /// The result has no header yet.
    is_new_result: bool,
    /// How every line of the series begins.
    start: Vec<u8>,
    known: Known,
}

impl Csv {
    pub(crate) fn new(times: Times) -> Self {
        Self {
            times,
            columns: Vec::new(),
            has_written: false,
            result_began: false,
            statement: None,
            is_new_result: true,
            start: Vec::new(),
            known: Known::default(),
        }
    }

    fn cell(&self, cell: Cell<'_>, out: &mut Vec<u8>) {
        match (cell, self.times) {
            (Cell::Null, _) => {}
            (Cell::Int(value), _) => push_int(value, out),
            (Cell::Unsigned(value), _) => push_unsigned(value, out),
            (Cell::Float(value), _) => push_plain_float(value, out),
            (Cell::Bool(value), _) => {
                out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            (Cell::Text(value), _) => push_text(value, out),
            (Cell::Time(time, _), Times::Integers(unit)) => push_epoch(time, unit, out),
            (Cell::Time(time, _), Times::Text) => push_int(time, out),
        }
    }

    /// What parts one block of lines from the next.
    fn part(&mut self, out: &mut Vec<u8>) {
        if self.has_written {
            out.push(b'\n');
        }
        self.has_written = true;
    }
}

impl Encode for Csv {
    fn begin(&mut self, _: usize, _: &mut Vec<u8>) {}

    fn begin_result(&mut self, statement: usize, _: &[Message], _: &mut Vec<u8>) {
        // The chunks of one result are documents of their own, under one header.
        if self.statement != Some(statement) {
            self.is_new_result = true;
        }
        self.statement = Some(statement);
        self.result_began = self.has_written;
    }

    fn begin_series(&mut self, head: &SetHead, columns: &SchemaRef, out: &mut Vec<u8>) {
        let names = columns.fields().iter().map(|column| column.name());
        if self.is_new_result || !names.clone().eq(&self.columns) {
            self.part(out);
            self.columns = names.cloned().collect();
            out.extend_from_slice(b"name,tags");
            for name in &self.columns {
                out.push(b',');
                push_text(name, out);
            }
            out.push(b'\n');
        }
        self.is_new_result = false;
        self.start.clear();
        push_text(&head.name, &mut self.start);
        self.start.push(b',');
        push_text(&tags(head), &mut self.start);
    }

    fn rows(&mut self, batch: &Arc<RecordBatch>, rows: Range<usize>, out: &mut Vec<u8>) {
        let mut known = std::mem::take(&mut self.known);
        let cells = known.of(batch);
        let is_done = rows.end == batch.num_rows();
        for row in rows {
            out.extend_from_slice(&self.start);
            for cells in cells {
                out.push(b',');
                self.cell(cells.cell(row), out);
            }
            out.push(b'\n');
        }
        if !is_done {
            self.known = known;
        }
    }

    fn end_series(&mut self, _: bool, _: &mut Vec<u8>) {}

    fn take_back_result(&mut self) {
        self.has_written = self.result_began;
        self.statement = None;
    }

    fn end_result(&mut self, end: ResultEnd<'_>, out: &mut Vec<u8>) {
        if let Some(text) = end.error {
            self.part(out);
            out.extend_from_slice(&error(text));
            // Whatever follows needs a header of its own.
            self.columns.clear();
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// Tags with their values, those without one left out, as 1.12 writes them.
fn tags(head: &SetHead) -> String {
    let tags = head.tags.iter().filter(|(_, value)| !value.is_empty());
    let tags: Vec<String> = tags
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    tags.join(",")
}

/// A field, in quotes where Go's `encoding/csv` puts them.
fn push_text(text: &str, out: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\r' | b'\n');
    let needs_quotes = text == "\\."
        || text.starts_with(char::is_whitespace)
        || text.as_bytes().iter().any(is_special);
    if !needs_quotes {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for &byte in text.as_bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
