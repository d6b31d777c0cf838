//! Files of relations: one relation as of one LSN. Bytes: `docs/format/relations.md`.

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, varint};

use super::bytes::{decode_schema, encode_schema};
use super::set::Filed;
use super::value::{Row, push};
use super::{RelationId, Rows};
use crate::batch::Column;
use crate::checked_file::{self, Checked, HEADER_BYTES, Identity};
use crate::declared::Declarations;
use crate::definition::take_u32;
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::file_header::FileFormat;
use crate::record::{EncodeScratch, decode_column, encode_column};
use crate::schema::ColumnId;

pub(crate) const KIND: FileFormat = FileFormat {
    magic: *b"NILOREL0",
    format: 5,
};

/// From here on a file says what was declared.
const DECLARED_SINCE: u16 = 3;

/// Rows of one chunk: what is turned into columns, and back, at once.
const CHUNK_ROWS: usize = 1 << 16;

/// Text of one chunk in one column is kept below this, so that its offsets fit 32 bits whatever rows come.
const CHUNK_TEXT_BYTES: usize = 1 << 28;

/// Writes and syncs a file of a relation; returns its size. The folder's names are the caller's to sync.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    relation: &Filed,
) -> Result<u64, Error> {
    let identity = Identity {
        kind: KIND,
        uuid,
        file_id,
    };
    let payload = encode(relation).map_err(|what| what.at(path, 0))?;
    checked_file::write(disk, path, identity, relation.schema.id.0, &payload)
}

/// Reads a file of a relation.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
) -> Result<Filed, Error> {
    let identity = Identity {
        kind: KIND,
        uuid,
        file_id,
    };
    let file = Checked::read(disk, path, identity)?;
    let format = file.format;
    decode(file.number, format.found(), file.payload())
        .map_err(|what| format.refuse(what, path, HEADER_BYTES as u64))
}

pub(super) fn encode(relation: &Filed) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    encode_schema(&relation.schema, &mut out);
    match &relation.schema.declared {
        Some(declared) => declared.encode(&mut out),
        None => Declarations::default().encode(&mut out),
    }
    let mut scratch = EncodeScratch::default();
    let mut rows = relation.rows.as_slice();
    loop {
        let (chunk, rest) = rows.split_at(chunk_rows(rows));
        varint::put_u64(chunk.len() as u64, &mut out);
        if chunk.is_empty() {
            return Ok(out);
        }
        for (at, column) in (0u32..).zip(&relation.schema.columns) {
            let mut values = Column::new(ColumnId(at), column.kind);
            for row in chunk {
                if let Some(value) = row.get(at as usize) {
                    push(&mut values, value);
                }
            }
            encode_column(&values, chunk.len(), &mut out, &mut scratch)?;
        }
        rows = rest;
    }
}

fn chunk_rows(rows: &[Row]) -> usize {
    let mut bytes = 0;
    let fits = rows.iter().take(CHUNK_ROWS).take_while(|row| {
        bytes += row
            .iter()
            .map(super::value::Value::heap_bytes)
            .sum::<usize>();
        bytes <= CHUNK_TEXT_BYTES
    });
    fits.count().max(1).min(rows.len())
}

pub(super) fn decode(id: u64, format: u16, payload: &[u8]) -> Result<Filed, Malformed> {
    let mut input = payload;
    let mut schema = decode_schema(&mut input)?;
    if format >= DECLARED_SINCE {
        schema.declare(Declarations::decode(&mut input)?)?;
    }
    schema.id = RelationId(id);
    let mut rows: Vec<Row> = Vec::new();
    let mut page = ColumnBuf::default();
    loop {
        let n = take_u32(&mut input)? as usize;
        if n == 0 {
            break;
        }
        if n > CHUNK_ROWS {
            return Err(Malformed::new(format!("chunk of {n} rows")));
        }
        let mut chunk = Rows {
            rows: n,
            columns: Vec::new(),
        };
        for (at, wanted) in (0u32..).zip(&schema.columns) {
            let column = decode_column(&mut input, n, &mut page)?;
            if column.id != ColumnId(at) || column.values.kind() != wanted.kind {
                return Err(Malformed::new("a column is not the relation's"));
            }
            if column.validity.nulls() > 0 && !wanted.nullable {
                return Err(Malformed::new("a null where none may be"));
            }
            chunk.columns.push(column);
        }
        for row in 0..n {
            let row = chunk.row(row);
            rows.push(row.ok_or_else(|| Malformed::new("text is not UTF-8"))?);
        }
    }
    if !input.is_empty() {
        return Err(Malformed::new("bytes after the last chunk"));
    }
    Ok(Filed {
        schema: Arc::new(schema),
        rows,
    })
}
