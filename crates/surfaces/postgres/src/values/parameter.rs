//! Values of parameters off the wire.
//!
//! Does: read text and binary forms by their type, as values for a language. Does not: know which type a parameter has (the
//! sender or the language says), or hold a value to more than its form.

use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use nilometer_service::{Param, bytes_of_text};

use super::binary::numeric;
use super::kind::{Format, Kind, Scalar};
use super::moment::{self, EPOCH_DAYS, EPOCH_US, NoTime, Zone, date_of_days};
use super::text;
use crate::sqlstate::{
    INVALID_BINARY, INVALID_TEXT, INVALID_TIME, NUMBER_RANGE, Refused, TIME_RANGE,
};
use crate::wire::cursor::{Cursor, Malformed};

/// Arrays within arrays, and values in one, that are read.
const ARRAY_VALUES_MAX: usize = 1 << 20;

/// The value of a parameter.
pub(crate) fn read(bytes: Option<&Bytes>, kind: Kind, format: Format) -> Result<Param, Refused> {
    let Some(bytes) = bytes else {
        return Ok(Param::Null);
    };
    match (kind, format) {
        (Kind::One(scalar), Format::Text) => of_text(utf8(bytes)?, scalar),
        (Kind::One(scalar), Format::Binary) => of_binary(bytes.clone(), scalar),
        (Kind::Array(scalar), Format::Text) => array_of_text(utf8(bytes)?, scalar),
        (Kind::Array(_), Format::Binary) => array_of_binary(bytes.clone()),
    }
}

/// A value as the text that the store reads again; `None` = it has none, such as a list.
pub(crate) fn text_of(value: &Param) -> Option<String> {
    Some(match value {
        Param::Text(text) => text.clone(),
        Param::I64(value) => value.to_string(),
        Param::F64(value) => value.to_string(),
        Param::Bool(value) => value.to_string(),
        Param::Time(ns) => {
            let mut out = BytesMut::new();
            let seconds = ns.div_euclid(moment::NS_PER_S);
            moment::put_timestamp(&mut out, seconds, ns.rem_euclid(moment::NS_PER_S), None);
            String::from_utf8(out.to_vec()).ok()?
        }
        Param::Of { value, .. } => return text_of(value),
        Param::List(values) => list_text(values)?,
        _ => return None,
    })
}

/// Values as the text of an array.
fn list_text(values: &[Param]) -> Option<String> {
    let mut out = BytesMut::new();
    out.extend_from_slice(b"{");
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            out.extend_from_slice(b",");
        }
        match value {
            Param::Null => out.extend_from_slice(b"NULL"),
            value => text::put_element(&mut out, text_of(value)?.as_bytes()),
        }
    }
    out.extend_from_slice(b"}");
    String::from_utf8(out.to_vec()).ok()
}

fn utf8(bytes: &[u8]) -> Result<&str, Refused> {
    std::str::from_utf8(bytes).map_err(|_| {
        Refused::new(
            "22021",
            "invalid byte sequence for encoding \"UTF8\" in a parameter",
        )
    })
}

fn invalid(scalar: Scalar, text: &str) -> Refused {
    let shown: String = text.chars().take(100).collect();
    let name = Kind::One(scalar).name();
    Refused::new(
        INVALID_TEXT,
        format!("invalid input syntax for type {name}: \"{shown}\""),
    )
}

/// A value that says what it is to be, for the language to cast.
fn of(kind: &str, text: impl Into<String>) -> Param {
    Param::Of {
        kind: kind.to_owned(),
        value: Box::new(Param::Text(text.into())),
    }
}

fn of_text(text: &str, scalar: Scalar) -> Result<Param, Refused> {
    let trimmed = text.trim();
    let wrong = || invalid(scalar, text);
    Ok(match scalar {
        Scalar::Bool => Param::Bool(bool_of(trimmed).ok_or_else(wrong)?),
        Scalar::Int2 | Scalar::Int4 | Scalar::Int8 | Scalar::Oid => {
            let value: i64 = trimmed.parse().map_err(|_| {
                let is_number = trimmed
                    .trim_start_matches(['-', '+'])
                    .bytes()
                    .all(|byte| byte.is_ascii_digit());
                if is_number && !trimmed.is_empty() {
                    beyond(scalar, text)
                } else {
                    wrong()
                }
            })?;
            in_range(value, scalar)?
        }
        Scalar::Float4 | Scalar::Float8 => Param::F64(float_of(trimmed).ok_or_else(wrong)?),
        Scalar::Numeric => numeric_of(trimmed).ok_or_else(wrong)?,
        Scalar::Bytea => Param::Bytes(bytes_of_text(text).map_err(|_| wrong())?),
        Scalar::Timestamptz => time_of(text),
        Scalar::Timestamp => of("timestamp", text),
        Scalar::Date => of("date", text),
        Scalar::Time => of("time", text),
        Scalar::Interval => of("interval", text),
        _ => Param::Text(text.to_owned()),
    })
}

