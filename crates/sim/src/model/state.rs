//! Tables and rows, and what each operation does to them.

use std::collections::{BTreeMap, BTreeSet};

use nilometer_codec::PhysicalType;
use nilometer_engine::{ColumnKind, Duplicates, TableSettings};

use super::convert::convert;
use super::difference::describe_table;
use super::found::{Found, FoundTable};
use super::names::{Mentioned, Name, Table};
use super::predict::{Batch, type_of};
use super::relation::{RelateOp, Relation};
use super::typed::Place;
use crate::plan::{Change, Column, Delete, Fields, PlaceChange, Shape, Tags};

/// Settings and columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Rows of one series and time.
    pub duplicates: Duplicates,
    /// Width of new partitions.
    pub interval_ns: i64,
    /// How long rows are kept.
    pub retention_ns: Option<i64>,
    /// Names of its tags.
    pub tags: BTreeSet<String>,
    /// Its fields and their types.
    pub fields: BTreeMap<String, PhysicalType>,
}

impl Default for Schema {
    fn default() -> Self {
        let settings = TableSettings::default();
        Self {
            duplicates: settings.duplicates,
            interval_ns: settings.partition_interval_ns,
            retention_ns: settings.retention_ns,
            tags: BTreeSet::new(),
            fields: BTreeMap::new(),
        }
    }
}

impl Schema {
    fn has(&self, column: &Column) -> bool {
        if column.is_tag {
            self.tags.contains(&column.name)
        } else {
            self.fields.contains_key(&column.name)
        }
    }
}

/// Tags that were dropped: nobody sees them, and the series that they told apart stay apart.
pub(super) type Hidden = BTreeMap<u32, String>;

/// A table: its columns as far as something acknowledged needs them, and its rows in the order of their writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// No two tables that ever were have the same.
    pub(super) number: u64,
    pub(super) schema: Schema,
    pub(super) rows: BTreeMap<(Tags, i64, Hidden), Vec<Fields>>,
    pub(super) dropped_tags: u32,
    /// Keys whose rows were written over: what they were may show again when a file is lost.
    pub(super) again: BTreeSet<(Tags, i64)>,
    /// Keys have changed their names since.
    pub(super) renamed: bool,
}

/// Something that the store does as a whole or not at all.
#[derive(Debug, Clone)]
pub enum Op {
    /// Points.
    Write(Batch),
    /// Rows go.
    Delete {
        /// The database.
        database: String,
        /// The rows.
        delete: Delete,
    },
    /// Some rows go and others come.
    Update {
        /// The table.
        name: Name,
        /// Where the rows are that go, in order.
        gone: Vec<Place>,
        /// The rows that come.
        batch: Batch,
    },
    /// Databases or schemas change.
    Place(PlaceChange),
    /// A relation is made.
    CreateRelation(Name, Shape),
    /// A relation is dropped.
    DropRelation(Name),
    /// Rows of a relation change.
    Relate(RelateOp),
    /// Names or types change.
    Change {
        /// The database.
        database: String,
        /// The change.
        change: Change,
        /// The table before it, if there was one: what it says is as durable as the change.
        before: Option<Schema>,
    },
}

impl Op {
    /// The key of a write and how many rows it has.
    pub(super) fn key(&self) -> Option<(u8, u64)> {
        match self {
            Self::Write(batch) if batch.rows() > 0 => batch.key.map(|key| (key, batch.rows())),
            Self::Update { batch, .. } if batch.rows() > 0 => {
                batch.key.map(|key| (key, batch.rows()))
            }
            Self::Relate(op) => op.batch.key.map(|key| (key, op.batch.rows())),
            _ => None,
        }
    }

    /// Whether a row of one of these keys is written or may be deleted.
    pub(super) fn touches(&self, of: &Name, keys: &BTreeSet<(Tags, i64)>) -> bool {
        let writes = |batch: &Batch| {
            let mut points = batch.points.iter();
            batch.database == of.0
                && points.any(|it| it.table == of.1 && keys.contains(&(it.tags.clone(), it.time)))
        };
        match self {
            Self::Write(batch) => writes(batch),
            Self::Relate(op) => writes(&op.batch),
            Self::Update { name, gone, batch } => {
                let mut gone = gone.iter();
                writes(batch)
                    || (name == of
                        && gone.any(|(tags, time, _)| keys.contains(&(tags.clone(), *time))))
            }
            Self::Delete { database, delete } => {
                (database, &delete.table) == (&of.0, &of.1)
                    && keys.iter().any(|(tags, time)| delete.takes(tags, *time))
            }
            _ => false,
        }
    }
}

