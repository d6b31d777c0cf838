//! Measurements, series, tag keys, tag values and field keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_engine::{
    ColumnKind, PhysicalType, SeriesId, Snapshot, TableSchema, TagMatch, TagPredicate,
};
use nilometer_influxql_syntax::ast::{
    Expr, KeyChoice, KeyOperator, Listing, Operator, ShowMeasurements, Source,
};
use nilometer_service::define::{policy_of_schema, policy_settings, schema_of_policy};
use nilometer_service::{Error as ServiceError, Place, Privilege, Set};
use regex::Regex;

use super::catalogue::{all_databases, schemas};
use super::values;
use crate::policies::schema_of;
use crate::statements::condition::{Rest, Split, split};
use crate::statements::context::Context;
use crate::statements::error::Error;
use crate::statements::names::{
    Chosen, Measurements, database_of, known_database, live, live_ever, regex, tables_of,
};
use crate::statements::selection::{Leaf, read, select};
use crate::statements::sets::{Table, window};
use nilometer_service::define::shard_ns;

/// A database at one moment, for a list.
pub(super) struct View {
    pub(super) snapshot: Snapshot,
    pub(super) database: String,
    pub(super) measurements: Measurements,
}

impl View {
    /// Of a database that is there.
    pub(super) fn of(context: &Context, on: Option<&str>, chosen: &Chosen) -> Result<Self, Error> {
        let snapshot = context.engine.snapshot();
        let database = known_database(&snapshot, on, &context.database)?.to_owned();
        let measurements = tables_of(&snapshot, &database, None, chosen);
        Ok(Self {
            snapshot,
            database,
            measurements,
        })
    }

    /// The same of the retention policies that are named before measurements, or of the session's: what counts rows there, or
    /// lists fields.
    pub(super) fn of_policies(
        context: &Context,
        on: Option<&str>,
        sources: &[Source],
    ) -> Result<Self, Error> {
        let chosen = Chosen::of_sources(sources)?;
        let mut view = Self::of(context, on, &Chosen::Some(Vec::new()))?;
        let mut schemas = BTreeSet::new();
        let mut add = |named: &str| {
            let own = context.policy.as_deref();
            let schema = schema_of(&view.snapshot, &view.database, named, own);
            schemas.insert(schema.map_err(|policy| Error::UnknownPolicy(policy.to_owned()))?);
            Ok::<(), Error>(())
        };
        for source in sources {
            if let Source::Measurement(measurement) = source {
                add(&measurement.policy)?;
            }
        }
        if sources.is_empty() {
            add("")?;
        }
        for schema in schemas {
            let own = tables_of(&view.snapshot, &view.database, Some(&schema), &chosen);
            for (name, tables) in own {
                view.measurements.entry(name).or_default().extend(tables);
            }
        }
        Ok(view)
    }

    /// The series of a table that a condition selects, ascending. Its times count by shard groups, as in `InfluxDB`: of
    /// one that they touch every series is there.
    pub(super) fn series(
        &self,
        table: &Arc<TableSchema>,
        split: &Split<'_>,
    ) -> Result<Vec<SeriesId>, ServiceError> {
        let live = if split.has_time {
            let width = self.shard_width(table);
            let (start, end) = (*split.time.start(), *split.time.end());
            if start > end {
                return Ok(Vec::new());
            }
            let floor = |at: i64| at.saturating_sub(at.rem_euclid(width));
            let start = floor(start).max(i64::MIN + 1);
            let end = floor(end).saturating_add(width - 1).min(i64::MAX - 1);
            live(&self.snapshot, table, &(start..=end))?
        } else {
            live_ever(&self.snapshot, table)?
        };
        match &split.rest {
            Some(rest) => select(&self.snapshot, table, rest, live),
            None => Ok(live),
        }
    }

    /// The tags of the series of a measurement, each set once: a series that several policies have is one.
    fn tag_sets(
        &self,
        tables: &[Arc<TableSchema>],
        split: &Split<'_>,
    ) -> Result<BTreeSet<Vec<(String, String)>>, ServiceError> {
        let mut all = BTreeSet::new();
        for table in tables {
            let series = self.series(table, split)?;
            for values in self.snapshot.series_tags(table, &series)? {
                let tags = table.tags.iter().zip(values);
                let mut tags: Vec<(String, String)> = tags
                    .filter_map(|(tag, value)| Some((tag.name.clone(), value?)))
                    .collect();
                tags.sort_unstable();
                all.insert(tags);
            }
        }
        Ok(all)
    }

    /// How many series a measurement has.
    pub(super) fn count(
        &self,
        tables: &[Arc<TableSchema>],
        split: &Split<'_>,
    ) -> Result<usize, ServiceError> {
        match tables {
            [only] => Ok(self.series(only, split)?.len()),
            several => Ok(self.tag_sets(several, split)?.len()),
        }
    }

