//! From names to numbers and back: `'t'::regclass`, `pg_get_userbyid`, `to_regclass`.

#![expect(clippy::unnecessary_wraps, reason = "calls have one signature")]

use arrow::datatypes::SchemaRef;
use nilometer_service::define;

use super::call::{Answer, Asked, Call, number, text};
use crate::error::Error;
use crate::statement::name::quoted;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::definitions::{self, format_type, type_of_name};
use crate::tables::pg_catalog::fixed;
use crate::tables::pg_catalog::objects::{Catalogue, Object};
use crate::tables::pg_catalog::values::Returns::{Bool, Int, Text, Texts};

/// A cast to a name type is a call: of the function of its name for a number, of the one with `_name` for a text.
pub(super) const CALLS: &[Call] = &[
    Call::new("pg_get_serial_sequence", (2, 2), Text, serial_sequence),
    Call::new("regclass", (1, 1), Int, class),
    Call::new("__regclass_name", (1, 1), Text, class_name),
    Call::new("to_regclass", (1, 1), Int, |asked, cells| {
        let catalogue = asked.catalogue();
        Ok(relation(&catalogue, cells.first()).map(|it| it.oid).into())
    }),
    Call::new("__to_regclass_name", (1, 1), Text, to_class),
    Call::new("regtype", (1, 1), Int, kind),
    Call::new("__regtype_name", (1, 1), Text, kind_name),
    Call::new("to_regtype", (1, 1), Int, |_, cells| {
        let found = text(cells, 0).and_then(type_of_name);
        Ok(found.map(|(oid, _)| oid).into())
    }),
    Call::new("__to_regtype_name", (1, 1), Text, |_, cells| {
        let found = text(cells, 0).and_then(type_of_name);
        Ok(found.map(|(oid, _)| format_type(oid, None)).into())
    }),
    Call::new("regnamespace", (1, 1), Int, schema),
    Call::new("__regnamespace_name", (1, 1), Text, schema_name),
    Call::new("regrole", (1, 1), Int, role),
    Call::new("__regrole_name", (1, 1), Text, role_name),
    Call::new("regproc", (1, 1), Int, function),
    Call::new("__regproc_name", (1, 1), Text, function_name),
    Call::new("regprocedure", (1, 1), Int, function),
    Call::new("__regprocedure_name", (1, 1), Text, function_name),
    Call::new("regoper", (1, 1), Int, as_number),
    Call::new("__regoper_name", (1, 1), Text, as_text),
    Call::new("regoperator", (1, 1), Int, as_number),
    Call::new("__regoperator_name", (1, 1), Text, as_text),
    Call::new("regconfig", (1, 1), Int, as_number),
    Call::new("__regconfig_name", (1, 1), Text, as_text),
    Call::new("regdictionary", (1, 1), Int, as_number),
    Call::new("__regdictionary_name", (1, 1), Text, as_text),
    Call::new("regcollation", (1, 1), Int, collation),
    Call::new("__regcollation_name", (1, 1), Text, collation_name),
    Call::new("pg_get_userbyid", (1, 1), Text, |asked, cells| {
        Ok(match role_of(asked, number(cells, 0)) {
            Some(name) => name.into(),
            None => format!("unknown (OID={})", number(cells, 0).unwrap_or_default()).into(),
        })
    }),
    Call::new("pg_table_is_visible", (1, 1), Bool, |asked, cells| {
        let catalogue = asked.catalogue();
        let object = number(cells, 0).and_then(|oid| catalogue.by_oid(oid));
        Ok(object.map(|object| catalogue.is_visible(object)).into())
    }),
    Call::new("pg_type_is_visible", (1, 1), Bool, yes),
    Call::new("pg_function_is_visible", (1, 1), Bool, yes),
    Call::new("pg_operator_is_visible", (1, 1), Bool, yes),
    Call::new("pg_opclass_is_visible", (1, 1), Bool, yes),
    Call::new("pg_opfamily_is_visible", (1, 1), Bool, yes),
    Call::new("pg_collation_is_visible", (1, 1), Bool, yes),
    Call::new("pg_conversion_is_visible", (1, 1), Bool, yes),
    Call::new("pg_statistics_obj_is_visible", (1, 1), Bool, |_, _| {
        Ok(Cell::Null)
    }),
    Call::new("pg_ts_config_is_visible", (1, 1), Bool, yes),
    Call::new("pg_ts_dict_is_visible", (1, 1), Bool, yes),
    Call::new("pg_ts_parser_is_visible", (1, 1), Bool, yes),
    Call::new("pg_ts_template_is_visible", (1, 1), Bool, yes),
    Call::new("quote_ident", (1, 1), Text, |_, cells| {
        Ok(text(cells, 0).map(quoted).into())
    }),
    Call::new("quote_literal", (1, 1), Text, |_, cells| {
        Ok(cells.first().and_then(shown).map(|it| literal(&it)).into())
    }),
    Call::new("quote_nullable", (1, 1), Text, |_, cells| {
        let given = cells.first().and_then(shown);
        Ok(given
            .map_or_else(|| "NULL".to_owned(), |it| literal(&it))
            .into())
    })
    .lenient(),
    Call::new("parse_ident", (1, 2), Texts, |_, cells| {
        let text = text(cells, 0).unwrap_or_default();
        let names = names_of(text);
        names.map(Cell::Texts).ok_or_else(|| invalid(text))
    }),
];

