//! Rows of relations that a transaction has changed, beside the committed ones.
//!
//! Does: apply changes as a batch would, find rows as the transaction sees them, say what is left of all changes at its end. Does
//! not: lock rows or ask whether somebody else has changed them (`engine/transaction` does), or know LSNs of others.
//!
//! A key that the transaction has touched counts here only: the committed row of that key is hidden.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::set::Refused;
use super::value::{Row, Value};
use super::versions::{LIVE, Versions};
use super::{Change, RelationId, RelationSchema, Relations, Rows};
use crate::schema::Lsn;

/// The LSN of all rows here: which statement made one does not matter.
const NOW: Lsn = 1;

/// Rows of one change: the offsets of its text are 32 bits.
const ROWS_OF_ONE_CHANGE: usize = 1 << 12;

/// What a transaction has changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnRelations {
    by_id: BTreeMap<RelationId, Arc<OwnRelation>>,
}

/// What it has changed of one relation.
#[derive(Debug, Clone)]
pub(crate) struct OwnRelation {
    schema: Arc<RelationSchema>,
    /// Rows that it has written and not deleted again.
    live: Versions,
    /// A row of each key that it has touched, found by the primary key alone.
    touched: Versions,
    /// By slot of `touched`: up to which LSN the committed row of the key was seen; `None` = there was none.
    seen: Vec<Option<Lsn>>,
}

/// One thing that was done, so that it can be taken back.
enum Done {
    Touched(u32),
    Added(u32),
    Removed(Row),
}

impl RelationSchema {
    /// The values of a row's primary key.
    fn key_of(&self, row: &[Value]) -> Vec<Value> {
        let key = self.primary_key.iter();
        key.filter_map(|&at| row.get(at as usize).cloned())
            .collect()
    }
}

impl OwnRelations {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn of(&self, id: RelationId) -> Option<Arc<OwnRelation>> {
        self.by_id.get(&id).cloned()
    }

