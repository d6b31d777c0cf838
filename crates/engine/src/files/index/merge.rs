//! Merging index files into one, from front to back.
//!
//! The files come oldest first, and ids of a table rise from file to file: so series are appended, and a series' ordinal is
//! its old one and the number of series before its file. Values are merged in their order and counted, which gives their
//! new codes; a series' code is then found from the values' side, for as many series at once as fit the window.
//!
//! Memory: the window, [`PART_BYTES`] a file, and the buffer and the footer of what is written. Values and lists are read
//! once for each window, and once more when they are written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::block::PostingPlace;
use super::footer::{Blocks, TableMeta, TagMeta};
use super::layout::SERIES_OF_ONE_BLOCK;
use super::reader::tag_of;
use super::stream::{ListPlace, Lists, Part, Values, bytes_of};
use super::{Index, IndexWriter};
use crate::error::{Error, Malformed};
use crate::schema::{ColumnId, TableId};

/// Memory for each file: what is read ahead of its values and lists, a dictionary block, a chunk of a list.
pub(crate) const PART_BYTES: usize = 384 << 10;

/// Writes the series of all files to one, but for those of tables that `keeps` refuses, with a window of about so many
/// bytes; returns the memory that windows and files had at most.
pub(crate) fn merge(
    files: &[&Index],
    keeps: &dyn Fn(TableId) -> bool,
    window_bytes: usize,
    output: &mut IndexWriter,
) -> Result<usize, Error> {
    let mut tables: Vec<TableId> = files.iter().flat_map(|file| file.tables()).collect();
    tables.sort_unstable();
    tables.dedup();
    let blocks = window_bytes / size_of::<u32>() / SERIES_OF_ONE_BLOCK;
    let mut peak = 0;
    for table in tables.into_iter().filter(|&table| keeps(table)) {
        let (parts, series) = parts_of(files, table)?;
        let mut merge = Merge {
            lists: parts.iter().map(|_| Lists::default()).collect(),
            parts,
            series,
            window: blocks.max(1) * SERIES_OF_ONE_BLOCK,
            output,
            peak: 0,
        };
        merge.run(table)?;
        peak = peak.max(merge.peak);
    }
    Ok(peak)
}

/// A table at work.
struct Merge<'a, 'w> {
    /// Oldest first.
    parts: Vec<Part<'a>>,
    /// By part.
    lists: Vec<Lists>,
    /// Number of series.
    series: u32,
    /// Series whose codes are found at once.
    window: usize,
    output: &'w mut IndexWriter,
    /// Memory that was held at most.
    peak: usize,
}

/// The files that have a table, and the number of its series.
fn parts_of<'a>(files: &[&'a Index], table: TableId) -> Result<(Vec<Part<'a>>, u32), Error> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut base = 0u32;
    for &index in files {
        let Some(table) = index.table(table).filter(|table| table.series > 0) else {
            continue;
        };
        let last = parts.last().map(|part| part.table.last_id);
        if last.is_some_and(|last| table.first_ids.first().is_none_or(|&first| first <= last)) {
            let what = Malformed::new("ids of a table do not rise from file to file");
            return Err(what.at(index.path(), table.ids.offset()));
        }
        parts.push(Part { index, table, base });
        base = base.checked_add(table.series).ok_or_else(|| {
            Malformed::new("more than 2^32 series in a table").at(index.path(), 0)
        })?;
    }
    Ok((parts, base))
}

