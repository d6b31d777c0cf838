//! Rows of `pg_type` and `pg_enum`: the types that are always there, and enumerations.

use arrow::datatypes::Field;
use datafusion::common::Result;
use nilometer_engine::{ENUM_TYPE, SQL_TYPE};
use nilometer_service::define::{self, Enumeration};

use super::super::cells::{Cell, Sink};
use super::super::objects::Object;
use super::super::source::Source;
use super::super::{fixed, oids};

/// The length of a value of an enumeration in PostgreSQL.
pub(super) const LENGTH: i64 = 4;

/// The number of the enumeration that a column is of; `None` = it is of none.
pub(super) fn of_column(source: &Source, object: &Object, field: &Field) -> Option<i64> {
    let name = field.metadata().get(SQL_TYPE)?.strip_prefix(ENUM_TYPE)?;
    let schema = source.catalogue.schemas.get(object.schema)?;
    Some(oids::enumeration(schema.oid, name))
}

/// The enumerations of the database, with the numbers of their schemas and their own.
fn all(source: &Source) -> Vec<(i64, i64, Enumeration)> {
    let snapshot = source.reading.snapshot();
    let mut found = Vec::new();
    for schema in &source.catalogue.schemas {
        let database = source.catalogue.database.as_str();
        for of in define::enumerations(snapshot, database, &schema.name) {
            found.push((schema.oid, oids::enumeration(schema.oid, &of.name), of));
        }
    }
    found
}

pub(super) fn types(source: &Source, sink: &mut Sink) -> Result<()> {
    if let Some(rows) = fixed::rows("pg_type") {
        super::fixed_rows(source, rows, sink)?;
    }
    for (schema, oid, of) in all(source) {
        if !source.wanted.has(oid) {
            continue;
        }
        sink.row(|column| match column {
            "oid" => oid.into(),
            "typname" => of.name.as_str().into(),
            "typnamespace" => schema.into(),
            "typowner" => oids::OWNER.into(),
            "typlen" => LENGTH.into(),
            "typbyval" | "typisdefined" => true.into(),
            "typtype" => "e".into(),
            "typcategory" => "E".into(),
            "typdelim" => ",".into(),
            "typalign" => "i".into(),
            "typstorage" => "p".into(),
            "typtypmod" => (-1i64).into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

pub(super) fn labels(source: &Source, sink: &mut Sink) -> Result<()> {
    for (_, of_type, of) in all(source) {
        for (at, label) in of.labels.iter().enumerate() {
            sink.row(|column| match column {
                "oid" => oids::enumeration(of_type, label).into(),
                "enumtypid" => of_type.into(),
                "enumsortorder" => (at + 1).into(),
                "enumlabel" => label.as_str().into(),
                _ => Cell::Default,
            })?;
        }
    }
    Ok(())
}
