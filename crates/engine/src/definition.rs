//! What gives names their ids: the entries that the log carries before an id is first used.
//!
//! The same bytes stand in the log's definition records and in definition files; see `docs/format/definitions.md`.

use nilometer_codec::{PhysicalType, varint};

use crate::error::Malformed;
use crate::schema::{ColumnId, ColumnKind, DatabaseId, SchemaId, SeriesId, TableId};

/// One thing that came to exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Definition {
    Database {
        id: DatabaseId,
        name: String,
    },
    Schema {
        id: SchemaId,
        database: DatabaseId,
        name: String,
    },
    Table {
        id: TableId,
        schema: SchemaId,
        name: String,
    },
    Column {
        id: ColumnId,
        table: TableId,
        kind: ColumnKind,
        name: String,
    },
    /// The next code of a tag's dictionary; codes count from 0 in the order of their definitions.
    TagValue {
        tag: ColumnId,
        value: String,
    },
    Series {
        id: SeriesId,
        table: TableId,
        /// Tag and code of its value, in the order of tag ids; absent tags are not listed.
        tags: Vec<(ColumnId, u32)>,
    },
}

const DATABASE: u8 = 1;
const SCHEMA: u8 = 2;
const TABLE: u8 = 3;
const COLUMN: u8 = 4;
const TAG_VALUE: u8 = 5;
const SERIES: u8 = 6;

/// Column kind on disk of a tag; a field is its physical type's number.
const KIND_TAG: u8 = 0xFF;

impl Definition {
    /// Appends the entry.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Database { id, name } => {
                out.push(DATABASE);
                varint::put_u64(u64::from(id.0), out);
                put_text(name, out);
            }
            Self::Schema { id, database, name } => {
                out.push(SCHEMA);
                varint::put_u64(u64::from(id.0), out);
                varint::put_u64(u64::from(database.0), out);
                put_text(name, out);
            }
            Self::Table { id, schema, name } => {
                out.push(TABLE);
                varint::put_u64(u64::from(id.0), out);
                varint::put_u64(u64::from(schema.0), out);
                put_text(name, out);
            }
            Self::Column {
                id,
                table,
                kind,
                name,
            } => {
                out.push(COLUMN);
                varint::put_u64(u64::from(id.0), out);
                varint::put_u64(u64::from(table.0), out);
                out.push(match kind {
                    ColumnKind::Tag => KIND_TAG,
                    ColumnKind::Field(kind) => *kind as u8,
                });
                put_text(name, out);
            }
            Self::TagValue { tag, value } => encode_tag_value(*tag, value, out),
            Self::Series { id, table, tags } => encode_series(*id, *table, tags, out),
        }
    }

    /// Reads one entry and moves `input` past it.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let kind = take_byte(input)?;
        let id = take_u32(input)?;
        Ok(match kind {
            DATABASE => Self::Database {
                id: DatabaseId(id),
                name: take_text(input)?,
            },
            SCHEMA => Self::Schema {
                id: SchemaId(id),
                database: DatabaseId(take_u32(input)?),
                name: take_text(input)?,
            },
            TABLE => Self::Table {
                id: TableId(id),
                schema: SchemaId(take_u32(input)?),
                name: take_text(input)?,
            },
            COLUMN => Self::Column {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
                kind: match take_byte(input)? {
                    KIND_TAG => ColumnKind::Tag,
                    number => ColumnKind::Field(PhysicalType::try_from(number)?),
                },
                name: take_text(input)?,
            },
            TAG_VALUE => Self::TagValue {
                tag: ColumnId(id),
                value: take_text(input)?,
            },
            SERIES => {
                let table = TableId(take_u32(input)?);
                let n = take_u32(input)?;
                let mut tags = Vec::new();
                for _ in 0..n {
                    tags.push((ColumnId(take_u32(input)?), take_u32(input)?));
                }
                Self::Series {
                    id: SeriesId(id),
                    table,
                    tags,
                }
            }
            other => return Err(Malformed::new(format!("unknown definition kind {other}"))),
        })
    }

    /// Reads entries until the input ends.
    pub(crate) fn decode_all(mut input: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(Self::decode(&mut input)?);
        }
        Ok(all)
    }
}

/// Appends the entry of a tag's value. A value apart from [`Definition`], because a write may bring a million.
pub(crate) fn encode_tag_value(tag: ColumnId, value: &str, out: &mut Vec<u8>) {
    out.push(TAG_VALUE);
    varint::put_u64(u64::from(tag.0), out);
    put_text(value, out);
}

/// Appends the entry of a series.
pub(crate) fn encode_series(
    id: SeriesId,
    table: TableId,
    tags: &[(ColumnId, u32)],
    out: &mut Vec<u8>,
) {
    out.push(SERIES);
    varint::put_u64(u64::from(id.0), out);
    varint::put_u64(u64::from(table.0), out);
    varint::put_u64(tags.len() as u64, out);
    for (tag, code) in tags {
        varint::put_u64(u64::from(tag.0), out);
        varint::put_u64(u64::from(*code), out);
    }
}

pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    varint::put_u64(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn take_byte(input: &mut &[u8]) -> Result<u8, Malformed> {
    let (&first, rest) = input
        .split_first()
        .ok_or_else(|| Malformed::new("unexpected end"))?;
    *input = rest;
    Ok(first)
}

pub(crate) fn take_u32(input: &mut &[u8]) -> Result<u32, Malformed> {
    let value = varint::get_u64(input)?;
    u32::try_from(value).map_err(|_| Malformed::new(format!("number {value} exceeds 32 bits")))
}

pub(crate) fn take_bytes<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8], Malformed> {
    let (bytes, rest) = input
        .split_at_checked(n)
        .ok_or_else(|| Malformed::new("unexpected end"))?;
    *input = rest;
    Ok(bytes)
}

pub(crate) fn take_text(input: &mut &[u8]) -> Result<String, Malformed> {
    let n = take_u32(input)? as usize;
    let bytes = take_bytes(input, n)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::new("text is not UTF-8"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Definition> {
        vec![
            Definition::Database {
                id: DatabaseId(1),
                name: "d".into(),
            },
            Definition::Schema {
                id: SchemaId(2),
                database: DatabaseId(1),
                name: "public".into(),
            },
            Definition::Table {
                id: TableId(3),
                schema: SchemaId(2),
                name: "cpu".into(),
            },
            Definition::Column {
                id: ColumnId(4),
                table: TableId(3),
                kind: ColumnKind::Tag,
                name: "host".into(),
            },
            Definition::Column {
                id: ColumnId(5),
                table: TableId(3),
                kind: ColumnKind::Field(PhysicalType::F64),
                name: "v".into(),
            },
            Definition::TagValue {
                tag: ColumnId(4),
                value: "a".into(),
            },
            Definition::Series {
                id: SeriesId(300),
                table: TableId(3),
                tags: vec![(ColumnId(4), 0)],
            },
        ]
    }

    #[test]
    fn entries_read_back_as_written() {
        let mut bytes = Vec::new();
        for entry in samples() {
            entry.encode(&mut bytes);
        }
        assert_eq!(Definition::decode_all(&bytes), Ok(samples()));
    }

    #[test]
    fn every_truncation_is_an_error_or_fewer_entries() {
        let mut bytes = Vec::new();
        for entry in samples() {
            entry.encode(&mut bytes);
        }
        for n in 0..bytes.len() {
            if let Ok(entries) = Definition::decode_all(bytes.get(..n).unwrap_or_default()) {
                assert!(entries.len() < samples().len(), "{n} bytes gave everything");
            }
        }
    }
}
