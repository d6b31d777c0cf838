//! Rows of `information_schema`.

use datafusion::common::Result;
use nilometer_service::define::NumberedBy;
use nilometer_service::{ForeignKey, Place, Privilege, Privileges, privileges_of};

use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::definitions::{self, standard_name, type_of};
use crate::tables::pg_catalog::fixed;
use crate::tables::pg_catalog::objects::{Index, Object, Of};
use crate::tables::pg_catalog::source::Source;

/// Adds the rows of a table.
pub(in crate::tables::pg_catalog) fn fill(source: &Source, sink: &mut Sink) -> Result<()> {
    match source.table.name {
        "schemata" => schemata(source, sink),
        "tables" => tables(source, sink, |_| true),
        "views" => tables(source, sink, |object| object.kind() == "v"),
        "columns" => columns(source, sink),
        "table_constraints" => {
            keys(source, sink, false)?;
            checks(source, sink)
        }
        "check_constraints" => checks(source, sink),
        "key_column_usage" | "constraint_column_usage" => keys(source, sink, true),
        "information_schema_catalog_name" => {
            sink.row(|_| source.catalogue.database.as_str().into())
        }
        "role_table_grants" | "table_privileges" => table_grants(source, sink),
        "enabled_roles" => {
            let name = source.catalogue.reader.name();
            sink.row(|_| name.into())
        }
        _ => Ok(()),
    }
}

fn schemata(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    for schema in &catalogue.schemas {
        sink.row(|column| match column {
            "catalog_name" => catalogue.database.as_str().into(),
            "schema_name" => schema.name.as_str().into(),
            "schema_owner" => owner.into(),
            _ => Cell::Null,
        })?;
    }
    Ok(())
}

/// `tables`, and `views`, which has fewer.
fn tables(source: &Source, sink: &mut Sink, is_listed: impl Fn(&Object) -> bool) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in &catalogue.objects {
        if matches!(object.of, Of::Index(_) | Of::Sequence(_)) || !is_listed(object) {
            continue;
        }
        let is_table = object.kind() == "r";
        let is_own = matches!(object.of, Of::Series(_) | Of::Relation(_));
        sink.row(|column| match column {
            "table_catalog" => catalogue.database.as_str().into(),
            "table_schema" => catalogue.schema_of(object).into(),
            "table_name" => object.name.as_str().into(),
            "table_type" => if is_table { "BASE TABLE" } else { "VIEW" }.into(),
            "is_insertable_into" => yes(is_own),
            "view_definition" => match &object.of {
                Of::View(query) => query.as_str().into(),
                _ => Cell::Null,
            },
            "check_option" => "NONE".into(),
            "is_typed"
            | "is_updatable"
            | "is_trigger_updatable"
            | "is_trigger_deletable"
            | "is_trigger_insertable_into" => "NO".into(),
            _ => Cell::Null,
        })?;
    }
    Ok(())
}

fn yes(truth: bool) -> Cell {
    if truth { "YES" } else { "NO" }.into()
}

fn columns(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in &catalogue.objects {
        let Some(columns) = source.columns_of(object) else {
            continue;
        };
        let schema = catalogue.schema_of(object);
        let is_own = matches!(object.of, Of::Series(_) | Of::Relation(_));
        for (at, field) in columns.fields().iter().enumerate() {
            let (oid, modifier) = type_of(field);
            let kind = fixed::type_of_oid(oid);
            let name = kind.map_or("text", |kind| kind.name);
            let (precision, radix, scale) = number(name, modifier);
            sink.row(|column| match column {
                "table_catalog" | "udt_catalog" => catalogue.database.as_str().into(),
                "table_schema" => schema.into(),
                "table_name" => object.name.as_str().into(),
                "column_name" => field.name().as_str().into(),
                "ordinal_position" => (at + 1).into(),
                "column_default" => object.default(at).into(),
                "is_nullable" => yes(!object.is_not_null(at, field)),
                "data_type" => kind.map(standard_name).into(),
                "character_maximum_length" => match name {
                    "varchar" | "bpchar" if modifier > 0 => (modifier - 4).into(),
                    _ => Cell::Null,
                },
                "character_octet_length" => match name {
                    "varchar" | "bpchar" if modifier > 0 => ((modifier - 4) * 4).into(),
                    "text" | "varchar" => 1_073_741_824i64.into(),
                    _ => Cell::Null,
                },
                "numeric_precision" => precision.into(),
                "numeric_precision_radix" => radix.into(),
                "numeric_scale" => scale.into(),
                "datetime_precision" => match name {
                    "date" => 0i64.into(),
                    "timestamp" | "timestamptz" | "time" | "timetz" | "interval" => 6i64.into(),
                    _ => Cell::Null,
                },
                "udt_schema" => "pg_catalog".into(),
                "udt_name" => name.into(),
                "dtd_identifier" => (at + 1).to_string().into(),
                "is_identity" => yes(object.identity(at).is_some()),
                "identity_generation" => match object.identity(at) {
                    Some(NumberedBy::Always) => "ALWAYS".into(),
                    Some(_) => "BY DEFAULT".into(),
                    None => Cell::Null,
                },
                "is_self_referencing" | "identity_cycle" => "NO".into(),
                "is_generated" => "NEVER".into(),
                "is_updatable" => yes(is_own),
                _ => Cell::Null,
            })?;
        }
    }
    Ok(())
}

