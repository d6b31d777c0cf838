//! Changes of relations as bytes: the section of a batch that `docs/format/log.md` describes.

use std::sync::Arc;

use nilometer_codec::{ColumnBuf, PhysicalType, varint};

use super::{Change, RelationColumn, RelationId, RelationSchema, Rows};
use crate::declared::Declarations;
use crate::definition::{put_text, take_byte, take_text, take_u32};
use crate::error::Malformed;
use crate::record::{EncodeScratch, decode_column, encode_column};
use crate::schema::SchemaId;

const CREATE: u8 = 1;
const DROP: u8 = 2;
const INSERT: u8 = 3;
const REPLACE: u8 = 4;
const DELETE: u8 = 5;
const CREATE_DECLARED: u8 = 6;
const DECLARE: u8 = 7;

const NULLABLE: u8 = 1;

/// Most rows that a change may claim before its bytes are looked at; as many as a batch has by default.
pub(crate) const ROWS_MAX: usize = 4 << 20;

/// Appends changes.
pub(crate) fn encode_changes(changes: &[Change], out: &mut Vec<u8>) -> Result<(), Malformed> {
    varint::put_u64(changes.len() as u64, out);
    for change in changes {
        match change {
            Change::Create(schema) => match &schema.declared {
                None => {
                    out.push(CREATE);
                    encode_schema(schema, out);
                }
                Some(declared) => {
                    out.push(CREATE_DECLARED);
                    encode_schema(schema, out);
                    declared.encode(out);
                }
            },
            Change::Declare(id, declared) => {
                out.push(DECLARE);
                varint::put_u64(id.0, out);
                declared.encode(out);
            }
            Change::Drop(id) => {
                out.push(DROP);
                varint::put_u64(id.0, out);
            }
            Change::Insert(id, rows) => encode_rows(INSERT, *id, rows, out)?,
            Change::Replace(id, rows) => encode_rows(REPLACE, *id, rows, out)?,
            Change::Delete(id, rows) => encode_rows(DELETE, *id, rows, out)?,
        }
    }
    Ok(())
}

/// Reads changes and moves `input` past them.
pub(crate) fn decode_changes(input: &mut &[u8]) -> Result<Vec<Change>, Malformed> {
    let n = take_u32(input)?;
    let mut changes = Vec::new();
    for _ in 0..n {
        let kind = take_byte(input)?;
        if kind == CREATE {
            changes.push(Change::Create(decode_schema(input)?));
            continue;
        }
        if kind == CREATE_DECLARED {
            let mut schema = decode_schema(input)?;
            schema.declare(Declarations::decode(input)?)?;
            changes.push(Change::Create(schema));
            continue;
        }
        let id = RelationId(varint::get_u64(input)?);
        changes.push(match kind {
            DROP => Change::Drop(id),
            DECLARE => Change::Declare(id, Arc::new(Declarations::decode(input)?)),
            INSERT => Change::Insert(id, decode_rows(input)?),
            REPLACE => Change::Replace(id, decode_rows(input)?),
            DELETE => Change::Delete(id, decode_rows(input)?),
            other => {
                return Err(Malformed::new(format!(
                    "unknown change {other} of a relation"
                )));
            }
        });
    }
    Ok(changes)
}

/// Appends what a relation is, without its id: that is the LSN of the batch, or stands in a file's header.
pub(crate) fn encode_schema(schema: &RelationSchema, out: &mut Vec<u8>) {
    varint::put_u64(u64::from(schema.schema.0), out);
    put_text(&schema.name, out);
    varint::put_u64(schema.columns.len() as u64, out);
    for column in &schema.columns {
        put_text(&column.name, out);
        out.push(column.kind as u8);
        out.push(if column.nullable { NULLABLE } else { 0 });
    }
    put_key(&schema.primary_key, out);
    varint::put_u64(schema.unique.len() as u64, out);
    for key in &schema.unique {
        put_key(key, out);
    }
}

/// Reads what a relation is, of id 0.
pub(crate) fn decode_schema(input: &mut &[u8]) -> Result<RelationSchema, Malformed> {
    let schema = SchemaId(take_u32(input)?);
    let name = take_text(input)?;
    let mut columns = Vec::new();
    for _ in 0..take_u32(input)? {
        columns.push(RelationColumn {
            name: take_text(input)?,
            kind: PhysicalType::try_from(take_byte(input)?)?,
            nullable: match take_byte(input)? {
                0 => false,
                NULLABLE => true,
                other => return Err(Malformed::new(format!("unknown flags {other} of a column"))),
            },
        });
    }
    let primary_key = take_key(input)?;
    let mut unique = Vec::new();
    for _ in 0..take_u32(input)? {
        unique.push(take_key(input)?);
    }
    let schema = RelationSchema {
        id: RelationId(0),
        schema,
        name,
        columns,
        primary_key,
        unique,
        declared: None,
    };
    schema.check()?;
    Ok(schema)
}

fn put_key(key: &[u32], out: &mut Vec<u8>) {
    varint::put_u64(key.len() as u64, out);
    for position in key {
        varint::put_u64(u64::from(*position), out);
    }
}

fn take_key(input: &mut &[u8]) -> Result<Vec<u32>, Malformed> {
    let n = take_u32(input)?;
    // Not reserved ahead: the count is a claim, the bytes are not.
    (0..n).map(|_| take_u32(input)).collect()
}

fn encode_rows(kind: u8, id: RelationId, rows: &Rows, out: &mut Vec<u8>) -> Result<(), Malformed> {
    out.push(kind);
    varint::put_u64(id.0, out);
    varint::put_u64(rows.rows as u64, out);
    varint::put_u64(rows.columns.len() as u64, out);
    let mut scratch = EncodeScratch::default();
    for column in &rows.columns {
        encode_column(column, rows.rows, out, &mut scratch)?;
    }
    Ok(())
}

fn decode_rows(input: &mut &[u8]) -> Result<Rows, Malformed> {
    let rows = take_u32(input)? as usize;
    if rows > ROWS_MAX {
        return Err(Malformed::new(format!(
            "change of {rows} rows of a relation"
        )));
    }
    let n = take_u32(input)?;
    let mut page = ColumnBuf::default();
    let mut columns = Vec::new();
    for _ in 0..n {
        columns.push(decode_column(input, rows, &mut page)?);
    }
    Ok(Rows { rows, columns })
}
