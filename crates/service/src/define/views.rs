//! Views: queries with a name, kept as rows of a relation in the schema they are in.
//!
//! Does: store the text of the query and find it again, durably and as of a snapshot, so that a schema takes its views
//! along when it is renamed or dropped. Does not: understand it; the language that wrote it plans it each time it is read.

pub(super) mod aggregates;
pub(super) mod enumerations;
pub(super) mod kept;
pub(super) mod kept_rows;
pub(super) mod policies;
pub(super) mod routine;
pub(super) mod routines;
pub(super) mod user_jobs;

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationSchema, Snapshot, Value,
};

use super::change::name::TableName;
use crate::define::own_relations::VIEWS;

/// The query of a view; `None` = there is no view of this name.
pub fn view(snapshot: &Snapshot, database: &str, schema: &str, name: &str) -> Option<String> {
    let row = snapshot
        .relation(database, schema, VIEWS)?
        .get(&[Value::from(name)])?;
    row.get(1).and_then(text)
}

/// Names of the views of a schema, sorted.
pub fn views(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<String> {
    let Some(relation) = snapshot.relation(database, schema, VIEWS) else {
        return Vec::new();
    };
    let rows = relation.rows();
    let mut names: Vec<String> = rows
        .iter()
        .filter_map(|row| row.first().and_then(text))
        .collect();
    names.sort();
    names
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Keeps a view; one of the name is replaced.
pub(super) fn store(
    engine: &Arc<Engine>,
    name: &TableName,
    query: &str,
) -> Result<(), EngineError> {
    let column = |name: &str| RelationColumn {
        name: name.to_owned(),
        kind: PhysicalType::Text,
        nullable: false,
    };
    let relation = NewRelation {
        columns: vec![column("name"), column("query")],
        primary_key: vec!["name".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation(&name.database, &name.schema, VIEWS, &relation)?;
    let row = vec![Value::from(name.table.as_str()), Value::from(query)];
    replace(engine, (&name.database, &name.schema), VIEWS, vec![row])
}

/// Forgets a view.
pub(super) fn remove(engine: &Arc<Engine>, name: &TableName) -> Result<(), EngineError> {
    let key = vec![Value::from(name.table.as_str())];
    let place = (name.database.as_str(), name.schema.as_str());
    delete(engine, place, VIEWS, key)
}

/// Forgets the row with a key of a relation of the store's own.
pub(super) fn delete(
    engine: &Arc<Engine>,
    place: (&str, &str),
    relation: &str,
    key: Vec<Value>,
) -> Result<(), EngineError> {
    write(engine, place, relation, |schema| {
        RelationChange::Delete(schema, vec![key])
    })
}

/// Keeps rows of a relation of the store's own in place of those of the same keys.
pub(super) fn replace(
    engine: &Arc<Engine>,
    place: (&str, &str),
    relation: &str,
    rows: Vec<Vec<Value>>,
) -> Result<(), EngineError> {
    write(engine, place, relation, |schema| {
        RelationChange::Replace(schema, rows)
    })
}

fn write(
    engine: &Arc<Engine>,
    (database, schema): (&str, &str),
    relation: &str,
    change: impl FnOnce(Arc<RelationSchema>) -> RelationChange,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let relation = snapshot
        .relation(database, schema, relation)
        .ok_or_else(|| EngineError::NotFound {
            what: "schema",
            name: schema.to_owned(),
            place: format!("database \"{database}\""),
            hint: "it was dropped meanwhile".to_owned(),
        })?;
    engine.write_relations(&[change(Arc::clone(relation.schema()))])?;
    Ok(())
}
