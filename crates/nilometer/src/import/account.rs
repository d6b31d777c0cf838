//! What became of an import so far: what is in, what was rejected, from where it goes on.
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
use super::input::Input;
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
    inputs: Vec<(String, u64, Option<u64>)>,
    rows: u64,
    rejects: Rejects,
    error: Option<anyhow::Error>,
    read_errors: Vec<anyhow::Error>,
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
            bar: print::byte_bar("import", inputs.iter().map(|input| input.bytes).sum()),
            state,
            state_path,
            wants_state,
            written_at: Instant::now(),
            inputs: inputs.iter().map(|input| (input.name(), 0, None)).collect(),
            rows: 0,
            rejects,
            error: None,
            read_errors: Vec::new(),
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
                    known.2 = Some(batches);
                }
                self.finish_input(input);
                Ok(())
            }
            Event::Read(_, _, Err(error)) if error.is::<Stopped>() => Ok(()),
            Event::Read(_, _, Err(error)) => {
                self.read_errors.push(error);
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
        let name = self.inputs.get_mut(batch.input).map(|known| {
            known.1 += 1;
            known.0.clone()
        });
        let name = name.unwrap_or_default();
        self.rejects
            .add(&name, &batch.rejected, batch.rejected.len() as u64)?;
        self.rejects
            .add(&name, &written.rejected, written.rejected_total)?;
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
        let all_in = matches!(self.inputs.get(input), Some((_, sent, Some(all))) if sent == all);
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

    /// Says what was done.
    pub(super) fn finish(mut self, begun: Instant) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let seconds = begun.elapsed().as_secs_f64();
        let rate = format!("{:.0}", self.rows as f64 / seconds.max(1e-9));
        print::line(format!(
            "imported {} rows in {seconds:.1} s ({} rows/s)",
            thousands(self.rows),
            print::grouped(&rate),
        ));
        if let Some(error) = self.error.take() {
            let written = self.state.is_some() && self.write_state().is_ok();
            let hint = if written {
                "; run the same command again with --resume to go on from here"
            } else {
                ""
            };
            return Err(error.context(format!("the import broke off{hint}")));
        }
        if self.read_errors.is_empty()
            && let Some(path) = &self.state_path
        {
            // It is not there unless the import took a while or was resumed.
            drop(std::fs::remove_file(path));
        }
        for error in &self.read_errors {
            print::note(format!("not read to the end: {error:#}\n"));
        }
        self.rejects.finish()?;
        match self.read_errors.len() {
            0 => Ok(()),
            1 => bail!("one input could not be read; the rest is imported"),
            n => bail!("{n} inputs could not be read; the rest is imported"),
        }
    }
}
