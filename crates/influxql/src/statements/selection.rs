//! Series that a condition on tags selects.
//!
//! Does: ask the tag index for each comparison, and combine the answers. Does not: look at rows: what a condition says of
//! fields holds for every series here, as in `InfluxDB`'s lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use nilometer_engine::{SeriesId, Snapshot, TableSchema, TagMatch, TagPredicate};
use nilometer_influxql_syntax::ast::{Cast, Expr, Operator, Reference};
use nilometer_service::Error as ServiceError;

use super::condition::Rest;
use super::error::Error;
use super::names::regex;

/// The series among `live` that a condition selects; both ascend.
pub(super) fn select(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
    rest: &Rest<'_>,
    live: Vec<SeriesId>,
) -> Result<Vec<SeriesId>, ServiceError> {
    match rest {
        Rest::And(left, right) => {
            let left = select(snapshot, table, left, live)?;
            select(snapshot, table, right, left)
        }
        Rest::Or(left, right) => {
            let left = select(snapshot, table, left, live.clone())?;
            let right = select(snapshot, table, right, live)?;
            let either: BTreeSet<SeriesId> = left.into_iter().chain(right).collect();
            Ok(either.into_iter().collect())
        }
        Rest::Leaf(expr) => leaf(snapshot, table, expr, live),
    }
}

/// What a comparison says of a table.
pub(super) enum Leaf<'a> {
    /// Of all its series, or of none.
    Constant(bool),
    /// Of a tag that the table has.
    Tag(TagPredicate),
    /// Of two tags: a series has both, or (`false`) only the first.
    Tags(&'a str, &'a str, bool),
    /// Of a field, or of what is no text: nothing that series could tell.
    Rows,
}

/// Reads a comparison.
pub(super) fn read<'a>(table: &TableSchema, expr: &'a Expr) -> Result<Leaf<'a>, Error> {
    match expr.inner() {
        Expr::Boolean(value) => Ok(Leaf::Constant(*value)),
        Expr::Binary(operator, left, right) => match (left.inner(), right.inner()) {
            (Expr::Reference(left), Expr::Reference(right)) => tags(table, *operator, left, right),
            (Expr::Reference(name), value) | (value, Expr::Reference(name)) => {
                comparison(table, *operator, name, value)
            }
            _ => Ok(Leaf::Rows),
        },
        _ => Ok(Leaf::Rows),
    }
}

fn is_denied(operator: Operator) -> Result<bool, Error> {
    match operator {
        Operator::Eq | Operator::Match => Ok(false),
        Operator::NotEq | Operator::NotMatch => Ok(true),
        _ => Err(Error::TagOperator),
    }
}

fn is_field(table: &TableSchema, name: &Reference) -> bool {
    match name.cast {
        Some(Cast::Tag) => false,
        None => table.tag(&name.name).is_none() && table.field(&name.name).is_some(),
        Some(_) => true,
    }
}

fn tags<'a>(
    table: &TableSchema,
    operator: Operator,
    left: &'a Reference,
    right: &'a Reference,
) -> Result<Leaf<'a>, Error> {
    let is_denied = is_denied(operator)?;
    if is_field(table, left) || is_field(table, right) {
        return Ok(Leaf::Rows);
    }
    Ok(Leaf::Tags(&left.name, &right.name, !is_denied))
}

fn comparison<'a>(
    table: &TableSchema,
    operator: Operator,
    name: &Reference,
    value: &Expr,
) -> Result<Leaf<'a>, Error> {
    let negated = is_denied(operator)?;
    let matches = match value {
        Expr::Text(text) if text.is_empty() => TagMatch::OneOf(vec![None]),
        Expr::Text(text) => TagMatch::OneOf(vec![Some(text.clone())]),
        Expr::Regex(pattern) => TagMatch::Pattern(regex(pattern)?),
        _ => return Ok(Leaf::Rows),
    };
    if name.name == "_name" {
        return Ok(Leaf::Constant(
            matches.is_match(Some(&table.name)) != negated,
        ));
    }
    if is_field(table, name) {
        return Ok(Leaf::Rows);
    }
    let position = table.tags.iter().position(|tag| tag.name == name.name);
    Ok(match position {
        Some(position) => Leaf::Tag(TagPredicate {
            // The time column stands before them.
            column: position + 1,
            matches,
            negated,
        }),
        None => Leaf::Constant(matches.is_match(None) != negated),
    })
}

fn leaf(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
    expr: &Expr,
    live: Vec<SeriesId>,
) -> Result<Vec<SeriesId>, ServiceError> {
    match read(table, expr)? {
        Leaf::Constant(true) | Leaf::Rows => Ok(live),
        Leaf::Constant(false) => Ok(Vec::new()),
        Leaf::Tag(predicate) => {
            let kept = snapshot.series(table, &[predicate])?;
            Ok(intersection(&live, &kept))
        }
        Leaf::Tags(left, right, is_equal) => {
            let value = |name: &str| {
                let tag = table.tag(name);
                tag.map(|tag| snapshot.series_tag(table, tag.id, &live))
                    .transpose()
            };
            let (left, right) = (value(left)?, value(right)?);
            let mut kept = Vec::new();
            for (at, series) in live.iter().enumerate() {
                let left = left.as_ref().and_then(|tag| tag.value(at));
                let right = right.as_ref().and_then(|tag| tag.value(at));
                // Not their values: what a list says of two tags is whether a series has them.
                if left.is_some() && right.is_some() == is_equal {
                    kept.push(*series);
                }
            }
            Ok(kept)
        }
    }
}

fn intersection(one: &[SeriesId], other: &[SeriesId]) -> Vec<SeriesId> {
    let mut other = other.iter().peekable();
    let mut both = Vec::new();
    for series in one {
        while other.next_if(|next| *next < series).is_some() {}
        if other.next_if_eq(&series).is_some() {
            both.push(*series);
        }
    }
    both
}
