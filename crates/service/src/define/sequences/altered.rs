//! ALTER SEQUENCE: how a sequence counts from now on.
//!
//! Does: put what is said over what was, and write both rows of the sequence at once. Does not: give back numbers that are in somebody's
//! hands (`Sequences::give_back` does so before), or change names.

use std::sync::Arc;

use nilometer_engine::{Engine, Error as EngineError, RelationChange, Value};

use super::{COUNTED, Counting, KEPT, Place, Sequence, defined};
use crate::define::change::name::TableName;
use crate::define::error::DefineError;
use crate::define::kept::{integer, text};
use crate::error::Error;

/// What ALTER SEQUENCE says; what it does not say stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequenceChange {
    /// From one number to the next.
    pub increment: Option<i64>,
    /// The least number; `None` in it = what it is where nothing is said.
    pub min: Option<Option<i64>>,
    /// The greatest.
    pub max: Option<Option<i64>>,
    /// The number that a restart begins with.
    pub start: Option<i64>,
    /// Whether it begins again after its last one.
    pub cycles: Option<bool>,
    /// The number that comes next; `None` in it = that of the start.
    pub restart: Option<Option<i64>>,
    /// The table and the column of its schema that it goes with; `None` in it = it stands for itself.
    pub owned_by: Option<Option<(String, String)>>,
}

impl SequenceChange {
    /// How a sequence counts afterwards.
    fn of(&self, counting: Counting) -> Counting {
        let increment = self.increment.unwrap_or(counting.increment);
        let rises = increment >= 0;
        let least = if rises { 1 } else { i64::MIN };
        let greatest = if rises { i64::MAX } else { -1 };
        Counting {
            increment,
            min: self.min.map_or(counting.min, |min| min.unwrap_or(least)),
            max: self.max.map_or(counting.max, |max| max.unwrap_or(greatest)),
            start: self.start.unwrap_or(counting.start),
            cycles: self.cycles.unwrap_or(counting.cycles),
        }
    }
}

/// Changes how a sequence counts. Its row is made anew, so that numbers which somebody holds ready are given no more.
pub(in crate::define) fn alter(
    engine: &Arc<Engine>,
    name: &TableName,
    change: &SequenceChange,
) -> Result<(), Error> {
    let place = Place::of(name);
    loop {
        let snapshot = engine.snapshot();
        let row = place.row(&snapshot)?;
        let known = Sequence {
            name: name.table.clone(),
            next: integer(&row, 2),
            of: (text(&row, 3).to_owned(), text(&row, 4).to_owned()),
        };
        let before = Counting::of(&snapshot, place.within, &name.table);
        let counting = change.of(before);
        counting.check().map_err(defined)?;
        let next = match change.restart {
            Some(restart) => restart.unwrap_or(counting.start),
            None => match known.last(&before) {
                (last, true) => counting.block(last, 1).1,
                (first, false) => change.start.unwrap_or(first),
            },
        };
        let is_beyond = change.restart.is_some() && !counting.is_within(next);
        if is_beyond {
            let (what, bound, end) = if next < counting.min {
                ("less", "MINVALUE", counting.min)
            } else {
                ("greater", "MAXVALUE", counting.max)
            };
            let reason = format!("RESTART value ({next}) cannot be {what} than {bound} ({end})");
            return Err(defined(DefineError::SequenceOption { reason }));
        }
        let mut row = row.to_vec();
        let made = i64::try_from(snapshot.lsn()).unwrap_or(i64::MAX);
        // Two changes of one sequence have two snapshots.
        for (at, value) in [(1, made.max(integer(&row, 1).saturating_add(1))), (2, next)] {
            if let Some(cell) = row.get_mut(at) {
                *cell = Value::from(value);
            }
        }
        if let Some(owner) = &change.owned_by {
            let (table, column) = match owner {
                Some((table, column)) => (table.as_str(), column.as_str()),
                None => ("", ""),
            };
            for (at, value) in [(3, table), (4, column)] {
                if let Some(cell) = row.get_mut(at) {
                    *cell = Value::from(value);
                }
            }
        }
        let reader = KEPT.reader(&snapshot, place.within);
        let reader = reader.ok_or_else(|| place.unknown())?;
        let mut changes = vec![RelationChange::Replace(
            Arc::clone(reader.schema()),
            vec![row],
        )];
        let counted = counting.row(&name.table);
        // One that counts by ones has no such row yet.
        let known = COUNTED.row(&snapshot, place.within, name.table.as_str());
        changes.push(match COUNTED.reader(&snapshot, place.within) {
            Some(reader) if known.is_some() => {
                RelationChange::Replace(Arc::clone(reader.schema()), vec![counted])
            }
            _ => COUNTED.insertion(engine, place.within, counted)?,
        });
        match engine.write_relations_as_seen(&snapshot, &changes) {
            Ok(_) => return Ok(()),
            Err(EngineError::RelationChanged { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
