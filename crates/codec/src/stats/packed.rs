//! Packed statistics: those of many pages of one column, list by list.
//!
//! Does: turn the statistics of up to [`PAGES_MAX`] pages into about 5 to 14 bytes each (text and floats of all digits
//! take up to 45), and back, bit for bit. Does not: compute statistics, or say which pages they are of; whoever stores
//! them knows, and checks the bytes.
//!
//! Neighbouring pages resemble each other, so one list of one number of every page goes through the integer pipeline.
//! A number that is bound to another one is written as the difference. The bytes: `docs/format/statistics.md`.

mod float;

use super::{Edge, PageStatistics, Statistics, rank, unrank};
use crate::read::take_u8;
use crate::{BLOCK_ROWS_MAX, Error, PAGES_MAX, PhysicalType, decode_i64s, encode_i64s};

/// There is no such page, or nothing is known of it.
const UNKNOWN: i64 = 0;
/// The page has null rows only.
const NULLS_ONLY: i64 = 1;
/// The page has values.
const VALUES: i64 = 2;

/// Appends the statistics of some pages of one column, all of type `kind`, in order.
///
/// `None` stands for a page that does not exist or has no statistics. Statistics of another type, or that contradict
/// themselves (their edges are not those of so many values), are dropped: a reader then looks at the rows.
///
/// # Panics
///
/// If there are more than [`PAGES_MAX`] pages, which no reader would accept.
pub fn encode_statistics(pages: &[Option<PageStatistics>], kind: PhysicalType, out: &mut Vec<u8>) {
    assert!(
        pages.len() <= PAGES_MAX,
        "the statistics of {} pages; pack at most {PAGES_MAX} together",
        pages.len()
    );
    put(pages.iter().map(|page| state(page.as_ref(), kind)), out);
    let known: Vec<Known> = pages
        .iter()
        .flatten()
        .filter_map(|page| Known::of(page, kind))
        .collect();
    put(known.iter().map(|page| i64::from(page.non_null)), out);
    put(known.iter().map(|page| i64::from(page.first.row)), out);
    put(
        known.iter().map(|page| i64::from(page.nulls_between())),
        out,
    );
    let first: Vec<i64> = known.iter().map(|page| page.first.bits as i64).collect();
    let last: Vec<i64> = known.iter().map(|page| page.last.bits as i64).collect();
    match kind {
        PhysicalType::I64 | PhysicalType::U64 => {
            let (min, _) = put_whole(&known, &first, &last, out);
            let above = |(page, min): (&Known, &i64)| page.sum_above(widen(*min, kind));
            let sums: Vec<i128> = known.iter().zip(&min).map(above).collect();
            put(sums.iter().map(|sum| *sum as i64), out);
            put(sums.iter().map(|sum| (*sum >> 64) as i64), out);
        }
        PhysicalType::Text | PhysicalType::Bytes => {
            put_whole(&known, &first, &last, out);
        }
        PhysicalType::Bool => {
            put(first.iter().copied(), out);
            put(last.iter().copied(), out);
            put(known.iter().map(Known::trues), out);
        }
        PhysicalType::F64 => float::put(&known, out),
    }
}

/// Takes the statistics of `pages` pages off the front of `input`.
pub fn decode_statistics(
    input: &mut &[u8],
    pages: usize,
    kind: PhysicalType,
) -> Result<Vec<Option<PageStatistics>>, Error> {
    if pages > PAGES_MAX {
        return Err(Error::LimitPages { pages });
    }
    let states = take(input, pages)?;
    let n = states.iter().filter(|state| **state == VALUES).count();
    let frames = take_frames(input, n)?;
    let mut known = take_values(input, &frames, kind)?.into_iter();
    let page = |state: &i64| match *state {
        UNKNOWN => Ok(None),
        NULLS_ONLY => Ok(Some(PageStatistics {
            non_null: 0,
            first: None,
            last: None,
            values: zeros(kind),
        })),
        VALUES => Ok(known.next()),
        _ => Err(Error::corrupt(
            "the statistics of a page are of no known kind",
        )),
    };
    states.iter().map(page).collect()
}

