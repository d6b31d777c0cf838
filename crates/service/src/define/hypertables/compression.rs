//! Compression of chunks as `TimescaleDB` names it: the cold tier of files, on command.
//!
//! Does: move a chunk to the cold tier and back, keep what it took before, keep the settings that were said. Does not: compress:
//! everything in files is, and the engine writes the tiers.

use std::sync::Arc;

use nilometer_engine::{
    Converted, Duplicates, Engine, Error as EngineError, PhysicalType, Snapshot, TableSchema, Tier,
    Value,
};

use super::chunks::{CHUNK_SCHEMA, Chunk, chunk_by_name, chunks_of};
use super::{make_tags, may_be_tag};
use crate::access::Principal;
use crate::define::change::name::{Path, TableName};
use crate::define::change::{CompressionChange, OrderBy};
use crate::define::error::{DefineError, Part};
use crate::define::kept::{Kept, integer, text};
use crate::define::lookup;
use crate::define::own_relations::{CHUNK_SIZES, COMPRESSION};
use crate::define::place::{Place, check_table};
use crate::define::views::kept::refuse_stored_table;
use crate::error::Error;
use crate::write::sessions::Scope;

/// Settings of compression, by table.
const SETTINGS: Kept = Kept {
    relation: COMPRESSION,
    columns: &[
        ("table_id", PhysicalType::I64),
        ("is_on", PhysicalType::I64),
        ("segmentby", PhysicalType::Text),
        ("orderby", PhysicalType::Text),
    ],
};

/// Bytes of chunks before they were moved to the cold tier, by their names.
const SIZES: Kept = Kept {
    relation: CHUNK_SIZES,
    columns: &[
        ("chunk", PhysicalType::Text),
        ("table_id", PhysicalType::I64),
        ("first_ns", PhysicalType::I64),
        ("last_ns", PhysicalType::I64),
        ("before_bytes", PhysicalType::I64),
        ("after_bytes", PhysicalType::I64),
    ],
};

/// What was said of the compression of a hypertable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compression {
    /// It is switched on.
    pub is_on: bool,
    /// Columns that tell its segments apart.
    pub segment_by: Vec<String>,
    /// Columns that its rows are ordered by.
    pub order_by: Vec<OrderBy>,
}

/// A call that moves a chunk between tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The chunk.
    pub path: Path,
    /// Where it goes.
    pub tier: Tier,
    /// One that is there already is no error.
    pub if_not_done: bool,
}

/// What became of a call that moves a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// The chunk, by its whole name.
    Done(String),
    /// It was not compressed before, and needs not be decompressed.
    Not,
    /// Maintenance has its files; try again a moment later.
    Busy(String),
}

