//! Rows of each request in an answer: all of them alike, or the answer is torn.

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow_ipc::reader::StreamReader;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::influxql;
use crate::model::{OpId, Seen, Shown};
use crate::plan::Format;
use crate::request::{ASIDE, BRIEF, KEEP, LAST, RETENTION, names, op_of};

/// Rows of each request.
pub(crate) type Rows = BTreeMap<OpId, u32>;

#[derive(Debug)]
struct Row {
    table: String,
    op: String,
    n: i64,
    w: i64,
}

/// Reads an answer in a format, and what it shows of each request.
pub(crate) fn shown(bytes: &[u8], format: Format, rows: &Rows) -> Result<Shown, String> {
    let found = match format {
        Format::Csv => csv(bytes),
        Format::JsonLines => text(bytes)?.lines().map(object).collect(),
        Format::Json => array(bytes),
        Format::Arrow => arrow(bytes),
        Format::Parquet => parquet(bytes),
        Format::Pretty => table(bytes),
        Format::InfluxJson | Format::InfluxChunks | Format::InfluxCsv => influx(bytes, format),
    }?;
    together(&found, rows)
}

fn influx(bytes: &[u8], format: Format) -> Result<Vec<Row>, String> {
    let rows = influxql::rows(bytes, format)?.into_iter();
    Ok(rows
        .map(|(table, op, n, w)| Row { table, op, n, w })
        .collect())
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

fn csv(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let mut lines = text(bytes)?.lines();
    if lines.next() != Some("t,op,n,w") {
        return Err("CSV without its head".to_owned());
    }
    lines.map(|line| cells(line.split(','))).collect()
}

fn cells<'a>(cells: impl Iterator<Item = &'a str>) -> Result<Row, String> {
    let cells: Vec<&str> = cells.collect();
    let wrong = || format!("no row: {cells:?}");
    let [table, op, n, w] = cells.as_slice() else {
        return Err(wrong());
    };
    Ok(Row {
        table: (*table).to_owned(),
        op: (*op).to_owned(),
        n: n.parse().map_err(|_| wrong())?,
        w: w.parse().map_err(|_| wrong())?,
    })
}

/// A table for people: lines that begin with a bar, the first of which is its head.
fn table(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let lines = text(bytes)?.lines();
    let mut lines = lines.filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let head = lines.next().unwrap_or_default();
    if !head.split('|').map(str::trim).eq(["t", "op", "n", "w"]) {
        return Err(format!("a table without its head: {head:?}"));
    }
    lines
        .map(|line| cells(line.split('|').map(str::trim)))
        .collect()
}

fn object(text: &str) -> Result<Row, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("{error}: {text:?}"))?;
    row_of(&value)
}

fn row_of(value: &Value) -> Result<Row, String> {
    let wrong = || format!("no row: {value}");
    let word = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name| value.get(name).and_then(Value::as_i64);
    Ok(Row {
        table: word("t").ok_or_else(wrong)?,
        op: word("op").ok_or_else(wrong)?,
        n: number("n").ok_or_else(wrong)?,
        w: number("w").ok_or_else(wrong)?,
    })
}

fn array(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let rows = value.as_array().ok_or("no array")?;
    rows.iter().map(row_of).collect()
}

fn arrow(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let reader = StreamReader::try_new(bytes, None).map_err(|error| error.to_string())?;
    columns(reader)
}

fn parquet(bytes: &[u8]) -> Result<Vec<Row>, String> {
    let file = Bytes::copy_from_slice(bytes);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader.and_then(ParquetRecordBatchReaderBuilder::build);
    columns(reader.map_err(|error| error.to_string())?)
}

