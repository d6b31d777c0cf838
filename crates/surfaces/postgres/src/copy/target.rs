//! Columns that a COPY fills.
//!
//! Does: read values by the type of their column, keep them as Arrow columns. Does not: find records (the formats do).

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder,
    StringBuilder, StringDictionaryBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow::datatypes::{DataType, Int32Type};
use bytes::Bytes;
use nilometer_service::bytes_of_text;

use crate::sqlstate::{BAD_COPY, INVALID_TEXT, NOT_NULL, NUMBER_RANGE, Refused};
use crate::values::binary::numeric;
use crate::values::kind::{Format, Kind, Scalar};
use crate::values::moment::{self, EPOCH_DAYS, Zone};
use crate::values::parameter::{self, bool_of, float_of, ns_of, time_refused};
use crate::wire::cursor::Cursor;

/// A column and what it has so far.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) is_nullable: bool,
    values: Values,
}

enum Values {
    Time(TimestampNanosecondBuilder, Zone, LastTime),
    Tag(StringDictionaryBuilder<Int32Type>),
    F64(Float64Builder),
    I64(Int64Builder),
    U64(UInt64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// Of a declared type: the store reads its texts.
    Declared(StringBuilder, Kind),
    Date(Date32Builder),
    Clock(TimestampNanosecondBuilder),
}

/// The text that was read last and its time: rows of many series at one time follow one another.
#[derive(Default)]
struct LastTime {
    text: Vec<u8>,
    ns: i64,
}

impl LastTime {
    /// The time of a text.
    fn read(&mut self, text: &[u8], zone: Zone) -> Result<i64, moment::NoTime> {
        if self.text.is_empty() || self.text != text {
            self.ns = moment::read(text, zone)?;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        Ok(self.ns)
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Values")
    }
}

impl Target {
    /// Of a column of this name and type; `declared` = the type that SQL has for it, if another is stored.
    pub(crate) fn new(
        name: &str,
        kind: &DataType,
        declared: Option<Kind>,
        is_nullable: bool,
        zone: Zone,
    ) -> Self {
        let as_stored = matches!(
            declared,
            None | Some(Kind::One(
                Scalar::Int2 | Scalar::Int4 | Scalar::Int8 | Scalar::Timestamptz
            ))
        );
        let values = match kind {
            DataType::Float32 => Values::F64(Float64Builder::new()),
            _ if !as_stored => {
                let of = declared.unwrap_or(Kind::TEXT);
                Values::Declared(StringBuilder::new(), of)
            }
            DataType::Date32 => Values::Date(Date32Builder::new()),
            DataType::Timestamp(_, None) => Values::Clock(TimestampNanosecondBuilder::new()),
            DataType::Timestamp(..) => {
                let times = TimestampNanosecondBuilder::new().with_timezone("UTC");
                Values::Time(times, zone, LastTime::default())
            }
            DataType::Dictionary(..) => Values::Tag(StringDictionaryBuilder::new()),
            DataType::Float64 => Values::F64(Float64Builder::new()),
            DataType::Int64 => Values::I64(Int64Builder::new()),
            DataType::UInt64 => Values::U64(UInt64Builder::new()),
            DataType::Boolean => Values::Bool(BooleanBuilder::new()),
            DataType::Binary | DataType::LargeBinary => Values::Bytes(BinaryBuilder::new()),
            _ => Values::Text(StringBuilder::new()),
        };
        Self {
            name: name.to_owned(),
            is_nullable,
            values,
        }
    }

    /// Bytes that a value takes here, without those of a text.
    pub(crate) fn value_bytes(&self) -> usize {
        match self.values {
            Values::Bool(_) => 1,
            Values::Date(_)
            | Values::Tag(_)
            | Values::Text(_)
            | Values::Bytes(_)
            | Values::Declared(..) => 5,
            _ => 9,
        }
    }

    /// Whether values are texts, which take their own length.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self.values,
            Values::Text(_) | Values::Bytes(_) | Values::Declared(..)
        )
    }

