//! Rows of `pg_depend`, `pg_sequence` and `pg_sequences`.
//!
//! Does: say which sequence is of which column, and that what the program brings along belongs to its extension, so that nobody
//! dumps it. Does not: list what else depends on what; DROP looks for itself.

use datafusion::common::Result;
use nilometer_service::define::{Numbered, NumberedBy, SYSTEM_SCHEMA, TIMESCALEDB_INFORMATION};

use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::objects::Of;
use crate::tables::pg_catalog::oids;
use crate::tables::pg_catalog::relations;
use crate::tables::pg_catalog::source::Source;

/// `bigint`.
const BIGINT: i64 = 20;

/// `pg_depend`.
pub(super) fn fill(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let number = |name: &str| relations::oid_of(name).unwrap_or_default();
    let (classes, defaults) = (number("pg_class"), number("pg_attrdef"));
    let (schemas, extensions) = (number("pg_namespace"), number("pg_extension"));
    let mut row = |of: (i64, i64), to: (i64, i64, usize), kind: &str| {
        sink.row(|column| match column {
            "classid" => of.0.into(),
            "objid" => of.1.into(),
            "refclassid" => to.0.into(),
            "refobjid" => to.1.into(),
            "refobjsubid" => to.2.into(),
            "deptype" => kind.into(),
            _ => Cell::Default,
        })
    };
    let is_own = |schema: &str| [SYSTEM_SCHEMA, TIMESCALEDB_INFORMATION].contains(&schema);
    let extension = (extensions, oids::TIMESCALEDB, 0);
    for schema in catalogue.schemas.iter().filter(|it| is_own(&it.name)) {
        row((schemas, schema.oid), extension, "e")?;
    }
    for object in &catalogue.objects {
        let of = (classes, object.oid);
        if is_own(catalogue.schema_of(object)) {
            row(of, extension, "e")?;
        } else if let Some((table, column, numbered)) = catalogue.owner_of(object) {
            let kind = match numbered.how {
                NumberedBy::Default => "a",
                NumberedBy::Identity | NumberedBy::Always => "i",
            };
            row(of, (classes, table.oid, column), kind)?;
        }
        // A default that takes its numbers from a sequence: `pg_dump` writes it behind both.
        let columns = source.columns_of(object);
        for at in 0..columns.map_or(0, |columns| columns.fields().len()) {
            let numbered = object.default(at).and_then(Numbered::of);
            let schema = catalogue.schema_of(object);
            let sequence = numbered.and_then(|it| catalogue.by_name(Some(schema), &it.sequence));
            if let Some(sequence) = sequence {
                let default = (defaults, oids::default(object.oid, at + 1));
                row(default, (classes, sequence.oid, 0), "n")?;
            }
        }
    }
    Ok(())
}

/// `pg_sequence`, and `pg_sequences`, which has names.
pub(super) fn sequences(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let snapshot = source.reading.snapshot();
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    for object in source.wanted.objects(catalogue) {
        let Of::Sequence(sequence) = &object.of else {
            continue;
        };
        let schema = catalogue.schema_of(object);
        let Some(counting) = catalogue.counting_of(object, snapshot) else {
            continue;
        };
        let last = sequence.last(&counting);
        sink.row(|column| match column {
            "schemaname" => schema.into(),
            "sequencename" => object.name.as_str().into(),
            "sequenceowner" => owner.into(),
            "data_type" | "seqtypid" => BIGINT.into(),
            "seqrelid" => object.oid.into(),
            "seqstart" | "start_value" => counting.start.into(),
            "seqincrement" | "increment_by" => counting.increment.into(),
            "seqmax" | "max_value" => counting.max.into(),
            "seqmin" | "min_value" => counting.min.into(),
            "seqcache" | "cache_size" => 1i64.into(),
            "seqcycle" | "cycle" => counting.cycles.into(),
            "last_value" => match last {
                (value, true) => value.into(),
                _ => Cell::Null,
            },
            _ => Cell::Default,
        })?;
    }
    Ok(())
}
