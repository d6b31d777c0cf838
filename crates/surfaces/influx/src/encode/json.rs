//! JSON: `{"results":[{"statement_id":0,"series":[{"name","tags","columns","values"}]}]}`, empty members left out.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use nilometer_service::SetHead;

use super::cells::{Cell, Cells};
use super::json_rows::{Kept, Rows};
use super::number::{push_int, push_json_float, push_unsigned};
use super::text::push_json_text;
use super::time::{Times, push_epoch, push_rfc3339};
use super::{Encode, Message, ResultEnd};

/// A document that is nothing but an error.
pub(super) fn error(text: &str, is_pretty: bool) -> Vec<u8> {
    let (mut json, mut out) = (JsonText::new(is_pretty), Vec::new());
    json.open(b'{', &mut out);
    json.text_member("error", text, &mut out);
    json.close(b'}', &mut out);
    out.push(b'\n');
    out
}

/// Brackets, commas and, for people, lines.
#[derive(Debug)]
pub(crate) struct JsonText {
    is_pretty: bool,
    depth: usize,
    /// The bracket that was opened last has nothing in it yet.
    is_empty: bool,
}

impl JsonText {
    pub(crate) fn new(is_pretty: bool) -> Self {
        Self {
            is_pretty,
            depth: 0,
            is_empty: true,
        }
    }

    pub(crate) fn open(&mut self, bracket: u8, out: &mut Vec<u8>) {
        out.push(bracket);
        self.depth += 1;
        self.is_empty = true;
    }

    pub(crate) fn close(&mut self, bracket: u8, out: &mut Vec<u8>) {
        self.depth -= 1;
        if !self.is_empty {
            self.line(out);
        }
        out.push(bracket);
        self.is_empty = false;
    }

    /// Before each element.
    pub(crate) fn element(&mut self, out: &mut Vec<u8>) {
        if !self.is_empty {
            out.push(b',');
        }
        self.is_empty = false;
        self.line(out);
    }

    /// Before the value of each member.
    pub(crate) fn member(&mut self, name: &str, out: &mut Vec<u8>) {
        self.element(out);
        push_json_text(name, out);
        out.push(b':');
        if self.is_pretty {
            out.push(b' ');
        }
    }

    pub(crate) fn text_member(&mut self, name: &str, value: &str, out: &mut Vec<u8>) {
        self.member(name, out);
        push_json_text(value, out);
    }

    fn line(&self, out: &mut Vec<u8>) {
        if self.is_pretty {
            out.push(b'\n');
            out.resize(out.len() + 4 * self.depth, b' ');
        }
    }
}

/// Writes JSON.
#[derive(Debug)]
pub(crate) struct Json {
    text: JsonText,
    times: Times,
    messages: Vec<Message>,
    has_series: bool,
    is_in_series: bool,
    has_rows: bool,
    /// Depth, and whether it was the first, where the result began.
    result_began: (usize, bool),
    /// The batch that rows were taken from last, if others are to be taken from it: series of few rows share one.
    known: Option<Known>,
    /// What was written of the words of the batch before.
    kept: Option<Kept>,
    /// The columns of the last series as they were written, which are those of most others.
    columns: Option<(SchemaRef, Vec<u8>)>,
}

/// A batch that rows are written of.
#[derive(Debug)]
struct Known {
    batch: Arc<RecordBatch>,
    rows: Written,
}

/// How they are written.
#[derive(Debug)]
enum Written {
    OnOneLine(Rows),
    ForPeople(Vec<Cells>),
}

impl Known {
    fn of(
        batch: &Arc<RecordBatch>,
        before: Option<Kept>,
        (times, is_pretty): (Times, bool),
    ) -> Self {
        let columns = Cells::of(batch);
        Self {
            batch: Arc::clone(batch),
            rows: if is_pretty {
                Written::ForPeople(columns)
            } else {
                Written::OnOneLine(Rows::of(columns, batch.num_rows(), times, before))
            },
        }
    }
}

impl Json {
    pub(crate) fn new(times: Times, is_pretty: bool) -> Self {
        Self {
            text: JsonText::new(is_pretty),
            times,
            messages: Vec::new(),
            has_series: false,
            is_in_series: false,
            has_rows: false,
            result_began: (0, true),
            known: None,
            kept: None,
            columns: None,
        }
    }