    #[expect(clippy::match_same_arms, reason = "a kind of values a line")]
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Time(of, ..) => Arc::new(of.finish()),
            Values::Tag(of) => Arc::new(of.finish()),
            Values::F64(of) => Arc::new(of.finish()),
            Values::I64(of) => Arc::new(of.finish()),
            Values::U64(of) => Arc::new(of.finish()),
            Values::Bool(of) => Arc::new(of.finish()),
            Values::Text(of) => Arc::new(of.finish()),
            Values::Bytes(of) => Arc::new(of.finish()),
            Values::Declared(of, _) => Arc::new(of.finish()),
            Values::Date(of) => Arc::new(of.finish()),
            Values::Clock(of) => Arc::new(of.finish()),
        }
    }

    #[expect(clippy::match_same_arms, reason = "a kind of values a line")]
    fn null(&mut self) -> Result<(), Refused> {
        if !self.is_nullable {
            return Err(Refused::new(
                NOT_NULL,
                format!(
                    "null value in column \"{}\" violates not-null constraint",
                    self.name
                ),
            ));
        }
        match &mut self.values {
            Values::Time(of, ..) => of.append_null(),
            Values::Tag(of) => of.append_null(),
            Values::F64(of) => of.append_null(),
            Values::I64(of) => of.append_null(),
            Values::U64(of) => of.append_null(),
            Values::Bool(of) => of.append_null(),
            Values::Text(of) => of.append_null(),
            Values::Bytes(of) => of.append_null(),
            Values::Declared(of, _) => of.append_null(),
            Values::Date(of) => of.append_null(),
            Values::Clock(of) => of.append_null(),
        }
        Ok(())
    }

    /// Adds a value that is written as text.
    pub(crate) fn text(&mut self, value: Option<&[u8]>) -> Result<(), Refused> {
        let Some(value) = value else {
            return self.null();
        };
        match &mut self.values {
            Values::Time(of, zone, last) => match last.read(value, *zone) {
                Ok(ns) => of.append_value(ns),
                Err(why) => return Err(time_refused(why, &shown(value))),
            },
            Values::F64(of) => match plain_float(value) {
                Some(number) => of.append_value(number),
                None => return Err(invalid("double precision", value)),
            },
            Values::I64(of) => of.append_value(integer(value)?),
            Values::U64(of) => {
                let number = utf8(value)?.trim().parse();
                of.append_value(number.map_err(|_| invalid("numeric", value))?);
            }
            Values::Bool(of) => {
                let truth = bool_of(utf8(value)?);
                of.append_value(truth.ok_or_else(|| invalid("boolean", value))?);
            }
            Values::Tag(of) => {
                let text = utf8(value)?;
                if of.append(text).is_err() {
                    return Err(Refused::new(
                        crate::sqlstate::LIMIT,
                        "a COPY has too many different values of one tag",
                    ));
                }
            }
            Values::Text(of) | Values::Declared(of, _) => of.append_value(utf8(value)?),
            Values::Date(of) => match moment::read_local(value) {
                Ok(ns) => of.append_value(days(ns)?),
                Err(why) => return Err(time_refused(why, &shown(value))),
            },
            Values::Clock(of) => match moment::read_local(value) {
                Ok(ns) => of.append_value(ns),
                Err(why) => return Err(time_refused(why, &shown(value))),
            },
            Values::Bytes(of) => {
                let bytes = bytes_of_text(utf8(value)?);
                of.append_value(bytes.map_err(|_| invalid("bytea", value))?);
            }
        }
        Ok(())
    }

    /// Adds a value in its binary form.
    pub(crate) fn binary(&mut self, value: Option<&[u8]>) -> Result<(), Refused> {
        let Some(value) = value else {
            return self.null();
        };
        let wrong = |()| {
            Refused::new(
                crate::sqlstate::INVALID_BINARY,
                "incorrect binary data format",
            )
        };
        let length = value.len();
        let number = |value: &[u8]| match value.len() {
            2 => value
                .try_into()
                .ok()
                .map(|it| i64::from(i16::from_be_bytes(it))),
            4 => value
                .try_into()
                .ok()
                .map(|it| i64::from(i32::from_be_bytes(it))),
            8 => value.try_into().ok().map(i64::from_be_bytes),
            _ => None,
        };
        match &mut self.values {
            Values::Time(of, ..) if length == 8 => {
                of.append_value(ns_of(number(value).unwrap_or(0))?);
            }
            Values::F64(of) => {
                let float = match length {
                    8 => number(value).map(|bits| f64::from_bits(bits.cast_unsigned())),
                    4 => value
                        .try_into()
                        .ok()
                        .map(|it| f64::from(f32::from_be_bytes(it))),
                    _ => None,
                };
                of.append_value(float.ok_or_else(|| wrong(()))?);
            }
            Values::I64(of) => of.append_value(number(value).ok_or_else(|| wrong(()))?),
            Values::U64(of) => {
                let mut body = Cursor(Bytes::copy_from_slice(value));
                let text = numeric(&mut body).map_err(|_| wrong(()))?;
                let value = text.parse();
                of.append_value(value.map_err(|_| invalid("numeric", text.as_bytes()))?);
            }
            Values::Bool(of) if length == 1 => of.append_value(value.first() != Some(&0)),
            Values::Tag(_) | Values::Text(_) => return self.text(Some(value)),
            Values::Bytes(of) => of.append_value(value),
            Values::Declared(of, kind) => {
                let value = Bytes::copy_from_slice(value);
                let read = parameter::read(Some(&value), *kind, Format::Binary)?;
                of.append_value(parameter::text_of(&read).ok_or_else(|| wrong(()))?);
            }
            Values::Clock(of) if length == 8 => {
                of.append_value(ns_of(number(value).unwrap_or(0))?);
            }
            Values::Date(of) if length == 4 => {
                let days = number(value).and_then(|days| i32::try_from(days).ok());
                let days = days.and_then(|days| days.checked_add(EPOCH_DAYS));
                of.append_value(days.ok_or_else(|| wrong(()))?);
            }
            Values::Time(..) | Values::Bool(_) | Values::Clock(_) | Values::Date(_) => {
                return Err(wrong(()));
            }
        }
        Ok(())
    }
}

