//! Pages of a device in a group: they stand inside of *units*, stretches of the file that are flash pages as the device wrote them.
//!
//! Does: see that the pages of a directory are inside of its units, put the series and the times of the store in place of the device's,
//! compare a page with its unit. Does not: read a file, or make one (`writer/device.rs` does).
//! Next: `docs/format/segment.md`, "Device pages"; `crates/codec/src/device.rs`.

use std::sync::Arc;

use nilometer_codec::device::{DEVICE_PAGE_BYTES_MAX, DevicePage, device_page_bytes};
use nilometer_codec::{ColumnBuf, PhysicalType, crc32c};

use super::{BlockClock, ColumnChunk, GroupDirectory, Unit};
use crate::error::Malformed;
use crate::segment::TIME_PAGE;

/// What the pages of a group have instead of checksums, and of times, of their own.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::files::segment) struct DevicePages {
    /// Ascending.
    units: Vec<Unit>,
    /// Ascending by place.
    times: Vec<TimePage>,
}

/// The page with the times of a block, and what they are.
#[derive(Debug, PartialEq, Eq)]
struct TimePage {
    offset: u64,
    clock: BlockClock,
    rows: u32,
    first: i64,
    last: i64,
}

fn wrong(what: &str) -> Malformed {
    Malformed::new(format!("pages of a device: {what}"))
}

impl GroupDirectory {
    /// A group of a device's pages with the series of the store; an error if its parts do not fit together.
    pub(super) fn of_device(mut self) -> Result<Self, Malformed> {
        let is_whole = !self.units.is_empty()
            && !self.device_series.is_empty()
            && self.clocks.len() == self.blocks.len();
        if !is_whole {
            return Err(wrong("units, series or clocks are missing"));
        }
        self.check_units()?;
        for block in &mut self.blocks {
            let own = block.first_series;
            let known = self.device_series.binary_search_by_key(&own, |it| it.0);
            let here = known.ok().and_then(|at| self.device_series.get(at));
            let Some((_, here)) = here.filter(|_| !block.is_shared()) else {
                return Err(wrong("a block of no series, or of several"));
            };
            (block.first_series, block.last_series) = (*here, *here);
        }
        let is_sorted = self.blocks.is_sorted_by(|one, next| {
            (one.first_series, one.max_time) < (next.first_series, next.min_time)
        });
        if !is_sorted {
            return Err(wrong("blocks are not in order, or overlap"));
        }
        let device = Arc::new(DevicePages {
            units: self.units.clone(),
            times: self.time_pages()?,
        });
        for chunk in &mut self.chunks {
            chunk.device = Some(Arc::clone(&device));
        }
        Ok(self)
    }

    /// Units follow each other, each has a page, and every page is in one.
    fn check_units(&self) -> Result<(), Malformed> {
        let end = |unit: &Unit| unit.offset.saturating_add(u64::from(unit.length));
        let is_ascending = self.units.is_sorted_by(|one, next| end(one) <= next.offset);
        let lengths = self.units.iter().map(|unit| unit.length as usize);
        if !is_ascending || lengths.max() > Some(DEVICE_PAGE_BYTES_MAX) {
            return Err(wrong("units overlap, or are longer than 64 KiB"));
        }
        let mut has_page = vec![false; self.units.len()];
        for chunk in &self.chunks {
            if !chunk.shared.is_empty() {
                return Err(wrong("a column whose pages share a header"));
            }
            for block in 0..self.blocks.len() {
                let Some((offset, length)) = chunk.page(block) else {
                    continue;
                };
                let at = unit_at(&self.units, offset);
                let unit = at.and_then(|at| self.units.get(at));
                let page_end = offset.saturating_add(u64::from(length));
                let inside = at.filter(|_| unit.is_some_and(|unit| page_end <= end(unit)));
                let Some(known) = inside.and_then(|at| has_page.get_mut(at)) else {
                    return Err(wrong("a page outside of the units"));
                };
                *known = true;
            }
        }
        if has_page.contains(&false) {
            return Err(wrong("a unit without a page"));
        }
        Ok(())
    }

    fn time_pages(&self) -> Result<Vec<TimePage>, Malformed> {
        let chunk = self.chunk(TIME_PAGE);
        let chunk = chunk.ok_or_else(|| wrong("a block has no times"))?;
        let mut pages = Vec::with_capacity(self.blocks.len());
        for (at, (block, clock)) in self.blocks.iter().zip(&self.clocks).enumerate() {
            let place = chunk.page(at).ok_or_else(|| wrong("a block has no times"));
            pages.push(TimePage {
                offset: place?.0,
                clock: *clock,
                rows: block.rows,
                first: block.min_time,
                last: block.max_time,
            });
        }
        pages.sort_unstable_by_key(|page| page.offset);
        if !pages.is_sorted_by(|one, next| one.offset < next.offset) {
            return Err(wrong("two blocks have one page of times"));
        }
        Ok(pages)
    }
}

