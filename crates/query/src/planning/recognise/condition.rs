//! Conditions on rows and on tags, from expressions of the planner.
//!
//! Does: take over comparisons of a column with a value of its own type, and what is made of them by AND, OR, NOT and IS NULL.
//! Does not: calculate, or compare what would be cast first: that is no, and the planner's own filter does it. An exception
//! is an integer that is compared with a float, which both sides make a float.

use std::ops::RangeInclusive;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column as PlanColumn, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator};
use nilometer_engine::{TableSchema, TagMatch, TagPredicate};
use nilometer_series::{Binary, Expr as SeriesExpr, Literal, TagExpr, Type, Unary, Value};

use super::view::{Column, Tag, View};
use crate::planning::filter::Pushdown;
use crate::walk::ExprWalk;

/// Values of a list that are compared one by one.
const LIST_MAX: usize = 16;

/// What exact conditions on tags are; `None` = there are others.
pub(super) fn of_tags(pushed: &Pushdown, schema: &TableSchema) -> Option<Vec<TagExpr>> {
    if !pushed.fields.is_empty() {
        return None;
    }
    let tags = pushed.tags.iter();
    tags.map(|tag| of_tag(tag, schema)).collect()
}

fn of_tag(predicate: &TagPredicate, schema: &TableSchema) -> Option<TagExpr> {
    let tag = &schema.tags.get(predicate.column.checked_sub(1)?)?.name;
    let values = match &predicate.matches {
        TagMatch::OneOf(values) => values,
        TagMatch::Integers(ranges) if !predicate.negated => {
            let bound = |bound: &i64| Some(Literal::Value(Value::Int(*bound)));
            let ranges = ranges
                .iter()
                .map(|of| TagExpr::Range(tag.clone(), bound(of.start()), bound(of.end())));
            return Some(TagExpr::Or(ranges.collect()));
        }
        _ => return None,
    };
    let texts = values
        .iter()
        .flatten()
        .map(|text| Literal::from(text.as_str()));
    let texts: Vec<Literal> = texts.collect();
    let has_absent = values.iter().any(Option::is_none);
    let one_of = || TagExpr::OneOf(tag.clone(), texts.clone());
    let absent = || TagExpr::Absent(tag.clone());
    // To the engine an absent tag is a value of its own; to SQL it meets no comparison, nor what denies one.
    Some(match (predicate.negated, has_absent, texts.is_empty()) {
        (false, false, _) => one_of(),
        (false, true, true) => absent(),
        (false, true, false) => TagExpr::Or(vec![one_of(), absent()]),
        (true, true, true) => TagExpr::Not(Box::new(absent())),
        (true, true, false) => TagExpr::Not(Box::new(one_of())),
        (true, false, _) => TagExpr::Or(vec![absent(), TagExpr::Not(Box::new(one_of()))]),
    })
}

/// A condition with its columns named as in the table; `None` = one of them is none of the table's.
pub(super) fn by_names_of_table(expr: &Expr, view: &View, input: &DFSchema) -> Option<Expr> {
    let schema = view.schema();
    let shown = schema.shown_columns();
    let mut is_known = true;
    let named = expr.clone().replace_up(&mut |part| {
        if !matches!(part, Expr::Column(_)) {
            return Ok(Transformed::no(part));
        }
        let position = match view.column(&part, input) {
            Some(Column::Time) => Some(0),
            Some(Column::Tag(tag)) => Some(1 + tag),
            Some(Column::Field(field)) => Some(1 + schema.tags.len() + field),
            _ => None,
        };
        let place = position.and_then(|at| shown.shown_at(at));
        let field = place.and_then(|at| shown.schema.fields().get(at));
        let Some(field) = field else {
            is_known = false;
            return Ok(Transformed::no(part));
        };
        let column = PlanColumn::from_name(field.name());
        Ok(Transformed::yes(Expr::Column(column)))
    });
    named.ok().map(|named| named.data).filter(|_| is_known)
}

/// A condition as one on tags, or as one on rows.
pub(super) fn of(
    expr: &Expr,
    view: &View,
    input: &DFSchema,
) -> Option<(Option<TagExpr>, Option<SeriesExpr>)> {
    let conditions = Conditions { view, input };
    if let Some(tags) = conditions.tags(expr) {
        return Some((Some(tags), None));
    }
    Some((None, Some(conditions.rows(expr)?)))
}

/// A condition as one on rows.
pub(super) fn of_rows(expr: &Expr, view: &View, input: &DFSchema) -> Option<SeriesExpr> {
    Conditions { view, input }.rows(expr)
}

struct Conditions<'a> {
    view: &'a View,
    input: &'a DFSchema,
}

/// A side of a comparison.
enum Side {
    Column(SeriesExpr, Kind),
    /// A field of integers, as a float.
    AsFloat(SeriesExpr, Type),
    Value(Value, Kind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Tag,
    Field(Type),
}

impl Conditions<'_> {
    fn column(&self, expr: &Expr) -> Option<&Column> {
        match expr {
            Expr::Column(_) => self.view.column(expr, self.input),
            _ => None,
        }
    }

