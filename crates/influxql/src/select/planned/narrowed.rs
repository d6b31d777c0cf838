//! Series that a query inside need not read, because the query around it throws their rows away.
//!
//! Does: ask conditions on tags of a query around of the measurement inside as well, where that changes none of the rows that
//! are kept. Does not: take a condition from where it stands, or look into conditions on values.

use std::collections::BTreeSet;

use nilometer_engine::{Snapshot, TableSchema, TagMatch, TagPredicate};
use nilometer_influxql_syntax::ast::{Call, Cast, Expr, Operator, Reference};

use crate::select::error::Error;
use crate::select::planned::plan::{Input, Plan};
use crate::select::planned::types::kind_of_cast;
use crate::select::values::value::Kind;

/// So many values of a tag are asked for at most in the place of a condition.
const VALUES_MAX: usize = 4096;

/// Narrows the queries inside of a plan, the outermost one of its statement.
pub(crate) fn narrowed(plan: &mut Plan, snapshot: &Snapshot) -> Result<(), Error> {
    let dimensions = plan.group.clone();
    inside(plan, &dimensions, snapshot)
}

fn inside(plan: &mut Plan, dimensions: &[String], snapshot: &Snapshot) -> Result<(), Error> {
    // Series that are counted have to be there.
    if plan.slimit > 0 || plan.soffset > 0 {
        return Ok(());
    }
    let condition = plan.condition.clone();
    for input in &mut plan.inputs {
        let Input::Nested(inner) = input else {
            continue;
        };
        if let Some(condition) = &condition {
            let mut parts = Vec::new();
            conjuncts(condition, &mut parts);
            parts.retain(|part| is_of_tags(part, inner, dimensions));
            narrow(inner, parts, dimensions, snapshot)?;
        }
        inside(inner, dimensions, snapshot)?;
    }
    Ok(())
}

fn conjuncts<'a>(condition: &'a Expr, out: &mut Vec<&'a Expr>) {
    match condition.inner() {
        Expr::Binary(Operator::And, left, right) => {
            conjuncts(left, out);
            conjuncts(right, out);
        }
        other => out.push(other),
    }
}

/// Whether a condition compares tags of a query's groups, which no column of it hides, with texts and patterns.
fn is_of_tags(condition: &Expr, inner: &Plan, dimensions: &[String]) -> bool {
    match condition.inner() {
        Expr::Binary(Operator::And | Operator::Or, left, right) => {
            is_of_tags(left, inner, dimensions) && is_of_tags(right, inner, dimensions)
        }
        other => compared(other).is_some_and(|(_, name, _)| {
            let is_column = inner
                .outputs
                .iter()
                .any(|output| *output.name == *name.name);
            let is_tag = kind_of_cast(name.cast) == Some(Kind::Tag);
            let is_group = inner.group.contains(&name.name) || dimensions.contains(&name.name);
            is_tag && is_group && !is_column
        }),
    }
}

/// The parts of a comparison of a name with a text or a pattern.
fn compared(condition: &Expr) -> Option<(Operator, &Reference, &Expr)> {
    let Expr::Binary(operator, left, right) = condition else {
        return None;
    };
    let ((Expr::Reference(name), other) | (other, Expr::Reference(name))) =
        (left.inner(), right.inner())
    else {
        return None;
    };
    let is_known = match operator {
        Operator::Eq | Operator::NotEq => matches!(other, Expr::Text(_)),
        Operator::Match | Operator::NotMatch => matches!(other, Expr::Regex(_)),
        _ => false,
    };
    is_known.then_some((*operator, name, other))
}

/// Asks conditions of a query inside as well.
fn narrow(
    inner: &mut Plan,
    parts: Vec<&Expr>,
    dimensions: &[String],
    snapshot: &Snapshot,
) -> Result<(), Error> {
    let is_ordered = inner.group == dimensions;
    // Rows of several calls come in an order of InfluxDB's own, in which each group has a part.
    if parts.is_empty()
        || inner.slimit > 0
        || inner.soffset > 0
        || (!is_ordered && calls(inner) > 1)
    {
        return Ok(());
    }
    let condition = if is_ordered || (inner.limit == 0 && inner.offset == 0) {
        all(parts.into_iter().cloned().collect(), Operator::And)
    } else {
        around(inner, &parts, dimensions, snapshot)?
    };
    if let Some(condition) = condition {
        let own = inner.condition.take().into_iter().chain([condition]);
        inner.condition = all(own.collect(), Operator::And);
    }
    Ok(())
}

/// How many calls the columns of a plan have.
fn calls(plan: &Plan) -> usize {
    let mut known: Vec<&Call> = Vec::new();
    for output in &plan.outputs {
        output.expr.walk(&mut |expr| {
            if let Expr::Call(call) = expr
                && !known.contains(&call)
            {
                known.push(call);
            }
        });
    }
    known.len()
}

/// A condition for a query with LIMIT, which counts rows anew where their tags change, so that a series may decide which rows of
/// another one stay. Rows that have one value of a tag of the outermost GROUP BY stand together; so the values of that tag
/// which meet the conditions in any series are asked for, with all of their series.
fn around(
    inner: &Plan,
    parts: &[&Expr],
    dimensions: &[String],
    snapshot: &Snapshot,
) -> Result<Option<Expr>, Error> {
    let (Some(dimension), [Input::Table(table)]) = (dimensions.first(), inner.inputs.as_slice())
    else {
        return Ok(None);
    };
    let mut values = BTreeSet::new();
    for schema in &table.schemas {
        let predicates = parts.iter().filter_map(|part| predicate(schema, part));
        let predicates: Vec<TagPredicate> = predicates.collect();
        let Some(tag) = schema.tag(dimension).filter(|_| !predicates.is_empty()) else {
            return Ok(None);
        };
        let read = |error| Error::from(nilometer_series::Error::from(error));
        let series = snapshot.series(schema, &predicates).map_err(read)?;
        let own = snapshot.series_tag(schema, tag.id, &series).map_err(read)?;
        for at in 0..series.len() {
            values.insert(own.value(at).unwrap_or_default().to_owned());
            if values.len() > VALUES_MAX {
                return Ok(None);
            }
        }
    }
    let is_one_of = values.into_iter().map(|value| {
        let name = Expr::Reference(Reference {
            name: dimension.clone(),
            cast: Some(Cast::Tag),
        });
        Expr::Binary(Operator::Eq, Box::new(name), Box::new(Expr::Text(value)))
    });
    let none = Expr::Boolean(false);
    Ok(Some(all(is_one_of.collect(), Operator::Or).unwrap_or(none)))
}

/// What the index is asked for a comparison with one text; `None` = it is another condition.
fn predicate(schema: &TableSchema, condition: &Expr) -> Option<TagPredicate> {
    let (Operator::Eq, name, Expr::Text(text)) = compared(condition)? else {
        return None;
    };
    let position = schema.tags.iter().position(|tag| tag.name == name.name)?;
    let value = (!text.is_empty()).then(|| text.clone());
    Some(TagPredicate {
        // The time column stands before them.
        column: position + 1,
        matches: TagMatch::OneOf(vec![value]),
        negated: false,
    })
}

/// Conditions joined, no deeper than it has to be.
fn all(mut parts: Vec<Expr>, operator: Operator) -> Option<Expr> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let right = parts.split_off(parts.len() / 2);
    let (left, right) = (all(parts, operator)?, all(right, operator)?);
    Some(Expr::Binary(operator, Box::new(left), Box::new(right)))
}
