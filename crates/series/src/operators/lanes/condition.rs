//! Conditions on rows as they are decoded: comparisons of fields with numbers, all of which have to hold.
//!
//! Does: say which of some rows meet it, a column at a time, and where what is stored of rows says that none does. Does not: know other
//! conditions; those are evaluated on batches.

use std::ops::Range;

use nilometer_engine::{StoredField, StoredTotals};

use super::operand::{Operand, Valid, WORD_ROWS};
use crate::evaluate::{Name, Slots};
use crate::query::{Binary, Expr, Unary};
use crate::value::{Literal, Rules, Type, Value};

/// Comparisons, all of which have to hold.
#[derive(Debug)]
pub(in crate::operators) struct Condition {
    pub(in crate::operators) tests: Vec<Test>,
    rules: Rules,
}

/// A comparison of a field.
#[derive(Debug)]
pub(in crate::operators) struct Test {
    pub(in crate::operators) field: String,
    with: With,
}

#[derive(Debug, Clone, Copy)]
enum With {
    /// It has a value.
    Present,
    Int(Binary, i64),
    Unsigned(Binary, u64),
    Float(Binary, f64),
    /// An integer as a float.
    IntAsFloat(Binary, f64),
}

impl Condition {
    /// `None` = it is not made of such comparisons only.
    pub(in crate::operators) fn of(condition: &Expr, slots: &Slots, rules: Rules) -> Option<Self> {
        let mut tests = Vec::new();
        collect(condition, slots, &mut tests)?;
        Some(Self { tests, rules })
    }

    /// Whether it is nothing but that one field has a value.
    pub(in crate::operators) fn is_presence(&self) -> bool {
        matches!(self.tests.as_slice(), [test] if matches!(test.with, With::Present))
    }

