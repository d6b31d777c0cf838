//! Names of a statement in a snapshot: measurements, types of fields, wildcards, columns of the answer.
//!
//! Does: turn a checked SELECT into a plan in which every name has its type. Does not: read rows.

use nilometer_engine::{ColumnKind, PhysicalType, Snapshot, TableSchema};
use nilometer_influxql_syntax::Pattern;
use nilometer_influxql_syntax::ast::{Call, Cast, Expr, Field, Measurement, Reference, Source};
use nilometer_series::TableName;
use regex::Regex;
use rustc_hash::FxHashMap;

use crate::policies::schema_of;
use crate::select::checked::compile::Compiled;
use crate::select::error::Error;
use crate::select::planned::columns::{expanded, outputs};
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::types::{cast_of, check_types};
use crate::select::values::value::Kind;

/// Where names are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) database: &'a str,
    pub(crate) policy: Option<&'a str>,
}

pub(crate) fn pattern(pattern: &Pattern) -> Result<Regex, Error> {
    // A pattern that parses may still be too large.
    Regex::new(&pattern.translated()).map_err(|error| Error::refused(error.to_string()))
}

pub(crate) fn plan(compiled: &Compiled, scope: Scope<'_>) -> Result<Plan, Error> {
    let select = &compiled.select;
    let mut inputs = Vec::new();
    // Of ten thousand measurements each is looked up once.
    let mut places = FxHashMap::default();
    for (source, nested) in select.sources.iter().zip(&compiled.nested) {
        match (source, nested) {
            (Source::Measurement(measurement), _) => {
                tables(measurement, scope, (&mut inputs, &mut places))?;
            }
            (Source::Subquery(_), Some(nested)) => {
                inputs.push(Input::Nested(Box::new(plan(nested, scope)?)));
            }
            (Source::Subquery(_), None) => {}
        }
    }
    let typed = |expr: &Expr| typed(expr, &inputs);
    let fields: Vec<Field> = select
        .fields
        .iter()
        .map(|field| Field {
            expr: typed(&field.expr),
            alias: field.alias.clone(),
        })
        .collect();
    let condition = compiled.condition.as_ref().map(typed);
    let (fields, dimensions) = expanded(fields, &select.dimensions, &inputs)?;
    for field in &fields {
        check_types(&field.expr)?;
    }
    let has_target = select.target.is_some();
    let outputs = outputs(&fields, has_target);
    let mut group = dimensions.clone();
    group.sort_unstable();
    group.dedup();
    let is_raw = select.is_raw();
    Ok(Plan {
        outputs,
        has_target,
        inputs,
        condition,
        first_ns: compiled.first_ns,
        last_ns: compiled.last_ns,
        window: compiled.window,
        ascending: compiled.ascending,
        time_name: compiled.time_name.clone(),
        zone: select.zone.clone(),
        group,
        fill: select.fill,
        limit: select.limit,
        offset: select.offset,
        slimit: select.slimit,
        soffset: select.soffset,
        is_raw,
    })
}

/// The tables of a measurement, or of all that a pattern names. Those of one name are one input.
fn tables(
    measurement: &Measurement,
    scope: Scope<'_>,
    (inputs, places): (&mut Vec<Input>, &mut FxHashMap<String, usize>),
) -> Result<(), Error> {
    let database = if measurement.database.is_empty() {
        scope.database
    } else {
        &measurement.database
    };
    if database.is_empty() {
        return Err(Error::NoDatabase);
    }
    if scope.snapshot.schemas(database).is_none() {
        let name = database.to_owned();
        return Err(Error::UnknownDatabase { name });
    }
    let schema = schema_of(scope.snapshot, database, &measurement.policy, scope.policy);
    let schema = schema.map_err(|policy| Error::UnknownPolicy {
        name: policy.to_owned(),
    })?;
    let names = match &measurement.pattern {
        Some(wanted) => {
            let wanted = pattern(wanted)?;
            let mut names = scope.snapshot.tables(database, &schema).unwrap_or_default();
            names.retain(|name| wanted.is_match(name));
            names
        }
        None => vec![measurement.name.clone()],
    };
    for name in names {
        let Some(table) = scope.snapshot.table(database, &schema, &name) else {
            continue;
        };
        let own = TableName {
            database: database.to_owned(),
            schema: Some(schema.clone()),
            table: name.clone(),
        };
        let place = places.get(&name).copied();
        if let Some(Input::Table(known)) = place.and_then(|place| inputs.get_mut(place)) {
            if !known.tables.contains(&own) {
                known.tables.push(own);
                known.schemas.push(table);
            }
            continue;
        }
        inputs.push(Input::Table(Table {
            name: name.as_str().into(),
            tables: vec![own],
            schemas: vec![table],
        }));
        places.insert(name, inputs.len() - 1);
    }
    Ok(())
}

pub(crate) fn physical(kind: PhysicalType) -> Option<Kind> {
    Some(match kind {
        PhysicalType::I64 => Kind::Integer,
        PhysicalType::U64 => Kind::Unsigned,
        PhysicalType::F64 => Kind::Float,
        PhysicalType::Bool => Kind::Boolean,
        PhysicalType::Text => Kind::Text,
        PhysicalType::Bytes => return None,
    })
}

pub(crate) fn field_kind(schema: &TableSchema, name: &str) -> Option<Kind> {
    let field = schema.field(name)?;
    // What is stored of a numeric, a UUID or an interval is not what it means.
    if field.of().is_some_and(|of| !of.is_plain()) {
        return None;
    }
    match field.kind {
        ColumnKind::Field(kind) => physical(kind),
        ColumnKind::Tag => None,
    }
}

/// The type of a name in the inputs; the first of the types that it has.
fn reference_kind(name: &str, inputs: &[Input]) -> Option<Kind> {
    let kinds = inputs.iter().filter_map(|input| match input {
        Input::Table(table) => {
            let fields = table
                .schemas
                .iter()
                .filter_map(|schema| field_kind(schema, name));
            let tag = || table.has_tag(name).then_some(Kind::Tag);
            fields.min().or_else(tag)
        }
        Input::Nested(plan) => plan.kind_of(name),
    });
    kinds.min()
}

/// The expression with the type of every name as its cast; names that nothing has keep none.
fn typed(expr: &Expr, inputs: &[Input]) -> Expr {
    match expr {
        Expr::Reference(reference) => {
            let cast = match reference.cast {
                None | Some(Cast::Field) => match reference_kind(&reference.name, inputs) {
                    Some(Kind::Tag) if reference.cast.is_some() => reference.cast,
                    kind => kind.map(cast_of),
                },
                cast => cast,
            };
            Expr::Reference(Reference {
                name: reference.name.clone(),
                cast,
            })
        }
        Expr::Call(call) => Expr::Call(Call {
            name: call.name.clone(),
            arguments: call
                .arguments
                .iter()
                .map(|argument| typed(argument, inputs))
                .collect(),
        }),
        Expr::Binary(operator, left, right) => Expr::Binary(
            *operator,
            Box::new(typed(left, inputs)),
            Box::new(typed(right, inputs)),
        ),
        Expr::Paren(inner) => Expr::Paren(Box::new(typed(inner, inputs))),
        other => other.clone(),
    }
}
