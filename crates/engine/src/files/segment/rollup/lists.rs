//! The rollups of one column, list by list: one number of every entry at a time goes through the integer pipeline.
//!
//! Numbers that are near others are written as differences: the first value of an hour is near the last one before.

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, PhysicalType, ValuesRef, decode_i64s, decode_page,
    encode_i64s, encode_page, varint,
};

use super::HourEntry;
use crate::definition::{take_byte, take_bytes, take_u32};
use crate::error::Malformed;
use crate::segment::checksum::SegmentFormat;
use crate::segment::summary::{Moment, Summary, Totals};

/// By how much, in parts of what is known of the values' magnitude, a sum may be moved to a decimal that packs well:
/// a tenth of the 1e-12 that sums of floats may be off.
const SUM_TOLERANCE: f64 = 1e-13;
/// Decimals that a sum is tried with.
const SUM_DECIMALS_MAX: i32 = 9;

/// Appends one number of every entry.
pub(super) fn put(list: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
    encode_i64s(&list.collect::<Vec<_>>(), out);
}

pub(super) fn take(input: &mut &[u8], n: usize) -> Result<Vec<i64>, Malformed> {
    let mut list = Vec::new();
    decode_i64s(input, n, &mut list)?;
    Ok(list)
}

/// Lists of a column, one after another.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    /// Adds a list that `put` appends.
    fn add(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn numbers(&mut self, list: impl Iterator<Item = i64>) {
        self.add(|out| put(list, out));
    }
}

pub(super) fn encode(
    entries: &[HourEntry],
    kind: PhysicalType,
    values: &[Option<Summary>],
    format: SegmentFormat,
    out: &mut Vec<u8>,
) {
    let mut packed = Packed::default();
    encode_lists(entries, kind, values, &mut packed);
    if format >= SegmentFormat::Second {
        let mut start = 0;
        for &end in &packed.ends {
            varint::put_u64((end - start) as u64, out);
            start = end;
        }
    }
    out.extend_from_slice(&packed.bytes);
}

fn encode_lists(
    entries: &[HourEntry],
    kind: PhysicalType,
    values: &[Option<Summary>],
    out: &mut Packed,
) {
    let counts = values.iter().map(|value| value.map_or(0, |v| v.count));
    let nulls = entries.iter().zip(counts);
    out.numbers(nulls.map(|(entry, count)| i64::from(entry.rows) - count as i64));
    let known: Vec<(&HourEntry, Summary)> = entries
        .iter()
        .zip(values)
        .filter_map(|(entry, value)| Some((entry, (*value)?)))
        .collect();
    let before = |(entry, value): &(&HourEntry, Summary)| value.first.time - entry.min_time;
    let after = |(entry, value): &(&HourEntry, Summary)| entry.max_time - value.last.time;
    out.numbers(known.iter().map(before));
    out.numbers(known.iter().map(after));
    let known: Vec<Summary> = known.into_iter().map(|(_, value)| value).collect();
    let first: Vec<i64> = known.iter().map(|value| value.first.bits as i64).collect();
    let last: Vec<i64> = known.iter().map(|value| value.last.bits as i64).collect();
    match kind {
        PhysicalType::I64 | PhysicalType::U64 => encode_integers(&known, &first, &last, out),
        PhysicalType::F64 => encode_floats(&known, &first, &last, out),
        PhysicalType::Bool | PhysicalType::Text | PhysicalType::Bytes => {
            out.numbers(first.into_iter());
            out.numbers(last.into_iter());
            let trues = |value: &Summary| match value.totals {
                Totals::Bool { trues } => trues as i64,
                _ => 0,
            };
            out.numbers(known.iter().map(trues));
        }
    }
}

fn encode_integers(known: &[Summary], first: &[i64], last: &[i64], out: &mut Packed) {
    let numbers = |value: &Summary| match value.totals {
        Totals::Int { min, max, sum } => (min, max, sum, i128::from(min)),
        Totals::Unsigned { min, max, sum } => {
            (min as i64, max as i64, sum as i128, i128::from(min))
        }
        Totals::Float { .. } | Totals::Bool { .. } => (0, 0, 0, 0),
    };
    let numbers: Vec<_> = known.iter().map(numbers).collect();
    let min: Vec<i64> = numbers.iter().map(|number| number.0).collect();
    out.numbers(min.iter().copied());
    out.numbers(numbers.iter().map(|n| n.1.wrapping_sub(n.0)));
    out.add(|out| put_from(last, &min, out));
    // Of a series that goes on from hour to hour the first value is near the last one; of others it is not.
    let mut near = vec![1];
    put_from(first, &before(last), &mut near);
    let mut above = vec![0];
    put_from(first, &min, &mut above);
    let first = if near.len() < above.len() {
        near
    } else {
        above
    };
    out.add(|out| out.extend(first));
    let above: Vec<i128> = numbers
        .iter()
        .zip(known)
        .map(|(n, value)| n.2.wrapping_sub(n.3.wrapping_mul(i128::from(value.count))))
        .collect();
    let half = |shift: u32| above.iter().map(move |sum| low_half(*sum >> shift));
    out.numbers(half(0));
    out.numbers(half(64));
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the other half is written apart"
)]
fn low_half(number: i128) -> i64 {
    number as i64
}

