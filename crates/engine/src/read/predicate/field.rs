//! Predicates on fields.
//!
//! Does: say of the statistics of a page whether a value in it may qualify, and of values which do. Does not: promise to
//! refuse what does not qualify: NaN always does, and the two zeros are one. Whoever asks looks at the rows again.

use std::ops::RangeInclusive;

use nilometer_codec::stats::{PageStatistics, Statistics};

use crate::batch::{Column, Validity, Values};

/// Leaves out rows whose value of a field, or its absence, does not qualify.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPredicate {
    /// Position of the field in [`crate::TableSchema::arrow_schema`].
    pub column: usize,
    /// Which values qualify. A null never does.
    pub matches: FieldMatch,
}

/// Which values of a field qualify: any in one of the ranges. Of another type than the field's, all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldMatch {
    /// Any value.
    Present,
    /// Of an integer field.
    Int(Vec<RangeInclusive<i64>>),
    /// Of an unsigned field.
    Unsigned(Vec<RangeInclusive<u64>>),
    /// Of a float field. No bound is NaN.
    Float(Vec<RangeInclusive<f64>>),
    /// Of a boolean field.
    Bool(bool),
    /// Of a text or bytes field, by its bytes.
    Text(Vec<TextRange>),
}

/// Texts from the first to the last, both included; `None` = no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextRange {
    /// The lowest.
    pub first: Option<Vec<u8>>,
    /// The highest.
    pub last: Option<Vec<u8>>,
}

impl TextRange {
    pub(super) fn contains(&self, text: &[u8]) -> bool {
        self.first.as_deref().is_none_or(|first| first <= text)
            && self.last.as_deref().is_none_or(|last| text <= last)
    }

    /// Of bounds that are prefixes: no value padded with zeros is below `min`, and none above `max`.
    fn may_contain(&self, min: [u8; 8], max: [u8; 8]) -> bool {
        // A bound that is cut to eight bytes and padded is not above a value that it is not above.
        let first = self.first.as_deref().map(prefix);
        let last = self.last.as_deref().map(prefix);
        first.is_none_or(|first| first <= max) && last.is_none_or(|last| min <= last)
    }
}

fn prefix(text: &[u8]) -> [u8; 8] {
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(text) {
        *to = *from;
    }
    padded
}

fn meet<T: PartialOrd + Copy>(ranges: &[RangeInclusive<T>], min: T, max: T) -> bool {
    ranges
        .iter()
        .any(|range| *range.start() <= max && min <= *range.end())
}

fn holds<T: PartialOrd>(ranges: &[RangeInclusive<T>], value: &T) -> bool {
    ranges.iter().any(|range| range.contains(value))
}

impl FieldMatch {
    /// Whether one of the values of a page may qualify; sure about no.
    pub(crate) fn may_match(&self, page: &PageStatistics) -> bool {
        if page.non_null == 0 {
            return false;
        }
        match (self, page.values) {
            (Self::Int(ranges), Statistics::Int { min, max, .. }) => meet(ranges, min, max),
            (Self::Unsigned(ranges), Statistics::Unsigned { min, max, .. }) => {
                meet(ranges, min, max)
            }
            (
                Self::Float(ranges),
                Statistics::Float {
                    min,
                    max,
                    non_finite,
                    ..
                },
            ) => non_finite || meet(ranges, min, max),
            (Self::Bool(true), Statistics::Bool { trues }) => trues > 0,
            (Self::Bool(false), Statistics::Bool { trues }) => trues < page.non_null,
            (
                Self::Text(ranges),
                Statistics::Text {
                    min_prefix,
                    max_prefix,
                },
            ) => ranges
                .iter()
                .any(|range| range.may_contain(min_prefix, max_prefix)),
            _ => true,
        }
    }

