//! The fast parser: what most lines look like, read in one pass without looking for their ends first.
//!
//! Does: find the end of the series text with a vector search; compare field keys with those of the last line that began
//! alike, and not scan them; read small integers eight bytes at a time without branches; read a timestamp once when
//! thousands of lines have the same; reuse its memory from line to line.
//!
//! Does not: decide what is an error, or what a rare form means. [`Reader::usual_line`] gives up on anything it does not
//! know, and [`crate::reference`] reads that line again from its start.

use memchr::{memchr, memchr_iter, memchr2};

use crate::escape::{self, first_unescaped, unescape};
use crate::lines::{blanks, line_end, trim};
use crate::point::{Field, FieldValue, Point};
use crate::{KEY_BYTES_MAX, KEY_SEPARATOR_BYTES, LineError, Precision, digits, reference};

/// Shapes remembered at once. Collectors send about a dozen measurements in turn, each with its own fields.
const SHAPES: usize = 32;

/// How far a missing field may be skipped in a shape before the key is looked at on its own.
const SKIPPED_MAX: usize = 16;

/// Up to this many fields, comparing each key with each is faster than sorting them.
const PAIRWISE_MAX: usize = 16;

/// Largest integer up to which every integer is a float, and largest power of ten that is one exactly: a quotient of
/// two such numbers is rounded once, so it is the float nearest to the decimal text.
const EXACT_MAX: u64 = 1 << 53;
const EXACT_POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Reads the points of a request body. Blank lines and comments are skipped; after a line with an error it goes on.
#[derive(Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    line_number: usize,
    precision: Precision,
    /// The fields of the point that was read last.
    fields: Vec<Field<'a>>,
    /// The series text of the point that was read last.
    series: &'a [u8],
    /// Field keys of the last line in each slot, each key once. A line whose keys are a part of such a list, in its order,
    /// has each key once too.
    shapes: [Vec<&'a [u8]>; SHAPES],
    /// The last timestamp: its text and its time.
    time_text: &'a [u8],
    time_ns: i64,
    /// Scratch for finding keys that occur twice.
    order: Vec<usize>,
}

/// A point without its fields, which stay in the reader.
struct Head<'a> {
    line_number: usize,
    line: &'a [u8],
    timestamp: Option<i64>,
}

impl<'a> Reader<'a> {
    /// Starts at the first line of `input`, whose timestamps are in units of `precision`.
    pub fn new(input: &'a [u8], precision: Precision) -> Self {
        Self {
            input,
            at: 0,
            line_number: 1,
            precision,
            fields: Vec::new(),
            series: &[],
            shapes: [const { Vec::new() }; SHAPES],
            time_text: &[],
            time_ns: 0,
            order: Vec::new(),
        }
    }

