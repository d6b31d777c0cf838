//! Log records: definitions or a batch, as bytes. See `docs/format/log.md`.

use std::ops::Range;
use std::sync::Arc;

use nilometer_codec::{
    ColumnBuf, PageSet, PhysicalType, decode_i64s, decode_page, encode_i64s, encode_page_of, varint,
};

use crate::batch::{Batch, BatchKey, Column, TableRows, Values};
use crate::definition::{Definition, take_byte, take_bytes, take_u32};
use crate::error::Malformed;
use crate::file_header::take;
use crate::kept_page::KeptPage;
use crate::relation::{self, Change, RelationId};
use crate::schema::{ColumnId, Lsn, TableId};
use crate::tombstone::Tombstone;

const DEFINITIONS: u8 = 1;
const BATCH: u8 = 2;

const TOMBSTONES: u8 = 1;
const RELATIONS: u8 = 2;
const KEY: u8 = 3;
const PAGES: u8 = 4;

/// Rows of one page inside a batch record.
const PAGE_ROWS: usize = nilometer_codec::BLOCK_ROWS_MAX;

/// Text of one page inside a batch record, unless a single value has more: that has a page to itself. Far below the 16 MiB that
/// a page of several values may hold.
const PAGE_TEXT_BYTES: u32 = 4 << 20;

/// Bytes of a short value, on average of a page.
const SHORT_BYTES: usize = 1024;

/// Most rows that a record may claim before its bytes are looked at; far above what a batch may hold.
const RECORD_ROWS_MAX: usize = 1 << 28;

/// Most rows that a column gets room for before it is decoded.
const RESERVE_ROWS_MAX: usize = 1 << 16;

/// Most columns that a table gets room for before they are decoded.
const RESERVE_COLUMNS_MAX: usize = 64;

/// Most text that a column gets room for before it is decoded, as a multiple of what is left of the record.
const RESERVE_TEXT_FACTOR: usize = 4;

/// A decoded record.
#[derive(Debug, PartialEq)]
pub(crate) enum Record {
    Definitions(Vec<Definition>),
    Batch(Batch),
}

/// A record of definitions that are encoded already.
pub(crate) fn encode_definitions(entries: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() + 1);
    out.push(DEFINITIONS);
    out.extend_from_slice(entries);
    out
}

/// A record of a batch.
pub(crate) fn encode_batch(batch: &Batch) -> Result<Vec<u8>, Malformed> {
    let mut out = vec![BATCH];
    let mut scratch = EncodeScratch::default();
    varint::put_u64(batch.tables.len() as u64, &mut out);
    for rows in &batch.tables {
        encode_table(rows, &mut out, &mut scratch)?;
    }
    if !batch.tombstones.is_empty() {
        let mut section = Vec::new();
        varint::put_u64(batch.tombstones.len() as u64, &mut section);
        for tombstone in &batch.tombstones {
            tombstone.encode(&mut section);
        }
        put_section(TOMBSTONES, &section, &mut out);
    }
    if !batch.relations.is_empty() {
        let mut section = Vec::new();
        relation::encode_changes(&batch.relations, &mut section)?;
        put_section(RELATIONS, &section, &mut out);
    }
    if let Some(key) = &batch.key {
        let mut section = Vec::from(key.key);
        varint::put_i64(key.accepted_ns, &mut section);
        put_section(KEY, &section, &mut out);
    }
    if !batch.pages.is_empty() {
        let mut section = Vec::new();
        varint::put_u64(batch.pages.len() as u64, &mut section);
        for page in &batch.pages {
            page.encode(&mut section);
        }
        put_section(PAGES, &section, &mut out);
    }
    Ok(out)
}

fn put_section(id: u8, section: &[u8], out: &mut Vec<u8>) {
    out.push(id);
    varint::put_u64(section.len() as u64, out);
    out.extend_from_slice(section);
}

#[derive(Debug, Default)]
pub(crate) struct EncodeScratch {
    series: Vec<i64>,
    bitmap: Vec<u8>,
    page: Vec<u8>,
}

