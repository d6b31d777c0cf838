//! JSON: `{"results":[{"statement_id":0,"series":[{"name","tags","columns","values"}]}]}`, empty members left out.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use nilometer_service::SetHead;

use super::cells::{Cell, Cells};
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
    /// The columns of the last series as they were written, which are those of most others.
    columns: Option<(SchemaRef, Vec<u8>)>,
}

/// A batch that rows are written of.
#[derive(Debug)]
struct Known {
    batch: Arc<RecordBatch>,
    columns: Vec<Column>,
    /// `None` = it was not looked for any.
    repeated: Option<Vec<Repeated>>,
}

#[derive(Debug)]
struct Column {
    cells: Cells,
    /// If there are few.
    words: Option<Words>,
}

impl Known {
    fn of(batch: &Arc<RecordBatch>) -> Self {
        let columns = Cells::of(batch).into_iter().map(|cells| Column {
            words: cells.few_words().map(Words::of),
            cells,
        });
        Self {
            batch: Arc::clone(batch),
            columns: columns.collect(),
            repeated: None,
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

    fn row(
        &mut self,
        columns: &[Column],
        repeated: &mut [Repeated],
        row: usize,
        out: &mut Vec<u8>,
    ) {
        self.text.element(out);
        if self.text.is_pretty {
            self.text.open(b'[', out);
            for column in columns {
                self.text.element(out);
                self.cell(column.cells.cell(row), out);
            }
            self.text.close(b']', out);
            return;
        }
        out.push(b'[');
        let mut next = 0;
        for repeated in repeated {
            self.cells(columns, next..repeated.columns.start, row, out);
            next = repeated.columns.end;
            let begin = out.len();
            match &repeated.last {
                Some(last) if repeated.rows.get(row) == Some(&true) => {
                    out.extend_from_within(last.clone());
                }
                _ => self.cells(columns, repeated.columns.clone(), row, out),
            }
            repeated.last = Some(begin..out.len());
        }
        self.cells(columns, next..columns.len(), row, out);
        out.push(b']');
    }

    /// Some columns of a row, with a comma before each but the first of all.
    fn cells(&self, all: &[Column], columns: Range<usize>, row: usize, out: &mut Vec<u8>) {
        let first = columns.start;
        let own = all.get(columns).unwrap_or_default();
        for (nth, column) in own.iter().enumerate() {
            if first + nth > 0 {
                out.push(b',');
            }
            if let Some(words) = &column.words
                && let Some(word) = column.cells.word(row)
            {
                out.extend_from_slice(words.get(word));
                continue;
            }
            self.cell(column.cells.cell(row), out);
        }
    }
}

/// Fewer rows are not looked at for repetitions.
const REPEATED_ROWS_MIN: usize = 8;

/// Columns of words that stand side by side. Rows of one series come one after the other, so that most have the words of the
/// row before.
#[derive(Debug)]
struct Repeated {
    columns: Range<usize>,
    /// By row: whether all of them are those of the row before.
    rows: Vec<bool>,
    /// Where the last row's are in what is written; `None` = they may not be there any more.
    last: Option<Range<usize>>,
}

impl Repeated {
    /// Those of a batch, as far as it pays.
    fn of(all: &[Column], rows: usize) -> Vec<Self> {
        let mut found = Vec::new();
        let mut first = 0;
        for run in all.chunk_by(|one, other| one.words.is_some() == other.words.is_some()) {
            let columns = first..first + run.len();
            first = columns.end;
            if run.first().is_none_or(|column| column.words.is_none()) {
                continue;
            }
            let mut repeats = vec![true; rows];
            for column in run {
                column.cells.compare_with_rows_before(&mut repeats);
            }
            if repeats.iter().filter(|it| **it).count() * 2 > rows {
                found.push(Self {
                    columns,
                    rows: repeats,
                    last: None,
                });
            }
        }
        found
    }
}

/// The words of a column as JSON, each written once.
#[derive(Debug)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    fn of(texts: &StringArray) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(texts.len()));
        for text in texts {
            push_json_text(text.unwrap_or_default(), &mut bytes);
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    #[inline]
    fn get(&self, word: usize) -> &[u8] {
        let start = word.checked_sub(1).and_then(|before| self.ends.get(before));
        let range = start.copied().unwrap_or(0)..self.ends.get(word).copied().unwrap_or(0);
        self.bytes.get(range).unwrap_or_default()
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
        let mut known = known.unwrap_or_else(|| Known::of(batch));
        let Known {
            columns, repeated, ..
        } = &mut known;
        let repeated = if rows.len() < REPEATED_ROWS_MIN {
            &mut Vec::new()
        } else {
            repeated.get_or_insert_with(|| Repeated::of(columns, batch.num_rows()))
        };
        for repeated in &mut *repeated {
            repeated.last = None;
        }
        let is_done = rows.end == batch.num_rows();
        for row in rows {
            self.row(columns, repeated, row, out);
        }
        if !is_done {
            self.known = Some(known);
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
