//! Conversion of values between field types, for pages that are older than their field's type.
//!
//! Does: convert what converts without loss, and say what does not. Does not: decide which fields change their type
//! (`engine/change/ddl.rs` does), or read pages.
//!
//! A value converts if converting it back would give the same value again. What does not convert becomes null; a field
//! changes its type only after every value was seen to convert, so no reader of that field meets such a null.

use std::io::Write as _;

use nilometer_codec::PhysicalType;

use crate::batch::{Column, Values};

/// Largest magnitude up to which every integer is a float: beyond it neighbours become one.
const FLOAT_INTEGERS_MAX: u64 = 1 << 53;

/// One value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    I64(i64),
    U64(u64),
    F64(f64),
    Bool(bool),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn kind(self) -> PhysicalType {
        match self {
            Self::I64(_) => PhysicalType::I64,
            Self::U64(_) => PhysicalType::U64,
            Self::F64(_) => PhysicalType::F64,
            Self::Bool(_) => PhysicalType::Bool,
            Self::Text(_) => PhysicalType::Text,
            Self::Bytes(_) => PhysicalType::Bytes,
        }
    }
}

/// The column as type `to`: values that do not convert are null. Its id stays.
pub(crate) fn cast(column: &Column, to: PhysicalType) -> Column {
    if column.values.kind() == to {
        return column.clone();
    }
    let rows = column.values.len();
    let mut out = Column::new(column.id, to);
    let mut text = Vec::new();
    for row in 0..rows {
        let value = column.validity.is_valid(row);
        let value = value.then(|| value_at(&column.values, row)).flatten();
        let converted = value.is_some_and(|value| push(&mut out.values, value, &mut text));
        if converted {
            out.validity.push(true);
        } else {
            out.pad(row + 1);
        }
    }
    out
}

/// Whether a value converts without loss.
pub(crate) fn converts(value: Value<'_>, to: PhysicalType) -> bool {
    value.kind() == to || push(&mut Values::new(to), value, &mut Vec::new())
}

fn value_at(values: &Values, row: usize) -> Option<Value<'_>> {
    Some(match values {
        Values::I64(values) => Value::I64(*values.get(row)?),
        Values::U64(values) => Value::U64(*values.get(row)?),
        Values::F64(values) => Value::F64(*values.get(row)?),
        Values::Bool(values) => Value::Bool(*values.get(row)?),
        Values::Text(strings) => Value::Text(strings.get(row)),
        Values::Bytes(strings) => Value::Bytes(strings.get(row)),
    })
}

/// Adds the value as the type of `to`; one that does not convert adds nothing and gives false.
fn push(to: &mut Values, value: Value<'_>, text: &mut Vec<u8>) -> bool {
    match (to, value) {
        (Values::I64(to), value) => push_some(to, to_i64(value, text)),
        (Values::U64(to), value) => push_some(to, to_u64(value, text)),
        (Values::F64(to), value) => push_some(to, to_f64(value, text)),
        (Values::Bool(to), value) => push_some(to, to_bool(value)),
        (Values::Text(to), value) => {
            let written = to_text(value, text);
            if written {
                to.push(text);
            }
            written
        }
        (Values::Bytes(to), Value::Text(bytes) | Value::Bytes(bytes)) => {
            to.push(bytes);
            true
        }
        (Values::Bytes(_), _) => false,
    }
}

fn push_some<T>(to: &mut Vec<T>, value: Option<T>) -> bool {
    let before = to.len();
    to.extend(value);
    to.len() > before
}

fn to_i64(value: Value<'_>, printed: &mut Vec<u8>) -> Option<i64> {
    match value {
        Value::I64(value) => Some(value),
        Value::U64(value) => i64::try_from(value).ok(),
        Value::F64(value) => whole(value),
        Value::Bool(value) => Some(i64::from(value)),
        Value::Text(text) => parse(text, printed, Value::I64),
        Value::Bytes(_) => None,
    }
}

fn to_u64(value: Value<'_>, printed: &mut Vec<u8>) -> Option<u64> {
    match value {
        Value::I64(value) => u64::try_from(value).ok(),
        Value::U64(value) => Some(value),
        Value::F64(value) => u64::try_from(whole(value)?).ok(),
        Value::Bool(value) => Some(u64::from(value)),
        Value::Text(text) => parse(text, printed, Value::U64),
        Value::Bytes(_) => None,
    }
}

fn to_f64(value: Value<'_>, printed: &mut Vec<u8>) -> Option<f64> {
    match value {
        Value::I64(value) => float(value.unsigned_abs()).map(|size| size.copysign(sign(value))),
        Value::U64(value) => float(value),
        Value::F64(value) => Some(value),
        Value::Bool(value) => Some(f64::from(u8::from(value))),
        Value::Text(text) => parse(text, printed, Value::F64),
        Value::Bytes(_) => None,
    }
}

