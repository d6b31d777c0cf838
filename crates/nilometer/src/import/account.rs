//! The account of an import: rows written, rows rejected, where to resume.
//!
//! Does: count what senders and the reader report, move the bar, write the state down, say at the end what was done. Does
//! not: read or send.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use indicatif::ProgressBar;

use super::batch::{Batch, Start, Stopped};
use super::input::{FileFormat, Input};
use super::rejects::Rejects;
use super::send::Written;
use super::state::State;
use crate::print::{self, thousands};

/// How often the state of an import is written down.
const STATE_PERIOD: Duration = Duration::from_secs(1);

/// What senders and the reader report.
pub(super) enum Event {
    /// A batch was sent, or could not be.
    Sent(Batch, anyhow::Result<Written>),
    /// An input was read to its end in so many batches, or could not be.
    Read(usize, u64, anyhow::Result<()>),
}

/// What became of everything so far.
pub(super) struct Account {
    /// Bytes read of all files, as they lie there.
    read: Arc<AtomicU64>,
    bar: ProgressBar,
    state: Option<State>,
    state_path: Option<PathBuf>,
    /// The user wants the state, so that failing to write it is an error.
    wants_state: bool,
    written_at: Instant,
    /// Per input: batches that are in, and how many there are when that is known.
    inputs: Vec<Progress>,
    rows: u64,
    rejects: Rejects,
    error: Option<anyhow::Error>,
    /// Inputs that could not be read to their end.
    read_errors: Vec<(usize, anyhow::Error)>,
}

/// How far an input is.
struct Progress {
    name: String,
    format: FileFormat,
    sent: u64,
    all: Option<u64>,
    /// Rows that are in, of those that this run sent.
    rows: u64,
}

impl Account {
    pub(super) fn new(
        inputs: &[Input],
        state: Option<State>,
        state_path: Option<PathBuf>,
        wants_state: bool,
        rejects: Rejects,
    ) -> Self {
        Self {
            read: Arc::default(),
            bar: print::files::byte_bar("import", inputs.iter().map(|input| input.bytes).sum()),
            state,
            state_path,
            wants_state,
            written_at: Instant::now(),
            inputs: inputs
                .iter()
                .map(|input| Progress {
                    name: input.name(),
                    format: input.format,
                    sent: 0,
                    all: None,
                    rows: 0,
                })
                .collect(),
            rows: 0,
            rejects,
            error: None,
            read_errors: Vec::new(),
        }
    }

