//! The series of rows whose tags stand in columns.
//!
//! Does: find series through the memo that line protocol uses too, and define new ones together. Does not: define tags.

use std::sync::Arc;

use nilometer_lineproto::KEY_BYTES_MAX;

use super::super::Session;
use super::super::memo::SeriesMemo;
use super::Strings;
use crate::error::Error;
use crate::schema::{ColumnId, TableId, TableSchema};

/// Rows whose series are looked for while the memo is held; see `LINES_OF_ONE_LOCK`.
const ROWS_OF_ONE_LOCK: usize = 256;

/// No text of line protocol starts with this byte, so that the memo tells them apart.
const TYPED: u8 = 0xFF;

/// The series of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    Known(u32),
    /// Position among the pending ones.
    Pending(usize),
}

impl Session {
    /// The series of each row. `None` = the catalogue changed meanwhile.
    pub(super) fn series_of(
        &mut self,
        table: &Arc<TableSchema>,
        tags: &[(&str, ColumnId, Strings<'_>)],
        rows: usize,
    ) -> Result<Option<Vec<u32>>, Error> {
        let engine = Arc::clone(&self.engine);
        let found = self.find_series(table, tags, rows)?;
        if !self.pending.is_empty() {
            match &self.transaction {
                Some(own) => self.pending.resolve_own(own)?,
                None if self.pending.resolve(&engine, self.epoch)? => {}
                None => return Ok(None),
            }
            let mut memo = engine.sequencer().memo().write();
            memo.follow(self.epoch);
            self.pending.teach(self.epoch, &mut memo);
        }
        let ids = found.into_iter().map(|one| match one {
            Found::Known(id) => Some(id),
            Found::Pending(at) => self.pending.id(at).map(|id| id.0),
        });
        Ok(ids.collect())
    }

    /// What the memo knows of the series of each row; the others are pending then.
    pub(super) fn find_series(
        &mut self,
        table: &TableSchema,
        tags: &[(&str, ColumnId, Strings<'_>)],
        rows: usize,
    ) -> Result<Vec<Found>, Error> {
        let engine = Arc::clone(&self.engine);
        self.pending.clear();
        let mut found = Vec::with_capacity(rows);
        let mut key = Vec::new();
        let mut before: Option<(Vec<u8>, Found)> = None;
        let mut combined = Combined::of(tags, rows);
        for start in (0..rows).step_by(ROWS_OF_ONE_LOCK) {
            let memo = engine.sequencer().memo().read();
            for row in start..rows.min(start + ROWS_OF_ONE_LOCK) {
                if let Some(one) = combined.as_ref().and_then(|it| it.found(row)) {
                    found.push(one);
                    continue;
                }
                put_key(table.id, tags, row, &mut key);
                if key.len() > KEY_BYTES_MAX {
                    return Err(Error::TypedRow {
                        table: table.name.clone(),
                        column: tags
                            .first()
                            .map_or_else(String::new, |tag| tag.0.to_owned()),
                        row: row + 1,
                        reason: format!(
                            "its tags together have {} bytes, and {KEY_BYTES_MAX} are allowed",
                            key.len()
                        ),
                    });
                }
                if let Some((_, same)) = before.as_ref().filter(|(last, _)| *last == key) {
                    found.push(*same);
                    continue;
                }
                let one = self.find_one(table, tags, row, &key, &memo);
                found.push(one);
                if let Some(combined) = &mut combined {
                    combined.note(row, one);
                }
                let mut last = before.take().map_or_else(Vec::new, |(last, _)| last);
                std::mem::swap(&mut last, &mut key);
                before = Some((last, one));
            }
        }
        Ok(found)
    }

    fn find_one(
        &mut self,
        table: &TableSchema,
        tags: &[(&str, ColumnId, Strings<'_>)],
        row: usize,
        key: &[u8],
        memo: &SeriesMemo,
    ) -> Found {
        let text = memo.fingerprint(table.schema, key);
        if let Some((_, series)) = memo.find(text, self.epoch, &mut self.expected) {
            return Found::Known(series.0);
        }
        if let Some((_, at)) = self.pending.find(text) {
            return Found::Pending(at);
        }
        let values: Vec<(ColumnId, &str)> = tags
            .iter()
            .filter_map(|(_, id, values)| {
                let value = values.get(row).filter(|value| !value.is_empty())?;
                let text = std::str::from_utf8(value);
                Some((
                    *id,
                    text.expect("Arrow's arrays of text are checked to be UTF-8"),
                ))
            })
            .collect();
        let at = self.pending.add(text, table.id, 0, &values);
        self.pending.mark_used(at);
        Found::Pending(at)
    }
}

/// Series by the texts that their rows have in tags that are dictionaries, where these go together in not many more ways than there
/// are rows: a row is looked up once for each of them, and not for itself.
struct Combined {
    /// Of each row.
    ways: Vec<usize>,
    found: Vec<Option<Found>>,
}

impl Combined {
    /// `None` = it is not worth it.
    fn of(tags: &[(&str, ColumnId, Strings<'_>)], rows: usize) -> Option<Self> {
        let mut ways = vec![0; rows];
        let mut all = 1_usize;
        for (_, _, values) in tags {
            let (codes, distinct) = values.codes()?;
            all = all.checked_mul(distinct.max(1))?;
            if all > 4 * rows {
                return None;
            }
            for (way, code) in ways.iter_mut().zip(codes) {
                *way = *way * distinct + code;
            }
        }
        Some(Self {
            ways,
            found: vec![None; all],
        })
    }

    fn found(&self, row: usize) -> Option<Found> {
        *self.found.get(*self.ways.get(row)?)?
    }

    fn note(&mut self, row: usize, one: Found) {
        let place = self.ways.get(row).and_then(|way| self.found.get_mut(*way));
        if let Some(place) = place {
            *place = Some(one);
        }
    }
}

/// What tells the series of a row from all others.
fn put_key(table: TableId, tags: &[(&str, ColumnId, Strings<'_>)], row: usize, key: &mut Vec<u8>) {
    key.clear();
    key.push(TYPED);
    key.extend_from_slice(&table.0.to_le_bytes());
    for (_, id, values) in tags {
        if let Some(value) = values.get(row).filter(|value| !value.is_empty()) {
            key.extend_from_slice(&id.0.to_le_bytes());
            key.extend_from_slice(&(value.len() as u64).to_le_bytes());
            key.extend_from_slice(value);
        }
    }
}
