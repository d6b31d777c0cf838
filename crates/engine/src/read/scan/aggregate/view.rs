//! Blocks where they were decoded to, without a copy of their values.
//!
//! Does: decode the columns of a block, as many of its rows as are wanted, into buffers that the next block takes over. Does
//! not: convert columns or join sources; who needs that reads pieces (`source.rs`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, ColumnRef, PhysicalType};

use crate::error::Error;
use crate::scan::source::{GroupReader, stored};
use crate::segment::{BlockEntry, SERIES_PAGE, TIME_PAGE};

/// A block's columns where they were decoded to.
#[derive(Debug, Default)]
struct Viewed {
    block: Option<usize>,
    /// Rows that all of the columns have.
    rows: usize,
    /// By column of the reader, by place of the block: where its page is and how long it is. Empty until it is asked for.
    places: Vec<Vec<Option<(u64, u32)>>>,
    /// By column of the reader.
    pages: Vec<ColumnBuf>,
    /// The same where the segment keeps the page decoded; `None` = it is in `pages`.
    kept: Vec<Option<Arc<ColumnBuf>>>,
    /// Whether the block has the column.
    is_there: Vec<bool>,
    /// The stored bytes of the page of times: those of blocks of other series are often the same.
    time_bytes: Vec<u8>,
    /// First time, last time and rows of the times that were filled in without a page.
    even_times: Option<(i64, i64, u32)>,
}

/// A block as it was decoded.
#[derive(Debug)]
pub(super) struct View<'a> {
    entry: BlockEntry,
    /// Of all rows.
    pub(super) times: &'a [i64],
    /// The series of each row, if there are several.
    series: Option<&'a [i64]>,
    /// By field of the scan; `None` = null in every row. They have the rows that were asked for, and maybe not all.
    pub(super) columns: Vec<Option<ColumnRef<'a>>>,
}

impl View<'_> {
    /// Rows of a series in the time range.
    pub(super) fn rows_of(
        &self,
        series: u32,
        time: &RangeInclusive<i64>,
    ) -> Option<std::ops::Range<usize>> {
        let all = match self.series {
            None if self.entry.first_series != series => return None,
            None => 0..self.times.len(),
            Some(ids) => {
                let series = i64::from(series);
                ids.partition_point(|&id| id < series)..ids.partition_point(|&id| id <= series)
            }
        };
        let own = self.times.get(all.clone())?;
        let start = all.start + own.partition_point(|at| at < time.start());
        let end = all.start + own.partition_point(|at| at <= time.end());
        (start < end).then_some(start..end)
    }
}

/// The times of a block, and its fields; `None` = nobody asks, or null in every row.
pub(super) type Columns<'a> = (Option<&'a [i64]>, Vec<Option<ColumnRef<'a>>>);

/// A reader of blocks, and the last one where it was decoded to.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) reader: GroupReader,
    viewed: Viewed,
}

impl Viewer {
    pub(super) fn new(reader: GroupReader) -> Self {
        Self {
            reader,
            viewed: Viewed::default(),
        }
    }

