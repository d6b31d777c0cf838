//! Rows as they are read, in no order.
//!
//! Does: read some thousand rows of as many units as there are threads, and pass on those within the limits; cut a series that
//! alone has very many rows by time, so that no more than a slice of it is held; part itself, for callers who read with threads
//! of their own. Does not: sort, or gather.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use nilometer_engine::{Narrowing, Snapshot};

use super::parallel;
use super::project::{Piece, Projection};
use super::sort::{Ordered, Sorter, within};
use crate::context::{BATCH_ROWS, Charge, Context};
use crate::error::Error;
use crate::input::{Inputs, Portion, Reading, Unit, Which};
use crate::query::{SeriesQuery, Window};

/// Rows that are read of a unit before another batch of answers is given: of a unit of usual size all.
const STEP_ROWS: usize = 64 * 1024;

/// What is read, shared by all who read it.
#[derive(Debug)]
pub(super) struct RowSource {
    snapshot: Snapshot,
    inputs: Inputs,
    projection: Projection,
    limit: Option<usize>,
    left: Mutex<Left>,
}

/// What nobody has taken yet.
#[derive(Debug)]
struct Left {
    reading: Arc<Reading>,
    /// Unit of the reading.
    next: usize,
    portions: VecDeque<Portion>,
}

/// A unit that somebody reads.
#[derive(Debug)]
struct Open {
    unit: Unit,
    /// Its pages are part of what was planned.
    _reading: Arc<Reading>,
}

impl RowSource {
    /// Rows of a reading, or in its place of portions of it.
    pub(super) fn new(
        snapshot: &Snapshot,
        (inputs, projection): (Inputs, Projection),
        (reading, portions): (Reading, Option<VecDeque<Portion>>),
        limit: Option<usize>,
    ) -> Self {
        let next = match &portions {
            Some(_) => reading.units(),
            None => 0,
        };
        Self {
            snapshot: snapshot.clone(),
            inputs,
            projection,
            limit,
            left: Mutex::new(Left {
                reading: Arc::new(reading),
                next,
                portions: portions.unwrap_or_default(),
            }),
        }
    }

    /// The next unit; `None` = there are no more.
    fn take(&self, context: &Context) -> Result<Option<Open>, Error> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while left.next >= left.reading.units() {
            let Some(portion) = left.portions.pop_front() else {
                return Ok(None);
            };
            let which = (self.limit, Which::Series(&portion.series));
            let range = portion.range;
            let none = Narrowing::None;
            let reading = self
                .inputs
                .read(&self.snapshot, range, &none, which, context)?;
            left.reading = Arc::new(reading);
            left.next = 0;
        }
        let (reading, number) = (Arc::clone(&left.reading), left.next);
        left.next += 1;
        drop(left);
        Ok(Some(Open {
            unit: self.inputs.open(&reading, number, context)?,
            _reading: reading,
        }))
    }

    /// The next rows of a unit, and whether there may be more.
    fn step(
        &self,
        open: &mut Open,
        (wanted, looked_at): (usize, usize),
        context: &Context,
    ) -> Result<(Vec<Piece>, bool), Error> {
        let (mut pieces, mut found, mut read) = (Vec::new(), 0, 0);
        while found < wanted && read < looked_at {
            let Some(next) = self.inputs.next(&mut open.unit, context)? else {
                return Ok((pieces, false));
            };
            read += next.rows;
            if next.chunk.rows() > 0 {
                found += next.chunk.rows();
                let by = (&self.inputs, &self.projection);
                pieces.push(Piece::of(next.chunk, by, context)?);
            }
        }
        Ok((pieces, true))
    }
}

/// Rows as they are read.
#[derive(Debug)]
pub(super) struct RowStream {
    source: Arc<RowSource>,
    rows_estimate: u64,
    workers: usize,
    open: Vec<Open>,
    ready: VecDeque<(RecordBatch, Charge)>,
    per_group: Window,
    overall: Window,
    /// Rows so far, by group, and those that were within their group's limit.
    seen: Vec<u64>,
    passed: u64,
}

