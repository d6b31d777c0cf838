//! Payload schemas: which numbers the payloads of a table of TStorage's records hold, and in which columns they are kept too.
//!
//! Does: read such a schema from its text, make its columns, keep it by the table's id in a relation of the table's schema, so
//! that it goes where the table goes. Does not: look into payloads (the surface does, as it writes them).

use std::fmt;
use std::sync::Arc;

use nilometer_engine::{
    ColumnId, ColumnKind, Declared, Engine, Error as EngineError, LogicalType, NewColumn,
    NewRelation, PhysicalType, RelationColumn, Snapshot, TableSchema, Value,
};

use super::change::Column;
use super::change::name::TableName;
use super::error::DefineError;
use super::records::PAYLOAD;
use super::views;
use crate::define::own_relations::PAYLOAD_SCHEMAS;

/// Columns of a schema at most.
const COLUMNS_MAX: usize = 256;
/// The largest payload of the protocol.
const PAYLOAD_BYTES_MAX: usize = 32 << 20;
/// Columns that the records have already.
const OWN: [&str; 7] = ["cid", "mid", "moid", "cap", "time", "acq", "payload"];
/// Bytes that are passed over.
const SKIP: &str = "skip";
/// Stands between the name of a column and its id in the text that is kept, so that another name is followed.
const ID: char = '#';

/// How a number stands in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadNumber {
    /// An integer with a sign.
    Signed,
    /// One without.
    Unsigned,
    /// A float of IEEE 754, of four or eight bytes.
    Float,
}

/// A number of a payload, and the column that it is kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadColumn {
    /// Name of the column.
    pub name: String,
    /// How it stands in the payload.
    pub number: PayloadNumber,
    /// Bytes that it has there: 1, 2, 4 or 8.
    pub bytes: usize,
    /// Whether its first byte is the highest.
    pub is_big_endian: bool,
    /// Where it begins.
    pub at: usize,
}

impl PayloadColumn {
    /// What the column holds: integers of 64 bits, with a sign where all of them fit, or floats.
    pub fn kind(&self) -> PhysicalType {
        match self.number {
            PayloadNumber::Float => PhysicalType::F64,
            PayloadNumber::Unsigned if self.bytes == 8 => PhysicalType::U64,
            PayloadNumber::Signed | PayloadNumber::Unsigned => PhysicalType::I64,
        }
    }
}

/// The numbers of a payload, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSchema {
    /// Those that have a column.
    pub columns: Vec<PayloadColumn>,
}

impl PayloadSchema {
    /// Reads `name type, ...`; `skip N` passes over bytes. What is wrong is said in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut columns: Vec<PayloadColumn> = Vec::new();
        let mut at = 0_usize;
        for item in text.split(',') {
            let mut words = item.split_whitespace();
            let (Some(name), Some(kind), None) = (words.next(), words.next(), words.next()) else {
                return Err(format!(
                    "{:?} is not a name and a type; write for example usage_user int4be, skip 2, load float8le",
                    item.trim()
                ));
            };
            if name.eq_ignore_ascii_case(SKIP) {
                let bytes = kind.parse::<usize>().ok();
                let bytes = bytes.ok_or_else(|| {
                    format!("{kind:?} is no number of bytes to skip; write for example skip 4")
                })?;
                at = at.saturating_add(bytes);
            } else {
                let column = column(name, kind, at)?;
                if columns.iter().any(|other| other.name == column.name) {
                    return Err(format!("the column {:?} is there twice", column.name));
                }
                at = at.saturating_add(column.bytes);
                columns.push(column);
            }
            if at > PAYLOAD_BYTES_MAX {
                return Err("it ends beyond 32 MiB, where payloads end".to_owned());
            }
        }
        if columns.is_empty() {
            return Err("it has no column; write for example usage_user int4be".to_owned());
        }
        if columns.len() > COLUMNS_MAX {
            let n = columns.len();
            return Err(format!("it has {n} columns; {COLUMNS_MAX} are the most"));
        }
        Ok(Self { columns })
    }
}