    /// The next point or the next bad line. Not an iterator: the point borrows the reader's memory until the next call.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the reader, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> Option<Result<Point<'_>, LineError<'a>>> {
        let start = self.skip_to_line()?;
        let head = match self.usual_line(start) {
            Some(head) => head,
            None => match self.any_line(start) {
                Ok(head) => head,
                Err(error) => return Some(Err(error)),
            },
        };
        Some(Ok(Point {
            line_number: head.line_number,
            series: self.series,
            fields: &self.fields,
            timestamp: head.timestamp,
            line: head.line,
        }))
    }

    /// The series text of the point that was read last, for as long as the input lives. It lets a caller remember texts
    /// across points without copying them.
    pub fn series(&self) -> &'a [u8] {
        self.series
    }

    /// Skips blank lines and comments; where the next line starts, white space left out.
    #[inline]
    fn skip_to_line(&mut self) -> Option<usize> {
        loop {
            let rest = self.input.get(self.at..)?;
            match rest.first()? {
                b' ' | b'\t' | 0 => self.at += blanks(rest),
                b'\n' => {
                    self.at += 1;
                    self.line_number += 1;
                }
                b'#' => self.at += memchr(b'\n', rest).unwrap_or(rest.len()),
                b'\r' => match rest.iter().position(|&byte| byte != b'\r') {
                    None => self.at = self.input.len(),
                    Some(end) if rest[end] == b'\n' => self.at += end,
                    Some(_) => return Some(self.at),
                },
                _ => return Some(self.at),
            }
        }
    }

    /// Reads the line at `start` if it looks like most lines do, and moves behind it. `None` says nothing about the line.
    fn usual_line(&mut self, start: usize) -> Option<Head<'a>> {
        let input = self.input;
        let series_end = series_end(input, start)?;
        self.series = &input[start..series_end];
        let slot = slot(self.series);
        let mut line_feeds = 0;
        let fields = &input[series_end + 1..];
        let after = self.usual_fields(&fields[blanks(fields)..], slot, &mut line_feeds)?;
        let fields_end = input.len() - after.len();
        let (timestamp, line_end) = match input.get(fields_end) {
            Some(b' ') => self.usual_time(fields_end + 1)?,
            _ => (None, fields_end),
        };
        let mut next = line_end;
        if input.get(next) == Some(&b'\r') {
            next += 1;
        }
        match input.get(next) {
            None => {}
            Some(b'\n') => next += 1,
            Some(_) => return None,
        }
        let line = &input[start..line_end];
        if line.len() > KEY_BYTES_MAX - KEY_SEPARATOR_BYTES {
            return None;
        }
        let line_number = self.line_number;
        self.line_number += line_feeds + 1;
        self.at = next;
        Some(Head {
            line_number,
            line,
            timestamp,
        })
    }

    /// Reads the fields at the start of `rest` into `self.fields`; what follows them.
    #[inline]
    fn usual_fields(
        &mut self,
        mut rest: &'a [u8],
        slot: usize,
        line_feeds: &mut usize,
    ) -> Option<&'a [u8]> {
        let shape = &mut self.shapes[slot];
        self.fields.clear();
        let mut expected = 0;
        let mut in_shape = true;
        loop {
            let known = match shape.get(expected) {
                Some(key) if in_shape => after_key(rest, key).map(|text| (*key, text)),
                _ => None,
            };
            let (key, text) = if let Some(known) = known {
                expected += 1;
                known
            } else {
                let key = scan_key(rest)?;
                let skipped_max = if in_shape { SKIPPED_MAX } else { 0 };
                let mut ahead = shape.iter().skip(expected).take(skipped_max);
                if let Some(skipped) = ahead.position(|other| *other == key) {
                    expected += skipped + 1;
                } else {
                    in_shape = false;
                    std::str::from_utf8(key).ok()?;
                }
                (key, &rest[key.len() + 1..])
            };
            let (value, after) = usual_value(text, line_feeds)?;
            self.fields.push(Field { key, value });
            rest = after;
            let [b',', next @ ..] = rest else { break };
            rest = next;
        }
        if !in_shape {
            keep_last_of_each(&mut self.fields, &mut self.order);
            shape.clear();
            shape.extend(self.fields.iter().map(|field| field.key));
        }
        Some(rest)
    }

    /// Reads the timestamp at `at`; its time and where it ends.
    #[inline]
    fn usual_time(&mut self, at: usize) -> Option<(Option<i64>, usize)> {
        let rest = self.input.get(at..)?;
        let known = self.time_text.len();
        if known > 0
            && matches!(rest.get(known), None | Some(b'\n' | b'\r'))
            && rest
                .get(..known)
                .is_some_and(|text| same(text, self.time_text))
        {
            return Some((Some(self.time_ns), at + known));
        }
        let at = at + blanks(rest);
        let rest = &self.input[at..];
        if matches!(rest.first(), None | Some(b'\n' | b'\r')) {
            return Some((None, at));
        }
        let negative = rest.first() == Some(&b'-');
        let sign = usize::from(negative);
        let (value, count) = digits::run(&rest[sign..])?;
        if count == 0 {
            return None;
        }
        self.time_ns = self.precision.nanoseconds(signed(value, negative)?)?;
        let (text, after) = rest.split_at(sign + count);
        self.time_text = text;
        let spaces = after.iter().take_while(|&&byte| byte == b' ').count();
        Some((Some(self.time_ns), at + text.len() + spaces))
    }

    /// Reads the line at `start` with the reference parser, and moves behind it.
    #[cold]
    #[inline(never)]
    fn any_line(&mut self, start: usize) -> Result<Head<'a>, LineError<'a>> {
        let rest = &self.input[start..];
        let end = line_end(rest);
        let line = trim(&rest[..end]);
        let line_number = self.line_number;
        let next = (end + 1).min(rest.len());
        self.line_number += memchr_iter(b'\n', &rest[..next]).count();
        self.at = start + next;
        let split = reference::split(line, self.precision).map_err(|reason| LineError {
            line_number,
            line,
            reason,
        })?;
        self.series = split.series;
        self.fields.clear();
        self.fields.extend(split.fields);
        Ok(Head {
            line_number,
            line,
            timestamp: split.timestamp,
        })
    }
}

