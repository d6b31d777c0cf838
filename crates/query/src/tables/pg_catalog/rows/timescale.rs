//! Rows of `timescaledb_information`, and what stands for the extension.

mod chunks;
mod jobs;

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use nilometer_engine::{TableSchema, TimeKind};
use nilometer_service::{Span, define};

use crate::error::Error;
use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::definitions::{format_type, type_of};
use crate::tables::pg_catalog::objects::{Object, Of};
use crate::tables::pg_catalog::oids;
use crate::tables::pg_catalog::source::Source;

/// The release of TimescaleDB whose functions are meant where this program has one of the name.
const VERSION: &str = "2.28.3";

/// `pg_extension`. What there is of TimescaleDB is there in every database.
pub(super) fn extensions(sink: &mut Sink) -> Result<()> {
    sink.row(|column| match column {
        "oid" => oids::TIMESCALEDB.into(),
        "extname" => "timescaledb".into(),
        "extowner" => oids::OWNER.into(),
        "extnamespace" => oids::PUBLIC_OID.into(),
        "extversion" => VERSION.into(),
        _ => Cell::Default,
    })
}

/// Adds the rows of a table.
pub(in crate::tables::pg_catalog) fn fill(source: &Source, sink: &mut Sink) -> Result<()> {
    if matches!(source.table.name, "jobs" | "job_stats" | "job_history") {
        let of = (source.catalogue.as_ref(), source.reading.snapshot());
        let principal = &source.reading.reader().principal;
        let asked_by = (principal.is_admin(), principal.name().unwrap_or_default());
        return jobs::fill(source.table.name, of, asked_by, sink);
    }
    let catalogue = &source.catalogue;
    if source.table.name == "continuous_aggregates" {
        return aggregates(source, sink);
    }
    let of = (catalogue.as_ref(), source.reading.snapshot());
    for object in &catalogue.objects {
        let Of::Series(table) = &object.of else {
            continue;
        };
        let within = (catalogue.database.as_str(), catalogue.schema_of(object));
        let found = define::dimensions_of(source.reading.snapshot(), within, table.kept_id());
        let Some(define::Dimensions { space }) = found else {
            continue;
        };
        match source.table.name {
            "hypertables" => hypertable(source, object, table, space.is_some(), sink)?,
            "chunks" | "chunk_sizes" if source.wanted.has(object.oid) => {
                let kind = type_name(object, table.time().0);
                chunks::chunks(of, object, table, kind.as_deref(), sink)?;
            }
            "compression_settings" => chunks::settings(of, object, table, sink)?,
            "hypertable_compression_settings" | "hypertable_columnstore_settings" => {
                chunks::settings_of_table(of, object, table, sink)?;
            }
            "dimensions" => dimensions(source, object, table, space.as_ref(), sink)?,
            _ => {}
        }
    }
    Ok(())
}

/// Views whose answers are stored.
fn aggregates(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let snapshot = source.reading.snapshot();
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    for object in &catalogue.objects {
        let Of::View(query) = &object.of else {
            continue;
        };
        let schema = catalogue.schema_of(object);
        let found = define::aggregate(snapshot, &catalogue.database, schema, &object.name);
        let Some(found) = found else { continue };
        let inner = &found.source;
        // Of an aggregate of aggregates what is meant is the table with the answers of the inner one.
        let stored = define::aggregate(snapshot, &inner.database, &inner.schema, &inner.table);
        let hypertable = stored.map_or_else(|| inner.table.clone(), |stored| stored.stored);
        let table = snapshot.table(&catalogue.database, schema, &found.stored);
        let cold = table.and_then(|table| table.settings.cold_after_ns);
        sink.row(|column| match column {
            "hypertable_schema" => inner.schema.as_str().into(),
            "hypertable_name" => hypertable.as_str().into(),
            "view_schema" | "materialization_hypertable_schema" => schema.into(),
            "view_name" => object.name.as_str().into(),
            "view_owner" => owner.into(),
            "materialized_only" => found.is_stored_only.into(),
            "compression_enabled" => cold.is_some_and(|ns| ns < i64::MAX).into(),
            "materialization_hypertable_name" => found.stored.as_str().into(),
            "view_definition" => query.as_str().into(),
            "finalized" => true.into(),
            _ => Cell::Null,
        })?;
    }
    Ok(())
}

fn hypertable(
    source: &Source,
    object: &Object,
    table: &Arc<TableSchema>,
    has_space: bool,
    sink: &mut Sink,
) -> Result<()> {
    let catalogue = &source.catalogue;
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    let snapshot = source.reading.snapshot();
    let slots = snapshot.slots(table, table.settings.partition_interval_ns);
    let slots = slots.map_err(|error| DataFusionError::External(Box::new(Error::from(error))))?;
    let count = slots.len();
    let within = (catalogue.database.as_str(), catalogue.schema_of(object));
    let compression = define::compression_of(snapshot, within, table);
    let is_on = compression.is_some_and(|it| it.is_on);
    sink.row(|column| match column {
        "hypertable_schema" => catalogue.schema_of(object).into(),
        "hypertable_name" => object.name.as_str().into(),
        "owner" => owner.into(),
        "num_dimensions" => (1 + i64::from(has_space)).into(),
        "num_chunks" => count.into(),
        // Every column of every partition is compressed; what is meant is whether old ones are more so.
        "compression_enabled" => {
            let cold = table.settings.cold_after_ns;
            (is_on || cold.is_some_and(|ns| ns < i64::MAX)).into()
        }
        "primary_dimension" => table.time().0.into(),
        "primary_dimension_type" => type_name(object, table.time().0).into(),
        _ => Cell::Null,
    })
}

fn dimensions(
    source: &Source,
    object: &Object,
    table: &TableSchema,
    space: Option<&(String, i64)>,
    sink: &mut Sink,
) -> Result<()> {
    let catalogue = &source.catalogue;
    let (time, kind) = table.time();
    let interval_ns = table.settings.partition_interval_ns;
    let name = define::TableName {
        database: catalogue.database.clone(),
        schema: catalogue.schema_of(object).to_owned(),
        table: object.name.clone(),
    };
    let now = define::integer_now_of(source.reading.snapshot(), &name, table.kept_id());
    let now = now.map(|function| function.name.table);
    let mut row = |nth: i64, name: &str, partitions: Option<i64>| {
        let is_time = nth == 1;
        let unit = match kind {
            TimeKind::Integer { unit_ns } if is_time => Some(unit_ns.max(1)),
            _ => None,
        };
        sink.row(|column| match column {
            "hypertable_schema" => catalogue.schema_of(object).into(),
            "hypertable_name" => object.name.as_str().into(),
            "dimension_number" => nth.into(),
            "column_name" => name.into(),
            "column_type" => type_name(object, name).into(),
            "dimension_type" => if is_time { "Time" } else { "Space" }.into(),
            "time_interval" if is_time && unit.is_none() => {
                define::span_text(Span::of_ns(interval_ns)).into()
            }
            "integer_interval" => unit.map(|unit| interval_ns / unit).into(),
            "integer_now_func" if is_time => now.as_deref().into(),
            "num_partitions" => partitions.into(),
            _ => Cell::Null,
        })
    };
    row(1, time, None)?;
    match space {
        None => Ok(()),
        Some((column, partitions)) => row(2, column, (*partitions > 0).then_some(*partitions)),
    }
}

fn type_name(object: &Object, name: &str) -> Option<String> {
    let columns = object.columns()?;
    let (oid, modifier) = type_of(columns.field_with_name(name).ok()?);
    Some(format_type(oid, Some(modifier)))
}
