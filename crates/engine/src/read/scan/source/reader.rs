//! Some blocks of a group, decoded one after another.
//!
//! Does: fetch the pages of a few columns in few reads, decode a block when it is asked for, fetch large values of the rows that
//! are wanted only. Does not: know which rows a scan is after.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, PhysicalType};

use super::spans::{Span, fetch, stored};
use super::{Data, DataSource};
use crate::batch::{Column, Validity, Values};
use crate::cast::cast;
use crate::error::{Error, Malformed};
use crate::scan::counters::GroupRead;
use crate::schema::ColumnId;
use crate::segment::{
    CopiedBlock, CopiedPage, GroupDirectory, LargeValue, SERIES_PAGE, Segment, TIME_PAGE,
};

/// Some blocks of a group, fetched in few reads, decoded one after another.
#[derive(Debug)]
pub(crate) struct GroupReader {
    pub(in crate::read::scan) segment: Arc<Segment>,
    pub(in crate::read::scan) directory: Arc<GroupDirectory>,
    /// Blocks to read, ascending; a series' blocks are neighbours.
    pub(in crate::read::scan) blocks: Vec<usize>,
    /// Column numbers and types: time first, then the scan's fields.
    pub(in crate::read::scan) columns: Vec<(u32, PhysicalType)>,
    /// By column of `columns` (the last is the series page): stretches of the file.
    pub(in crate::read::scan) spans: Vec<Vec<Span>>,
    pub(in crate::read::scan) given: Given,
    /// Rows whose large values are fetched; those of others stay in their short form.
    wanted: Wanted,
    page: ColumnBuf,
    decoded: Option<Decoded>,
}

/// Rows of some series in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) series: RangeInclusive<u32>,
    pub(crate) time: RangeInclusive<i64>,
}

impl Wanted {
    const ALL: Self = Self {
        series: 0..=u32::MAX,
        time: i64::MIN..=i64::MAX,
    };

    fn has(&self, keys: &Keys<'_>, row: u32) -> bool {
        let at = row as usize;
        let is_own = |ids: &[u32]| ids.get(at).is_none_or(|id| self.series.contains(id));
        keys.times.get(at).is_none_or(|at| self.time.contains(at)) && keys.series.is_none_or(is_own)
    }
}

/// Times and, of a shared block, series of rows.
#[derive(Debug, Clone, Copy)]
struct Keys<'a> {
    times: &'a [i64],
    series: Option<&'a [u32]>,
}

/// Columns of blocks that were decoded before the rest of their block, by block and by column of the reader.
pub(in crate::read::scan) type Given = BTreeMap<(usize, usize), Column>;

/// A decoded block.
#[derive(Debug)]
pub(crate) struct Decoded {
    block: usize,
    /// Whose large values it has; `None` = it has none in its columns.
    wanted: Option<Wanted>,
    /// Of a shared block: the series of each row.
    pub(crate) series: Option<Vec<u32>>,
    pub(crate) data: Arc<Data>,
}

/// Blocks of a group at most whose decoded pages are kept.
const NARROW_BLOCKS_MAX: usize = 16;