impl<'a> Merge<'a, '_> {
    fn run(&mut self, table: TableId) -> Result<(), Error> {
        let (ids, first_ids) = self.write_ids()?;
        let (hashes, first_hashes) = self.write_hashes()?;
        self.write_ids()?;
        let tags = self.parts.iter().flat_map(|part| &part.table.tags);
        let mut tags: Vec<ColumnId> = tags.map(|tag| tag.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        let mut written = Vec::new();
        for tag in tags {
            written.push(self.write_tag(tag)?);
        }
        let Some(last) = self.parts.last() else {
            return Ok(());
        };
        self.output.add_table(TableMeta {
            table,
            series: self.series,
            ids,
            first_ids,
            last_id: last.table.last_id,
            hashes,
            first_hashes,
            has_copies: true,
            tags: written,
        })
    }

    fn write_ids(&mut self) -> Result<(Blocks, Vec<u32>), Error> {
        let (mut blocks, mut firsts) = (self.output.start(), Vec::new());
        let mut waiting = Vec::new();
        for part in &self.parts {
            for block in 0..part.table.first_ids.len() {
                waiting.extend(part.index.read_ids(part.table, block)?);
                if waiting.len() >= SERIES_OF_ONE_BLOCK {
                    let rest = waiting.split_off(SERIES_OF_ONE_BLOCK);
                    firsts.extend(waiting.first().copied());
                    self.output.put_numbers(&waiting, &mut blocks)?;
                    waiting = rest;
                }
            }
        }
        if !waiting.is_empty() {
            firsts.extend(waiting.first().copied());
            self.output.put_numbers(&waiting, &mut blocks)?;
        }
        Ok((blocks, firsts))
    }

    fn write_hashes(&mut self) -> Result<(Blocks, Vec<u32>), Error> {
        let (mut blocks, mut firsts) = (self.output.start(), Vec::new());
        let mut cursors: Vec<Hashes<'a>> = self.parts.iter().map(|&it| Hashes::of(it)).collect();
        let mut next = BinaryHeap::new();
        for (at, cursor) in cursors.iter_mut().enumerate() {
            next.extend(cursor.next()?.map(|entry| Reverse((entry, at))));
        }
        let mut waiting = Vec::with_capacity(SERIES_OF_ONE_BLOCK);
        while let Some(Reverse((entry, at))) = next.pop() {
            waiting.push(entry);
            if let Some(cursor) = cursors.get_mut(at) {
                next.extend(cursor.next()?.map(|entry| Reverse((entry, at))));
            }
            if waiting.len() == SERIES_OF_ONE_BLOCK || next.is_empty() {
                firsts.extend(waiting.first().map(|(hash, _)| *hash));
                self.output.put_hashes(&waiting, &mut blocks)?;
                waiting.clear();
            }
        }
        Ok((blocks, firsts))
    }

    fn write_tag(&mut self, tag: ColumnId) -> Result<TagMeta, Error> {
        let parts = self.parts.iter();
        let tags: Vec<Option<&'a TagMeta>> = parts.map(|it| tag_of(it.table, tag)).collect();
        let codes = self.write_codes(&tags)?;
        let mut values = Values::open(&self.parts, &tags)?;
        let mut out = self.output.begin_tag(tag, codes);
        while values.next()? {
            self.output.begin_value(&mut out, &values.value)?;
            if let Some(place) = self.write_place(&values)? {
                out.end_value(place);
            }
        }
        self.output.end_values(&mut out)?;
        self.note(values.bytes());
        let absent = self.write_absent(&tags)?;
        self.output.end_tag(out, absent)
    }

    /// Codes of all series, window by window.
    fn write_codes(&mut self, tags: &[Option<&'a TagMeta>]) -> Result<Blocks, Error> {
        let mut blocks = self.output.start();
        let mut codes: Vec<u32> = Vec::new();
        let mut start = 0;
        while start < self.series {
            let rest = (self.series - start) as usize;
            codes.clear();
            codes.resize(rest.min(self.window), 0);
            let end = start.saturating_add(u32::try_from(codes.len()).unwrap_or(u32::MAX));
            let mut values = Values::open(&self.parts, tags)?;
            let mut code = 0u32;
            while values.next()? {
                code = code.saturating_add(1);
                for &(at, place, lists) in &values.from {
                    let Some(part) = self.parts.get(at) else {
                        continue;
                    };
                    let after = part.base.saturating_add(part.table.series);
                    if part.base >= end || after <= start {
                        continue;
                    }
                    let mut set = |ordinal: u32| {
                        let at = (part.base + ordinal).checked_sub(start);
                        if let Some(slot) = at.and_then(|at| codes.get_mut(at as usize)) {
                            *slot = code;
                        }
                        Ok(())
                    };
                    each(part, self.lists.get_mut(at), place, lists, &mut set)?;
                }
            }
            for block in codes.chunks(SERIES_OF_ONE_BLOCK) {
                self.output.put_numbers(block, &mut blocks)?;
            }
            self.note(values.bytes() + codes.capacity() * size_of::<u32>());
            start = end;
        }
        Ok(blocks)
    }

    /// Writes the list of the value at hand, if it has more than one series.
    fn write_place(&mut self, values: &Values<'_>) -> Result<Option<PostingPlace>, Error> {
        if let [(at, PostingPlace::One(ordinal), _)] = values.from.as_slice() {
            let part = self.parts.get(*at);
            let part = part.filter(|part| *ordinal < part.table.series);
            if let Some(part) = part {
                return Ok(Some(PostingPlace::One(part.base + ordinal)));
            }
        }
        let mut list = self.output.begin_list();
        for &(at, place, lists) in &values.from {
            let Some(part) = self.parts.get(at) else {
                continue;
            };
            let mut push = |ordinal| self.output.push(&mut list, part.base + ordinal);
            each(part, self.lists.get_mut(at), place, lists, &mut push)?;
        }
        self.output.end_list(list)
    }

    fn write_absent(&mut self, tags: &[Option<&TagMeta>]) -> Result<Option<PostingPlace>, Error> {
        let mut list = self.output.begin_list();
        for ((part, tag), lists) in self.parts.iter().zip(tags).zip(&mut self.lists) {
            match tag {
                None => {
                    for ordinal in 0..part.table.series {
                        self.output.push(&mut list, part.base + ordinal)?;
                    }
                }
                Some(tag) if tag.absent > 0 => {
                    let place = ListPlace {
                        offset: tag.absent_at(),
                        bytes: tag.absent_bytes,
                        series: tag.absent,
                    };
                    let output = &mut *self.output;
                    lists.each(part, place, |ordinal| {
                        output.push(&mut list, part.base + ordinal)
                    })?;
                }
                Some(_) => {}
            }
        }
        self.output.end_list(list)
    }

    fn note(&mut self, held: usize) {
        self.peak = self.peak.max(held + bytes_of(&self.lists));
    }
}

/// Calls with each ordinal of a value in its file.
fn each(
    part: &Part<'_>,
    reader: Option<&mut Lists>,
    place: PostingPlace,
    lists: u64,
    call: &mut dyn FnMut(u32) -> Result<(), Error>,
) -> Result<(), Error> {
    match (place, reader) {
        (PostingPlace::One(ordinal), _) if ordinal < part.table.series => call(ordinal),
        (PostingPlace::List { series, bytes, at }, Some(reader)) => {
            let place = ListPlace {
                offset: lists.saturating_add(at),
                bytes,
                series,
            };
            reader.each(part, place, call)
        }
        _ => Err(part.index.beyond(part.table)),
    }
}

/// The hashes of one file, ascending, with the ordinals that their series have in the whole.
struct Hashes<'a> {
    part: Part<'a>,
    /// Hashes, and then the ordinal of each.
    block: Vec<u32>,
    at: usize,
    blocks: usize,
}

impl<'a> Hashes<'a> {
    fn of(part: Part<'a>) -> Self {
        Self {
            part,
            block: Vec::new(),
            at: 0,
            blocks: 0,
        }
    }

    fn next(&mut self) -> Result<Option<(u32, u32)>, Error> {
        let Part { index, table, base } = self.part;
        if self.at >= self.block.len() / 2 {
            if self.blocks >= table.first_hashes.len() {
                return Ok(None);
            }
            self.block = index.read_hashes(table, self.blocks)?;
            self.blocks += 1;
            self.at = 0;
        }
        let (hashes, ordinals) = self.block.split_at(self.block.len() / 2);
        let entry = hashes.get(self.at).zip(ordinals.get(self.at));
        self.at += 1;
        Ok(entry.map(|(&hash, &ordinal)| (hash, base + ordinal)))
    }
}