/// Statistics of a page with values, sound and of the right type.
struct Known {
    non_null: u32,
    first: Edge,
    last: Edge,
    values: Statistics,
}

impl Known {
    fn of(page: &PageStatistics, kind: PhysicalType) -> Option<Self> {
        let known = Self {
            non_null: page.non_null,
            first: page.first?,
            last: page.last?,
            values: page.values,
        };
        let is_bool = matches!(kind, PhysicalType::Bool);
        let frame = Frame {
            non_null: i64::from(known.non_null),
            first: i64::from(known.first.row),
            last: i64::from(known.last.row),
        };
        let is_sound = frame.is_sound()
            && is_of(&known.values, kind)
            && (!is_bool || known.first.bits | known.last.bits <= 1);
        is_sound.then_some(known)
    }

    /// Null rows between the first value and the last one.
    fn nulls_between(&self) -> u32 {
        u32::from(self.last.row) + 1 - u32::from(self.first.row) - self.non_null
    }

    /// The extremes as integers that order as the values do, or not at all for types without.
    fn extremes(&self) -> (i64, i64) {
        match self.values {
            Statistics::Int { min, max, .. } => (min, max),
            Statistics::Unsigned { min, max, .. } => (min as i64, max as i64),
            Statistics::Text {
                min_prefix,
                max_prefix,
            } => (rank(min_prefix) as i64, rank(max_prefix) as i64),
            Statistics::Float { min, max, .. } => (min.to_bits() as i64, max.to_bits() as i64),
            Statistics::Bool { .. } => (0, 0),
        }
    }

    /// By how much the sum exceeds that of as many values that all are `min`.
    fn sum_above(&self, min: i128) -> i128 {
        let sum = match self.values {
            Statistics::Int { sum, .. } => sum,
            Statistics::Unsigned { sum, .. } => sum as i128,
            _ => 0,
        };
        sum.wrapping_sub(min.wrapping_mul(i128::from(self.non_null)))
    }

    fn trues(&self) -> i64 {
        match self.values {
            Statistics::Bool { trues } => i64::from(trues),
            _ => 0,
        }
    }
}

/// Which rows of a page have values, as far as statistics say.
struct Frame {
    non_null: i64,
    first: i64,
    last: i64,
}

impl Frame {
    /// Whether a page can have so many values between these rows.
    fn is_sound(&self) -> bool {
        let between = self.last - self.first + 1;
        self.first >= 0
            && self.last < BLOCK_ROWS_MAX as i64
            && (1..=between).contains(&self.non_null)
            // A single value is the first one and the last one, two have no other between them.
            && (self.non_null > 1) == (between > 1)
    }
}

fn state(page: Option<&PageStatistics>, kind: PhysicalType) -> i64 {
    match page {
        Some(page) if Known::of(page, kind).is_some() => VALUES,
        Some(PageStatistics {
            non_null: 0,
            first: None,
            last: None,
            values,
        }) if is_of(values, kind) => NULLS_ONLY,
        _ => UNKNOWN,
    }
}

fn is_of(values: &Statistics, kind: PhysicalType) -> bool {
    match values {
        Statistics::Int { .. } => kind == PhysicalType::I64,
        Statistics::Unsigned { .. } => kind == PhysicalType::U64,
        Statistics::Float { .. } => kind == PhysicalType::F64,
        Statistics::Bool { trues } => {
            kind == PhysicalType::Bool && *trues as usize <= BLOCK_ROWS_MAX
        }
        Statistics::Text { .. } => matches!(kind, PhysicalType::Text | PhysicalType::Bytes),
    }
}

