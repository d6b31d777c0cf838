//! Conditions on one field that the engine can rule blocks out by.
//!
//! Does: turn a comparison of a field with literals of its own type, or of an integer with floats, into ranges of
//! values, never smaller than what the comparison accepts. Does not: replace the comparison, which is made again of every row above the scan.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator};
use nilometer_engine::{
    ColumnKind, ColumnSource, FieldMatch, FieldPredicate, PhysicalType, TableSchema, TextRange,
};

/// Values that EXPLAIN spells out.
const VALUES_SHOWN_MAX: usize = 5;

/// Ranges that the engine looks through for each value. More are drawn together: what lies between them is found too, and
/// the comparison above the scan refuses it.
const RANGES_MAX: usize = 16;

/// A condition on a field, for the engine and for EXPLAIN.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldCondition {
    pub(crate) predicate: FieldPredicate,
    shown: String,
}

impl FieldCondition {
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// For the engine.
    pub(crate) fn predicate(&self) -> FieldPredicate {
        FieldPredicate {
            column: self.predicate.column,
            matches: match &self.predicate.matches {
                FieldMatch::Int(ranges) => FieldMatch::Int(drawn_together(ranges, Ord::cmp)),
                FieldMatch::Unsigned(ranges) => {
                    FieldMatch::Unsigned(drawn_together(ranges, Ord::cmp))
                }
                FieldMatch::Float(ranges) => {
                    FieldMatch::Float(drawn_together(ranges, f64::total_cmp))
                }
                FieldMatch::Text(ranges) => FieldMatch::Text(texts_drawn_together(ranges)),
                matches => matches.clone(),
            },
        }
    }

    /// Accepts what the other accepts too; false = they are not of one field.
    pub(super) fn or(&mut self, other: &mut Self) -> bool {
        if self.predicate.column != other.predicate.column {
            return false;
        }
        let (one, other_match) = (&mut self.predicate.matches, &mut other.predicate.matches);
        match (&mut *one, other_match) {
            (FieldMatch::Int(one), FieldMatch::Int(other)) => one.append(other),
            (FieldMatch::Unsigned(one), FieldMatch::Unsigned(other)) => one.append(other),
            (FieldMatch::Float(one), FieldMatch::Float(other)) => one.append(other),
            (FieldMatch::Text(one), FieldMatch::Text(other)) => one.append(other),
            (one, other) if *one == *other => {}
            (one, _) => *one = FieldMatch::Present,
        }
        self.shown.push_str(" OR ");
        self.shown.push_str(&other.shown);
        true
    }
}

/// Few ranges with everything that is in these.
fn drawn_together<T: Copy>(
    ranges: &[RangeInclusive<T>],
    order: impl Fn(&T, &T) -> Ordering,
) -> Vec<RangeInclusive<T>> {
    if ranges.len() <= RANGES_MAX {
        return ranges.to_vec();
    }
    let mut sorted = ranges.to_vec();
    sorted.sort_by(|one, other| order(one.start(), other.start()));
    let together = sorted.chunks(sorted.len().div_ceil(RANGES_MAX));
    let hull = |part: &[RangeInclusive<T>]| {
        let first = part.first()?.start();
        let last = part.iter().map(RangeInclusive::end);
        Some(*first..=*last.max_by(|one, other| order(one, other))?)
    };
    together.filter_map(hull).collect()
}

/// The same of texts.
fn texts_drawn_together(ranges: &[TextRange]) -> Vec<TextRange> {
    if ranges.len() <= RANGES_MAX {
        return ranges.to_vec();
    }
    let mut sorted = ranges.to_vec();
    // No lowest text is below all others.
    sorted.sort_by(|one, other| one.first.cmp(&other.first));
    let together = sorted.chunks(sorted.len().div_ceil(RANGES_MAX));
    let hull = |part: &[TextRange]| {
        let endless = part.iter().any(|range| range.last.is_none());
        let last = part.iter().map(|range| &range.last).max();
        Some(TextRange {
            first: part.first()?.first.clone(),
            last: last.filter(|_| !endless).and_then(Clone::clone),
        })
    };
    together.filter_map(hull).collect()
}

