//! Series of the body at hand that the memo does not know.
//!
//! Does: collect their tags while the body is read, then find or define all of them at once, because a body may bring
//! ten thousand new series and every lock is taken once for many. Does not: define tables or columns; those are few and
//! are defined where they are met.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::memo::{Fingerprint, SeriesMemo};
use super::planned::{is_planned_column, is_planned_table};
use crate::budget::{Charge, MemoryUse};
use crate::catalogue::{Layers, is_own_series};
use crate::engine::{Engine, SERIES_BYTES, Transaction};
use crate::error::Error;
use crate::schema::{ColumnId, SeriesId, TableId};

/// Series defined under one lock: less than a millisecond, so that nobody waits long for it.
const SERIES_OF_ONE_LOCK: usize = 512;
/// Room that is kept for the next body.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Steps in which memory is charged; a body that brings less is not charged.
const CHARGE_STEP: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Pending {
    series: Vec<Wanted>,
    /// Of all wanted series, one after the other: tag and where its value starts and ends in `text`.
    tags: Vec<(ColumnId, usize, usize)>,
    text: String,
    by_text: FxHashMap<Fingerprint, usize>,
    tags_met: FxHashSet<ColumnId>,
    /// How many series there were when the new ones were counted last.
    counted: usize,
    /// Memory of the budget for all that, in whole steps.
    charge: Option<Charge>,
}

#[derive(Debug)]
struct Wanted {
    text: Fingerprint,
    table: TableId,
    slot: usize,
    /// In `Pending::tags`.
    tags_end: usize,
    /// Whether a row was kept; otherwise nothing needs the series.
    used: bool,
    id: Option<SeriesId>,
}

/// A tag of a series and its value.
type TagValues<'a> = Vec<(ColumnId, &'a str)>;

impl Pending {
    /// The table slot and the position of a series text, if it is waited for.
    pub(super) fn find(&self, text: Fingerprint) -> Option<(usize, usize)> {
        let at = *self.by_text.get(&text)?;
        Some((self.series.get(at)?.slot, at))
    }

    /// Adds a series; returns its position.
    pub(super) fn add(
        &mut self,
        text: Fingerprint,
        table: TableId,
        slot: usize,
        tags: &[(ColumnId, &str)],
    ) -> usize {
        let start = self.tags.len();
        for &(tag, value) in tags {
            let value_start = self.text.len();
            self.text.push_str(value);
            self.tags.push((tag, value_start, self.text.len()));
        }
        if let Some(own) = self.tags.get_mut(start..) {
            own.sort_unstable_by_key(|(tag, ..)| *tag);
        }
        let at = self.series.len();
        self.series.push(Wanted {
            text,
            table,
            slot,
            tags_end: self.tags.len(),
            used: false,
            id: None,
        });
        self.by_text.insert(text, at);
        at
    }

    /// Whether this is the first time that the body names a tag.
    pub(super) fn meets_tag(&mut self, tag: ColumnId) -> bool {
        self.tags_met.insert(tag)
    }

    /// A row of the series was kept.
    pub(super) fn mark_used(&mut self, at: usize) {
        if let Some(wanted) = self.series.get_mut(at) {
            wanted.used = true;
        }
    }

    /// The id of a used series, once [`Self::resolve`] returned.
    pub(super) fn id(&self, at: usize) -> Option<SeriesId> {
        self.series.get(at)?.id
    }

    /// Refuses a body that brings more new series than a batch may while it is read: a million of them take 150 MB before
    /// the last is read. They are counted now and then; what is known is found again by [`Self::resolve`].
    pub(super) fn check_new(&mut self, engine: &Engine) -> Result<(), Error> {
        let most = usize::try_from(engine.options().batch_series_max).unwrap_or(usize::MAX);
        if self.series.len() <= most.max(self.counted.saturating_mul(2)) {
            return Ok(());
        }
        self.counted = self.series.len();
        let layers = Arc::clone(engine.sequencer().catalogue().layers());
        match self.find_known(&layers, &self.used()) {
            Ok(new) => engine.site().check_batch_series(new.len() as u64),
            // Mended where they are resolved.
            Err(_) => Ok(()),
        }
    }

    /// Charges what the series take while they wait, and are counted in no other part of the budget.
    pub(super) fn charge(&mut self, engine: &Engine) -> Result<(), Error> {
        let charged = self.charge.as_ref().map_or(0, Charge::bytes);
        let missing = (self.bytes() as u64).saturating_sub(charged);
        let steps = missing / CHARGE_STEP as u64;
        if steps == 0 {
            return Ok(());
        }
        let charge = match &mut self.charge {
            Some(charge) => charge,
            none => none.insert(engine.budget().charge(MemoryUse::Batch, 0)?),
        };
        engine.charge_batch(charge, steps * CHARGE_STEP as u64)
    }

    /// Memory of what waits, with the room that grew for it.
    fn bytes(&self) -> usize {
        let entry = size_of::<(Fingerprint, usize)>() + 1;
        self.series.capacity() * size_of::<Wanted>()
            + self.tags.capacity() * size_of::<(ColumnId, usize, usize)>()
            + self.text.capacity()
            // A table has a seventh more places than it says.
            + self.by_text.capacity() * entry * 8 / 7
    }

    /// Whether all series of a body may be made that was read with names that have no ids yet.
    pub(super) fn check_all(&mut self, engine: &Engine) -> Result<(), Error> {
        let layers = Arc::clone(engine.sequencer().catalogue().layers());
        // What cannot be looked up in a damaged place is mended where the series are resolved.
        let Ok(new) = self.find_known(&layers, &self.used()) else {
            return Ok(());
        };
        engine.site().check_batch_series(new.len() as u64)?;
        engine.check_index((new.len() * SERIES_BYTES + self.text.len()) as u64)
    }

