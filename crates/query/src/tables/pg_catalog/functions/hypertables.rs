//! Functions about hypertables: sizes and counts.

use std::sync::Arc;

use nilometer_engine::{TableSchema, TimeKind};
use nilometer_service::Fault;
use nilometer_service::define::{DefineError, dimensions_of, table_bytes};

use super::call::{Answer, Asked, Call, text};
use super::names::relation;
use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::objects::Of;
use crate::tables::pg_catalog::values::Returns::Int;

/// The function that a rewritten call asks for the number of its hypertable.
pub(crate) const HYPERTABLE: &str = "__hypertable";

/// The same for who says bounds by the clock.
pub(crate) const HYPERTABLE_BY_CLOCK: &str = "__hypertable_by_clock";

pub(super) const CALLS: &[Call] = &[
    Call::new(HYPERTABLE_BY_CLOCK, (1, 1), Int, |asked, cells| {
        let (oid, table) = hypertable(asked, cells)?;
        if matches!(table.time().1, TimeKind::Integer { .. }) {
            let argument = "the bound of chunks".to_owned();
            return Err(Error::of_name(DefineError::IntegerTime { argument }, None));
        }
        Ok(oid.into())
    }),
    Call::new(HYPERTABLE, (1, 1), Int, |asked, cells| {
        hypertable(asked, cells).map(|(oid, _)| oid.into())
    }),
    Call::new("hypertable_size", (1, 1), Int, |asked, cells| {
        let (_, table) = hypertable(asked, cells)?;
        let bytes = table_bytes(asked.reading.snapshot(), &table);
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX).into())
    }),
    Call::new("approximate_row_count", (1, 1), Int, rows),
];

/// The hypertable that a number or a name means.
fn hypertable(asked: &Asked, cells: &[Cell]) -> Result<(i64, Arc<TableSchema>), Error> {
    let catalogue = asked.catalogue();
    let Some(object) = relation(&catalogue, cells.first()) else {
        return Err(unknown(cells));
    };
    let within = (catalogue.database.as_str(), catalogue.schema_of(object));
    if let Of::Series(table) = &object.of
        && dimensions_of(asked.reading.snapshot(), within, table.kept_id()).is_some()
    {
        return Ok((object.oid, Arc::clone(table)));
    }
    Err(Error::Definition {
        message: format!(
            "table \"{}\" is not a hypertable; make it one with create_hypertable",
            object.name
        ),
        fault: Fault::UnknownTable,
        position: None,
    })
}

fn unknown(cells: &[Cell]) -> Error {
    Error::UnknownTable {
        name: text(cells, 0).unwrap_or_default().to_owned(),
        nearest: None,
        position: None,
    }
}

/// About how many rows there are, by metadata alone.
fn rows(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let Some(object) = relation(&catalogue, cells.first()) else {
        return Err(unknown(cells));
    };
    let snapshot = asked.reading.snapshot();
    let rows = match &object.of {
        Of::Series(table) => snapshot.about_rows(table.id),
        Of::Relation(_) => {
            let schema = catalogue.schema_of(object);
            let reader = snapshot.relation(&catalogue.database, schema, &object.name);
            reader.map_or(0, |reader| reader.rows().len() as u64)
        }
        _ => return Ok(Cell::Null),
    };
    Ok(i64::try_from(rows).unwrap_or(i64::MAX).into())
}