/// What a conjunct says of one field; `None` = nothing that blocks could be ruled out by.
pub(super) fn condition(filter: &Expr, table: &TableSchema) -> Option<FieldCondition> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, literal) = match (field(left, table), literal(right)) {
                (Some(column), Some(literal)) => (column, *op, literal),
                _ => (field(right, table)?, op.swap()?, literal(left)?),
            };
            let matches = column.compare(op, literal)?;
            let shown = format!("{} {op} {}", column.name, show(literal));
            Some(column.condition(matches, shown))
        }
        Expr::Between(between) if !between.negated => {
            let column = field(&between.expr, table)?;
            let (low, high) = (literal(&between.low)?, literal(&between.high)?);
            let from = column.compare(Operator::GtEq, low)?;
            let to = column.compare(Operator::LtEq, high)?;
            let shown = format!("{} BETWEEN {} AND {}", column.name, show(low), show(high));
            Some(column.condition(both(from, to), shown))
        }
        Expr::InList(list) if !list.negated => {
            let column = field(&list.expr, table)?;
            let mut all: Option<FieldCondition> = None;
            let mut values = Vec::new();
            for item in &list.list {
                let literal = literal(item)?;
                let matches = column.compare(Operator::Eq, literal)?;
                let mut one = column.condition(matches, String::new());
                values.push(show(literal));
                match &mut all {
                    None => all = Some(one),
                    Some(all) => {
                        all.or(&mut one);
                    }
                }
            }
            let mut all = all?;
            let more = values.len().saturating_sub(VALUES_SHOWN_MAX);
            values.truncate(VALUES_SHOWN_MAX);
            if more > 0 {
                values.push(format!("and {more} more"));
            }
            all.shown = format!("{} IN ({})", column.name, values.join(", "));
            Some(all)
        }
        Expr::IsNotNull(expr) => {
            let column = field(expr, table)?;
            let shown = format!("{} IS NOT NULL", column.name);
            Some(column.condition(FieldMatch::Present, shown))
        }
        Expr::Column(_) => {
            let column = field(filter, table)?;
            let shown = column.name.to_owned();
            (column.kind == PhysicalType::Bool)
                .then(|| column.condition(FieldMatch::Bool(true), shown))
        }
        Expr::Not(expr) => {
            let column = field(expr, table)?;
            let shown = format!("NOT {}", column.name);
            (column.kind == PhysicalType::Bool)
                .then(|| column.condition(FieldMatch::Bool(false), shown))
        }
        _ => None,
    }
}

struct Field<'a> {
    /// Position in the table's schema.
    position: usize,
    name: &'a str,
    kind: PhysicalType,
    /// It is an integer, compared with a float.
    as_float: bool,
}

impl Field<'_> {
    /// Values for which a comparison with a literal may be true.
    fn compare(&self, op: Operator, literal: &ScalarValue) -> Option<FieldMatch> {
        if !self.as_float {
            return compare(self.kind, op, literal);
        }
        let &ScalarValue::Float64(Some(value)) = literal else {
            return None;
        };
        integers(self.kind, op, value)
    }

    fn condition(&self, matches: FieldMatch, shown: String) -> FieldCondition {
        let predicate = FieldPredicate {
            column: self.position,
            matches,
        };
        FieldCondition { predicate, shown }
    }
}

fn field<'e>(expr: &'e Expr, table: &TableSchema) -> Option<Field<'e>> {
    let (column, as_float) = match expr {
        Expr::Column(column) => (column, false),
        // What the planner makes of `i > 90.0`.
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => {
            let Expr::Column(column) = cast.expr.as_ref() else {
                return None;
            };
            (column, true)
        }
        _ => return None,
    };
    let columns = table.shown_columns();
    let shown_at = columns.schema.index_of(&column.name).ok()?;
    if !columns.is_as_stored(shown_at) {
        return None;
    }
    let position = columns.position(shown_at)?;
    let ColumnSource::Field(at) = table.source(position)? else {
        return None;
    };
    let ColumnKind::Field(kind) = table.fields.get(at)?.kind else {
        return None;
    };
    let is_integer = matches!(kind, PhysicalType::I64 | PhysicalType::U64);
    (is_integer || !as_float).then_some(Field {
        position,
        name: &column.name,
        kind,
        as_float,
    })
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(scalar, _) if !scalar.is_null() => Some(scalar),
        _ => None,
    }
}

fn show(literal: &ScalarValue) -> String {
    match text(literal) {
        Some(text) => format!("'{}'", String::from_utf8_lossy(text)),
        None => literal.to_string(),
    }
}

