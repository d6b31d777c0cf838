//! `MessagePack`: the members of the JSON document; times are extension 5 of seconds and nanoseconds, or integers.
//!
//! An array says how many elements follow. How many series and rows a result has is known at its end, so the numbers are
//! written then, and the result leaves as a whole.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use nilometer_service::SetHead;

use super::cells::{Cell, Known};
use super::time::Times;
use super::{Encode, Message, ResultEnd};

const SECOND_NS: i64 = 1_000_000_000;

/// A document that is nothing but an error.
pub(super) fn error(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_error(text, &mut out);
    out
}

fn push_error(text: &str, out: &mut Vec<u8>) {
    push_map(1, out);
    push_text("error", out);
    push_text(text, out);
}

/// An array whose length is written when it is known.
#[derive(Debug, Clone, Copy, Default)]
struct OpenArray {
    /// Where its length stands.
    at: usize,
    length: u32,
}

impl OpenArray {
    fn begin(out: &mut Vec<u8>) -> Self {
        out.push(0xdd);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { at, length: 0 }
    }

    fn end(self, out: &mut [u8]) {
        let place = out.get_mut(self.at..self.at + 4);
        if let Some(place) = place {
            place.copy_from_slice(&be32(self.length));
        }
    }
}

/// Writes `MessagePack`.
#[derive(Debug)]
pub(crate) struct MessagePack {
    times: Times,
    /// Where the result begins.
    result_at: usize,
    /// Where the head of the result's map stands, and how many members it has.
    members: u8,
    series: OpenArray,
    series_at: usize,
    series_members: u8,
    values: OpenArray,
    known: Known,
}

impl MessagePack {
    pub(crate) fn new(times: Times) -> Self {
        Self {
            times,
            result_at: 0,
            members: 0,
            series: OpenArray::default(),
            series_at: 0,
            series_members: 0,
            values: OpenArray::default(),
            known: Known::default(),
        }
    }

    fn cell(&self, cell: Cell<'_>, out: &mut Vec<u8>) {
        match (cell, self.times) {
            (Cell::Null, _) => out.push(0xc0),
            (Cell::Int(value), _) => push_int(value, out),
            (Cell::Unsigned(value), _) => push_unsigned(value, out),
            (Cell::Float(value), _) => {
                out.push(0xcb);
                out.extend_from_slice(&be64(value.to_bits()));
            }
            (Cell::Bool(value), _) => out.push(if value { 0xc3 } else { 0xc2 }),
            (Cell::Text(value), _) => push_text(value, out),
            (Cell::Time(time, _), Times::Integers(unit)) => push_int(time / unit.max(1), out),
            (Cell::Time(time, _), Times::Text) => push_time(time, out),
        }
    }
}

impl Encode for MessagePack {
    fn begin(&mut self, results: usize, out: &mut Vec<u8>) {
        push_map(1, out);
        push_text("results", out);
        push_array(results, out);
    }

    fn begin_result(&mut self, statement: usize, messages: &[Message], out: &mut Vec<u8>) {
        self.result_at = out.len();
        self.members = 2;
        push_map(0, out);
        push_text("statement_id", out);
        push_unsigned(statement as u64, out);
        if !messages.is_empty() {
            self.members += 1;
            push_text("messages", out);
            push_array(messages.len(), out);
            for message in messages {
                push_map(2, out);
                push_text("level", out);
                push_text(message.level, out);
                push_text("text", out);
                push_text(&message.text, out);
            }
        }
        push_text("series", out);
        self.series = OpenArray::begin(out);
    }

    fn begin_series(&mut self, head: &SetHead, columns: &SchemaRef, out: &mut Vec<u8>) {
        self.series.length += 1;
        self.series_at = out.len();
        self.series_members = 2;
        push_map(0, out);
        if !head.name.is_empty() {
            self.series_members += 1;
            push_text("name", out);
            push_text(&head.name, out);
        }
        if !head.tags.is_empty() {
            self.series_members += 1;
            push_text("tags", out);
            push_long_map(head.tags.len(), out);
            for (name, value) in &head.tags {
                push_text(name, out);
                push_text(value, out);
            }
        }
        push_text("columns", out);
        push_array(columns.fields().len(), out);
        for column in columns.fields() {
            push_text(column.name(), out);
        }
        push_text("values", out);
        self.values = OpenArray::begin(out);
    }

