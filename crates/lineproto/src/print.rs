//! The printer: a point as a line that means the same point.

use std::io::Write as _;

use crate::escape::{self, escape_into};
use crate::{FieldValue, TIME_NS_MAX, TIME_NS_MIN, WriteError};

/// Appends one line, its line feed included. Reading it with [`crate::Precision::Nanosecond`] gives the same measurement,
/// tags, fields and time. Where line protocol has no text for a part of the point, nothing is appended.
///
/// ```
/// use nilometer_lineproto::{FieldValue, write_line};
///
/// let mut out = Vec::new();
/// write_line(&mut out, "disk use", &[("path", "/a=b")], &[("free", FieldValue::Integer(7))], Some(42))?;
/// assert_eq!(out, b"disk\\ use,path=/a\\=b free=7i 42\n");
/// # Ok::<(), nilometer_lineproto::WriteError>(())
/// ```
pub fn write_line<K: AsRef<str>, V: AsRef<str>, N: AsRef<str>>(
    out: &mut Vec<u8>,
    measurement: &str,
    tags: &[(K, V)],
    fields: &[(N, FieldValue<'_>)],
    time_ns: Option<i64>,
) -> Result<(), WriteError> {
    let start = out.len();
    let result = write_parts(out, measurement, tags, fields, time_ns);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn write_parts<K: AsRef<str>, V: AsRef<str>, N: AsRef<str>>(
    out: &mut Vec<u8>,
    measurement: &str,
    tags: &[(K, V)],
    fields: &[(N, FieldValue<'_>)],
    time_ns: Option<i64>,
) -> Result<(), WriteError> {
    if fields.is_empty() {
        return Err(WriteError::NoFields);
    }
    if measurement.starts_with('#') || starts_blank(measurement) {
        return Err(WriteError::Name {
            name: measurement.to_owned(),
        });
    }
    write_name(out, measurement, escape::MEASUREMENT)?;
    for (key, value) in tags {
        out.push(b',');
        write_name(out, key.as_ref(), escape::KEY)?;
        out.push(b'=');
        write_name(out, value.as_ref(), escape::KEY)?;
    }
    for (i, (name, value)) in fields.iter().enumerate() {
        let name = name.as_ref();
        if i == 0 && starts_blank(name) {
            return Err(WriteError::Name {
                name: name.to_owned(),
            });
        }
        out.push(if i == 0 { b' ' } else { b',' });
        write_name(out, name, escape::KEY)?;
        out.push(b'=');
        write_value(out, name, value)?;
    }
    if let Some(time_ns) = time_ns {
        if !(TIME_NS_MIN..=TIME_NS_MAX).contains(&time_ns) {
            return Err(WriteError::Time { time_ns });
        }
        push(out, format_args!(" {time_ns}"));
    }
    out.push(b'\n');
    Ok(())
}

/// Whether a parser would take the first character for white space between two parts of a line. A space is escaped.
fn starts_blank(name: &str) -> bool {
    name.starts_with(['\t', '\0'])
}

fn write_name(out: &mut Vec<u8>, name: &str, hidden: &[u8]) -> Result<(), WriteError> {
    // A last backslash would hide the separator after the name, and a line feed always ends the line.
    if name.is_empty() || name.ends_with('\\') || name.contains('\n') {
        return Err(WriteError::Name {
            name: name.to_owned(),
        });
    }
    escape_into(out, name, hidden);
    Ok(())
}

fn write_value(out: &mut Vec<u8>, name: &str, value: &FieldValue<'_>) -> Result<(), WriteError> {
    match value {
        FieldValue::Float(value) if !value.is_finite() => {
            return Err(WriteError::NotFinite {
                name: name.to_owned(),
            });
        }
        // Without an exponent the largest floats have three hundred digits.
        FieldValue::Float(value) if *value == 0.0 || (1e-5..1e17).contains(&value.abs()) => {
            push(out, format_args!("{value}"));
        }
        FieldValue::Float(value) => push(out, format_args!("{value:e}")),
        FieldValue::Integer(value) => push(out, format_args!("{value}i")),
        FieldValue::Unsigned(value) => push(out, format_args!("{value}u")),
        FieldValue::Boolean(value) => push(out, format_args!("{value}")),
        FieldValue::Text(text) => {
            out.push(b'"');
            escape_into(out, text, escape::TEXT);
            out.push(b'"');
        }
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes every byte");
}
