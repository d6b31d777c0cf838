//! Overlaps of sources: where rows of one key may be in more than one, so that all must be read.
//!
//! Does: find those times of a series. Does not: read anything.

use std::ops::RangeInclusive;

use super::source::Piece;
use crate::segment::BlockEntry;

/// Times in which more than one source may have rows of a series: disjoint, ascending.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    spans: Vec<(i64, i64)>,
}

impl Conflicts {
    /// Of blocks that may have rows of a series, with their source, and pieces of it.
    pub(super) fn of<'b>(
        time: &RangeInclusive<i64>,
        blocks: impl Iterator<Item = (usize, &'b BlockEntry)>,
        pieces: &[Piece],
    ) -> Self {
        let blocks = blocks.filter(|(_, block)| block.overlaps(time));
        let blocks = blocks.map(|(source, block)| (block.min_time, block.max_time, source));
        let pieces = pieces.iter().filter_map(|piece| {
            let (first, last) = extent(piece)?;
            Some((first, last, piece.rank))
        });
        Self::between(blocks.chain(pieces).collect())
    }

    /// From first time, last time and source.
    fn between(mut extents: Vec<(i64, i64, usize)>) -> Self {
        extents.sort_unstable();
        let mut spans: Vec<(i64, i64)> = Vec::new();
        // Of the extents so far: the latest end, and the latest of another source than that one's.
        let mut latest: Option<(i64, usize)> = None;
        let mut second: Option<i64> = None;
        for (start, end, source) in extents {
            let others = match latest {
                Some((last, owner)) if owner != source => Some(last),
                _ => second,
            };
            if let Some(others) = others.filter(|others| *others >= start) {
                spans.push((start, end.min(others)));
            }
            match latest {
                Some((last, owner)) if owner == source => {
                    latest = Some((last.max(end), owner));
                }
                Some((last, _)) if end > last => {
                    second = Some(last);
                    latest = Some((end, source));
                }
                Some(_) => second = Some(second.map_or(end, |known| known.max(end))),
                None => latest = Some((end, source)),
            }
        }
        // Starts ascend already.
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (start, end) in spans {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self { spans: merged }
    }

    /// Whether one of these times is among them.
    pub(super) fn touches(&self, start: i64, end: i64) -> bool {
        let at = self.spans.partition_point(|span| span.1 < start);
        self.spans.get(at).is_some_and(|span| span.0 <= end)
    }
}

/// Times of the first and the last row of a piece.
pub(super) fn extent(piece: &Piece) -> Option<(i64, i64)> {
    let times = piece.data.times();
    let time = |at: usize| times.get(piece.rows.get(at)).copied();
    let last = piece.rows.len().checked_sub(1)?;
    Some((time(0)?, time(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_where_two_sources_may_have_rows() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        for _ in 0..2000 {
            let extents: Vec<(i64, i64, usize)> = (0..next(8))
                .map(|_| {
                    let start = next(40) as i64;
                    (start, start + next(12) as i64, next(3) as usize)
                })
                .collect();
            let conflicts = Conflicts::between(extents.clone());
            for time in 0..60 {
                let here = extents.iter().filter(|e| e.0 <= time && time <= e.1);
                let mut sources: Vec<usize> = here.map(|e| e.2).collect();
                sources.sort_unstable();
                sources.dedup();
                let expected = sources.len() > 1;
                assert_eq!(
                    conflicts.touches(time, time),
                    expected,
                    "{extents:?} at {time}"
                );
            }
            assert!(conflicts.spans.is_sorted_by(|a, b| a.1 < b.0));
        }
    }
}
