//! All relations of a data directory.
//!
//! Does: apply the changes of a batch as a whole or not at all, check keys, say what a flush must write. Does not:
//! take LSNs, log or touch the disk.
//!
//! The caller holds the sequencer, so changes come in LSN order. What a batch changes is not visible before its LSN is
//! durable, so taking back a refused batch disturbs no reader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustc_hash::FxHashMap;

use super::value::{Row, Value};
use super::versions::{LIVE, Versions};
use super::{Change, RelationId, RelationSchema, Rows};
use crate::declared::Declarations;
use crate::error::{Error, Malformed};
use crate::sabotage::Sabotage;
use crate::schema::{Lsn, SchemaId};

/// Every relation, dropped ones as long as somebody may see them.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    by_id: BTreeMap<RelationId, Relation>,
    /// By schema and name, oldest first; one of them at most is not dropped.
    by_name: BTreeMap<SchemaId, FxHashMap<String, Vec<RelationId>>>,
    /// A planted bug.
    sabotage: Option<Sabotage>,
    /// A planted bug: rows that come are entered under their primary keys only.
    is_careless: bool,
}

#[derive(Debug)]
struct Relation {
    schema: Arc<RelationSchema>,
    rows: Versions,
    /// When it was dropped; [`LIVE`] = it was not.
    to: Lsn,
    changed_lsn: Lsn,
    /// The first number that no row of a relation without a key has had, or was promised.
    next_row: AtomicI64,
    /// The file that has its rows as of `filed_lsn`.
    file: Option<u64>,
    filed_lsn: Lsn,
}

/// Why a batch is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    Unknown(RelationId),
    NameTaken(String),
    Shape {
        relation: String,
        reason: &'static str,
    },
    Key {
        relation: String,
        key: String,
        constraint: String,
        row: usize,
        values: String,
    },
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown(id) => Self::RelationDropped { id: id.0 },
            Refused::NameTaken(name) => Self::ExistsAlready {
                what: "relation",
                name,
                place: "the schema".to_owned(),
            },
            Refused::Shape { relation, reason } => Self::RelationRow {
                relation,
                row: 1,
                reason: reason.to_owned(),
            },
            Refused::Key {
                relation,
                key,
                constraint,
                row,
                values,
            } => Self::RelationKey {
                relation,
                key,
                constraint,
                row,
                values,
            },
        }
    }
}

impl From<Refused> for Malformed {
    fn from(refused: Refused) -> Self {
        Self::new(format!(
            "a change of a relation does not fit what came before it: {}",
            Error::from(refused)
        ))
    }
}

/// One thing that was done, so that it can be taken back.
#[derive(Clone)]
enum Done {
    Created(RelationId),
    Dropped(RelationId),
    /// With what it was before.
    Declared(RelationId, Arc<RelationSchema>),
    Added(RelationId, u32),
    Ended(RelationId, u32),
}

/// A relation as a flush writes it.
#[derive(Debug)]
pub(crate) struct Filed {
    pub(crate) schema: Arc<RelationSchema>,
    pub(crate) rows: Vec<Row>,
}

/// What a flush must do to the files of relations.
#[derive(Debug, Default)]
pub(crate) struct RelationCheckpoint {
    /// Each goes to a new file.
    pub(crate) changed: Vec<Filed>,
    /// Ids of files that are not needed then.
    pub(crate) removed: Vec<u64>,
    lsn: Lsn,
}