    /// Whether all rows of a range meet it, as far as counting values says; `operands` are the fields of the tests.
    pub(in crate::operators) fn is_met_by_all(
        &self,
        operands: &[Operand<'_>],
        range: &Range<usize>,
    ) -> bool {
        let is_met = |(test, operand): (&Test, &Operand<'_>)| {
            matches!(test.with, With::Present)
                && operand.present(range.clone()) == range.len() as u64
        };
        self.tests.iter().zip(operands).all(is_met)
    }

    /// Which rows of a range meet it; `operands` are the fields of the tests.
    pub(in crate::operators) fn holds(
        &self,
        operands: &[Operand<'_>],
        range: Range<usize>,
        out: &mut Vec<bool>,
    ) {
        out.clear();
        out.resize(range.len(), true);
        let is_sql = self.rules == Rules::Postgres;
        for (test, operand) in self.tests.iter().zip(operands) {
            let range = range.clone();
            let is_done = match test.with {
                With::Present => {
                    for (row, out) in range.zip(out.iter_mut()) {
                        *out &= operand.is_present(row);
                    }
                    true
                }
                With::Int(operator, with) => operand
                    .ints()
                    .map(|values| compare_with(values, range, out, (operator, with)))
                    .is_some(),
                With::Unsigned(operator, with) => operand
                    .unsigneds()
                    .map(|values| compare_with(values, range, out, (operator, with)))
                    .is_some(),
                With::Float(operator, with) => operand
                    .floats()
                    .map(|values| match (is_sql, operator) {
                        // To `PostgreSQL` NaN is above all of them, to IEEE it is neither.
                        (true, Binary::Greater) => {
                            compare(values, range, out, |value| value > with || value.is_nan());
                        }
                        (true, Binary::GreaterOrEqual) => {
                            compare(values, range, out, |value| value >= with || value.is_nan());
                        }
                        _ => compare_with(values, range, out, (operator, with)),
                    })
                    .is_some(),
                With::IntAsFloat(operator, with) => operand
                    .ints()
                    .map(|values| {
                        let as_float = |value: i64| value as f64;
                        compare_as(values, range, out, (operator, with), as_float);
                    })
                    .is_some(),
            };
            // A column that is not there has no value.
            if !is_done {
                out.fill(false);
            }
        }
    }

    /// Whether no row meets it, given what is stored of the fields of the tests.
    pub(in crate::operators) fn is_met_by_none<'f>(
        &self,
        fields: impl Iterator<Item = Option<StoredField<'f>>>,
    ) -> bool {
        self.tests.iter().zip(fields).any(|(test, field)| {
            let Some(field) = field.filter(|field| field.counts.first() != Some(&0)) else {
                return true;
            };
            match (test.with, field.totals) {
                (With::Int(operator, with), StoredTotals::Int { min, max, .. }) => {
                    is_outside(operator, with, min.first(), max.first())
                }
                (With::Unsigned(operator, with), StoredTotals::Unsigned { min, max, .. }) => {
                    is_outside(operator, with, min.first(), max.first())
                }
                (With::Float(operator, with), StoredTotals::Float { min, max, .. }) => {
                    is_outside(operator, with, min.first(), max.first())
                }
                _ => false,
            }
        })
    }
}

fn collect(condition: &Expr, slots: &Slots, tests: &mut Vec<Test>) -> Option<()> {
    match condition {
        Expr::Binary(Binary::And, left, right) => {
            collect(left, slots, tests)?;
            collect(right, slots, tests)
        }
        Expr::Binary(operator, left, right) => {
            let (field, operator, value) = match (left.as_ref(), right.as_ref()) {
                (Expr::Field(field), Expr::Literal(Literal::Value(value))) => {
                    (field, *operator, value)
                }
                (Expr::Literal(Literal::Value(value)), Expr::Field(field)) => {
                    (field, turned(*operator), value)
                }
                _ => return None,
            };
            let is_comparison = matches!(
                operator,
                Binary::Equal
                    | Binary::NotEqual
                    | Binary::Less
                    | Binary::LessOrEqual
                    | Binary::Greater
                    | Binary::GreaterOrEqual
            );
            let with = with(operator, value, kind(field, slots)?).filter(|_| is_comparison)?;
            tests.push(Test {
                field: field.clone(),
                with,
            });
            Some(())
        }
        Expr::Unary(Unary::IsNotNull, of) => {
            let Expr::Field(field) = of.as_ref() else {
                return None;
            };
            kind(field, slots)?;
            tests.push(Test {
                field: field.clone(),
                with: With::Present,
            });
            Some(())
        }
        _ => None,
    }
}

fn kind(field: &str, slots: &Slots) -> Option<Type> {
    let place = slots.place(&Name::Field(field.to_owned()))?;
    slots.all.get(place)?.1
}

fn turned(operator: Binary) -> Binary {
    match operator {
        Binary::Less => Binary::Greater,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        same => same,
    }
}

fn with(operator: Binary, value: &Value, kind: Type) -> Option<With> {
    Some(match (kind, value) {
        (Type::Int, Value::Int(value)) => With::Int(operator, *value),
        (Type::Int, Value::Float(value)) if !value.is_nan() => With::IntAsFloat(operator, *value),
        (Type::Unsigned, Value::Unsigned(value)) => With::Unsigned(operator, *value),
        (Type::Float, Value::Float(value)) if !value.is_nan() => With::Float(operator, *value),
        (Type::Float, Value::Int(value)) => With::Float(operator, *value as f64),
        _ => return None,
    })
}

fn compare_with<T: PartialOrd + Copy>(
    values: (&[T], Option<Valid<'_>>),
    range: Range<usize>,
    out: &mut [bool],
    (operator, with): (Binary, T),
) {
    compare_as(values, range, out, (operator, with), |value| value);
}

/// The operator is chosen once and not for every value.
fn compare_as<T: Copy, N: PartialOrd + Copy>(
    values: (&[T], Option<Valid<'_>>),
    range: Range<usize>,
    out: &mut [bool],
    (operator, with): (Binary, N),
    number: impl Fn(T) -> N,
) {
    match operator {
        Binary::Equal => compare(values, range, out, |value| number(value) == with),
        Binary::NotEqual => compare(values, range, out, |value| number(value) != with),
        Binary::Less => compare(values, range, out, |value| number(value) < with),
        Binary::LessOrEqual => compare(values, range, out, |value| number(value) <= with),
        Binary::Greater => compare(values, range, out, |value| number(value) > with),
        _ => compare(values, range, out, |value| number(value) >= with),
    }
}

fn compare<T: Copy>(
    (values, valid): (&[T], Option<Valid<'_>>),
    range: Range<usize>,
    out: &mut [bool],
    holds: impl Fn(T) -> bool,
) {
    let own = values.get(range.clone()).unwrap_or_default();
    for (value, out) in own.iter().zip(out.iter_mut()) {
        *out &= holds(*value);
    }
    if let Some(valid) = valid {
        let mut row = range.start;
        for out in out.chunks_mut(WORD_ROWS) {
            let word = valid.word(row, out.len());
            row += out.len();
            // Gaps are rare.
            if word.count_ones() as usize == out.len() {
                continue;
            }
            for (at, out) in out.iter_mut().enumerate() {
                *out &= word >> at & 1 == 1;
            }
        }
    }
}

/// Whether a comparison holds of no value from the smallest to the largest.
fn is_outside<T: PartialOrd + Copy>(
    operator: Binary,
    with: T,
    min: Option<&T>,
    max: Option<&T>,
) -> bool {
    let (Some(min), Some(max)) = (min, max) else {
        return false;
    };
    match operator {
        Binary::Equal => with < *min || with > *max,
        Binary::NotEqual => *min == with && *max == with,
        Binary::Less => *min >= with,
        Binary::LessOrEqual => *min > with,
        Binary::Greater => *max <= with,
        Binary::GreaterOrEqual => *max < with,
        _ => false,
    }
}
