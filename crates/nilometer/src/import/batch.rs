//! What travels from readers to senders, and what comes back.

use std::cell::Cell;
use std::sync::mpsc::SyncSender;

use anyhow::{Context, bail};

/// Rows of one file, as line protocol.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which of the inputs.
    pub(super) input: usize,
    /// Where in the input it begins and ends: bytes of line protocol, records of CSV, rows of Parquet.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) text: Vec<u8>,
    pub(super) rows: u64,
    pub(super) lines: Lines,
    /// Rows that did not even become line protocol.
    pub(super) rejected: Vec<Reject>,
    /// Values that line protocol has no text for.
    pub(super) values_left_out: u64,
}

/// From lines of a batch to lines of its file.
#[derive(Debug)]
pub(super) enum Lines {
    /// The first one has this number.
    From(u64),
    /// Each has its own.
    Listed(Vec<u64>),
}

impl Lines {
    /// The place in the file of the n-th line of the batch, both counted from 1.
    pub(super) fn of(&self, line: u64) -> u64 {
        let at = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        match self {
            Self::From(first) => first + line.saturating_sub(1),
            Self::Listed(lines) => lines.get(at).or(lines.last()).copied().unwrap_or(0),
        }
    }

    /// The place of the line after the batch, for text that is counted through.
    pub(super) fn after(&self, text: &[u8]) -> u64 {
        match self {
            Self::From(first) => first + memchr::memchr_iter(b'\n', text).count() as u64,
            Self::Listed(_) => 0,
        }
    }
}

/// A row that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reject {
    pub(super) line: u64,
    pub(super) text: String,
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

/// The way to the senders. An error = they have given up, and why is theirs to tell.
#[derive(Debug)]
pub(super) struct Outlet {
    sender: SyncSender<Batch>,
    sent: Cell<u64>,
}

impl Outlet {
    pub(super) fn new(sender: SyncSender<Batch>) -> Self {
        Self {
            sender,
            sent: Cell::new(0),
        }
    }

    pub(super) fn send(&self, batch: Batch) -> anyhow::Result<()> {
        self.sender.send(batch).ok().context(Stopped)?;
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
pub(super) fn parse_type(text: &str) -> anyhow::Result<(String, crate::lines::Kind)> {
    use crate::lines::Kind;
    let kinds = [
        Kind::Float,
        Kind::Integer,
        Kind::Unsigned,
        Kind::Boolean,
        Kind::Text,
    ];
    let Some((name, kind)) = text.rsplit_once('=') else {
        bail!("write it as COLUMN=TYPE, as in temperature=float");
    };
    match kinds.into_iter().find(|known| known.name() == kind) {
        Some(kind) if !name.is_empty() => Ok((name.to_owned(), kind)),
        _ => bail!("{kind:?} is no type: use float, integer, unsigned, boolean or text"),
    }
}