/// A time that says its offset is known; of another one the language knows more, such as the session's zone.
fn time_of(text: &str) -> Param {
    let zone = Zone::of(Some("+01:00"));
    match (
        moment::read(text.as_bytes(), Zone::Utc),
        moment::read(text.as_bytes(), zone),
    ) {
        (Ok(time), Ok(elsewhere)) if time == elsewhere => Param::Time(time),
        _ => of("timestamptz", text),
    }
}

fn beyond(scalar: Scalar, text: &str) -> Refused {
    let name = Kind::One(scalar).name();
    Refused::new(
        NUMBER_RANGE,
        format!("value \"{text}\" is out of range for type {name}"),
    )
}

fn in_range(value: i64, scalar: Scalar) -> Result<Param, Refused> {
    let fits = match scalar {
        Scalar::Int2 => i16::try_from(value).is_ok(),
        Scalar::Int4 => i32::try_from(value).is_ok(),
        Scalar::Oid => u32::try_from(value).is_ok(),
        _ => true,
    };
    if fits {
        Ok(Param::I64(value))
    } else {
        Err(beyond(scalar, &value.to_string()))
    }
}

/// PostgreSQL's words for true and false, any beginning of them that says which.
pub(crate) fn bool_of(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let is_start = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" => Some(false),
        "o" => None,
        _ if is_start("true") || is_start("yes") => Some(true),
        _ if is_start("false") || is_start("no") || is_start("off") => Some(false),
        _ => None,
    }
}

/// A float, with PostgreSQL's words for those that are no number.
pub(crate) fn float_of(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(value) = fast_float2::parse::<f64, _>(text)
        && text.bytes().any(|byte| byte.is_ascii_digit())
    {
        return Some(value);
    }
    let lower = text.to_ascii_lowercase();
    match lower.trim_start_matches('+') {
        "nan" => Some(f64::NAN),
        "infinity" | "inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Digits as a number of the language; what is no plain number is a float.
fn numeric_of(text: &str) -> Option<Param> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(Param::I64(value));
    }
    let value = float_of(text)?;
    let is_plain = text
        .trim_start_matches(['-', '+'])
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    Some(if is_plain && value.is_finite() {
        of("numeric", text.trim_start_matches('+'))
    } else {
        Param::F64(value)
    })
}

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Self {
        Self::new(
            INVALID_BINARY,
            "incorrect binary data format in a parameter",
        )
    }
}

fn of_binary(bytes: Bytes, scalar: Scalar) -> Result<Param, Refused> {
    let mut body = Cursor(bytes);
    let value = match scalar {
        Scalar::Bool => Param::Bool(body.u8()? != 0),
        Scalar::Int2 => Param::I64(i64::from(body.i16()?)),
        Scalar::Int4 => Param::I64(i64::from(body.i32()?)),
        Scalar::Oid | Scalar::Regclass => Param::I64(i64::from(body.u32()?)),
        Scalar::Int8 => Param::I64(long(&mut body)?),
        Scalar::Float4 => Param::F64(f64::from(f32::from_bits(body.u32()?))),
        Scalar::Float8 => Param::F64(f64::from_bits(long(&mut body)?.cast_unsigned())),
        Scalar::Numeric => {
            let text = numeric(&mut body)?;
            numeric_of(&text).ok_or(Malformed)?
        }
        Scalar::Bytea => Param::Bytes(body.rest().to_vec()),
        Scalar::Timestamptz => Param::Time(ns_of(long(&mut body)?)?),
        Scalar::Timestamp => Param::Of {
            kind: "timestamp".to_owned(),
            value: Box::new(Param::Time(ns_of(long(&mut body)?)?)),
        },
        Scalar::Date => {
            let days = i64::from(body.i32()?) + i64::from(EPOCH_DAYS);
            let (year, month, day) = date_of_days(days);
            if !(1..=9999).contains(&year) {
                return Err(Refused::new(TIME_RANGE, "date out of range"));
            }
            of("date", format!("{year:04}-{month:02}-{day:02}"))
        }
        Scalar::Time => {
            let us = long(&mut body)?;
            let seconds = us.div_euclid(1_000_000);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let part = us.rem_euclid(1_000_000);
            of(
                "time",
                format!("{hours:02}:{minutes:02}:{:02}.{part:06}", seconds % 60),
            )
        }
        Scalar::Interval => {
            let (us, days, months) = (long(&mut body)?, body.i32()?, body.i32()?);
            let (seconds, part) = (us / 1_000_000, (us % 1_000_000).unsigned_abs());
            let sign = if us < 0 { "-" } else { "" };
            let seconds = seconds.unsigned_abs();
            of(
                "interval",
                format!("{months} months {days} days {sign}{seconds}.{part:06} seconds"),
            )
        }
        Scalar::Uuid => {
            let bytes = body.bytes(16)?;
            let mut text = String::with_capacity(36);
            for (at, byte) in bytes.iter().enumerate() {
                if matches!(at, 4 | 6 | 8 | 10) {
                    text.push('-');
                }
                // Nothing fails that writes into memory.
                let _ = write!(text, "{byte:02x}");
            }
            Param::Text(text)
        }
        Scalar::Jsonb => {
            if body.u8()? != 1 {
                return Err(Malformed.into());
            }
            Param::Text(utf8(&body.rest())?.to_owned())
        }
        _ => Param::Text(utf8(&body.rest())?.to_owned()),
    };
    body.end()?;
    Ok(value)
}

