//! Continuous aggregates: views whose answers are stored, kept as rows of a relation in the schema of the view.
//!
//! Does: make the view and the table of its stored answers together, say which tables they depend on, drop them. Does not:
//! understand the query, or compute anything: the language that wrote it does.

use std::sync::Arc;

use nilometer_engine::{
    AggregateKey, AggregateSource, ColumnKind, DeclaredTable, Duplicates, Engine,
    Error as EngineError, PhysicalType, RelationChange, Snapshot, TableId, TableSettings, Value,
    nearest,
};

use super::{remove, store, view, views};
use crate::access::{Principal, Privilege};
use crate::define::change::{Change, Column, Path, TableName};
use crate::define::error::{DefineError, Object, Part};
use crate::define::kept::{Kept, integer, text};
use crate::define::lookup;
use crate::define::own_relations::AGGREGATES;
use crate::define::place::{Place, check_table, must_be_new, refuse_reserved};
use crate::define::run::run;
use crate::error::Error;
use crate::write::sessions::Scope;

const KEPT: Kept = Kept {
    relation: AGGREGATES,
    columns: &[
        ("view", PhysicalType::Text),
        ("number", PhysicalType::I64),
        ("stored", PhysicalType::Text),
        ("is_stored_only", PhysicalType::I64),
        ("source_database", PhysicalType::Text),
        ("source_schema", PhysicalType::Text),
        ("source", PhysicalType::Text),
        ("bucket", PhysicalType::Text),
    ],
};

/// A continuous aggregate as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// The view.
    pub name: TableName,
    /// What no other one has: the id of the table of its stored answers.
    pub number: i64,
    /// The table with the stored answers, in the schema of the view.
    pub stored: String,
    /// It answers what is stored, and nothing of what has changed since.
    pub is_stored_only: bool,
    /// The table, or aggregate, whose time is bucketed.
    pub source: TableName,
    /// Its bucket, in words of the language that made it.
    pub bucket: String,
}

impl Aggregate {
    /// As the engine asks for it.
    pub fn key(&self) -> AggregateKey<'_> {
        AggregateKey {
            database: &self.name.database,
            schema: &self.name.schema,
            number: self.number,
        }
    }

    fn row(&self) -> Vec<Value> {
        vec![
            Value::from(self.name.table.as_str()),
            Value::from(self.number),
            Value::from(self.stored.as_str()),
            Value::from(i64::from(self.is_stored_only)),
            Value::from(self.source.database.as_str()),
            Value::from(self.source.schema.as_str()),
            Value::from(self.source.table.as_str()),
            Value::from(self.bucket.as_str()),
        ]
    }

    fn of((database, schema): (&str, &str), row: &[Value]) -> Self {
        let within = |table: &str| TableName {
            database: database.to_owned(),
            schema: schema.to_owned(),
            table: table.to_owned(),
        };
        Self {
            name: within(text(row, 0)),
            number: integer(row, 1),
            stored: text(row, 2).to_owned(),
            is_stored_only: integer(row, 3) != 0,
            source: TableName {
                database: text(row, 4).to_owned(),
                schema: text(row, 5).to_owned(),
                table: text(row, 6).to_owned(),
            },
            bucket: text(row, 7).to_owned(),
        }
    }
}

/// A continuous aggregate to be made. The language has checked its query.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAggregate {
    /// The view.
    pub path: Path,
    /// Its query as it was written.
    pub query: String,
    /// See [`Aggregate::is_stored_only`].
    pub is_stored_only: bool,
    /// See [`Aggregate::source`].
    pub source: TableName,
    /// See [`Aggregate::bucket`].
    pub bucket: String,
    /// About how wide a bucket is, in nanoseconds.
    pub width_ns: i64,
    /// What its query reads.
    pub reads: Vec<AggregateSource>,
    /// The columns of its answers, without the bucket.
    pub columns: Vec<Column>,
    /// The bucket as the time of the table of its answers.
    pub declared: DeclaredTable,
}

/// The continuous aggregate of a name.
pub fn aggregate(
    snapshot: &Snapshot,
    database: &str,
    schema: &str,
    name: &str,
) -> Option<Aggregate> {
    let within = (database, schema);
    let row = KEPT.row(snapshot, within, name)?;
    // What a crash left of one that was being made or dropped is none.
    view(snapshot, database, schema, name)?;
    Some(Aggregate::of(within, &row))
}