fn to_bool(value: Value<'_>) -> Option<bool> {
    let number = match value {
        Value::Bool(value) => return Some(value),
        Value::Text(b"true") => return Some(true),
        Value::Text(b"false") => return Some(false),
        Value::I64(value) => value,
        Value::U64(value) => i64::try_from(value).ok()?,
        Value::F64(value) => whole(value)?,
        Value::Text(_) | Value::Bytes(_) => return None,
    };
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Numbers as line protocol writes them, without the letter of their type: the shortest digits that read back as the
/// same number.
fn to_text(value: Value<'_>, text: &mut Vec<u8>) -> bool {
    text.clear();
    let written = match value {
        Value::I64(value) => write!(text, "{value}"),
        Value::U64(value) => write!(text, "{value}"),
        Value::F64(value) => write!(text, "{value}"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Text(bytes) | Value::Bytes(bytes) => {
            text.extend_from_slice(bytes);
            return std::str::from_utf8(bytes).is_ok();
        }
    };
    written.is_ok()
}

/// Reads a number from exactly the text that it would be written as.
fn parse<T: std::str::FromStr + Copy>(
    text: &[u8],
    printed: &mut Vec<u8>,
    wrap: impl FnOnce(T) -> Value<'static>,
) -> Option<T> {
    let number: T = std::str::from_utf8(text).ok()?.parse().ok()?;
    (to_text(wrap(number), printed) && printed == text).then_some(number)
}

fn sign(value: i64) -> f64 {
    if value < 0 { -1.0 } else { 1.0 }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the comparison has made sure that none is lost"
)]
fn float(value: u64) -> Option<f64> {
    (value <= FLOAT_INTEGERS_MAX).then_some(value as f64)
}

/// The integer that a float is. Minus zero is none: it would come back without its sign.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the comparisons have made sure that nothing is lost"
)]
fn whole(value: f64) -> Option<i64> {
    let fits = value.abs() <= FLOAT_INTEGERS_MAX as f64 && value.fract() == 0.0;
    let minus_zero = value == 0.0 && value.is_sign_negative();
    (fits && !minus_zero).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::batch::Strings;
    use crate::schema::ColumnId;

    const KINDS: [PhysicalType; 6] = [
        PhysicalType::I64,
        PhysicalType::U64,
        PhysicalType::F64,
        PhysicalType::Bool,
        PhysicalType::Text,
        PhysicalType::Bytes,
    ];

    fn column(values: Values, present: &[bool]) -> Column {
        let mut column = Column::new(ColumnId(7), values.kind());
        column.values = values;
        for &present in present {
            column.validity.push(present);
        }
        column
    }

    fn all(values: Values) -> Column {
        let rows = values.len();
        column(values, &vec![true; rows])
    }

    fn strings(rows: &[&[u8]]) -> Strings {
        let mut strings = Strings::default();
        for row in rows {
            strings.push(row);
        }
        strings
    }

    fn texts(rows: &[&str]) -> Values {
        let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        Values::Text(strings(&rows))
    }

    fn present(column: &Column) -> Vec<bool> {
        (0..column.values.len())
            .map(|row| column.validity.is_valid(row))
            .collect()
    }

    #[test]
    fn integers_become_floats_while_each_is_one() {
        let limit = 1i64 << 53;
        let from = [0, -1, limit, -limit, limit + 1, -limit - 1, i64::MIN];
        let cast = cast(&all(Values::I64(from.to_vec())), PhysicalType::F64);
        let expected = [0.0, -1.0, 9_007_199_254_740_992.0, -9_007_199_254_740_992.0];
        assert_eq!(
            cast.values,
            Values::F64([&expected[..], &[0.0; 3]].concat())
        );
        assert_eq!(
            present(&cast),
            [true, true, true, true, false, false, false]
        );
        assert!(matches!(&cast.values, Values::F64(v) if v[0].is_sign_positive()));
    }

    #[test]
    fn signed_and_unsigned_become_each_other_where_they_fit() {
        let signed = all(Values::I64(vec![5, -1, i64::MAX]));
        let unsigned = cast(&signed, PhysicalType::U64);
        assert_eq!(unsigned.values, Values::U64(vec![5, 0, (1 << 63) - 1]));
        assert_eq!(present(&unsigned), [true, false, true]);
        let large = cast(&all(Values::U64(vec![7, 1 << 63])), PhysicalType::I64);
        assert_eq!(large.values, Values::I64(vec![7, 0]));
        assert_eq!(present(&large), [true, false]);
    }

    #[test]
    fn booleans_become_zero_and_one() {
        let from = all(Values::Bool(vec![true, false]));
        assert_eq!(
            cast(&from, PhysicalType::I64).values,
            Values::I64(vec![1, 0])
        );
        assert_eq!(
            cast(&from, PhysicalType::Text).values,
            texts(&["true", "false"])
        );
    }

    #[test]
    fn numbers_become_their_shortest_digits() {
        let floats = all(Values::F64(vec![1.0, -0.0, 0.1, 1e21, -2.5e-7]));
        let expected = ["1", "-0", "0.1", "1000000000000000000000", "-0.00000025"];
        assert_eq!(cast(&floats, PhysicalType::Text).values, texts(&expected));
        let integers = all(Values::I64(vec![i64::MIN, 7]));
        let expected = ["-9223372036854775808", "7"];
        assert_eq!(cast(&integers, PhysicalType::Text).values, texts(&expected));
    }

    #[test]
    fn text_becomes_a_number_only_if_it_is_written_like_one() {
        let rows = ["12", "+12", "012", "12.0", " 12", "", "-0", "1e3", "inf"];
        let integers = cast(&all(texts(&rows)), PhysicalType::I64);
        let mut only_first = vec![false; rows.len()];
        only_first[0] = true;
        assert_eq!(present(&integers), only_first);
        let floats = cast(&all(texts(&rows)), PhysicalType::F64);
        let (twelve, minus_zero, infinite) = (0, 6, 8);
        let expected: Vec<bool> = (0..rows.len())
            .map(|row| [twelve, minus_zero, infinite].contains(&row))
            .collect();
        assert_eq!(present(&floats), expected);
    }

    #[test]
    fn floats_become_integers_only_if_they_are_some() {
        let from = vec![3.0, 3.5, -0.0, f64::NAN, f64::INFINITY, 1e16, -2.0];
        let cast = cast(&all(Values::F64(from)), PhysicalType::I64);
        assert_eq!(cast.values, Values::I64(vec![3, 0, 0, 0, 0, 0, -2]));
        assert_eq!(
            present(&cast),
            [true, false, false, false, false, false, true]
        );
    }

    #[test]
    fn bytes_become_text_only_if_they_are_utf_8() {
        let from = all(Values::Bytes(strings(&[b"ab", &[0xFF]])));
        let cast = cast(&from, PhysicalType::Text);
        assert_eq!(cast.values, texts(&["ab", ""]));
        assert_eq!(present(&cast), [true, false]);
    }

    fn some_values() -> impl Strategy<Value = Values> {
        let small = || prop_oneof![-3..3i64, any::<i64>()];
        let float = prop_oneof![
            (-3..3i32).prop_map(f64::from),
            any::<f64>().prop_filter("a NaN has many bit patterns", |value| !value.is_nan()),
        ];
        let bytes = proptest::collection::vec(any::<u8>(), 0..5);
        let text = prop_oneof!["-?[0-9]{1,20}(\\.[0-9]{1,3})?", "true|false", ".{0,5}"];
        prop_oneof![
            proptest::collection::vec(small(), 1..20).prop_map(Values::I64),
            proptest::collection::vec(any::<u64>(), 1..20).prop_map(Values::U64),
            proptest::collection::vec(float, 1..20).prop_map(Values::F64),
            proptest::collection::vec(any::<bool>(), 1..20).prop_map(Values::Bool),
            proptest::collection::vec(text, 1..20)
                .prop_map(|rows| { texts(&rows.iter().map(String::as_str).collect::<Vec<_>>()) }),
            proptest::collection::vec(bytes, 1..20).prop_map(|rows| {
                let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
                Values::Bytes(strings(&rows))
            }),
        ]
    }

    fn shown(values: &Values, row: usize) -> String {
        match value_at(values, row) {
            // Minus zero is another value than zero.
            Some(Value::F64(value)) => format!("{:x}", value.to_bits()),
            value => format!("{value:?}"),
        }
    }

    proptest! {
        #[test]
        fn what_converts_comes_back_the_same(
            values in some_values(),
            nulls in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let from = column(values.clone(), &nulls[..values.len()]);
            for kind in KINDS {
                let there = cast(&from, kind);
                prop_assert_eq!(there.id, from.id);
                prop_assert_eq!(there.values.kind(), kind);
                prop_assert_eq!(there.values.len(), values.len());
                prop_assert_eq!(there.validity.rows(), values.len());
                let back = cast(&there, values.kind());
                for row in 0..values.len() {
                    let value = value_at(&values, row).unwrap();
                    let kept = from.validity.is_valid(row) && converts(value, kind);
                    prop_assert_eq!(there.validity.is_valid(row), kept);
                    if kept {
                        prop_assert!(back.validity.is_valid(row));
                        prop_assert_eq!(shown(&back.values, row), shown(&values, row));
                    }
                }
            }
        }
    }
}
