//! What a log record holds: definitions or a batch, as bytes. See `docs/format/log.md`.

use nilometer_codec::{
    ColumnBuf, PhysicalType, decode_i64s, decode_page, encode_i64s, encode_page, varint,
};

use crate::batch::{Batch, Column, TableRows, Validity, Values};
use crate::definition::{Definition, take_byte, take_bytes, take_u32};
use crate::error::Malformed;
use crate::schema::{ColumnId, TableId};

const DEFINITIONS: u8 = 1;
const BATCH: u8 = 2;

/// Rows of one page inside a batch record.
const PAGE_ROWS: usize = nilometer_codec::BLOCK_ROWS_MAX;

/// Text of one page inside a batch record; a page cannot hold more than 16 MiB, and one value has a mebibyte at most.
const PAGE_TEXT_BYTES: u32 = 4 << 20;

/// Most rows that a record may claim before its bytes are looked at; far above what a batch may hold.
const RECORD_ROWS_MAX: usize = 1 << 28;

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
    Ok(out)
}

#[derive(Debug, Default)]
struct EncodeScratch {
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
        varint::put_u64(u64::from(column.id.0), out);
        out.push(column.values.kind() as u8);
        let mut start = 0;
        while start < rows.rows() {
            let end = page_end(column, start, rows.rows());
            scratch.page.clear();
            encode_page(
                column.slice(start..end, &mut scratch.bitmap),
                &mut scratch.page,
            )?;
            varint::put_u64(scratch.page.len() as u64, out);
            out.extend_from_slice(&scratch.page);
            start = end;
        }
    }
    Ok(())
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

/// Reads a record's payload.
pub(crate) fn decode(mut input: &[u8]) -> Result<Record, Malformed> {
    match take_byte(&mut input)? {
        DEFINITIONS => Ok(Record::Definitions(Definition::decode_all(input)?)),
        BATCH => decode_batch(input).map(Record::Batch),
        other => Err(Malformed::new(format!("unknown record kind {other}"))),
    }
}

fn decode_batch(mut input: &[u8]) -> Result<Batch, Malformed> {
    let mut page = ColumnBuf::default();
    let tables = take_u32(&mut input)?;
    let mut batch = Batch::default();
    for _ in 0..tables {
        batch.tables.push(decode_table(&mut input, &mut page)?);
    }
    if !input.is_empty() {
        return Err(Malformed::new("bytes after the last table of a batch"));
    }
    Ok(batch)
}

fn decode_table(input: &mut &[u8], page: &mut ColumnBuf) -> Result<TableRows, Malformed> {
    let table = TableId(take_u32(input)?);
    let rows = take_u32(input)? as usize;
    if rows > RECORD_ROWS_MAX {
        return Err(Malformed::new(format!("batch of {rows} rows")));
    }
    let mut numbers = Vec::new();
    decode_i64s(input, rows, &mut numbers)?;
    let series = numbers
        .iter()
        .map(|&id| u32::try_from(id).map_err(|_| Malformed::new("series id exceeds 32 bits")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::new();
    decode_i64s(input, rows, &mut times)?;
    let n = take_u32(input)?;
    let mut columns = Vec::new();
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

fn decode_column(
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
        let part = Column {
            id,
            values: Values::from_page(page),
            validity: Validity::from_bitmap(page.validity(), got),
        };
        column.extend_range(&part, 0..got);
    }
    if column.values.len() != rows {
        return Err(Malformed::new("column longer than its table"));
    }
    Ok(column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Strings;

    fn sample(rows: usize) -> Batch {
        let mut text = Strings::default();
        let mut validity = Validity::default();
        for row in 0..rows {
            text.push(if row % 3 == 0 { b"" } else { b"abc" });
            validity.push(row % 3 != 0);
        }
        Batch {
            tables: vec![TableRows {
                table: TableId(7),
                series: (0..rows).map(|row| 1 + (row % 10) as u32).collect(),
                times: (0..rows).map(|row| 1_000 * (row as i64 / 10)).collect(),
                columns: vec![
                    Column {
                        id: ColumnId(1),
                        values: Values::F64((0..rows).map(|row| row as f64 / 10.0).collect()),
                        validity: Validity::all(rows),
                    },
                    Column {
                        id: ColumnId(2),
                        values: Values::Text(text),
                        validity,
                    },
                ],
            }],
        }
    }

    #[test]
    fn a_batch_reads_back_as_written() {
        for rows in [1, 10, 1023, 1024, 1025, 5000] {
            let bytes = encode_batch(&sample(rows)).unwrap();
            assert_eq!(
                decode(&bytes).unwrap(),
                Record::Batch(sample(rows)),
                "{rows} rows"
            );
        }
    }

    /// 1024 rows of long text are more than one page may hold; the write was refused as if the store were damaged.
    #[test]
    fn a_batch_of_long_text_takes_as_many_pages_as_it_needs() {
        let mut text = Strings::default();
        for row in 0..40 {
            text.push(&vec![b'0' + row; 1 << 20]);
        }
        let batch = Batch {
            tables: vec![TableRows {
                table: TableId(1),
                series: vec![1; 40],
                times: (0..40).collect(),
                columns: vec![Column {
                    id: ColumnId(1),
                    values: Values::Text(text),
                    validity: Validity::all(40),
                }],
            }],
        };
        let bytes = encode_batch(&batch).unwrap();
        assert_eq!(decode(&bytes).unwrap(), Record::Batch(batch));
    }

    #[test]
    fn every_truncation_of_a_batch_is_an_error() {
        let bytes = encode_batch(&sample(50)).unwrap();
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n]).is_err(), "accepted {n} bytes");
        }
    }

    #[test]
    fn a_flipped_bit_never_panics() {
        let bytes = encode_batch(&sample(50)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            drop(decode(&damaged));
        }
    }
}