    fn tag(&self, expr: &Expr) -> Option<&Tag> {
        match self.column(expr)? {
            Column::Tag(tag) => self.view.names.tags.get(*tag),
            _ => None,
        }
    }

    /// A condition on nothing but tags.
    fn tags(&self, expr: &Expr) -> Option<TagExpr> {
        Some(match expr {
            Expr::Alias(alias) => return self.tags(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => TagExpr::And(vec![self.tags(left)?, self.tags(right)?]),
                Operator::Or => TagExpr::Or(vec![self.tags(left)?, self.tags(right)?]),
                Operator::Eq | Operator::NotEq => {
                    let (tag, value) = match self.tag(left) {
                        Some(tag) => (tag, right),
                        None => (self.tag(right)?, left),
                    };
                    let equal = TagExpr::OneOf(tag.name.clone(), vec![tag_value(tag, value)?]);
                    if *op == Operator::Eq {
                        equal
                    } else {
                        TagExpr::Not(Box::new(equal))
                    }
                }
                _ => return None,
            },
            Expr::Not(inner) => TagExpr::Not(Box::new(self.tags(inner)?)),
            Expr::IsNull(inner) => TagExpr::Absent(self.tag(inner)?.name.clone()),
            Expr::IsNotNull(inner) => {
                TagExpr::Not(Box::new(TagExpr::Absent(self.tag(inner)?.name.clone())))
            }
            Expr::InList(list) => {
                let tag = self.tag(&list.expr)?;
                let values = list.list.iter().map(|value| tag_value(tag, value));
                let one_of = TagExpr::OneOf(tag.name.clone(), values.collect::<Option<Vec<_>>>()?);
                if list.negated {
                    TagExpr::Not(Box::new(one_of))
                } else {
                    one_of
                }
            }
            _ => return None,
        })
    }

    fn rows(&self, expr: &Expr) -> Option<SeriesExpr> {
        Some(match expr {
            Expr::Alias(alias) => return self.rows(&alias.expr),
            Expr::Column(_) => match self.side(expr)? {
                Side::Column(column, Kind::Field(Type::Bool)) => column,
                _ => return None,
            },
            Expr::Not(inner) => SeriesExpr::Unary(Unary::Not, Box::new(self.rows(inner)?)),
            Expr::IsNull(inner) => self.null_test(inner, Unary::IsNull)?,
            Expr::IsNotNull(inner) => self.null_test(inner, Unary::IsNotNull)?,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => {
                    SeriesExpr::binary(Binary::And, self.rows(left)?, self.rows(right)?)
                }
                Operator::Or => SeriesExpr::binary(Binary::Or, self.rows(left)?, self.rows(right)?),
                op => self.compare(left, comparison(*op)?, right)?,
            },
            Expr::Between(between) => {
                let (expr, low, high) = (&between.expr, &between.low, &between.high);
                let (above, below, joined) = if between.negated {
                    (Binary::Less, Binary::Greater, Binary::Or)
                } else {
                    (Binary::GreaterOrEqual, Binary::LessOrEqual, Binary::And)
                };
                let above = self.compare(expr, above, low)?;
                SeriesExpr::binary(joined, above, self.compare(expr, below, high)?)
            }
            Expr::InList(list) if list.list.len() <= LIST_MAX => {
                let (each, joined) = if list.negated {
                    (Binary::NotEqual, Binary::And)
                } else {
                    (Binary::Equal, Binary::Or)
                };
                let values = list.list.iter();
                let mut parts = values.map(|value| self.compare(&list.expr, each, value));
                let first = parts.next()??;
                parts.try_fold(first, |all, one| {
                    Some(SeriesExpr::binary(joined, all, one?))
                })?
            }
            _ => return None,
        })
    }

    fn null_test(&self, expr: &Expr, test: Unary) -> Option<SeriesExpr> {
        match self.side(expr)? {
            Side::Column(column, _) => Some(SeriesExpr::Unary(test, Box::new(column))),
            Side::AsFloat(..) | Side::Value(..) => None,
        }
    }

    fn compare(&self, left: &Expr, op: Binary, right: &Expr) -> Option<SeriesExpr> {
        let (left, right) = match (self.side(left)?, self.side(right)?) {
            (Side::Column(column, kind), Side::Value(value, of)) if is_like(kind, of) => {
                (column, SeriesExpr::literal(value))
            }
            (Side::Value(value, of), Side::Column(column, kind)) if is_like(kind, of) => {
                (SeriesExpr::literal(value), column)
            }
            (Side::AsFloat(column, kind), Side::Value(Value::Float(value), _)) => {
                return Some(as_float(&column, kind, op, value));
            }
            (Side::Value(Value::Float(value), _), Side::AsFloat(column, kind)) => {
                return Some(as_float(&column, kind, turned(op), value));
            }
            (Side::Column(one, kind), Side::Column(other, of)) if kind == of => (one, other),
            _ => return None,
        };
        Some(SeriesExpr::binary(op, left, right))
    }

    fn side(&self, expr: &Expr) -> Option<Side> {
        match expr {
            Expr::Alias(alias) => self.side(&alias.expr),
            Expr::Column(_) => self.named(expr),
            Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 => {
                match self.named(&cast.expr)? {
                    Side::Column(column, Kind::Field(kind @ (Type::Int | Type::Unsigned))) => {
                        Some(Side::AsFloat(column, kind))
                    }
                    _ => None,
                }
            }
            Expr::Literal(value, _) => value_of(value),
            _ => None,
        }
    }

    fn named(&self, expr: &Expr) -> Option<Side> {
        let names = &self.view.names;
        Some(match self.column(expr)? {
            Column::Time => Side::Column(SeriesExpr::Time, Kind::Time),
            Column::Tag(tag) => {
                // A tag is compared as the text that it is to the store.
                let tag = names.tags.get(*tag).filter(|tag| !tag.is_integer)?;
                Side::Column(SeriesExpr::tag(&tag.name), Kind::Tag)
            }
            Column::Field(field) => {
                let (name, kind) = names.value(*field)?;
                Side::Column(SeriesExpr::field(name), Kind::Field(kind))
            }
            Column::Bucket(_) | Column::Aggregate(_) | Column::Number => return None,
        })
    }
}