fn zeros(kind: PhysicalType) -> Statistics {
    match kind {
        PhysicalType::I64 => Statistics::Int {
            min: 0,
            max: 0,
            sum: 0,
        },
        PhysicalType::U64 => Statistics::Unsigned {
            min: 0,
            max: 0,
            sum: 0,
        },
        PhysicalType::F64 => Statistics::Float {
            min: 0.0,
            max: 0.0,
            sum: 0.0,
            non_finite: false,
        },
        PhysicalType::Bool => Statistics::Bool { trues: 0 },
        PhysicalType::Text | PhysicalType::Bytes => Statistics::Text {
            min_prefix: [0; 8],
            max_prefix: [0; 8],
        },
    }
}

/// The 64 bits of an integer as a number.
fn widen(bits: i64, kind: PhysicalType) -> i128 {
    match kind {
        PhysicalType::U64 => i128::from(bits as u64),
        _ => i128::from(bits),
    }
}

/// Appends one number of every page.
fn put(list: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
    encode_i64s(&list.collect::<Vec<_>>(), out);
}

fn take(input: &mut &[u8], n: usize) -> Result<Vec<i64>, Error> {
    let mut list = Vec::new();
    decode_i64s(input, n, &mut list)?;
    Ok(list)
}

/// Appends extremes and edges; answers with the extremes.
fn put_whole(
    known: &[Known],
    first: &[i64],
    last: &[i64],
    out: &mut Vec<u8>,
) -> (Vec<i64>, Vec<i64>) {
    let (min, max): (Vec<_>, Vec<_>) = known.iter().map(Known::extremes).unzip();
    put(min.iter().copied(), out);
    put(differences(&max, &min), out);
    put_nearest(last, &[&min, &max], out);
    put_nearest(first, &[&min, &max, &before(last)], out);
    (min, max)
}

/// Extremes and edges of the pages with values.
struct Whole {
    min: Vec<i64>,
    max: Vec<i64>,
    last: Vec<i64>,
    first: Vec<i64>,
}

fn take_whole(input: &mut &[u8], n: usize) -> Result<Whole, Error> {
    let min = take(input, n)?;
    let max = sums(take(input, n)?, &min);
    let last = take_nearest(input, &[&min, &max])?;
    let first = take_nearest(input, &[&min, &max, &before(&last)])?;
    Ok(Whole {
        min,
        max,
        last,
        first,
    })
}

/// The last values of the pages before. Where a series goes on, its next value is near.
fn before(last: &[i64]) -> Vec<i64> {
    let all_but_one = last.len().saturating_sub(1);
    let mut before = vec![0; last.len().min(1)];
    before.extend_from_slice(&last[..all_but_one]);
    before
}

fn differences(values: &[i64], from: &[i64]) -> impl Iterator<Item = i64> {
    values
        .iter()
        .zip(from)
        .map(|(value, from)| value.wrapping_sub(*from))
}

fn sums(mut list: Vec<i64>, from: &[i64]) -> Vec<i64> {
    for (value, from) in list.iter_mut().zip(from) {
        *value = value.wrapping_add(*from);
    }
    list
}

/// Appends the index of the reference from which the differences take fewest bytes, and these.
fn put_nearest(values: &[i64], references: &[&[i64]], out: &mut Vec<u8>) {
    let tried = references.iter().enumerate().map(|(index, reference)| {
        let mut bytes = vec![index as u8];
        put(differences(values, reference), &mut bytes);
        bytes
    });
    if let Some(bytes) = tried.min_by_key(Vec::len)
        && !values.is_empty()
    {
        out.extend_from_slice(&bytes);
    }
}

fn take_nearest(input: &mut &[u8], references: &[&[i64]]) -> Result<Vec<i64>, Error> {
    let n = references.first().map_or(0, |list| list.len());
    if n == 0 {
        return Ok(Vec::new());
    }
    let reference = references
        .get(usize::from(take_u8(input)?))
        .ok_or(Error::corrupt(
            "edges refer to an unknown list of statistics",
        ))?;
    Ok(sums(take(input, n)?, reference))
}

