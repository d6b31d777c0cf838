//! Rows of `pg_catalog`.

mod declared;
mod dependencies;
mod enumerations;
pub(super) mod standard;
pub(super) mod timescale;

use datafusion::common::Result;
use nilometer_service::ForeignKey;
use nilometer_service::define::NumberedBy;

use super::cells::{Cell, Sink};
use super::definitions::{self, type_of};
use super::fixed::{self, Fixed};
use super::objects::{Index, Object, Of};
use super::oids;
use super::source::Source;

/// The encoding UTF8.
const UTF8: i64 = 6;
const BTREE: i64 = 403;
const HEAP: i64 = 2;
const PG_DEFAULT: i64 = 1663;

/// Adds the rows of a table.
pub(super) fn fill(source: &Source, sink: &mut Sink) -> Result<()> {
    match source.table.name {
        "pg_class" => classes(source, sink),
        "pg_attribute" => attributes(source, sink),
        "pg_index" => indexes(source, sink),
        "pg_constraint" => constraints(source, sink),
        "pg_namespace" => namespaces(source, sink),
        "pg_database" => databases(source, sink),
        "pg_authid" | "pg_roles" | "pg_user" | "pg_shadow" => roles(source, sink),
        "pg_tables" | "pg_views" | "pg_indexes" => listed(source, sink),
        "pg_settings" => settings(source, sink),
        "pg_attrdef" => declared::defaults(source, sink),
        "pg_description" => declared::comments(source, sink),
        "pg_enum" => enumerations::labels(source, sink),
        "pg_type" => enumerations::types(source, sink),
        "pg_extension" => timescale::extensions(sink),
        "pg_depend" => dependencies::fill(source, sink),
        "pg_sequence" | "pg_sequences" => dependencies::sequences(source, sink),
        name => match fixed::rows(name) {
            Some(rows) => fixed_rows(source, rows, sink),
            None => Ok(()),
        },
    }
}

fn fixed_rows(source: &Source, fixed: &Fixed, sink: &mut Sink) -> Result<()> {
    for row in &fixed.rows {
        let oid = row.first().copied().flatten();
        if !oid.is_none_or(|oid| oid.parse().is_ok_and(|oid| source.wanted.has(oid))) {
            continue;
        }
        sink.row(
            |column| match fixed.columns.iter().position(|it| *it == column) {
                Some(at) => row.get(at).copied().flatten().into(),
                None => match column {
                    "typnamespace" | "pronamespace" | "collnamespace" | "opcnamespace"
                    | "opfnamespace" => oids::PG_CATALOG_OID.into(),
                    "typowner" | "proowner" | "lanowner" | "collowner" | "opcowner"
                    | "opfowner" | "spcowner" => oids::OWNER.into(),
                    "typisdefined" | "proisstrict" => true.into(),
                    "typtypmod" => (-1i64).into(),
                    "prolang" => 12i64.into(),
                    "prokind" => "f".into(),
                    "provolatile" => "i".into(),
                    "proparallel" => "s".into(),
                    "procost" => 1i64.into(),
                    _ => Cell::Default,
                },
            },
        )?;
    }
    Ok(())
}

