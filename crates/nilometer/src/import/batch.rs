//! Messages between readers and senders of an import.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use nilometer_lineproto::Precision;

use super::format::exported::LinePlace;
use super::keys::Keys;
use crate::lines::FieldType;

/// A part of one file.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which of the inputs.
    pub(super) input: usize,
    /// Where in the input it begins and ends: bytes of line protocol, records of CSV, rows of Parquet.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) content: Content,
    /// Rows in it.
    pub(super) rows: u64,
    /// Rows of the part that are not in it, because they could not be read.
    pub(super) rejected: Vec<Reject>,
}

/// What is sent.
#[derive(Debug)]
pub(super) enum Content {
    /// Line protocol as it stands in the file, the number of its first line there, and the unit of its times.
    Lines {
        text: Vec<u8>,
        first: u64,
        precision: Precision,
        /// `None` = the file does not say it.
        place: Option<Arc<LinePlace>>,
    },
    /// Rows for a table.
    Rows { table: Arc<str>, rows: RecordBatch },
}

impl Batch {
    /// The place in the file of the n-th line of the batch, both counted from 1.
    pub(super) fn line(&self, nth: u64) -> u64 {
        match &self.content {
            Content::Lines { first, .. } => first + nth.saturating_sub(1),
            Content::Rows { .. } => self.begin + nth,
        }
    }

    /// The place of the line after the batch, for text that is counted through.
    pub(super) fn line_after(&self) -> u64 {
        match &self.content {
            Content::Lines { text, first, .. } => {
                first + memchr::memchr_iter(b'\n', text).count() as u64
            }
            Content::Rows { .. } => 0,
        }
    }

    /// The point that begins in the n-th line of the batch, counted from 1, as it stands in the file.
    pub(super) fn text_of_line(&self, nth: u64) -> Option<&[u8]> {
        let Content::Lines { text, .. } = &self.content else {
            return None;
        };
        let mut lines = nilometer_lineproto::Lines::new(text);
        let line = lines.find(|(number, _)| *number as u64 == nth)?.1;
        Some(line.trim_ascii_end())
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.content {
            Content::Lines { .. } => self.rows == 0,
            Content::Rows { rows, .. } => rows.num_rows() == 0,
        }
    }
}

/// A row that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reject {
    pub(super) line: u64,
    /// As it can be imported again.
    pub(super) text: Vec<u8>,
    /// What stands above such rows in a file, if anything does.
    pub(super) heading: Option<Arc<[u8]>>,
    pub(super) reason: String,
}

/// Where an import of a file goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// As [`Batch::begin`].
    pub(super) at: u64,
    /// Number of the line there, from 1; counted for line protocol only.
    pub(super) line: u64,
}

/// The way to the senders, or to nobody when rows are only counted. An error = they have given up, and why is theirs to
/// tell, or too many rows would merge.
#[derive(Debug)]
pub(super) struct Outlet<'a> {
    sender: Option<SyncSender<Batch>>,
    keys: &'a RefCell<Keys>,
    stop: &'a AtomicBool,
    sent: Cell<u64>,
}

impl<'a> Outlet<'a> {
    /// Once `stop` is true it takes nothing more.
    pub(super) fn new(
        sender: Option<SyncSender<Batch>>,
        keys: &'a RefCell<Keys>,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            sender,
            keys,
            stop,
            sent: Cell::new(0),
        }
    }

    pub(super) fn send(&self, batch: Batch) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stopped.into());
        }
        self.keys.borrow_mut().add(&batch)?;
        if let Some(sender) = &self.sender {
            sender.send(batch).ok().context(Stopped)?;
        }
        self.sent.set(self.sent.get() + 1);
        Ok(())
    }

    /// Batches sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.get()
    }
}

/// The senders have given up.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the import stopped")]
pub(super) struct Stopped;

/// `name=type` as an argument.
pub(super) fn parse_type(text: &str) -> anyhow::Result<(String, FieldType)> {
    let kinds = [
        FieldType::Float,
        FieldType::Integer,
        FieldType::Unsigned,
        FieldType::Boolean,
        FieldType::Text,
    ];
    let Some((name, kind)) = text.rsplit_once('=') else {
        bail!("write it as COLUMN=TYPE, as in temperature=float");
    };
    match kinds.into_iter().find(|known| known.name() == kind) {
        Some(kind) if !name.is_empty() => Ok((name.to_owned(), kind)),
        _ => bail!("{kind:?} is no type: use float, integer, unsigned, boolean or text"),
    }
}