impl Relations {
    /// Plants a bug, if there is one to be planted.
    pub(crate) fn sabotaged(self, sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..self }
    }

    /// Applies changes that the log has.
    pub(crate) fn replay(&mut self, lsn: Lsn, changes: &[Change]) -> Result<(), Refused> {
        self.is_careless = self.sabotage == Some(Sabotage::UniqueKeysNotReplayed);
        let outcome = self.apply(lsn, changes);
        self.is_careless = false;
        outcome
    }

    /// Applies changes at an LSN above all before. After an error nothing has changed.
    pub(crate) fn apply(&mut self, lsn: Lsn, changes: &[Change]) -> Result<(), Refused> {
        let mut done = Vec::new();
        for change in changes {
            if let Err(refused) = self.apply_one(lsn, change, &mut done) {
                for one in done.into_iter().rev() {
                    self.take_back(one);
                }
                return Err(refused);
            }
        }
        for one in &done {
            // A drop changes no row: the file of before it is still right for a flush of before it.
            if let Done::Created(id)
            | Done::Declared(id, _)
            | Done::Added(id, _)
            | Done::Ended(id, _) = one
                && let Some(relation) = self.by_id.get_mut(id)
            {
                relation.changed_lsn = lsn;
            }
        }
        Ok(())
    }

    fn apply_one(
        &mut self,
        lsn: Lsn,
        change: &Change,
        done: &mut Vec<Done>,
    ) -> Result<(), Refused> {
        let (id, rows, replace) = match change {
            Change::Create(schema) => {
                let made = RelationSchema {
                    id: RelationId(lsn),
                    ..schema.clone()
                };
                let is_second = self.by_id.contains_key(&made.id);
                if is_second || self.named(made.schema, &made.name).is_some() {
                    return Err(Refused::NameTaken(made.name));
                }
                done.push(Done::Created(made.id));
                self.insert(Relation::new(Arc::new(made)));
                return Ok(());
            }
            Change::Declare(id, declared) => {
                let relation = self.live_mut(*id)?;
                let mut schema = RelationSchema::clone(&relation.schema);
                let was_numbered = schema.row_number().is_some();
                let is_refused = schema.declare(Declarations::clone(declared)).is_err();
                if is_refused || schema.row_number().is_some() != was_numbered {
                    return Err(Refused::Shape {
                        relation: schema.name,
                        reason: "its columns are not those that are declared",
                    });
                }
                let before = std::mem::replace(&mut relation.schema, Arc::new(schema));
                done.push(Done::Declared(*id, before));
                return Ok(());
            }
            Change::Drop(id) => {
                self.live_mut(*id)?.to = lsn;
                done.push(Done::Dropped(*id));
                return Ok(());
            }
            Change::Delete(id, keys) => {
                let relation = self.live_mut(*id)?;
                relation.check_shape(keys, true)?;
                for at in 0..keys.rows {
                    let key = relation.row_of(keys, at)?;
                    if let Some(slot) = relation.rows.find(0, &key, LIVE - 1) {
                        relation.rows.end(slot, lsn);
                        done.push(Done::Ended(*id, slot));
                    }
                }
                return Ok(());
            }
            Change::Insert(id, rows) => (*id, rows, false),
            Change::Replace(id, rows) => (*id, rows, true),
        };
        let is_careless = self.is_careless;
        let relation = self.live_mut(id)?;
        relation.check_shape(rows, false)?;
        relation.note_numbers(rows);
        for at in 0..rows.rows {
            let row = relation.row_of(rows, at)?;
            if replace && let Some(slot) = relation.rows.find_same(0, &row) {
                relation.rows.end(slot, lsn);
                done.push(Done::Ended(id, slot));
            }
            if let Some((key, values)) = relation.rows.conflict(&row) {
                return Err(relation.schema.key_refused(key, at, &values));
            }
            let slot = relation.rows.add(&row, lsn);
            if is_careless {
                relation.rows.forget_unique_keys(slot);
            }
            done.push(Done::Added(id, slot));
        }
        Ok(())
    }

    fn take_back(&mut self, one: Done) {
        match one {
            Done::Created(id) => self.remove(id),
            Done::Dropped(id) => {
                if let Some(relation) = self.by_id.get_mut(&id) {
                    relation.to = LIVE;
                }
            }
            Done::Declared(id, before) => {
                if let Some(relation) = self.by_id.get_mut(&id) {
                    relation.schema = before;
                }
            }
            Done::Added(id, slot) => {
                if let Some(relation) = self.by_id.get_mut(&id) {
                    relation.rows.unadd(slot);
                }
            }
            Done::Ended(id, slot) => {
                if let Some(relation) = self.by_id.get_mut(&id) {
                    relation.rows.unend(slot);
                }
            }
        }
    }

    /// Drops the relations whose schema is gone, or whose name is a table's now, at the LSN of the definitions that made it so.
    pub(crate) fn drop_displaced(&mut self, lsn: Lsn, is_there: impl Fn(&RelationSchema) -> bool) {
        for relation in self.by_id.values_mut() {
            if relation.to == LIVE && !is_there(&relation.schema) {
                relation.to = lsn;
            }
        }
    }

    fn live_mut(&mut self, id: RelationId) -> Result<&mut Relation, Refused> {
        let relation = self.by_id.get_mut(&id);
        relation
            .filter(|relation| relation.to == LIVE)
            .ok_or(Refused::Unknown(id))
    }

    fn insert(&mut self, relation: Relation) {
        let schema = &relation.schema;
        let names = self.by_name.entry(schema.schema).or_default();
        let ids = names.entry(schema.name.clone()).or_default();
        ids.push(schema.id);
        self.by_id.insert(schema.id, relation);
    }

    fn remove(&mut self, id: RelationId) {
        let Some(relation) = self.by_id.remove(&id) else {
            return;
        };
        let schema = &relation.schema;
        let Some(names) = self.by_name.get_mut(&schema.schema) else {
            return;
        };
        if let Some(ids) = names.get_mut(&schema.name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                names.remove(&schema.name);
            }
        }
    }

    /// Takes a relation from its file; they are read before the log is.
    pub(crate) fn take_filed(
        &mut self,
        filed: &Filed,
        file_id: u64,
        lsn: Lsn,
    ) -> Result<(), Malformed> {
        if self.by_id.contains_key(&filed.schema.id) {
            return Err(Malformed::new("two files have one relation"));
        }
        if self
            .named(filed.schema.schema, &filed.schema.name)
            .is_some()
        {
            return Err(Malformed::new("two relations have one name"));
        }
        let mut relation = Relation::new(Arc::clone(&filed.schema));
        for (at, row) in filed.rows.iter().enumerate() {
            if let Some((key, values)) = relation.rows.conflict(row) {
                return Err(relation.schema.key_refused(key, at, &values).into());
            }
            relation.rows.add(row, filed.schema.id.0);
            if let Some(Value::I64(number)) = filed.schema.row_number().and_then(|at| row.get(at)) {
                let next = relation.next_row.get_mut();
                *next = (*next).max(number.saturating_add(1));
            }
        }
        relation.file = Some(file_id);
        relation.filed_lsn = lsn;
        relation.changed_lsn = lsn;
        self.insert(relation);
        Ok(())
    }

    /// What must become of the files so that they hold every relation as of `lsn`. The caller holds that LSN.
    pub(crate) fn checkpoint(&self, lsn: Lsn) -> RelationCheckpoint {
        let mut due = RelationCheckpoint {
            lsn,
            ..RelationCheckpoint::default()
        };
        for relation in self.by_id.values() {
            let is_changed = relation.file.is_none() || relation.changed_lsn > relation.filed_lsn;
            if relation.to <= lsn {
                due.removed.extend(relation.file);
            } else if relation.schema.id.0 <= lsn && is_changed {
                due.removed.extend(relation.file);
                due.changed.push(Filed {
                    schema: relation.schema_now(),
                    rows: relation.rows.visible(lsn),
                });
            }
        }
        due
    }

    /// The manifest says what the checkpoint asked for; `files` are the new ones, in the order of `done.changed`.
    pub(crate) fn checkpointed(&mut self, done: &RelationCheckpoint, files: &[u64]) {
        for relation in self.by_id.values_mut() {
            relation.file = relation.file.filter(|id| !done.removed.contains(id));
        }
        for (filed, &file) in done.changed.iter().zip(files) {
            if let Some(relation) = self.by_id.get_mut(&filed.schema.id) {
                relation.file = Some(file);
                relation.filed_lsn = done.lsn;
                if self.sabotage == Some(Sabotage::RelationFiledEarly) {
                    relation.filed_lsn = relation.changed_lsn;
                }
            }
        }
    }

    /// Forgets what no LSN from `lowest` up sees.
    pub(crate) fn prune(&mut self, lowest: Lsn) {
        let mut gone = Vec::new();
        for (id, relation) in &mut self.by_id {
            relation.rows.prune(lowest);
            // One that has a file stays until a flush has dropped the file.
            if relation.to <= lowest && relation.file.is_none() {
                gone.push(*id);
            }
        }
        for id in gone {
            self.remove(id);
        }
    }

    /// The relation that has this name now, durable or not.
    pub(crate) fn named(&self, schema: SchemaId, name: &str) -> Option<&Arc<RelationSchema>> {
        self.named_at(schema, name, LIVE - 1)
    }

    /// The relation that has this name as of an LSN.
    pub(crate) fn named_at(
        &self,
        schema: SchemaId,
        name: &str,
        lsn: Lsn,
    ) -> Option<&Arc<RelationSchema>> {
        let ids = self.by_name.get(&schema)?.get(name)?;
        let relations = ids.iter().filter_map(|id| self.by_id.get(id));
        let mut seen = relations.filter(|relation| relation.is_visible(lsn));
        seen.next().map(|relation| &relation.schema)
    }

    /// Relations of a schema as of an LSN, by name.
    pub(crate) fn of_schema(&self, schema: SchemaId, lsn: Lsn) -> Vec<Arc<RelationSchema>> {
        let of =
            |relation: &&Relation| relation.schema.schema == schema && relation.is_visible(lsn);
        let seen = self.by_id.values().filter(of);
        let mut all: Vec<_> = seen.map(|it| Arc::clone(&it.schema)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The relations of a name that are there now, in whatever schema.
    pub(crate) fn everywhere(&self, name: &str) -> Vec<Arc<RelationSchema>> {
        let named = self.by_name.keys().filter_map(|id| self.named(*id, name));
        named.cloned().collect()
    }

    /// The row whose key of this number has these values, as of an LSN.
    pub(crate) fn find(
        &self,
        id: RelationId,
        key: usize,
        values: &[Value],
        lsn: Lsn,
    ) -> Option<Row> {
        let rows = &self.by_id.get(&id)?.rows;
        rows.row(rows.find(key, values, lsn)?).cloned()
    }

    /// A relation that is there now.
    pub(crate) fn schema(&self, id: RelationId) -> Option<&Arc<RelationSchema>> {
        let relation = self.by_id.get(&id).filter(|it| it.to == LIVE);
        relation.map(|relation| &relation.schema)
    }

    /// The same, as it would be made anew: with the first number that none of its rows has had.
    pub(crate) fn schema_now(&self, id: RelationId) -> Option<Arc<RelationSchema>> {
        let relation = self.by_id.get(&id).filter(|it| it.to == LIVE);
        relation.map(Relation::schema_now)
    }

    /// The first of so many numbers of rows that nobody else gets.
    pub(crate) fn take_numbers(&self, id: RelationId, rows: usize) -> Option<i64> {
        let relation = self.by_id.get(&id)?;
        let rows = i64::try_from(rows).ok()?;
        let first = relation.next_row.fetch_add(rows, Ordering::Relaxed);
        Some(first)
    }

    /// The row of now that shares the key of this number with `row`.
    pub(super) fn find_same(&self, id: RelationId, key: usize, row: &[Value]) -> Option<Row> {
        let rows = &self.by_id.get(&id)?.rows;
        rows.row(rows.find_same(key, row)?).cloned()
    }

    /// The LSN that made the row of this primary key what it is now.
    pub(super) fn since(&self, id: RelationId, key: &[Value]) -> Option<Lsn> {
        let relation = self.by_id.get(&id).filter(|it| it.to == LIVE)?;
        relation.rows.since(relation.rows.find(0, key, LIVE - 1)?)
    }

    /// The LSN of the last change of any relation.
    pub(crate) fn last_lsn(&self) -> Lsn {
        let all = self.by_id.values();
        all.map(|relation| relation.changed_lsn).max().unwrap_or(0)
    }

    /// The LSN of the last change of a relation.
    pub(crate) fn changed_lsn(&self, id: RelationId) -> Lsn {
        let relation = self.by_id.get(&id);
        relation.map_or(0, |relation| relation.changed_lsn)
    }

    /// The rows of a relation as of an LSN.
    pub(crate) fn rows(&self, id: RelationId, lsn: Lsn) -> Vec<Row> {
        let relation = self.by_id.get(&id);
        relation.map_or_else(Vec::new, |relation| relation.rows.visible(lsn))
    }

    /// Number of rows of a relation that are there now.
    pub(crate) fn live(&self, id: RelationId) -> usize {
        let relation = self.by_id.get(&id);
        relation.map_or(0, |relation| relation.rows.live())
    }

    /// The relation of the first row that changes replace or delete and that is not the one that was there as of `lsn`,
    /// with the LSN of its last change.
    pub(crate) fn overtaken(&self, changes: &[Change], lsn: Lsn) -> Option<(String, Lsn)> {
        changes.iter().find_map(|change| {
            let (id, rows, by_key) = match change {
                Change::Replace(id, rows) => (id, rows, false),
                Change::Delete(id, rows) => (id, rows, true),
                Change::Create(_) | Change::Declare(..) | Change::Drop(_) | Change::Insert(..) => {
                    return None;
                }
            };
            let relation = self.by_id.get(id)?;
            let is_same = |at: usize| {
                let row = rows.row(at)?;
                let slot = if by_key {
                    relation.rows.find(0, &row, LIVE - 1)?
                } else {
                    relation.rows.find_same(0, &row)?
                };
                (relation.rows.since(slot)? <= lsn).then_some(())
            };
            let is_news = (0..rows.rows).any(|at| is_same(at).is_none());
            is_news.then(|| (relation.schema.name.clone(), relation.changed_lsn))
        })
    }

    /// Relations and rows that are there now, and the memory of all versions.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let live = || self.by_id.values().filter(|relation| relation.to == LIVE);
        let rows: usize = live().map(|relation| relation.rows.live()).sum();
        let bytes: usize = self.by_id.values().map(|it| it.rows.bytes()).sum();
        (live().count() as u64, rows as u64, bytes as u64)
    }

    /// Versions that are kept in memory.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.by_id
            .values()
            .map(|relation| relation.rows.kept())
            .sum()
    }
}