impl GroupReader {
    /// Fetches the time, the series and these fields of some blocks, which are positions in the directory, ascending.
    pub(crate) fn open(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Self, Error> {
        Self::open_given(segment, directory, blocks, fields, Given::new())
    }

    /// The same, without fetching columns of blocks that are decoded already.
    pub(in crate::read::scan) fn open_given(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
        given: Given,
    ) -> Result<Self, Error> {
        let mut columns = vec![(TIME_PAGE, PhysicalType::I64)];
        columns.extend(fields.iter().map(|(id, kind)| (id.0, *kind)));
        columns.push((SERIES_PAGE, PhysicalType::I64));
        Self::open_columns(segment, directory, blocks, columns, given)
    }

    /// Fetches these fields of some blocks, and the times if they are wanted, as the first column.
    pub(in crate::read::scan) fn open_times(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
        has_times: bool,
    ) -> Result<Self, Error> {
        let times = has_times.then_some((TIME_PAGE, PhysicalType::I64));
        let fields = fields.iter().map(|(id, kind)| (id.0, *kind));
        let columns = times.into_iter().chain(fields).collect();
        Self::open_columns(segment, directory, blocks, columns, Given::new())
    }

    /// Fetches only these fields of some blocks, for [`Self::field`].
    pub(in crate::read::scan) fn open_fields(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Self, Error> {
        let columns = fields.iter().map(|(id, kind)| (id.0, *kind)).collect();
        Self::open_columns(segment, directory, blocks, columns, Given::new())
    }

    fn open_columns(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        columns: Vec<(u32, PhysicalType)>,
        given: Given,
    ) -> Result<Self, Error> {
        let mut spans = Vec::new();
        for (index, (column, _)) in columns.iter().enumerate() {
            let mut unread = blocks.clone();
            unread.retain(|&block| !given.contains_key(&(block, index)));
            spans.push(fetch(segment, directory, *column, &unread)?);
        }
        Ok(Self {
            segment: Arc::clone(segment),
            directory: Arc::clone(directory),
            blocks,
            columns,
            spans,
            given,
            wanted: Wanted::ALL,
            page: ColumnBuf::default(),
            decoded: None,
        })
    }

    /// What it has fetched, for EXPLAIN.
    pub(in crate::read::scan) fn reads(&self) -> GroupRead {
        let spans = self.spans.iter().flatten();
        let mut read = GroupRead {
            blocks: self.blocks.len() as u64,
            bytes: spans.map(|span| span.bytes.len() as u64).sum(),
            ..GroupRead::default()
        };
        for chunk in &self.directory.chunks {
            let index = self.columns.iter().position(|it| it.0 == chunk.column);
            for &block in &self.blocks {
                let has_page = chunk.lengths.get(block).is_some_and(|&length| length > 0);
                match index {
                    _ if !has_page => {}
                    None => read.pages_skipped += 1,
                    Some(index) if self.given.contains_key(&(block, index)) => {}
                    Some(_) => read.pages += 1,
                }
            }
        }
        read
    }

    /// Pages that it has fetched, and the block that it has decoded.
    pub(super) fn held_bytes(&self) -> usize {
        let spans = self.spans.iter().flatten();
        let pages: usize = spans.map(|span| span.bytes.len()).sum();
        let given: usize = self.given.values().map(|it| it.values.bytes()).sum();
        let decoded = self.decoded.as_ref().map_or(0, |decoded| {
            let ids = decoded
                .series
                .as_ref()
                .map_or(0, |ids| ids.len() * size_of::<u32>());
            let DataSource::Block { times, columns } = &decoded.data.source else {
                return ids;
            };
            let columns = columns.iter().flatten().map(|column| column.values.bytes());
            ids + size_of_val(times.as_slice()) + columns.sum::<usize>()
        });
        pages + given + decoded
    }

    /// The blocks that it has fetched.
    pub(in crate::read::scan) fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Whether it reads so few blocks that who asks again may find them decoded. One that reads many would push everything
    /// else out of the cache.
    pub(in crate::read::scan) fn is_narrow(&self) -> bool {
        self.blocks.len() <= NARROW_BLOCKS_MAX
    }

    /// Rows of a block.
    pub(in crate::read::scan) fn rows(&self, block: usize) -> usize {
        let block = self.directory.blocks.get(block);
        block.map_or(0, |block| block.rows as usize)
    }

    /// One of the fields of a reader of fields only, with its large values.
    pub(in crate::read::scan) fn field(
        &mut self,
        index: usize,
        block: usize,
    ) -> Result<Option<Column>, Error> {
        self.decode_column(index, (block, self.rows(block)), None)
    }

    pub(crate) fn directory(&self) -> &GroupDirectory {
        &self.directory
    }

    /// The pages of a block of one series as they are, checked; `None` = a page is of another type than asked for,
    /// cannot be read alone, leaves values to the group, or is inside of a device's.
    pub(crate) fn copy(&self, at: usize) -> Result<Option<CopiedBlock>, Error> {
        let Some(&entry) = self.directory.blocks.get(at) else {
            return Ok(None);
        };
        let mut pages = Vec::new();
        for (index, &(column, kind)) in self.columns.iter().enumerate() {
            let Some(chunk) = self.directory.chunk(column) else {
                continue;
            };
            if !self.directory.large_of(column, at).is_empty() {
                return Ok(None);
            }
            let Some((offset, length)) = chunk.page(at) else {
                continue;
            };
            if chunk.kind != kind || chunk.is_of_device() {
                return Ok(None);
            }
            let bytes = stored(&self.segment, self.spans.get(index), offset, length)?;
            let rows = entry.rows as usize;
            let page = self.segment.check_page(chunk, rows, bytes, offset)?;
            if page.needs_header() {
                // Alone in another group it could not be read.
                return Ok(None);
            }
            let mut bytes = Vec::with_capacity(length as usize);
            let put = page.put(&mut bytes);
            put.map_err(|what| Malformed::from(what).at(self.segment.path(), offset))?;
            pages.push(CopiedPage {
                column,
                kind,
                bytes,
            });
        }
        Ok(Some(CopiedBlock { entry, pages }))
    }

    /// From now on large values of these rows are fetched, and those of others are not: a block has 64 MiB of them, of which a
    /// scan, or a merge that goes on by stretches of time, may be after a few.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        self.wanted = wanted;
    }

    /// The same for a scan of these series, which ascend.
    pub(in crate::read::scan) fn wanting(
        mut self,
        series: &[u32],
        time: &RangeInclusive<i64>,
    ) -> Self {
        if let (Some(&first), Some(&last)) = (series.first(), series.last()) {
            self.wanted.series = first..=last;
        }
        self.wanted.time = time.clone();
        self
    }

    /// Lets go of the block that it has decoded: a reader that waits for others would hold it for as long.
    pub(crate) fn let_go(&mut self) {
        self.decoded = None;
    }

    /// A block, which must be one of those fetched; the last one is kept.
    pub(crate) fn decode(&mut self, at: usize) -> Result<&Decoded, Error> {
        let wanted = &self.wanted;
        let has_other = |of: &Option<Wanted>| of.as_ref().is_some_and(|it| it != wanted);
        if self
            .decoded
            .as_ref()
            .is_none_or(|decoded| decoded.block != at || has_other(&decoded.wanted))
        {
            // Before the next one is there, not after.
            self.decoded = None;
            self.decoded = Some(self.decode_block(at)?);
        }
        self.decoded
            .as_ref()
            .ok_or_else(|| Error::corrupt(self.segment.path(), 0, "no such block"))
    }

    /// The series of the rows of a shared block, which must be one of those fetched; no large value is fetched for them.
    pub(crate) fn series_of(&mut self, at: usize) -> Result<&[u32], Error> {
        if self.decoded.as_ref().is_none_or(|it| it.block != at) {
            let none = Wanted {
                time: RangeInclusive::new(1, 0),
                ..Wanted::ALL
            };
            let wanted = std::mem::replace(&mut self.wanted, none);
            let decoded = self.decode_block(at);
            self.wanted = wanted;
            self.decoded = Some(decoded?);
        }
        let decoded = self.decoded.as_ref();
        Ok(decoded
            .and_then(|it| it.series.as_deref())
            .unwrap_or_default())
    }

    fn decode_block(&mut self, at: usize) -> Result<Decoded, Error> {
        let block = self.directory.blocks.get(at);
        let rows = block.map_or(0, |block| block.rows as usize);
        let is_shared = block.is_some_and(|block| block.first_series != block.last_series);
        let last = self.columns.len().saturating_sub(1);
        let times = self.decode_column(0, (at, rows), None)?;
        let Some(Values::I64(times)) = times.map(|column| column.values) else {
            return Err(Error::corrupt(
                self.segment.path(),
                0,
                "a block has no times",
            ));
        };
        let series = self.decode_column(last, (at, rows), None)?;
        let series = series.map(|column| match column.values {
            Values::I64(ids) => ids
                .iter()
                .map(|&id| u32::try_from(id).unwrap_or(0))
                .collect::<Vec<u32>>(),
            _ => Vec::new(),
        });
        if is_shared && series.is_none() {
            return Err(Error::corrupt(
                self.segment.path(),
                0,
                "a block of several series does not say which row is whose",
            ));
        }
        let keys = Keys {
            times: &times,
            series: series.as_deref(),
        };
        let mut columns = Vec::with_capacity(last.saturating_sub(1));
        for index in 1..last {
            columns.push(self.decode_column(index, (at, rows), Some(keys))?);
        }
        let fields = self.columns.get(1..last).unwrap_or_default();
        let mut large = fields
            .iter()
            .map(|(id, _)| self.directory.large_of(*id, at));
        let has_large = large.any(|values| !values.is_empty());
        Ok(Decoded {
            block: at,
            wanted: has_large.then(|| self.wanted.clone()),
            series,
            data: Arc::new(Data {
                source: DataSource::Block { times, columns },
            }),
        })
    }

    /// The times of a block that has no page of them.
    fn even_times(&mut self, column: u32, block: usize) -> Option<Column> {
        let entry = self.directory.blocks.get(block);
        let entry = entry.filter(|_| column == TIME_PAGE)?;
        entry.fill_even(&mut self.page).then(|| Column {
            id: ColumnId(column),
            values: Values::from_page(&self.page),
            validity: Validity::from_bitmap(None, self.page.rows()),
        })
    }

    fn decode_column(
        &mut self,
        index: usize,
        (block, rows): (usize, usize),
        keys: Option<Keys<'_>>,
    ) -> Result<Option<Column>, Error> {
        if let Some(given) = self.given.remove(&(block, index)) {
            return Ok(Some(given));
        }
        let Some(&(column, kind)) = self.columns.get(index) else {
            return Ok(None);
        };
        let chunk = self.directory.chunk(column);
        // A page of another type than the schema's is older or newer than a change of its field's type.
        let Some((chunk, (offset, length))) = chunk.and_then(|it| Some((it, it.page(block)?)))
        else {
            return Ok(self.even_times(column, block));
        };
        let stored_kind = chunk.kind;
        let bytes = stored(&self.segment, self.spans.get(index), offset, length)?;
        let of_rows = column != TIME_PAGE && column != SERIES_PAGE;
        let kept = if of_rows && self.is_narrow() && self.segment.keeps_pages(chunk) {
            let page = &mut self.page;
            Some(
                self.segment
                    .kept_page(chunk, bytes, offset, (rows, rows), page)?,
            )
        } else {
            self.segment
                .decode_page(chunk, rows, bytes, offset, &mut self.page)?;
            None
        };
        let page = kept.as_deref().unwrap_or(&self.page);
        if page.rows() != rows || page.physical_type() != stored_kind {
            return Err(Error::corrupt(
                self.segment.path(),
                offset,
                "a page has another type or row count than its directory says",
            ));
        }
        let mut values = Values::from_page(page);
        let large = self.directory.large_of(column, block);
        if !large.is_empty() {
            let is_wanted =
                |it: &&LargeValue| keys.is_none_or(|keys| self.wanted.has(&keys, it.row));
            let large: Vec<LargeValue> = large.iter().filter(is_wanted).copied().collect();
            self.segment
                .put_large(&self.directory, &large, &mut values)?;
        }
        let decoded = Column {
            id: ColumnId(column),
            values,
            validity: Validity::from_bitmap(page.validity(), rows),
        };
        Ok(Some(if of_rows && stored_kind != kind {
            cast(&decoded, kind)
        } else {
            decoded
        }))
    }
}

impl Decoded {
    /// Series and time of each row; `alone` is the series of a block of one.
    pub(crate) fn keys(&self, alone: u32) -> impl Iterator<Item = (u32, i64)> {
        let times = self.data.times().iter().enumerate();
        let series = self.series.as_deref();
        times.map(move |(at, time)| {
            let id = series.and_then(|ids| ids.get(at));
            (id.copied().unwrap_or(alone), *time)
        })
    }

    /// Rows of `series` in the time range; rows of a block are ordered by (series, time).
    pub(crate) fn rows_of(&self, series: u32, time: &RangeInclusive<i64>) -> Option<Range<usize>> {
        let times = self.data.times();
        let all = match &self.series {
            None => 0..times.len(),
            Some(ids) => {
                ids.partition_point(|&id| id < series)..ids.partition_point(|&id| id <= series)
            }
        };
        let own = times.get(all.clone())?;
        let start = all.start + own.partition_point(|at| at < time.start());
        let end = all.start + own.partition_point(|at| at <= time.end());
        (start < end).then_some(start..end)
    }
}