fn column(name: &str, kind: &str, at: usize) -> Result<PayloadColumn, String> {
    let name = name.to_ascii_lowercase();
    check_name(&name)?;
    let kind = kind.to_ascii_lowercase();
    let (base, order) = match (kind.strip_suffix("be"), kind.strip_suffix("le")) {
        (Some(base), _) => (base, Some(true)),
        (_, Some(base)) => (base, Some(false)),
        _ => (kind.as_str(), None),
    };
    let (number, bytes) = match base {
        "int1" => (PayloadNumber::Signed, 1),
        "int2" => (PayloadNumber::Signed, 2),
        "int4" => (PayloadNumber::Signed, 4),
        "int8" => (PayloadNumber::Signed, 8),
        "uint1" => (PayloadNumber::Unsigned, 1),
        "uint2" => (PayloadNumber::Unsigned, 2),
        "uint4" => (PayloadNumber::Unsigned, 4),
        "uint8" => (PayloadNumber::Unsigned, 8),
        "float4" => (PayloadNumber::Float, 4),
        "float8" => (PayloadNumber::Float, 8),
        _ => {
            return Err(format!(
                "{kind:?} is no type of a number in a payload; write int1, int2, int4, int8, the same with uint, float4 or float8, and be or le behind it for the order of its bytes, as in int4be"
            ));
        }
    };
    if order.is_none() && bytes > 1 {
        return Err(format!(
            "{kind:?} has several bytes, whose order has to be said; write {kind}be or {kind}le"
        ));
    }
    Ok(PayloadColumn {
        name,
        number,
        bytes,
        is_big_endian: order == Some(true) && bytes > 1,
        at,
    })
}

/// Whether a column of numbers can have this name: the list has it without quotes.
fn check_name(name: &str) -> Result<(), String> {
    let starts = name.starts_with(|it: char| it.is_ascii_lowercase() || it == '_');
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    if !starts || !name.chars().all(is_plain) || name == SKIP {
        return Err(format!(
            "{name:?} is no name for a column of numbers; write one of small letters, digits and _"
        ));
    }
    if OWN.contains(&name) {
        return Err(format!("the records have a column {name:?} already"));
    }
    Ok(())
}

impl fmt::Display for PayloadSchema {
    /// As it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut end, mut comma) = (0, "");
        for column in &self.columns {
            if column.at > end {
                write!(f, "{comma}{SKIP} {}", column.at - end)?;
                comma = ", ";
            }
            let number = match column.number {
                PayloadNumber::Signed => "int",
                PayloadNumber::Unsigned => "uint",
                PayloadNumber::Float => "float",
            };
            let order = match (column.bytes, column.is_big_endian) {
                (1, _) => "",
                (_, true) => "be",
                (_, false) => "le",
            };
            write!(f, "{comma}{} {number}{}{order}", column.name, column.bytes)?;
            comma = ", ";
            end = column.at + column.bytes;
        }
        Ok(())
    }
}

/// The payload schema of a table, its columns by the names that they have now; `None` = it has none.
pub fn payload_schema(
    snapshot: &Snapshot,
    (database, schema): (&str, &str),
    table: &TableSchema,
) -> Option<PayloadSchema> {
    let row = snapshot
        .relation(database, schema, PAYLOAD_SCHEMAS)?
        .get(&[Value::I64(table.kept_id().0.into())])?;
    match row.get(1) {
        // What a later version keeps, and this one does not read, is nothing to this one.
        Some(Value::Text(text)) => kept(text, table),
        _ => None,
    }
}

