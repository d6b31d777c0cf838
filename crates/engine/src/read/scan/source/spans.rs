//! Stretches of a segment's file, read in one call each, and the pages in them.

use crate::error::Error;
use crate::segment::{GroupDirectory, Segment};

/// Pages with no more than this between them are read at once: a read call costs more than the bytes.
const GAP_BYTES_MAX: u64 = 4096;

/// Bytes of neighbouring pages.
#[derive(Debug)]
pub(in crate::read::scan) struct Span {
    offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// The bytes of a page among those fetched.
pub(in crate::read::scan) fn stored<'a>(
    segment: &Segment,
    spans: Option<&'a Vec<Span>>,
    offset: u64,
    length: u32,
) -> Result<&'a [u8], Error> {
    let find = || {
        let spans = spans?;
        let at = spans.partition_point(|span| span.offset <= offset);
        let span = spans.get(at.checked_sub(1)?)?;
        let start = usize::try_from(offset - span.offset).ok()?;
        span.bytes.get(start..start.checked_add(length as usize)?)
    };
    find().ok_or_else(|| Error::corrupt(segment.path(), offset, "a page is outside the file"))
}

/// Reads the pages of a column for some blocks, neighbours in one call.
pub(super) fn fetch(
    segment: &Segment,
    directory: &GroupDirectory,
    column: u32,
    blocks: &[usize],
) -> Result<Vec<Span>, Error> {
    let Some(chunk) = directory.chunk(column) else {
        return Ok(Vec::new());
    };
    let mut pages: Vec<(u64, u32)> = chunk.pages(blocks).flatten().collect();
    if !pages.is_sorted() {
        // A device's pages stand in the order in which they came, which need not be that of their times.
        pages.sort_unstable();
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in pages {
        let end = offset + u64::from(length);
        match ranges.last_mut() {
            Some((_, last_end)) if offset <= *last_end + GAP_BYTES_MAX => *last_end = end,
            _ => ranges.push((offset, end)),
        }
    }
    ranges
        .into_iter()
        .map(|(offset, end)| {
            let bytes = segment.read_span(offset, end - offset)?;
            Ok(Span { offset, bytes })
        })
        .collect()
}