    fn shard_width(&self, table: &TableSchema) -> i64 {
        let schemas = self.snapshot.schemas(&self.database).unwrap_or_default();
        let mut schemas = schemas.into_iter();
        let own = schemas
            .find(|name| self.snapshot.schema_id(&self.database, name) == Some(table.schema));
        own.map_or(shard_ns(0, 0), |schema| {
            let kept = self.snapshot.schema_retention_ns(&self.database, &schema);
            let asked = policy_settings(&self.snapshot, &self.database, &schema).shard_ns;
            shard_ns(kept.unwrap_or(0), asked)
        })
    }
}

/// The measurements of a database that have rows, over all its policies or in one schema.
pub(super) fn measurements_of(
    context: &Context,
    show: &ShowMeasurements,
    (snapshot, database, schema): (&Snapshot, &str, Option<&str>),
) -> Result<Vec<String>, ServiceError> {
    let chosen = Chosen::of_sources(show.with.as_slice())?;
    let now = context.engine.wall_ns();
    let split = split(show.listing.condition.as_ref(), now)?;
    if split.has_time {
        return Err(Error::TimeNotSupported("SHOW MEASUREMENTS").into());
    }
    let all = tables_of(snapshot, database, schema, &chosen);
    let mut names = Vec::new();
    for (name, tables) in all {
        context.gather(0)?;
        let mut has_rows = false;
        for table in &tables {
            has_rows = has_rows || !live_ever(snapshot, table)?.is_empty();
        }
        let is_selected = match &split.rest {
            Some(rest) => has_tags(snapshot, &tables, rest)?,
            None => true,
        };
        if has_rows && is_selected {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a condition holds for a measurement that has the tag: `=` if any series has the value, `!=` if none has.
fn has_tags(
    snapshot: &Snapshot,
    tables: &[Arc<TableSchema>],
    rest: &Rest<'_>,
) -> Result<bool, ServiceError> {
    match rest {
        Rest::And(left, right) => {
            Ok(has_tags(snapshot, tables, left)? && has_tags(snapshot, tables, right)?)
        }
        Rest::Or(left, right) => {
            Ok(has_tags(snapshot, tables, left)? || has_tags(snapshot, tables, right)?)
        }
        Rest::Leaf(expr) => {
            check_value(expr)?;
            let (mut has_tag, mut is_found) = (false, false);
            for table in tables {
                match read(table, expr)? {
                    Leaf::Constant(value) if names_measurement(expr) => return Ok(value),
                    Leaf::Tag(mut predicate) => {
                        has_tag = true;
                        // A series without the tag has no value of it.
                        let has = TagPredicate {
                            column: predicate.column,
                            matches: TagMatch::OneOf(vec![None]),
                            negated: true,
                        };
                        predicate.negated = false;
                        let kept = snapshot.series(table, &[predicate, has])?;
                        is_found = is_found || !kept.is_empty();
                    }
                    _ => {}
                }
            }
            Ok(has_tag && is_found != is_denial(expr))
        }
    }
}

fn is_denial(expr: &Expr) -> bool {
    matches!(
        expr.inner(),
        Expr::Binary(Operator::NotEq | Operator::NotMatch, _, _)
    )
}

fn names_measurement(expr: &Expr) -> bool {
    match expr.inner() {
        Expr::Binary(_, left, _) => {
            matches!(left.inner(), Expr::Reference(name) if name.name == "_name")
        }
        _ => false,
    }
}

fn check_value(expr: &Expr) -> Result<(), Error> {
    let Expr::Binary(operator, _, right) = expr.inner() else {
        return Ok(());
    };
    let symbol = operator.symbol();
    match (operator, right.inner()) {
        (Operator::Eq | Operator::NotEq, Expr::Text(_))
        | (Operator::Match | Operator::NotMatch, Expr::Regex(_)) => Ok(()),
        (Operator::Eq | Operator::NotEq, _) => Err(Error::Condition(format!(
            "right side of '{symbol}' must be a tag value string"
        ))),
        (Operator::Match | Operator::NotMatch, _) => Err(Error::Condition(format!(
            "right side of '{symbol}' must be a tag value regular expression"
        ))),
        _ => Err(Error::TagOperator),
    }
}

pub(super) fn measurements(
    context: &Context,
    show: &ShowMeasurements,
) -> Result<Vec<Set>, ServiceError> {
    let snapshot = context.engine.snapshot();
    let (limit, offset) = (show.listing.limit, show.listing.offset);
    let names_policies = show.every_database || show.every_policy || show.policy.is_some();
    if !names_policies {
        let database = database_of(show.listing.database.as_deref(), &context.database)?;
        let names = measurements_of(context, show, (&snapshot, database, None))?;
        let names: Vec<String> = window(names, limit, offset).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        return Ok(vec![
            Table::named("measurements").texts("name", names).set(),
        ]);
    }
    let mut rows = Vec::new();
    for (database, schema) in places(context, &snapshot, show)? {
        let names = measurements_of(context, show, (&snapshot, &database, Some(&schema)))?;
        let policy = policy_of_schema(&snapshot, &database, &schema);
        for name in names {
            context
                .gather(name.len() + database.len() + policy.len() + size_of::<[String; 3]>())?;
            rows.push([name, database.clone(), policy.clone()]);
        }
    }
    let rows: Vec<[String; 3]> = window(rows, limit, offset).collect();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let table = Table::named("measurements")
        .texts("name", column(0))
        .texts("database", column(1))
        .texts("retention policy", column(2));
    Ok(vec![table.set()])
}

/// The databases and schemas that `ON` of `SHOW MEASUREMENTS` names, in the order in which they were made. Of all databases,
/// those that the asker may read.
fn places(
    context: &Context,
    snapshot: &Snapshot,
    show: &ShowMeasurements,
) -> Result<Vec<(String, String)>, ServiceError> {
    let every = |what: &str| {
        let text = format!(
            "query 'SHOW MEASUREMENTS ON {what}' not supported. use 'ON *.*' or specify a database"
        );
        Err(Error::Condition(text).into())
    };
    let databases = match (show.every_database, &show.policy, show.every_policy) {
        (true, Some(_), _) => return every("*.rp"),
        (true, None, false) => return every("*"),
        (true, None, true) => {
            let mut all = all_databases(snapshot);
            all.retain(|name| {
                let place = Place::database(name);
                context.principal.check(Privilege::Read, place).is_ok()
            });
            all
        }
        (false, ..) => {
            let name = database_of(show.listing.database.as_deref(), &context.database)?;
            if show.every_policy && snapshot.default_schema(name).is_none() {
                return Err(Error::Condition(format!("unknown database {name}")).into());
            }
            vec![name.to_owned()]
        }
    };
    let mut places = Vec::new();
    for database in databases {
        let schemas = match &show.policy {
            Some(policy) => schema_of_policy(snapshot, &database, policy)
                .into_iter()
                .collect(),
            None => schemas(snapshot, &database),
        };
        places.extend(schemas.into_iter().map(|schema| (database.clone(), schema)));
    }
    Ok(places)
}

pub(super) fn series(context: &Context, listing: &Listing) -> Result<Vec<Set>, ServiceError> {
    let split = split(listing.condition.as_ref(), context.engine.wall_ns())?;
    let on = listing.database.as_deref();
    let view = if split.has_time {
        View::of_policies(context, on, &listing.sources)?
    } else {
        View::of(context, on, &Chosen::of_sources(&listing.sources)?)?
    };
    let mut keys = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let all = view.tag_sets(tables, &split)?;
        let new: Vec<String> = all.into_iter().map(|tags| key(name, &tags)).collect();
        // As text here, and as a column of it.
        context.gather(
            new.iter()
                .map(|key| 2 * key.len() + size_of::<String>())
                .sum(),
        )?;
        keys.extend(new);
    }
    let keys: Vec<String> = window(keys, listing.limit, listing.offset).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Table::default().texts("key", keys).set()])
}