/// Where the first space without a backslash before it stands. `None` if the line ends before.
#[inline]
fn series_end(input: &[u8], start: usize) -> Option<usize> {
    let mut from = start;
    loop {
        let at = from + memchr2(b' ', b'\n', input.get(from..)?)?;
        if input[at] == b'\n' {
            return None;
        }
        if at > start && input[at - 1] != b'\\' {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Where the shape of lines that begin like `series` is kept. The first eight bytes are most of a measurement's name and
/// seldom more than that; a wrong guess costs time only.
#[inline]
fn slot(series: &[u8]) -> usize {
    let word = match series.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => series
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as usize
}

/// What follows `key` and an equals sign, if `text` starts with them.
#[inline]
fn after_key<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    match text.split_at_checked(key.len())? {
        (start, [b'=', after @ ..]) if same(start, key) => Some(after),
        _ => None,
    }
}

/// Whether two texts of one length are the same. Keys and timestamps are short, and the first and last bytes of a short
/// text, overlapping, are two loads; a call to compare memory costs more.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        8..=16 => {
            a.first_chunk::<8>() == b.first_chunk::<8>()
                && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        4..=7 => {
            a.first_chunk::<4>() == b.first_chunk::<4>()
                && a.last_chunk::<4>() == b.last_chunk::<4>()
        }
        17..=32 => {
            a.first_chunk::<16>() == b.first_chunk::<16>()
                && a.last_chunk::<16>() == b.last_chunk::<16>()
        }
        _ => a == b,
    }
}

/// The field key that `text` starts with, up to its equals sign.
#[inline]
fn scan_key(text: &[u8]) -> Option<&[u8]> {
    let end = first_unescaped(text, 0, b"=, \n")?;
    if end == 0 || text[end] != b'=' || memchr(b'\n', &text[..end]).is_some() {
        return None;
    }
    Some(&text[..end])
}

/// The value that `text` starts with, and what follows it, which is for the caller to check.
#[inline]
fn usual_value<'a>(text: &'a [u8], line_feeds: &mut usize) -> Option<(FieldValue<'a>, &'a [u8])> {
    if let Some(word) = text.first_chunk::<8>() {
        let (value, count) = digits::leading(u64::from_le_bytes(*word));
        if count < 8 {
            match &text[count..] {
                [b'i', after @ ..] if count > 0 => {
                    return Some((FieldValue::Integer(value as i64), after));
                }
                after @ [b',' | b' ' | b'\n', ..] if count > 0 => {
                    return Some((FieldValue::Float(value as f64), after));
                }
                _ => {}
            }
        }
    }
    other_value(text, line_feeds)
}

/// [`usual_value`] of anything that is not a short integer.
#[inline(never)]
fn other_value<'a>(text: &'a [u8], line_feeds: &mut usize) -> Option<(FieldValue<'a>, &'a [u8])> {
    let (value, bytes) = match text.first()? {
        b'0'..=b'9' | b'.' | b'-' => usual_number(text),
        b'"' => usual_string(text, line_feeds),
        b't' | b'T' | b'f' | b'F' => usual_boolean(text),
        _ => None,
    }?;
    Some((value, &text[bytes..]))
}