fn take_frames(input: &mut &[u8], n: usize) -> Result<Vec<Frame>, Error> {
    let (non_null, first, between) = (take(input, n)?, take(input, n)?, take(input, n)?);
    let frame = |((non_null, first), between): ((i64, i64), i64)| {
        let frame = Frame {
            non_null,
            first,
            last: first
                .wrapping_add(non_null)
                .wrapping_add(between)
                .wrapping_sub(1),
        };
        let is_row = |row| (0..BLOCK_ROWS_MAX as i64).contains(&row);
        if is_row(frame.first) && is_row(frame.last) && frame.is_sound() {
            Ok(frame)
        } else {
            Err(Error::corrupt(
                "no page has such rows as the statistics say",
            ))
        }
    };
    let lists = non_null.into_iter().zip(first).zip(between);
    lists.map(frame).collect()
}

fn take_values(
    input: &mut &[u8],
    frames: &[Frame],
    kind: PhysicalType,
) -> Result<Vec<PageStatistics>, Error> {
    let n = frames.len();
    let page = |(frame, (first, last, values)): (&Frame, (i64, i64, Statistics))| PageStatistics {
        non_null: frame.non_null as u32,
        first: Some(Edge {
            row: frame.first as u16,
            bits: first as u64,
        }),
        last: Some(Edge {
            row: frame.last as u16,
            bits: last as u64,
        }),
        values,
    };
    let values = match kind {
        PhysicalType::I64 | PhysicalType::U64 => integers(input, frames, kind)?,
        PhysicalType::Text | PhysicalType::Bytes => texts(take_whole(input, n)?),
        PhysicalType::Bool => booleans(input, frames)?,
        PhysicalType::F64 => float::take(input, n)?,
    };
    Ok(frames.iter().zip(values).map(page).collect())
}

/// First value, last value and the rest.
type Values = Vec<(i64, i64, Statistics)>;

fn integers(input: &mut &[u8], frames: &[Frame], kind: PhysicalType) -> Result<Values, Error> {
    let n = frames.len();
    let whole = take_whole(input, n)?;
    let (low, high) = (take(input, n)?, take(input, n)?);
    let values = |(index, frame): (usize, &Frame)| {
        let (min, max) = (whole.min[index], whole.max[index]);
        let above = i128::from(high[index]) << 64 | i128::from(low[index] as u64);
        let sum = widen(min, kind)
            .wrapping_mul(i128::from(frame.non_null))
            .wrapping_add(above);
        let values = match kind {
            PhysicalType::U64 => Statistics::Unsigned {
                min: min as u64,
                max: max as u64,
                sum: sum as u128,
            },
            _ => Statistics::Int { min, max, sum },
        };
        (whole.first[index], whole.last[index], values)
    };
    Ok(frames.iter().enumerate().map(values).collect())
}

fn texts(whole: Whole) -> Values {
    let extremes = whole.min.into_iter().zip(whole.max);
    let edges = whole.first.into_iter().zip(whole.last);
    let values = |((first, last), (min, max)): ((i64, i64), (i64, i64))| {
        let values = Statistics::Text {
            min_prefix: unrank(min as u64),
            max_prefix: unrank(max as u64),
        };
        (first, last, values)
    };
    edges.zip(extremes).map(values).collect()
}

fn booleans(input: &mut &[u8], frames: &[Frame]) -> Result<Values, Error> {
    let n = frames.len();
    let (first, last, trues) = (take(input, n)?, take(input, n)?, take(input, n)?);
    let values = |((first, last), trues): ((i64, i64), i64)| {
        let is_sound = (first | last) & !1 == 0 && (0..=BLOCK_ROWS_MAX as i64).contains(&trues);
        is_sound
            .then_some((
                first,
                last,
                Statistics::Bool {
                    trues: trues as u32,
                },
            ))
            .ok_or(Error::corrupt("the statistics of booleans count others"))
    };
    first.into_iter().zip(last).zip(trues).map(values).collect()
}