/// The continuous aggregates of a schema, by name.
pub fn aggregates(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<Aggregate> {
    let names = views(snapshot, database, schema);
    let found = names
        .iter()
        .filter_map(|name| aggregate(snapshot, database, schema, name));
    found.collect()
}

/// All continuous aggregates of a database.
fn all(snapshot: &Snapshot, database: &str) -> Vec<Aggregate> {
    let schemas = snapshot.schemas(database).unwrap_or_default();
    let of = |schema: &String| aggregates(snapshot, database, schema);
    schemas.iter().flat_map(of).collect()
}

/// What names of tables with stored answers begin with.
const STORED: &str = "_materialized_";

/// The name of the table with the stored answers of a view.
fn stored_name(view: &str) -> String {
    format!("{STORED}{view}")
}

/// Makes a continuous aggregate, of which nothing is computed. `None` = a view of the name is there, and stays.
pub fn create_aggregate(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    new: NewAggregate,
    if_not_exists: bool,
) -> Result<Option<Aggregate>, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.path)?;
    let name = place.table(new.path)?;
    refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
    let (database, schema) = (&name.database, &name.schema);
    let snapshot = engine.snapshot();
    lookup::find_schema(&snapshot, database, schema)
        .map_err(|missing| missing.about(Part::Start))?;
    let shown = format!("\"{database}\".\"{schema}\"");
    let is_view = view(&snapshot, database, schema, &name.table).is_some();
    if is_view && if_not_exists {
        return Ok(None);
    }
    must_be_new(!is_view, "view", &name.table, &shown)?;
    let is_table = snapshot.table(database, schema, &name.table).is_some();
    let is_relation = lookup::find_relation(&snapshot, database, schema, &name.table).is_some();
    must_be_new(!is_table && !is_relation, "table", &name.table, &shown)?;
    let stored = stored_name(&name.table);
    // Left by one whose making a crash ended.
    if KEPT
        .row(&snapshot, (database, schema), name.table.as_str())
        .is_some()
    {
        engine.drop_table(database, schema, &stored)?;
        KEPT.forget(
            engine,
            (database, schema),
            vec![Value::from(name.table.as_str())],
        )?;
    }
    let settings = TableSettings {
        duplicates: Duplicates::Keep,
        ..TableSettings::default()
    };
    let table = Change::CreateTable {
        path: Path {
            before: vec![database.clone(), schema.clone()],
            last: stored.clone(),
        },
        if_not_exists: false,
        columns: new.columns,
        settings,
        declared: new.declared,
        is_hypertable: true,
        payload: None,
    };
    run(engine, &Principal::anyone(), scope, table)?;
    let made = engine.snapshot().table(database, schema, &stored);
    let made = made.ok_or_else(|| EngineError::TableDropped {
        table: stored.clone(),
    })?;
    let aggregate = Aggregate {
        number: i64::from(made.id.0),
        stored,
        is_stored_only: new.is_stored_only,
        source: new.source,
        bucket: new.bucket,
        name,
    };
    engine.watch_aggregate(aggregate.key(), new.width_ns, &new.reads)?;
    let within = (
        aggregate.name.database.as_str(),
        aggregate.name.schema.as_str(),
    );
    KEPT.put(engine, within, aggregate.row())?;
    store(engine, &aggregate.name, &new.query)?;
    Ok(Some(aggregate))
}

/// A continuous aggregate that somebody wants to change; the error says that it is none.
pub fn aggregate_to_change(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    path: Path,
) -> Result<Aggregate, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let name = place.table(path)?;
    let snapshot = engine.snapshot();
    let (database, schema) = (&name.database, &name.schema);
    if let Some(found) = aggregate(&snapshot, database, schema, &name.table) {
        return Ok(found);
    }
    lookup::find_schema(&snapshot, database, schema)
        .map_err(|missing| missing.about(Part::Start))?;
    let known = aggregates(&snapshot, database, schema);
    let unknown = DefineError::Unknown {
        what: Object::Aggregate,
        nearest: nearest(&name.table, known.into_iter().map(|it| it.name.table)),
        name: name.shown(),
    };
    Err(unknown.about(Part::Start))
}

/// Sets whether a continuous aggregate answers what is stored and nothing else.
pub fn set_stored_only(
    engine: &Arc<Engine>,
    aggregate: &Aggregate,
    is_stored_only: bool,
) -> Result<(), Error> {
    let within = (
        aggregate.name.database.as_str(),
        aggregate.name.schema.as_str(),
    );
    let row = Aggregate {
        is_stored_only,
        ..aggregate.clone()
    }
    .row();
    Ok(KEPT.put(engine, within, row)?)
}

