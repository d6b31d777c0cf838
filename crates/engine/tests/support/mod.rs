//! What several tests of the store need: everything in it, as text that can be compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use nilometer_engine::{Engine, Error, ScanRequest, Snapshot};

/// Rows by "database.schema.table". A row lists its columns by name; nulls are left out, so that a column that nobody
/// has a value of is no difference.
pub(crate) type Answer = BTreeMap<String, Vec<BTreeMap<String, String>>>;

/// Every row of every table.
pub(crate) fn everything(engine: &Arc<Engine>) -> Result<Answer, Error> {
    everything_in(&engine.snapshot())
}

/// Every row of every table that a snapshot sees.
pub(crate) fn everything_in(snapshot: &Snapshot) -> Result<Answer, Error> {
    let mut answer = Answer::new();
    for database in snapshot.databases() {
        for schema in snapshot.schemas(&database).unwrap_or_default() {
            for table in snapshot.tables(&database, &schema).unwrap_or_default() {
                let rows = rows_of(snapshot, &database, &schema, &table)?;
                if !rows.is_empty() {
                    answer.insert(format!("{database}.{schema}.{table}"), rows);
                }
            }
            for name in snapshot.relations(&database, &schema).unwrap_or_default() {
                let reader = snapshot.relation(&database, &schema, &name);
                let reader = reader.expect("it is listed");
                let columns: Vec<usize> = (0..reader.schema().named_columns().len()).collect();
                let mut rows = Vec::new();
                for batch in reader.read(&columns) {
                    rows.extend((0..batch.num_rows()).map(|row| row_of(&batch, row)));
                }
                // The order of a relation's rows means nothing.
                rows.sort();
                answer.insert(format!("{database}.{schema}.{name}"), rows);
            }
        }
    }
    Ok(answer)
}

fn rows_of(
    snapshot: &Snapshot,
    database: &str,
    schema: &str,
    table: &str,
) -> Result<Vec<BTreeMap<String, String>>, Error> {
    let table = snapshot
        .table(database, schema, table)
        .expect("it is listed");
    let columns = table.arrow_schema().fields().len();
    let scan = snapshot.scan(&ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    })?;
    let mut rows = Vec::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch?;
        rows.extend((0..batch.num_rows()).map(|row| row_of(&batch, row)));
    }
    Ok(rows)
}

fn row_of(batch: &RecordBatch, row: usize) -> BTreeMap<String, String> {
    let schema = batch.schema();
    let cells = schema.fields().iter().zip(batch.columns());
    cells
        .filter_map(|(field, column)| Some((field.name().clone(), cell(column.as_ref(), row)?)))
        .collect()
}

/// A value as text: floats as Rust prints them, text as it is; `None` = null.
fn cell(column: &dyn Array, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    if let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() {
        return Some(times.value(row).to_string());
    }
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return Some(numbers.value(row).to_string());
    }
    if let Some(numbers) = column.as_primitive_opt::<UInt64Type>() {
        return Some(numbers.value(row).to_string());
    }
    if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        return Some(format!("{:?}", numbers.value(row)));
    }
    if let Some(values) = column.as_boolean_opt() {
        return Some(values.value(row).to_string());
    }
    if let Some(tags) = column.as_dictionary_opt::<Int32Type>() {
        let key = usize::try_from(tags.keys().value(row)).expect("keys are positions");
        return Some(tags.values().as_string::<i32>().value(key).to_owned());
    }
    if let Some(bytes) = column.as_binary_opt::<i32>() {
        return Some(hex(bytes.value(row)));
    }
    Some(shown(column.as_string::<i32>().value(row)))
}

/// Bytes as they are compared.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// A text as it is compared; of megabytes its length and its checksum, so that what is expected can stand in a file.
pub(crate) fn shown(text: &str) -> String {
    if text.len() < 1 << 20 {
        return text.to_owned();
    }
    let crc = nilometer_codec::crc32c(0, text.as_bytes());
    format!("{} bytes, CRC32C {crc:08x}", text.len())
}
