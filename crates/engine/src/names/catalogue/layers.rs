//! All series: those in index files, oldest first, then those in memory, as one.
//!
//! Does: find series by tags, tags by series, series and values by predicates. Does not: change anything but the list of
//! layers (`catalogue.rs` does), or hold a lock while it reads a file.
//!
//! Ids of a table ascend from layer to layer, and no series is in two. A reader takes the list once and works on what it
//! has: files of the list stay readable, and a generation that became a file meanwhile has the same series.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::dictionary::TagDictionary;
use super::selection::Condition;
use super::series::Generation;
use super::tag_column::{Names, Renamed, TagColumn};
use crate::error::Error;
use crate::index::{Index, hash_tags};
use crate::ranked::{Rank, Read, RwLock, Write};
use crate::schema::{ColumnId, SeriesId, TableId};
use crate::text_hash::TextHash;

/// A generation that several may hold.
pub(crate) type Shared = Arc<RwLock<Generation>>;

#[derive(Debug, Clone)]
pub(crate) struct Layers {
    /// Oldest first.
    pub(super) files: Vec<Arc<Index>>,
    /// On its way into a file; takes no more series.
    pub(super) aside: Option<Shared>,
    pub(super) recent: Shared,
    text_hash: TextHash,
    /// Series with this id or a higher one are not there, for who has the layers of an earlier moment; `None` = all are.
    end: Option<u32>,
    /// Series of a transaction that are nowhere else yet; their ids are above all others.
    own: Option<Shared>,
}

/// One of the layers. While it is memory, nothing is added to it.
enum Layer<'a> {
    File(&'a Index),
    Memory(InMemory<'a>),
}

/// A generation, up to an id.
struct InMemory<'a> {
    series: Read<'a, Generation>,
    end: Option<u32>,
}

impl InMemory<'_> {
    /// Ids of the series of a table, ascending.
    fn all_series(&self, table: TableId) -> &[u32] {
        let all = self.series.all_series(table);
        all.get(..self.count_of(all)).unwrap_or_default()
    }

    /// How many of these ids, which ascend, are there.
    fn count_of(&self, ids: &[u32]) -> usize {
        match self.end {
            Some(end) => ids.partition_point(|&id| id < end),
            None => ids.len(),
        }
    }

    /// Whether all series of a table are there.
    fn has_all(&self, table: TableId) -> bool {
        let last = self.series.all_series(table).last();
        self.end
            .is_none_or(|end| last.is_none_or(|&last| last < end))
    }

    /// Appends the ids of the series that meet every condition.
    fn select(&self, table: TableId, conditions: &[Condition<'_>], out: &mut Vec<u32>) {
        let start = out.len();
        let selected = self.series.select(table, conditions);
        self.series.ids_of(table, &selected, out);
        let own = out.get(start..).unwrap_or_default();
        out.truncate(start + self.count_of(own));
    }
}

/// The layers in memory, locked for reading.
pub(crate) struct Memory<'a> {
    aside: Option<Read<'a, Generation>>,
    recent: Read<'a, Generation>,
}

impl Memory<'_> {
    /// The series of a table with exactly these tags, which are sorted by tag id.
    pub(crate) fn find(&self, table: TableId, tags: &[(ColumnId, &str)]) -> Option<SeriesId> {
        let found = self.recent.find(table, tags);
        found.or_else(|| self.aside.as_ref()?.find(table, tags))
    }
}

pub(super) fn read(generation: &Shared) -> Read<'_, Generation> {
    generation.read()
}

impl Layer<'_> {
    /// The highest id of a table's series.
    fn last_id(&self, table: TableId) -> Option<u32> {
        match self {
            Self::File(file) => file.span(table).map(|(_, last)| last),
            Self::Memory(memory) => memory.all_series(table).last().copied(),
        }
    }

    /// Appends the ids of the series that meet every condition.
    fn select(
        &self,
        table: TableId,
        conditions: &[Condition<'_>],
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        match self {
            Self::File(file) if conditions.is_empty() => out.extend(file.all_ids(table)?),
            Self::File(file) => file.ids(table, &file.select(table, conditions)?, out)?,
            Self::Memory(memory) => memory.select(table, conditions, out),
        }
        Ok(())
    }

    /// Appends the codes that series have of a tag, each behind the position of its series, counted from `first`.
    fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
        first: u32,
        out: &mut Vec<(u32, u32)>,
    ) -> Result<(), Error> {
        match self {
            Self::File(file) => file.codes_of(table, tag, series, first, out),
            Self::Memory(memory) => {
                memory.series.codes_of(table, tag, series, first, out);
                Ok(())
            }
        }
    }

    /// Number of codes of a tag.
    fn value_count(&self, table: TableId, tag: ColumnId) -> usize {
        match self {
            Self::File(file) => file.value_count(table, tag),
            Self::Memory(memory) => {
                let dictionary = memory.series.dictionary(tag);
                dictionary.map_or(0, TagDictionary::len)
            }
        }
    }

    /// Calls with each code, which ascend, and its value.
    fn values_of(
        &self,
        table: TableId,
        tag: ColumnId,
        codes: impl Iterator<Item = u32>,
        mut call: impl FnMut(u32, &str),
    ) -> Result<(), Error> {
        match self {
            Self::File(file) => file.values_of(table, tag, codes, call),
            Self::Memory(memory) => {
                let Some(dictionary) = memory.series.dictionary(tag) else {
                    return Ok(());
                };
                for code in codes {
                    if let Some(value) = dictionary.value(code) {
                        call(code, value);
                    }
                }
                Ok(())
            }
        }
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::of_files(Vec::new())
    }
}