fn put_from(values: &[i64], from: &[i64], out: &mut Vec<u8>) {
    let pairs = values.iter().zip(from);
    put(pairs.map(|(value, from)| value.wrapping_sub(*from)), out);
}

/// The value before each, 0 before the first.
fn before(list: &[i64]) -> Vec<i64> {
    std::iter::once(0).chain(list.iter().copied()).collect()
}

fn encode_floats(known: &[Summary], first: &[i64], last: &[i64], out: &mut Packed) {
    let numbers = |value: &Summary| match value.totals {
        Totals::Float {
            min,
            max,
            sum,
            non_finite,
        } => {
            // None of the three is more than the sum of magnitudes.
            let magnitude = min.abs().max(max.abs()).max(sum.abs());
            (min, max, shortened(sum, magnitude), i64::from(non_finite))
        }
        _ => (0.0, 0.0, 0.0, 0),
    };
    let numbers: Vec<_> = known.iter().map(numbers).collect();
    let floats =
        |bits: &[i64]| -> Vec<f64> { bits.iter().map(|b| f64::from_bits(*b as u64)).collect() };
    let mut put = |floats: Vec<f64>| out.add(|out| put_floats(&floats, out));
    put(numbers.iter().map(|n| n.0).collect());
    put(numbers.iter().map(|n| n.1).collect());
    put(floats(last));
    put(floats(first));
    put(numbers.iter().map(|n| n.2).collect());
    out.numbers(numbers.iter().map(|n| n.3));
}

/// The nearest decimal of few digits, if it is as good a sum.
fn shortened(sum: f64, magnitude: f64) -> f64 {
    (0..=SUM_DECIMALS_MAX)
        .map(|decimals| {
            let scale = 10f64.powi(decimals);
            (sum * scale).round() / scale
        })
        .find(|short| (short - sum).abs() <= SUM_TOLERANCE * magnitude)
        .unwrap_or(sum)
}

fn put_floats(values: &[f64], out: &mut Vec<u8>) {
    let mut page = Vec::new();
    for chunk in values.chunks(BLOCK_ROWS_MAX) {
        page.clear();
        let column = ColumnRef {
            values: ValuesRef::F64(chunk),
            validity: None,
        };
        encode_page(column, &mut page).expect("a page takes 1 to 1024 floats, whatever they are");
        varint::put_u64(page.len() as u64, out);
        out.extend_from_slice(&page);
    }
}

fn take_floats(input: &mut &[u8], n: usize) -> Result<Vec<f64>, Malformed> {
    let mut floats = Vec::new();
    let mut page = ColumnBuf::default();
    while floats.len() < n {
        let bytes = take_u32(input)? as usize;
        decode_page(take_bytes(input, bytes)?, &mut page)?;
        let expected = BLOCK_ROWS_MAX.min(n - floats.len());
        if page.f64s().len() != expected || page.validity().is_some() {
            return Err(Malformed::new("floats of a rollup are of another number"));
        }
        floats.extend_from_slice(page.f64s());
    }
    Ok(floats)
}

/// Where an entry with values has its numbers, and its count and times.
struct Frame {
    /// Position among the entries with values.
    at: usize,
    count: u64,
    first: i64,
    last: i64,
}

/// The lists of a column, read in their order.
pub(super) struct Lists<'a> {
    /// What was not read yet, if nothing says where lists end.
    rest: &'a [u8],
    /// By list; `None` = they stand one after another, and only reading one tells where the next is.
    parts: Option<std::vec::IntoIter<&'a [u8]>>,
}

impl<'a> Lists<'a> {
    /// Of all bytes of a column.
    pub(super) fn open(
        mut bytes: &'a [u8],
        kind: PhysicalType,
        format: SegmentFormat,
    ) -> Result<Self, Malformed> {
        let n = match kind {
            PhysicalType::I64 | PhysicalType::U64 | PhysicalType::F64 => 9,
            PhysicalType::Bool => 6,
            PhysicalType::Text | PhysicalType::Bytes => {
                return Err(Malformed::new("rollups of text"));
            }
        };
        if format < SegmentFormat::Second {
            return Ok(Self {
                rest: bytes,
                parts: None,
            });
        }
        let mut lengths = Vec::with_capacity(n);
        for _ in 0..n {
            lengths.push(take_u32(&mut bytes)? as usize);
        }
        let mut parts = Vec::with_capacity(n);
        for length in lengths {
            parts.push(take_bytes(&mut bytes, length)?);
        }
        Ok(Self {
            rest: bytes,
            parts: Some(parts.into_iter()),
        })
    }