fn yes(_: &Asked, _: &[Cell]) -> Answer {
    Ok(true.into())
}

fn as_number(_: &Asked, cells: &[Cell]) -> Answer {
    Ok(number(cells, 0).into())
}

fn as_text(_: &Asked, cells: &[Cell]) -> Answer {
    Ok(cells.first().and_then(shown).into())
}

fn shown(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Text(text) => Some(text.clone()),
        Cell::Int(number) => Some(number.to_string()),
        Cell::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// With a backslash in it PostgreSQL writes an escape string.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        return format!(" E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// The names of `a."B".c`; `None` = it is no name.
pub(super) fn names_of(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut letters = text.trim().chars().peekable();
    loop {
        let mut name = String::new();
        if letters.next_if_eq(&'"').is_some() {
            loop {
                match letters.next()? {
                    '"' if letters.next_if_eq(&'"').is_some() => name.push('"'),
                    '"' => break,
                    letter => name.push(letter),
                }
            }
        } else {
            while let Some(letter) =
                letters.next_if(|it| it.is_alphanumeric() || matches!(it, '_' | '$'))
            {
                name.extend(letter.to_lowercase());
            }
        }
        if name.is_empty() {
            return None;
        }
        names.push(name);
        match letters.next() {
            None => return Some(names),
            Some('.') => {}
            Some(_) => return None,
        }
    }
}

fn invalid(name: &str) -> Error {
    Error::Plan {
        message: format!("invalid name syntax: \"{name}\""),
        position: None,
    }
}

/// The table, view or index that a number or a name means; `None` = there is none.
pub(super) fn relation<'a>(catalogue: &'a Catalogue, cell: Option<&Cell>) -> Option<&'a Object> {
    match cell? {
        Cell::Int(oid) => catalogue.by_oid(*oid),
        Cell::Text(text) => match text.trim().parse() {
            Ok(oid) => catalogue.by_oid(oid),
            Err(_) => match names_of(text)?.as_slice() {
                [name] => catalogue.by_name(None, name),
                [schema, name] => catalogue.by_name(Some(schema), name),
                [database, schema, name] if *database == catalogue.database => {
                    catalogue.by_name(Some(schema), name)
                }
                _ => None,
            },
        },
        _ => None,
    }
}

/// The sequence of a column; `None` = it has none.
fn serial_sequence(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let Some(object) = relation(&catalogue, cells.first()) else {
        let name = text(cells, 0).unwrap_or_default().to_owned();
        return Err(Error::UnknownTable {
            name,
            nearest: None,
            position: None,
        });
    };
    let schema = catalogue.schema_of(object);
    let table = define::TableName {
        database: asked.database.clone(),
        schema: schema.to_owned(),
        table: object.name.clone(),
    };
    let column = text(cells, 1).unwrap_or_default();
    let has = |it: SchemaRef| it.index_of(column).is_ok();
    if !object.columns().is_some_and(has) {
        return Err(Error::UnknownColumn {
            name: column.to_owned(),
            nearest: None,
            position: None,
        });
    }
    let sequence = define::sequence_of(asked.reading.snapshot(), &table, column);
    Ok(sequence
        .map(|name| format!("{}.{}", quoted(schema), quoted(&name)))
        .into())
}

fn class(asked: &Asked, cells: &[Cell]) -> Answer {
    if let Some(oid) = number(cells, 0) {
        return Ok(oid.into());
    }
    let catalogue = asked.catalogue();
    let name = text(cells, 0).unwrap_or_default();
    if name == "-" {
        return Ok(0i64.into());
    }
    if names_of(name).is_none() {
        return Err(invalid(name));
    }
    match relation(&catalogue, cells.first()) {
        Some(object) => Ok(object.oid.into()),
        None => Err(Error::UnknownTable {
            name: name.to_owned(),
            nearest: None,
            position: None,
        }),
    }
}

fn class_name(asked: &Asked, cells: &[Cell]) -> Answer {
    let Cell::Int(oid) = class(asked, cells)? else {
        return Ok(Cell::Null);
    };
    if oid == 0 {
        return Ok("-".into());
    }
    let catalogue = asked.catalogue();
    Ok(match catalogue.by_oid(oid) {
        Some(object) => definitions::shown(&catalogue, object).into(),
        None => oid.to_string().into(),
    })
}

fn to_class(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let found = relation(&catalogue, cells.first());
    Ok(found
        .map(|object| definitions::shown(&catalogue, object))
        .into())
}

fn unknown(what: &'static str, name: &str) -> Error {
    Error::UnknownName {
        what,
        name: name.to_owned(),
        nearest: None,
        position: None,
    }
}