impl Relation {
    fn new(schema: Arc<RelationSchema>) -> Self {
        Self {
            rows: Versions::new(&schema),
            next_row: AtomicI64::new(schema.declared_row_number()),
            to: LIVE,
            changed_lsn: schema.id.0,
            file: None,
            filed_lsn: 0,
            schema,
        }
    }

    fn is_visible(&self, lsn: Lsn) -> bool {
        self.schema.id.0 <= lsn && lsn < self.to
    }

    /// Numbers that rows have are nobody else's, whoever gave them: a transaction, or the log.
    fn note_numbers(&mut self, rows: &Rows) {
        let largest = self.schema.row_number().and_then(|at| rows.largest(at));
        if let Some(largest) = largest {
            let next = self.next_row.get_mut();
            *next = (*next).max(largest.saturating_add(1));
        }
    }

    /// What it is, with the first number that no row has had.
    fn schema_now(&self) -> Arc<RelationSchema> {
        let mut schema = Arc::clone(&self.schema);
        if schema.row_number().is_some() {
            let made = Arc::make_mut(&mut schema);
            if let Some(declared) = &mut made.declared {
                let table = &mut Arc::make_mut(declared).table;
                table.row_number = Some(self.next_row.load(Ordering::Relaxed));
            }
        }
        schema
    }

