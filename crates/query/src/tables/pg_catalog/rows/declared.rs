//! Declarations of tables and columns beside their types: defaults, CHECKs, comments.

use datafusion::common::Result;
use nilometer_engine::Check;
use nilometer_service::{ForeignKey, OnChange};

use crate::tables::pg_catalog::cells::{Cell, Sink};
use crate::tables::pg_catalog::definitions::targets;
use crate::tables::pg_catalog::objects::Object;
use crate::tables::pg_catalog::oids;
use crate::tables::pg_catalog::relations;
use crate::tables::pg_catalog::source::Source;

/// The catalogue's table that tables, and so their comments, are in.
const OF_TABLES: &str = "pg_class";

/// `pg_attrdef`. What it has of an expression is its text, which `pg_get_expr` gives back.
pub(super) fn defaults(source: &Source, sink: &mut Sink) -> Result<()> {
    for object in &source.catalogue.objects {
        let columns = source.columns_of(object);
        for at in 0..columns.map_or(0, |columns| columns.fields().len()) {
            let Some(default) = object.default(at) else {
                continue;
            };
            let oid = oids::default(object.oid, at + 1);
            if !source.wanted.has(object.oid) && !source.wanted.has(oid) {
                continue;
            }
            sink.row(|column| match column {
                "oid" => oid.into(),
                "adrelid" => object.oid.into(),
                "adnum" => (at + 1).into(),
                "adbin" => default.into(),
                _ => Cell::Default,
            })?;
        }
    }
    Ok(())
}

/// `pg_description`: comments of tables and of their columns.
pub(super) fn comments(source: &Source, sink: &mut Sink) -> Result<()> {
    let class = relations::oid_of(OF_TABLES).unwrap_or_default();
    for object in source.wanted.objects(&source.catalogue) {
        let columns = source.columns_of(object);
        let columns = columns.map_or(0, |columns| columns.fields().len());
        for column in std::iter::once(None).chain((0..columns).map(Some)) {
            let Some(comment) = object.comment(column) else {
                continue;
            };
            sink.row(|name| match name {
                "objoid" => object.oid.into(),
                "classoid" => class.into(),
                "objsubid" => column.map_or(0, |at| at + 1).into(),
                "description" => comment.into(),
                _ => Cell::Default,
            })?;
        }
    }
    Ok(())
}

/// The CHECKs of `pg_constraint`.
pub(super) fn checks(source: &Source, sink: &mut Sink) -> Result<()> {
    let catalogue = &source.catalogue;
    for object in &catalogue.objects {
        let schema = catalogue.schemas.get(object.schema);
        let schema = schema.map_or(0, |schema| schema.oid);
        for check in object.checks() {
            let oid = oids::check(object.oid, &check.name);
            if !source.wanted.has(object.oid) && !source.wanted.has(oid) {
                continue;
            }
            if let Some(key) = ForeignKey::of(check) {
                foreign_key(source, sink, object, (oid, schema, check), &key)?;
                continue;
            }
            sink.row(|column| match column {
                "oid" => oid.into(),
                "conname" => check.name.as_str().into(),
                "connamespace" => schema.into(),
                "contype" => "c".into(),
                "convalidated" | "conislocal" => true.into(),
                "conrelid" => object.oid.into(),
                "confupdtype" | "confdeltype" | "confmatchtype" => " ".into(),
                "conbin" => check.expression.as_str().into(),
                _ => Cell::Default,
            })?;
        }
    }
    Ok(())
}

fn foreign_key(
    source: &Source,
    sink: &mut Sink,
    object: &Object,
    (oid, schema, check): (i64, i64, &Check),
    key: &ForeignKey,
) -> Result<()> {
    let catalogue = &source.catalogue;
    let mut others = catalogue.objects.iter();
    let to = others.find(|other| {
        other.schema == object.schema && other.name == key.to && other.columns().is_some()
    });
    let numbers = |of: Option<&Object>, names: &[String]| {
        let columns = of.and_then(Object::columns);
        let place = |name: &String| {
            let at = columns.as_ref()?.index_of(name).ok()?;
            i64::try_from(at + 1).ok()
        };
        Cell::Ints(names.iter().filter_map(place).collect())
    };
    let letter = |on: OnChange| match on {
        OnChange::NoAction => "a",
        OnChange::Cascade => "c",
        OnChange::SetNull => "n",
    };
    sink.row(|column| match column {
        "oid" => oid.into(),
        "conname" => check.name.as_str().into(),
        "connamespace" => schema.into(),
        "contype" => "f".into(),
        "convalidated" | "conislocal" | "connoinherit" => true.into(),
        "conrelid" => object.oid.into(),
        "confrelid" => to.map_or(0, |to| to.oid).into(),
        "confupdtype" => letter(key.on_update).into(),
        "confdeltype" => letter(key.on_delete).into(),
        "confmatchtype" => "s".into(),
        "conkey" => numbers(Some(object), &key.columns),
        "confkey" => numbers(to, &targets(catalogue, object, key)),
        _ => Cell::Default,
    })
}
