//! Another column as the time of a table that has no rows.
//!
//! Does: put the one in the place of the other as one record, where no row is there, and ask that under the sequencer. Does not:
//! move rows that are there: each would be at another time, and NULL in none.

use nilometer_codec::PhysicalType;

use crate::declared::{Declared, DeclaredTime, TimeKind};
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::change::ddl::{find_column, find_table};
use crate::error::Error;
use crate::logical::LogicalType;
use crate::scan::has_rows;
use crate::schema::{ColumnKind, ColumnSource, TIME_COLUMN, TableSchema};

impl TimeKind {
    /// What a field may be as a time, and the type that it keeps; `None` = its values are no times.
    pub fn of_field(
        kind: ColumnKind,
        of: Option<LogicalType>,
    ) -> Option<(Self, Option<LogicalType>)> {
        // So that every integer is one of the times that there are.
        let integer = Self::Integer { unit_ns: 1 };
        Some(match (kind, of) {
            (ColumnKind::Field(PhysicalType::I64), None | Some(LogicalType::BigInt)) => {
                (integer, None)
            }
            (ColumnKind::Field(_), Some(of @ (LogicalType::SmallInt | LogicalType::Integer))) => {
                (integer, Some(of))
            }
            (ColumnKind::Field(_), Some(LogicalType::TimestampTz)) => (Self::TimestampTz, None),
            (ColumnKind::Field(_), Some(LogicalType::Timestamp)) => (Self::Timestamp, None),
            (ColumnKind::Field(_), Some(LogicalType::Date)) => (Self::Date, None),
            _ => return None,
        })
    }

    /// The type of a field that has such times.
    fn as_field(self, of: Option<LogicalType>) -> Option<LogicalType> {
        match self {
            Self::TimestampTz => Some(LogicalType::TimestampTz),
            Self::Timestamp => Some(LogicalType::Timestamp),
            Self::Date => Some(LogicalType::Date),
            Self::Integer { .. } => of,
        }
    }
}

impl Engine {
    /// Makes a field the time of a table, and the time that it had a field. SQL goes on showing all columns where they were. The
    /// table must have no rows. Durable on return.
    pub fn choose_time(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: &str,
    ) -> Result<(), Error> {
        let mut sequencer = self.sequencer.lock();
        let found = find_table(&self.sequencer.catalogue(), database, schema, table)?;
        let (now, ()) = self.sequencer.moment(|| (sequencer.next_lsn - 1, ()));
        if has_rows(&now, &found)? {
            return Err(Error::HasRows {
                table: found.name.clone(),
            });
        }
        let chosen = find_column(&found, column)?;
        let wrong = |reason: &str| Error::TypedColumn {
            table: found.name.clone(),
            column: column.to_owned(),
            reason: reason.to_owned(),
        };
        if found.time().0 == TIME_COLUMN {
            return Err(wrong("a column called time is always the table's time"));
        }
        let Some((kind, of)) = TimeKind::of_field(chosen.kind, chosen.of()) else {
            return Err(wrong("a time is an integer, a TIMESTAMP or a DATE"));
        };
        let mut declared = chosen.declared.as_deref().cloned().unwrap_or_default();
        declared.of = of;
        declared.not_null = false;
        let time = DeclaredTime {
            name: chosen.name.clone(),
            kind,
            column: declared,
        };
        let (old, old_kind) = found.time();
        let field = old_kind.as_field(found.time_type());
        let stored = ColumnKind::Field(field.map_or(PhysicalType::I64, LogicalType::physical));
        let made = {
            let catalogue = self.sequencer.catalogue();
            catalogue.plan_column(found.id, stored, old)
        };
        let planned = planned(&found, time, (made, field));
        self.commit(&mut sequencer, &planned)
    }
}

/// The definitions that put a field in the place of the time: it goes, the time gets its name, and the old time comes as a field.
fn planned(
    table: &TableSchema,
    time: DeclaredTime,
    (made, field): (Definition, Option<LogicalType>),
) -> Vec<Definition> {
    let id = table.id;
    let shown = table.shown_columns();
    let place = |at: usize| Some(u32::try_from(at).unwrap_or(u32::MAX));
    let chosen = table.fields.iter().find(|it| it.name == time.name);
    let of_old = table.declared.as_ref().and_then(|it| it.time.as_ref());
    let of_old = of_old.map(|it| it.column.clone()).unwrap_or_default();
    let mut declared = table.declared.as_deref().cloned().unwrap_or_default();
    let mut rest = Vec::new();
    let mut time = time;
    for at in 0..shown.len() {
        let column = match shown.position(at).and_then(|it| table.source(it)) {
            None => continue,
            Some(ColumnSource::Time) => {
                rest.push(made.clone());
                if let Definition::Column { id: column, .. } = &made {
                    let said = Declared {
                        of: field,
                        position: place(at),
                        ..of_old.clone()
                    };
                    rest.push(Definition::DeclareColumn {
                        id: *column,
                        table: id,
                        declared: Box::new(said),
                    });
                }
                continue;
            }
            Some(ColumnSource::Tag(at)) => table.tags.get(at),
            Some(ColumnSource::Field(at)) => table.fields.get(at),
        };
        let Some(column) = column else { continue };
        if chosen.is_some_and(|chosen| chosen.id == column.id) {
            time.column.position = place(at);
            continue;
        }
        let mut said = column.declared.as_deref().cloned().unwrap_or_default();
        said.position = place(at);
        rest.push(Definition::DeclareColumn {
            id: column.id,
            table: id,
            declared: Box::new(said),
        });
    }
    declared.time = Some(time);
    let dropped = chosen.map(|chosen| Definition::DropColumn {
        id: chosen.id,
        table: id,
    });
    let declared = Definition::DeclareTable {
        id,
        declared: Box::new(declared),
    };
    dropped.into_iter().chain([declared]).chain(rest).collect()
}
