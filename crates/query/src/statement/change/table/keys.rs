//! Consequences of the keys of a definition: a relation, or the tags of a table of series.

use nilometer_engine::{
    ColumnKind, Declarations, Declared, LogicalType, NewRelation, PhysicalType, ROW_NUMBER,
    RelationColumn, nearest,
};
use nilometer_service::define::Column;

use super::{Body, KeyKind, TAGS_NEED_A_TIME, WrittenColumn, named_keys};
use crate::error::Error;
use crate::statement::change::refused;
use crate::statement::name::Name;

/// A table without a time column.
pub(super) fn relation(body: Body) -> Result<(NewRelation, Declarations), Error> {
    let mut primary: Option<Vec<String>> = None;
    let mut unique = Vec::new();
    let mut declared = Declarations::default();
    declared.table.keys = named_keys(&body.keys);
    for key in body.keys {
        for column in &key.columns {
            check_column(&body.columns, column)?;
        }
        let names: Vec<String> = key.columns.into_iter().map(|name| name.text).collect();
        match (key.kind, &primary) {
            (KeyKind::Unique, _) => unique.push(names),
            (KeyKind::Primary, None) => primary = Some(names),
            (KeyKind::Primary, Some(_)) => {
                return Err(refused(
                    "a table has one primary key; write UNIQUE for the others",
                    key.at,
                ));
            }
        }
    }
    let mut columns: Vec<RelationColumn> = Vec::new();
    for column in body.columns {
        let Some((kind, of)) = column.of.stored() else {
            return Err(refused(TAGS_NEED_A_TIME, column.type_at));
        };
        let name = column.name.text;
        if columns.iter().any(|known| known.name == name) {
            return Err(refused(
                &format!("the column \"{name}\" is named twice"),
                column.name.position,
            ));
        }
        if name == ROW_NUMBER && primary.is_none() {
            return Err(refused(
                "the column name \"ctid\" conflicts with a system column name; give it another name",
                column.name.position,
            ));
        }
        let mut keys = primary.iter().flatten();
        let is_key = keys.any(|key| *key == name);
        declared.columns.push(Declared {
            of,
            default: column.default,
            ..Declared::default()
        });
        columns.push(RelationColumn {
            nullable: !column.is_not_null && !is_key,
            name,
            kind,
        });
    }
    let new = NewRelation {
        columns,
        // Without one the store numbers the rows.
        primary_key: primary.unwrap_or_default(),
        unique,
    };
    Ok((new, declared))
}

pub(super) fn check_column(columns: &[WrittenColumn], name: &Name) -> Result<(), Error> {
    let names = || columns.iter().map(|column| column.name.text.clone());
    if names().any(|known| known == name.text) {
        return Ok(());
    }
    Err(Error::UnknownColumn {
        name: name.text.clone(),
        nearest: nearest(&name.text, names()),
        position: name.position,
    })
}

/// Makes a tag of a column that the list of tags names.
pub(super) fn make_tag(columns: &mut [Column], tag: &Name) -> Result<(), Error> {
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    match columns.iter_mut().find(|column| column.name == tag.text) {
        None => Err(Error::UnknownColumn {
            name: tag.text.clone(),
            nearest: nearest(&tag.text, names),
            position: tag.position,
        }),
        Some(column) => {
            let of = match (column.kind, column.declared.of) {
                (ColumnKind::Tag, of) => of,
                (ColumnKind::Field(PhysicalType::Text), None) => None,
                (ColumnKind::Field(PhysicalType::I64), None) => Some(LogicalType::BigInt),
                (ColumnKind::Field(_), Some(of)) if of.is_integer() => Some(of),
                // The length of a text is not checked in a tag.
                _ => {
                    return Err(refused(
                        &format!(
                            "tags are text or integers; make \"{}\" TEXT or BIGINT",
                            tag.text
                        ),
                        tag.position,
                    ));
                }
            };
            column.kind = ColumnKind::Tag;
            column.declared.of = of;
            Ok(())
        }
    }
}

/// A key is the time and all tags: that is what tells rows apart here.
pub(super) fn check_key(key: &[Name], columns: &[Column], time: &str) -> Result<(), Error> {
    let mut wanted: Vec<&str> = columns
        .iter()
        .filter(|column| column.kind == ColumnKind::Tag)
        .map(|column| column.name.as_str())
        .chain([time])
        .collect();
    let mut named: Vec<&str> = key.iter().map(|name| name.text.as_str()).collect();
    wanted.sort_unstable();
    named.sort_unstable();
    if wanted == named {
        return Ok(());
    }
    Err(refused(
        &format!(
            "a key is the time and all tags, here ({}); make the other columns tags or leave the key out",
            wanted.join(", ")
        ),
        key.first().and_then(|name| name.position),
    ))
}