    /// Memory in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let each = self.by_id.values();
        each.map(|own| own.live.bytes() + own.touched.bytes() + own.seen.len() * 16)
            .sum()
    }

    /// Applies changes that a statement has made after it had seen everything up to `seen`; all of them or, after an error, none.
    pub(crate) fn apply(
        &mut self,
        committed: &Relations,
        changes: &[Change],
        seen: Lsn,
    ) -> Result<(), Refused> {
        let mut done = Vec::new();
        let outcome = self.apply_all(committed, changes, seen, &mut done);
        if outcome.is_err() {
            for (id, one) in done.into_iter().rev() {
                if let Some(own) = self.by_id.get_mut(&id) {
                    Arc::make_mut(own).take_back(one);
                }
            }
        }
        outcome
    }

    fn apply_all(
        &mut self,
        committed: &Relations,
        changes: &[Change],
        seen: Lsn,
        done: &mut Vec<(RelationId, Done)>,
    ) -> Result<(), Refused> {
        for change in changes {
            let (id, rows) = match change {
                Change::Insert(id, rows) | Change::Replace(id, rows) | Change::Delete(id, rows) => {
                    (*id, rows)
                }
                // Names are no part of a transaction.
                Change::Create(_) | Change::Declare(..) => continue,
                Change::Drop(id) => return Err(Refused::Unknown(*id)),
            };
            let schema = committed.schema(id).ok_or(Refused::Unknown(id))?;
            let own = self.by_id.entry(id).or_insert_with(|| {
                let by_primary_key = RelationSchema {
                    unique: Vec::new(),
                    ..RelationSchema::clone(schema)
                };
                Arc::new(OwnRelation {
                    schema: Arc::clone(schema),
                    live: Versions::new(schema),
                    touched: Versions::new(&by_primary_key),
                    seen: Vec::new(),
                })
            });
            let own = Arc::make_mut(own);
            let mut note = |one| done.push((id, one));
            for at in 0..rows.rows {
                let row = rows.row(at).ok_or_else(|| own.not_utf8())?;
                match change {
                    Change::Delete(..) => own.delete(committed, &row, seen, &mut note),
                    _ => {
                        let replaces = matches!(change, Change::Replace(..));
                        own.put(committed, &row, (replaces, at, seen), &mut note)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// As [`Relations::overtaken`], for rows that the transaction has not changed itself before.
    pub(crate) fn overtaken_by(
        &self,
        committed: &Relations,
        changes: &[Change],
        seen: Lsn,
    ) -> Option<(String, Lsn)> {
        changes.iter().find_map(|change| {
            let (Change::Replace(id, rows) | Change::Delete(id, rows)) = change else {
                return None;
            };
            let schema = committed.schema(*id)?;
            let own = self.by_id.get(id);
            let is_news = (0..rows.rows).filter_map(|at| rows.row(at)).any(|row| {
                let key: Vec<Value> = match change {
                    Change::Delete(..) => row.to_vec(),
                    _ => schema.key_of(&row),
                };
                if own.is_some_and(|own| own.touched.find(0, &key, LIVE - 1).is_some()) {
                    return false;
                }
                let since = committed.since(*id, &key);
                since.is_none_or(|since| since > seen)
            });
            is_news.then(|| (schema.name.clone(), committed.changed_lsn(*id)))
        })
    }

    /// The changes of a batch that make the committed rows what the transaction has made of them.
    pub(crate) fn net(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (id, own) in &self.by_id {
            let schema = &own.schema;
            let kind_of = |at: u32| Some((at, schema.columns.get(at as usize)?.kind));
            let gone: Vec<Vec<Value>> = own.gone().map(|(key, _)| key).collect();
            for gone in gone.chunks(ROWS_OF_ONE_CHANGE) {
                let kinds = schema.primary_key.iter().filter_map(|&at| kind_of(at));
                let keys = gone.iter().map(Vec::as_slice);
                changes.push(Change::Delete(*id, Rows::of(kinds, keys)));
            }
            let rows = own.live.visible(NOW);
            for rows in rows.chunks(ROWS_OF_ONE_CHANGE) {
                let kinds = (0u32..).take(schema.columns.len()).filter_map(kind_of);
                let rows = rows.iter().map(AsRef::as_ref);
                changes.push(Change::Insert(*id, Rows::of(kinds, rows)));
            }
        }
        changes
    }

    /// The name of a relation of which somebody else has changed a row that the transaction changes too, and the last LSN of
    /// that relation.
    pub(crate) fn overtaken(&self, committed: &Relations) -> Option<(String, Lsn)> {
        self.by_id.iter().find_map(|(id, own)| {
            let is_news = own.gone().any(|(key, seen)| {
                let since = committed.since(*id, &key);
                since.is_none_or(|since| since > seen)
            });
            let now = committed.schema(*id);
            let is_same = now.is_some_and(|now| now.declared == own.schema.declared);
            let is_news = is_news || !is_same;
            is_news.then(|| (own.schema.name.clone(), committed.changed_lsn(*id)))
        })
    }
}

impl OwnRelation {
    /// Whether the committed row of this key does not count.
    fn hides(&self, row: &[Value]) -> bool {
        self.touched.find_same(0, row).is_some()
    }

    /// The row whose key of this number has these values; `committed` finds the committed one.
    pub(crate) fn find(
        &self,
        key: usize,
        values: &[Value],
        committed: impl FnOnce() -> Option<Row>,
    ) -> Option<Row> {
        if let Some(slot) = self.live.find(key, values, LIVE - 1) {
            return self.live.row(slot).cloned();
        }
        committed().filter(|row| !self.hides(row))
    }

    /// Committed rows as the transaction sees them.
    pub(crate) fn rows(&self, committed: Vec<Row>) -> Vec<Row> {
        let mut rows = committed;
        rows.retain(|row| !self.hides(row));
        rows.extend(self.live.visible(NOW));
        rows
    }

    /// Keys of committed rows that go or are replaced, and up to which LSN they were seen.
    fn gone(&self) -> impl Iterator<Item = (Vec<Value>, Lsn)> + '_ {
        let each = (0u32..).zip(&self.seen);
        each.filter_map(|(slot, seen)| {
            let row = self.touched.row(slot)?;
            Some((self.schema.key_of(row), (*seen)?))
        })
    }

    fn take_back(&mut self, one: Done) {
        match one {
            Done::Touched(slot) => {
                self.touched.unadd(slot);
                self.seen.pop();
            }
            Done::Added(slot) => self.live.unadd(slot),
            Done::Removed(row) => drop(self.live.add(&row, NOW)),
        }
    }

    fn touch(&mut self, committed: &Relations, row: &Row, seen: Lsn, note: &mut impl FnMut(Done)) {
        if self.hides(row) {
            return;
        }
        let is_there = committed.find_same(self.schema.id, 0, row).is_some();
        // Slots are given out in order: they are freed in the opposite one only.
        note(Done::Touched(self.touched.add(row, NOW)));
        self.seen.push(is_there.then_some(seen));
    }

    /// A row of keys only has nulls elsewhere.
    fn delete(&mut self, committed: &Relations, key: &Row, seen: Lsn, note: &mut impl FnMut(Done)) {
        let mut row = vec![Value::Null; self.schema.columns.len()];
        for (&at, value) in self.schema.primary_key.iter().zip(key.iter()) {
            if let Some(place) = row.get_mut(at as usize) {
                *place = value.clone();
            }
        }
        let row: Row = row.into();
        self.touch(committed, &row, seen, note);
        self.remove(&row, note);
    }

    /// Takes the row of this primary key away that the transaction has written.
    fn remove(&mut self, row: &Row, note: &mut impl FnMut(Done)) {
        let Some(slot) = self.live.find_same(0, row) else {
            return;
        };
        if let Some(row) = self.live.row(slot) {
            note(Done::Removed(Arc::clone(row)));
        }
        self.live.unadd(slot);
    }

    fn put(
        &mut self,
        committed: &Relations,
        row: &Row,
        (replaces, at, seen): (bool, usize, Lsn),
        note: &mut impl FnMut(Done),
    ) -> Result<(), Refused> {
        if replaces {
            self.touch(committed, row, seen, note);
            self.remove(row, note);
        }
        if let Some((key, values)) = self.live.conflict(row) {
            return Err(self.schema.key_refused(key, at, &values));
        }
        for key in 0..=self.schema.unique.len() {
            let other = committed.find_same(self.schema.id, key, row);
            if let Some(other) = other.filter(|other| !self.hides(other)) {
                let columns = match key.checked_sub(1) {
                    None => Some(&self.schema.primary_key),
                    Some(at) => self.schema.unique.get(at),
                };
                let values = columns.into_iter().flatten();
                let values = values.filter_map(|&at| other.get(at as usize).cloned());
                let values: Vec<Value> = values.collect();
                return Err(self.schema.key_refused(key, at, &values));
            }
        }
        self.touch(committed, row, seen, note);
        note(Done::Added(self.live.add(row, NOW)));
        Ok(())
    }

    fn not_utf8(&self) -> Refused {
        Refused::Shape {
            relation: self.schema.name.clone(),
            reason: "its text is not UTF-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use nilometer_codec::PhysicalType;

    use super::*;
    use crate::relation::RelationColumn;
    use crate::schema::SchemaId;

    fn schema() -> RelationSchema {
        let column = |name: &str| RelationColumn {
            name: name.to_owned(),
            kind: PhysicalType::I64,
            nullable: name != "id",
        };
        RelationSchema {
            id: RelationId(1),
            schema: SchemaId(1),
            name: "r".to_owned(),
            columns: vec![column("id"), column("code"), column("v")],
            primary_key: vec![0],
            unique: vec![vec![1]],
            declared: None,
        }
    }

    fn rows(columns: u32, values: &[&[i64]]) -> Rows {
        let values: Vec<Vec<Value>> = values
            .iter()
            .map(|row| row.iter().map(|&value| Value::I64(value)).collect())
            .collect();
        let kinds = (0..columns).map(|at| (at, PhysicalType::I64));
        Rows::of(kinds, values.iter().map(Vec::as_slice))
    }

    fn shown(rows: Vec<Row>) -> Vec<String> {
        let mut shown: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        shown.sort();
        shown
    }

    /// Whatever a transaction does in parts, applying what is left of it to the store gives what its own reads saw.
    #[test]
    fn what_is_left_of_changes_gives_the_rows_that_the_transaction_saw() {
        let id = RelationId(1);
        let mut state = 11u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            i64::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..300 {
            let mut committed = Relations::default();
            committed.apply(1, &[Change::Create(schema())]).unwrap();
            let first = [[1, 10, 0], [2, 20, 0], [3, 30, 0]];
            let first: Vec<&[i64]> = first.iter().map(<[i64; 3]>::as_slice).collect();
            committed
                .apply(2, &[Change::Insert(id, rows(3, &first))])
                .unwrap();
            let mut own = OwnRelations::default();
            for nth in 0..random(8) {
                let (key, code) = (random(5), random(5) * 10);
                let change = match random(3) {
                    0 => Change::Insert(id, rows(3, &[&[key, code, nth]])),
                    1 => Change::Replace(id, rows(3, &[&[key, code, nth]])),
                    _ => Change::Delete(id, rows(1, &[&[key]])),
                };
                // One that is refused behind it is taken back with it.
                let twice = Change::Insert(id, rows(3, &[&[9, 90, 0], &[9, 91, 0]]));
                let before = format!("{:?}", own.net());
                assert!(own.apply(&committed, &[change.clone(), twice], 2).is_err());
                assert_eq!(format!("{:?}", own.net()), before);
                let _ = own.apply(&committed, &[change], 2);
            }
            let seen = match own.of(id) {
                Some(own) => own.rows(committed.rows(id, 2)),
                None => committed.rows(id, 2),
            };
            assert_eq!(own.overtaken(&committed), None);
            committed.apply(3, &own.net()).unwrap();
            assert_eq!(shown(committed.rows(id, 3)), shown(seen));
        }
    }

    #[test]
    fn a_row_that_somebody_else_changed_is_noticed() {
        let id = RelationId(1);
        let mut committed = Relations::default();
        committed.apply(1, &[Change::Create(schema())]).unwrap();
        committed
            .apply(
                2,
                &[Change::Insert(id, rows(3, &[&[1, 10, 0], &[2, 20, 0]]))],
            )
            .unwrap();
        let mut own = OwnRelations::default();
        own.apply(
            &committed,
            &[Change::Replace(id, rows(3, &[&[1, 10, 5]]))],
            2,
        )
        .unwrap();
        committed
            .apply(3, &[Change::Replace(id, rows(3, &[&[2, 20, 7]]))])
            .unwrap();
        assert_eq!(own.overtaken(&committed), None);
        committed
            .apply(4, &[Change::Replace(id, rows(3, &[&[1, 10, 7]]))])
            .unwrap();
        assert_eq!(own.overtaken(&committed), Some(("r".to_owned(), 4)));
        committed
            .apply(5, &[Change::Delete(id, rows(1, &[&[1]]))])
            .unwrap();
        assert_eq!(own.overtaken(&committed), Some(("r".to_owned(), 5)));
    }
}