/// Reads the text that is kept: columns that have an id are those of the table with it, whatever they are called, and nothing
/// once they are dropped.
fn kept(text: &str, table: &TableSchema) -> Option<PayloadSchema> {
    let mut ids = Vec::new();
    let items = text.split(',').map(|item| {
        let (name, kind) = item.trim().split_once(char::is_whitespace)?;
        let (name, id) = match name.split_once(ID) {
            Some((name, id)) => (name, Some(ColumnId(id.parse().ok()?))),
            None => (name, None),
        };
        if name != SKIP {
            ids.push(id);
        }
        Some(format!("{name} {kind}"))
    });
    let items = items.collect::<Option<Vec<String>>>()?;
    let schema = PayloadSchema::parse(&items.join(",")).ok()?;
    let named = schema.columns.into_iter().zip(ids);
    let columns = named.filter_map(|(column, id)| {
        let name = match id {
            Some(id) => {
                let mut fields = table.fields.iter();
                fields.find(|field| field.id == id)?.name.clone()
            }
            None => column.name,
        };
        Some(PayloadColumn { name, ..column })
    });
    let columns: Vec<PayloadColumn> = columns.collect();
    (!columns.is_empty()).then_some(PayloadSchema { columns })
}

/// The text that is kept: columns with the ids that they have in the table.
fn to_keep(schema: &PayloadSchema, table: &TableSchema) -> String {
    let columns = schema.columns.iter().map(|column| PayloadColumn {
        name: match table.field(&column.name) {
            Some(field) => format!("{}{ID}{}", column.name, field.id.0),
            None => column.name.clone(),
        },
        ..column.clone()
    });
    let columns = columns.collect();
    PayloadSchema { columns }.to_string()
}

/// Refuses a new name for a column of the payload schema that the schema could not be written with.
pub(super) fn check_rename(
    snapshot: &Snapshot,
    name: &TableName,
    table: &TableSchema,
    (column, to): (&str, &str),
) -> Result<(), crate::Error> {
    let place = (name.database.as_str(), name.schema.as_str());
    let schema = payload_schema(snapshot, place, table);
    match schema {
        Some(schema) if schema.columns.iter().any(|it| it.name == column) => {
            check_name(to).map_err(refused)
        }
        _ => Ok(()),
    }
}

/// Adds the columns of a payload schema to those of a table that is about to be made, unless they are among them.
pub(super) fn add_columns(
    columns: &mut Vec<Column>,
    table: &str,
    text: &str,
) -> Result<(), crate::Error> {
    let new = PayloadSchema::parse(text).map_err(refused)?;
    let field = |kind| ColumnKind::Field(kind);
    let is_payload = |it: &Column| it.name == PAYLOAD && it.kind == field(PhysicalType::Bytes);
    if !columns.iter().any(is_payload) {
        return Err(refused(no_payload(table)));
    }
    for column in new.columns {
        let kind = field(column.kind());
        match columns.iter().find(|it| it.name == column.name) {
            None => columns.push(Column {
                name: column.name,
                kind,
                declared: Declared::default(),
            }),
            Some(it) if it.kind == kind && it.declared.of.is_none_or(LogicalType::is_plain) => {}
            Some(_) => return Err(refused(of_another_type(&column.name))),
        }
    }
    Ok(())
}

fn refused(reason: String) -> crate::Error {
    crate::Error::Define {
        part: super::error::Part::Other,
        source: DefineError::PayloadSchema { reason },
    }
}

fn no_payload(table: &str) -> String {
    format!("the table \"{table}\" has no field payload of bytes")
}

fn of_another_type(column: &str) -> String {
    format!("the table has a column \"{column}\" of another type")
}