impl Layers {
    /// Of files only, oldest first.
    pub(super) fn of_files(files: Vec<Arc<Index>>) -> Self {
        let text_hash = TextHash::default();
        let recent = Generation::new(text_hash.clone());
        Self {
            files,
            aside: None,
            recent: Arc::new(RwLock::new(Rank::Series, recent)),
            text_hash,
            end: None,
            own: None,
        }
    }

    /// The same with a new generation in place of the recent one, which is set aside.
    pub(super) fn with_new_generation(&self) -> Self {
        let recent = Generation::new(self.text_hash.clone());
        Self {
            files: self.files.clone(),
            aside: Some(Arc::clone(&self.recent)),
            recent: Arc::new(RwLock::new(Rank::Series, recent)),
            text_hash: self.text_hash.clone(),
            end: None,
            own: None,
        }
    }

    /// The same without the series that come after now; ids from `end` on are theirs.
    pub(super) fn up_to(&self, end: u32) -> Self {
        Self {
            end: Some(end),
            ..self.clone()
        }
    }

    /// An empty generation of a transaction, for [`Self::with_own`].
    pub(crate) fn new_own(&self) -> Shared {
        let own = Generation::new(self.text_hash.clone());
        Arc::new(RwLock::new(Rank::Series, own))
    }

    /// The same with the series of a transaction.
    pub(crate) fn with_own(&self, own: &Shared) -> Self {
        Self {
            own: Some(Arc::clone(own)),
            ..self.clone()
        }
    }