/// What a change must be answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It is made.
    Done,
    /// There is nothing to do.
    Nothing,
    /// Something that it names does not exist.
    NotFound,
    /// Something of the new name exists.
    ExistsAlready,
    /// A value would not stay what it is.
    Lossy,
}

/// Everything that is known to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub(super) places: BTreeSet<String>,
    pub(super) tables: BTreeMap<Name, Kept>,
    pub(super) relations: BTreeMap<Name, Relation>,
    /// Of the last table that was made.
    last_number: u64,
}

impl State {
    /// Names of the tables that must exist.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.tables.keys()
    }

    /// What a reader sees of a table.
    pub fn shown(&self, name: &Name) -> Table {
        let mut shown = Table::new();
        for ((tags, time, _), rows) in self.tables.get(name).iter().flat_map(|kept| &kept.rows) {
            let place = shown.entry((tags.clone(), *time)).or_default();
            place.extend(rows.iter().cloned());
        }
        shown
    }

    /// A table as a store that is right shows it.
    #[cfg(test)]
    pub(super) fn found(&self, name: &Name) -> Option<FoundTable> {
        let kept = self.tables.get(name)?;
        Some(FoundTable {
            schema: kept.schema.clone(),
            rows: self.shown(name),
            disorder: None,
        })
    }

    /// Whether what a reader sees of a row's tags says which series it is of.
    pub fn tells_series_apart(&self, name: &Name) -> bool {
        let kept = self.tables.get(name);
        kept.is_none_or(|kept| kept.dropped_tags == 0)
    }

    /// Whether rows of some table go by themselves.
    pub fn has_retention(&self) -> bool {
        let mut tables = self.tables.values();
        tables.any(|kept| kept.schema.retention_ns.is_some())
    }

    /// Takes away what a read shows that retention took: rows older than their table keeps at this time, from the oldest
    /// on, and with them all rows of the table that are no younger.
    pub(super) fn expire(&mut self, found: &Found, now_ns: i64) {
        for (name, kept) in &mut self.tables {
            let (Some(retention), Some(table)) = (kept.schema.retention_ns, found.tables.get(name))
            else {
                continue;
            };
            let limit = now_ns.saturating_sub(retention);
            let gone = kept.rows.keys().filter(|(tags, time, _)| {
                *time < limit && !table.rows.contains_key(&(tags.clone(), *time))
            });
            if let Some(last) = gone.map(|(_, time, _)| *time).max() {
                kept.rows.retain(|(_, time, _), _| *time > last);
            }
        }
    }

    /// Rows of all tables.
    pub fn rows(&self) -> usize {
        let rows = self.tables.values().flat_map(|kept| kept.rows.values());
        rows.map(Vec::len).sum()
    }

    /// Does what an operation does.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(batch) => self.write(batch),
            Op::Delete { database, delete } => {
                let name = (database.clone(), delete.table.clone());
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.delete(delete);
                }
            }
            Op::Update { name, gone, batch } => {
                self.remove(name, gone);
                self.write(batch);
            }
            Op::Place(change) => self.change_place(change),
            Op::CreateRelation(name, shape) => {
                let new = || Relation::new(*shape);
                self.relations.entry(name.clone()).or_insert_with(new);
            }
            Op::DropRelation(name) => drop(self.relations.remove(name)),
            Op::Relate(op) => self.relate(op),
            Op::Change {
                database,
                change,
                before,
            } => {
                let name = (database.clone(), change.table().to_owned());
                if let Some(before) = before {
                    self.table(name.clone()).schema = before.clone();
                }
                self.change(name, change);
            }
        }
    }

    pub(super) fn kept(&self, name: &Name) -> Option<&Kept> {
        self.tables.get(name)
    }

    pub(super) fn kept_mut(&mut self, name: &Name) -> Option<&mut Kept> {
        self.tables.get_mut(name)
    }

    /// The table of this name, made if there is none.
    fn table(&mut self, name: Name) -> &mut Kept {
        let last = &mut self.last_number;
        self.tables.entry(name).or_insert_with(|| {
            *last += 1;
            Kept {
                number: *last,
                ..Kept::default()
            }
        })
    }

    pub(super) fn write(&mut self, batch: &Batch) {
        for point in &batch.points {
            let kept = self.table((batch.database.clone(), point.table.clone()));
            kept.schema.tags.extend(point.tags.keys().cloned());
            for (field, value) in &point.fields {
                kept.schema.fields.insert(field.clone(), type_of(value));
            }
            let key = (point.tags.clone(), point.time, Hidden::new());
            let rows = kept.rows.entry(key).or_default();
            if !rows.is_empty() {
                kept.again.insert((point.tags.clone(), point.time));
            }
            let fields = point.fields.iter().cloned();
            match (kept.schema.duplicates, rows.last_mut()) {
                (Duplicates::Last, Some(row)) => row.extend(fields),
                (Duplicates::Unique, Some(row)) => *row = fields.collect(),
                (_, None) | (Duplicates::Keep, _) => rows.push(fields.collect()),
            }
        }
    }

    fn change(&mut self, name: Name, change: &Change) {
        match change {
            Change::CreateTable {
                duplicates,
                interval_ns,
                columns,
                ..
            } => {
                if self.tables.contains_key(&name) {
                    return;
                }
                let schema = &mut self.table(name).schema;
                schema.duplicates = *duplicates;
                schema.interval_ns = *interval_ns;
                for (column, kind) in columns {
                    match kind {
                        ColumnKind::Tag => drop(schema.tags.insert(column.clone())),
                        ColumnKind::Field(kind) => {
                            schema.fields.insert(column.clone(), *kind);
                        }
                    }
                }
            }
            Change::DropTable { .. } => {
                self.tables.remove(&name);
            }
            Change::RenameTable { to, .. } => {
                let new = (name.0.clone(), to.clone());
                if let Some(kept) = self.tables.remove(&name) {
                    self.tables.insert(new, kept);
                }
            }
            Change::DropColumn { column, .. } => {
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.drop_column(column);
                }
            }
            Change::RenameColumn { column, to, .. } => {
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.rename_column(column, to);
                }
            }
            Change::SetRetention { retention_ns, .. } => {
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.schema.retention_ns = *retention_ns;
                }
            }
            // No answer depends on it.
            Change::SetColdAfter { .. } => {}
            Change::SetInterval { interval_ns, .. } => {
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.schema.interval_ns = *interval_ns;
                }
            }
            Change::ChangeType { field, to, .. } => {
                if let Some(kept) = self.tables.get_mut(&name) {
                    kept.change_type(field, *to);
                }
            }
        }
    }

    /// What the store must answer to a change, given the tables that it has by now.
    pub fn expect(
        &self,
        database: &str,
        change: &Change,
        live: &BTreeMap<String, Schema>,
    ) -> Expected {
        let found = live.get(change.table());
        if let Change::CreateTable { .. } = change {
            return match found {
                Some(_) => Expected::Nothing,
                None => Expected::Done,
            };
        }
        let Some(found) = found else {
            return Expected::NotFound;
        };
        match change {
            Change::RenameTable { to, .. } if live.contains_key(to) => Expected::ExistsAlready,
            Change::DropColumn { column, .. } | Change::RenameColumn { column, .. }
                if !found.has(column) =>
            {
                Expected::NotFound
            }
            Change::CreateTable { .. }
            | Change::DropTable { .. }
            | Change::RenameTable { .. }
            | Change::DropColumn { .. }
            | Change::SetRetention { .. }
            | Change::SetColdAfter { .. }
            | Change::SetInterval { .. } => Expected::Done,
            Change::RenameColumn { column, to, .. } => {
                let new = Column {
                    is_tag: column.is_tag,
                    name: to.clone(),
                };
                if found.has(&new) {
                    Expected::ExistsAlready
                } else {
                    Expected::Done
                }
            }
            Change::ChangeType { table, field, to } => match found.fields.get(field) {
                None => Expected::NotFound,
                Some(kind) if kind == to => Expected::Nothing,
                Some(_) => {
                    let kept = self.tables.get(&(database.to_owned(), table.clone()));
                    let mut values = kept
                        .into_iter()
                        .flat_map(|kept| kept.rows.values().flatten())
                        .filter_map(|row| row.get(field));
                    if values.any(|value| convert(value, *to).is_none()) {
                        Expected::Lossy
                    } else {
                        Expected::Done
                    }
                }
            },
        }
    }

    /// Compares a read with this state: what must be there is there, and nothing else but names that a failed write may
    /// have left.
    pub(super) fn check(&self, found: &Found, mentioned: &Mentioned) -> Result<(), String> {
        if self.places != found.places {
            return Err(format!(
                "there are the databases and schemas {:?} instead of {:?}",
                found.places, self.places
            ));
        }
        self.check_relations(found)?;
        let mut out = String::new();
        for (name, table) in &found.tables {
            let kept = self.tables.get(name);
            if kept.is_none() && !mentioned.tables.contains(name) {
                return Err(format!("{}.{} came from nowhere", name.0, name.1));
            }
            let nothing = Kept::default();
            let kept = kept.unwrap_or(&nothing);
            kept.check_schema(name, table, mentioned)?;
            let want = self.shown(name);
            let same =
                want == table.rows || (kept.dropped_tags > 0 && same_rows(&want, &table.rows));
            if !same {
                describe_table(name, &want, &table.rows, &mut out);
            }
            if let (Some(disorder), 0) = (&table.disorder, kept.dropped_tags) {
                return Err(format!("{}.{}: {disorder}", name.0, name.1));
            }
        }
        if let Some(missing) = self
            .tables
            .keys()
            .find(|name| !found.tables.contains_key(*name))
        {
            return Err(format!("table {}.{} is missing", missing.0, missing.1));
        }
        if out.is_empty() {
            return Ok(());
        }
        Err(format!("the rows differ:{out}"))
    }
}

