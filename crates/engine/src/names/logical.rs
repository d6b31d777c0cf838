//! Logical types: what a column was declared as, over the six types that are stored.
//!
//! Does: say how a type is stored and called, read values of it from text, check stored values. Does not: convert arrays
//! (`logical/arrays.rs` shows and takes them), or know columns. Bytes: `docs/format/definitions.md`.

mod array;
mod arrays;
mod decimal;
mod json;
mod spelling;
mod text;

use std::fmt;

use nilometer_codec::{PhysicalType, varint};

use crate::error::{ConstraintKind, Malformed};
use crate::parts::{take_byte, take_u32};

pub(crate) use array::texts_of;
pub use array::{Element, elements as array_elements, joined as array_text};
pub(crate) use decimal::Decimal;
use decimal::{Unread, sortable, unsortable};
pub use json::Json;
pub use spelling::{Spelled, SpelledZone, spelled};
use text::IntervalParts;

/// The longest time of a day.
const DAY_NS: i64 = 86_400_000_000_000;

/// Digits of a numeric that is kept as an integer.
const SMALL_DIGITS_MAX: u8 = 18;
/// Digits of a numeric.
pub const NUMERIC_DIGITS_MAX: u8 = 38;
/// Letters that a `varchar(n)` or `char(n)` may be declared with, as in PostgreSQL.
pub const LETTERS_MAX: u32 = 10_485_760;

/// What a column was declared as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// Integers of 16 bits.
    SmallInt,
    /// Integers of 32 bits.
    Integer,
    /// Integers of 64 bits; said of tags, a field of this type needs no declaration.
    BigInt,
    /// Floats of 32 bits.
    Real,
    /// Exact numbers of so many digits, so many of them behind the point.
    Numeric {
        /// 1 to 38.
        precision: u8,
        /// 0 to `precision`.
        scale: u8,
    },
    /// Text of at most so many letters.
    Varchar(u32),
    /// Text of at most so many letters, in which spaces at the end mean nothing.
    Char(u32),
    /// 128 bits that are written as 32 hexadecimal digits.
    Uuid,
    /// A day.
    Date,
    /// What a clock on the wall shows, in nanoseconds.
    Timestamp,
    /// A moment, in nanoseconds.
    TimestampTz,
    /// A time of day, in nanoseconds.
    Time,
    /// Months, days and nanoseconds.
    Interval,
    /// JSON, as it was written.
    Json,
    /// JSON in its one form.
    Jsonb,
    /// Values of one type, one after the other.
    Array(Element),
}

/// The number of an array, before that of its elements.
const ARRAY: u8 = 16;

/// Why a value is not one of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: ConstraintKind,
    pub(crate) reason: String,
}

impl Violation {
    pub(crate) fn range(of: LogicalType, value: impl fmt::Display) -> Self {
        Self {
            kind: if of.is_time() {
                ConstraintKind::TimeRange
            } else {
                ConstraintKind::OutOfRange
            },
            reason: format!("{value} is out of range for type {of}"),
        }
    }

    pub(crate) fn form(of: LogicalType, value: &str) -> Self {
        Self {
            kind: if of.is_time() {
                ConstraintKind::InvalidTime
            } else {
                ConstraintKind::InvalidText
            },
            reason: format!("{} is no value of type {of}", shown(value)),
        }
    }

    fn length(of: LogicalType, letters: usize) -> Self {
        Self {
            kind: ConstraintKind::TooLong,
            reason: format!("a text of {letters} letters is too long for type {of}"),
        }
    }
}

/// A text in quotes, its beginning if it is long.
fn shown(text: &str) -> String {
    const LETTERS: usize = 60;
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("\"{}...\"", text.get(..end).unwrap_or_default()),
        None => format!("\"{text}\""),
    }
}

/// A value as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stored {
    Bool(bool),
    I64(i64),
    F64(f64),
    Text(String),
    Bytes([u8; 16]),
}

impl LogicalType {
    /// The type that its values are stored as.
    pub fn physical(self) -> PhysicalType {
        match self {
            Self::SmallInt
            | Self::Integer
            | Self::BigInt
            | Self::Date
            | Self::Timestamp
            | Self::TimestampTz
            | Self::Time => PhysicalType::I64,
            Self::Real => PhysicalType::F64,
            Self::Numeric { precision, .. } if precision <= SMALL_DIGITS_MAX => PhysicalType::I64,
            Self::Numeric { .. } | Self::Uuid | Self::Interval => PhysicalType::Bytes,
            Self::Varchar(_) | Self::Char(_) | Self::Json | Self::Jsonb | Self::Array(_) => {
                PhysicalType::Text
            }
        }
    }

