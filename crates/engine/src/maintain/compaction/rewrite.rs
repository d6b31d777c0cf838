//! The compaction rewrite: rows of one table and window, sorted and merged, without deleted ones.
//!
//! Full blocks that nothing else overlaps are copied as bytes; everything else is decoded, merged as a scan merges it,
//! and written in full blocks. Memory is bounded by a group and by what overlaps in one series, not by the inputs.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::error::Error;
use crate::mask::{Deletes, Mask};
use crate::read::slices::RowWeights;
use crate::sabotage::Sabotage;
use crate::scan::merge;
use crate::scan::output::Output;
use crate::scan::source::{GroupReader, Piece, Rows, Wanted};
use crate::schema::{ColumnId, ColumnKind, TableSchema};
use crate::segment::{
    BlockEntry, BlockInput, Broken, CopiedBlock, GROUP_BLOCKS_MAX, GROUP_BYTES_MAX, GroupInput,
    Segment, SegmentWriter, Tier, Window,
};
use crate::tombstone::Tombstone;

/// A block with fewer rows is worth joining with others: flushes of half a million rows of a thousand
/// series make blocks of little more than 512 rows each, and those would stay half full for ever.
const COPY_ROWS_MIN: u32 = 768;

/// Large values that are merged at one time, about: rows that have more are merged by stretches of time.
const MERGED_LARGE_BYTES: u64 = GROUP_BYTES_MAX as u64;

/// What to rewrite.
pub(crate) struct Rewrite<'a> {
    pub(crate) table: &'a TableSchema,
    pub(crate) window: Window,
    /// In LSN order.
    pub(crate) segments: &'a [Arc<Segment>],
    /// Durable deletes in the table.
    pub(crate) tombstones: &'a [Arc<Tombstone>],
    /// Whether to keep sums of hours.
    pub(crate) rollups: bool,
    /// What the segment that is written is for.
    pub(crate) tier: Tier,
    /// What of the one segment is left out because it does not read.
    pub(crate) broken: Option<&'a Broken>,
    pub(crate) sabotage: Option<Sabotage>,
}

/// Rows that a rewrite read and did not write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gone {
    /// They became part of newer ones.
    pub(crate) merged: u64,
    /// A delete hides them.
    pub(crate) deleted: u64,
}

impl Rewrite<'_> {
    /// Adds the rows to a segment.
    pub(crate) fn run(&self, writer: &mut SegmentWriter) -> Result<Gone, Error> {
        let fields: Vec<(ColumnId, PhysicalType)> = self
            .table
            .fields
            .iter()
            .filter_map(|field| match field.kind {
                ColumnKind::Field(kind) => Some((field.id, kind)),
                ColumnKind::Tag => None,
            })
            .collect();
        let time = self.window.start..=self.window.last();
        let mut chains: Vec<Chain<'_>> = self
            .segments
            .iter()
            .map(|segment| self.chain(segment, &fields, &time))
            .collect();
        let mut builder = Builder {
            rewrite: self,
            writer,
            output: Output::new(&fields),
            ids: Vec::new(),
            blocks: Vec::new(),
            planned: 0,
            merged: 0,
            field_count: fields.len(),
        };
        let mut from = Some(0);
        while let Some(least) = from {
            let mut next = None;
            for chain in &mut chains {
                let own = chain.next_series(least)?;
                next = match (next, own) {
                    (Some(a), Some(b)) => Some(u32::min(a, b)),
                    (a, b) => a.or(b),
                };
            }
            let Some(series) = next else { break };
            add_series(series, &mut chains, &mut builder, &time)?;
            from = series.checked_add(1);
        }
        Ok(Gone {
            merged: builder.end()?,
            deleted: chains.iter().map(|chain| chain.deleted).sum(),
        })
    }

    fn chain<'a>(
        &'a self,
        segment: &'a Arc<Segment>,
        fields: &[(ColumnId, PhysicalType)],
        time: &RangeInclusive<i64>,
    ) -> Chain<'a> {
        let groups = segment
            .groups(self.table.id)
            .filter(|(_, group)| group.min_time <= *time.end() && group.max_time >= *time.start());
        // By series, whatever default windows the groups were cut at.
        let mut groups: Vec<(u32, usize)> =
            groups.map(|(at, group)| (group.first_series, at)).collect();
        groups.sort_unstable();
        let mask = if self.sabotage == Some(Sabotage::TombstoneDropped) {
            Mask::default()
        } else {
            Mask::of_segment(
                &Deletes::new(self.tombstones),
                segment.meta.applied_lsn,
                0..=u32::MAX,
                time.clone(),
            )
        };
        Chain {
            segment,
            fields: fields.to_vec(),
            time: time.clone(),
            mask,
            // What is cold is written in groups of its own, each page in what is smallest there.
            copies: (self.tier, segment.tier()) == (Tier::Hot, Tier::Hot),
            broken: self.broken,
            groups: groups.into(),
            open: Vec::new(),
            deleted: 0,
        }
    }
}