    fn used(&self) -> Vec<usize> {
        let is_used = |at: &usize| self.series.get(*at).is_some_and(|wanted| wanted.used);
        (0..self.series.len()).filter(is_used).collect()
    }

    /// Finds or defines all used series. False = something was dropped, renamed or retyped since `epoch`, at which they
    /// were added.
    pub(super) fn resolve(&mut self, engine: &Engine, epoch: u64) -> Result<bool, Error> {
        let mut missing = self.used();
        let mut is_checked = false;
        while !missing.is_empty() {
            // What is looked up below the recent series stays as it is until those are set aside for a flush.
            let layers = Arc::clone(engine.sequencer().catalogue().layers());
            missing = match self.find_known(&layers, &missing) {
                Ok(nowhere) => nowhere,
                Err(error) => {
                    // The answer is in a damaged place: it is known once what is left is in another file.
                    engine.mend_after(error)?;
                    continue;
                }
            };
            if !missing.is_empty() && !is_checked {
                engine.site().check_batch_series(missing.len() as u64)?;
                engine.check_index((missing.len() * SERIES_BYTES + self.text.len()) as u64)?;
                is_checked = true;
            }
            if !self.define(engine, epoch, &layers, &mut missing)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds all used series, or gives those that are not there ids that only a transaction knows.
    pub(super) fn resolve_own(&mut self, own: &Transaction) -> Result<(), Error> {
        let engine = own.engine();
        let wanted = self.used();
        let nowhere = loop {
            let layers = Arc::clone(engine.sequencer().catalogue().layers());
            match self.find_known(&layers, &wanted) {
                Ok(nowhere) => break nowhere,
                Err(error) => engine.mend_after(error)?,
            }
        };
        for at in nowhere {
            let (table, tags) = self.tags_of(at);
            let id = own.own_series(table, &tags)?;
            self.set_id(at, id);
        }
        Ok(())
    }

    /// Makes series that no layer below the recent one has, until none is missing or the layers are others. False =
    /// something was dropped, renamed or retyped.
    fn define(
        &mut self,
        engine: &Engine,
        epoch: u64,
        layers: &Layers,
        missing: &mut Vec<usize>,
    ) -> Result<bool, Error> {
        let mut is_same = true;
        while is_same && !missing.is_empty() {
            let rest = missing.split_off(missing.len().min(SERIES_OF_ONE_LOCK));
            let is_current = engine
                .sequencer()
                .define_together(epoch, |catalogue, made| {
                    is_same = catalogue.layers().is_as_recent_as(layers);
                    if !is_same {
                        return Ok(());
                    }
                    for &at in missing.iter() {
                        let (table, tags) = self.tags_of(at);
                        let id = catalogue
                            .define_series(table, &tags, made)
                            .map_err(|what| what.at(engine.dir(), 0))?;
                        self.set_id(at, id);
                    }
                    Ok(())
                })?;
            if !is_current {
                return Ok(false);
            }
            if is_same {
                *missing = rest;
            } else {
                missing.extend(rest);
            }
        }
        Ok(true)
    }

    /// Remembers what was resolved.
    pub(super) fn teach(&self, epoch: u64, memo: &mut SeriesMemo) {
        for wanted in &self.series {
            if let Some(id) = wanted.id
                && !is_own_series(id.0)
            {
                memo.insert(wanted.text, epoch, wanted.table, id);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Makes room for the next body.
    pub(super) fn clear(&mut self) {
        if self.bytes() > KEPT_BYTES_MAX {
            *self = Self::default();
            return;
        }
        self.charge = None;
        self.counted = 0;
        self.series.clear();
        self.tags.clear();
        self.text.clear();
        self.by_text.clear();
        self.tags_met.clear();
    }

    /// Those positions whose series are nowhere; the others get their ids.
    fn find_known(&mut self, layers: &Layers, wanted: &[usize]) -> Result<Vec<usize>, Error> {
        let (mut missing, mut nowhere) = (Vec::new(), Vec::new());
        {
            let memory = layers.memory();
            for &at in wanted {
                let (table, tags) = self.tags_of(at);
                if is_planned_table(table) || tags.iter().any(|(tag, _)| is_planned_column(*tag)) {
                    nowhere.push(at);
                    continue;
                }
                match memory.find(table, &tags) {
                    Some(id) => self.set_id(at, id),
                    None => missing.push(at),
                }
            }
        }
        if layers.files().is_empty() {
            nowhere.append(&mut missing);
            return Ok(nowhere);
        }
        let mut scratch = Vec::new();
        for at in missing {
            let (table, tags) = self.tags_of(at);
            match layers.find_in_files(table, &tags, &mut scratch)? {
                Some(id) => self.set_id(at, id),
                None => nowhere.push(at),
            }
        }
        Ok(nowhere)
    }

    fn set_id(&mut self, at: usize, id: SeriesId) {
        if let Some(wanted) = self.series.get_mut(at) {
            wanted.id = Some(id);
        }
    }

    fn tags_of(&self, at: usize) -> (TableId, TagValues<'_>) {
        let end_of = |at: usize| self.series.get(at).map_or(0, |wanted| wanted.tags_end);
        let start = at.checked_sub(1).map_or(0, end_of);
        let own = self.tags.get(start..end_of(at)).unwrap_or_default();
        let value = |&(tag, start, end): &(ColumnId, usize, usize)| {
            (tag, self.text.get(start..end).unwrap_or_default())
        };
        let table = self
            .series
            .get(at)
            .map_or(TableId(0), |wanted| wanted.table);
        (table, own.iter().map(value).collect())
    }
}
