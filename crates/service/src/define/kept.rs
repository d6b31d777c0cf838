//! Records beside the definitions of tables, as rows of a relation in the schema they are in: the schema takes it along
//! when it is renamed or dropped.
//!
//! Does: read and change such rows. Does not: know what they mean.

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationReader, Snapshot, Value,
};

/// A relation of the store's own, which no statement can name by accident. Its first column is its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) relation: &'static str,
    pub(super) columns: &'static [(&'static str, PhysicalType)],
}

/// Where it is: a database and a schema.
pub(super) type Within<'a> = (&'a str, &'a str);

impl Kept {
    /// The relation, where something was kept.
    pub(super) fn reader(&self, snapshot: &Snapshot, within: Within<'_>) -> Option<RelationReader> {
        snapshot.relation(within.0, within.1, self.relation)
    }

    /// A row by its key.
    pub(super) fn row(
        &self,
        snapshot: &Snapshot,
        within: Within<'_>,
        key: impl Into<Value>,
    ) -> Option<Arc<[Value]>> {
        self.reader(snapshot, within)?.get(&[key.into()])
    }

    /// All rows.
    pub(super) fn rows(&self, snapshot: &Snapshot, within: Within<'_>) -> Vec<Arc<[Value]>> {
        let reader = self.reader(snapshot, within);
        reader.map_or_else(Vec::new, |reader| reader.rows())
    }

    /// Keeps a row; one of the same key is an error.
    pub(super) fn add(
        &self,
        engine: &Arc<Engine>,
        within: Within<'_>,
        row: Vec<Value>,
    ) -> Result<(), EngineError> {
        self.make(engine, within)?;
        self.change(engine, within, |schema| {
            RelationChange::Insert(schema, vec![row])
        })
    }

    /// What keeps a row, for who writes several things at once; one of the same key is an error.
    pub(super) fn insertion(
        &self,
        engine: &Arc<Engine>,
        within: Within<'_>,
        row: Vec<Value>,
    ) -> Result<RelationChange, EngineError> {
        self.make(engine, within)?;
        let reader = self.reader(&engine.snapshot(), within);
        let reader = reader.ok_or_else(|| dropped(within))?;
        Ok(RelationChange::Insert(
            Arc::clone(reader.schema()),
            vec![row],
        ))
    }

    /// Keeps a row in the place of that of the same key.
    pub(super) fn put(
        &self,
        engine: &Arc<Engine>,
        within: Within<'_>,
        row: Vec<Value>,
    ) -> Result<(), EngineError> {
        self.make(engine, within)?;
        self.change(engine, within, |schema| {
            RelationChange::Replace(schema, vec![row])
        })
    }

    /// Forgets rows by their keys; those that are not there do not matter.
    pub(super) fn forget(
        &self,
        engine: &Arc<Engine>,
        within: Within<'_>,
        keys: Vec<Value>,
    ) -> Result<(), EngineError> {
        if let Some(change) = self.deletion(&engine.snapshot(), within, keys) {
            engine.write_relations(&[change])?;
        }
        Ok(())
    }

    /// What forgets rows by their keys, for who writes several things at once; `None` = nothing was kept.
    pub(super) fn deletion(
        &self,
        snapshot: &Snapshot,
        within: Within<'_>,
        keys: Vec<Value>,
    ) -> Option<RelationChange> {
        let reader = self.reader(snapshot, within)?;
        let keys: Vec<Vec<Value>> = keys.into_iter().map(|key| vec![key]).collect();
        let schema = Arc::clone(reader.schema());
        (!keys.is_empty()).then_some(RelationChange::Delete(schema, keys))
    }

    fn make(&self, engine: &Arc<Engine>, within: Within<'_>) -> Result<(), EngineError> {
        let column = |&(name, kind): &(&str, PhysicalType)| RelationColumn {
            name: name.to_owned(),
            kind,
            nullable: false,
        };
        let key = self.columns.iter().take(1);
        let relation = NewRelation {
            columns: self.columns.iter().map(column).collect(),
            primary_key: key.map(|(name, _)| (*name).to_owned()).collect(),
            unique: Vec::new(),
        };
        engine.create_relation(within.0, within.1, self.relation, &relation)?;
        Ok(())
    }

    fn change(
        &self,
        engine: &Arc<Engine>,
        within: Within<'_>,
        change: impl FnOnce(Arc<nilometer_engine::RelationSchema>) -> RelationChange,
    ) -> Result<(), EngineError> {
        let reader = self.reader(&engine.snapshot(), within);
        let reader = reader.ok_or_else(|| dropped(within))?;
        engine.write_relations(&[change(Arc::clone(reader.schema()))])?;
        Ok(())
    }
}

fn dropped((database, schema): Within<'_>) -> EngineError {
    EngineError::NotFound {
        what: "schema",
        name: schema.to_owned(),
        place: format!("database \"{database}\""),
        hint: "it was dropped meanwhile".to_owned(),
    }
}

/// The text of a row's column; empty where it is none.
pub(super) fn text(row: &[Value], at: usize) -> &str {
    match row.get(at) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// The integer of a row's column; 0 where it is none.
pub(super) fn integer(row: &[Value], at: usize) -> i64 {
    match row.get(at) {
        Some(Value::I64(number)) => *number,
        _ => 0,
    }
}