fn usual_number(text: &[u8]) -> Option<(FieldValue<'static>, usize)> {
    let negative = text[0] == b'-';
    let sign = usize::from(negative);
    let (whole, whole_count) = digits::run(&text[sign..])?;
    let mut end = sign + whole_count;
    let mut value = whole;
    let mut decimals = 0;
    match text.get(end) {
        Some(b'i') if whole_count > 0 => {
            return Some((FieldValue::Integer(signed(whole, negative)?), end + 1));
        }
        Some(b'u') if whole_count > 0 && !negative => {
            return Some((FieldValue::Unsigned(whole), end + 1));
        }
        Some(b'.') => {
            let (part, count) = digits::run(&text[end + 1..])?;
            decimals = count;
            end += 1 + count;
            // More digits than a float holds: not exact, so the value does not matter here, only that it is too large.
            value = match u32::try_from(count)
                .ok()
                .and_then(|count| 10_u64.checked_pow(count))
            {
                Some(power) => whole
                    .checked_mul(power)
                    .and_then(|whole| whole.checked_add(part))
                    .unwrap_or(u64::MAX),
                None => u64::MAX,
            };
        }
        _ => {}
    }
    if whole_count + decimals == 0 {
        return None;
    }
    match EXACT_POWERS.get(decimals) {
        Some(power) if value <= EXACT_MAX && !matches!(text.get(end), Some(b'e' | b'E')) => {
            let magnitude = value as f64 / power;
            Some((
                FieldValue::Float(if negative { -magnitude } else { magnitude }),
                end,
            ))
        }
        _ => {
            let (value, bytes) = fast_float2::parse_partial::<f64, _>(text).ok()?;
            value
                .is_finite()
                .then_some((FieldValue::Float(value), bytes))
        }
    }
}

/// `value` with its sign, if it fits.
#[inline]
fn signed(value: u64, negative: bool) -> Option<i64> {
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

fn usual_boolean(text: &[u8]) -> Option<(FieldValue<'static>, usize)> {
    let end = text
        .iter()
        .take(6)
        .position(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r'));
    let value = match &text[..end.unwrap_or(text.len().min(6))] {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => true,
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => false,
        _ => return None,
    };
    Some((FieldValue::Boolean(value), end.unwrap_or(text.len())))
}

fn usual_string<'a>(text: &'a [u8], line_feeds: &mut usize) -> Option<(FieldValue<'a>, usize)> {
    let mut end = 1;
    loop {
        end += memchr2(b'"', b'\\', text.get(end..)?)?;
        if text[end] == b'"' {
            break;
        }
        end += 2;
    }
    let inside = std::str::from_utf8(&text[1..end]).ok()?;
    *line_feeds += memchr_iter(b'\n', inside.as_bytes()).count();
    Some((FieldValue::Text(unescape(inside, escape::TEXT)), end + 1))
}

/// Where a key occurs more than once, leaves the last value in the first place.
fn keep_last_of_each(fields: &mut Vec<Field<'_>>, order: &mut Vec<usize>) {
    if fields.len() <= PAIRWISE_MAX {
        let mut at = 1;
        while at < fields.len() {
            match fields[..at]
                .iter()
                .position(|earlier| earlier.key == fields[at].key)
            {
                Some(first) => fields[first].value = fields.remove(at).value,
                None => at += 1,
            }
        }
        return;
    }
    order.clear();
    order.extend(0..fields.len());
    order.sort_unstable_by(|&a, &b| fields[a].key.cmp(fields[b].key).then(a.cmp(&b)));
    let mut gone = Vec::new();
    let mut first = 0;
    for (at, &index) in order.iter().enumerate().skip(1) {
        if fields[index].key == fields[order[first]].key {
            // The keys are equal, so this moves the later value into the first place.
            fields.swap(order[first], index);
            gone.push(index);
        } else {
            first = at;
        }
    }
    if !gone.is_empty() {
        gone.sort_unstable();
        let mut index = 0;
        fields.retain(|_| {
            index += 1;
            gone.binary_search(&(index - 1)).is_err()
        });
    }
}