fn long(body: &mut Cursor) -> Result<i64, Malformed> {
    let (high, low) = (body.i32()?, body.u32()?);
    Ok(i64::from(high) << 32 | i64::from(low))
}

/// Nanoseconds since 1970 of microseconds since 2000.
pub(crate) fn ns_of(us: i64) -> Result<i64, Refused> {
    let ns = us.checked_add(EPOCH_US).and_then(|us| us.checked_mul(1000));
    ns.ok_or_else(|| time_refused(NoTime::Range, "a timestamp"))
}

/// What is told of a text that is no time.
pub(crate) fn time_refused(why: NoTime, text: &str) -> Refused {
    match why {
        NoTime::Syntax => Refused::new(
            INVALID_TIME,
            format!("invalid input syntax for type timestamp with time zone: \"{text}\""),
        ),
        NoTime::Range => Refused::new(
            TIME_RANGE,
            format!("timestamp out of range: \"{text}\"; times are from 1677-09-21 to 2262-04-11"),
        ),
    }
}

fn array_of_binary(bytes: Bytes) -> Result<Param, Refused> {
    let mut body = Cursor(bytes);
    let dimensions = body.i32()?;
    let _has_null = body.i32()?;
    let oid = body.u32()?;
    let values = match dimensions {
        0 => Vec::new(),
        1 => {
            let count = usize::try_from(body.i32()?).map_err(|_| Malformed)?;
            let _first = body.i32()?;
            let Some(Kind::One(of)) = Kind::of_oid(oid) else {
                return Err(Refused::unsupported(format!(
                    "an array of the type with the number {oid} is not supported; send it as text"
                )));
            };
            let mut values = Vec::new();
            for _ in 0..count.min(ARRAY_VALUES_MAX + 1) {
                if values.len() == ARRAY_VALUES_MAX {
                    return Err(too_many_values());
                }
                let value = body.value()?;
                values.push(read(value.as_ref(), Kind::One(of), Format::Binary)?);
            }
            values
        }
        _ => return Err(nested()),
    };
    body.end()?;
    Ok(Param::List(values))
}

fn too_many_values() -> Refused {
    Refused::new(
        crate::sqlstate::LIMIT,
        format!("an array as a parameter has at most {ARRAY_VALUES_MAX} values"),
    )
}

fn nested() -> Refused {
    Refused::unsupported("arrays of arrays are not supported as parameters")
}

