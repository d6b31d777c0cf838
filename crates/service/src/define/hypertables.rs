//! Hypertables: what makes one of a table over time.
//!
//! Does: set its interval, choose its tags, remember that it is one. Does not: read SQL; move rows: a table that has some keeps
//! the tags that it has.
//!
//! Every table over time here is cut into partitions, so what a hypertable has beside that is its tags. They are its space
//! dimension, or else the leading column of the first index that continues with the time, if that is text or an integer.

pub(super) mod asked;
pub(super) mod chunks;
pub(super) mod compression;
mod from_relation;
pub(super) mod integer_now;
pub(super) mod policies;
pub(super) mod unique;

use std::sync::Arc;

use nilometer_engine::{
    AggregateSource, ColumnDef, ColumnKind, Duplicates, Engine, Error as EngineError, LogicalType,
    PhysicalType, Snapshot, TIME_COLUMN, TableId, TableSchema, TimeKind, Value,
};

use super::change::name::{Path, TableName};
use super::error::{DefineError, Part};
use super::indexes::{self, Owner};
use super::kept::{Kept, integer, text};
use super::lookup;
use super::own_relations::HYPERTABLES;
use super::place::{Place, check_table, existing_table};
use super::sequences::Numbered;
use super::views::kept as aggregates;
use super::views::kept::stored_answers;
use crate::access::Principal;
use crate::error::Error;
use crate::write::sessions::Scope;

const KEPT: Kept = Kept {
    relation: HYPERTABLES,
    columns: &[
        ("table_id", PhysicalType::I64),
        ("space", PhysicalType::Text),
        ("partitions", PhysicalType::I64),
    ],
};

/// A table that is to become a hypertable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHypertable {
    /// Its name.
    pub path: Path,
    /// The column of its time.
    pub time: String,
    /// The column that it is divided by beside that, and into how many parts.
    pub space: Option<(String, Option<i64>)>,
    /// Width of its partitions; `None` = as it is.
    pub interval: Option<ChunkInterval>,
    /// It gets an index by time, as it would without saying so.
    pub has_default_indexes: bool,
    /// One that is a hypertable is no error.
    pub if_not_exists: bool,
    /// Rows may be there.
    pub migrate_data: bool,
}

/// Width of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkInterval {
    /// Nanoseconds.
    Ns(i64),
    /// A number alone: microseconds, or the units of a time that is an integer.
    Number(i64),
}

impl ChunkInterval {
    /// What a table gets where nothing is said: as it is, and of a time that is an integer as many of it as there.
    fn usual(table: &TableSchema) -> Option<Self> {
        match table.time().1 {
            TimeKind::Integer { .. } => Some(Self::Number(match table.time_type() {
                Some(LogicalType::SmallInt) => 10_000,
                Some(_) => 100_000,
                None => 1_000_000,
            })),
            _ => None,
        }
    }

    fn ns(self, table: &TableSchema) -> Result<i64, Error> {
        let (number, unit_ns) = match (self, table.time().1) {
            (Self::Ns(_), TimeKind::Integer { .. }) => {
                let argument = "the width of chunks".to_owned();
                return Err(DefineError::IntegerTime { argument }.about(Part::Other));
            }
            (Self::Ns(ns), _) => (ns, 1),
            (Self::Number(number), TimeKind::Integer { unit_ns }) => (number, unit_ns),
            (Self::Number(number), _) => (number, MICROSECOND_NS),
        };
        let ns = number.checked_mul(unit_ns).filter(|ns| *ns > 0);
        ns.ok_or_else(|| DefineError::Interval { number }.about(Part::Other))
    }
}

const MICROSECOND_NS: i64 = 1000;

/// A hypertable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hypertable {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: TableName,
    /// Whether it is one since this call.
    pub is_new: bool,
}

/// A dimension that was asked for of a hypertable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDimension {
    /// The hypertable.
    pub path: Path,
    /// Its column.
    pub column: String,
    /// Into how many parts.
    pub partitions: Option<i64>,
    /// One that is there is no error.
    pub if_not_exists: bool,
}

