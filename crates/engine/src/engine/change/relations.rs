//! Relations in the engine: create, drop, write, flush and recovery.
//!
//! Does: turn names and rows of values into changes of a batch. Does not: order or log them, [`Engine::write`] does.

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::batch::Batch;
use crate::declared::{Declarations, Declared, ROW_NUMBER};
use crate::disk::Disk;
use crate::engine::change::ddl::{exists, find_schema, in_schema};
use crate::engine::sequencer::Sequencer;
use crate::engine::{Engine, LockedRows, Sequenced, Written, check_name};
use crate::error::{ConstraintKind, Error};
use crate::layout::side_name;
use crate::manifest::{FileKind, Manifest};
use crate::relation::{
    self, Change, ROWS_MAX, RelationColumn, RelationId, RelationSchema, Relations, Rows, Value,
};
use crate::schema::{Lsn, SchemaId};
use crate::snapshot::Snapshot;
use crate::state::State;

/// Longest text or bytes of one value, whatever the setting: a row is in memory as a whole.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Text and bytes of one change; its offsets are 32 bits.
const CHANGE_BYTES_MAX: usize = 1 << 30;

/// A relation to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRelation {
    /// Its columns.
    pub columns: Vec<RelationColumn>,
    /// Names of the columns that tell a row from all others, none nullable; none = the store numbers the rows, and shows nobody the
    /// numbers ([`ROW_NUMBER`]).
    pub primary_key: Vec<String>,
    /// More sets of names whose values no two rows share.
    pub unique: Vec<Vec<String>>,
}

/// What is to happen to a relation. Rows have a value, or null, for each column.
#[derive(Debug, Clone, PartialEq)]
pub enum RelationChange {
    /// Add rows; one whose primary key is there is an error.
    Insert(Arc<RelationSchema>, Vec<Vec<Value>>),
    /// Add rows; one whose primary key is there is replaced as a whole.
    Replace(Arc<RelationSchema>, Vec<Vec<Value>>),
    /// Take away the rows with these primary keys, as far as they are there.
    Delete(Arc<RelationSchema>, Vec<Vec<Value>>),
}

impl Engine {
    /// Keeps transactions from rows that are about to be written outside of one.
    pub(crate) fn locked(&self, changes: &[RelationChange]) -> Result<LockedRows<'_>, Error> {
        self.locks.while_writing(changes)
    }
}

impl RelationChange {
    /// The relation.
    pub fn schema(&self) -> &Arc<RelationSchema> {
        match self {
            Self::Insert(schema, _) | Self::Replace(schema, _) | Self::Delete(schema, _) => schema,
        }
    }

    /// Rows, or keys, that it names.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Insert(_, rows) | Self::Replace(_, rows) | Self::Delete(_, rows) => rows.len(),
        }
    }
}

impl Engine {
    /// Makes a relation. Returns whether it is new: one that is the same already is fine, another of the name, or a
    /// table, is not. Durable on return.
    pub fn create_relation(
        &self,
        database: &str,
        schema: &str,
        name: &str,
        new: &NewRelation,
    ) -> Result<bool, Error> {
        self.create_declared_relation(database, schema, name, new, Declarations::default())
    }

    /// As [`Self::create_relation`], declared as `declared` says.
    pub fn create_declared_relation(
        &self,
        database: &str,
        schema: &str,
        name: &str,
        new: &NewRelation,
        declared: Declarations,
    ) -> Result<bool, Error> {
        check_name("relation", name)?;
        for column in &new.columns {
            check_name("column", &column.name)?;
        }
        let (_, owner) = find_schema(&self.sequencer.catalogue(), database, schema)?;
        let mut declared = declared;
        let new = &new.numbered(&mut declared);
        let mut made = new.schema(owner, name)?;
        made.declare(declared)
            .map_err(|what| Error::RelationDefinition {
                name: name.to_owned(),
                reason: what.0,
            })?;
        // Bound first: the guard must be gone before the log is waited for.
        let known = self.sequencer.relations().named(made.schema, name).cloned();
        if let Some(known) = known {
            let same = RelationSchema {
                id: known.id,
                ..made
            };
            // Neither answer may be for something that a power cut takes back.
            self.sequencer.log().sync(known.id.0)?;
            if *known != same {
                return Err(exists("relation", name, in_schema(database, schema)));
            }
            return Ok(false);
        }
        self.change_relations(vec![Change::Create(made)])?;
        Ok(true)
    }

