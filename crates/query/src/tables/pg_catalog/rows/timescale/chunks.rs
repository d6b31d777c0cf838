//! Rows of chunks, with their sizes and the settings of their compression.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use nilometer_engine::{Snapshot, TableSchema, TimeKind};
use nilometer_service::define::{self, CHUNK_SCHEMA};

use crate::error::Error;
use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::objects::{Catalogue, Object};

/// The chunks of a hypertable.
pub(super) fn chunks(
    (catalogue, snapshot): (&Catalogue, &Snapshot),
    object: &Object,
    table: &Arc<TableSchema>,
    kind: Option<&str>,
    sink: &mut Sink,
) -> Result<()> {
    let within = (catalogue.database.as_str(), catalogue.schema_of(object));
    let unit = match table.time().1 {
        TimeKind::Integer { unit_ns } => Some(unit_ns.max(1)),
        _ => None,
    };
    let found = define::chunks_of(snapshot, table)
        .map_err(|error| DataFusionError::External(Box::new(Error::from(error))))?;
    for chunk in found {
        let (start, end) = (*chunk.time.start(), chunk.end());
        let bytes = |bytes: u64| Cell::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
        let before = define::bytes_before(snapshot, within, table, &chunk);
        sink.row(|column| match column {
            "hypertable_oid" => object.oid.into(),
            "hypertable_schema" => within.1.into(),
            "hypertable_name" => object.name.as_str().into(),
            "chunk_schema" => CHUNK_SCHEMA.into(),
            "chunk_name" => chunk.name.as_str().into(),
            "primary_dimension" => table.time().0.into(),
            "primary_dimension_type" => kind.into(),
            "range_start" if unit.is_none() => start.into(),
            "range_end" if unit.is_none() => end.into(),
            "range_start_integer" => unit.map(|unit| start.div_euclid(unit)).into(),
            "range_end_integer" => unit.map(|unit| end.div_euclid(unit)).into(),
            "is_compressed" => chunk.is_cold.into(),
            "total_bytes" => bytes(chunk.bytes),
            "compressed_bytes" => bytes(chunk.cold_bytes),
            "before_compression_bytes" => before.map_or(Cell::Null, bytes),
            _ => Cell::Null,
        })?;
    }
    Ok(())
}

/// The settings of the compression of a hypertable: a row a column.
pub(super) fn settings(
    (catalogue, snapshot): (&Catalogue, &Snapshot),
    object: &Object,
    table: &TableSchema,
    sink: &mut Sink,
) -> Result<()> {
    let within = (catalogue.database.as_str(), catalogue.schema_of(object));
    let known = define::compression_of(snapshot, within, table);
    let Some(known) = known.filter(|known| known.is_on) else {
        return Ok(());
    };
    let mut row = |name: &str, segment: Option<usize>, order: Option<(usize, bool, bool)>| {
        sink.row(|column| match column {
            "hypertable_schema" => within.1.into(),
            "hypertable_name" => object.name.as_str().into(),
            "attname" => name.into(),
            "segmentby_column_index" => segment.into(),
            "orderby_column_index" => order.map(|(nth, ..)| nth).into(),
            "orderby_asc" => order.map(|(_, ascending, _)| ascending).into(),
            "orderby_nullsfirst" => order.map(|(.., first)| first).into(),
            _ => Cell::Null,
        })
    };
    for (nth, name) in (1..).zip(&known.segment_by) {
        row(name, Some(nth), None)?;
    }
    for (nth, order) in (1..).zip(&known.order_by) {
        row(
            &order.column,
            None,
            Some((nth, order.is_ascending, order.nulls_first)),
        )?;
    }
    Ok(())
}

/// The same, a row a hypertable.
pub(super) fn settings_of_table(
    (catalogue, snapshot): (&Catalogue, &Snapshot),
    object: &Object,
    table: &TableSchema,
    sink: &mut Sink,
) -> Result<()> {
    let within = (catalogue.database.as_str(), catalogue.schema_of(object));
    let known = define::compression_of(snapshot, within, table);
    let Some(known) = known.filter(|known| known.is_on) else {
        return Ok(());
    };
    let orders = known.order_by.iter().map(|it| {
        let direction = if it.is_ascending { "" } else { " DESC" };
        // As PostgreSQL has it: NULL is greater than everything else.
        let nulls = match (it.is_ascending, it.nulls_first) {
            (true, true) => " NULLS FIRST",
            (false, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", it.column)
    });
    let orders: Vec<String> = orders.collect();
    let listed = |list: &[String]| match list {
        [] => Cell::Null,
        list => list.join(",").into(),
    };
    sink.row(|column| match column {
        "hypertable" => match within.1 {
            "public" => object.name.as_str().into(),
            schema => format!("{schema}.{}", object.name).into(),
        },
        "segmentby" => listed(&known.segment_by),
        "orderby" => listed(&orders),
        _ => Cell::Null,
    })
}