/// Digits of a number, what they count in, and those behind the point.
fn number(name: &str, modifier: i64) -> (Option<i64>, Option<i64>, Option<i64>) {
    match name {
        "int2" => (Some(16), Some(2), Some(0)),
        "int4" => (Some(32), Some(2), Some(0)),
        "int8" => (Some(64), Some(2), Some(0)),
        "float4" => (Some(24), Some(2), None),
        "float8" => (Some(53), Some(2), None),
        "numeric" if modifier > 0 => {
            let of = modifier - 4;
            (Some(of >> 16), Some(10), Some(of & 0x7ff))
        }
        "numeric" => (None, Some(10), None),
        _ => (None, None, None),
    }
}

/// The privileges that each role has of each table: those of an administrator are not granted, and hold all the same.
fn table_grants(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    let is_own =
        |object: &&Object| matches!(object.of, Of::Series(_) | Of::Relation(_) | Of::View(_));
    for object in catalogue.objects.iter().filter(is_own) {
        let schema = catalogue.schema_of(object);
        let place = Place::table(&catalogue.database, schema, &object.name);
        for role in &catalogue.roles {
            let held = if role.is_user {
                privileges_of(source.reading.snapshot(), &role.name, place).unwrap_or_default()
            } else {
                Privileges::ALL
            };
            for (privilege, of) in TABLE_PRIVILEGES {
                if !held.has(of) {
                    continue;
                }
                sink.row(|column| match column {
                    "grantor" => owner.into(),
                    "grantee" => role.name.as_str().into(),
                    "table_catalog" => catalogue.database.as_str().into(),
                    "table_schema" => schema.into(),
                    "table_name" => object.name.as_str().into(),
                    "privilege_type" => privilege.into(),
                    "is_grantable" => yes(role.is_admin),
                    "with_hierarchy" => yes(privilege == "SELECT"),
                    _ => Cell::Null,
                })?;
            }
        }
    }
    Ok(())
}

/// `PostgreSQL`'s privileges of a table, in its order, and ours that they are.
const TABLE_PRIVILEGES: [(&str, Privilege); 5] = [
    ("INSERT", Privilege::Write),
    ("SELECT", Privilege::Read),
    ("UPDATE", Privilege::Write),
    ("DELETE", Privilege::Write),
    ("TRUNCATE", Privilege::Write),
];

/// Constraints, or their columns.
fn keys(source: &Source, sink: &mut Sink, lists_columns: bool) -> Result<()> {
    let catalogue = &source.catalogue;
    let constraints = catalogue.objects.iter().filter_map(|object| {
        let Of::Index(index) = &object.of else {
            return None;
        };
        let table = catalogue.objects.get(index.table)?;
        (index.constraint != 0).then_some((object, index, table))
    });
    for (object, index, table) in constraints {
        let row = |sink: &mut Sink, name: &str, at: usize| {
            sink.row(|column| cell(source, (object, index, table), column, name, at))
        };
        if lists_columns {
            let names = definitions::names(catalogue, index);
            for (at, name) in names.iter().enumerate() {
                row(sink, name, at + 1)?;
            }
        } else {
            row(sink, "", 0)?;
        }
    }
    Ok(())
}

/// CHECKs, as `table_constraints` and `check_constraints` list them.
fn checks(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in &catalogue.objects {
        for check in object.checks() {
            let is_foreign = ForeignKey::of(check).is_some();
            if is_foreign && source.table.name == "check_constraints" {
                continue;
            }
            sink.row(|column| match column {
                "constraint_catalog" | "table_catalog" => catalogue.database.as_str().into(),
                "constraint_schema" | "table_schema" => catalogue.schema_of(object).into(),
                "constraint_name" => check.name.as_str().into(),
                "table_name" => object.name.as_str().into(),
                "constraint_type" if is_foreign => "FOREIGN KEY".into(),
                "constraint_type" => "CHECK".into(),
                "check_clause" => format!("(({}))", check.expression).into(),
                "is_deferrable" | "initially_deferred" => "NO".into(),
                "enforced" => "YES".into(),
                _ => Cell::Null,
            })?;
        }
    }
    Ok(())
}

fn cell(
    source: &Source,
    (object, index, table): (&Object, &Index, &Object),
    column: &str,
    name: &str,
    at: usize,
) -> Cell {
    match column {
        "constraint_catalog" | "table_catalog" => source.catalogue.database.as_str().into(),
        "constraint_schema" | "table_schema" => source.catalogue.schema_of(table).into(),
        "constraint_name" => object.name.as_str().into(),
        "table_name" => table.name.as_str().into(),
        "constraint_type" => if index.is_primary {
            "PRIMARY KEY"
        } else {
            "UNIQUE"
        }
        .into(),
        "column_name" => name.into(),
        "ordinal_position" => at.into(),
        "is_deferrable" | "initially_deferred" => "NO".into(),
        "enforced" => "YES".into(),
        "nulls_distinct" if !index.is_primary => "YES".into(),
        _ => Cell::Null,
    }
}