    /// Declares a relation that is there as what `change` makes of its declaration; the types of its columns stay. Durable on
    /// return.
    pub fn declare_relation(
        &self,
        database: &str,
        schema: &str,
        name: &str,
        change: impl FnOnce(&mut Declarations),
    ) -> Result<(), Error> {
        let (_, owner) = find_schema(&self.sequencer.catalogue(), database, schema)?;
        let known = self.sequencer.relations().named(owner, name).cloned();
        let known = known.ok_or_else(|| Error::NotFound {
            what: "relation",
            name: name.to_owned(),
            place: in_schema(database, schema),
            hint: "make it first".to_owned(),
        })?;
        let mut declared = known.declared.as_deref().cloned().unwrap_or_default();
        declared
            .columns
            .resize(known.columns.len(), Declared::default());
        change(&mut declared);
        self.change_relations(vec![Change::Declare(known.id, Arc::new(declared))])?;
        Ok(())
    }

    /// Drops a relation with its rows. Returns whether it was there; durable on return.
    pub fn drop_relation(&self, database: &str, schema: &str, name: &str) -> Result<bool, Error> {
        let (_, owner) = find_schema(&self.sequencer.catalogue(), database, schema)?;
        let Some(id) = self
            .sequencer
            .relations()
            .named(owner, name)
            .map(|it| it.id)
        else {
            // Somebody may have dropped it a moment ago, and a power cut could bring it back.
            let lsn = self.sequencer.lock().next_lsn - 1;
            self.sequencer.log().sync(lsn)?;
            return Ok(false);
        };
        self.change_relations(vec![Change::Drop(id)])?;
        Ok(true)
    }

    /// Changes relations: all of it, in this order, durable and visible on return, or nothing.
    pub fn write_relations(&self, changes: &[RelationChange]) -> Result<Lsn, Error> {
        let _locked = self.locked(changes)?;
        self.change_relations(self.encode_relations(changes)?)
    }

    /// Refuses rows with a text or bytes longer than a value may be. Asked for rows of users: what the store keeps for itself is
    /// bounded by [`VALUE_BYTES_MAX`] alone.
    pub fn check_relation_values(&self, changes: &[RelationChange]) -> Result<(), Error> {
        let most = self.options().value_bytes_max;
        let rows = changes.iter().flat_map(|change| match change {
            RelationChange::Insert(_, rows) | RelationChange::Replace(_, rows) => rows.as_slice(),
            RelationChange::Delete(..) => &[],
        });
        match rows.flatten().map(Value::heap_bytes).max() {
            Some(bytes) if bytes as u64 > most => Err(Error::Limit {
                what: "the bytes of one value",
                limit: most,
                needed: bytes as u64,
                remedy: "store less in one value, or raise the limit",
            }),
            _ => Ok(()),
        }
    }

    /// Refuses rows that a relation cannot have, whether or not they are written: NULL where there must be a value, values of other
    /// types.
    pub fn check_relation_rows(
        &self,
        schema: &RelationSchema,
        rows: &[Vec<Value>],
    ) -> Result<(), Error> {
        whole_rows(schema, rows, usize::MAX).map(drop)
    }

    /// As [`Self::write_relations`], if every row that is replaced or deleted is the one that `snapshot` shows. If one was
    /// written or deleted since, nothing is done and the error says so; a new snapshot shows what it is now.
    pub fn write_relations_as_seen(
        &self,
        snapshot: &Snapshot,
        changes: &[RelationChange],
    ) -> Result<Lsn, Error> {
        let _locked = self.locked(changes)?;
        let written = self.sequence_as_seen(snapshot, self.encode_relations(changes)?)?;
        self.sequencer.acknowledge(written.lsn, written.rows)?;
        Ok(written.lsn)
    }

    /// As [`Self::write_relations`] or, with a snapshot, [`Self::write_relations_as_seen`], but the changes are durable and visible
    /// only once what is returned is acknowledged ([`Self::acknowledge`]); before that nobody may hear of them.
    pub fn sequence_relations(
        &self,
        snapshot: Option<&Snapshot>,
        changes: &[RelationChange],
    ) -> Result<Sequenced, Error> {
        let locked = self.locked(changes)?;
        let encoded = self.encode_relations(changes)?;
        let written = match snapshot {
            Some(snapshot) => self.sequence_as_seen(snapshot, encoded)?,
            None => self.sequence_changes(encoded)?,
        };
        // A transaction that gets one of these rows next must see what became of it.
        if locked.are_some() {
            self.sequencer.wait_for(written.lsn)?;
        }
        Ok(Sequenced {
            lsn: written.lsn,
            rows: written.rows,
        })
    }