fn kind(_: &Asked, cells: &[Cell]) -> Answer {
    if let Some(oid) = number(cells, 0) {
        return Ok(oid.into());
    }
    let name = text(cells, 0).unwrap_or_default();
    let bare = name.strip_prefix("pg_catalog.").unwrap_or(name);
    match type_of_name(bare) {
        Some((oid, _)) => Ok(oid.into()),
        None => Err(unknown("type", name)),
    }
}

fn kind_name(asked: &Asked, cells: &[Cell]) -> Answer {
    match kind(asked, cells)? {
        Cell::Int(oid) => Ok(match format_type(oid, None) {
            unknown if unknown == "???" => oid.to_string().into(),
            named => named.into(),
        }),
        other => Ok(other),
    }
}

fn schema(asked: &Asked, cells: &[Cell]) -> Answer {
    if let Some(oid) = number(cells, 0) {
        return Ok(oid.into());
    }
    let name = text(cells, 0).unwrap_or_default();
    let names = names_of(name).ok_or_else(|| invalid(name))?;
    let catalogue = asked.catalogue();
    let mut schemas = catalogue.schemas.iter();
    match schemas.find(|schema| names == [schema.name.as_str()]) {
        Some(schema) => Ok(schema.oid.into()),
        None => Err(unknown("schema", name)),
    }
}

fn schema_name(asked: &Asked, cells: &[Cell]) -> Answer {
    let Cell::Int(oid) = schema(asked, cells)? else {
        return Ok(Cell::Null);
    };
    let catalogue = asked.catalogue();
    let mut schemas = catalogue.schemas.iter();
    let found = schemas.find(|schema| schema.oid == oid);
    Ok(found
        .map_or_else(|| oid.to_string(), |schema| quoted(&schema.name))
        .into())
}

fn role_of(asked: &Asked, oid: Option<i64>) -> Option<String> {
    let catalogue = asked.catalogue();
    let mut roles = catalogue.roles.iter();
    roles
        .find(|role| Some(role.oid) == oid)
        .map(|role| role.name.clone())
}

fn role(asked: &Asked, cells: &[Cell]) -> Answer {
    if let Some(oid) = number(cells, 0) {
        return Ok(oid.into());
    }
    let name = text(cells, 0).unwrap_or_default();
    let names = names_of(name).ok_or_else(|| invalid(name))?;
    let catalogue = asked.catalogue();
    let mut roles = catalogue.roles.iter();
    match roles.find(|role| names == [role.name.as_str()]) {
        Some(role) => Ok(role.oid.into()),
        None => Err(unknown("role", name)),
    }
}

fn role_name(asked: &Asked, cells: &[Cell]) -> Answer {
    let Cell::Int(oid) = role(asked, cells)? else {
        return Ok(Cell::Null);
    };
    let name = role_of(asked, Some(oid));
    Ok(name
        .map_or_else(|| oid.to_string(), |name| quoted(&name))
        .into())
}

/// The number of what has a fixed name in a table.
fn fixed_number(cells: &[Cell], what: &'static str, (table, column): (&str, &str)) -> Answer {
    if let Some(oid) = number(cells, 0) {
        return Ok(oid.into());
    }
    let name = text(cells, 0).unwrap_or_default();
    let bare = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let bare = bare.split('(').next().unwrap_or(bare).trim_matches('"');
    match fixed::oid_of(table, column, bare) {
        Some(oid) => Ok(oid.into()),
        None => Err(unknown(what, name)),
    }
}

fn fixed_name(cells: &[Cell], what: &'static str, of: (&str, &str)) -> Answer {
    Ok(match fixed_number(cells, what, of)? {
        Cell::Int(0) => "-".into(),
        Cell::Int(oid) => match fixed::name_of(of.0, of.1, oid) {
            Some(name) => name.into(),
            None => oid.to_string().into(),
        },
        other => other,
    })
}

const FUNCTIONS: (&str, &str) = ("pg_proc", "proname");
const COLLATIONS: (&str, &str) = ("pg_collation", "collname");

fn function(_: &Asked, cells: &[Cell]) -> Answer {
    fixed_number(cells, "function", FUNCTIONS)
}

fn function_name(_: &Asked, cells: &[Cell]) -> Answer {
    fixed_name(cells, "function", FUNCTIONS)
}

fn collation(_: &Asked, cells: &[Cell]) -> Answer {
    fixed_number(cells, "collation", COLLATIONS)
}

fn collation_name(_: &Asked, cells: &[Cell]) -> Answer {
    Ok(match fixed_name(cells, "collation", COLLATIONS)? {
        Cell::Text(name) => quoted(&name).into(),
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let read = |text: &str| names_of(text);
        let names = |names: &[&str]| Some(names.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(read("T"), names(&["t"]));
        assert_eq!(read("public.\"My \"\"T\""), names(&["public", "My \"T"]));
        for wrong in ["", "a.", ".a", "a b", "\"a", "a-b"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
