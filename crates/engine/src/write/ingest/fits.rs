//! Points that bring names, checked before the names are made.
//!
//! A name that has a type keeps it. A point that is refused for one of its fields must therefore not have given others theirs:
//! a device that sends a wrong type once would shut out the good points of all others.
//!
//! Does: say whether a table takes all fields of a point, those that are new included. Does not: look at points whose names are
//! all known; adding them finds out, and takes back what it added.

use std::borrow::Cow;

use nilometer_codec::PhysicalType;
use nilometer_lineproto::{Field, Point};
use rustc_hash::FxHashMap;

use super::rows::{RowError, kind_of, push_declared, push_value, refusal};
use super::slot::TableSlot;
use crate::batch::Column;
use crate::engine::{Engine, check_name};
use crate::logical::LogicalType;
use crate::schema::{ColumnId, ColumnKind, TIME_COLUMN, TableSchema};

/// What a point brings and meets.
#[derive(Default)]
struct Met<'a> {
    /// Fields that the table has.
    known: Vec<ColumnId>,
    /// The types that those get that are new.
    new: FxHashMap<Cow<'a, str>, PhysicalType>,
}

/// Why a table refuses a point (`None` = one that the point brings), and whether a field `time` is left out of the point.
pub(super) fn check(
    engine: &Engine,
    table: Option<&TableSlot>,
    point: &Point<'_>,
) -> (bool, Result<(), RowError>) {
    let catalogue = engine.sequencer().catalogue();
    let schema = table.and_then(|table| catalogue.table(table.id));
    let mut met = Met::default();
    let mut stripped_time = false;
    for field in point.fields {
        let name = field.name();
        if name == TIME_COLUMN {
            stripped_time = true;
        } else if let Err(refused) = met.add(field, name, table, schema.map(AsRef::as_ref)) {
            // One reason for each point.
            return (false, Err(refused));
        }
    }
    if met.known.is_empty() && met.new.is_empty() {
        return (stripped_time, Err(RowError::NoField));
    }
    let rules = table.and_then(|table| Some((table, table.rules.as_ref()?)));
    let checked = rules.map_or(Ok(()), |(table, rules)| {
        let has = |id: ColumnId| met.known.contains(&id);
        rules.check_has(&table.name, has)
    });
    (stripped_time, checked.map_err(RowError::Declared))
}

impl<'a> Met<'a> {
    fn add(
        &mut self,
        field: &Field<'_>,
        name: Cow<'a, str>,
        table: Option<&TableSlot>,
        schema: Option<&TableSchema>,
    ) -> Result<(), RowError> {
        let of_slot = table.and_then(|table| {
            let known = table.fields.get(table.known_field(field.key)?)?;
            Some((known.id, known.kind, known.of))
        });
        let known = of_slot.or_else(|| {
            let known = schema?.field(&name)?;
            match known.kind {
                ColumnKind::Field(kind) => Some((known.id, kind, known.of())),
                ColumnKind::Tag => None,
            }
        });
        let (kind, of) = if let Some((id, kind, of)) = known {
            self.known.push(id);
            (kind, of)
        } else {
            check_name("field", &name).map_err(RowError::BadName)?;
            let kind = kind_of(&field.value);
            (*self.new.entry(name).or_insert(kind), None)
        };
        takes(kind, of, field)
    }
}

/// Whether a column of this type takes a value, as adding it would find out.
fn takes(kind: PhysicalType, of: Option<LogicalType>, field: &Field<'_>) -> Result<(), RowError> {
    let mut column = Column::new(ColumnId(0), kind);
    if let Some(of) = of {
        return push_declared(&mut column, of, field.key, &field.value).map(|_| ());
    }
    if push_value(&mut column, &field.value) {
        Ok(())
    } else {
        Err(refusal(field.key, &field.value, kind))
    }
}