/// The last unit that begins at or before a place.
fn unit_at(units: &[Unit], offset: u64) -> Option<usize> {
    units
        .partition_point(|unit| unit.offset <= offset)
        .checked_sub(1)
}

impl DevicePages {
    /// The unit that a page stands in.
    pub(in crate::files::segment) fn unit_of(&self, offset: u64) -> Result<Unit, Malformed> {
        let unit = unit_at(&self.units, offset).and_then(|at| self.units.get(at));
        unit.copied()
            .ok_or_else(|| wrong("a page outside of the units"))
    }

    /// Puts the times of the store in place of those of a page, which may have been decoded in part.
    fn set_times(&self, offset: u64, out: &mut ColumnBuf) -> Result<(), Malformed> {
        let known = self.times.binary_search_by_key(&offset, |it| it.offset);
        let page = known.ok().and_then(|at| self.times.get(at));
        let page = page.ok_or_else(|| wrong("times that belong to no block"))?;
        let clock = page.clock;
        let is_set = out.map_i64s(|own| own.checked_mul(clock.unit)?.checked_add(clock.shift));
        let times = out.i64s();
        let (first, last) = (times.first(), times.last());
        let is_whole = times.len() == page.rows as usize;
        let ends_right = last == Some(&page.last) || !is_whole && last < Some(&page.last);
        if is_set && times.is_sorted() && first == Some(&page.first) && ends_right {
            return Ok(());
        }
        Err(wrong("times are not those of their block"))
    }
}

/// The pages of columns in a unit that was checked as a whole, and their checksums, which a unit has none of.
#[derive(Debug)]
pub(in crate::files::segment) struct UnitPages {
    /// Ascending by place.
    pages: Vec<UnitPage>,
}

#[derive(Debug)]
struct UnitPage {
    /// In the unit.
    start: usize,
    /// `None` = times.
    kind: Option<PhysicalType>,
    rows: usize,
    length: usize,
    crc: u32,
}

impl Unit {
    /// The pages of a unit, of which these must be all bytes.
    pub(in crate::files::segment) fn open(&self, whole: &[u8]) -> Result<UnitPages, Malformed> {
        let page = DevicePage::open(whole)?;
        let end = device_page_bytes(whole)?;
        let crc = whole.get(..end).and_then(<[u8]>::last_chunk);
        if crc.map(|crc| u32::from_le_bytes(*crc)) != Some(self.crc) {
            return Err(wrong("a unit is another one than the directory says"));
        }
        let mut pages = Vec::new();
        for block in &page.blocks {
            let fields = block.fields.iter();
            let fields = fields.map(|it| (Some(it.physical_type), &it.page));
            for (kind, range) in std::iter::once((None, &block.time_page)).chain(fields) {
                let bytes = whole.get(range.clone()).unwrap_or_default();
                pages.push(UnitPage {
                    start: range.start,
                    kind,
                    rows: block.rows,
                    length: range.len(),
                    crc: crc32c(0, bytes),
                });
            }
        }
        // They stand in the order of the blocks.
        Ok(UnitPages { pages })
    }
}

impl UnitPages {
    /// Memory in use, roughly.
    pub(in crate::files::segment) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(self.pages.as_slice())
    }

    /// Whether there is a page of a column `offset` bytes behind the start of the unit, of a block of so many rows, and these are its
    /// bytes. A checksum of the unit alone would not tell it from another page of the device in its place.
    pub(in crate::files::segment) fn check(
        &self,
        (chunk, rows): (&ColumnChunk, usize),
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), Malformed> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let known = self.pages.binary_search_by_key(&start, |it| it.start);
        let page = known.ok().and_then(|at| self.pages.get(at));
        let kind = (chunk.column != TIME_PAGE).then_some(chunk.kind);
        let is_there = page.is_some_and(|page| {
            (page.kind, page.rows, page.length) == (kind, rows, bytes.len())
                && page.crc == crc32c(0, bytes)
        });
        if is_there {
            return Ok(());
        }
        Err(wrong("a unit has no such page"))
    }
}

impl ColumnChunk {
    /// Puts the times of the store in place of those of a page at `offset`, if these are a device's times.
    pub(in crate::files::segment) fn set_clock(
        &self,
        offset: u64,
        out: &mut ColumnBuf,
    ) -> Result<(), Malformed> {
        match &self.device {
            Some(device) if self.column == TIME_PAGE => device.set_times(offset, out),
            _ => Ok(()),
        }
    }
}
