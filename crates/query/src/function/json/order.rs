//! The order of `jsonb`, as bytes that sort so, and the one text of all values that are equal.
//!
//! Does: have `PostgreSQL`'s order: objects after arrays after booleans after numbers after texts after null, more of anything
//! after less, then one by one; numbers by their value. Does not: look at locales: texts are compared by their bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use nilometer_engine::Json;

// Types by their order.
const NULL: u8 = 0;
const TEXT: u8 = 1;
const NUMBER: u8 = 2;
const TRUTH: u8 = 3;
const ARRAY: u8 = 16;
const OBJECT: u8 = 17;

// A whole value: an array without elements comes before everything, and a value that stands alone is an array of one to PostgreSQL.
const EMPTY: u8 = 0;
const ALONE: u8 = 1;
const CONTAINER: u8 = 2;

/// Keys of values; what is no JSON has none.
pub(super) fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(values, &DataType::Utf8)?;
    let mut keys = BinaryBuilder::new();
    for text in texts.as_string::<i32>() {
        match text.and_then(|text| Json::parse(text).ok()) {
            Some(json) => keys.append_value(key(&json)),
            None => keys.append_null(),
        }
    }
    Ok(Arc::new(keys.finish()))
}

/// Values in the form that all that are equal have: numbers without zeros at their end.
pub(super) fn evened(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(values, &DataType::Utf8)?;
    let mut even = StringBuilder::new();
    for text in texts.as_string::<i32>() {
        // Most have no such number, and looking is cheaper than reading.
        match text {
            Some(text) if text.contains('.') => match Json::parse(text) {
                Ok(mut json) => {
                    shorten(&mut json);
                    even.append_value(json.to_string());
                }
                Err(_) => even.append_value(text),
            },
            other => even.append_option(other),
        }
    }
    Ok(Arc::new(even.finish()))
}

fn shorten(json: &mut Json) {
    match json {
        Json::Word(word) if word.contains('.') => {
            let short = word.trim_end_matches('0').trim_end_matches('.').len();
            word.truncate(short);
        }
        Json::Word(_) | Json::Text(_) => {}
        Json::Array(items) => items.iter_mut().for_each(shorten),
        Json::Object(entries) => entries.iter_mut().for_each(|(_, value)| shorten(value)),
    }
}

fn key(json: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    match json {
        Json::Array(items) if items.is_empty() => out.push(EMPTY),
        Json::Array(_) | Json::Object(_) => {
            out.push(CONTAINER);
            push(json, &mut out);
        }
        alone => {
            out.push(ALONE);
            push(alone, &mut out);
        }
    }
    out
}

#[expect(clippy::big_endian_bytes, reason = "bytes sort as the numbers do")]
fn count(length: usize, out: &mut Vec<u8>) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn push(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Word(word) => match word.as_str() {
            "null" => out.push(NULL),
            "false" => out.extend([TRUTH, 0]),
            "true" => out.extend([TRUTH, 1]),
            number => {
                out.push(NUMBER);
                push_number(number, out);
            }
        },
        Json::Text(text) => {
            out.push(TEXT);
            push_text(text, out);
        }
        Json::Array(items) => {
            out.push(ARRAY);
            count(items.len(), out);
            for item in items {
                push(item, out);
            }
        }
        Json::Object(_) => {
            let entries = json.entries();
            out.push(OBJECT);
            count(entries.len(), out);
            for (key, value) in entries {
                push_text(key, out);
                push(value, out);
            }
        }
    }
}

/// A text has no letter 0, which ends it here.
fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// A sign, how many digits stand before the point, and the digits; those of a number below zero are turned round.
#[expect(clippy::big_endian_bytes, reason = "bytes sort as the numbers do")]
fn push_number(text: &str, out: &mut Vec<u8>) {
    const BELOW: u8 = 0;
    const ZERO: u8 = 1;
    const ABOVE: u8 = 2;
    let (is_below, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i64>().unwrap_or(0)),
        None => (text, 0),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let significant = digits.trim_matches('0');
    if significant.is_empty() {
        out.push(ZERO);
        return;
    }
    let length = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let point = length(whole.len()) - length(zeros) + exponent;
    let point = i32::try_from(point).unwrap_or(if point < 0 { i32::MIN } else { i32::MAX });
    let mut rest = (point ^ i32::MIN).to_be_bytes().to_vec();
    push_text(significant, &mut rest);
    if is_below {
        out.push(BELOW);
        out.extend(rest.iter().map(|byte| !byte));
    } else {
        out.push(ABOVE);
        out.extend(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SELECT j FROM (VALUES ...) AS v(j) ORDER BY j::jsonb` in `PostgreSQL` 15.
    #[test]
    fn values_are_in_the_order_of_postgresql() {
        let sorted = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"aa\"",
            "\"b\"",
            "-1e20",
            "-10.5",
            "-10",
            "-0.001",
            "0",
            "0.0001",
            "1",
            "9",
            "10",
            "123456789012345678901234567890",
            "false",
            "true",
            "[null]",
            "[\"a\"]",
            "[1]",
            "[[]]",
            "[{}]",
            "[1, 2]",
            "[1, 3]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 0}",
            "{\"aa\": 0}",
            "{\"a\": 0, \"b\": 0}",
        ];
        let keys = sorted.map(|text| key(&Json::parse(text).unwrap()));
        for (pair, texts) in keys.windows(2).zip(sorted.windows(2)) {
            // Keys of objects are compared by their bytes.
            let is_known = texts == ["{\"b\": 0}", "{\"aa\": 0}"];
            assert_eq!(pair[0] < pair[1], !is_known, "{texts:?}");
        }
        for (one, other) in [("1", "1.00"), ("-0.10", "-0.1"), ("[1.0]", "[1]")] {
            let [one, other] = [one, other].map(|text| key(&Json::parse(text).unwrap()));
            assert_eq!(one, other);
        }
    }

    #[test]
    fn equal_values_have_one_form() {
        let values: ArrayRef = Arc::new(arrow::array::StringArray::from(vec![
            "[1.50, \"1.0\", 1.0, 100]",
            "{\"a\": 0.0}",
        ]));
        let even = evened(&values).unwrap();
        let even = even.as_string::<i32>();
        assert_eq!(even.value(0), "[1.5, \"1.0\", 1, 100]");
        assert_eq!(even.value(1), "{\"a\": 0}");
    }
}