/// Adds one series: what overlaps is merged, what stands alone and is full is copied.
fn add_series(
    series: u32,
    chains: &mut [Chain<'_>],
    builder: &mut Builder<'_, '_>,
    time: &RangeInclusive<i64>,
) -> Result<(), Error> {
    let mut elements = Vec::new();
    for (at, chain) in chains.iter().enumerate() {
        chain.elements(series, at, &mut elements);
    }
    elements.sort_by_key(|element| (element.entry.min_time, element.chain));
    let mut rest = elements.as_slice();
    while let Some(first) = rest.first() {
        // What overlaps, directly or through others.
        let mut end = first.entry.max_time;
        let mut n = 1;
        while let Some(next) = rest.get(n).filter(|next| next.entry.min_time <= end) {
            end = end.max(next.entry.max_time);
            n += 1;
        }
        let (cluster, later) = rest.split_at(n);
        rest = later;
        if let [alone] = cluster
            && let Some(chain) = chains.get(alone.chain)
            && let Some(copied) = chain.copy(alone)?
        {
            builder.copy(series, copied)?;
            continue;
        }
        for time in stretches(cluster, chains, time) {
            let mut pieces = Vec::new();
            for element in cluster.iter().filter(|it| it.entry.overlaps(&time)) {
                if let Some(chain) = chains.get_mut(element.chain) {
                    pieces.extend(chain.piece(series, element, &time)?);
                }
            }
            builder.merge(series, pieces)?;
        }
        for element in cluster {
            if let Some(chain) = chains.get_mut(element.chain) {
                chain.let_go(series, element);
            }
        }
    }
    Ok(())
}

/// The times of a cluster, in as many stretches as its large values ask for. Rows of one time are in one of them.
fn stretches(
    cluster: &[Element],
    chains: &[Chain<'_>],
    time: &RangeInclusive<i64>,
) -> Vec<RangeInclusive<i64>> {
    let bytes_of = |element: &Element| {
        let chain = chains.get(element.chain);
        chain.map_or(0, |chain| chain.large_bytes(element))
    };
    if cluster.iter().map(bytes_of).sum::<u64>() <= MERGED_LARGE_BYTES {
        return vec![time.clone()];
    }
    let mut weights = RowWeights::default();
    for element in cluster {
        weights.add_block((&element.entry, bytes_of(element)), time);
    }
    let (mut first, last) = (*time.start(), *time.end());
    let mut stretches = Vec::new();
    for end in weights.cuts_within(u64::MAX, MERGED_LARGE_BYTES) {
        if end >= last {
            break;
        }
        stretches.push(first..=end);
        first = end + 1;
    }
    stretches.push(first..=last);
    stretches
}

/// The groups of one segment in series order, opened as the series come to them.
struct Chain<'a> {
    segment: &'a Arc<Segment>,
    fields: Vec<(ColumnId, PhysicalType)>,
    time: RangeInclusive<i64>,
    mask: Mask,
    /// Full blocks may stay as they are.
    copies: bool,
    broken: Option<&'a Broken>,
    /// (first series, position in the segment) of groups that are not open yet.
    groups: VecDeque<(u32, usize)>,
    open: Vec<OpenGroup>,
    /// Rows that a delete hid.
    deleted: u64,
}

struct OpenGroup {
    reader: GroupReader,
    /// Positions in the group's directory of blocks in the window that are not done with.
    blocks: VecDeque<usize>,
}

/// Rows of one series in one block; of a shared block, rows of others too.
struct Element {
    chain: usize,
    group: usize,
    block: usize,
    entry: BlockEntry,
}

impl Chain<'_> {
    /// The lowest series from `from` on; what is below is done with.
    fn next_series(&mut self, from: u32) -> Result<Option<u32>, Error> {
        let mut least: Option<u32> = None;
        for group in &mut self.open {
            if let Some(series) = group.next_series(from)? {
                least = Some(least.map_or(series, |least| least.min(series)));
            }
        }
        self.open.retain(|group| !group.blocks.is_empty());
        while let Some(&(first, at)) = self.groups.front() {
            if least.is_some_and(|least| least < first) {
                break;
            }
            self.groups.pop_front();
            let Some(mut group) = self.open_group(at)? else {
                continue;
            };
            if let Some(series) = group.next_series(from)? {
                least = Some(least.map_or(series, |least| least.min(series)));
                self.open.push(group);
            }
        }
        Ok(least)
    }

    fn open_group(&self, at: usize) -> Result<Option<OpenGroup>, Error> {
        if self.broken.is_some_and(|broken| broken.has_group(at)) {
            return Ok(None);
        }
        let directory = self.segment.directory(at)?;
        let reads = |block: usize| {
            self.broken
                .is_none_or(|broken| !broken.has_block(at, block))
        };
        let inside = |block: &BlockEntry| {
            block.min_time <= *self.time.end() && block.max_time >= *self.time.start()
        };
        let blocks: Vec<usize> = directory
            .blocks
            .iter()
            .enumerate()
            .filter(|(block, entry)| inside(entry) && reads(*block))
            .map(|(block, _)| block)
            .collect();
        if blocks.is_empty() {
            return Ok(None);
        }
        let reader = GroupReader::open(self.segment, &directory, blocks.clone(), &self.fields)?;
        Ok(Some(OpenGroup {
            reader,
            blocks: blocks.into(),
        }))
    }

    fn elements(&self, series: u32, chain: usize, out: &mut Vec<Element>) {
        for (at, group) in self.open.iter().enumerate() {
            let entries = &group.reader.directory().blocks;
            for &block in &group.blocks {
                let Some(&entry) = entries.get(block) else {
                    continue;
                };
                if entry.first_series > series {
                    break;
                }
                if entry.last_series >= series {
                    out.push(Element {
                        chain,
                        group: at,
                        block,
                        entry,
                    });
                }
            }
        }
    }

    /// The block as bytes, if it may stay as it is.
    fn copy(&self, element: &Element) -> Result<Option<CopiedBlock>, Error> {
        let entry = &element.entry;
        let may_stay = self.copies
            && entry.first_series == entry.last_series
            && entry.rows >= COPY_ROWS_MIN
            && self.time.contains(&entry.min_time)
            && self.time.contains(&entry.max_time)
            && !self.mask.touches(
                &(entry.first_series..=entry.last_series),
                &(entry.min_time..=entry.max_time),
            );
        match self.open.get(element.group) {
            Some(group) if may_stay => group.reader.copy(element.block),
            _ => Ok(None),
        }
    }

    /// Bytes of the large values of a block, in all columns.
    fn large_bytes(&self, element: &Element) -> u64 {
        let Some(group) = self.open.get(element.group) else {
            return 0;
        };
        let large = &group.reader.directory().large;
        let own = large.iter().filter(|it| it.block as usize == element.block);
        own.map(|it| u64::from(it.bytes)).sum()
    }

    /// A block whose rows are merged is not held any longer, unless it has another series. A series has as many groups open as
    /// it has rows in: each of them held the last block that it had decoded, of 64 MiB, until the series was done with.
    fn let_go(&mut self, series: u32, element: &Element) {
        if element.entry.last_series == series
            && let Some(group) = self.open.get_mut(element.group)
        {
            group.reader.let_go();
        }
    }

    fn piece(
        &mut self,
        series: u32,
        element: &Element,
        time: &RangeInclusive<i64>,
    ) -> Result<Option<Piece>, Error> {
        let Some(group) = self.open.get_mut(element.group) else {
            return Ok(None);
        };
        group.reader.want(Wanted {
            series: series..=series,
            time: time.clone(),
        });
        let decoded = group.reader.decode(element.block)?;
        let Some(rows) = decoded.rows_of(series, time) else {
            return Ok(None);
        };
        let mut piece = Piece {
            rank: element.chain,
            data: Arc::clone(&decoded.data),
            rows: Rows::Range(rows),
        };
        if !self.mask.is_empty() {
            let all = piece.rows.len();
            piece.hide(series, &self.mask);
            self.deleted += (all - piece.rows.len()) as u64;
        }
        Ok((piece.rows.len() > 0).then_some(piece))
    }
}

