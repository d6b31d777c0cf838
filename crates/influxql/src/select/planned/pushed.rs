//! Conditions of a table: what the index answers, what the scan answers, and what is left.

use nilometer_influxql_syntax::ast::{Cast, Expr, Operator, Reference};
use nilometer_series::{self as series, Binary, Literal, TagExpr};

use crate::select::checked::fold::literal;
use crate::select::planned::names::pattern;
use crate::select::planned::plan::Table;
use crate::select::values::value::{Kind, Value};

/// A condition in three parts, all of which have to hold.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) tags: Vec<TagExpr>,
    pub(crate) rows: Vec<series::Expr>,
    /// What has to be looked at row by row here.
    pub(crate) rest: Vec<Expr>,
}

/// So deep is an expression at most that is asked of a series query, which puts a few operators around it. What is deeper is
/// worked out value by value.
const DEPTH_MAX: usize = series::EXPR_DEPTH_MAX - 32;

/// Whether an expression is not too deep to be asked of a series query.
pub(crate) fn is_flat(expr: &series::Expr) -> bool {
    expr.depth() <= DEPTH_MAX
}

pub(crate) fn pushed(condition: Option<&Expr>, table: &Table) -> Pushed {
    let mut out = Pushed::default();
    if let Some(condition) = condition {
        push(condition, table, &mut out);
    }
    out
}

fn push(condition: &Expr, table: &Table, out: &mut Pushed) {
    match condition {
        Expr::Binary(Operator::And, left, right) => {
            push(left, table, out);
            push(right, table, out);
        }
        Expr::Paren(inner) => push(inner, table, out),
        other => {
            if let Some(tags) = tag_condition(other, table) {
                out.tags.push(tags);
            } else {
                match row_condition(other, table) {
                    Some((rows, Kind::Boolean)) if is_flat(&rows) => out.rows.push(rows),
                    _ => out.rest.push(other.clone()),
                }
            }
        }
    }
}

/// Whether a name is a tag here: it is one, or there is no such field. What is read as the type of a field is no tag, and so is
/// none either what is a field in another measurement of the statement.
pub(crate) fn is_tag(reference: &Reference, table: &Table) -> bool {
    match reference.cast {
        Some(Cast::Tag) => true,
        Some(_) => false,
        None => !table.has_field(&reference.name),
    }
}

/// Whether a name is that of the measurement: `_name`, unless the measurement has something of that name.
fn is_measurement(reference: &Reference, table: &Table) -> bool {
    reference.name == "_name" && !table.has_field("_name") && !table.has_tag("_name")
}

/// Whether a comparison of the measurement's name holds; `None` = it is compared with what is no constant.
fn names_measurement(operator: Operator, other: &Expr, table: &Table) -> Option<bool> {
    Some(match (operator, other) {
        (Operator::Eq, Expr::Text(name)) => **name == *table.name,
        (Operator::NotEq, Expr::Text(name)) => **name != *table.name,
        (Operator::Match, Expr::Regex(wanted)) => pattern(wanted).ok()?.is_match(&table.name),
        (Operator::NotMatch, Expr::Regex(wanted)) => !pattern(wanted).ok()?.is_match(&table.name),
        (_, Expr::Reference(_) | Expr::Binary(..) | Expr::Call(_)) => return None,
        _ => false,
    })
}

/// A condition on tags alone.
fn tag_condition(condition: &Expr, table: &Table) -> Option<TagExpr> {
    match condition {
        Expr::Boolean(true) => Some(TagExpr::All),
        Expr::Boolean(false) => Some(TagExpr::Not(Box::new(TagExpr::All))),
        Expr::Paren(inner) => tag_condition(inner, table),
        Expr::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
            let both = [tag_condition(left, table)?, tag_condition(right, table)?];
            let mut all = Vec::new();
            for one in both {
                match (one, operator) {
                    (TagExpr::Or(more), Operator::Or) | (TagExpr::And(more), Operator::And) => {
                        all.extend(more);
                    }
                    (one, _) => all.push(one),
                }
            }
            Some(if *operator == Operator::And {
                TagExpr::And(all)
            } else {
                any_of(all)
            })
        }
        Expr::Binary(operator, left, right) => {
            let ((Expr::Reference(reference), other) | (other, Expr::Reference(reference))) =
                (left.inner(), right.inner())
            else {
                return None;
            };
            if !is_tag(reference, table) {
                return None;
            }
            let not = |tags| TagExpr::Not(Box::new(tags));
            if is_measurement(reference, table) {
                let holds = names_measurement(*operator, other, table)?;
                return Some(if holds {
                    TagExpr::All
                } else {
                    not(TagExpr::All)
                });
            }
            let name = reference.name.clone();
            let text = |text: &str| Literal::Value(series::Value::from(text));
            Some(match (operator, other) {
                (Operator::Eq, Expr::Text(value)) => TagExpr::OneOf(name, vec![text(value)]),
                (Operator::NotEq, Expr::Text(value)) => {
                    not(TagExpr::OneOf(name, vec![text(value)]))
                }
                (Operator::Match, Expr::Regex(wanted)) => {
                    TagExpr::Matches(name, text(&wanted.translated()))
                }
                (Operator::NotMatch, Expr::Regex(wanted)) => {
                    not(TagExpr::Matches(name, text(&wanted.translated())))
                }
                // Two tags, or a tag and a field.
                (_, Expr::Reference(_) | Expr::Binary(..) | Expr::Call(_)) => return None,
                // A tag is a text and nothing else.
                _ => not(TagExpr::All),
            })
        }
        _ => None,
    }
}