    /// The id from which on series are not there; the same for two moments between which none was made.
    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Whether the series in memory that take new ones are the same.
    pub(crate) fn is_as_recent_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.recent, &other.recent)
    }

    pub(crate) fn files(&self) -> &[Arc<Index>] {
        &self.files
    }

    pub(super) fn recent(&self) -> Read<'_, Generation> {
        read(&self.recent)
    }

    pub(super) fn recent_mut(&self) -> Write<'_, Generation> {
        self.recent.write()
    }

    /// Memory of series and tag values, and of what is held of files beside the cache.
    pub(crate) fn bytes(&self) -> usize {
        let files: usize = self.files.iter().map(|file| file.memory()).sum();
        let aside = self.aside.as_ref().map_or(0, |aside| read(aside).bytes());
        files + aside + self.recent().bytes()
    }

    /// Memory of the series that no flush has taken yet.
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent().bytes()
    }

    /// The layers, oldest first.
    fn layers(&self) -> impl Iterator<Item = Layer<'_>> {
        let files = self.files.iter().map(|file| Layer::File(file));
        let memory = self.aside.iter().chain([&self.recent]);
        let memory = memory.map(|generation| (generation, self.end));
        let own = self.own.iter().map(|own| (own, None));
        files.chain(memory.chain(own).map(|(generation, end)| {
            Layer::Memory(InMemory {
                series: read(generation),
                end,
            })
        }))
    }

    /// The layers in memory. Whoever holds this keeps writers from adding series.
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory {
            aside: self.aside.as_ref().map(read),
            recent: self.recent(),
        }
    }

    /// The series of a table with exactly these tags, which are sorted by tag id, if a file has it. `scratch` is only
    /// for its memory.
    pub(crate) fn find_in_files(
        &self,
        table: TableId,
        tags: &[(ColumnId, &str)],
        scratch: &mut Vec<u8>,
    ) -> Result<Option<SeriesId>, Error> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let hash = hash_tags(tags.iter().copied(), scratch);
        for file in self.files.iter().rev() {
            if let Some(found) = file.find(table, hash, tags)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Number of series of a table.
    pub(crate) fn series_count(&self, table: TableId) -> u64 {
        let counts = self.layers().map(|layer| match layer {
            Layer::File(file) => u64::from(file.series_count(table)),
            Layer::Memory(memory) => memory.all_series(table).len() as u64,
        });
        counts.sum()
    }

    /// The highest id of a table's series.
    pub(crate) fn last_id(&self, table: TableId) -> Option<u32> {
        self.layers().filter_map(|layer| layer.last_id(table)).max()
    }

    /// Ids of the series of a table that meet every condition, ascending.
    pub(crate) fn select(
        &self,
        table: TableId,
        conditions: &[Condition<'_>],
    ) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        for layer in self.layers() {
            layer.select(table, conditions, &mut ids)?;
        }
        Ok(ids)
    }

    /// Number of series of a table that meet every condition.
    pub(crate) fn count(&self, table: TableId, conditions: &[Condition<'_>]) -> Result<u64, Error> {
        if conditions.is_empty() {
            return Ok(self.series_count(table));
        }
        let mut count = 0;
        for layer in self.layers() {
            count += match layer {
                Layer::File(file) => file.select(table, conditions)?.len(),
                Layer::Memory(memory) if memory.has_all(table) => {
                    let selected = memory.series.select(table, conditions);
                    memory.series.count_selected(table, &selected)
                }
                Layer::Memory(memory) => {
                    let mut ids = Vec::new();
                    memory.select(table, conditions, &mut ids);
                    ids.len() as u64
                }
            };
        }
        Ok(count)
    }

    /// Calls with each layer, those of `series`, which ascend, that are in it, and the position of the first of them.
    fn each_part(
        &self,
        table: TableId,
        series: &[u32],
        mut call: impl FnMut(&Layer<'_>, &[u32], u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut rest, mut first) = (series, 0);
        for layer in self.layers() {
            let Some(last) = layer.last_id(table) else {
                continue;
            };
            let n = rest.partition_point(|&id| id <= last);
            let (own, after) = rest.split_at(n);
            rest = after;
            if !own.is_empty() {
                call(&layer, own, first)?;
            }
            // There are fewer series than 32 bits can count.
            first = first.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// What series, whose ids ascend, have of a tag.
    pub(crate) fn tag_column(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
    ) -> Result<TagColumn, Error> {
        let mut codes: Vec<(u32, u32)> = Vec::new();
        let mut names = Names::default();
        self.each_part(table, series, |layer, own, first| {
            let start = codes.len();
            layer.codes_of(table, tag, own, first, &mut codes)?;
            let own = codes.get_mut(start..).unwrap_or_default();
            let mut renamed = Renamed::new(own, layer.value_count(table, tag));
            names.next_layer();
            let used = renamed.codes().into_iter();
            layer.values_of(table, tag, used, |code, value| {
                renamed.set(code, names.add(&self.text_hash, value));
            })?;
            for (_, code) in own {
                *code = renamed.get(*code);
            }
            Ok(())
        })?;
        Ok(names.finish(codes))
    }

    /// Values of a tag that the series have that meet every condition: those that start with `prefix`, sorted, the first
    /// `limit` of them.
    pub(crate) fn values(
        &self,
        table: TableId,
        tag: ColumnId,
        conditions: &[Condition<'_>],
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut first = First {
            values: BTreeSet::new(),
            limit,
        };
        for layer in self.layers() {
            // The list of a tag's values does not say which series has which.
            let is_part = matches!(&layer, Layer::Memory(memory) if !memory.has_all(table));
            if !conditions.is_empty() || is_part {
                let (mut ids, mut codes) = (Vec::new(), Vec::new());
                layer.select(table, conditions, &mut ids)?;
                layer.codes_of(table, tag, &ids, 0, &mut codes)?;
                let used = Renamed::new(&codes, layer.value_count(table, tag)).codes();
                layer.values_of(table, tag, used.into_iter(), |_, value| {
                    if value.starts_with(prefix) {
                        first.add(value);
                    }
                })?;
                continue;
            }
            match layer {
                Layer::File(file) => {
                    let mut left = limit;
                    file.values(table, tag, prefix, |value| {
                        first.add(value);
                        left = left.saturating_sub(1);
                        left > 0
                    })?;
                }
                Layer::Memory(memory) => {
                    for value in memory.series.values(tag, prefix, limit) {
                        first.add(value);
                    }
                }
            }
        }
        Ok(first.values.into_iter().collect())
    }
}

/// The first values, in byte order, of those that are added.
struct First {
    values: BTreeSet<String>,
    limit: usize,
}

impl First {
    fn add(&mut self, value: &str) {
        let is_full = self.values.len() >= self.limit;
        if is_full && self.values.last().is_none_or(|last| value >= last.as_str()) {
            return;
        }
        self.values.insert(value.to_owned());
        if self.values.len() > self.limit {
            self.values.pop_last();
        }
    }
}
