//! Definition and removal of series.
//!
//! Does: find or make a series and write its log entries, apply such entries at replay, set the recent series aside for
//! a flush, and put index files in their place. Does not: read or write files.
//!
//! A log record's entries stand for themselves: its series name their values by the record's own codes, which count from
//! 0 in the order in which it lists the values. So a record can be replayed whatever became of the series before it.

use std::sync::Arc;

use super::layers::{Layers, Shared};
use super::{Catalogue, after};
use crate::definition;
use crate::error::Malformed;
use crate::index::Index;
use crate::schema::{ColumnId, SeriesId, TableId};

/// Ids from here on are those of series that only their transaction knows: no series of the store ever has one.
pub(crate) const OWN_SERIES_FIRST: u32 = 0xF000_0000;

/// Whether an id is one of a transaction.
pub(crate) fn is_own_series(id: u32) -> bool {
    id >= OWN_SERIES_FIRST
}

/// Encoded definitions on their way into one log record.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) bytes: Vec<u8>,
    /// The number of the record.
    record: u32,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            record: 1,
        }
    }
}

impl Entries {
    /// Starts the next record.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        // 0 is no record's number.
        self.record = self.record.checked_add(1).unwrap_or(1);
    }
}

/// The series that a flush takes.
#[derive(Debug, Clone)]
pub(crate) struct SetAside {
    pub(crate) series: Shared,
    /// Ids below this have been given away.
    pub(crate) next_series: u32,
}

impl Catalogue {
    /// All series.
    pub(crate) fn layers(&self) -> &Arc<Layers> {
        &self.layers
    }

    /// Puts the series of index files under those in memory, of which there are none yet. Ids below `next` were given
    /// away, also those of files that are lost.
    pub(crate) fn open_files(&mut self, mut files: Vec<Arc<Index>>, next: u32) {
        // Each has ids above those of the files before it.
        files.sort_by_key(|file| file.next_series());
        let above = files.last().map_or(1, |file| file.next_series());
        self.next.series = self.next.series.max(above).max(next);
        self.layers = Arc::new(Layers::of_files(files));
    }

    /// Finds a series in memory by its tags, which are sorted by tag id, or makes it; its entries are appended to `made`.
    pub(crate) fn define_series(
        &mut self,
        table: TableId,
        tags: &[(ColumnId, &str)],
        made: &mut Entries,
    ) -> Result<SeriesId, Malformed> {
        if !self.names.by_table.contains_key(&table) {
            return Err(unknown_table(table));
        }
        let aside = self.layers.aside.as_ref();
        let aside = aside.and_then(|aside| super::layers::read(aside).find(table, tags));
        if let Some(known) = aside {
            return Ok(known);
        }
        let mut recent = self.layers.recent_mut();
        let (mut codes, mut listed) = (Vec::new(), Vec::new());
        for &(tag, value) in tags {
            if self.tags.get(&tag) != Some(&table) {
                return Err(unknown_tag(tag));
            }
            let (dictionary, hash) = recent.dictionary_mut(tag);
            let (code, _) = dictionary.insert(hash, value)?;
            codes.push((tag, code));
        }
        let id = SeriesId(self.next.series);
        if is_own_series(id.0) {
            return Err(Malformed::new("there are no ids left"));
        }
        let next = after(id.0)?;
        let found = recent.find_or_push(table, id, &codes)?;
        if found != id {
            return Ok(found);
        }
        self.next.series = next;
        for (&(_, value), &(tag, code)) in tags.iter().zip(&codes) {
            let (dictionary, _) = recent.dictionary_mut(tag);
            let (own, is_new) = dictionary.list(code, made.record);
            if is_new {
                definition::encode_tag_value(tag, value, &mut made.bytes);
            }
            listed.push((tag, own));
        }
        definition::encode_series(id, table, &listed, &mut made.bytes);
        Ok(id)
    }

    /// A record of definitions begins.
    pub(crate) fn begin_record(&mut self) {
        self.listed.clear();
    }

    pub(super) fn apply_tag_value(&mut self, tag: ColumnId, value: &str) -> Result<(), Malformed> {
        if !self.tags.contains_key(&tag) {
            return Err(unknown_tag(tag));
        }
        let mut recent = self.layers.recent_mut();
        let (dictionary, hash) = recent.dictionary_mut(tag);
        let (code, _) = dictionary.insert(hash, value)?;
        self.listed.entry(tag).or_default().push(code);
        Ok(())
    }

    pub(super) fn apply_series(
        &mut self,
        id: SeriesId,
        table: TableId,
        tags: &[(ColumnId, u32)],
    ) -> Result<(), Malformed> {
        if !self.names.by_table.contains_key(&table) {
            return Err(unknown_table(table));
        }
        self.next.series = self.next.series.max(after(id.0)?);
        let malformed = |what: &str| Malformed::new(format!("series {} {what}", id.0));
        if !tags.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(malformed("has its tags out of order"));
        }
        let mut codes = Vec::with_capacity(tags.len());
        for (tag, own) in tags {
            let code = self.listed.get(tag);
            let code = code.and_then(|listed| listed.get(*own as usize));
            let code = code.filter(|_| self.tags.get(tag) == Some(&table));
            let code = code.ok_or_else(|| malformed("has an undefined tag value"))?;
            codes.push((*tag, *code));
        }
        let is_above = self.layers.last_id(table).is_none_or(|last| last < id.0);
        let mut recent = self.layers.recent_mut();
        if !is_above {
            if recent.all_series(table).binary_search(&id.0).is_ok() {
                return Ok(());
            }
            return Err(malformed("is out of order"));
        }
        match recent.find_or_push(table, id, &codes)? {
            found if found == id => Ok(()),
            _ => Err(malformed("has the tags of another")),
        }
    }

    /// Takes the series that are in no file aside and starts a new generation; `None` = there are none. What is aside
    /// already must have become a file before.
    pub(crate) fn set_aside(&mut self) -> Option<SetAside> {
        let filed = self.layers.files.iter().map(|file| file.next_series());
        let is_new = self.next.series > filed.max().unwrap_or(1);
        if !is_new && self.layers.recent().len() == 0 {
            return None;
        }
        let aside = SetAside {
            series: Arc::clone(&self.layers.recent),
            next_series: self.next.series,
        };
        self.layers = Arc::new(self.layers.with_new_generation());
        Some(aside)
    }

    /// What was set aside is in this file now.
    pub(crate) fn filed(&mut self, file: Arc<Index>) {
        let mut layers = Layers::clone(&self.layers);
        layers.aside = None;
        layers.files.push(file);
        self.layers = Arc::new(layers);
    }

    /// Series are gone, though nobody dropped them: whoever remembers their ids must look again.
    pub(crate) fn lost_series(&mut self) {
        self.epoch += 1;
    }

    /// Files, by their ids, became one.
    pub(crate) fn merged(&mut self, from: &[u64], to: Arc<Index>) {
        let mut layers = Layers::clone(&self.layers);
        let is_from = |file: &Arc<Index>| from.contains(&file.file_id());
        let at = layers.files.iter().position(is_from).unwrap_or(0);
        layers.files.retain(|file| !is_from(file));
        layers.files.insert(at, to);
        self.layers = Arc::new(layers);
    }
}

fn unknown_tag(tag: ColumnId) -> Malformed {
    Malformed::new(format!("value of unknown tag {}", tag.0))
}

fn unknown_table(table: TableId) -> Malformed {
    Malformed::new(format!("series of unknown table {}", table.0))
}