/// One of several conditions; values of one tag become one list.
fn any_of(all: Vec<TagExpr>) -> TagExpr {
    let mut merged: Vec<TagExpr> = Vec::new();
    for one in all {
        if let TagExpr::OneOf(name, values) = &one
            && let Some(TagExpr::OneOf(known, all)) = merged.last_mut()
            && known == name
        {
            all.extend(values.iter().cloned());
            continue;
        }
        merged.push(one);
    }
    match (merged.pop(), merged.is_empty()) {
        (Some(only), true) => only,
        (Some(last), false) => {
            merged.push(last);
            TagExpr::Or(merged)
        }
        (None, _) => TagExpr::Not(Box::new(TagExpr::All)),
    }
}

fn never() -> (series::Expr, Kind) {
    (
        series::Expr::literal(series::Value::Bool(false)),
        Kind::Boolean,
    )
}

/// A condition or an operand as the series' engine has it, with its type; `None` = it has none like it.
fn row_condition(expr: &Expr, table: &Table) -> Option<(series::Expr, Kind)> {
    match expr {
        Expr::Paren(inner) => row_condition(inner, table),
        Expr::Reference(reference) => column(reference, table),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (row_condition(left, table)?, row_condition(right, table)?);
            operation(*operator, left, right)
        }
        other => {
            let (value, kind) = match literal(other)? {
                Value::Float(value) => (series::Value::Float(value), Kind::Float),
                Value::Integer(value) => (series::Value::Int(value), Kind::Integer),
                Value::Unsigned(value) => (series::Value::Unsigned(value), Kind::Unsigned),
                Value::Boolean(value) => (series::Value::Bool(value), Kind::Boolean),
                Value::Text(text) => (series::Value::Text(text), Kind::Text),
                Value::Null => return None,
            };
            Some((series::Expr::literal(value), kind))
        }
    }
}

fn column(reference: &Reference, table: &Table) -> Option<(series::Expr, Kind)> {
    if is_measurement(reference, table) {
        let name = series::Value::from(&*table.name);
        return Some((series::Expr::literal(name), Kind::Tag));
    }
    if is_tag(reference, table) {
        // Of what no row has, every series has the empty text.
        let nothing = || series::Expr::literal(series::Value::Text("".into()));
        let tag = table.has_tag(&reference.name);
        let tag = tag.then(|| series::Expr::tag(&reference.name));
        return Some((tag.unwrap_or_else(nothing), Kind::Tag));
    }
    let kinds = table
        .schemas
        .iter()
        .filter_map(|schema| crate::select::planned::names::field_kind(schema, &reference.name));
    let mut kinds: Vec<Kind> = kinds.collect();
    kinds.dedup();
    // Types that differ between retention policies are looked at row by row.
    let [kind] = kinds.as_slice() else {
        return None;
    };
    let cast = crate::select::planned::types::kind_of_cast(reference.cast);
    if cast.is_some_and(|cast| cast != *kind) && reference.cast != Some(Cast::Field) {
        return None;
    }
    let field = series::Expr::field(&reference.name);
    Some((field, *kind))
}

fn operation(
    operator: Operator,
    (left, one): (series::Expr, Kind),
    (right, two): (series::Expr, Kind),
) -> Option<(series::Expr, Kind)> {
    let is_text = |kind: Kind| matches!(kind, Kind::Text | Kind::Tag);
    let numbers = one.is_number() && two.is_number();
    // Numbers without a sign have rules of their own.
    if one == Kind::Unsigned || two == Kind::Unsigned {
        return None;
    }
    let binary = |binary, kind| {
        Some((
            series::Expr::binary(binary, left.clone(), right.clone()),
            kind,
        ))
    };
    match operator {
        Operator::And if one == Kind::Boolean && two == Kind::Boolean => {
            binary(Binary::And, Kind::Boolean)
        }
        Operator::Or if one == Kind::Boolean && two == Kind::Boolean => {
            binary(Binary::Or, Kind::Boolean)
        }
        Operator::Eq | Operator::NotEq => {
            let same = numbers || (is_text(one) && is_text(two)) || (one == two);
            if !same {
                return Some(never());
            }
            binary(
                if operator == Operator::Eq {
                    Binary::Equal
                } else {
                    Binary::NotEqual
                },
                Kind::Boolean,
            )
        }
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq if !numbers => Some(never()),
        Operator::Lt => binary(Binary::Less, Kind::Boolean),
        Operator::LtEq => binary(Binary::LessOrEqual, Kind::Boolean),
        Operator::Gt => binary(Binary::Greater, Kind::Boolean),
        Operator::GtEq => binary(Binary::GreaterOrEqual, Kind::Boolean),
        _ if !numbers => None,
        Operator::Add => binary(Binary::Add, one.min(two)),
        Operator::Sub => binary(Binary::Subtract, one.min(two)),
        Operator::Mul => binary(Binary::Multiply, one.min(two)),
        // Integers divide to integers in conditions there.
        Operator::Div if one == Kind::Float || two == Kind::Float => {
            binary(Binary::Divide, Kind::Float)
        }
        _ => None,
    }
}