    /// The same as [`GroupReader::decode`] without a copy of its values, of which those up to a row are wanted; `None` = a column of
    /// the block has to be converted.
    pub(super) fn view(
        &mut self,
        at: usize,
        until: Option<usize>,
    ) -> Result<Option<View<'_>>, Error> {
        let Some(&entry) = self.reader.directory.blocks.get(at) else {
            return Ok(None);
        };
        if !self.reader.given.is_empty() {
            return Ok(None);
        }
        let all = entry.rows as usize;
        let rows = until.map_or(all, |until| until.min(all));
        // The last column is the page of series, which a block of one has not.
        let columns = self.reader.columns.len() - usize::from(!entry.is_shared());
        if self.viewed.block != Some(at) || self.viewed.rows < rows {
            self.viewed.block = None;
            self.find_places();
            self.viewed
                .pages
                .resize_with(self.reader.columns.len(), ColumnBuf::default);
            self.viewed.kept.clear();
            self.viewed.kept.resize(self.reader.columns.len(), None);
            self.viewed.is_there.clear();
            for index in 0..columns {
                let Some(is_there) = self.view_column(index, at, (rows, all))? else {
                    return Ok(None);
                };
                self.viewed.is_there.push(is_there);
            }
            self.viewed.block = Some(at);
            self.viewed.rows = rows;
        }
        let viewed = &self.viewed;
        let pages = viewed.pages.iter().zip(&viewed.kept);
        let pages = pages.map(|(own, kept)| kept.as_deref().unwrap_or(own));
        let mut pages = pages.zip(&viewed.is_there);
        let missing = |what| Error::corrupt(self.reader.segment.path(), 0, what);
        let times = match pages.next() {
            Some((times, true)) => times.i64s(),
            _ => return Err(missing("a block has no times")),
        };
        let fields = self.reader.columns.len().saturating_sub(2);
        let columns = pages
            .by_ref()
            .take(fields)
            .map(|(page, is_there)| is_there.then(|| page.as_column()))
            .collect();
        let series = match pages.next() {
            None => None,
            Some((page, true)) => Some(page.i64s()),
            Some((_, false)) => {
                let what = "a block of several series does not say which row is whose";
                return Err(missing(what));
            }
        };
        Ok(Some(View {
            entry,
            times,
            series,
            columns,
        }))
    }

    /// The columns of a block of a reader that has no page of series, and of times only if `has_times`; `None` = one has to be
    /// converted.
    pub(super) fn columns(
        &mut self,
        at: usize,
        has_times: bool,
    ) -> Result<Option<Columns<'_>>, Error> {
        let entry = self.reader.directory.blocks.get(at);
        let rows = entry.map_or(0, |entry| entry.rows as usize);
        let columns = self.reader.columns.len();
        self.viewed.block = None;
        self.find_places();
        self.viewed.pages.resize_with(columns, ColumnBuf::default);
        self.viewed.kept.clear();
        self.viewed.kept.resize(columns, None);
        self.viewed.is_there.clear();
        for index in 0..columns {
            let Some(is_there) = self.view_column(index, at, (rows, rows))? else {
                return Ok(None);
            };
            self.viewed.is_there.push(is_there);
        }
        let viewed = &self.viewed;
        let pages = viewed.pages.iter().zip(&viewed.kept);
        let pages = pages.map(|(own, kept)| kept.as_deref().unwrap_or(own));
        let mut pages = pages.zip(&viewed.is_there);
        let mut times = None;
        if has_times {
            if let Some((page, true)) = pages.next() {
                times = Some(page.i64s());
            } else {
                let what = "a block has no times";
                return Err(Error::corrupt(self.reader.segment.path(), 0, what));
            }
        }
        let fields = pages.map(|(page, is_there)| is_there.then(|| page.as_column()));
        Ok(Some((times, fields.collect())))
    }

    /// Where the pages of its blocks are, worked out once: the place of each is the sum of those before it.
    fn find_places(&mut self) {
        if !self.viewed.places.is_empty() {
            return;
        }
        let blocks = &self.reader.blocks;
        let places = self.reader.columns.iter().map(|(column, _)| {
            let chunk = self.reader.directory.chunk(*column);
            chunk.map_or_else(Vec::new, |chunk| chunk.pages(blocks).collect())
        });
        self.viewed.places = places.collect();
    }

    /// Decodes a column to its place, so many rows of all; false = the block does not have it, `None` = it is of another type.
    fn view_column(
        &mut self,
        index: usize,
        at: usize,
        (rows, all): (usize, usize),
    ) -> Result<Option<bool>, Error> {
        let (Some(&(column, kind)), Some(page)) = (
            self.reader.columns.get(index),
            self.viewed.pages.get_mut(index),
        ) else {
            return Ok(Some(false));
        };
        let Ok(block) = self.reader.blocks.binary_search(&at) else {
            return Ok(None);
        };
        let place = self.viewed.places.get(index);
        let Some(Some((offset, length))) = place.and_then(|it| it.get(block)).copied() else {
            return Ok(Some(column == TIME_PAGE && self.view_even_times(at)));
        };
        let chunk = self.reader.directory.chunk(column);
        let Some(chunk) = chunk.filter(|chunk| chunk.kind == kind) else {
            return Ok(None);
        };
        if !self.reader.directory.large_of(column, at).is_empty() {
            // Its page has the beginnings of some values only.
            return Ok(None);
        }
        let bytes = stored(
            &self.reader.segment,
            self.reader.spans.get(index),
            offset,
            length,
        )?;
        let segment = &self.reader.segment;
        let is_key = column == TIME_PAGE || column == SERIES_PAGE;
        if !is_key && self.reader.is_narrow() && segment.keeps_pages(chunk) {
            let kept = segment.kept_page(chunk, bytes, offset, (rows, all), page)?;
            check_form(&self.reader, &kept, (rows, all), kind, offset)?;
            if let Some(place) = self.viewed.kept.get_mut(index) {
                *place = Some(kept);
            }
            return Ok(Some(true));
        }
        let stored = segment.check_page(chunk, all, bytes, offset)?;
        // Behind the page stands the checksum of its place.
        let bytes = bytes
            .split_last_chunk::<4>()
            .map_or(bytes, |(page, _)| page);
        if column == TIME_PAGE {
            // Pages of a device may have the same bytes and other times.
            let is_same = self.viewed.time_bytes == bytes && !chunk.is_of_device();
            if is_same && page.rows() == all {
                return Ok(Some(true));
            }
            self.viewed.time_bytes.clear();
            self.viewed.even_times = None;
        }
        let rows = if is_key { all } else { rows };
        segment.decode_checked(chunk, &stored, offset, rows, page)?;
        check_form(&self.reader, page, (rows, all), kind, offset)?;
        if column == TIME_PAGE {
            self.viewed.time_bytes.extend_from_slice(bytes);
        }
        Ok(Some(true))
    }

    /// Fills the first place with the times of a block that has no page of them; false = it cannot have none.
    fn view_even_times(&mut self, at: usize) -> bool {
        let (Some(entry), Some(page)) = (
            self.reader.directory.blocks.get(at),
            self.viewed.pages.first_mut(),
        ) else {
            return false;
        };
        let times = (entry.min_time, entry.max_time, entry.rows);
        if self.viewed.even_times == Some(times) {
            return true;
        }
        self.viewed.time_bytes.clear();
        self.viewed.even_times = Some(times).filter(|_| entry.fill_even(page));
        self.viewed.even_times.is_some()
    }
}

/// A page has the type and the rows that its directory says.
fn check_form(
    reader: &GroupReader,
    page: &ColumnBuf,
    (rows, all): (usize, usize),
    kind: PhysicalType,
    offset: u64,
) -> Result<(), Error> {
    if (rows..=all).contains(&page.rows()) && page.physical_type() == kind {
        return Ok(());
    }
    Err(Error::corrupt(
        reader.segment.path(),
        offset,
        "a page has another type or row count than its directory says",
    ))
}

/// Whether no two of some times are one.
pub(super) fn strictly_ascending_times(times: &[i64]) -> bool {
    times.is_sorted_by(|a, b| a < b)
}
