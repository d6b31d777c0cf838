//! Rows at one end of time: the series that have them, and the time limit.
//!
//! Does: look at times only, newest (or oldest) block first, and end when no block that is left can have one. Does not:
//! read fields; a scan of the series and times that are left does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::plan::Source;
use super::source::{GroupReader, needed_blocks};
use crate::error::Error;
use crate::schema::Duplicates;

/// What of time and series is left.
pub(super) struct Left {
    pub(super) time: RangeInclusive<i64>,
    /// `None` = all of them.
    pub(super) series: Option<Vec<u32>>,
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) rows: usize,
    pub(super) newest: bool,
    pub(super) ties: bool,
}

/// Keys of the best rows so far. Times are turned so that higher is better.
struct Best {
    wanted: Wanted,
    keeps: bool,
    /// Turned time, series, and a number that tells rows of one key apart where all of them are kept.
    keys: BTreeSet<(i64, u32, u64)>,
    rows: u64,
}

impl Best {
    fn turn(&self, time: i64) -> i64 {
        // Negation would overflow; the complement orders as it does.
        if self.wanted.newest { time } else { !time }
    }

    /// What a turned time must be above to count; `None` = there are too few rows to refuse one.
    fn bar(&self) -> Option<i64> {
        let is_full = self.keys.len() >= self.wanted.rows;
        is_full.then(|| self.keys.first().map_or(i64::MAX, |key| key.0))
    }

    fn is_better(&self, turned: i64) -> bool {
        self.bar().is_none_or(|bar| turned > bar)
    }

    fn add(&mut self, turned: i64, series: u32) {
        let nth = if self.keeps { self.rows } else { 0 };
        self.rows += 1;
        self.keys.insert((turned, series, nth));
        if self.keys.len() > self.wanted.rows {
            self.keys.pop_first();
        }
    }
}

/// A block to look at.
struct BlockSpan {
    /// Its better end, turned.
    best: i64,
    /// Its other end, turned.
    worst: i64,
    source: usize,
    block: usize,
}

/// Finds the rows at an end of time among those of `series`, ascending.
pub(super) fn find(
    sources: &[Source],
    series: &[u32],
    time: &RangeInclusive<i64>,
    duplicates: Duplicates,
    wanted: Wanted,
) -> Result<Left, Error> {
    let mut best = Best {
        wanted,
        keeps: duplicates == Duplicates::Keep,
        keys: BTreeSet::new(),
        rows: 0,
    };
    if wanted.rows == 0 {
        let series = Some(Vec::new());
        return Ok(Left {
            time: time.clone(),
            series,
        });
    }
    let mut places = Vec::new();
    for (source, it) in sources.iter().enumerate() {
        match it {
            Source::Run { .. } => look_at_run(it, series, time, &mut best),
            Source::Group { directory, .. } => {
                for at in needed_blocks(directory, series, time) {
                    let Some(block) = directory.blocks.get(at) else {
                        continue;
                    };
                    let (one, other) = (best.turn(block.min_time), best.turn(block.max_time));
                    places.push(BlockSpan {
                        best: one.max(other),
                        worst: one.min(other),
                        source,
                        block: at,
                    });
                }
            }
        }
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.best));
    let mut readers: BTreeMap<usize, GroupReader> = BTreeMap::new();
    for (at, place) in places.iter().enumerate() {
        if !best.is_better(place.best) {
            break;
        }
        look_at_block(
            sources,
            series,
            time,
            (place, places.get(at..).unwrap_or_default()),
            &mut readers,
            &mut best,
        )?;
    }
    Ok(left(&best, time))
}

fn left(best: &Best, time: &RangeInclusive<i64>) -> Left {
    let time = match best.bar() {
        None => time.clone(),
        Some(bar) if best.wanted.newest => bar.max(*time.start())..=*time.end(),
        Some(bar) => *time.start()..=(!bar).min(*time.end()),
    };
    let series = (!best.wanted.ties).then(|| {
        let mut series: Vec<u32> = best.keys.iter().map(|key| key.1).collect();
        series.sort_unstable();
        series.dedup();
        series
    });
    Left { time, series }
}

fn look_at_run(source: &Source, series: &[u32], time: &RangeInclusive<i64>, best: &mut Best) {
    let Source::Run { run, visible, mask } = source else {
        return;
    };
    let rows = run.rows.times.iter().zip(&run.rows.series).take(*visible);
    for (row, (&at, &id)) in rows.enumerate() {
        let turned = best.turn(at);
        if best.is_better(turned)
            && time.contains(&at)
            && series.binary_search(&id).is_ok()
            && !mask.hides(row, id, at)
        {
            best.add(turned, id);
        }
    }
}

fn look_at_block(
    sources: &[Source],
    series: &[u32],
    time: &RangeInclusive<i64>,
    (place, rest): (&BlockSpan, &[BlockSpan]),
    readers: &mut BTreeMap<usize, GroupReader>,
    best: &mut Best,
) -> Result<(), Error> {
    let Some(Source::Group {
        segment,
        directory,
        mask,
        ..
    }) = sources.get(place.source)
    else {
        return Ok(());
    };
    let is_fetched = readers
        .get(&place.source)
        .is_some_and(|reader| reader.blocks().binary_search(&place.block).is_ok());
    if !is_fetched {
        // Of a group, the blocks that this one does not show to be needless are fetched together.
        let together = rest.iter().take_while(|other| other.best >= place.worst);
        let together = together.filter(|other| other.source == place.source);
        let mut blocks: Vec<usize> = together.map(|other| other.block).collect();
        blocks.sort_unstable();
        let reader = GroupReader::open(segment, directory, blocks, &[])?;
        readers.insert(place.source, reader);
    }
    let (Some(reader), Some(block)) = (
        readers.get_mut(&place.source),
        directory.blocks.get(place.block),
    ) else {
        return Ok(());
    };
    let decoded = reader.decode(place.block)?;
    let times = decoded.data.times();
    let rows = times.len();
    for row in 0..rows {
        // The better end of a series' rows comes first, after which most others are refused at once.
        let row = if best.wanted.newest {
            rows - 1 - row
        } else {
            row
        };
        let Some(&at) = times.get(row) else { continue };
        let turned = best.turn(at);
        if !best.is_better(turned) {
            if !block.is_shared() {
                break;
            }
            continue;
        }
        let id = match &decoded.series {
            None => block.first_series,
            Some(ids) => ids.get(row).copied().unwrap_or(u32::MAX),
        };
        if time.contains(&at) && series.binary_search(&id).is_ok() && !mask.hides(row, id, at) {
            best.add(turned, id);
        }
    }
    Ok(())
}