fn encode_table(
    rows: &TableRows,
    out: &mut Vec<u8>,
    scratch: &mut EncodeScratch,
) -> Result<(), Malformed> {
    varint::put_u64(u64::from(rows.table.0), out);
    varint::put_u64(rows.rows() as u64, out);
    scratch.series.clear();
    scratch
        .series
        .extend(rows.series.iter().map(|&id| i64::from(id)));
    encode_i64s(&scratch.series, out);
    encode_i64s(&rows.times, out);
    varint::put_u64(rows.columns.len() as u64, out);
    for column in &rows.columns {
        encode_column(column, rows.rows(), out, scratch)?;
    }
    Ok(())
}

/// Appends the id, the type and all rows of a column, in pages.
pub(crate) fn encode_column(
    column: &Column,
    rows: usize,
    out: &mut Vec<u8>,
    scratch: &mut EncodeScratch,
) -> Result<(), Malformed> {
    varint::put_u64(u64::from(column.id.0), out);
    out.push(column.values.kind() as u8);
    let mut start = 0;
    while start < rows {
        let end = page_end(column, start, rows);
        scratch.page.clear();
        encode_page_of(
            column.slice(start..end, &mut scratch.bitmap),
            page_set(column, start..end),
            &mut scratch.page,
        )?;
        varint::put_u64(scratch.page.len() as u64, out);
        out.extend_from_slice(&scratch.page);
        start = end;
    }
    Ok(())
}

/// What a page may be encoded in. Short bytes stand in the log as they are: to compress them took a fifth of the time of a write, for a
/// file that is read once at most. Long ones are compressed: those are few, and much to write.
fn page_set(column: &Column, rows: Range<usize>) -> PageSet {
    let Values::Bytes(strings) = &column.values else {
        return PageSet::First;
    };
    let end = |row: usize| strings.offsets.get(row).copied().unwrap_or(0) as usize;
    let bytes = end(rows.end).saturating_sub(end(rows.start));
    if bytes <= rows.len() * SHORT_BYTES {
        PageSet::Quick
    } else {
        PageSet::First
    }
}

/// Where the page that starts with row `start` ends: a page takes so many rows and so much text, and one row at least.
fn page_end(column: &Column, start: usize, rows: usize) -> usize {
    let most = (start + PAGE_ROWS).min(rows);
    let (Values::Text(strings) | Values::Bytes(strings)) = &column.values else {
        return most;
    };
    let first = strings.offsets.get(start).copied().unwrap_or(0);
    let ends = strings.offsets.get(start + 1..=most).unwrap_or_default();
    start
        + ends
            .partition_point(|&end| end - first <= PAGE_TEXT_BYTES)
            .max(1)
}

/// Reads the payload of the record of this LSN.
pub(crate) fn decode(lsn: Lsn, input: &[u8]) -> Result<Record, Malformed> {
    decode_with(lsn, input, &mut ColumnBuf::default())
}

/// The same; `page` is room for a page, to be used again.
pub(crate) fn decode_with(
    lsn: Lsn,
    mut input: &[u8],
    page: &mut ColumnBuf,
) -> Result<Record, Malformed> {
    match take_byte(&mut input)? {
        DEFINITIONS => Ok(Record::Definitions(Definition::decode_all(input)?)),
        BATCH => {
            let mut batch = decode_batch(input, page)?;
            sequence(&mut batch, lsn);
            Ok(Record::Batch(batch))
        }
        other => Err(Malformed::new(format!("unknown record kind {other}"))),
    }
}

fn decode_batch(mut input: &[u8], page: &mut ColumnBuf) -> Result<Batch, Malformed> {
    let tables = take_u32(&mut input)?;
    let mut batch = Batch::default();
    for _ in 0..tables {
        batch.tables.push(decode_table(&mut input, page)?);
    }
    let mut last = 0;
    while !input.is_empty() {
        let id = take_byte(&mut input)?;
        if id <= last {
            return Err(Malformed::new(format!(
                "section {id} of a batch is out of order"
            )));
        }
        last = id;
        let length = take_u32(&mut input)? as usize;
        let mut section = take_bytes(&mut input, length)?;
        decode_section(id, &mut section, &mut batch)?;
        if !section.is_empty() {
            return Err(Malformed::new(format!(
                "bytes after section {id} of a batch"
            )));
        }
    }
    Ok(batch)
}

