//! Cells of a batch as text, column by column prepared and row by row written.
//!
//! Does: write the types that most answers are made of (integers, floats, booleans, texts, tags, times in UTC) without a call
//! through a table of functions, each text of a dictionary escaped once for as long as batches share it, and tags that
//! neighbouring rows share copied as one text. Does not: know every type; what it does not know it refuses, and Arrow's own
//! encoders write the batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, RecordBatch};
use arrow::array::{StringArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt64Type,
};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// How a format writes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Texts and times in quotes, no NaN, `null`.
    Json,
    /// Texts in quotes where they need them; null is nothing.
    Csv,
}

/// Texts of a dictionary as they are written.
#[derive(Debug)]
struct Escaped {
    values: ArrayRef,
    bytes: Vec<u8>,
    /// Where each begins, and the last ends.
    ends: Vec<usize>,
}

/// What is kept from batch to batch, by column.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Vec<Option<Arc<Escaped>>>);

/// A column of a batch.
#[derive(Debug)]
struct Cells<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

#[derive(Debug)]
enum Values<'a> {
    Int(&'a [i64]),
    Unsigned(&'a [u64]),
    Float(&'a [f64]),
    Bool(&'a BooleanArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Dictionary(&'a [i32], Arc<Escaped>),
    /// With a `Z` behind it or without.
    Time(&'a [i64], bool),
}

/// Bytes that are copied at a fixed length: a store or two, and no call.
const SHORT_BYTES: usize = 32;

/// What stands before a column of a row.
#[derive(Debug)]
pub(super) struct Before {
    bytes: Vec<u8>,
    /// The same with zeros behind it; `None` = it is longer.
    short: Option<[u8; SHORT_BYTES]>,
}

impl Before {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let mut short = [0; SHORT_BYTES];
        let is_short = short.get_mut(..bytes.len()).is_some_and(|short| {
            short.copy_from_slice(&bytes);
            true
        });
        Self {
            bytes,
            short: is_short.then_some(short),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.short {
            Some(short) => {
                let end = out.len() + self.bytes.len();
                out.extend_from_slice(short);
                out.truncate(end);
            }
            None => out.extend_from_slice(&self.bytes),
        }
    }
}

/// Tags that stand side by side. Rows of one series come one after the other, so most have the tags of the row before.
#[derive(Debug)]
struct Tags {
    columns: Range<usize>,
    /// By row: whether all of them are those of the row before.
    repeats: Vec<bool>,
    /// Where the last row's are in what is written.
    last: Range<usize>,
}

/// All columns of a batch.
#[derive(Debug)]
pub(super) struct Table<'a> {
    dialect: Dialect,
    columns: Vec<Cells<'a>>,
    /// In the order of the columns.
    tags: Vec<Tags>,
    /// The day that was written last, as days since 1970 and as text: most rows of an answer share it.
    day: (i64, [u8; 10]),
}

impl<'a> Table<'a> {
    /// `None` = there is a column of a type that is left to Arrow.
    pub(super) fn of(batch: &'a RecordBatch, dialect: Dialect, kept: &mut Kept) -> Option<Self> {
        if batch.num_columns() == 0 {
            return None;
        }
        kept.0.resize_with(batch.num_columns(), || None);
        let columns = batch.columns().iter().zip(&mut kept.0);
        let columns = columns.map(|(column, kept)| Cells::of(column, dialect, kept));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        Some(Self {
            dialect,
            tags: Tags::of(&columns, batch.num_rows()),
            columns,
            day: (i64::MIN, [0; 10]),
        })
    }

    /// Appends a row: before each value what stands before its column. All rows of a batch go to the same `out`.
    pub(super) fn row(&mut self, row: usize, before: &[Before], out: &mut Vec<u8>) {
        let Self {
            dialect,
            columns,
            tags,
            day,
        } = self;
        let mut write = |of: Range<usize>, out: &mut Vec<u8>| {
            let cells = columns.get(of.clone()).unwrap_or_default().iter();
            for (cells, before) in cells.zip(before.get(of).unwrap_or_default()) {
                before.write(out);
                cells.write(row, *dialect, day, out);
            }
        };
        let mut next = 0;
        for tags in tags {
            write(next..tags.columns.start, out);
            next = tags.columns.end;
            let begin = out.len();
            if tags.repeats.get(row) == Some(&true) {
                out.extend_from_within(tags.last.clone());
            } else {
                write(tags.columns.clone(), out);
            }
            tags.last = begin..out.len();
        }
        write(next..columns.len(), out);
    }
}

impl Tags {
    /// Those of a batch, as far as it pays.
    fn of(columns: &[Cells<'_>], rows: usize) -> Vec<Self> {
        let mut all = Vec::new();
        let mut first = 0;
        let is_tag = |cells: &Cells<'_>| matches!(cells.values, Values::Dictionary(..));
        for run in columns.chunk_by(|one, other| is_tag(one) == is_tag(other)) {
            let of = first..first + run.len();
            first = of.end;
            if !run.first().is_some_and(is_tag) {
                continue;
            }
            let mut repeats = vec![true; rows];
            if let Some(first) = repeats.first_mut() {
                *first = false;
            }
            for cells in run {
                cells.compare_with_rows_before(&mut repeats);
            }
            if repeats.iter().filter(|it| **it).count() * 2 > rows {
                all.push(Self {
                    columns: of,
                    repeats,
                    last: 0..0,
                });
            }
        }
        all
    }
}

impl<'a> Cells<'a> {
    fn of(column: &'a ArrayRef, dialect: Dialect, kept: &mut Option<Arc<Escaped>>) -> Option<Self> {
        let values = match column.data_type() {
            DataType::Int64 => Values::Int(column.as_primitive::<Int64Type>().values()),
            DataType::UInt64 => Values::Unsigned(column.as_primitive::<UInt64Type>().values()),
            DataType::Float64 => Values::Float(column.as_primitive::<Float64Type>().values()),
            DataType::Boolean => Values::Bool(column.as_boolean()),
            DataType::Utf8 => Values::Text(column.as_string()),
            DataType::LargeUtf8 => Values::LargeText(column.as_string()),
            DataType::Utf8View => Values::TextView(column.as_string_view()),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let is_utc = |zone: &str| matches!(zone, "UTC" | "+00:00" | "Z");
                if !zone.as_deref().is_none_or(is_utc) {
                    return None;
                }
                let times = column.as_primitive::<TimestampNanosecondType>();
                Values::Time(times.values(), zone.is_some())
            }
            DataType::Dictionary(key, value) => {
                let is_text = **key == DataType::Int32 && **value == DataType::Utf8;
                let dictionary = is_text.then(|| column.as_dictionary::<Int32Type>())?;
                let texts = dictionary.values();
                // One that is longer than the batch would cost more than its rows.
                if texts.null_count() > 0 || texts.len() > 2 * dictionary.len().max(512) {
                    return None;
                }
                let known = kept.as_ref().filter(|it| Arc::ptr_eq(&it.values, texts));
                let known = known.map(Arc::clone);
                let escaped = known.unwrap_or_else(|| Arc::new(Escaped::of(texts, dialect)));
                *kept = Some(Arc::clone(&escaped));
                Values::Dictionary(dictionary.keys().values(), escaped)
            }
            _ => return None,
        };
        Some(Self {
            nulls: column.nulls(),
            values,
        })
    }

    /// Of a tag: leaves true only where a row has the value of the row before.
    fn compare_with_rows_before(&self, repeats: &mut [bool]) {
        let Values::Dictionary(keys, _) = &self.values else {
            return;
        };
        for (pair, repeats) in keys.windows(2).zip(repeats.iter_mut().skip(1)) {
            *repeats &= pair.first() == pair.last();
        }
        if let Some(nulls) = self.nulls {
            for (row, repeats) in repeats.iter_mut().enumerate().skip(1) {
                *repeats &= nulls.is_null(row) == nulls.is_null(row - 1);
            }
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a row of the batch: its columns are as long as it is"
    )]
    fn write(&self, row: usize, dialect: Dialect, day: &mut (i64, [u8; 10]), out: &mut Vec<u8>) {
        let is_null = self.nulls.is_some_and(|nulls| nulls.is_null(row));
        if is_null {
            return null(dialect, out);
        }
        match &self.values {
            Values::Int(values) => integer(values[row], out),
            Values::Unsigned(values) => integer(values[row], out),
            Values::Float(values) if dialect == Dialect::Json && !values[row].is_finite() => {
                null(dialect, out);
            }
            // As Arrow's writers have them: 5.0e-324 in JSON, 5e-324 in CSV.
            Values::Float(values) if dialect == Dialect::Json => number(values[row], out),
            Values::Float(values) => {
                let mut digits = ryu::Buffer::new();
                out.extend_from_slice(digits.format(values[row]).as_bytes());
            }
            Values::Bool(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            Values::Text(values) => text(values.value(row), dialect, out),
            Values::LargeText(values) => text(values.value(row), dialect, out),
            Values::TextView(values) => text(values.value(row), dialect, out),
            Values::Dictionary(keys, texts) => {
                let place = usize::try_from(keys[row]).unwrap_or_default();
                out.extend_from_slice(texts.get(place));
            }
            Values::Time(times, is_utc) => {
                if dialect == Dialect::Json {
                    out.push(b'"');
                }
                time(times[row], day, out);
                if *is_utc {
                    out.push(b'Z');
                }
                if dialect == Dialect::Json {
                    out.push(b'"');
                }
            }
        }
    }
}

impl Escaped {
    fn of(values: &ArrayRef, dialect: Dialect) -> Self {
        let texts = values.as_string::<i32>();
        let mut bytes = Vec::with_capacity(texts.value_data().len() + 2 * texts.len());
        let mut ends = Vec::with_capacity(texts.len() + 1);
        ends.push(0);
        for place in 0..texts.len() {
            text(texts.value(place), dialect, &mut bytes);
            ends.push(bytes.len());
        }
        Self {
            values: Arc::clone(values),
            bytes,
            ends,
        }
    }

    fn get(&self, place: usize) -> &[u8] {
        let ends = (self.ends.get(place), self.ends.get(place + 1));
        let (Some(&from), Some(&to)) = ends else {
            return &[];
        };
        self.bytes.get(from..to).unwrap_or_default()
    }
}

fn null(dialect: Dialect, out: &mut Vec<u8>) {
    if dialect == Dialect::Json {
        out.extend_from_slice(b"null");
    }
}

fn number<N: lexical_core::ToLexical>(value: N, out: &mut Vec<u8>) {
    let mut digits = [0; lexical_core::BUFFER_SIZE];
    out.extend_from_slice(lexical_core::write(value, &mut digits));
}

/// An integer. Most are small: these are written without a call.
fn integer<N: lexical_core::ToLexical + Copy>(value: N, out: &mut Vec<u8>)
where
    u16: TryFrom<N>,
{
    match u16::try_from(value) {
        Ok(small) if small < 10_000 => {
            let [hundreds, rest] = [small / 100, small % 100].map(pair);
            let zeros =
                usize::from(small < 10) + usize::from(small < 100) + usize::from(small < 1000);
            let all = u32::from_le_bytes([hundreds[0], hundreds[1], rest[0], rest[1]]);
            let end = out.len() + 4 - zeros;
            out.extend_from_slice(&(all >> (8 * zeros)).to_le_bytes());
            out.truncate(end);
        }
        _ => number(value, out),
    }
}

/// Two digits of a number below 100.
fn pair(number: u16) -> [u8; 2] {
    let number = u8::try_from(number % 100).unwrap_or_default();
    [b'0' + number / 10, b'0' + number % 10]
}

/// A text with what its format asks for around it.
pub(super) fn text(text: &str, dialect: Dialect, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    match dialect {
        Dialect::Json => {
            out.push(b'"');
            let mut plain = 0;
            for (at, byte) in bytes.iter().enumerate() {
                if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
                    continue;
                }
                out.extend_from_slice(bytes.get(plain..at).unwrap_or_default());
                escape(*byte, out);
                plain = at + 1;
            }
            out.extend_from_slice(bytes.get(plain..).unwrap_or_default());
            out.push(b'"');
        }
        Dialect::Csv => {
            let is_plain = !bytes
                .iter()
                .any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'));
            if is_plain {
                out.extend_from_slice(bytes);
                return;
            }
            out.push(b'"');
            for byte in bytes {
                if *byte == b'"' {
                    out.push(b'"');
                }
                out.push(*byte);
            }
            out.push(b'"');
        }
    }
}

/// A byte that no JSON text has as it is.
fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            for digit in [byte >> 4, byte & 15] {
                out.extend(HEX.get(usize::from(digit)));
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// A time as RFC 3339 has it, with as many digits of the second as it needs: none, three, six or nine.
fn time(time_ns: i64, day: &mut (i64, [u8; 10]), out: &mut Vec<u8>) {
    let (seconds, fraction) = (time_ns.div_euclid(SECOND_NS), time_ns.rem_euclid(SECOND_NS));
    let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    if day.0 != days {
        *day = (days, date(days));
    }
    out.extend_from_slice(&day.1);
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60].map(two_digits);
    out.extend_from_slice(&[b'T', hour[0], hour[1], b':', minute[0], minute[1], b':']);
    out.extend_from_slice(&second);
    if fraction == 0 {
        return;
    }
    let (digits, mut rest) = if fraction % 1_000_000 == 0 {
        (3, fraction / 1_000_000)
    } else if fraction % 1000 == 0 {
        (6, fraction / 1000)
    } else {
        (9, fraction)
    };
    let mut text = [b'0'; 9];
    for digit in text.iter_mut().take(digits).rev() {
        *digit = ascii(rest % 10);
        rest /= 10;
    }
    out.push(b'.');
    out.extend_from_slice(text.get(..digits).unwrap_or_default());
}

/// `YYYY-MM-DD`. Nanoseconds reach from 1677 to 2262.
fn date(days: i64) -> [u8; 10] {
    // The proleptic Gregorian calendar in eras of 400 years that begin in March, so that the leap day is a year's last.
    let from_march = days + 719_468;
    let (era, of_era) = (
        from_march.div_euclid(146_097),
        from_march.rem_euclid(146_097),
    );
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let [century, year, month, day] = [year / 100, year % 100, month, day].map(two_digits);
    [
        century[0], century[1], year[0], year[1], b'-', month[0], month[1], b'-', day[0], day[1],
    ]
}

fn two_digits(number: i64) -> [u8; 2] {
    [ascii(number / 10), ascii(number % 10)]
}

fn ascii(digit: i64) -> u8 {
    b'0' + u8::try_from(digit % 10).unwrap_or_default()
}