/// Keeps the payload schema of a table in place of the one before, and adds the columns that it does not have; an empty text
/// forgets it, and leaves the columns.
pub(super) fn set(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    text: &str,
) -> Result<(), crate::Error> {
    let place = (name.database.as_str(), name.schema.as_str());
    let id = Value::I64(table.kept_id().0.into());
    if text.trim().is_empty() {
        let relation = engine
            .snapshot()
            .relation(place.0, place.1, PAYLOAD_SCHEMAS);
        if relation.is_some_and(|it| it.get(std::slice::from_ref(&id)).is_some()) {
            views::delete(engine, place, PAYLOAD_SCHEMAS, vec![id])?;
        }
        return Ok(());
    }
    let new = PayloadSchema::parse(text).map_err(refused)?;
    let is_bytes = |column: &nilometer_engine::ColumnDef| {
        column.kind == ColumnKind::Field(PhysicalType::Bytes)
    };
    if !table.field(PAYLOAD).is_some_and(is_bytes) {
        return Err(refused(no_payload(&name.table)));
    }
    let mut missing = Vec::new();
    for column in &new.columns {
        let kind = ColumnKind::Field(column.kind());
        if table.tag(&column.name).is_some() || column.name == table.time().0 {
            let reason = format!("\"{}\" is no field of the table", column.name);
            return Err(refused(reason));
        }
        match table.field(&column.name) {
            None => missing.push((column, kind)),
            Some(field) if field.kind == kind && field.of().is_none_or(LogicalType::is_plain) => {}
            Some(_) => return Err(refused(of_another_type(&column.name))),
        }
    }
    for (column, kind) in missing {
        let name_of_column = column.name.as_str();
        let column = NewColumn {
            name: name_of_column,
            kind,
        };
        engine.add_declared_column(place.0, place.1, &name.table, column, &Declared::default())?;
    }
    // As it is with the columns that it has just got.
    let now = engine.snapshot().table(place.0, place.1, &name.table);
    let now = now.filter(|now| now.id == table.id);
    let text = to_keep(&new, now.as_deref().unwrap_or(table));
    Ok(store(engine, place, id, &text)?)
}

fn store(
    engine: &Arc<Engine>,
    place: (&str, &str),
    id: Value,
    text: &str,
) -> Result<(), EngineError> {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let relation = NewRelation {
        columns: vec![
            column("table", PhysicalType::I64),
            column("payload", PhysicalType::Text),
        ],
        primary_key: vec!["table".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation(place.0, place.1, PAYLOAD_SCHEMAS, &relation)?;
    let row = vec![id, Value::from(text)];
    views::replace(engine, place, PAYLOAD_SCHEMAS, vec![row])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_says_where_each_number_stands() {
        let text = "usage_user int4be, skip 2,B  UINT1 ,skip 1, c float8le, d uint8be, skip 3";
        let schema = PayloadSchema::parse(text).unwrap();
        let found: Vec<(&str, usize, usize, bool, PhysicalType)> = schema
            .columns
            .iter()
            .map(|it| {
                (
                    it.name.as_str(),
                    it.at,
                    it.bytes,
                    it.is_big_endian,
                    it.kind(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("usage_user", 0, 4, true, PhysicalType::I64),
                ("b", 6, 1, false, PhysicalType::I64),
                ("c", 8, 8, false, PhysicalType::F64),
                ("d", 16, 8, true, PhysicalType::U64),
            ]
        );
        // What follows the last number is nobody's.
        let shown = "usage_user int4be, skip 2, b uint1, skip 1, c float8le, d uint8be";
        assert_eq!(schema.to_string(), shown);
        assert_eq!(PayloadSchema::parse(shown).unwrap(), schema);
    }

    #[test]
    fn what_is_no_schema_is_refused_with_advice() {
        for (text, advice) in [
            ("", "is not a name and a type"),
            ("a", "is not a name and a type"),
            ("a int4be b", "is not a name and a type"),
            ("a int4be,", "is not a name and a type"),
            ("a int4", "write int4be or int4le"),
            ("a int3be", "is no type of a number"),
            ("a int1xx", "is no type of a number"),
            ("a b int1", "is not a name and a type"),
            ("1a int1", "is no name for a column"),
            ("\"a\" int1", "is no name for a column"),
            ("a int1, A int1", "is there twice"),
            ("acq int8le", "have a column \"acq\" already"),
            ("skip 4", "it has no column"),
            ("skip x, a int1", "is no number of bytes to skip"),
            ("skip -1, a int1", "is no number of bytes to skip"),
            ("skip 33554432, a int1", "beyond 32 MiB"),
            ("skip 18446744073709551615, a int1", "beyond 32 MiB"),
        ] {
            let refused = PayloadSchema::parse(text).unwrap_err();
            assert!(refused.contains(advice), "{text}: {refused}");
        }
    }
}