/// Whether two tables have the same rows, in any order among those of one key: series that a dropped tag told apart have
/// none.
pub fn same_rows(want: &Table, got: &Table) -> bool {
    let sorted = |rows: &Vec<Fields>| {
        let mut rows = rows.clone();
        rows.sort_unstable();
        rows
    };
    want.len() == got.len()
        && want
            .iter()
            .zip(got)
            .all(|(a, b)| a.0 == b.0 && sorted(a.1) == sorted(b.1))
}

impl Kept {
    fn delete(&mut self, delete: &Delete) {
        self.rows
            .retain(|(tags, time, _), _| !delete.takes(tags, *time));
    }

    fn drop_column(&mut self, column: &Column) {
        if !column.is_tag {
            self.schema.fields.remove(&column.name);
            for row in self.rows.values_mut().flatten() {
                row.remove(&column.name);
            }
            return;
        }
        self.schema.tags.remove(&column.name);
        self.renamed = true;
        self.dropped_tags += 1;
        let hidden_as = self.dropped_tags;
        self.rows = std::mem::take(&mut self.rows)
            .into_iter()
            .map(|((mut tags, time, mut hidden), rows)| {
                if let Some(value) = tags.remove(&column.name) {
                    hidden.insert(hidden_as, value);
                }
                ((tags, time, hidden), rows)
            })
            .collect();
    }

