//! Points as typed rows, and rows of a table by their keys.
//!
//! Does: leave out what a table has no column for, build record batches, read keys. Does not: know what a store answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use nilometer_codec::PhysicalType;
use nilometer_engine::{RowKey, ScanRequest, SeriesId, Snapshot, TableSchema};

use crate::model::{Point, Schema, type_of};
use crate::plan::{Column, Line, Tags, Value};
use crate::read::values;
use crate::world::shown_name;

/// The points of some lines, with the tags and fields that a table has, for this table whatever theirs is.
pub(crate) fn fitting(table: &str, schema: &Schema, lines: &[Line]) -> Vec<Point> {
    let mut points = Vec::new();
    for line in lines {
        let Line::Point {
            tags, fields, time, ..
        } = line
        else {
            continue;
        };
        let mut tags = tags.clone();
        tags.retain(|tag, _| schema.tags.contains(tag));
        let mut fields = fields.clone();
        fields.retain(|(field, value)| schema.fields.get(field) == Some(&type_of(value)));
        points.push(Point {
            table: table.to_owned(),
            tags,
            time: time.unwrap_or(0),
            fields,
        });
    }
    points
}

/// Points as a batch, with the columns that one of them has.
pub(crate) fn record_batch(table: &TableSchema, points: &[Point]) -> Result<RecordBatch, String> {
    let times: Int64Array = points.iter().map(|point| Some(point.time)).collect();
    let mut columns: Vec<(String, ArrayRef, bool)> =
        vec![("time".to_owned(), Arc::new(times), false)];
    let tags: BTreeSet<&String> = points.iter().flat_map(|point| point.tags.keys()).collect();
    for tag in tags {
        let values: StringArray = points.iter().map(|it| it.tags.get(tag)).collect();
        let name = shown_name(table, &column(true, tag));
        columns.push((name, Arc::new(values), true));
    }
    let fields = points.iter().flat_map(|point| &point.fields);
    let fields: BTreeMap<&String, PhysicalType> =
        fields.map(|(name, value)| (name, type_of(value))).collect();
    for (field, kind) in fields {
        let name = shown_name(table, &column(false, field));
        columns.push((name, array(points, field, kind), true));
    }
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| error.to_string())
}

fn column(is_tag: bool, name: &str) -> Column {
    Column {
        is_tag,
        name: name.to_owned(),
    }
}

fn array(points: &[Point], field: &str, kind: PhysicalType) -> ArrayRef {
    let values = || {
        points.iter().map(|point| {
            let mut fields = point.fields.iter();
            fields.find(|(name, _)| name == field).map(|it| &it.1)
        })
    };
    match kind {
        PhysicalType::F64 => {
            let values = values().map(|it| match it {
                Some(Value::Float(bits)) => Some(f64::from_bits(*bits)),
                _ => None,
            });
            Arc::new(values.collect::<Float64Array>())
        }
        PhysicalType::I64 => {
            let values = values().map(|it| match it {
                Some(Value::Integer(value)) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<Int64Array>())
        }
        PhysicalType::U64 => {
            let values = values().map(|it| match it {
                Some(Value::Unsigned(value)) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<UInt64Array>())
        }
        PhysicalType::Bool => {
            let values = values().map(|it| match it {
                Some(Value::Boolean(value)) => Some(*value),
                _ => None,
            });
            Arc::new(values.collect::<BooleanArray>())
        }
        PhysicalType::Text | PhysicalType::Bytes => {
            let values = values().map(|it| match it {
                Some(Value::Text(text)) => Some(text.as_str()),
                _ => None,
            });
            Arc::new(values.collect::<StringArray>())
        }
    }
}

/// Every row that a snapshot shows of a table: its key, and its tags.
pub(crate) fn keys(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
) -> Result<Vec<(RowKey, Tags)>, String> {
    let mut projection = vec![ScanRequest::SERIES, ScanRequest::NTH, 0];
    projection.extend(1..=table.tags.len());
    let request = ScanRequest {
        table: Arc::clone(table),
        projection,
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).map_err(|error| error.to_string())?;
    let mut keys = Vec::new();
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            let batch = batch.map_err(|error| error.to_string())?;
            take_keys(table, &batch, &mut keys)?;
        }
    }
    Ok(keys)
}

fn take_keys(
    table: &TableSchema,
    batch: &RecordBatch,
    keys: &mut Vec<(RowKey, Tags)>,
) -> Result<(), String> {
    let [series, nth, times, tags @ ..] = batch.columns() else {
        return Err("a scan has lost columns".to_owned());
    };
    let (Some(series), Some(nth), Some(times)) = (
        series.as_primitive_opt::<UInt32Type>(),
        nth.as_primitive_opt::<UInt32Type>(),
        times.as_primitive_opt::<TimestampNanosecondType>(),
    ) else {
        return Err("a key has another type".to_owned());
    };
    let tags: Vec<Vec<Option<Value>>> = tags
        .iter()
        .map(|column| values(column.as_ref()))
        .collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        let key = RowKey {
            series: SeriesId(series.value(row)),
            time: times.value(row),
            nth: nth.value(row),
        };
        let mut own = Tags::new();
        for (tag, column) in table.tags.iter().zip(&tags) {
            if let Some(Some(Value::Text(value))) = column.get(row) {
                own.insert(tag.name.clone(), value.clone());
            }
        }
        keys.push((key, own));
    }
    Ok(())
}
