//! Columns of the answer: wildcards and patterns in full, names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_influxql_syntax::ast::{Call, Expr, Field, Reference, WildcardKind};
use rustc_hash::FxHashMap;

use crate::select::error::Error;
use crate::select::planned::names::{field_kind, pattern};
use crate::select::planned::plan::{Input, Output};
use crate::select::planned::types::cast_of;
use crate::select::values::value::Kind;

/// Fields and tags of the inputs, by name, with their types.
fn columns(inputs: &[Input]) -> (BTreeMap<String, Kind>, BTreeSet<String>) {
    let mut fields: BTreeMap<String, Kind> = BTreeMap::new();
    let mut tags = BTreeSet::new();
    let mut offer = |name: &str, kind: Kind| {
        let known = fields.entry(name.to_owned()).or_insert(kind);
        *known = (*known).min(kind);
    };
    for input in inputs {
        match input {
            Input::Table(table) => {
                for schema in &table.schemas {
                    for field in &schema.fields {
                        if let Some(kind) = field_kind(schema, &field.name) {
                            offer(&field.name, kind);
                        }
                    }
                    tags.extend(schema.tags.iter().map(|tag| tag.name.clone()));
                }
            }
            Input::Nested(plan) => {
                // A tag that is selected inside is a column here, and only what is grouped by there is a tag.
                for output in plan.outputs.iter().filter(|output| output.shown) {
                    if let Some(kind) = plan.kind_of(&output.name) {
                        offer(&output.name, kind);
                    }
                }
                tags.extend(plan.group.iter().cloned());
            }
        }
    }
    (fields, tags)
}

/// Wildcards and patterns among fields and dimensions, in full.
pub(super) fn expanded(
    fields: Vec<Field>,
    dimensions: &[Expr],
    inputs: &[Input],
) -> Result<(Vec<Field>, Vec<String>), Error> {
    let is_wild = |expr: &Expr| matches!(expr, Expr::Wildcard(_) | Expr::Regex(_));
    let mut wild_fields = false;
    for field in &fields {
        field.expr.walk(&mut |expr| wild_fields |= is_wild(expr));
    }
    let wild_dimensions = dimensions.iter().any(is_wild);
    let mut group = Vec::new();
    if !wild_fields && !wild_dimensions {
        group.extend(dimensions.iter().filter_map(tag_name));
        return Ok((fields, group));
    }
    let (known, mut tags) = columns(inputs);
    let mut all: Vec<(String, Kind)> = known.into_iter().collect();
    if !wild_dimensions {
        for tag in dimensions.iter().filter_map(tag_name) {
            tags.remove(&tag);
        }
        if !all.is_empty() {
            all.extend(tags.iter().map(|tag| (tag.clone(), Kind::Tag)));
        }
        all.sort_by(|one, two| one.0.cmp(&two.0).then(one.1.cmp(&two.1)));
    }
    for dimension in dimensions {
        match dimension {
            Expr::Wildcard(_) => group.extend(tags.iter().cloned()),
            Expr::Regex(wanted) => {
                let wanted = pattern(wanted)?;
                group.extend(tags.iter().filter(|tag| wanted.is_match(tag)).cloned());
            }
            other => group.extend(tag_name(other)),
        }
    }
    let mut out = Vec::with_capacity(fields.len());
    for field in fields {
        match &field.expr {
            Expr::Wildcard(kind) => {
                let wanted = all.iter().filter(|(_, own)| match kind {
                    None => true,
                    Some(WildcardKind::Field) => *own != Kind::Tag,
                    Some(WildcardKind::Tag) => *own == Kind::Tag,
                });
                out.extend(wanted.map(bare));
            }
            Expr::Regex(wanted) => {
                let wanted = pattern(wanted)?;
                out.extend(
                    all.iter()
                        .filter(|(name, _)| wanted.is_match(name))
                        .map(bare),
                );
            }
            Expr::Call(call) => of_call(&field, call, &all, &mut out)?,
            Expr::Binary(..) => {
                let (mut wildcard, mut regex) = (false, false);
                field.expr.walk(&mut |expr| {
                    wildcard |= matches!(expr, Expr::Wildcard(_));
                    regex |= matches!(expr, Expr::Regex(_));
                });
                if wildcard || regex {
                    let what = if wildcard { "wildcard" } else { "regex field" };
                    let expr = &field.expr;
                    return Err(Error::refused(format!(
                        "unsupported expression with {what}: {expr}"
                    )));
                }
                out.push(field);
            }
            _ => out.push(field),
        }
    }
    Ok((out, group))
}

fn tag_name(dimension: &Expr) -> Option<String> {
    match dimension {
        Expr::Reference(reference) => Some(reference.name.clone()),
        _ => None,
    }
}

fn bare((name, kind): &(String, Kind)) -> Field {
    let cast = Some(cast_of(*kind));
    Field {
        expr: Expr::Reference(Reference {
            name: name.clone(),
            cast,
        }),
        alias: None,
    }
}