    fn rows(&mut self, batch: &Arc<RecordBatch>, rows: Range<usize>, out: &mut Vec<u8>) {
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.values.length = self.values.length.saturating_add(count);
        let mut known = std::mem::take(&mut self.known);
        let cells = known.of(batch);
        let is_done = rows.end == batch.num_rows();
        for row in rows {
            push_array(cells.len(), out);
            for cells in cells {
                self.cell(cells.cell(row), out);
            }
        }
        if !is_done {
            self.known = known;
        }
    }

    fn end_series(&mut self, is_partial: bool, out: &mut Vec<u8>) {
        self.values.end(out);
        if is_partial {
            self.series_members += 1;
            push_text("partial", out);
            out.push(0xc3);
        }
        set_map(self.series_at, self.series_members, out);
    }

    fn take_back_result(&mut self) {}

    fn end_result(&mut self, end: ResultEnd<'_>, out: &mut Vec<u8>) {
        if let Some(text) = end.error {
            out.truncate(self.result_at);
            push_error(text, out);
            return;
        }
        self.series.end(out);
        if end.is_partial {
            self.members += 1;
            push_text("partial", out);
            out.push(0xc3);
        }
        set_map(self.result_at, self.members, out);
    }

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn holds_results(&self) -> bool {
        true
    }
}

/// The head of a map of fewer than 16 members.
fn push_map(members: u8, out: &mut Vec<u8>) {
    out.push(0x80 | members);
}

fn set_map(at: usize, members: u8, out: &mut [u8]) {
    if let Some(head) = out.get_mut(at) {
        *head = 0x80 | members;
    }
}

fn push_long_map(members: usize, out: &mut Vec<u8>) {
    match u8::try_from(members) {
        Ok(members) if members < 16 => push_map(members, out),
        _ => {
            out.push(0xdf);
            out.extend_from_slice(&be32(u32::try_from(members).unwrap_or(u32::MAX)));
        }
    }
}

fn push_array(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(length) if length < 16 => out.push(0x90 | length),
        _ => {
            out.push(0xdd);
            out.extend_from_slice(&be32(u32::try_from(length).unwrap_or(u32::MAX)));
        }
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    let length = text.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) if length < 32 => out.push(0xa0 | length),
        (Ok(length), _) => out.extend_from_slice(&[0xd9, length]),
        (_, Ok(length)) => {
            out.push(0xda);
            out.extend_from_slice(&[(length >> 8) as u8, (length & 0xff) as u8]);
        }
        _ => {
            out.push(0xdb);
            out.extend_from_slice(&be32(u32::try_from(length).unwrap_or(u32::MAX)));
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn push_int(value: i64, out: &mut Vec<u8>) {
    if let Ok(value) = u64::try_from(value) {
        push_unsigned(value, out);
    } else if let Ok(small) = i8::try_from(value)
        && small >= -32
    {
        out.push(small.cast_unsigned());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&be64(value.cast_unsigned()));
    }
}

fn push_unsigned(value: u64, out: &mut Vec<u8>) {
    match u8::try_from(value) {
        Ok(value) if value < 128 => out.push(value),
        _ => {
            out.push(0xcf);
            out.extend_from_slice(&be64(value));
        }
    }
}

/// Twelve bytes: seconds since 1970, then nanoseconds.
fn push_time(time_ns: i64, out: &mut Vec<u8>) {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let nanoseconds = u32::try_from(time_ns.rem_euclid(SECOND_NS)).unwrap_or(0);
    out.extend_from_slice(&[0xc7, 12, 5]);
    out.extend_from_slice(&be64(seconds.cast_unsigned()));
    out.extend_from_slice(&be32(nanoseconds));
}

/// The format has the most significant byte first.
fn be32(value: u32) -> [u8; 4] {
    let mut bytes = value.to_le_bytes();
    bytes.reverse();
    bytes
}

fn be64(value: u64) -> [u8; 8] {
    let mut bytes = value.to_le_bytes();
    bytes.reverse();
    bytes
}
