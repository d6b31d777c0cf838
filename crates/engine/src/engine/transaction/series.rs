//! Series that only a transaction knows.
//!
//! Does: give them ids that no series of the store has, notice when somebody else has made one of them, and make those that are
//! needed at the end. Does not: know which rows have them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalogue::{Layers, OWN_SERIES_FIRST, Shared, is_own_series};
use crate::engine::{Engine, SERIES_BYTES};
use crate::error::Error;
use crate::schema::{ColumnId, SeriesId, TableId};

/// Series defined under one lock, as many as of a body of lines.
const SERIES_OF_ONE_LOCK: usize = 512;

#[derive(Debug)]
pub(super) struct OwnSeries {
    pub(super) generation: Shared,
    /// By id, from the first own one.
    all: Vec<OwnOne>,
    /// Where the series of the store ended when they were last looked for there.
    checked: Option<u32>,
    text_bytes: usize,
}

#[derive(Debug)]
struct OwnOne {
    table: TableId,
    tags: Vec<(ColumnId, String)>,
    /// The id that the store has given it since.
    real: Option<u32>,
}

impl OwnOne {
    fn tags(&self) -> Vec<(ColumnId, &str)> {
        let tags = self.tags.iter();
        tags.map(|(tag, value)| (*tag, value.as_str())).collect()
    }
}

fn place(id: u32) -> usize {
    id.saturating_sub(OWN_SERIES_FIRST) as usize
}

impl OwnSeries {
    pub(super) fn new(layers: &Layers) -> Self {
        Self {
            generation: layers.new_own(),
            all: Vec::new(),
            checked: None,
            text_bytes: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Memory in use, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.all.len() * SERIES_BYTES + 2 * self.text_bytes
    }

    /// The id of the series with these tags, which the store does not have.
    pub(super) fn id_of(
        &mut self,
        table: TableId,
        tags: &[(ColumnId, &str)],
    ) -> Result<SeriesId, Error> {
        let mut generation = self.generation.write();
        if let Some(known) = generation.find(table, tags) {
            return Ok(known);
        }
        let next = u32::try_from(self.all.len()).ok();
        let next = next.and_then(|at| OWN_SERIES_FIRST.checked_add(at));
        let id = SeriesId(next.ok_or(Error::Limit {
            what: "the new series of one batch",
            limit: u64::from(u32::MAX - OWN_SERIES_FIRST),
            needed: self.all.len() as u64 + 1,
            remedy: "commit more often",
        })?);
        let refused = |what: crate::error::Malformed| what.at(std::path::Path::new(""), 0);
        generation.push_own(table, id, tags).map_err(refused)?;
        let own = tags.iter().map(|(tag, value)| (*tag, (*value).to_owned()));
        self.text_bytes += tags.iter().map(|(_, value)| value.len()).sum::<usize>();
        self.all.push(OwnOne {
            table,
            tags: own.collect(),
            real: None,
        });
        Ok(id)
    }

    /// The tags of a series, by name, for a person.
    pub(super) fn tags_of(&self, id: u32) -> Option<&[(ColumnId, String)]> {
        self.all.get(place(id)).map(|it| it.tags.as_slice())
    }

    /// The id of a series now: the store's if it has it.
    pub(super) fn now(&self, id: u32) -> u32 {
        if !is_own_series(id) {
            return id;
        }
        let own = self.all.get(place(id));
        own.and_then(|own| own.real).unwrap_or(id)
    }

    pub(super) fn has_real(&self) -> bool {
        self.all.iter().any(|it| it.real.is_some())
    }

    /// Asks whether somebody else has made one of them. True = so it is, and ids are others now.
    pub(super) fn find_made(&mut self, engine: &Engine, layers: &Layers) -> Result<bool, Error> {
        if self.all.is_empty() || (self.checked.is_some() && self.checked == layers.end()) {
            return Ok(false);
        }
        let mut found = false;
        let mut scratch = Vec::new();
        for one in self.all.iter_mut().filter(|it| it.real.is_none()) {
            let id = find(engine, layers, one, &mut scratch)?;
            found |= id.is_some();
            one.real = id.map(|id| id.0);
        }
        self.checked = layers.end();
        if found {
            self.generation = layers.new_own();
            let mut generation = self.generation.write();
            for (id, one) in (OWN_SERIES_FIRST..).zip(&self.all) {
                if one.real.is_none() {
                    let pushed = generation.push_own(one.table, SeriesId(id), &one.tags());
                    pushed.map_err(|what| what.at(engine.dir(), 0))?;
                }
            }
        }
        Ok(found)
    }

    /// Makes series, whose own ids ascend, in the store. `None` = something was dropped, renamed or retyped since `epoch`. The
    /// bool = whether the store had one of them already.
    pub(super) fn make(
        &self,
        engine: &Engine,
        epoch: u64,
        used: &[u32],
    ) -> Result<Option<(FxHashMap<u32, u32>, bool)>, Error> {
        let mut made: FxHashMap<u32, u32> = FxHashMap::default();
        let mut had_one = false;
        let mut scratch = Vec::new();
        let mut missing: Vec<(u32, &OwnOne)> = used
            .iter()
            .filter_map(|&id| Some((id, self.all.get(place(id))?)))
            .collect();
        engine.check_index((missing.len() * SERIES_BYTES + self.text_bytes) as u64)?;
        while !missing.is_empty() {
            let layers = Arc::clone(engine.sequencer().catalogue().layers());
            let mut nowhere = Vec::new();
            for (id, one) in missing {
                match find(engine, &layers, one, &mut scratch)? {
                    Some(real) => {
                        had_one = true;
                        made.insert(id, real.0);
                    }
                    None => nowhere.push((id, one)),
                }
            }
            missing = nowhere;
            let mut is_same = true;
            while is_same && !missing.is_empty() {
                let rest = missing.split_off(missing.len().min(SERIES_OF_ONE_LOCK));
                let define =
                    |catalogue: &mut crate::catalogue::Catalogue,
                     entries: &mut crate::catalogue::Entries| {
                        is_same = catalogue.layers().is_as_recent_as(&layers);
                        if !is_same {
                            return Ok(());
                        }
                        for (id, one) in &missing {
                            let real = catalogue.define_series(one.table, &one.tags(), entries);
                            let real = real.map_err(|what| what.at(engine.dir(), 0))?;
                            made.insert(*id, real.0);
                        }
                        Ok(())
                    };
                if !engine.sequencer().define_together(epoch, define)? {
                    return Ok(None);
                }
                if is_same {
                    missing = rest;
                } else {
                    missing.extend(rest);
                }
            }
        }
        engine.sequencer().report_index();
        Ok(Some((made, had_one)))
    }
}

/// A series in the store; a damaged index file is mended first.
fn find(
    engine: &Engine,
    layers: &Layers,
    one: &OwnOne,
    scratch: &mut Vec<u8>,
) -> Result<Option<SeriesId>, Error> {
    let tags = one.tags();
    if let Some(found) = layers.memory().find(one.table, &tags) {
        return Ok(Some(found));
    }
    match layers.find_in_files(one.table, &tags, scratch) {
        Err(error) => {
            engine.mend_after(error)?;
            let layers = Arc::clone(engine.sequencer().catalogue().layers());
            layers.find_in_files(one.table, &tags, scratch)
        }
        found => found,
    }
}