    fn cell(&self, cell: Cell<'_>, out: &mut Vec<u8>) {
        match (cell, self.times) {
            (Cell::Null, _) => out.extend_from_slice(b"null"),
            (Cell::Int(value), _) => push_int(value, out),
            (Cell::Unsigned(value), _) => push_unsigned(value, out),
            (Cell::Float(value), _) => push_json_float(value, out),
            (Cell::Bool(value), _) => {
                out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            (Cell::Text(value), _) => push_json_text(value, out),
            (Cell::Time(time, _), Times::Integers(unit)) => push_epoch(time, unit, out),
            (Cell::Time(time, zone), Times::Text) => {
                out.push(b'"');
                push_rfc3339(time, zone, out);
                out.push(b'"');
            }
        }
    }

    /// The names of the columns of a series.
    fn columns(&mut self, columns: &SchemaRef, out: &mut Vec<u8>) {
        let known = self.columns.as_ref().filter(|_| !self.text.is_pretty);
        if let Some((schema, text)) = known
            && Arc::ptr_eq(schema, columns)
        {
            self.text.element(out);
            out.extend_from_slice(text);
            return;
        }
        let begin = out.len();
        self.text.member("columns", out);
        self.text.open(b'[', out);
        for column in columns.fields() {
            self.text.element(out);
            push_json_text(column.name(), out);
        }
        self.text.close(b']', out);
        let text = out.get(begin..).unwrap_or_default();
        let text = text.strip_prefix(b",").unwrap_or(text).to_vec();
        self.columns = Some((SchemaRef::clone(columns), text));
    }

    /// A row with a line for each of its cells.
    fn row_for_people(&mut self, columns: &[Cells], row: usize, out: &mut Vec<u8>) {
        self.text.open(b'[', out);
        for column in columns {
            self.text.element(out);
            self.cell(column.cell(row), out);
        }
        self.text.close(b']', out);
    }
}

impl Encode for Json {
    fn begin(&mut self, results: usize, out: &mut Vec<u8>) {
        self.text = JsonText::new(self.text.is_pretty);
        self.text.open(b'{', out);
        if results > 0 {
            self.text.member("results", out);
            self.text.open(b'[', out);
        }
    }

    fn begin_result(&mut self, statement: usize, messages: &[Message], out: &mut Vec<u8>) {
        self.messages = messages.to_vec();
        self.has_series = false;
        self.is_in_series = false;
        self.result_began = (self.text.depth, self.text.is_empty);
        self.text.element(out);
        self.text.open(b'{', out);
        self.text.member("statement_id", out);
        push_unsigned(statement as u64, out);
    }

    fn begin_series(&mut self, head: &SetHead, columns: &SchemaRef, out: &mut Vec<u8>) {
        if !self.has_series {
            self.text.member("series", out);
            self.text.open(b'[', out);
            self.has_series = true;
        }
        self.text.element(out);
        self.text.open(b'{', out);
        if !head.name.is_empty() {
            self.text.text_member("name", &head.name, out);
        }
        if !head.tags.is_empty() {
            self.text.member("tags", out);
            self.text.open(b'{', out);
            for (name, value) in &head.tags {
                self.text.text_member(name, value, out);
            }
            self.text.close(b'}', out);
        }
        if !columns.fields().is_empty() {
            self.columns(columns, out);
        }
        self.has_rows = false;
        self.is_in_series = true;
    }

    fn rows(&mut self, batch: &Arc<RecordBatch>, rows: Range<usize>, out: &mut Vec<u8>) {
        if !rows.is_empty() && !self.has_rows {
            self.has_rows = true;
            self.text.member("values", out);
            self.text.open(b'[', out);
        }
        let known = self.known.take();
        let known = known.filter(|known| Arc::ptr_eq(&known.batch, batch));
        let form = (self.times, self.text.is_pretty);
        let mut known = known.unwrap_or_else(|| Known::of(batch, self.kept.take(), form));
        let is_done = rows.end == batch.num_rows();
        for row in rows {
            self.text.element(out);
            match &mut known.rows {
                Written::OnOneLine(rows) => rows.push(row, out),
                Written::ForPeople(columns) => self.row_for_people(columns, row, out),
            }
        }
        match known.rows {
            Written::OnOneLine(rows) if is_done => self.kept = Some(rows.kept()),
            Written::ForPeople(_) if is_done => {}
            _ => self.known = Some(known),
        }
    }

    fn end_series(&mut self, is_partial: bool, out: &mut Vec<u8>) {
        if self.has_rows {
            self.text.close(b']', out);
        }
        if is_partial {
            self.text.member("partial", out);
            out.extend_from_slice(b"true");
        }
        self.text.close(b'}', out);
        self.is_in_series = false;
    }

    fn take_back_result(&mut self) {
        (self.text.depth, self.text.is_empty) = self.result_began;
    }

    fn end_result(&mut self, end: ResultEnd<'_>, out: &mut Vec<u8>) {
        if self.is_in_series {
            self.end_series(false, out);
        }
        if self.has_series {
            self.text.close(b']', out);
        }
        if !self.messages.is_empty() {
            self.text.member("messages", out);
            self.text.open(b'[', out);
            for message in std::mem::take(&mut self.messages) {
                self.text.element(out);
                self.text.open(b'{', out);
                self.text.text_member("level", message.level, out);
                self.text.text_member("text", &message.text, out);
                self.text.close(b'}', out);
            }
            self.text.close(b']', out);
        }
        if end.is_partial {
            self.text.member("partial", out);
            out.extend_from_slice(b"true");
        }
        if let Some(error) = end.error {
            self.text.text_member("error", error, out);
        }
        self.text.close(b'}', out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.text.depth > 1 {
            self.text.close(b']', out);
        }
        self.text.close(b'}', out);
        out.push(b'\n');
    }
}
