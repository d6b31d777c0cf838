//! Chunks: the slots of a hypertable's interval that have rows.
//!
//! Does: name them, say what each takes on disk, find one by its name, drop those of a range of time. Does not: know how rows lie
//! in files: partitions of few rows are wider than a slot there, and are divided among chunks by time.
//!
//! The name of a chunk has the number of its slot, counted from time 0, so it is the same for as long as the interval is.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_engine::{
    DeleteRequest, Engine, Error as EngineError, Snapshot, TableSchema, Tier, TimeKind,
};

use super::{hypertable, is_hypertable};
use crate::access::Principal;
use crate::define::change::name::{Path, TableName};
use crate::define::error::{DefineError, Part};
use crate::define::place::{Place, check_table};
use crate::define::views::kept::{reader_of, refuse_stored_table};
use crate::error::Error;
use crate::jobs::background::Span;
use crate::write::sessions::Scope;

/// The schema of chunks, as `TimescaleDB` calls it.
pub const CHUNK_SCHEMA: &str = "_timescaledb_internal";

/// A slot of a hypertable that has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its own name, in [`CHUNK_SCHEMA`].
    pub name: String,
    /// The number of its slot, counted from time 0.
    pub slot: i64,
    /// Its first and its last time.
    pub time: RangeInclusive<i64>,
    /// Bytes of its rows in files; rows that are in memory yet take none.
    pub bytes: u64,
    /// Those of them that were written for few bytes.
    pub cold_bytes: u64,
    /// Some of its rows were written for few bytes.
    pub is_cold: bool,
    /// All of its rows that are in files were.
    pub is_all_cold: bool,
}

impl Chunk {
    /// The time after its last one.
    pub fn end(&self) -> i64 {
        self.time.end().saturating_add(1)
    }
}

/// A point in time that chunks are chosen by, as it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBound {
    /// Nanoseconds since 1970.
    At(i64),
    /// So long ago.
    Ago(Span),
    /// A number of the table's time, which is an integer.
    Number(i64),
}

impl TimeBound {
    /// In nanoseconds.
    pub(super) fn ns(self, name: &str, table: &TableSchema, now_ns: i64) -> Result<i64, Error> {
        match (self, table.time().1) {
            (Self::At(_) | Self::Ago(_), TimeKind::Integer { .. }) => {
                Err(DefineError::IntegerTime {
                    argument: name.to_owned(),
                }
                .about(Part::Other))
            }
            (Self::At(ns), _) => Ok(ns),
            (Self::Ago(span), _) => Ok(span.before(now_ns)),
            (Self::Number(number), TimeKind::Integer { unit_ns }) => {
                Ok(number.saturating_mul(unit_ns.max(1)))
            }
            (Self::Number(_), _) => Err(DefineError::TimeBound {
                argument: name.to_owned(),
            }
            .about(Part::Other)),
        }
    }
}

/// Which chunks are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkRange {
    /// Those that end no later.
    pub older_than: Option<TimeBound>,
    /// Those that begin no earlier.
    pub newer_than: Option<TimeBound>,
}

/// The chunks of a table, oldest first. Reads times of rows where metadata do not say which slots have some.
pub fn chunks_of(snapshot: &Snapshot, table: &Arc<TableSchema>) -> Result<Vec<Chunk>, EngineError> {
    let width = table.settings.partition_interval_ns.max(1);
    let id = i64::from(table.kept_id().0);
    let slots = snapshot.slots(table, width)?;
    let mut chunks: Vec<Chunk> = slots
        .into_iter()
        .map(|slot| Chunk {
            name: name_of(id, slot),
            slot,
            time: times_of(slot, width),
            bytes: 0,
            cold_bytes: 0,
            is_cold: false,
            is_all_cold: true,
        })
        .collect();
    for piece in snapshot.pieces(table.id) {
        let from = chunks.partition_point(|chunk| chunk.time.end() < piece.time.start());
        let to = chunks.partition_point(|chunk| chunk.time.start() <= piece.time.end());
        let Some(within) = chunks.get_mut(from..to) else {
            continue;
        };
        let shared = |chunk: &Chunk| {
            let first = (*chunk.time.start()).max(*piece.time.start());
            u128::from((*chunk.time.end()).min(*piece.time.end()).abs_diff(first)) + 1
        };
        let all: u128 = within.iter().map(shared).sum();
        let (mut passed, mut given) = (0u128, 0u64);
        for chunk in within {
            // Rounded so that the parts are the whole.
            passed += shared(chunk);
            let upto = u128::from(piece.bytes) * passed / all.max(1);
            let upto = u64::try_from(upto).unwrap_or(piece.bytes);
            let bytes = upto.saturating_sub(given);
            given = upto;
            chunk.bytes += bytes;
            if piece.tier == Tier::Cold {
                chunk.cold_bytes += bytes;
                chunk.is_cold = true;
            } else {
                chunk.is_all_cold = false;
            }
        }
    }
    Ok(chunks)
}

/// Bytes of a table's rows in files.
pub fn table_bytes(snapshot: &Snapshot, table: &TableSchema) -> u64 {
    let pieces = snapshot.pieces(table.id);
    pieces.iter().map(|piece| piece.bytes).sum()
}

fn times_of(slot: i64, width: i64) -> RangeInclusive<i64> {
    let (slot, width) = (i128::from(slot), i128::from(width));
    let end = i64::try_from((slot + 1) * width - 1).unwrap_or(i64::MAX);
    i64::try_from(slot * width).unwrap_or(i64::MIN)..=end
}