fn columns(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch.map_err(|error| error.to_string())?;
        let words = |name: &str| -> Result<StringArray, String> {
            let column = batch.column_by_name(name).ok_or("a column is missing")?;
            let column = cast(column, &DataType::Utf8).map_err(|error| error.to_string())?;
            let column = column.as_any().downcast_ref::<StringArray>();
            Ok(column.ok_or("no text")?.clone())
        };
        let numbers = |name: &str| -> Result<Int64Array, String> {
            let column = batch.column_by_name(name).ok_or("a column is missing")?;
            let column = column.as_any().downcast_ref::<Int64Array>();
            Ok(column.ok_or("no integers")?.clone())
        };
        let (tables, ops, n, w) = (words("t")?, words("op")?, numbers("n")?, numbers("w")?);
        rows.extend((0..batch.num_rows()).map(|at| Row {
            table: tables.value(at).to_owned(),
            op: ops.value(at).to_owned(),
            n: n.value(at),
            w: w.value(at),
        }));
    }
    Ok(rows)
}

/// Times and versions of each row of a request in a table.
type Found = BTreeMap<i64, Vec<i64>>;

/// The tables, in the order of what was found in them.
const TABLES: [&str; 4] = [LAST, KEEP, BRIEF, ASIDE];

/// A row about a name or a setting, and what it shows; `None` = it is a row of a table.
fn defined(row: &Row) -> Option<(OpId, Seen)> {
    let mut seen = Seen::default();
    match row.table.as_str() {
        "setting" => {
            seen.last = u32::try_from(row.w).ok();
            Some((RETENTION, seen))
        }
        "name" => {
            seen.aside = true;
            let (_, id) = names().find(|(name, _)| *name == row.op)?;
            Some((id, seen))
        }
        _ => None,
    }
}

fn together(found: &[Row], rows: &Rows) -> Result<Shown, String> {
    let mut by_op: BTreeMap<OpId, [Found; 4]> = BTreeMap::new();
    let mut shown = Shown::new();
    for row in found {
        if let Some((id, seen)) = defined(row) {
            if shown.insert(id, seen).is_some() {
                return Err(format!("a name is there twice: {row:?}"));
            }
            continue;
        }
        let op = op_of(&row.op).filter(|op| rows.contains_key(op));
        let op = op.ok_or_else(|| format!("rows of a request that there never was: {row:?}"))?;
        let tables = by_op.entry(op).or_default();
        let nth = TABLES.iter().position(|table| *table == row.table);
        let table = nth.and_then(|nth| tables.get_mut(nth));
        let table = table.ok_or_else(|| format!("no table of these: {row:?}"))?;
        table.entry(row.n).or_default().push(row.w);
    }
    for (op, found) in by_op {
        let count = rows.get(&op).copied().unwrap_or(0);
        shown.insert(op, of_request(op, count, &found)?);
    }
    Ok(shown)
}

fn of_request(op: OpId, count: u32, found: &[Found; 4]) -> Result<Seen, String> {
    let [last, keep, brief, aside] = found;
    let look = |what: &str, found: &Found, once: bool| {
        let is_once = !once || found.values().all(|versions| versions.len() == 1);
        let seen = same(found, count).filter(|_| is_once);
        seen.ok_or_else(|| format!("request {op} of {count} rows is torn in {what}: {found:?}"))
    };
    let times = |it: Option<(u32, u32)>| it.map_or(0, |(times, _)| times);
    Ok(Seen {
        last: look("`last`, where a row is once", last, true)?.map(|(_, version)| version),
        keep: times(look("`keep`", keep, false)?),
        brief: times(look("`brief`", brief, false)?),
        aside: look("`aside`, where a row is once", aside, true)?.is_some(),
    })
}

/// How often each row is there, and in which version, if that is the same for all of them.
#[expect(
    clippy::option_option,
    reason = "torn, not there, and there in a version are three answers"
)]
fn same(found: &Found, count: u32) -> Option<Option<(u32, u32)>> {
    let Some(first) = found.values().next() else {
        return Some(None);
    };
    let is_whole = found.keys().copied().eq(0..i64::from(count));
    let alike = found.values().all(|versions| versions == first);
    let version = *first.first()?;
    let unmixed = first.iter().all(|other| *other == version);
    let times = u32::try_from(first.len()).ok()?;
    let version = u32::try_from(version).ok()?;
    (is_whole && alike && unmixed).then_some(Some((times, version)))
}