/// The day of a moment.
fn days(ns: i64) -> Result<i32, Refused> {
    let days = ns.div_euclid(86_400 * moment::NS_PER_S);
    i32::try_from(days).map_err(|_| time_refused(moment::NoTime::Range, "a date"))
}

/// A float: the common spellings first.
fn plain_float(value: &[u8]) -> Option<f64> {
    if let Some(number) = short_whole(value) {
        return Some(number);
    }
    match fast_float2::parse::<f64, _>(value) {
        // The library also reads words.
        Ok(number) if number.is_finite() => Some(number),
        _ => float_of(std::str::from_utf8(value).ok()?),
    }
}

/// A whole number of so few digits that a float has it exactly.
fn short_whole(value: &[u8]) -> Option<f64> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if !(1..=9).contains(&digits.len()) {
        return None;
    }
    let mut number = 0u32;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    let number = f64::from(number);
    Some(if digits.len() < value.len() {
        -number
    } else {
        number
    })
}

fn integer(value: &[u8]) -> Result<i64, Refused> {
    let trimmed = value.trim_ascii();
    let (digits, is_negative) = match trimmed.split_first() {
        Some((b'-', rest)) => (rest, true),
        Some((b'+', rest)) => (rest, false),
        _ => (trimmed, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid("bigint", value));
    }
    let mut number = 0i64;
    for digit in digits {
        let digit = i64::from(digit - b'0');
        let next = number.checked_mul(10).and_then(|it| {
            if is_negative {
                it.checked_sub(digit)
            } else {
                it.checked_add(digit)
            }
        });
        number = next.ok_or_else(|| {
            Refused::new(
                NUMBER_RANGE,
                format!("value \"{}\" is out of range for type bigint", shown(value)),
            )
        })?;
    }
    Ok(number)
}

fn utf8(value: &[u8]) -> Result<&str, Refused> {
    let text = std::str::from_utf8(value)
        .map_err(|_| Refused::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
    if text.contains('\0') {
        return Err(Refused::new(BAD_COPY, "a text has a zero byte"));
    }
    Ok(text)
}

fn invalid(kind: &str, value: &[u8]) -> Refused {
    Refused::new(
        INVALID_TEXT,
        format!("invalid input syntax for type {kind}: \"{}\"", shown(value)),
    )
}

/// A value for an error, as much as says which.
pub(super) fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    if text.chars().count() > 100 {
        let start: String = text.chars().take(100).collect();
        format!("{start}...")
    } else {
        text.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The way for short whole numbers is the other one, bit for bit: `-0` has its sign, and nine digits do not overflow.
        #[test]
        fn a_short_number_is_read_as_every_number_is(text in "-?[0-9]{1,10}|[+-]?[0-9]{0,4}\\.?[0-9]{0,4}") {
            let by_std: Option<u64> = text.parse::<f64>().ok().map(f64::to_bits);
            prop_assert_eq!(plain_float(text.as_bytes()).map(f64::to_bits), by_std);
        }
    }

    #[test]
    fn the_time_before_is_taken_for_the_same_text_only() {
        let mut last = LastTime::default();
        for (text, ns) in [
            ("2024-05-01 00:00:00Z", Some(1_714_521_600_000_000_000)),
            ("2024-05-01 00:00:00Z", Some(1_714_521_600_000_000_000)),
            ("2024-05-01 00:00:01Z", Some(1_714_521_601_000_000_000)),
            ("soon", None),
            ("2024-05-01 00:00:01Z", Some(1_714_521_601_000_000_000)),
            ("", None),
        ] {
            assert_eq!(last.read(text.as_bytes(), Zone::Utc).ok(), ns, "{text}");
        }
    }
}