/// What a chunk is called: slots from time 0 on are counted from 1, those before it by their distance.
fn name_of(table: i64, slot: i64) -> String {
    match slot {
        0.. => format!("_hyper_{table}_{}_chunk", slot.unsigned_abs() + 1),
        _ => format!("_hyper_{table}_minus_{}_chunk", slot.unsigned_abs()),
    }
}

/// The table's number and the slot that a name of a chunk has.
fn parsed(name: &str) -> Option<(i64, i64)> {
    let rest = name.strip_prefix("_hyper_")?.strip_suffix("_chunk")?;
    let (table, nth) = rest.split_once('_')?;
    let number = |digits: &str| {
        let is_plain = digits.bytes().all(|it| it.is_ascii_digit()) && !digits.starts_with('0');
        digits.parse::<i64>().ok().filter(|_| is_plain)
    };
    let slot = match nth.strip_prefix("minus_") {
        Some(distance) => -number(distance)?,
        None => number(nth)? - 1,
    };
    Some((number(table)?, slot))
}

/// A chunk by its name, with its table.
pub(super) fn chunk_by_name(
    engine: &Arc<Engine>,
    place: &Place,
    path: Path,
) -> Result<(TableName, Arc<TableSchema>, Chunk), Error> {
    let name = place.table(path)?;
    let snapshot = engine.snapshot();
    let unknown = || {
        let chunk = name.table.clone();
        DefineError::NoChunk { chunk }.about(Part::Start)
    };
    let (id, slot) = parsed(&name.table).ok_or_else(unknown)?;
    let (table_name, table) = table_by_id(&snapshot, &name.database, id).ok_or_else(unknown)?;
    let mut chunks = chunks_of(&snapshot, &table)?.into_iter();
    let chunk = chunks.find(|chunk| chunk.slot == slot);
    Ok((table_name, table, chunk.ok_or_else(unknown)?))
}

/// A hypertable of a database by its number.
pub fn table_by_id(
    snapshot: &Snapshot,
    database: &str,
    id: i64,
) -> Option<(TableName, Arc<TableSchema>)> {
    for schema in snapshot.schemas(database)? {
        for table in snapshot.tables(database, &schema)? {
            let found = snapshot.table(database, &schema, &table);
            let Some(found) = found.filter(|found| i64::from(found.kept_id().0) == id) else {
                continue;
            };
            let name = TableName {
                database: database.to_owned(),
                schema,
                table,
            };
            return is_hypertable(snapshot, &name, found.kept_id()).then_some((name, found));
        }
    }
    None
}

/// Drops the chunks of a hypertable that lie wholly in a range; says which these were. Durable on return.
pub fn drop_chunks(
    engine: &Arc<Engine>,
    principal: &Principal,
    scope: &Scope,
    path: Path,
    range: &ChunkRange,
) -> Result<Vec<String>, Error> {
    let place = &Place::of(engine, scope);
    check_table(principal, place, &path)?;
    let (name, table) = hypertable(engine, place, path)?;
    // A change that concerns all buckets would have those computed again whose rows are gone.
    if let Some(reader) = reader_of(&engine.snapshot(), table.kept_id()) {
        let in_use = DefineError::AggregatedChunks {
            table: name.table,
            view: reader.name.table,
        };
        return Err(in_use.about(Part::Start));
    }
    // A bucket whose stored answers are gone would be answered as if it had no rows; a retention says from when on they are there.
    if let Err(stored) = refuse_stored_table(&engine.snapshot(), table.kept_id()) {
        return Err(stored.about(Part::Start));
    }
    if range.older_than.is_none() && range.newer_than.is_none() {
        return Err(DefineError::NoRange.about(Part::Other));
    }
    drop_range(engine, &table, range, engine.wall_ns())
}

/// The same of a table that is known, at a time.
pub(super) fn drop_range(
    engine: &Arc<Engine>,
    table: &Arc<TableSchema>,
    range: &ChunkRange,
    now_ns: i64,
) -> Result<Vec<String>, Error> {
    let bound = |name, bound: Option<TimeBound>| bound.map(|it| it.ns(name, table, now_ns));
    let older = bound("older_than", range.older_than).transpose()?;
    let newer = bound("newer_than", range.newer_than).transpose()?;
    let mut dropped = Vec::new();
    for chunk in chunks_of(&engine.snapshot(), table)? {
        let is_meant = older.is_none_or(|older| chunk.end() <= older)
            && newer.is_none_or(|newer| *chunk.time.start() >= newer);
        if !is_meant {
            continue;
        }
        engine.delete_old(&DeleteRequest {
            table: Arc::clone(table),
            time: chunk.time.clone(),
            tags: Vec::new(),
        })?;
        dropped.push(format!("{CHUNK_SCHEMA}.{}", chunk.name));
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_chunk_says_which_it_is() {
        for (slot, name) in [
            (0, "_hyper_7_1_chunk"),
            (19_844, "_hyper_7_19845_chunk"),
            (-1, "_hyper_7_minus_1_chunk"),
        ] {
            assert_eq!(name_of(7, slot), name);
            assert_eq!(parsed(name), Some((7, slot)));
        }
        for other in [
            "t",
            "_hyper_7_chunk",
            "_hyper_7_0_chunk",
            "_hyper_7_01_chunk",
            "_hyper_7_+1_chunk",
            "_hyper_7_minus_0_chunk",
            "_hyper_x_1_chunk",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_and_the_last_slot_end_where_time_does() {
        let width = i64::MAX;
        assert_eq!(times_of(-2, width), i64::MIN..=-width - 1);
        assert_eq!(times_of(1, width), width..=i64::MAX);
        assert_eq!(times_of(3, 10), 30..=39);
    }
}