/// Makes a hypertable of a table. Durable on return.
pub fn create_hypertable(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    new: NewHypertable,
) -> Result<Hypertable, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.path)?;
    let name = place.table(new.path.clone())?;
    let (database, schema) = (name.database.as_str(), name.schema.as_str());
    if let Some(reader) = lookup::find_relation(&engine.snapshot(), database, schema, &name.table) {
        from_relation::make_table(engine, &name, &reader, &new)?;
    }
    let Some((name, table)) = existing_table(engine, name.clone(), false)? else {
        let unknown = lookup::unknown_table(&engine.snapshot(), &name);
        return Err(unknown.about(Part::Start));
    };
    let id = i64::from(table.kept_id().0);
    let of = |is_new| Hypertable {
        id,
        name: name.clone(),
        is_new,
    };
    if is_hypertable(&engine.snapshot(), &name, table.kept_id()) {
        if new.if_not_exists {
            return Ok(of(false));
        }
        let table = name.table.clone();
        return Err(DefineError::IsHypertable { table }.about(Part::Start));
    }
    let has_rows = engine.has_rows(database, schema, &name.table)?;
    if has_rows && !new.migrate_data {
        let table = name.table.clone();
        return Err(DefineError::NotEmpty { table }.about(Part::Start));
    }
    let table = with_time(engine, &name, table, has_rows, &new.time)?;
    let interval = new.interval.or_else(|| ChunkInterval::usual(&table));
    let interval_ns = interval.map(|it| it.ns(&table)).transpose()?;
    let space = new.space.as_ref().map(|(column, _)| column.as_str());
    let tags = tags(engine, &name, &table, space)?;
    if space.is_some() {
        make_tags(engine, &name, &table, (has_rows, false), &tags)?;
    } else {
        make_tags_of_index(engine, &name, &table, has_rows, &tags)?;
    }
    if let Some(partition_interval_ns) = interval_ns {
        let mut settings = table.settings;
        settings.partition_interval_ns = partition_interval_ns;
        engine.set_table(database, schema, &name.table, settings)?;
    }
    if new.has_default_indexes {
        index_by_time(engine, &name, &table)?;
    }
    remember(engine, &name, table.kept_id(), new.space)?;
    Ok(of(true))
}

/// The table with a column as its time: as it is, or, where it has no rows yet, with another one than it has.
fn with_time(
    engine: &Arc<Engine>,
    name: &TableName,
    table: Arc<TableSchema>,
    has_rows: bool,
    column: &str,
) -> Result<Arc<TableSchema>, Error> {
    let time = table.time().0.to_owned();
    if time == column {
        return Ok(table);
    }
    let Some(found) = table.shown(column) else {
        let columns = &table.shown_columns().schema;
        return Err(lookup::unknown_column(columns, column).about(Part::Other));
    };
    let declared = found.declared.as_deref();
    let default = declared.and_then(|it| it.default.as_deref());
    let counts = default.is_some_and(|it| Numbered::of(it).is_some());
    if counts || TimeKind::of_field(found.kind, found.of()).is_none() {
        let column = column.to_owned();
        return Err(DefineError::NoTimeType { column }.about(Part::Other));
    }
    let (of, column) = (name.table.clone(), column.to_owned());
    if time == TIME_COLUMN || table.settings.duplicates == Duplicates::Unique {
        let table = of;
        return Err(DefineError::OtherTime {
            table,
            time,
            column,
        }
        .about(Part::Other));
    }
    if has_rows {
        let table = of;
        return Err(DefineError::TimeWithRows {
            table,
            time,
            column,
        }
        .about(Part::Other));
    }
    let reads = |it: &AggregateSource| aggregates::reads_table(it, table.kept_id());
    aggregates::refuse_in_use(&engine.snapshot(), name, reads)?;
    engine.choose_time(&name.database, &name.schema, &name.table, &column)?;
    let again = existing_table(engine, name.clone(), false)?;
    again
        .map(|(_, table)| table)
        .ok_or_else(|| lookup::unknown_table(&engine.snapshot(), name).about(Part::Start))
}

/// Keeps an index by time alone, where no index begins with the time.
fn index_by_time(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
) -> Result<(), EngineError> {
    let within = (name.database.as_str(), name.schema.as_str());
    let owner = Owner::Table(table.kept_id());
    let time = table.time().0;
    let known = indexes::indexes_of(&engine.snapshot(), within, owner);
    let begins = |index: &indexes::Index| {
        let leading = index.columns.first();
        leading.is_some_and(|it| it.as_deref() == Some(time))
    };
    if known.iter().any(begins) {
        return Ok(());
    }
    let index = indexes::NewIndex {
        name: None,
        if_not_exists: false,
        is_unique: false,
        columns: vec![Some(time.to_owned())],
        definition: format!("USING btree (\"{}\" DESC)", time.replace('"', "\"\"")),
    };
    let base = format!("{}_{time}_idx", name.table);
    indexes::keep(engine, within, owner, (None, &base), &index)
}