/// The settings of a table; nothing is set of one that is no hypertable.
pub fn compression_of(
    snapshot: &Snapshot,
    within: (&str, &str),
    table: &TableSchema,
) -> Option<Compression> {
    let row = SETTINGS.row(snapshot, within, i64::from(table.kept_id().0))?;
    let list = |at| -> Vec<String> {
        let text = text(&row, at);
        text.split('\n')
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let order_by = list(3).into_iter().map(|it| {
        let (flags, column) = it.split_at_checked(2).unwrap_or(("", &it));
        OrderBy {
            column: column.to_owned(),
            is_ascending: flags.starts_with('a'),
            nulls_first: flags.ends_with('f'),
        }
    });
    Some(Compression {
        is_on: integer(&row, 1) != 0,
        segment_by: list(2),
        order_by: order_by.collect(),
    })
}

/// Sets them. Columns that tell segments apart become tags, of a table with rows by writing it anew. Durable on return.
pub(in crate::define) fn set(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    change: CompressionChange,
) -> Result<(), Error> {
    let within = (name.database.as_str(), name.schema.as_str());
    let snapshot = engine.snapshot();
    if !super::is_hypertable(&snapshot, name, table.kept_id()) {
        let table = name.table.clone();
        return Err(DefineError::NoHypertable { table }.about(Part::Start));
    }
    let mut now = compression_of(&snapshot, within, table).unwrap_or_default();
    now.is_on = change.is_on.unwrap_or(now.is_on);
    if let Some(order_by) = change.order_by {
        now.order_by = order_by;
    }
    let names = change.segment_by.iter().flatten();
    let names = names.chain(now.order_by.iter().map(|it| &it.column));
    for column in names {
        if column != table.time().0 && table.shown(column).is_none() {
            let columns = &table.shown_columns().schema;
            return Err(lookup::unknown_column(columns, column).about(Part::Other));
        }
    }
    if let Some(columns) = change.segment_by {
        if columns.iter().any(|column| column == table.time().0) {
            let column = table.time().0.to_owned();
            return Err(DefineError::NoTag { column }.about(Part::Other));
        }
        let has_rows = engine.has_rows(within.0, within.1, &name.table)?;
        // Rows of a unique table are told apart by its tags, and the stored answers of an aggregate are known by their table.
        let is_open = table.settings.duplicates != Duplicates::Unique
            && refuse_stored_table(&snapshot, table.id).is_ok();
        if is_open {
            let may_be = |column: &&String| table.shown(column).is_some_and(may_be_tag);
            let tags: Vec<String> = columns.iter().filter(may_be).cloned().collect();
            make_tags(engine, name, table, (has_rows, false), &tags)?;
        }
        now.segment_by = columns;
    }
    let order_by = now.order_by.iter().map(|it| {
        let direction = if it.is_ascending { 'a' } else { 'd' };
        let nulls = if it.nulls_first { 'f' } else { 'l' };
        format!("{direction}{nulls}{}", it.column)
    });
    let order_by: Vec<String> = order_by.collect();
    let row = vec![
        Value::from(i64::from(table.kept_id().0)),
        Value::from(i64::from(now.is_on)),
        Value::from(now.segment_by.join("\n").as_str()),
        Value::from(order_by.join("\n").as_str()),
    ];
    Ok(SETTINGS.put(engine, within, row)?)
}

/// Moves a chunk between tiers. Blocks for as long as its files take to be written.
pub fn convert_chunk(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    conversion: &Conversion,
) -> Result<Moved, Error> {
    let place = &Place::of(engine, scope);
    let (name, table, chunk) = chunk_by_name(engine, place, conversion.path.clone())?;
    let path = Path {
        before: vec![name.database.clone(), name.schema.clone()],
        last: name.table.clone(),
    };
    check_table(principal, place, &path)?;
    let is_there = match conversion.tier {
        Tier::Cold => chunk.is_cold && chunk.is_all_cold,
        Tier::Hot => !chunk.is_cold,
    };
    if is_there && !conversion.if_not_done {
        let (chunk, is_cold) = (chunk.name, conversion.tier == Tier::Cold);
        return Err(DefineError::IsInTier { chunk, is_cold }.about(Part::Start));
    }
    if is_there && conversion.tier == Tier::Hot {
        return Ok(Moved::Not);
    }
    if conversion.tier == Tier::Cold && table.settings.cold_after_ns == Some(i64::MAX) {
        let table = name.table.clone();
        return Err(DefineError::NeverCold { table }.about(Part::Start));
    }
    convert(engine, &name, &table, &chunk, conversion.tier)
}

/// The same of a chunk that is known.
pub(super) fn convert(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &Arc<TableSchema>,
    chunk: &Chunk,
    tier: Tier,
) -> Result<Moved, Error> {
    let whole = format!("{CHUNK_SCHEMA}.{}", chunk.name);
    // Rows in memory take no bytes yet.
    engine.flush()?;
    let before = sizes_now(engine, table, chunk)?;
    match engine.convert(table.id, chunk.time.clone(), tier)? {
        Converted::Done => {}
        Converted::Busy => return Ok(Moved::Busy(whole)),
        Converted::Damaged => {
            let chunk = chunk.name.clone();
            return Err(DefineError::DamagedChunk { chunk }.about(Part::Start));
        }
    }
    let within = (name.database.as_str(), name.schema.as_str());
    if tier == Tier::Hot {
        SIZES.forget(engine, within, vec![Value::from(chunk.name.as_str())])?;
        return Ok(Moved::Done(whole));
    }
    let after = sizes_now(engine, table, chunk)?;
    let snapshot = engine.snapshot();
    let known = SIZES.row(&snapshot, within, Value::from(chunk.name.as_str()));
    // Of what was cold before, its size when it was hot is the one that was noted then.
    let noted = known.filter(|row| is_of(row, table, chunk));
    let hot = before.0.saturating_sub(before.1);
    let before = match noted {
        Some(row) => bytes(integer(&row, 4)).saturating_add(hot),
        None if before.1 == 0 => hot,
        // It became cold by its age: what it took before is not known.
        None => return Ok(Moved::Done(whole)),
    };
    let row = vec![
        Value::from(chunk.name.as_str()),
        Value::from(i64::from(table.kept_id().0)),
        Value::from(*chunk.time.start()),
        Value::from(*chunk.time.end()),
        Value::from(i64::try_from(before).unwrap_or(i64::MAX)),
        Value::from(i64::try_from(after.1).unwrap_or(i64::MAX)),
    ];
    SIZES.put(engine, within, row)?;
    Ok(Moved::Done(whole))
}

/// Bytes of a chunk now, and those of them in the cold tier.
fn sizes_now(
    engine: &Arc<Engine>,
    table: &Arc<TableSchema>,
    chunk: &Chunk,
) -> Result<(u64, u64), EngineError> {
    let now = chunks_of(&engine.snapshot(), table)?;
    let own = now.iter().find(|it| it.slot == chunk.slot);
    Ok(own.map_or((0, 0), |it| (it.bytes, it.cold_bytes)))
}

fn is_of(row: &[Value], table: &TableSchema, chunk: &Chunk) -> bool {
    integer(row, 1) == i64::from(table.kept_id().0)
        && integer(row, 2) == *chunk.time.start()
        && integer(row, 3) == *chunk.time.end()
}

fn bytes(kept: i64) -> u64 {
    u64::try_from(kept).unwrap_or(0)
}

/// What a chunk took before it was moved to the cold tier, where that is known.
pub fn bytes_before(
    snapshot: &Snapshot,
    within: (&str, &str),
    table: &TableSchema,
    chunk: &Chunk,
) -> Option<u64> {
    let row = SIZES.row(snapshot, within, Value::from(chunk.name.as_str()))?;
    (chunk.is_cold && is_of(&row, table, chunk)).then(|| bytes(integer(&row, 4)))
}

/// Forgets what was kept of a table that is gone.
pub(super) fn forget(
    engine: &Arc<Engine>,
    within: (&str, &str),
    table: i64,
) -> Result<(), EngineError> {
    SETTINGS.forget(engine, within, vec![Value::from(table)])?;
    let rows = SIZES.rows(&engine.snapshot(), within).into_iter();
    let own = rows.filter(|row| integer(row, 1) == table);
    let keys = own.filter_map(|row| row.first().cloned()).collect();
    SIZES.forget(engine, within, keys)
}