impl OpenGroup {
    fn next_series(&mut self, from: u32) -> Result<Option<u32>, Error> {
        while let Some(&block) = self.blocks.front() {
            let Some(&entry) = self.reader.directory().blocks.get(block) else {
                break;
            };
            if entry.first_series >= from {
                return Ok(Some(entry.first_series));
            }
            if entry.last_series >= from {
                let ids = self.reader.series_of(block)?;
                let at = ids.partition_point(|&id| id < from);
                if let Some(&series) = ids.get(at) {
                    return Ok(Some(series));
                }
            }
            self.blocks.pop_front();
        }
        Ok(None)
    }
}

/// Rows and blocks on their way into a group.
struct Builder<'a, 'w> {
    rewrite: &'a Rewrite<'a>,
    writer: &'w mut SegmentWriter,
    output: Output,
    /// Series of the output's rows, by their position there.
    ids: Vec<u32>,
    blocks: Vec<Planned>,
    /// Rows of the output that blocks are planned for.
    planned: usize,
    /// Rows that became part of newer ones.
    merged: u64,
    field_count: usize,
}

enum Planned {
    Rows(Range<usize>),
    Copied(CopiedBlock),
}

impl Builder<'_, '_> {
    fn merge(&mut self, series: u32, pieces: Vec<Piece>) -> Result<(), Error> {
        if pieces.is_empty() {
            return Ok(());
        }
        if self.ids.last() != Some(&series) {
            self.ids.push(series);
        }
        let duplicates = self.rewrite.table.settings.duplicates;
        self.merged += merge::append(pieces, self.ids.len() - 1, duplicates, &mut self.output);
        // Times, series and a slot of eight bytes a field; text is counted when its rows are planned.
        let bytes = self.output.rows() * (12 + 8 * self.field_count) + self.output.text_bytes();
        if bytes > GROUP_BYTES_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    fn copy(&mut self, series: u32, block: CopiedBlock) -> Result<(), Error> {
        let rows = self.output.rows() - self.planned;
        let of_series = self.output.last_stretch();
        if rows > 0 && self.ids.last() == Some(&series) && of_series < rows {
            // Rows before the copied block that are of the same series keep out of blocks shared with others.
            self.plan(self.output.rows() - of_series);
        }
        self.plan(self.output.rows());
        self.blocks.push(Planned::Copied(block));
        if self.blocks.len() >= GROUP_BLOCKS_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    /// Notes that rows up to `end` end a block.
    fn plan(&mut self, end: usize) {
        if end > self.planned {
            self.blocks.push(Planned::Rows(self.planned..end));
            self.planned = end;
        }
    }

    fn write_group(&mut self) -> Result<(), Error> {
        self.plan(self.output.rows());
        self.planned = 0;
        let rows = self.output.take_rows(self.rewrite.table.id, &self.ids);
        self.ids.clear();
        let planned = std::mem::take(&mut self.blocks);
        let mut blocks = Vec::new();
        for block in &planned {
            match block {
                Planned::Rows(range) => {
                    let cut = self.writer.block_ranges(&rows, range.clone());
                    blocks.extend(cut.into_iter().map(BlockInput::Rows));
                }
                Planned::Copied(block) => blocks.push(BlockInput::Copied(block)),
            }
        }
        for blocks in blocks.chunks(GROUP_BLOCKS_MAX) {
            self.writer.write_group(&GroupInput {
                table: self.rewrite.table.id,
                partition_start: self.rewrite.window.start,
                rows: &rows,
                blocks,
                rollups: self.rewrite.rollups,
            })?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<u64, Error> {
        if self.output.rows() > 0 || !self.blocks.is_empty() {
            self.write_group()?;
        }
        Ok(self.merged)
    }
}