fn decode_section(id: u8, section: &mut &[u8], batch: &mut Batch) -> Result<(), Malformed> {
    let empty = match id {
        TOMBSTONES => {
            for _ in 0..take_u32(section)? {
                let tombstone = Tombstone::decode(section)?;
                if tombstone.lsn != 0 {
                    return Err(Malformed::new("a delete in a batch has an LSN of its own"));
                }
                batch.tombstones.push(tombstone);
            }
            batch.tombstones.is_empty()
        }
        RELATIONS => {
            batch.relations = relation::decode_changes(section)?;
            batch.relations.is_empty()
        }
        KEY => {
            batch.key = Some(BatchKey {
                key: take(section)?,
                accepted_ns: varint::get_i64(section)?,
            });
            false
        }
        PAGES => {
            for _ in 0..take_u32(section)? {
                batch.pages.push(Arc::new(KeptPage::decode(section)?));
            }
            batch.pages.is_empty()
        }
        other => {
            return Err(Malformed::new(format!(
                "section {other} of a batch is unknown to this version; a newer one may have written it"
            )));
        }
    };
    if empty {
        return Err(Malformed::new(format!("section {id} of a batch is empty")));
    }
    Ok(())
}

/// Gives what a batch carries the batch's LSN.
pub(crate) fn sequence(batch: &mut Batch, lsn: Lsn) {
    for tombstone in &mut batch.tombstones {
        tombstone.lsn = lsn;
    }
    for change in &mut batch.relations {
        if let Change::Create(schema) = change {
            schema.id = RelationId(lsn);
        }
    }
}

fn decode_table(input: &mut &[u8], page: &mut ColumnBuf) -> Result<TableRows, Malformed> {
    let table = TableId(take_u32(input)?);
    let rows = take_u32(input)? as usize;
    if rows > RECORD_ROWS_MAX {
        return Err(Malformed::new(format!("batch of {rows} rows")));
    }
    let mut times = Vec::with_capacity(rows.min(RESERVE_ROWS_MAX));
    decode_i64s(input, rows, &mut times)?;
    // Those were the ids; all of them are there, so this is room for no more than what was paid for.
    let mut series = Vec::with_capacity(rows);
    for &id in &times {
        let id = u32::try_from(id).map_err(|_| Malformed::new("series id exceeds 32 bits"))?;
        series.push(id);
    }
    times.clear();
    decode_i64s(input, rows, &mut times)?;
    let n = take_u32(input)? as usize;
    let mut columns = Vec::with_capacity(n.min(RESERVE_COLUMNS_MAX));
    for _ in 0..n {
        columns.push(decode_column(input, rows, page)?);
    }
    Ok(TableRows {
        table,
        series,
        times,
        columns,
    })
}

/// Reads a column of `rows` rows and moves `input` past it.
pub(crate) fn decode_column(
    input: &mut &[u8],
    rows: usize,
    page: &mut ColumnBuf,
) -> Result<Column, Malformed> {
    let id = ColumnId(take_u32(input)?);
    let kind = PhysicalType::try_from(take_byte(input)?)?;
    let mut column = Column::new(id, kind);
    while column.values.len() < rows {
        let n = take_u32(input)? as usize;
        decode_page(take_bytes(input, n)?, page)?;
        let got = page.rows();
        if got == 0 || page.physical_type() != kind {
            return Err(Malformed::new("page of another type than its column"));
        }
        if column.values.len() == 0 {
            reserve(&mut column, rows, page, input.len());
        }
        column.values.extend_from_page(page);
        column.validity.extend_from_bitmap(page.validity(), got);
    }
    if column.values.len() != rows {
        return Err(Malformed::new("column longer than its table"));
    }
    Ok(column)
}

/// Makes room for all of a column when its first page is known: a head keeps the columns as they are, and room that
/// grew by doubling would be kept with them.
fn reserve(column: &mut Column, rows: usize, first: &ColumnBuf, input_bytes: usize) {
    let (_, text) = first.text();
    let text_bytes = text.len().saturating_mul(rows) / first.rows().max(1);
    // What the input says is believed so far only.
    let text_bytes = text_bytes.min(text.len() + input_bytes.saturating_mul(RESERVE_TEXT_FACTOR));
    column
        .values
        .reserve(rows.min(RESERVE_ROWS_MAX), text_bytes);
}

#[cfg(test)]
mod tests;