/// Makes tags of what a hypertable is divided by, where it has no rows yet. Durable on return.
pub fn add_dimension(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    new: NewDimension,
) -> Result<Hypertable, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &new.path)?;
    let (name, table) = hypertable(engine, place, new.path)?;
    let within = (name.database.as_str(), name.schema.as_str());
    let id = i64::from(table.kept_id().0);
    let of = |is_new| Hypertable {
        id,
        name: name.clone(),
        is_new,
    };
    let row = KEPT.row(&engine.snapshot(), within, id);
    let known = row.as_deref().map_or("", |row| text(row, 1));
    if known == new.column {
        if new.if_not_exists {
            return Ok(of(false));
        }
        let column = new.column;
        return Err(DefineError::IsDimension { column }.about(Part::Other));
    }
    if !known.is_empty() {
        return Err(DefineError::ManyDimensions.about(Part::Other));
    }
    let has_rows = engine.has_rows(within.0, within.1, &name.table)?;
    let tags = tags(engine, &name, &table, Some(&new.column))?;
    make_tags(engine, &name, &table, (has_rows, false), &tags)?;
    remember(
        engine,
        &name,
        table.kept_id(),
        Some((new.column, new.partitions)),
    )?;
    Ok(of(true))
}

/// Sets the width of the partitions that a hypertable makes from here on. Durable on return.
pub fn set_chunk_interval(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    path: Path,
    interval: ChunkInterval,
) -> Result<Hypertable, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let (name, table) = hypertable(engine, place, path)?;
    let mut settings = table.settings;
    settings.partition_interval_ns = interval.ns(&table)?;
    engine.set_table(&name.database, &name.schema, &name.table, settings)?;
    Ok(Hypertable {
        id: i64::from(table.kept_id().0),
        name,
        is_new: false,
    })
}

/// A hypertable by its name. That of a continuous aggregate means its stored answers.
fn hypertable(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
) -> Result<(TableName, Arc<TableSchema>), Error> {
    let name = stored_answers(&engine.snapshot(), place.table(path)?);
    let not_one = || {
        let table = name.table.clone();
        DefineError::NoHypertable { table }.about(Part::Start)
    };
    let (database, schema) = (&name.database, &name.schema);
    if lookup::find_relation(&engine.snapshot(), database, schema, &name.table).is_some() {
        return Err(not_one());
    }
    match existing_table(engine, name.clone(), false)? {
        Some((found, table)) if is_hypertable(&engine.snapshot(), &found, table.kept_id()) => {
            Ok((found, table))
        }
        _ => Err(not_one()),
    }
}

/// Whether somebody has made a hypertable of a table.
pub fn is_hypertable(snapshot: &Snapshot, name: &TableName, id: TableId) -> bool {
    let within = (name.database.as_str(), name.schema.as_str());
    KEPT.row(snapshot, within, i64::from(id.0)).is_some()
}

/// What divides a hypertable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimensions {
    /// The column beside its time, and into how many parts; 0 = that was not said.
    pub space: Option<(String, i64)>,
}

/// What divides a table; `None` = it is no hypertable.
pub fn dimensions_of(snapshot: &Snapshot, within: (&str, &str), id: TableId) -> Option<Dimensions> {
    let row = KEPT.row(snapshot, within, i64::from(id.0))?;
    let column = text(&row, 1);
    let space = (!column.is_empty()).then(|| (column.to_owned(), integer(&row, 2)));
    Some(Dimensions { space })
}

/// Remembers that a table is a hypertable.
pub(super) fn remember(
    engine: &Arc<Engine>,
    name: &TableName,
    id: TableId,
    space: Option<(String, Option<i64>)>,
) -> Result<(), EngineError> {
    let (space, partitions) = space.unwrap_or_default();
    let within = (name.database.as_str(), name.schema.as_str());
    let row = vec![
        Value::from(i64::from(id.0)),
        Value::from(space.as_str()),
        Value::from(partitions.unwrap_or(0)),
    ];
    KEPT.put(engine, within, row)
}

/// Forgets it of a table that is gone.
pub(super) fn forget(
    engine: &Arc<Engine>,
    name: &TableName,
    id: TableId,
) -> Result<(), EngineError> {
    let within = (name.database.as_str(), name.schema.as_str());
    compression::forget(engine, within, i64::from(id.0))?;
    integer_now::forget(engine, within, i64::from(id.0))?;
    KEPT.forget(engine, within, vec![Value::from(i64::from(id.0))])
}