    /// Whether SQL shows values as they are stored, so that conditions on them may be given to the store.
    pub fn is_shown_as_stored(self) -> bool {
        matches!(
            self,
            Self::SmallInt
                | Self::Integer
                | Self::BigInt
                | Self::Varchar(_)
                | Self::Char(_)
                | Self::Json
                | Self::Jsonb
        )
    }

    /// Whether every value of another type is one of this, stored alike.
    pub fn has_all_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Varchar(n), Self::Varchar(m)) | (Self::Char(n), Self::Char(m)) => n >= m,
            (
                Self::Numeric { precision, scale },
                Self::Numeric {
                    precision: digits,
                    scale: behind,
                },
            ) => precision >= digits && scale == behind && self.physical() == other.physical(),
            (own, other) => match (own.integers(), other.integers()) {
                (Some((_, max)), Some((_, of_other))) => max >= of_other,
                _ => self == other,
            },
        }
    }

    /// Whether a language that knows only numbers, booleans and text can show values as they are stored.
    pub fn is_plain(self) -> bool {
        !matches!(self, Self::Numeric { .. } | Self::Uuid | Self::Interval)
    }

    /// Whether it is one of the types of integers, which tags may have.
    pub fn is_integer(self) -> bool {
        self.integers().is_some()
    }

    /// Whether it is one of days, times or lengths of time.
    fn is_time(self) -> bool {
        matches!(
            self,
            Self::Date | Self::Timestamp | Self::TimestampTz | Self::Time | Self::Interval
        )
    }

    /// The integers that it has.
    fn integers(self) -> Option<(i64, i64)> {
        Some(match self {
            Self::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Self::Integer => (i32::MIN.into(), i32::MAX.into()),
            Self::BigInt => (i64::MIN, i64::MAX),
            _ => return None,
        })
    }

    /// Whether its modifiers are ones that there are; checked where a column is declared and where a declaration is read.
    pub fn check(self) -> Result<(), &'static str> {
        match self {
            Self::Array(of) => of.logical().map_or(Ok(()), Self::check),
            Self::Numeric { precision, scale }
                if precision == 0 || precision > NUMERIC_DIGITS_MAX || scale > precision =>
            {
                Err("numeric(p, s) has 1 to 38 digits, and no more behind the point than there are")
            }
            Self::Varchar(n) | Self::Char(n) if n == 0 || n > LETTERS_MAX => {
                Err("a length is 1 to 10485760 letters")
            }
            _ => Ok(()),
        }
    }

    /// Appends its number and modifiers.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let mut put = |number: u8, modifiers: &[u32]| {
            out.push(number);
            for &modifier in modifiers {
                varint::put_u64(modifier.into(), out);
            }
        };
        match self {
            Self::SmallInt => put(1, &[]),
            Self::Integer => put(2, &[]),
            Self::BigInt => put(3, &[]),
            Self::Real => put(4, &[]),
            Self::Numeric { precision, scale } => put(5, &[precision.into(), scale.into()]),
            Self::Varchar(n) => put(6, &[n]),
            Self::Char(n) => put(7, &[n]),
            Self::Uuid => put(8, &[]),
            Self::Date => put(9, &[]),
            Self::Timestamp => put(10, &[]),
            Self::TimestampTz => put(11, &[]),
            Self::Time => put(12, &[]),
            Self::Interval => put(13, &[]),
            Self::Json => put(14, &[]),
            Self::Jsonb => put(15, &[]),
            Self::Array(of) => {
                put(ARRAY, &[]);
                of.encode(out);
            }
        }
    }

    /// Reads a type and moves `input` past it.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let digits = |input: &mut &[u8]| {
            let digits = take_u32(input)?;
            u8::try_from(digits)
                .map_err(|_| Malformed::new(format!("a numeric of {digits} digits")))
        };
        let of = match take_byte(input)? {
            1 => Self::SmallInt,
            2 => Self::Integer,
            3 => Self::BigInt,
            4 => Self::Real,
            5 => Self::Numeric {
                precision: digits(input)?,
                scale: digits(input)?,
            },
            6 => Self::Varchar(take_u32(input)?),
            7 => Self::Char(take_u32(input)?),
            8 => Self::Uuid,
            9 => Self::Date,
            10 => Self::Timestamp,
            11 => Self::TimestampTz,
            12 => Self::Time,
            13 => Self::Interval,
            14 => Self::Json,
            15 => Self::Jsonb,
            ARRAY => Self::Array(Element::decode(input)?),
            other => return Err(Malformed::new(format!("unknown logical type {other}"))),
        };
        of.check().map_err(Malformed::new)?;
        Ok(of)
    }

    /// An integer that fits, as it is stored.
    fn check_integer(self, value: i64) -> Result<i64, Violation> {
        match self.integers() {
            Some((min, max)) if !(min..=max).contains(&value) => Err(Violation::range(self, value)),
            _ => Ok(value),
        }
    }

    /// An integer, as whatever is stored as one: it fits.
    pub(crate) fn checked(self, value: i64) -> Result<i64, Violation> {
        let fits = match self {
            Self::Date => i32::try_from(value).is_ok(),
            Self::Time => (0..=DAY_NS).contains(&value),
            Self::Timestamp | Self::TimestampTz => true,
            _ => return self.check_integer(value),
        };
        if fits {
            Ok(value)
        } else {
            Err(Violation::range(self, value))
        }
    }

    /// A float as the nearest one of 32 bits; one that has none is out of range.
    pub(crate) fn real(value: f64) -> Result<f64, Violation> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding is what the type means"
        )]
        let real = value as f32;
        if real.is_infinite() && value.is_finite() || real == 0.0 && value != 0.0 {
            return Err(Violation::range(Self::Real, value));
        }
        Ok(if value.is_nan() { value } else { real.into() })
    }

    /// A number as it is stored: rounded to the digits behind the point that there are, half away from zero, as SQL does.
    pub(crate) fn numeric(self, value: Decimal) -> Result<Stored, Violation> {
        let Self::Numeric { precision, scale } = self else {
            return Err(Violation::form(self, &value.to_string()));
        };
        let scaled = value
            .rescaled(scale)
            .filter(|scaled| decimal::digits(*scaled) <= u32::from(precision));
        let Some(scaled) = scaled else {
            return Err(Violation::range(self, value));
        };
        Ok(match i64::try_from(scaled) {
            Ok(small) if precision <= SMALL_DIGITS_MAX => Stored::I64(small),
            _ => Stored::Bytes(sortable(scaled)),
        })
    }

    /// A number from its text, exactly.
    fn numeric_text(self, text: &str) -> Result<Stored, Violation> {
        let Self::Numeric { scale, .. } = self else {
            return Err(Violation::form(self, text));
        };
        match Decimal::read(text, scale) {
            Err(Unread::NoNumber) => Err(Violation::form(self, text)),
            Err(Unread::TooLarge) => Err(Violation::range(self, text)),
            Ok(value) => self
                .numeric(Decimal::new(value, scale))
                .map_err(|_| Violation::range(self, text)),
        }
    }

    /// The number that the shortest text of a float is.
    pub(crate) fn numeric_float(self, value: f64) -> Result<Stored, Violation> {
        if value.is_finite() {
            let read = self.numeric_text(&format!("{value:e}"));
            return read.map_err(|_| Violation::range(self, value));
        }
        Err(Violation::range(self, value))
    }

    /// A text with the letters that the type has room for.
    fn letters(self, value: &str) -> Result<&str, Violation> {
        let fits = |text: &str, n: u32| text.chars().nth(n as usize).is_none();
        match self {
            Self::Varchar(n) if !fits(value, n) => {
                // As the standard has it: spaces beyond the length are cut off, anything else is refused.
                let end = value.char_indices().nth(n as usize).map_or(0, |it| it.0);
                let (kept, rest) = value.split_at_checked(end).unwrap_or((value, ""));
                if rest.bytes().all(|byte| byte == b' ') {
                    return Ok(kept);
                }
                Err(Violation::length(self, value.chars().count()))
            }
            Self::Char(n) => {
                let kept = value.trim_end_matches(' ');
                if fits(kept, n) {
                    Ok(kept)
                } else {
                    Err(Violation::length(self, value.chars().count()))
                }
            }
            _ => Ok(value),
        }
    }

    /// A value from its text, as it is stored.
    pub(crate) fn read(self, text: &str) -> Result<Stored, Violation> {
        let wrong = || {
            if self.is_time() && text::has_numbers_of_day(text) {
                Violation::range(self, shown(text))
            } else {
                Violation::form(self, text)
            }
        };
        let trimmed = text.trim();
        Ok(match self {
            Self::SmallInt | Self::Integer | Self::BigInt => {
                let value = trimmed.parse::<i128>().map_err(|_| wrong())?;
                let value = i64::try_from(value).map_err(|_| Violation::range(self, trimmed))?;
                Stored::I64(self.check_integer(value)?)
            }
            Self::Real => Stored::F64(Self::real(text::float(trimmed).ok_or_else(wrong)?)?),
            Self::Numeric { .. } => self.numeric_text(trimmed)?,
            Self::Varchar(_) | Self::Char(_) => Stored::Text(self.letters(text)?.to_owned()),
            Self::Uuid => Stored::Bytes(text::uuid(trimmed).ok_or_else(wrong)?),
            Self::Date => Stored::I64(text::date(trimmed).ok_or_else(wrong)?),
            Self::Timestamp => Stored::I64(text::timestamp(trimmed).ok_or_else(wrong)?),
            Self::TimestampTz => Stored::I64(text::moment(trimmed).ok_or_else(wrong)?),
            Self::Time => Stored::I64(text::time_of_day(trimmed).ok_or_else(wrong)?),
            Self::Interval => {
                Stored::Bytes(interval_bytes(text::interval(trimmed).ok_or_else(wrong)?))
            }
            Self::Json => {
                json::check(text).map_err(|at| json_wrong(self, text, at))?;
                Stored::Text(text.to_owned())
            }
            Self::Jsonb => {
                Stored::Text(json::canonical(text).map_err(|at| json_wrong(self, text, at))?)
            }
            Self::Array(of) => Stored::Text(array::read(of, text)?),
        })
    }

    /// A value as text; `None` = it is stored as no value of this type is.
    pub fn print(self, integer: Option<i64>, bytes: Option<&[u8]>) -> Option<String> {
        Some(match self {
            Self::SmallInt | Self::Integer | Self::BigInt => integer?.to_string(),
            Self::Numeric { scale, .. } => {
                let value = match (integer, bytes) {
                    (Some(value), _) => value.into(),
                    (None, Some(bytes)) => unsortable(bytes.try_into().ok()?),
                    (None, None) => return None,
                };
                Decimal::new(value, scale).to_string()
            }
            Self::Uuid => text::print_uuid(bytes?.try_into().ok()?),
            Self::Date => text::print_date(integer?)?,
            Self::Timestamp => text::print_timestamp(integer?)?,
            Self::TimestampTz => text::print_timestamp(integer?)? + "Z",
            Self::Time => text::print_time_of_day(integer?),
            Self::Interval => text::print_interval(interval_parts(bytes?)?),
            Self::Real
            | Self::Varchar(_)
            | Self::Char(_)
            | Self::Json
            | Self::Jsonb
            | Self::Array(_) => return None,
        })
    }
}