/// `{1,NULL,"a b"}`.
fn array_of_text(text: &str, of: Scalar) -> Result<Param, Refused> {
    let malformed = || {
        let shown: String = text.chars().take(100).collect();
        Refused::new(
            INVALID_TEXT,
            format!("malformed array literal: \"{shown}\""),
        )
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let mut letters = inner.ok_or_else(malformed)?.chars().peekable();
    let mut values = Vec::new();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let mut value = String::new();
        let mut is_quoted = false;
        match letters.peek() {
            None if values.is_empty() => break,
            Some('{') => return Err(nested()),
            Some('"') => {
                is_quoted = true;
                letters.next();
                loop {
                    match letters.next() {
                        None => return Err(malformed()),
                        Some('"') => break,
                        Some('\\') => value.push(letters.next().ok_or_else(malformed)?),
                        Some(letter) => value.push(letter),
                    }
                }
                while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
            }
            _ => {
                while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                    match letter {
                        '"' | '{' | '}' => return Err(malformed()),
                        '\\' => value.push(letters.next().ok_or_else(malformed)?),
                        letter => value.push(letter),
                    }
                }
                value.truncate(value.trim_end().len());
                if value.is_empty() {
                    return Err(malformed());
                }
            }
        }
        if values.len() == ARRAY_VALUES_MAX {
            return Err(too_many_values());
        }
        values.push(if !is_quoted && value.eq_ignore_ascii_case("null") {
            Param::Null
        } else {
            of_text(&value, of)?
        });
        match letters.next() {
            None => break,
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
    Ok(Param::List(values))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str, kind: Kind) -> Result<Param, Refused> {
        read(
            Some(&Bytes::copy_from_slice(text.as_bytes())),
            kind,
            Format::Text,
        )
    }

    fn binary(bytes: &[u8], scalar: Scalar) -> Result<Param, Refused> {
        let bytes = Bytes::copy_from_slice(bytes);
        read(Some(&bytes), Kind::One(scalar), Format::Binary)
    }

    #[test]
    fn texts_are_read_by_their_type() {
        for (written, scalar, value) in [
            (" 42 ", Scalar::Int4, Param::I64(42)),
            ("-1.5e3", Scalar::Float8, Param::F64(-1500.0)),
            ("Infinity", Scalar::Float8, Param::F64(f64::INFINITY)),
            ("t", Scalar::Bool, Param::Bool(true)),
            ("of", Scalar::Bool, Param::Bool(false)),
            ("\\x00ff", Scalar::Bytea, Param::Bytes(vec![0, 255])),
            (
                "a\\001\\\\",
                Scalar::Bytea,
                Param::Bytes(vec![b'a', 1, b'\\']),
            ),
            ("42", Scalar::Numeric, Param::I64(42)),
            ("1.10", Scalar::Numeric, of("numeric", "1.10")),
            ("x", Scalar::Text, Param::Text("x".to_owned())),
        ] {
            assert_eq!(
                text(written, Kind::One(scalar)).unwrap(),
                value,
                "{written}"
            );
        }
        for (written, scalar, code) in [
            ("x", Scalar::Int4, INVALID_TEXT),
            ("", Scalar::Int4, INVALID_TEXT),
            ("3000000000", Scalar::Int4, NUMBER_RANGE),
            ("99999999999999999999", Scalar::Int8, NUMBER_RANGE),
            ("o", Scalar::Bool, INVALID_TEXT),
            ("1.2.3", Scalar::Float8, INVALID_TEXT),
            ("\\x0", Scalar::Bytea, INVALID_TEXT),
        ] {
            assert_eq!(
                text(written, Kind::One(scalar)).unwrap_err().code,
                code,
                "{written}"
            );
        }
    }

    #[test]
    fn binary_values_are_read_by_their_type() {
        assert_eq!(
            binary(&7i64.to_be_bytes(), Scalar::Int8).unwrap(),
            Param::I64(7)
        );
        // 2000-01-01 and a microsecond.
        assert_eq!(
            binary(&1i64.to_be_bytes(), Scalar::Timestamptz).unwrap(),
            Param::Time(946_684_800_000_001_000)
        );
        assert_eq!(
            binary(&0i32.to_be_bytes(), Scalar::Date).unwrap(),
            of("date", "2000-01-01")
        );
        assert_eq!(binary(&[1], Scalar::Bool).unwrap(), Param::Bool(true));
        assert_eq!(
            binary(&[0, 0], Scalar::Int4).unwrap_err().code,
            INVALID_BINARY
        );
        assert_eq!(
            binary(&[0; 9], Scalar::Int8).unwrap_err().code,
            INVALID_BINARY
        );
        let far = binary(&i64::MAX.to_be_bytes(), Scalar::Timestamptz).unwrap_err();
        assert_eq!(far.code, TIME_RANGE);
    }

    #[test]
    fn arrays_are_lists() {
        let list = |written: &str| text(written, Kind::Array(Scalar::Text));
        let texts = |all: &[&str]| Param::List(all.iter().map(|it| Param::from(*it)).collect());
        assert_eq!(list("{}").unwrap(), Param::List(Vec::new()));
        assert_eq!(
            list("{a, \"b c\",\"d\\\"\"}").unwrap(),
            texts(&["a", "b c", "d\""])
        );
        assert_eq!(
            list("{null,\"null\"}").unwrap(),
            Param::List(vec![Param::Null, "null".into()])
        );
        for wrong in ["", "a", "{a", "{a,}", "{,a}", "{\"a}", "{a}b}"] {
            assert_eq!(list(wrong).unwrap_err().code, INVALID_TEXT, "{wrong}");
        }
        assert_eq!(list("{{a}}").unwrap_err().code, "0A000");
    }

    proptest! {
        #[test]
        fn nothing_is_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), at in 0usize..25, array in any::<bool>(), is_text in any::<bool>()) {
            let oids = [16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 705, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2205, 2278, 2950, 3802];
            let Some(Kind::One(of)) = Kind::of_oid(oids[at]) else { panic!("known") };
            let kind = if array { Kind::Array(of) } else { Kind::One(of) };
            let format = if is_text { Format::Text } else { Format::Binary };
            let _ = read(Some(&Bytes::from(bytes)), kind, format);
        }
    }
}