/// A series as line protocol writes it.
fn key(measurement: &str, tags: &[(String, String)]) -> String {
    let mut key = String::new();
    escape(measurement, &[',', ' '], &mut key);
    for (name, value) in tags {
        key.push(',');
        escape(name, &[',', '=', ' '], &mut key);
        key.push('=');
        escape(value, &[',', '=', ' '], &mut key);
    }
    key
}

fn escape(text: &str, special: &[char], out: &mut String) {
    for char in text.chars() {
        if special.contains(&char) {
            out.push('\\');
        }
        out.push(char);
    }
}

pub(super) fn field_keys(context: &Context, listing: &Listing) -> Result<Vec<Set>, ServiceError> {
    let view = View::of_policies(context, listing.database.as_deref(), &listing.sources)?;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let fields = fields(&view, tables)?;
        let fields: Vec<_> = window(fields, listing.limit, listing.offset).collect();
        if fields.is_empty() {
            continue;
        }
        let table = Table::named(name)
            .texts("fieldKey", fields.iter().map(|(key, _)| key))
            .texts("fieldType", fields.iter().map(|(_, kind)| kind));
        sets.push(table.set());
    }
    Ok(sets)
}

/// Fields and their types, sorted.
pub(super) fn fields(
    view: &View,
    tables: &[Arc<TableSchema>],
) -> Result<BTreeSet<(String, &'static str)>, ServiceError> {
    let mut fields = BTreeSet::new();
    for table in tables {
        if live_ever(&view.snapshot, table)?.is_empty() {
            continue;
        }
        for field in &table.fields {
            if let ColumnKind::Field(kind) = field.kind {
                fields.insert((field.name.clone(), type_name(kind)));
            }
        }
    }
    Ok(fields)
}