fn classes(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in source.wanted.objects(catalogue) {
        let schema = catalogue.schemas.get(object.schema);
        let schema = schema.map_or(0, |schema| schema.oid);
        sink.row(|column| match column {
            "oid" | "relfilenode" => object.oid.into(),
            "relname" => object.name.as_str().into(),
            "relnamespace" => schema.into(),
            "relowner" => oids::OWNER.into(),
            "relkind" => object.kind().into(),
            "relam" => match object.kind() {
                "r" => HEAP.into(),
                "i" => BTREE.into(),
                _ => Cell::Default,
            },
            "relnatts" => match &object.of {
                Of::Index(index) => index.columns.len().into(),
                _ => object
                    .columns()
                    .map_or(0, |columns| columns.fields().len())
                    .into(),
            },
            "relchecks" => {
                let checks = object.checks();
                checks
                    .filter(|it| ForeignKey::of(it).is_none())
                    .count()
                    .into()
            }
            "relhastriggers" => catalogue.is_linked(object.oid).into(),
            "relhasindex" => catalogue.is_indexed(object.oid).into(),
            "relpersistence" => "p".into(),
            "relreplident" => match object.kind() {
                "r" => "d".into(),
                _ => "n".into(),
            },
            "relispopulated" => true.into(),
            // Nobody has counted.
            "reltuples" => (-1i64).into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

fn attributes(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in source.wanted.objects(catalogue) {
        if let Of::Index(index) = &object.of {
            let table = catalogue.objects.get(index.table);
            let Some(columns) = table.and_then(Object::columns) else {
                continue;
            };
            for (at, number) in index.columns.iter().enumerate() {
                let place = usize::try_from(*number)
                    .ok()
                    .and_then(|it| it.checked_sub(1));
                if let Some(field) = place.and_then(|place| columns.fields().get(place)) {
                    attribute(source, sink, object, at, field, (false, false, ""))?;
                }
            }
            continue;
        }
        let Some(columns) = source.columns_of(object) else {
            continue;
        };
        for (at, field) in columns.fields().iter().enumerate() {
            let has_default = object.default(at).is_some();
            let identity = match object.identity(at) {
                Some(NumberedBy::Always) => "a",
                Some(_) => "d",
                None => "",
            };
            let said = (object.is_not_null(at, field), has_default, identity);
            attribute(source, sink, object, at, field, said)?;
        }
    }
    Ok(())
}

fn attribute(
    source: &Source,
    sink: &mut Sink,
    object: &Object,
    at: usize,
    field: &arrow::datatypes::Field,
    (not_null, has_default, identity): (bool, bool, &str),
) -> Result<()> {
    let enumeration = enumerations::of_column(source, object, field);
    let (oid, modifier) = enumeration.map_or_else(|| type_of(field), |oid| (oid, -1));
    let kind = fixed::type_of_oid(oid);
    sink.row(|column| match column {
        "attrelid" => object.oid.into(),
        "attname" => field.name().as_str().into(),
        "atttypid" => oid.into(),
        "attstattarget" | "attcacheoff" => (-1i64).into(),
        "attlen" if enumeration.is_some() => enumerations::LENGTH.into(),
        "attbyval" if enumeration.is_some() => true.into(),
        "attalign" if enumeration.is_some() => "i".into(),
        "attstorage" if enumeration.is_some() => "p".into(),
        "attlen" => kind.map(|kind| kind.length).into(),
        "attnum" => (at + 1).into(),
        "attndims" => i64::from(kind.is_some_and(|kind| kind.category == "A")).into(),
        "atttypmod" => modifier.into(),
        "attbyval" => kind.map(|kind| kind.by_value).into(),
        "attalign" => kind.map(|kind| kind.align).into(),
        "attstorage" => kind.map(|kind| kind.storage).into(),
        "attnotnull" => not_null.into(),
        "atthasdef" => has_default.into(),
        "attidentity" => identity.into(),
        "attislocal" => true.into(),
        "attcollation" => kind.map(|kind| kind.collation).into(),
        _ => Cell::Default,
    })
}

/// The indexes that are asked for, by their own numbers or their tables'.
fn wanted_indexes(source: &Source) -> impl Iterator<Item = (&Object, &Index, &Object)> {
    let catalogue = &source.catalogue;
    catalogue.objects.iter().filter_map(|object| {
        let Of::Index(index) = &object.of else {
            return None;
        };
        let table = catalogue.objects.get(index.table)?;
        let is_wanted = source.wanted.has(object.oid)
            || source.wanted.has(table.oid)
            || source.wanted.has(index.constraint);
        is_wanted.then_some((object, index, table))
    })
}

fn indexes(source: &Source, sink: &mut Sink) -> Result<()> {
    for (object, index, table) in wanted_indexes(source) {
        let columns = table.columns();
        let kinds: Vec<i64> = index
            .columns
            .iter()
            .filter_map(|number| {
                let at = usize::try_from(*number).ok()?.checked_sub(1)?;
                Some(type_of(columns.as_ref()?.fields().get(at)?).0)
            })
            .collect();
        let zeros = || Cell::Ints(vec![0; index.columns.len()]);
        sink.row(|column| match column {
            "indexrelid" => object.oid.into(),
            "indrelid" => table.oid.into(),
            "indnatts" | "indnkeyatts" => index.columns.len().into(),
            "indisunique" => index.definition.is_none().into(),
            "indimmediate" | "indisvalid" | "indisready" | "indislive" => true.into(),
            "indisprimary" => index.is_primary.into(),
            "indkey" => Cell::Ints(index.columns.clone()),
            "indoption" => zeros(),
            "indcollation" => {
                let of = kinds.iter().map(|oid| fixed::type_of_oid(*oid));
                Cell::Ints(of.map(|kind| kind.map_or(0, |it| it.collation)).collect())
            }
            "indclass" => Cell::Ints(kinds.iter().map(|oid| operator_class(*oid)).collect()),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

/// The class of operators that an index of this type has; 0 = none is known.
fn operator_class(of: i64) -> i64 {
    let name = match of {
        // Text has them all; character types borrow its.
        1043 | 19 => "text_ops".to_owned(),
        of => fixed::type_of_oid(of).map_or_else(String::new, |kind| format!("{}_ops", kind.name)),
    };
    fixed::oid_of("pg_opclass", "opcname", &name).unwrap_or_default()
}

fn constraints(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for (object, index, table) in wanted_indexes(source) {
        if index.constraint == 0 {
            continue;
        }
        let schema = catalogue.schemas.get(object.schema);
        let schema = schema.map_or(0, |schema| schema.oid);
        sink.row(|column| match column {
            "oid" => index.constraint.into(),
            "conname" => object.name.as_str().into(),
            "connamespace" => schema.into(),
            "contype" => if index.is_primary { "p" } else { "u" }.into(),
            "convalidated" | "conislocal" | "connoinherit" => true.into(),
            "conrelid" => table.oid.into(),
            "conindid" => object.oid.into(),
            "confupdtype" | "confdeltype" | "confmatchtype" => " ".into(),
            "conkey" => Cell::Ints(index.columns.clone()),
            _ => Cell::Default,
        })?;
    }
    declared::checks(source, sink)
}

fn namespaces(source: &Source, sink: &mut Sink) -> Result<()> {
    for schema in &source.catalogue.schemas {
        sink.row(|column| match column {
            "oid" => schema.oid.into(),
            "nspname" => schema.name.as_str().into(),
            "nspowner" => oids::OWNER.into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

fn databases(source: &Source, sink: &mut Sink) -> Result<()> {
    for (name, oid) in &source.catalogue.databases {
        sink.row(|column| match column {
            "oid" => (*oid).into(),
            "datname" => name.as_str().into(),
            "datdba" => oids::OWNER.into(),
            "encoding" => UTF8.into(),
            "datlocprovider" => "c".into(),
            "datistemplate" => (name == "template1").into(),
            "datallowconn" => true.into(),
            "datconnlimit" => (-1i64).into(),
            "dattablespace" => PG_DEFAULT.into(),
            "datcollate" | "datctype" => "C.UTF-8".into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

fn roles(source: &Source, sink: &mut Sink) -> Result<()> {
    // Users are the roles that may log in.
    let are_users = matches!(source.table.name, "pg_user" | "pg_shadow");
    let roles = source.catalogue.roles.iter();
    for role in roles.filter(|role| role.can_login || !are_users) {
        sink.row(|column| match column {
            "oid" | "usesysid" => role.oid.into(),
            "rolname" | "usename" => role.name.as_str().into(),
            "rolsuper" | "rolcreaterole" | "rolcreatedb" | "usesuper" | "usecreatedb" => {
                role.is_admin.into()
            }
            "rolinherit" => true.into(),
            "rolcanlogin" => role.can_login.into(),
            "rolconnlimit" => (-1i64).into(),
            "rolpassword" | "passwd" => "********".into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

/// `pg_tables`, `pg_views` and `pg_indexes`.
fn listed(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    let kind = match source.table.name {
        "pg_tables" => "r",
        "pg_views" => "v",
        _ => "i",
    };
    let owner = catalogue.roles.first().map(|role| role.name.as_str());
    for object in &catalogue.objects {
        if object.kind() != kind {
            continue;
        }
        let table = match &object.of {
            Of::Index(index) => catalogue.objects.get(index.table),
            _ => None,
        };
        sink.row(|column| match column {
            "schemaname" => catalogue.schema_of(object).into(),
            "tablename" if kind == "i" => table.map(|table| table.name.as_str()).into(),
            "tablename" | "viewname" | "indexname" => object.name.as_str().into(),
            "tableowner" | "viewowner" => owner.into(),
            "hasindexes" => catalogue.is_indexed(object.oid).into(),
            "hasrules" | "hastriggers" | "rowsecurity" => false.into(),
            "indexdef" => definitions::index(catalogue, object, 0).into(),
            "definition" => match &object.of {
                Of::View(query) => query.as_str().into(),
                _ => Cell::Default,
            },
            _ => Cell::Default,
        })?;
    }
    Ok(())
}

fn settings(source: &Source, sink: &mut Sink) -> Result<()> {
    let Some(client) = &source.catalogue.reader.client else {
        return Ok(());
    };
    for (name, value) in &client.settings {
        sink.row(|column| match column {
            "name" => name.as_str().into(),
            "setting" | "boot_val" | "reset_val" => value.as_str().into(),
            "context" => "user".into(),
            "vartype" => match value.as_str() {
                "on" | "off" => "bool".into(),
                _ => "string".into(),
            },
            "source" => "default".into(),
            _ => Cell::Default,
        })?;
    }
    Ok(())
}