    /// Whether rows, or keys, have the columns that they must have.
    fn check_shape(&self, rows: &Rows, keys: bool) -> Result<(), Refused> {
        let schema = &self.schema;
        let wanted: Vec<u32> = if keys {
            schema.primary_key.clone()
        } else {
            (0u32..).take(schema.columns.len()).collect()
        };
        let given = rows.columns.iter();
        let fits = given.clone().map(|column| column.id.0).eq(wanted)
            && given.clone().all(|given| {
                let column = schema.columns.get(given.id.0 as usize);
                column.is_some_and(|column| column.kind == given.values.kind())
                    && given.values.len() == rows.rows
            });
        let has_null = |given: &crate::batch::Column| {
            let column = schema.columns.get(given.id.0 as usize);
            given.validity.nulls() > 0 && column.is_some_and(|column| !column.nullable)
        };
        let reason = if !fits {
            "its columns are not those of the relation"
        } else if given.clone().any(has_null) {
            "it has a null where none may be"
        } else {
            return Ok(());
        };
        Err(Refused::Shape {
            relation: schema.name.clone(),
            reason,
        })
    }

    fn row_of(&self, rows: &Rows, at: usize) -> Result<Row, Refused> {
        rows.row(at).ok_or_else(|| Refused::Shape {
            relation: self.schema.name.clone(),
            reason: "its text is not UTF-8",
        })
    }
}

impl RelationSchema {
    /// The first number that no row has had, as it is declared.
    fn declared_row_number(&self) -> i64 {
        let declared = self.declared.as_ref();
        declared.and_then(|it| it.table.row_number).unwrap_or(1)
    }

    /// The key of this number has the values of a row that is there.
    pub(super) fn key_refused(&self, key: usize, row: usize, values: &[Value]) -> Refused {
        let schema = self;
        let (what, columns) = match key.checked_sub(1).and_then(|at| schema.unique.get(at)) {
            None => ("primary key", &schema.primary_key),
            Some(columns) => ("unique key", columns),
        };
        let names: Vec<&str> = columns
            .iter()
            .filter_map(|&at| schema.columns.get(at as usize))
            .map(|column| column.name.as_str())
            .collect();
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        Refused::Key {
            relation: schema.name.clone(),
            key: format!("{what} ({})", names.join(", ")),
            constraint: schema.key_name(key),
            row: row + 1,
            values: values.join(", "),
        }
    }
}

#[cfg(test)]
mod tests;