impl RowStream {
    pub(super) fn new(
        query: &SeriesQuery,
        source: RowSource,
        context: &Context,
    ) -> Result<Self, Error> {
        let (rows_estimate, units) = {
            let left = source.left.lock().unwrap_or_else(PoisonError::into_inner);
            let units = left.reading.units().max(left.portions.len());
            (left.reading.rows_estimate, units)
        };
        let (per_group, overall) = (query.bound.per_group, query.bound.overall);
        // Who counts nothing needs no counters.
        let groups = if per_group.is_all() && overall.is_all() {
            0
        } else {
            source.inputs.groups.len()
        };
        Ok(Self {
            workers: context.workers(rows_estimate, units)?,
            source: Arc::new(source),
            rows_estimate,
            open: Vec::new(),
            ready: VecDeque::new(),
            per_group,
            overall,
            seen: vec![0; groups],
            passed: 0,
        })
    }

    pub(super) fn rows_estimate(&self) -> u64 {
        self.rows_estimate
    }

    /// Parts that together give the same rows, each to be read by one thread; itself alone if rows are counted.
    pub(super) fn parts(mut self, parts: usize) -> Vec<Self> {
        if !self.per_group.is_all() || !self.overall.is_all() || parts <= 1 {
            return vec![self];
        }
        self.workers = 1;
        let mut all = Vec::with_capacity(parts);
        for _ in 1..parts {
            all.push(Self {
                source: Arc::clone(&self.source),
                open: Vec::new(),
                ready: VecDeque::new(),
                seen: Vec::new(),
                ..self
            });
        }
        all.push(self);
        all
    }

    /// The next rows.
    pub(super) fn advance(&mut self, context: &Context) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some((batch, _)) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.passed >= self.overall.end() {
                return Ok(None);
            }
            let Some(pieces) = self.wave(context)? else {
                return Ok(None);
            };
            for piece in pieces {
                self.pass(piece);
            }
        }
    }

    pub(super) fn sorted(
        mut self,
        mut sorter: Sorter,
        context: &Context,
    ) -> Result<Ordered, Error> {
        while let Some(pieces) = self.wave(context)? {
            for Piece { batch, chunk, .. } in pieces {
                let keys = chunk.groups.iter().zip(&chunk.times).zip(&chunk.ties);
                sorter.push(
                    batch,
                    keys.map(|((group, time), tie)| (*group, *time, *tie)),
                )?;
            }
        }
        sorter.finish()
    }

    /// The next rows of as many units as there are threads for; `None` = there are no more.
    fn wave(&mut self, context: &Context) -> Result<Option<Vec<Piece>>, Error> {
        while self.open.len() < self.workers {
            match self.source.take(context)? {
                Some(open) => self.open.push(open),
                None => break,
            }
        }
        if self.open.is_empty() {
            return Ok(None);
        }
        // One thread gives what it has: another cannot be waiting for it.
        let wanted = if self.workers == 1 {
            BATCH_ROWS
        } else {
            usize::MAX
        };
        let open: Vec<Mutex<Open>> = self.open.drain(..).map(Mutex::new).collect();
        let steps = parallel::each(context, self.workers, 0..open.len(), |at| {
            match open.get(at) {
                Some(open) => {
                    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                    self.source.step(&mut open, (wanted, STEP_ROWS), context)
                }
                None => Ok((Vec::new(), false)),
            }
        })?;
        let mut pieces = Vec::new();
        for (open, (found, has_more)) in open.into_iter().zip(steps) {
            pieces.extend(found);
            if has_more {
                let open = open.into_inner();
                self.open.push(open.unwrap_or_else(PoisonError::into_inner));
            }
        }
        Ok(Some(pieces))
    }

    /// Passes on what is within the limits.
    fn pass(&mut self, piece: Piece) {
        if self.per_group.is_all() && self.overall.is_all() {
            self.ready.push_back((piece.batch, piece.charge));
            return;
        }
        let groups = piece.chunk.groups.iter().copied();
        let windows = (self.per_group, self.overall);
        let batch = within(
            piece.batch,
            groups,
            windows,
            &mut self.seen,
            &mut self.passed,
        );
        self.ready.extend(batch.map(|batch| (batch, piece.charge)));
    }
}