    fn rename_column(&mut self, column: &Column, to: &str) {
        if column.is_tag {
            self.renamed = true;
            self.schema.tags.remove(&column.name);
            self.schema.tags.insert(to.to_owned());
            self.rows = std::mem::take(&mut self.rows)
                .into_iter()
                .map(|((mut tags, time, hidden), rows)| {
                    if let Some(value) = tags.remove(&column.name) {
                        tags.insert(to.to_owned(), value);
                    }
                    ((tags, time, hidden), rows)
                })
                .collect();
            return;
        }
        if let Some(kind) = self.schema.fields.remove(&column.name) {
            self.schema.fields.insert(to.to_owned(), kind);
        }
        for row in self.rows.values_mut().flatten() {
            if let Some(value) = row.remove(&column.name) {
                row.insert(to.to_owned(), value);
            }
        }
    }

    fn change_type(&mut self, field: &str, to: PhysicalType) {
        self.schema.fields.insert(field.to_owned(), to);
        for row in self.rows.values_mut().flatten() {
            if let Some(value) = row.get_mut(field)
                && let Some(converted) = convert(value, to)
            {
                *value = converted;
            }
        }
    }

    fn check_schema(
        &self,
        name: &Name,
        found: &FoundTable,
        mentioned: &Mentioned,
    ) -> Result<(), String> {
        let (want, got) = (&self.schema, &found.schema);
        let told = |what: String| Err(format!("{}.{}: {what}", name.0, name.1));
        let settings = |it: &Schema| (it.duplicates, it.interval_ns, it.retention_ns);
        if settings(want) != settings(got) {
            return told(format!("its settings are {got:?} instead of {want:?}"));
        }
        if let Some(missing) = want.tags.difference(&got.tags).next() {
            return told(format!("the tag {missing} is missing"));
        }
        for (field, kind) in &want.fields {
            if got.fields.get(field) != Some(kind) {
                let got = got.fields.get(field);
                return told(format!("the field {field} is {got:?} instead of {kind:?}"));
            }
        }
        let known = |is_tag: bool, column: &str| {
            let place = (name.clone(), is_tag, column.to_owned());
            mentioned.columns.contains(&place)
        };
        let tags = got.tags.difference(&want.tags);
        let fields = got
            .fields
            .keys()
            .filter(|it| !want.fields.contains_key(*it));
        let mut strangers = tags
            .filter(|tag| !known(true, tag))
            .chain(fields.filter(|field| !known(false, field)));
        match strangers.next() {
            Some(stranger) => told(format!("the column {stranger} came from nowhere")),
            None => Ok(()),
        }
    }
}
