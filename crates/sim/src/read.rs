//! From record batches to plain maps.
//!
//! Does: name the columns of a scan, take their values out bit for bit, note where rows do not come by series and ascending
//! time. Does not: compare with anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch, StringArray};
use nilometer_engine::{Duplicates, MorselReader, Scan, ScanRequest, Snapshot, TableSchema};

use crate::model::Table;
use crate::plan::{Fields, Tags, Value};

/// The columns of a scan: time, every tag, some fields.
#[derive(Debug)]
pub(crate) struct Selection {
    tags: Vec<String>,
    /// Position among the table's fields, and name.
    fields: Vec<(usize, String)>,
}

impl Selection {
    pub(crate) fn whole(schema: &TableSchema) -> Self {
        Self {
            tags: schema.tags.iter().map(|tag| tag.name.clone()).collect(),
            fields: schema
                .fields
                .iter()
                .enumerate()
                .map(|(at, field)| (at, field.name.clone()))
                .collect(),
        }
    }

    pub(crate) fn one_field(schema: &TableSchema, at: usize) -> Self {
        let mut selection = Self::whole(schema);
        selection.fields.retain(|(field, _)| *field == at);
        selection
    }

    /// Positions in the table's arrow schema, where time is the first, then tags, then fields.
    pub(crate) fn projection(&self) -> Vec<usize> {
        let tags = self.tags.len();
        (0..=tags)
            .chain(self.fields.iter().map(|(at, _)| 1 + tags + at))
            .collect()
    }
}

/// Runs a scan and takes its rows.
pub(crate) fn read_rows(
    snapshot: &Snapshot,
    request: &ScanRequest,
    selection: &Selection,
) -> Result<(Table, Option<String>), String> {
    let scan = snapshot.scan(request).map_err(|error| error.to_string())?;
    let mut rows = Rows {
        keeps: request.table.settings.duplicates == Duplicates::Keep,
        ..Rows::default()
    };
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            let batch = batch.map_err(|error| error.to_string())?;
            rows.take(&batch, selection)?;
        }
    }
    Ok((rows.table, rows.disorder))
}

/// A scan that is read batch by batch, when its reader comes to it.
pub(crate) struct SlowReader {
    scan: Scan,
    selection: Selection,
    morsel: usize,
    reader: Option<MorselReader>,
    rows: Rows,
}

impl SlowReader {
    /// Plans to read a table whole.
    pub(crate) fn plan(snapshot: &Snapshot, table: &Arc<TableSchema>) -> Result<Self, String> {
        let selection = Selection::whole(table);
        let request = ScanRequest {
            table: Arc::clone(table),
            projection: selection.projection(),
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        };
        Ok(Self {
            scan: snapshot.scan(&request).map_err(|error| error.to_string())?,
            selection,
            morsel: 0,
            reader: None,
            rows: Rows {
                keeps: table.settings.duplicates == Duplicates::Keep,
                ..Rows::default()
            },
        })
    }

    /// Reads so many batches at most; all rows, if these were the last.
    pub(crate) fn read_on(&mut self, batches: u32) -> Result<Option<&Table>, String> {
        let mut left = batches;
        while self.morsel < self.scan.morsels() {
            let (scan, morsel) = (&self.scan, self.morsel);
            let reader = self.reader.get_or_insert_with(|| scan.read(morsel));
            if left == 0 {
                return Ok(None);
            }
            let Some(batch) = reader.next() else {
                self.morsel += 1;
                self.reader = None;
                continue;
            };
            let batch = batch.map_err(|error| error.to_string())?;
            self.rows.take(&batch, &self.selection)?;
            left -= 1;
        }
        Ok(Some(&self.rows.table))
    }
}

#[derive(Default)]
struct Rows {
    table: Table,
    /// The row before, and the series before its own.
    last: Option<(Tags, i64)>,
    done: BTreeSet<Tags>,
    /// Two rows may have one series and time.
    keeps: bool,
    disorder: Option<String>,
}

impl Rows {
    fn take(&mut self, batch: &RecordBatch, selection: &Selection) -> Result<(), String> {
        let mut columns = batch.columns().iter();
        let times = columns
            .next()
            .and_then(|column| column.as_primitive_opt::<TimestampNanosecondType>())
            .ok_or("the first column is not the time")?;
        let tags: Vec<Vec<Option<Value>>> = columns
            .by_ref()
            .take(selection.tags.len())
            .map(|column| values(column.as_ref()))
            .collect::<Result<_, _>>()?;
        let fields: Vec<Vec<Option<Value>>> = columns
            .map(|column| values(column.as_ref()))
            .collect::<Result<_, _>>()?;
        for (row, &time) in times.values().iter().enumerate() {
            let mut key = Tags::new();
            for (name, column) in selection.tags.iter().zip(&tags) {
                if let Some(Some(Value::Text(value))) = column.get(row) {
                    key.insert(name.clone(), value.clone());
                }
            }
            let mut found = Fields::new();
            for ((_, name), column) in selection.fields.iter().zip(&fields) {
                if let Some(Some(value)) = column.get(row) {
                    found.insert(name.clone(), value.clone());
                }
            }
            self.add((key, time), found);
        }
        Ok(())
    }

    fn add(&mut self, key: (Tags, i64), fields: Fields) {
        if let Some((tags, time)) = self.last.take() {
            let ascends = time < key.1 || (self.keeps && time == key.1);
            if tags == key.0 && !ascends {
                self.disorder = Some(format!("{tags:?} has time {} after {time}", key.1));
            }
            if tags != key.0 {
                self.done.insert(tags);
            }
        }
        if self.done.contains(&key.0) {
            self.disorder = Some(format!("rows of {:?} are not together", key.0));
        }
        self.last = Some(key.clone());
        self.table.entry(key).or_default().push(fields);
    }
}

pub(crate) fn values(column: &dyn Array) -> Result<Vec<Option<Value>>, String> {
    if let Some(column) = column.as_primitive_opt::<Float64Type>() {
        let bits = |value: f64| Value::Float(value.to_bits());
        return Ok(column.iter().map(|value| value.map(bits)).collect());
    }
    if let Some(column) = column.as_primitive_opt::<Int64Type>() {
        return Ok(column.iter().map(|v| v.map(Value::Integer)).collect());
    }
    if let Some(column) = column.as_primitive_opt::<UInt64Type>() {
        return Ok(column.iter().map(|v| v.map(Value::Unsigned)).collect());
    }
    let any = column.as_any();
    if let Some(column) = any.downcast_ref::<BooleanArray>() {
        return Ok(column.iter().map(|v| v.map(Value::Boolean)).collect());
    }
    if let Some(column) = any.downcast_ref::<StringArray>() {
        let text = |value: &str| Value::Text(value.to_owned());
        return Ok(column.iter().map(|value| value.map(text)).collect());
    }
    if let Some(column) = column.as_dictionary_opt::<Int32Type>() {
        let texts = column
            .downcast_dict::<StringArray>()
            .ok_or("a tag's dictionary does not hold text")?;
        let text = |value: &str| Value::Text(value.to_owned());
        return Ok(texts.into_iter().map(|value| value.map(text)).collect());
    }
    Err(format!("no field has type {}", column.data_type()))
}