/// The comparison with its sides exchanged.
fn turned(op: Binary) -> Binary {
    match op {
        Binary::Less => Binary::Greater,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        op => op,
    }
}

/// Integers compared with a float: with the next integer where that is the same, because blocks know their integers.
fn as_float(column: &SeriesExpr, kind: Type, op: Binary, value: f64) -> SeriesExpr {
    // Beyond, several integers are one float, and rounding decides.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let with = |op: Binary, bound: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number of less than 54 bits"
        )]
        let bound = bound as i64;
        let value = match (kind, u64::try_from(bound)) {
            (Type::Unsigned, Ok(bound)) => Some(Value::Unsigned(bound)),
            (Type::Unsigned, Err(_)) => None,
            _ => Some(Value::Int(bound)),
        };
        value.map(|value| SeriesExpr::binary(op, column.clone(), SeriesExpr::literal(value)))
    };
    let exact = match op {
        _ if !value.is_finite() || value.abs() >= EXACT_MAX => None,
        Binary::Less => with(Binary::Less, value.ceil()),
        Binary::LessOrEqual => with(Binary::LessOrEqual, value.floor()),
        Binary::Greater => with(Binary::Greater, value.floor()),
        Binary::GreaterOrEqual => with(Binary::GreaterOrEqual, value.ceil()),
        op if value.fract() == 0.0 => with(op, value),
        _ => None,
    };
    exact.unwrap_or_else(|| SeriesExpr::binary(op, column.clone(), SeriesExpr::literal(value)))
}

fn is_like(column: Kind, value: Kind) -> bool {
    // A tag is compared with a text.
    column == value || (column == Kind::Tag && value == Kind::Field(Type::Text))
}

fn comparison(op: Operator) -> Option<Binary> {
    Some(match op {
        Operator::Eq => Binary::Equal,
        Operator::NotEq => Binary::NotEqual,
        Operator::Lt => Binary::Less,
        Operator::LtEq => Binary::LessOrEqual,
        Operator::Gt => Binary::Greater,
        Operator::GtEq => Binary::GreaterOrEqual,
        _ => return None,
    })
}

fn value_of(value: &ScalarValue) -> Option<Side> {
    let (value, kind) = match value {
        ScalarValue::Int64(Some(value)) => (Value::Int(*value), Type::Int),
        ScalarValue::UInt64(Some(value)) => (Value::Unsigned(*value), Type::Unsigned),
        ScalarValue::Float64(Some(value)) => (Value::Float(*value), Type::Float),
        ScalarValue::Boolean(Some(value)) => (Value::Bool(*value), Type::Bool),
        ScalarValue::Utf8(Some(text)) => (Value::from(text.as_str()), Type::Text),
        ScalarValue::Dictionary(_, inner) => return value_of(inner),
        ScalarValue::TimestampNanosecond(Some(time), Some(_)) => {
            return Some(Side::Value(Value::Time(*time), Kind::Time));
        }
        _ => return None,
    };
    Some(Side::Value(value, Kind::Field(kind)))
}

/// A value that a tag is compared with.
fn tag_value(tag: &Tag, expr: &Expr) -> Option<Literal> {
    match expr {
        // An integer has one form as a tag.
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if tag.is_integer => {
            Some(Literal::from(value.to_string().as_str()))
        }
        expr if !tag.is_integer => text(expr).map(Literal::from),
        _ => None,
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => match value {
            ScalarValue::Dictionary(_, value) => value.try_as_str()?,
            value => value.try_as_str()?,
        },
        _ => None,
    }
}

/// A range of times as a series query has it: the first, and the one after the last.
pub(crate) fn time_range(time: &RangeInclusive<i64>) -> (Option<Literal>, Option<Literal>) {
    if time.is_empty() {
        let none = || Some(Literal::Value(Value::Time(0)));
        return (none(), none());
    }
    let from = (*time.start() != i64::MIN).then(|| Literal::Value(Value::Time(*time.start())));
    // After the last time of all there is none.
    let to = time.end().checked_add(1);
    (from, to.map(|to| Literal::Value(Value::Time(to))))
}