/// Drops a continuous aggregate with its stored answers.
pub fn drop_aggregate(engine: &Arc<Engine>, aggregate: &Aggregate) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let name = &aggregate.name;
    let above = all(&snapshot, &name.database);
    let above = above.iter().find(|it| it.source == *name);
    if let Some(above) = above {
        let in_use = DefineError::Aggregated {
            table: name.table.clone(),
            view: above.name.table.clone(),
        };
        return Err(in_use.about(Part::Name));
    }
    // The view first: what a crash leaves of the rest is nobody's, and goes when one of the name is made.
    remove(engine, name)?;
    engine.forget_aggregate(aggregate.key())?;
    engine.drop_table(&name.database, &name.schema, &aggregate.stored)?;
    let within = (name.database.as_str(), name.schema.as_str());
    Ok(KEPT.forget(engine, within, vec![Value::from(name.table.as_str())])?)
}

/// What takes the ranges that a refresh has computed out of those that may be wrong; see [`Engine::replace_invalidations`].
pub fn refreshed(
    engine: &Arc<Engine>,
    aggregate: &Aggregate,
    gone: &[nilometer_engine::Invalidation],
    left: &[(i64, i64, bool)],
) -> Result<Vec<RelationChange>, Error> {
    Ok(engine.replace_invalidations(aggregate.key(), gone, left)?)
}

/// Refuses to drop or rename what a continuous aggregate is made of: a table or relation that it reads, or its stored answers.
pub(in crate::define) fn refuse_in_use(
    snapshot: &Snapshot,
    name: &TableName,
    is_read: impl Fn(&AggregateSource) -> bool,
) -> Result<(), Error> {
    // Elsewhere nothing can read it.
    let databases = snapshot.databases();
    for aggregate in databases.iter().flat_map(|it| all(snapshot, it)) {
        let is_stored = aggregate.stored == name.table
            && aggregate.name.schema == name.schema
            && aggregate.name.database == name.database;
        let sources = snapshot.aggregate_sources(aggregate.key());
        if is_stored || sources.iter().any(&is_read) {
            let in_use = DefineError::Aggregated {
                table: name.table.clone(),
                view: aggregate.name.table,
            };
            return Err(in_use.about(Part::Name));
        }
    }
    Ok(())
}

/// Refuses to change a column of a table that a continuous aggregate reads, or that has its stored answers: its query names columns,
/// and what it has stored was computed of those that it knew.
pub(in crate::define) fn refuse_column_in_use(
    snapshot: &Snapshot,
    name: &TableName,
    id: TableId,
    column: &str,
) -> Result<(), Error> {
    let stored = stored_of(snapshot, &name.database, &name.schema, &name.table);
    let Some(view) = stored.or_else(|| reader_of(snapshot, id)) else {
        return Ok(());
    };
    let in_use = DefineError::AggregatedColumn {
        table: name.table.clone(),
        column: column.to_owned(),
        view: view.name.table,
    };
    Err(in_use.about(Part::Other))
}

/// A continuous aggregate that reads a table.
pub(in crate::define) fn reader_of(snapshot: &Snapshot, id: TableId) -> Option<Aggregate> {
    let databases = snapshot.databases();
    let mut all = databases.iter().flat_map(|it| all(snapshot, it));
    all.find(|aggregate| {
        let sources = snapshot.aggregate_sources(aggregate.key());
        sources.iter().any(|source| reads_table(source, id))
    })
}

/// The continuous aggregate whose stored answers a table has.
fn stored_of(snapshot: &Snapshot, database: &str, schema: &str, table: &str) -> Option<Aggregate> {
    let view = table.strip_prefix(STORED)?;
    aggregate(snapshot, database, schema, view).filter(|it| it.stored == table)
}

/// Refuses a write to the stored answers of a continuous aggregate: a refresh would not know of it.
pub fn refuse_stored_answers(
    snapshot: &Snapshot,
    database: &str,
    schema: &str,
    table: &str,
) -> Result<(), DefineError> {
    match stored_of(snapshot, database, schema, table) {
        Some(aggregate) => Err(DefineError::StoredAnswers {
            table: table.to_owned(),
            view: aggregate.name.table,
        }),
        None => Ok(()),
    }
}

/// Whether an aggregate that reads a source reads this table.
pub(in crate::define) fn reads_table(source: &AggregateSource, id: TableId) -> bool {
    matches!(source, AggregateSource::Times(it) | AggregateSource::Table(it) if *it == id)
}

/// A column of stored answers.
pub fn stored_column(name: &str, kind: PhysicalType) -> Column {
    Column {
        name: name.to_owned(),
        kind: ColumnKind::Field(kind),
        declared: nilometer_engine::Declared::default(),
    }
}

/// Whether somebody may refresh it: who may define it.
pub fn check_refresh(principal: &Principal, aggregate: &Aggregate) -> Result<(), Error> {
    let name = &aggregate.name;
    let about = crate::access::Place::table(&name.database, &name.schema, &name.table);
    principal.check(Privilege::Define, about)
}