fn type_name(kind: PhysicalType) -> &'static str {
    match kind {
        PhysicalType::F64 => "float",
        PhysicalType::I64 => "integer",
        PhysicalType::U64 => "unsigned",
        PhysicalType::Bool => "boolean",
        // There is no such type there; texts are the nearest.
        PhysicalType::Text | PhysicalType::Bytes => "string",
    }
}

/// Which tag keys are wanted.
pub(super) enum Keys {
    All,
    Names(Vec<String>, bool),
    Pattern(Regex, bool),
}

impl Keys {
    pub(super) fn of(choice: Option<&KeyChoice>) -> Result<Self, Error> {
        Ok(match choice {
            None => Self::All,
            Some(KeyChoice::Name(operator, name)) => {
                Self::Names(vec![name.clone()], *operator == KeyOperator::Is)
            }
            Some(KeyChoice::In(names)) => Self::Names(names.clone(), true),
            Some(KeyChoice::Pattern(operator, pattern)) => {
                Self::Pattern(regex(pattern)?, *operator == KeyOperator::Is)
            }
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names, is_wanted) => names.iter().any(|name| name == key) == *is_wanted,
            Self::Pattern(pattern, is_wanted) => pattern.is_match(key) == *is_wanted,
        }
    }
}

/// Values of tags by key, of the series that a condition selects.
pub(super) type Values = BTreeMap<String, BTreeSet<String>>;

/// The wanted tags of a measurement. Without `all`, one value of each is enough.
pub(super) fn tags(
    view: &View,
    tables: &[Arc<TableSchema>],
    keys: &Keys,
    split: &Split<'_>,
    all: bool,
) -> Result<Values, ServiceError> {
    let mut found = Values::new();
    for table in tables {
        let wanted: Vec<_> = table
            .tags
            .iter()
            .filter(|tag| keys.has(&tag.name))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let series = view.series(table, split)?;
        for tag in wanted {
            let column = view.snapshot.series_tag(table, tag.id, &series)?;
            let mut values = (0..series.len()).filter_map(|at| column.value(at));
            let Some(first) = values.next() else { continue };
            let known = found.entry(tag.name.clone()).or_default();
            known.insert(first.to_owned());
            for value in values.take(if all { usize::MAX } else { 0 }) {
                if !known.contains(value) {
                    known.insert(value.to_owned());
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn tag_keys(
    context: &Context,
    keys: Option<&KeyChoice>,
    listing: &Listing,
) -> Result<Vec<Set>, ServiceError> {
    let chosen = Chosen::of_sources(&listing.sources)?;
    let view = View::of(context, listing.database.as_deref(), &chosen)?;
    let (keys, split) = (
        Keys::of(keys)?,
        split(listing.condition.as_ref(), context.engine.wall_ns())?,
    );
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let found = tags(&view, tables, &keys, &split, false)?.into_keys();
        let found: Vec<String> = window(found, listing.limit, listing.offset).collect();
        if !found.is_empty() {
            sets.push(Table::named(name).texts("tagKey", found).set());
        }
    }
    Ok(sets)
}

pub(super) fn tag_values(
    context: &Context,
    keys: &KeyChoice,
    listing: &Listing,
) -> Result<Vec<Set>, ServiceError> {
    let chosen = Chosen::of_sources(&listing.sources)?;
    let view = View::of(context, listing.database.as_deref(), &chosen)?;
    let (keys, mut split) = (
        Keys::of(Some(keys))?,
        split(listing.condition.as_ref(), context.engine.wall_ns())?,
    );
    let (wanted, rest) = match split.rest.take() {
        Some(rest) => values::divided(rest)?,
        None => (None, None),
    };
    split.rest = rest;
    let mut sets = Vec::new();
    for (name, tables) in &view.measurements {
        context.gather(0)?;
        let mut found = tags(&view, tables, &keys, &split, true)?;
        if let Some(wanted) = &wanted {
            for values in found.values_mut() {
                values.retain(|value| wanted.has(value));
            }
        }
        let pairs = found.iter().flat_map(|(key, values)| {
            let values = values.iter();
            values.map(move |value| (key, value))
        });
        let pairs: Vec<_> = window(pairs, listing.limit, listing.offset).collect();
        if pairs.is_empty() {
            continue;
        }
        context.gather(
            pairs
                .iter()
                .map(|(key, value)| key.len() + value.len() + 8)
                .sum(),
        )?;
        let table = Table::named(name)
            .texts("key", pairs.iter().map(|(key, _)| key))
            .texts("value", pairs.iter().map(|(_, value)| value));
        sets.push(table.set());
    }
    Ok(sets)
}