fn text(literal: &ScalarValue) -> Option<&[u8]> {
    match literal {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(text.as_bytes()),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Values of a field of this type for which a comparison with a literal may be true.
fn compare(kind: PhysicalType, op: Operator, literal: &ScalarValue) -> Option<FieldMatch> {
    let is_ordering = matches!(
        op,
        Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    );
    if !is_ordering {
        // What differs from a value is a value.
        return (op == Operator::NotEq).then_some(FieldMatch::Present);
    }
    match (kind, literal) {
        (PhysicalType::I64, &ScalarValue::Int64(Some(value))) => {
            let range = match op {
                Operator::Eq => Some(value..=value),
                Operator::Lt => value.checked_sub(1).map(|last| i64::MIN..=last),
                Operator::LtEq => Some(i64::MIN..=value),
                Operator::Gt => value.checked_add(1).map(|first| first..=i64::MAX),
                _ => Some(value..=i64::MAX),
            };
            Some(FieldMatch::Int(range.into_iter().collect()))
        }
        (PhysicalType::U64, &ScalarValue::UInt64(Some(value))) => {
            let range = match op {
                Operator::Eq => Some(value..=value),
                Operator::Lt => value.checked_sub(1).map(|last| 0..=last),
                Operator::LtEq => Some(0..=value),
                Operator::Gt => value.checked_add(1).map(|first| first..=u64::MAX),
                _ => Some(value..=u64::MAX),
            };
            Some(FieldMatch::Unsigned(range.into_iter().collect()))
        }
        (PhysicalType::F64, &ScalarValue::Float64(Some(value))) if !value.is_nan() => {
            let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
            // Whether -0.0 is below 0.0 is for the comparison to say.
            let is_zero = value == 0.0;
            let range = match op {
                Operator::Eq => value..=value,
                Operator::Lt if !is_zero => low..=value.next_down(),
                Operator::Lt | Operator::LtEq => low..=value,
                Operator::Gt if !is_zero => value.next_up()..=high,
                _ => value..=high,
            };
            Some(FieldMatch::Float(vec![range]))
        }
        (PhysicalType::Bool, &ScalarValue::Boolean(Some(value))) if op == Operator::Eq => {
            Some(FieldMatch::Bool(value))
        }
        (PhysicalType::Text | PhysicalType::Bytes, literal) => {
            let text = text(literal)?.to_vec();
            let range = match op {
                Operator::Eq => TextRange {
                    first: Some(text.clone()),
                    last: Some(text),
                },
                Operator::Lt | Operator::LtEq => TextRange {
                    first: None,
                    last: Some(text),
                },
                _ => TextRange {
                    first: Some(text),
                    last: None,
                },
            };
            Some(FieldMatch::Text(vec![range]))
        }
        _ => None,
    }
}

/// Integers that, as floats, may compare so with a number.
fn integers(kind: PhysicalType, op: Operator, value: f64) -> Option<FieldMatch> {
    // Beyond, several integers are one float, and rounding decides.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if op == Operator::NotEq || value.is_nan() || value.abs() >= EXACT_MAX {
        return Some(FieldMatch::Present);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number of less than 54 bits"
    )]
    let (floor, ceil) = (value.floor() as i64, value.ceil() as i64);
    let (first, last) = match op {
        Operator::Eq => (ceil, floor),
        Operator::Lt => (i64::MIN, ceil - 1),
        Operator::LtEq => (i64::MIN, floor),
        Operator::Gt => (floor + 1, i64::MAX),
        Operator::GtEq => (ceil, i64::MAX),
        _ => return None,
    };
    if kind == PhysicalType::I64 {
        return Some(FieldMatch::Int(vec![first..=last]));
    }
    let from = u64::try_from(first).unwrap_or(0);
    let range = match u64::try_from(last) {
        // The largest of signed integers stands for no bound.
        Ok(_) if last == i64::MAX => Some(from..=u64::MAX),
        Ok(last) => Some(from..=last),
        Err(_) => None,
    };
    Some(FieldMatch::Unsigned(range.into_iter().collect()))
}

/// What two matches of one range each have in common.
fn both(from: FieldMatch, to: FieldMatch) -> FieldMatch {
    fn meet<T: Copy>(
        from: &[std::ops::RangeInclusive<T>],
        to: &[std::ops::RangeInclusive<T>],
    ) -> Vec<std::ops::RangeInclusive<T>> {
        let pairs = from.iter().zip(to);
        pairs.map(|(from, to)| *from.start()..=*to.end()).collect()
    }
    match (from, to) {
        (FieldMatch::Int(from), FieldMatch::Int(to)) => FieldMatch::Int(meet(&from, &to)),
        (FieldMatch::Unsigned(from), FieldMatch::Unsigned(to)) => {
            FieldMatch::Unsigned(meet(&from, &to))
        }
        (FieldMatch::Float(from), FieldMatch::Float(to)) => FieldMatch::Float(meet(&from, &to)),
        (FieldMatch::Text(from), FieldMatch::Text(to)) => {
            let pairs = from.into_iter().zip(to);
            let ranges = pairs.map(|(from, to)| TextRange {
                first: from.first,
                last: to.last,
            });
            FieldMatch::Text(ranges.collect())
        }
        (from, _) => from,
    }
}