    /// Those of the rows, ascending, whose value may qualify; `None` = every value is null.
    pub(crate) fn pick(
        &self,
        column: Option<&Column>,
        rows: impl Iterator<Item = usize>,
    ) -> Vec<u32> {
        let Some(column) = column else {
            return Vec::new();
        };
        let validity = &column.validity;
        match (self, &column.values) {
            (Self::Int(ranges), Values::I64(values)) => match ranges.as_slice() {
                [range] => pick(values, validity, rows, |value| range.contains(value)),
                ranges => pick(values, validity, rows, |value| holds(ranges, value)),
            },
            (Self::Unsigned(ranges), Values::U64(values)) => {
                pick(values, validity, rows, |value| holds(ranges, value))
            }
            (Self::Float(ranges), Values::F64(values)) => match ranges.as_slice() {
                [range] => pick(values, validity, rows, |value| {
                    range.contains(value) || value.is_nan()
                }),
                ranges => pick(values, validity, rows, |value| {
                    holds(ranges, value) || value.is_nan()
                }),
            },
            (Self::Bool(wanted), Values::Bool(values)) => {
                pick(values, validity, rows, |value| value == wanted)
            }
            (Self::Text(ranges), Values::Text(strings) | Values::Bytes(strings)) => rows
                .filter(|&row| {
                    let text = strings.get(row);
                    validity.is_valid(row) && ranges.iter().any(|range| range.contains(text))
                })
                .filter_map(|row| u32::try_from(row).ok())
                .collect(),
            _ => rows
                .filter(|&row| validity.is_valid(row))
                .filter_map(|row| u32::try_from(row).ok())
                .collect(),
        }
    }
}