    /// Makes the import one that can go on, before any of it is sent: what is sent has the number of the import in its
    /// keys, and a number that nobody remembers would be another one the next time.
    pub(super) fn begin(&self) -> anyhow::Result<()> {
        let (Some(state), Some(path)) = (&self.state, &self.state_path) else {
            return Ok(());
        };
        match state.write(path) {
            Err(error) if self.wants_state => Err(error),
            Err(error) => {
                print::note(format!(
                    "note: an import that breaks off cannot go on: {}\n",
                    print::told(&error)
                ));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Counts the bytes read of all inputs, for the bar.
    pub(super) fn read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    pub(super) fn start(&self, input: usize) -> Option<Start> {
        match &self.state {
            Some(state) => state.start(input),
            None => Some(Start { at: 0, line: 1 }),
        }
    }

    /// Counts an event; `false` = there is no sense in going on.
    pub(super) fn note(&mut self, event: Event) -> bool {
        let done = match event {
            Event::Sent(batch, Ok(written)) => self.add(&batch, &written),
            Event::Sent(_, Err(error)) => Err(error),
            Event::Read(input, batches, Ok(())) => {
                if let Some(known) = self.inputs.get_mut(input) {
                    known.all = Some(batches);
                }
                self.finish_input(input);
                Ok(())
            }
            Event::Read(_, _, Err(error)) if error.is::<Stopped>() => Err(error),
            Event::Read(input, _, Err(error)) => {
                self.read_errors.push((input, error));
                Ok(())
            }
        };
        if let Err(error) = done {
            // The first is the reason, and the others follow from it.
            self.error.get_or_insert(error);
        }
        self.error.is_none()
    }

    fn add(&mut self, batch: &Batch, written: &Written) -> anyhow::Result<()> {
        self.rows += written.rows;
        if let Some(input) = self.inputs.get_mut(batch.input) {
            input.sent += 1;
            input.rows += written.rows;
            let (name, format) = (&input.name, input.format);
            let unreadable = batch.rejected.len() as u64;
            self.rejects
                .add(name, format, &batch.rejected, unreadable)?;
            self.rejects
                .add(name, format, &written.rejected, written.rejected_total)?;
        }
        if let Some(state) = &mut self.state {
            state.add(batch);
            state.rows += written.rows;
            state.rejected = self.rejects.total();
        }
        self.finish_input(batch.input);
        self.bar.set_position(self.read.load(Ordering::Relaxed));
        self.bar
            .set_message(format!("{} rows", thousands(self.rows)));
        if self.written_at.elapsed() >= STATE_PERIOD {
            self.written_at = Instant::now();
            self.write_state()?;
        }
        Ok(())
    }

    fn finish_input(&mut self, input: usize) {
        let known = self.inputs.get(input);
        let all_in = known.is_some_and(|known| known.all == Some(known.sent));
        if let (true, Some(state)) = (all_in, &mut self.state) {
            state.finish(input);
        }
    }

    fn write_state(&self) -> anyhow::Result<()> {
        let (Some(state), Some(path)) = (&self.state, &self.state_path) else {
            return Ok(());
        };
        match state.write(path) {
            Err(error) if self.wants_state => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether everything is in that could be read.
    pub(super) fn is_done(&self) -> bool {
        self.error.is_none() && self.read_errors.is_empty()
    }

    /// Says what was done: how many rows, and then `more`.
    pub(super) fn finish(mut self, begun: Instant, more: &[String]) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let seconds = begun.elapsed().as_secs_f64();
        let rate = format!("{:.0}", self.rows as f64 / seconds.max(1e-9));
        print::line(format!(
            "imported {} rows in {seconds:.1} s ({} rows/s)",
            thousands(self.rows),
            print::grouped(&rate),
        ));
        for line in more {
            print::line(line);
        }
        if let Some(error) = self.error.take() {
            let written = self.state.is_some() && self.write_state().is_ok();
            let next = resuming();
            // Whoever stops it reads the last line.
            return Err(match (error.is::<Stopped>(), written) {
                (true, true) => {
                    anyhow::anyhow!("the import was stopped; to go on from here: {next}")
                }
                (true, false) => anyhow::anyhow!(
                    "the import was stopped, and what is in is in; there is no state of it to go on from"
                ),
                (false, true) => {
                    anyhow::anyhow!(
                        "the import broke off: {}; to go on from here: {next}",
                        print::told(&error)
                    )
                }
                (false, false) => error.context("the import broke off"),
            });
        }
        if self.read_errors.is_empty()
            && let Some(path) = &self.state_path
        {
            // It is not there if the folder takes no files.
            drop(std::fs::remove_file(path));
        } else {
            // What could not be read may be mended, and the rest need not be sent again.
            drop(self.write_state());
        }
        let mut read = 0;
        for (input, error) in &self.read_errors {
            let rows = self.inputs.get(*input).map_or(0, |input| input.rows);
            read += rows;
            let kept = match rows {
                0 => "nothing of it is imported".to_owned(),
                1 => format!("1 row of it is imported; {GO_ON}"),
                rows => format!("{} rows of it are imported; {GO_ON}", thousands(rows)),
            };
            print::note(format!(
                "not read to the end: {}\n    {kept}\n",
                print::told(error)
            ));
        }
        self.rejects.finish(self.read_errors.is_empty())?;
        let kept = match read {
            0 => "nothing of what it has is imported",
            _ => "the rows before that place are imported",
        };
        let others = match self.inputs.len() - self.read_errors.len() {
            0 => "",
            _ => "; the other inputs were read to their ends",
        };
        match self.read_errors.len() {
            0 => Ok(()),
            1 => bail!("one input could not be read to its end; {kept}{others}"),
            n => bail!("{n} inputs could not be read to their ends; {kept}{others}"),
        }
    }
}

/// What to do about an input of which only the beginning is in.
const GO_ON: &str =
    "take a whole copy, and import from it what comes after them, or all of it into a new table";

/// The command that goes on, as it can be typed.
fn resuming() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let mut words: Vec<String> = Vec::new();
    for word in std::env::args_os() {
        let word = word.to_string_lossy();
        let is_token = words.last().is_some_and(|last| last == "--token");
        words.push(if is_token || word.starts_with("--token=") {
            // Nobody wants it in a terminal's history of lines.
            let flag = if is_token { "" } else { "--token=" };
            format!("{flag}...")
        } else if !word.is_empty() && word.chars().all(is_plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        });
    }
    if !words.iter().any(|word| word.starts_with("--resume")) {
        let end = words.iter().position(|word| word == "--");
        words.insert(end.unwrap_or(words.len()), "--resume".to_owned());
    }
    words.join(" ")
}