    /// The next list.
    fn next<T>(
        &mut self,
        read: impl FnOnce(&mut &'a [u8]) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let Some(parts) = &mut self.parts else {
            return read(&mut self.rest);
        };
        let mut part = parts.next().unwrap_or_default();
        let list = read(&mut part)?;
        if part.is_empty() {
            Ok(list)
        } else {
            Err(Malformed::new("bytes after a list of rollups"))
        }
    }

    /// The next list if it is wanted; else nothing, and it is not read where its end is known.
    fn next_if<T: Default>(
        &mut self,
        is_wanted: bool,
        read: impl FnOnce(&mut &'a [u8]) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        match &mut self.parts {
            Some(parts) if !is_wanted => {
                parts.next();
                Ok(T::default())
            }
            _ => self.next(read),
        }
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::new("bytes after the rollups of a column"))
        }
    }

    /// What is known of the entries at `wanted`, ascending positions; first and last values are all zero without `ends`.
    pub(super) fn decode(
        mut self,
        entries: &[HourEntry],
        kind: PhysicalType,
        wanted: &[usize],
        ends: bool,
    ) -> Result<Vec<Option<Summary>>, Malformed> {
        let (n, frames) = decode_frames(&mut self, entries, wanted, ends)?;
        let numbers = match kind {
            PhysicalType::I64 | PhysicalType::U64 => {
                Numbers::of_integers(&mut self, n, kind, ends)?
            }
            PhysicalType::F64 => Numbers::of_floats(&mut self, n, ends)?,
            PhysicalType::Bool | PhysicalType::Text | PhysicalType::Bytes => Numbers::Bool {
                first: self.next_if(ends, |input| take(input, n))?,
                last: self.next_if(ends, |input| take(input, n))?,
                trues: self.next(|input| take(input, n))?,
            },
        };
        self.end()?;
        let summary =
            |frame: Option<Frame>| frame.map(|frame| numbers.summary(&frame, ends)).transpose();
        frames.into_iter().map(summary).collect()
    }
}

/// How many entries have values, and those of the wanted ones.
fn decode_frames(
    input: &mut Lists<'_>,
    entries: &[HourEntry],
    wanted: &[usize],
    ends: bool,
) -> Result<(usize, Vec<Option<Frame>>), Malformed> {
    let nulls = input.next(|input| take(input, entries.len()))?;
    let mut n = 0;
    let mut known = Vec::with_capacity(wanted.len());
    let mut left = wanted.iter().copied().peekable();
    for (at, (entry, &nulls)) in entries.iter().zip(&nulls).enumerate() {
        let nulls = u32::try_from(nulls).ok().filter(|n| *n <= entry.rows);
        let nulls = nulls.ok_or_else(|| Malformed::new("an hour of more nulls than rows"))?;
        let has_values = nulls < entry.rows;
        if left.next_if_eq(&at).is_some() {
            let count = u64::from(entry.rows - nulls);
            known.push(has_values.then_some((n, entry, count)));
        }
        n += usize::from(has_values);
    }
    let before = input.next_if(ends, |input| take(input, n))?;
    let after = input.next_if(ends, |input| take(input, n))?;
    let frame = |(at, hour, count): (usize, &HourEntry, u64)| {
        if !ends {
            return Ok(Frame {
                at,
                count,
                first: 0,
                last: 0,
            });
        }
        let (before, after) = (number(&before, at)?, number(&after, at)?);
        let duration = hour.max_time.wrapping_sub(hour.min_time);
        let is_inside = |at: i64| (0..=duration).contains(&at);
        if !is_inside(before) || !is_inside(after) || before > duration - after {
            return Err(Malformed::new("a value of an hour lies outside its rows"));
        }
        Ok(Frame {
            at,
            count,
            first: hour.min_time + before,
            last: hour.max_time - after,
        })
    };
    let frames = known.into_iter().map(|known| known.map(frame).transpose());
    Ok((n, frames.collect::<Result<_, _>>()?))
}

fn number<T: Copy>(list: &[T], at: usize) -> Result<T, Malformed> {
    let number = list.get(at).copied();
    number.ok_or_else(|| Malformed::new("a list of rollups is too short"))
}