fn pick<T>(
    values: &[T],
    validity: &Validity,
    rows: impl Iterator<Item = usize>,
    qualifies: impl Fn(&T) -> bool,
) -> Vec<u32> {
    rows.filter(|&row| values.get(row).is_some_and(&qualifies) && validity.is_valid(row))
        .filter_map(|row| u32::try_from(row).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use nilometer_codec::ColumnRef;
    use nilometer_codec::stats::statistics;
    use proptest::prelude::*;

    use super::*;
    use crate::schema::ColumnId;

    fn column(values: &Values, nulls: &[bool]) -> Column {
        let kind = values.kind();
        let mut column = Column::new(ColumnId(1), kind);
        for row in 0..values.len() {
            if nulls.get(row).copied().unwrap_or(false) {
                column.pad(row + 1);
            } else {
                column.values.extend_range(values, row..row + 1);
                column.validity.push(true);
            }
        }
        column
    }

    /// Rows that qualify are picked, and a page with one of them is not ruled out.
    fn check(matches: &FieldMatch, column: &Column, wanted: impl Fn(usize) -> bool) {
        let rows = column.values.len();
        let picked = matches.pick(Some(column), 0..rows);
        let expected: Vec<u32> = (0..rows)
            .filter(|&row| column.validity.is_valid(row) && wanted(row))
            .map(|row| row as u32)
            .collect();
        assert_eq!(picked, expected, "{matches:?} {column:?}");
        let page = statistics(ColumnRef {
            values: column.values.slice(0..rows),
            validity: column.validity.bitmap(),
        });
        assert!(
            expected.is_empty() || matches.may_match(&page),
            "{matches:?} {page:?}"
        );
    }

    #[test]
    fn zeros_are_one_and_nan_always_qualifies() {
        let values = Values::F64(vec![-0.0, 0.0, f64::NAN, -f64::NAN, 1.0]);
        let values = column(&values, &[]);
        let zero = FieldMatch::Float(vec![0.0..=0.0]);
        assert_eq!(zero.pick(Some(&values), 0..5), [0, 1, 2, 3]);
        let negative = FieldMatch::Float(vec![-0.0..=-0.0]);
        assert_eq!(negative.pick(Some(&values), 0..5), [0, 1, 2, 3]);
    }

    #[test]
    fn extremes_rule_pages_out() {
        let page = |values: Values| {
            let values = column(&values, &[]);
            statistics(ColumnRef {
                values: values.values.slice(0..values.values.len()),
                validity: None,
            })
        };
        let floats = page(Values::F64(vec![1.0, 90.0]));
        assert!(!FieldMatch::Float(vec![90.0_f64.next_up()..=f64::INFINITY]).may_match(&floats));
        assert!(FieldMatch::Float(vec![90.0..=f64::INFINITY]).may_match(&floats));
        let infinite = page(Values::F64(vec![1.0, f64::INFINITY]));
        assert!(FieldMatch::Float(vec![2.0..=3.0]).may_match(&infinite));
        let ints = page(Values::I64(vec![3, 5]));
        assert!(!FieldMatch::Int(vec![6..=9, -4..=2]).may_match(&ints));
        assert!(FieldMatch::Int(vec![6..=9, 4..=4]).may_match(&ints));
        let trues = page(Values::Bool(vec![true]));
        assert!(!FieldMatch::Bool(false).may_match(&trues));
        assert!(FieldMatch::Bool(true).may_match(&trues));
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        // Few letters, zero and the highest byte among them, around the eight bytes that are kept.
        let letter = || prop::sample::select(vec![0, b'a', b'b', 254, 255]);
        prop_oneof![
            prop::collection::vec(letter(), 0..3),
            prop::collection::vec(letter(), 7..11),
        ]
    }

    fn float() -> impl Strategy<Value = f64> {
        prop_oneof![
            prop::sample::select(vec![
                0.0,
                -0.0,
                f64::NAN,
                -f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MIN_POSITIVE,
            ]),
            -4.0..4.0,
            (-4..4_i32).prop_map(f64::from),
        ]
    }

    proptest! {
        #[test]
        fn what_qualifies_is_picked_and_its_page_is_read(
            ints in prop::collection::vec(-5..5_i64, 1..12),
            floats in prop::collection::vec(float(), 1..12),
            texts in prop::collection::vec(text(), 1..12),
            bools in prop::collection::vec(any::<bool>(), 1..12),
            nulls in prop::collection::vec(any::<bool>(), 0..12),
            (low, high) in (-5..5_i64, -5..5_i64),
            (low_float, high_float) in (float(), float()),
            (low_text, high_text) in (prop::option::of(text()), prop::option::of(text())),
        ) {
            let all = column(&Values::I64(ints.clone()), &nulls);
            check(&FieldMatch::Int(vec![low..=high]), &all, |row| low <= ints[row] && ints[row] <= high);
            check(&FieldMatch::Int(vec![low..=low, high..=high]), &all, |row| ints[row] == low || ints[row] == high);
            check(&FieldMatch::Present, &all, |_| true);
            let unsigned: Vec<u64> = ints.iter().map(|it| it.unsigned_abs()).collect();
            let all = column(&Values::U64(unsigned.clone()), &nulls);
            let most = high.unsigned_abs();
            check(&FieldMatch::Unsigned(vec![1..=most]), &all, |row| 1 <= unsigned[row] && unsigned[row] <= most);
            let all = column(&Values::Bool(bools.clone()), &nulls);
            check(&FieldMatch::Bool(true), &all, |row| bools[row]);
            check(&FieldMatch::Bool(false), &all, |row| !bools[row]);
            let all = column(&Values::F64(floats.clone()), &nulls);
            if !low_float.is_nan() && !high_float.is_nan() {
                check(&FieldMatch::Float(vec![low_float..=high_float]), &all, |row| {
                    floats[row].is_nan() || (low_float <= floats[row] && floats[row] <= high_float)
                });
            }
            let mut strings = crate::batch::Strings::default();
            for text in &texts {
                strings.push(text);
            }
            let all = column(&Values::Bytes(strings), &nulls);
            let range = TextRange { first: low_text.clone(), last: high_text.clone() };
            check(&FieldMatch::Text(vec![range]), &all, |row| {
                low_text.as_ref().is_none_or(|low| low <= &texts[row])
                    && high_text.as_ref().is_none_or(|high| &texts[row] <= high)
            });
        }
    }
}