/// The columns that shall be tags and are none.
fn tags(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    space: Option<&str>,
) -> Result<Vec<String>, Error> {
    if let Some(space) = space {
        let Some(column) = table.shown(space) else {
            let columns = &table.shown_columns().schema;
            return Err(lookup::unknown_column(columns, space).about(Part::Other));
        };
        if column.kind == ColumnKind::Tag {
            return Ok(Vec::new());
        }
        if !may_be_tag(column) {
            let column = space.to_owned();
            return Err(DefineError::NoTag { column }.about(Part::Other));
        }
        return Ok(vec![space.to_owned()]);
    }
    if !table.tags.is_empty() {
        return Ok(Vec::new());
    }
    let within = (name.database.as_str(), name.schema.as_str());
    let indexes = indexes::indexes_of(&engine.snapshot(), within, Owner::Table(table.kept_id()));
    let mut indexes = indexes.iter();
    let column = indexes.find_map(|index| leading_tag(table, &index.columns));
    Ok(column.map(|it| it.name.clone()).into_iter().collect())
}

fn may_be_tag(column: &ColumnDef) -> bool {
    match (column.kind, column.of()) {
        (ColumnKind::Field(PhysicalType::Text | PhysicalType::I64), None) => true,
        (ColumnKind::Field(PhysicalType::I64), Some(of)) => of.is_integer(),
        _ => false,
    }
}

fn make_tags(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    (has_rows, few): (bool, bool),
    tags: &[String],
) -> Result<(), Error> {
    if tags.is_empty() {
        return Ok(());
    }
    // The time and the tags are the key of such a table; more tags would be another key.
    if table.settings.duplicates == Duplicates::Unique {
        let (table, column) = (name.table.clone(), tags.join(", "));
        return Err(DefineError::OtherKey { table, column }.about(Part::Start));
    }
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    if has_rows {
        return Ok(engine.rewrite_tags(database, schema, of, tags, few, &asked::is_due)?);
    }
    match engine.make_tags(database, schema, of, tags) {
        // A row came meanwhile.
        Err(EngineError::HasRows { .. }) => {
            Ok(engine.rewrite_tags(database, schema, of, tags, few, &asked::is_due)?)
        }
        made => Ok(made?),
    }
}

/// Makes a tag of the leading column of an index that a hypertable has got, if it has no tags yet. The index is kept in any case:
/// where its column stays a field although it looks like a tag, a notice says why. Durable on return.
pub(super) fn tag_by_index(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    columns: &[Option<String>],
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let within = (name.database.as_str(), name.schema.as_str());
    if dimensions_of(&snapshot, within, table.kept_id()).is_none() {
        return Ok(());
    }
    let leading = leading_tag(table, columns);
    let closed = if aggregates::refuse_stored_table(&snapshot, table.id).is_err() {
        Some("it keeps the answers of a continuous aggregate")
    } else if table.settings.duplicates == Duplicates::Unique {
        Some(
            "its rows are told apart by the tags that it has, and more of them would be another key",
        )
    } else if !table.tags.is_empty() {
        Some("it has tags already, which the first such index or segmentby chose")
    } else {
        None
    };
    if let Some(why) = closed {
        if let Some(column) = leading {
            stays_field(name, &column.name, why);
        }
        return Ok(());
    }
    let tags = tags(engine, name, table, None)?;
    let has_rows = engine.has_rows(within.0, within.1, &name.table)?;
    make_tags_of_index(engine, name, table, has_rows, &tags)
}

/// The column of an index that may be a tag: the first one, where the time follows.
fn leading_tag<'a>(table: &'a TableSchema, columns: &[Option<String>]) -> Option<&'a ColumnDef> {
    let mut columns = columns.iter().map(Option::as_deref);
    let leading = columns.next()??;
    let continues = columns.next() == Some(Some(table.time().0));
    table
        .shown(leading)
        .filter(|column| continues && may_be_tag(column))
}

/// Tells whoever made an index that its column is no tag.
fn stays_field(name: &TableName, column: &str, why: &str) {
    asked::notice(format!(
        "column \"{column}\" of the index is no tag of hypertable \"{}\", and the rows stay as they lie: {why}",
        name.table
    ));
}

/// Makes tags of what an index names, where its values can be tags and are not too many.
fn make_tags_of_index(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    has_rows: bool,
    tags: &[String],
) -> Result<(), Error> {
    match make_tags(engine, name, table, (has_rows, true), tags) {
        Err(Error::Engine(
            error @ (EngineError::NoTagValue { .. }
            | EngineError::HiddenTag { .. }
            | EngineError::Memory { .. }
            | EngineError::Limit { .. }
            | EngineError::RewriteRunning { .. }
            | EngineError::RewriteOvertaken { .. }),
        )) => {
            for column in tags {
                stays_field(name, column, &error.to_string());
            }
            Ok(())
        }
        made => made,
    }
}