/// A call whose innermost argument is a wildcard, once for each field that it can have.
fn of_call(
    field: &Field,
    call: &Call,
    all: &[(String, Kind)],
    out: &mut Vec<Field>,
) -> Result<(), Error> {
    let mut inner = call;
    while let Some(Expr::Call(deeper)) = inner.arguments.first() {
        inner = deeper;
    }
    let wanted = match inner.arguments.first() {
        Some(Expr::Wildcard(Some(WildcardKind::Tag))) => {
            let name = &inner.name;
            return Err(Error::refused(format!(
                "unable to use tag wildcard in {name}()"
            )));
        }
        Some(Expr::Wildcard(_)) => None,
        Some(Expr::Regex(wanted)) => Some(pattern(wanted)?),
        _ => {
            out.push(field.clone());
            return Ok(());
        }
    };
    let takes = |kind: Kind| match inner.name.as_str() {
        "count" | "first" | "last" | "distinct" | "elapsed" | "mode" | "sample" | "sum_hll" => {
            kind != Kind::Tag
        }
        "min" | "max" => kind.is_number() || kind == Kind::Boolean,
        "holt_winters" | "holt_winters_with_fit" => matches!(kind, Kind::Float | Kind::Integer),
        _ => kind.is_number(),
    };
    let own = own_name(field);
    for (name, kind) in all {
        if !takes(*kind) || wanted.as_ref().is_some_and(|wanted| !wanted.is_match(name)) {
            continue;
        }
        let argument = Expr::Reference(Reference {
            name: name.clone(),
            cast: Some(cast_of(*kind)),
        });
        out.push(Field {
            expr: Expr::Call(with_innermost(call, &argument)),
            alias: Some(format!("{own}_{name}")),
        });
    }
    Ok(())
}

fn with_innermost(call: &Call, argument: &Expr) -> Call {
    let mut arguments = call.arguments.clone();
    if let Some(first) = arguments.first_mut() {
        *first = match first {
            Expr::Call(inner) => Expr::Call(with_innermost(inner, argument)),
            _ => argument.clone(),
        };
    }
    Call {
        name: call.name.clone(),
        arguments,
    }
}

/// What a field is called if nothing else is called so.
pub(crate) fn own_name(field: &Field) -> String {
    if let Some(alias) = &field.alias {
        return alias.clone();
    }
    match field.expr.inner() {
        Expr::Call(call) => call.name.clone(),
        Expr::Reference(reference) => reference.name.clone(),
        Expr::Binary(..) => {
            let mut names: Vec<&str> = Vec::new();
            binary_names(field.expr.inner(), &mut names);
            names.join("_")
        }
        _ => String::new(),
    }
}

/// Names of the calls and references in an expression, calls without what is in them.
fn binary_names<'a>(expr: &'a Expr, names: &mut Vec<&'a str>) {
    match expr {
        Expr::Reference(reference) => names.push(&reference.name),
        Expr::Call(call) => names.push(&call.name),
        Expr::Binary(_, left, right) => {
            binary_names(left, names);
            binary_names(right, names);
        }
        Expr::Paren(inner) => binary_names(inner, names),
        _ => {}
    }
}

/// The columns of the answer with their names: aliases first, then the others, with a number where a name is taken.
pub(super) fn outputs(fields: &[Field], has_target: bool) -> Vec<Output> {
    let mut outputs = Vec::with_capacity(fields.len());
    for field in fields {
        outputs.push((field.clone(), true));
        // The tags of top() and bottom() are columns of their own, unless the answer is written.
        if let Expr::Call(call) = &field.expr
            && !has_target
            && matches!(call.name.as_str(), "top" | "bottom")
        {
            let tags = call.arguments.iter().skip(1);
            let tags = tags.filter(|argument| matches!(argument, Expr::Reference(_)));
            outputs.extend(tags.map(|tag| {
                (
                    Field {
                        expr: tag.clone(),
                        alias: None,
                    },
                    false,
                )
            }));
        }
    }
    let mut taken: FxHashMap<String, usize> = FxHashMap::default();
    for (field, _) in &outputs {
        if let Some(alias) = &field.alias {
            taken.insert(alias.clone(), 1);
        }
    }
    let named = |(field, shown): (Field, bool)| {
        if let Some(alias) = field.alias {
            return Output {
                name: Arc::from(alias.as_str()),
                expr: field.expr,
                shown,
            };
        }
        let own = own_name(&field);
        let mut name = own.clone();
        if let Some(count) = taken.get(&own).copied() {
            let mut count = count;
            loop {
                name = format!("{own}_{count}");
                if !taken.contains_key(&name) {
                    taken.insert(own, count + 1);
                    break;
                }
                count += 1;
            }
        }
        *taken.entry(name.clone()).or_insert(0) += 1;
        Output {
            name: Arc::from(name.as_str()),
            expr: field.expr,
            shown,
        }
    };
    outputs.into_iter().map(named).collect()
}