    fn sequence_as_seen(
        &self,
        snapshot: &Snapshot,
        relations: Vec<Change>,
    ) -> Result<Written, Error> {
        let batch = Batch {
            relations,
            ..Batch::default()
        };
        loop {
            let mut overtaken = None;
            let still_holds = |_: &State| {
                overtaken = self
                    .sequencer
                    .relations()
                    .overtaken(&batch.relations, snapshot.lsn());
                overtaken.is_none()
            };
            let written =
                self.sequence_if(batch.clone(), self.sequencer.catalogue_epoch(), still_holds)?;
            match (written, overtaken) {
                (Some(written), _) => return Ok(written),
                (None, Some((relation, lsn))) => {
                    // Only what is durable is in a snapshot.
                    self.sequencer.log().sync(lsn)?;
                    return Err(Error::RelationChanged { relation });
                }
                (None, None) => {}
            }
        }
    }

    fn sequence_changes(&self, relations: Vec<Change>) -> Result<Written, Error> {
        let batch = Batch {
            relations,
            ..Batch::default()
        };
        // No change of the catalogue can make a batch without rows wrong, so it is only tried again.
        loop {
            let epoch = self.sequencer.catalogue_epoch();
            if let Some(written) = self.sequence_if(batch.clone(), epoch, |_| true)? {
                return Ok(written);
            }
        }
    }

    fn change_relations(&self, relations: Vec<Change>) -> Result<Lsn, Error> {
        let written = self.sequence_changes(relations)?;
        self.sequencer.acknowledge(written.lsn, written.rows)?;
        Ok(written.lsn)
    }

    /// Changes as a batch carries them.
    pub(crate) fn encode_relations(
        &self,
        changes: &[RelationChange],
    ) -> Result<Vec<Change>, Error> {
        let rows_max =
            ROWS_MAX.min(usize::try_from(self.site.options().batch_rows_max).unwrap_or(ROWS_MAX));
        let encode = |change: &RelationChange| match change {
            RelationChange::Insert(schema, rows) => {
                let mut encoded = whole_rows(schema, rows, rows_max)?;
                if let Some(at) = schema.row_number() {
                    let new = rows.iter().filter(|row| row.get(at) == Some(&Value::Null));
                    let first = self
                        .sequencer
                        .relations()
                        .take_numbers(schema.id, new.count());
                    encoded.number(at, first.unwrap_or(1));
                }
                Ok(Change::Insert(schema.id, encoded))
            }
            RelationChange::Replace(schema, rows) => Ok(Change::Replace(
                schema.id,
                whole_rows(schema, rows, rows_max)?,
            )),
            RelationChange::Delete(schema, keys) => {
                Ok(Change::Delete(schema.id, key_rows(schema, keys, rows_max)?))
            }
        };
        changes.iter().map(encode).collect()
    }

    /// Whether the rows that changes add fit the memory for them, after what nobody sees any more was forgotten.
    pub(in crate::engine) fn check_relations(&self, changes: &[Change]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let lowest = self
            .sequencer
            .pins()
            .lowest(|| self.sequencer.log().durable());
        self.sequencer.relations_mut().prune(lowest);
        match changes.iter().map(Change::memory).sum::<usize>() {
            0 => Ok(()),
            added => self.jobs.check_index(added as u64),
        }
    }
}

impl Sequencer {
    /// Applies the changes of a batch at the LSN it gets, before anything else of it is done; after an error nothing has
    /// changed. The caller holds the sequencer.
    pub(in crate::engine) fn apply_relations(
        &self,
        lsn: Lsn,
        changes: &[Change],
    ) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        for change in changes {
            if let Change::Create(made) = change {
                self.check_place(made)?;
            }
        }
        self.relations_mut().apply(lsn, changes)?;
        Ok(())
    }

    /// Whether a relation may be made: its schema is there, and no table has its name.
    fn check_place(&self, made: &RelationSchema) -> Result<(), Error> {
        let catalogue = self.catalogue();
        let Some(schema) = catalogue.schema_name(made.schema) else {
            return Err(Error::RelationDefinition {
                name: made.name.clone(),
                reason: "its schema was dropped meanwhile".to_owned(),
            });
        };
        match catalogue.table_id(made.schema, &made.name) {
            Some(_) => Err(exists("table", &made.name, format!("schema \"{schema}\""))),
            None => Ok(()),
        }
    }

    /// Whether a relation has this name, so that no table may. The caller holds the sequencer, or asks again when it does.
    pub(crate) fn is_relation(&self, schema: SchemaId, name: &str) -> bool {
        self.relations().named(schema, name).is_some()
    }
}

impl NewRelation {
    /// The same with a column that numbers its rows, where it has no primary key.
    fn numbered(&self, declared: &mut Declarations) -> Self {
        let mut new = self.clone();
        if new.primary_key.is_empty() {
            new.columns.push(RelationColumn::numbers());
            new.primary_key.push(ROW_NUMBER.to_owned());
            if !declared.columns.is_empty() {
                declared.columns.push(Declared::default());
            }
            declared.table.row_number = Some(1);
        }
        new
    }

