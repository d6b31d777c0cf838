//! Continuous aggregates as they are kept, and what they do not let others do.
//!
//! Does: find them, by their view, by what they read and by their stored answers; refuse what would make these wrong. Does not:
//! make or change one.

use std::sync::Arc;

use nilometer_engine::{
    AggregateKey, AggregateSource, Engine, Error as EngineError, PhysicalType, Snapshot, TableId,
    Value,
};

use super::view;
use crate::define::change::name::TableName;
use crate::define::error::{DefineError, Part};
use crate::define::kept::{Kept, integer, text};
use crate::define::own_relations::AGGREGATES;
use crate::error::Error;

pub(super) const KEPT: Kept = Kept {
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

    /// A name of the source's place: none where it is the view's own, so that a rename of it is none of this.
    fn beside<'a>(&self, name: &'a str, own: &str) -> &'a str {
        let is_within = self.source.database == self.name.database;
        if is_within && name == own { "" } else { name }
    }

    pub(super) fn row(&self) -> Vec<Value> {
        vec![
            Value::from(self.name.table.as_str()),
            Value::from(self.number),
            Value::from(self.stored.as_str()),
            Value::from(i64::from(self.is_stored_only)),
            Value::from(self.beside(&self.source.database, &self.name.database)),
            Value::from(self.beside(&self.source.schema, &self.name.schema)),
            Value::from(self.source.table.as_str()),
            Value::from(self.bucket.as_str()),
        ]
    }

    pub(super) fn of((database, schema): (&str, &str), row: &[Value]) -> Self {
        let named = |name: &str, own: &str| if name.is_empty() { own } else { name }.to_owned();
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
                database: named(text(row, 4), database),
                schema: named(text(row, 5), schema),
                table: text(row, 6).to_owned(),
            },
            bucket: text(row, 7).to_owned(),
        }
    }
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
    let within = (database, schema);
    let rows = KEPT.rows(snapshot, within);
    let all = rows.iter().map(|row| Aggregate::of(within, row));
    // What a crash left of one that was being made or dropped is none.
    let is_there = |it: &Aggregate| view(snapshot, database, schema, &it.name.table).is_some();
    let mut all: Vec<Aggregate> = all.filter(is_there).collect();
    all.sort_by(|one, other| one.name.table.cmp(&other.name.table));
    all
}

/// Keeps the new name of a schema where aggregates of other schemas have sources in it.
pub(in crate::define) fn follow_schema(
    engine: &Arc<Engine>,
    (database, schema): (&str, &str),
    to: &str,
) -> Result<(), EngineError> {
    follow_rename(engine, |source| {
        let is_it = source.database == database && source.schema == schema;
        if is_it {
            to.clone_into(&mut source.schema);
        }
        is_it
    })
}

/// The same of a database.
pub(in crate::define) fn follow_database(
    engine: &Arc<Engine>,
    database: &str,
    to: &str,
) -> Result<(), EngineError> {
    follow_rename(engine, |source| {
        let is_it = source.database == database;
        if is_it {
            to.clone_into(&mut source.database);
        }
        is_it
    })
}

fn follow_rename(
    engine: &Arc<Engine>,
    renamed: impl Fn(&mut TableName) -> bool,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let databases = snapshot.databases();
    for mut aggregate in databases.iter().flat_map(|it| all(&snapshot, it)) {
        if renamed(&mut aggregate.source) {
            let name = &aggregate.name;
            KEPT.put(engine, (&name.database, &name.schema), aggregate.row())?;
        }
    }
    Ok(())
}

/// The continuous aggregates of a database whose bucketed source has this name.
pub fn aggregates_of_table(snapshot: &Snapshot, table: &TableName) -> Vec<Aggregate> {
    let mut all = all(snapshot, &table.database);
    all.retain(|it| it.source == *table);
    all
}

/// All continuous aggregates of a database.
pub(super) fn all(snapshot: &Snapshot, database: &str) -> Vec<Aggregate> {
    let schemas = snapshot.schemas(database).unwrap_or_default();
    let of = |schema: &String| aggregates(snapshot, database, schema);
    schemas.iter().flat_map(of).collect()
}

/// What names of tables with stored answers begin with.
const STORED: &str = "_materialized_";

/// The name of the table with the stored answers of a view.
pub(super) fn stored_name(view: &str) -> String {
    format!("{STORED}{view}")
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

/// The table of the stored answers of a continuous aggregate; any other name as it is.
pub(in crate::define) fn stored_answers(snapshot: &Snapshot, name: TableName) -> TableName {
    match aggregate(snapshot, &name.database, &name.schema, &name.table) {
        Some(aggregate) => TableName {
            table: aggregate.stored,
            ..name
        },
        None => name,
    }
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

/// The same by the id of the table.
pub fn refuse_stored_table(snapshot: &Snapshot, id: TableId) -> Result<(), DefineError> {
    let databases = snapshot.databases();
    let mut all = databases.iter().flat_map(|it| all(snapshot, it));
    match all.find(|it| it.number == i64::from(id.0)) {
        Some(aggregate) => Err(DefineError::StoredAnswers {
            table: aggregate.stored,
            view: aggregate.name.table,
        }),
        None => Ok(()),
    }
}

/// Whether an aggregate that reads a source reads this table.
pub(in crate::define) fn reads_table(source: &AggregateSource, id: TableId) -> bool {
    matches!(source, AggregateSource::Times(it) | AggregateSource::Table(it) if *it == id)
}