/// The lists as they are written: what is asked for is put together one entry at a time.
enum Numbers {
    Integer {
        is_unsigned: bool,
        min: Vec<i64>,
        /// From here on above `min`.
        max: Vec<i64>,
        last: Vec<i64>,
        first: Vec<i64>,
        /// Whether `first` is above the last value before, and not above `min`.
        is_first_near: bool,
        low: Vec<i64>,
        high: Vec<i64>,
    },
    Float {
        min: Vec<f64>,
        max: Vec<f64>,
        last: Vec<f64>,
        first: Vec<f64>,
        sum: Vec<f64>,
        flags: Vec<i64>,
    },
    Bool {
        first: Vec<i64>,
        last: Vec<i64>,
        trues: Vec<i64>,
    },
}

impl Numbers {
    fn of_integers(
        input: &mut Lists<'_>,
        n: usize,
        kind: PhysicalType,
        ends: bool,
    ) -> Result<Self, Malformed> {
        let min = input.next(|input| take(input, n))?;
        let max = input.next(|input| take(input, n))?;
        let last = input.next_if(ends, |input| take(input, n))?;
        let (is_first_near, first) = input.next_if(ends, |input| {
            let is_near = match take_byte(input)? {
                0 => false,
                1 => true,
                _ => return Err(Malformed::new("first values of rollups refer to nothing")),
            };
            Ok((is_near, take(input, n)?))
        })?;
        Ok(Self::Integer {
            is_unsigned: kind == PhysicalType::U64,
            min,
            max,
            last,
            first,
            is_first_near,
            low: input.next(|input| take(input, n))?,
            high: input.next(|input| take(input, n))?,
        })
    }

    fn of_floats(input: &mut Lists<'_>, n: usize, ends: bool) -> Result<Self, Malformed> {
        Ok(Self::Float {
            min: input.next(|input| take_floats(input, n))?,
            max: input.next(|input| take_floats(input, n))?,
            last: input.next_if(ends, |input| take_floats(input, n))?,
            first: input.next_if(ends, |input| take_floats(input, n))?,
            sum: input.next(|input| take_floats(input, n))?,
            flags: input.next(|input| take(input, n))?,
        })
    }

    fn summary(&self, frame: &Frame, ends: bool) -> Result<Summary, Malformed> {
        let at = frame.at;
        let (first, last, totals) = match self {
            Self::Integer {
                is_unsigned,
                min,
                max,
                last,
                first,
                is_first_near,
                low,
                high,
            } => {
                let last_at = |at: usize| -> Result<i64, Malformed> {
                    Ok(number(last, at)?.wrapping_add(number(min, at)?))
                };
                let smallest = number(min, at)?;
                let ends_at = |at: usize| -> Result<(u64, u64), Malformed> {
                    let from = match (is_first_near, at.checked_sub(1)) {
                        (false, _) => smallest,
                        (true, None) => 0,
                        (true, Some(before)) => last_at(before)?,
                    };
                    let first = number(first, at)?.wrapping_add(from);
                    Ok((first as u64, last_at(at)? as u64))
                };
                let above =
                    i128::from(number(high, at)?) << 64 | i128::from(number(low, at)? as u64);
                let sum_from = |min: i128| {
                    min.wrapping_mul(i128::from(frame.count))
                        .wrapping_add(above)
                };
                let largest = number(max, at)?.wrapping_add(smallest);
                let totals = if *is_unsigned {
                    Totals::Unsigned {
                        min: smallest as u64,
                        max: largest as u64,
                        sum: sum_from(i128::from(smallest as u64)) as u128,
                    }
                } else {
                    Totals::Int {
                        min: smallest,
                        max: largest,
                        sum: sum_from(i128::from(smallest)),
                    }
                };
                let (first, last) = if ends { ends_at(at)? } else { (0, 0) };
                (first, last, totals)
            }
            Self::Float {
                min,
                max,
                last,
                first,
                sum,
                flags,
            } => {
                let totals = Totals::Float {
                    min: number(min, at)?,
                    max: number(max, at)?,
                    sum: number(sum, at)?,
                    non_finite: match number(flags, at)? {
                        0 => false,
                        1 => true,
                        _ => return Err(Malformed::new("a flag of rollups is neither 0 nor 1")),
                    },
                };
                let bits = |list: &[f64]| {
                    if ends {
                        number(list, at).map(f64::to_bits)
                    } else {
                        Ok(0)
                    }
                };
                (bits(first)?, bits(last)?, totals)
            }
            Self::Bool { first, last, trues } => {
                let trues = number(trues, at)? as u64;
                let bits = |list: &[i64]| {
                    if ends {
                        number(list, at).map(|it| it as u64)
                    } else {
                        Ok(0)
                    }
                };
                (bits(first)?, bits(last)?, Totals::Bool { trues })
            }
        };
        Ok(Summary {
            count: frame.count,
            first: Moment {
                time: frame.first,
                bits: first,
            },
            last: Moment {
                time: frame.last,
                bits: last,
            },
            totals,
        })
    }
}