    fn schema(&self, schema: SchemaId, name: &str) -> Result<RelationSchema, Error> {
        let refused = |reason: String| Error::RelationDefinition {
            name: name.to_owned(),
            reason,
        };
        let position = |wanted: &String| {
            let at = self.columns.iter().position(|it| it.name == *wanted);
            at.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| {
                refused(format!(
                    "its key names a column \"{wanted}\" that it has not"
                ))
            })
        };
        let key = |names: &Vec<String>| names.iter().map(position).collect::<Result<Vec<u32>, _>>();
        let made = RelationSchema {
            id: RelationId(0),
            schema,
            name: name.to_owned(),
            columns: self.columns.clone(),
            primary_key: key(&self.primary_key)?,
            unique: self.unique.iter().map(key).collect::<Result<_, _>>()?,
            declared: None,
        };
        made.check().map_err(|what| refused(what.0))?;
        Ok(made)
    }
}

fn whole_rows(
    schema: &RelationSchema,
    rows: &[Vec<Value>],
    rows_max: usize,
) -> Result<Rows, Error> {
    let all = (0u32..).zip(&schema.columns);
    let positions: Vec<(u32, &RelationColumn)> = all.collect();
    checked_rows(schema, &positions, rows, rows_max)
}

fn key_rows(schema: &RelationSchema, keys: &[Vec<Value>], rows_max: usize) -> Result<Rows, Error> {
    let key = schema.primary_key.iter();
    let positions: Vec<(u32, &RelationColumn)> = key
        .filter_map(|&at| Some((at, schema.columns.get(at as usize)?)))
        .collect();
    checked_rows(schema, &positions, keys, rows_max)
}

fn checked_rows(
    schema: &RelationSchema,
    columns: &[(u32, &RelationColumn)],
    rows: &[Vec<Value>],
    rows_max: usize,
) -> Result<Rows, Error> {
    let limit = |what, limit: usize, needed: usize| Error::Limit {
        what,
        limit: limit as u64,
        needed: needed as u64,
        remedy: "send smaller batches",
    };
    if rows.len() > rows_max {
        let what = "the rows of one change of a relation";
        return Err(limit(what, rows_max, rows.len()));
    }
    let mut bytes = 0;
    for (at, row) in rows.iter().enumerate() {
        let refused = |reason| Error::RelationRow {
            relation: schema.name.clone(),
            row: at + 1,
            reason,
        };
        if row.len() != columns.len() {
            let (has, needs) = (row.len(), columns.len());
            return Err(refused(format!("it has {has} values and needs {needs}")));
        }
        for (value, (place, column)) in row.iter().zip(columns) {
            if value.heap_bytes() > VALUE_BYTES_MAX {
                let what = "the bytes of one value of a relation";
                return Err(limit(what, VALUE_BYTES_MAX, value.heap_bytes()));
            }
            bytes += value.heap_bytes();
            let is_numbered = schema.row_number() == Some(*place as usize);
            if value.kind().is_none() && !column.nullable && !is_numbered {
                return Err(Error::Constraint {
                    kind: ConstraintKind::NotNull,
                    table: schema.name.clone(),
                    column: Some(column.name.clone()),
                    constraint: None,
                    row: at + 1,
                    reason: format!("its column \"{}\" may not be null", column.name),
                });
            }
            check_value(value, column).map_err(refused)?;
        }
    }
    if bytes > CHANGE_BYTES_MAX {
        let what = "the text of one change of a relation";
        return Err(limit(what, CHANGE_BYTES_MAX, bytes));
    }
    let kinds = columns.iter().map(|(at, column)| (*at, column.kind));
    let kinds: Vec<(u32, PhysicalType)> = kinds.collect();
    Ok(Rows::of(kinds, rows.iter().map(Vec::as_slice)))
}

fn check_value(value: &Value, column: &RelationColumn) -> Result<(), String> {
    match value.kind() {
        None => Ok(()),
        Some(kind) if kind == column.kind => Ok(()),
        Some(kind) => Err(format!(
            "its column \"{}\" is {}, not {}",
            column.name,
            crate::schema::type_name(column.kind),
            crate::schema::type_name(kind)
        )),
    }
}

/// The relations of the files that the manifest lists.
pub(in crate::engine) fn read_relations(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<Relations, Error> {
    let mut relations = Relations::default();
    let flushed = manifest.contents.flushed_lsn;
    for meta in manifest.contents.files_of(FileKind::Relations) {
        let path = dir.join(side_name(FileKind::Relations, meta.file_id));
        let filed = relation::read(disk, &path, manifest.uuid(), meta.file_id)?;
        relations
            .take_filed(&filed, meta.file_id, flushed)
            .map_err(|what| what.at(&path, 0))?;
    }
    Ok(relations)
}