fn json_wrong(of: LogicalType, text: &str, at: usize) -> Violation {
    Violation {
        kind: ConstraintKind::InvalidText,
        reason: format!("{} is no value of type {of}, at byte {at}", shown(text)),
    }
}

/// An interval as it is stored: three numbers that sort as they are written, the greatest unit first.
#[expect(
    clippy::big_endian_bytes,
    reason = "the highest byte first makes bytes sort as the numbers do"
)]
pub(crate) fn interval_bytes((months, days, ns): IntervalParts) -> [u8; 16] {
    let mut bytes = [0; 16];
    let parts = [
        (months ^ i32::MIN).to_be_bytes().as_slice(),
        (days ^ i32::MIN).to_be_bytes().as_slice(),
        (ns ^ i64::MIN).to_be_bytes().as_slice(),
    ]
    .concat();
    bytes.copy_from_slice(&parts);
    bytes
}

/// The numbers of an interval; `None` = there are not 16 bytes.
#[expect(
    clippy::big_endian_bytes,
    reason = "the highest byte first makes bytes sort as the numbers do"
)]
pub(crate) fn interval_parts(bytes: &[u8]) -> Option<IntervalParts> {
    let (months, rest) = bytes.split_first_chunk::<4>()?;
    let (days, rest) = rest.split_first_chunk::<4>()?;
    let ns: [u8; 8] = rest.try_into().ok()?;
    Some((
        i32::from_be_bytes(*months) ^ i32::MIN,
        i32::from_be_bytes(*days) ^ i32::MIN,
        i64::from_be_bytes(ns) ^ i64::MIN,
    ))
}

/// The name that SQL has for it.
impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmallInt => "smallint",
            Self::Integer => "integer",
            Self::BigInt => "bigint",
            Self::Real => "real",
            Self::Numeric { precision, scale } => return write!(f, "numeric({precision},{scale})"),
            Self::Varchar(n) => return write!(f, "varchar({n})"),
            Self::Char(n) => return write!(f, "char({n})"),
            Self::Uuid => "uuid",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampTz => "timestamptz",
            Self::Time => "time",
            Self::Interval => "interval",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Array(of) => return write!(f, "{of}[]"),
        })
    }
}
