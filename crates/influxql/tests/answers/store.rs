//! A store in memory that answers statements in InfluxDB's JSON.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{CompactionOptions, Engine, Options, SystemClock};
use nilometer_influxql::select::{self, SelectContext};
use nilometer_influxql_syntax::ast::{Select, Statement};
use nilometer_influxql_syntax::{Params, parse};
use nilometer_lineproto::Precision;
use nilometer_series::Context;
use nilometer_service::Set;
use serde_json::{Map, Value, json};

/// Times that `now()` stands for: long after all points.
const NOW_NS: i64 = 1_900_000_000_000_000_000;

pub(crate) struct Store {
    pub(crate) engine: Arc<Engine>,
    disk: Arc<dyn Disk>,
    context: Context,
}

/// Where the rows of a store are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    /// In a segment for each body, none of which has been read together with another.
    Segments,
    /// In the segments that compaction made of those.
    Compacted,
    /// Some in segments and the last in the log only, and read again by another start.
    Reopened,
}

pub(crate) const PLACES: [Place; 4] = [
    Place::Memory,
    Place::Segments,
    Place::Compacted,
    Place::Reopened,
];

/// Bodies in which rows are written that are not to stay in memory.
const BODIES: usize = 3;

fn open(disk: &Arc<dyn Disk>) -> Arc<Engine> {
    let clock = Arc::new(SystemClock);
    let options = Options {
        compaction: CompactionOptions {
            fan_in: 2,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let engine = Engine::open(Arc::clone(disk), clock, Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

impl Store {
    pub(crate) fn new(lines: &[u8]) -> Self {
        Self::with(lines, Context::default())
    }

    pub(crate) fn with(lines: &[u8], context: Context) -> Self {
        let store = Self::empty(context);
        store.write(lines);
        store
    }

    pub(crate) fn empty(context: Context) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let engine = open(&disk);
        engine.create_database("db").unwrap();
        Self {
            engine,
            disk,
            context,
        }
    }

    /// The rows of these lines at a place.
    pub(crate) fn at(lines: &[&str], place: Place) -> Self {
        if place == Place::Memory {
            return Self::new(lines.join("\n").as_bytes());
        }
        let mut store = Self::empty(Context::default());
        let bodies: Vec<&[&str]> = lines.chunks(lines.len().div_ceil(BODIES).max(1)).collect();
        for (number, body) in bodies.iter().enumerate() {
            store.write(body.join("\n").as_bytes());
            if place != Place::Reopened || number + 1 < bodies.len() {
                store.engine.flush().unwrap();
            }
        }
        let segments = || {
            let mut files = store.disk.list(Path::new("/d/segments")).unwrap();
            files.sort();
            files
        };
        match place {
            Place::Memory => {}
            Place::Segments => {
                assert_eq!(store.engine.metrics().segments, bodies.len() as u64);
            }
            Place::Compacted => {
                let before = segments();
                store.engine.settle().unwrap();
                let is_other = segments().iter().any(|file| !before.contains(file));
                let after = segments();
                assert!(before.len() < 2 || is_other, "{before:?} {after:?}");
            }
            Place::Reopened => store.reopen(),
        }
        store
    }

    /// Ends the store without a flush, and starts it anew.
    pub(crate) fn reopen(&mut self) {
        // The store of another disk takes the place of this one meanwhile: two of one disk are not open together.
        let aside: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        drop(std::mem::replace(&mut self.engine, open(&aside)));
        self.engine = open(&self.disk);
    }

    pub(crate) fn write(&self, lines: &[u8]) {
        let mut session = Session::new(Arc::clone(&self.engine), "db").unwrap();
        // Bodies have a limit, so the text is written in parts.
        let mut rest = lines;
        while !rest.is_empty() {
            let part = rest.len().min(4 << 20);
            let end = rest[..part]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(part, |at| at + 1);
            session
                .write_lines(&rest[..end], Precision::Nanosecond)
                .unwrap();
            rest = &rest[end..];
        }
    }

    fn asked<T>(
        &self,
        ask: impl Fn(&SelectContext<'_>) -> Result<T, select::Error>,
    ) -> Result<T, String> {
        let snapshot = self.engine.snapshot();
        let context = SelectContext {
            snapshot: &snapshot,
            database: "db",
            policy: None,
            now_ns: NOW_NS,
            context: &self.context,
        };
        ask(&context).map_err(|error| error.to_string())
    }

    pub(crate) fn explain(&self, select: &Select) -> Vec<String> {
        self.asked(|context| select::explain(select, context))
            .unwrap()
    }

    pub(crate) fn sets(&self, select: &Select) -> Result<Vec<Set>, String> {
        self.asked(|context| select::run(select, context)?.collect())
    }

    /// The same, value by value.
    pub(crate) fn sets_by_values(&self, select: &Select) -> Result<Vec<Set>, String> {
        self.asked(|context| select::run_by_values(select, context)?.collect())
    }

    /// What `/query` answers, a result for each statement, without their numbers.
    pub(crate) fn query(&self, text: &str) -> Result<Vec<Value>, String> {
        let statements = parse(text, &Params::default());
        let statements = statements.map_err(|error| format!("error parsing query: {error}"))?;
        statements
            .iter()
            .map(|statement| self.statement(statement))
            .collect()
    }

    fn statement(&self, statement: &Statement) -> Result<Value, String> {
        let Statement::Select(select) = statement else {
            return Err("not a SELECT".to_owned());
        };
        let sets = self.sets(select)?;
        let Some(target) = &select.target else {
            return Ok(shown(&sets));
        };
        let (lines, rows) = lines(&target.name, &sets);
        self.write(lines.as_bytes());
        Ok(json!({"series": [{
            "name": "result", "columns": ["time", "written"], "values": [["1970-01-01T00:00:00Z", rows]],
        }]}))
    }
}

fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Float64 => json!(column.as_primitive::<Float64Type>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => json!(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Boolean => json!(column.as_boolean().value(row)),
        DataType::Timestamp(..) => {
            json!(column.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_dictionary::<Int32Type>();
            let key = usize::try_from(dictionary.keys().value(row)).unwrap();
            json!(dictionary.values().as_string::<i32>().value(key))
        }
        _ => json!(column.as_string::<i32>().value(row)),
    }
}

/// Sets as series; times as nanoseconds.
fn shown(sets: &[Set]) -> Value {
    let mut series: Vec<Value> = Vec::new();
    let mut last = None;
    for set in sets {
        let own = set.alone();
        let rows = (0..own.num_rows()).map(|row| {
            own.columns()
                .iter()
                .map(|column| cell(column, row))
                .collect::<Value>()
        });
        let rows: Vec<Value> = rows.collect();
        if last == Some(&set.head) {
            let values = series.last_mut().unwrap()["values"].as_array_mut().unwrap();
            values.extend(rows);
            continue;
        }
        last = Some(&set.head);
        let mut one = Map::new();
        one.insert("name".to_owned(), json!(&*set.head.name));
        if !set.head.tags.is_empty() {
            let tags: Map<String, Value> = set
                .head
                .tags
                .iter()
                .map(|(key, value)| (key.to_string(), json!(&**value)))
                .collect();
            one.insert("tags".to_owned(), Value::Object(tags));
        }
        let names: Vec<&str> = own
            .schema_ref()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        one.insert("columns".to_owned(), json!(names));
        one.insert("values".to_owned(), json!(rows));
        series.push(Value::Object(one));
    }
    if series.is_empty() {
        json!({})
    } else {
        json!({"series": series})
    }
}

/// Sets as line protocol, as INTO writes them: text columns are tags only if they are the group's.
fn lines(measurement: &str, sets: &[Set]) -> (String, usize) {
    let mut out = String::new();
    let mut count = 0;
    for set in sets {
        let own = set.alone();
        for row in 0..own.num_rows() {
            let mut fields = Vec::new();
            for (column, field) in own.columns().iter().zip(own.schema_ref().fields()).skip(1) {
                match cell(column, row) {
                    Value::Null => {}
                    Value::Number(number) if number.is_i64() => {
                        fields.push(format!("{}={number}i", field.name()));
                    }
                    Value::Number(number) => fields.push(format!("{}={number}", field.name())),
                    other => fields.push(format!("{}={other}", field.name())),
                }
            }
            if fields.is_empty() {
                continue;
            }
            out.push_str(measurement);
            for (key, value) in set.head.tags.iter().filter(|(_, value)| !value.is_empty()) {
                write!(out, ",{key}={value}").unwrap();
            }
            let time = cell(own.column(0), row);
            writeln!(out, " {} {time}", fields.join(",")).unwrap();
            count += 1;
        }
    }
    (out, count)
}

/// What differs between our answer and InfluxDB's: floats to 1e-12, times by their instant, everything else exactly.
pub(crate) fn difference(ours: &Value, theirs: &Value, path: &str) -> Option<String> {
    let differ = || Some(format!("{path}: {ours} and not {theirs}"));
    match (ours, theirs) {
        (Value::Object(own), Value::Object(other)) => {
            let keys = |map: &Map<String, Value>| {
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort();
                keys
            };
            if keys(own) != keys(other) {
                return differ();
            }
            own.iter()
                .find_map(|(key, value)| difference(value, &other[key], &format!("{path}.{key}")))
        }
        (Value::Array(own), Value::Array(other)) => {
            let pairs = own.iter().zip(other).enumerate();
            let mut pairs =
                pairs.map(|(at, (own, other))| difference(own, other, &format!("{path}[{at}]")));
            let first = pairs.find_map(|found| found);
            first.or_else(|| {
                (own.len() != other.len())
                    .then(|| format!("{path}: {} and not {} items", own.len(), other.len()))
            })
        }
        (Value::Number(own), Value::String(time)) => {
            let time = chrono::DateTime::parse_from_rfc3339(time)
                .ok()?
                .timestamp_nanos_opt();
            if own.as_i64() == time { None } else { differ() }
        }
        (Value::Number(own), Value::Number(other)) => {
            let (own, other) = (own.as_f64().unwrap(), other.as_f64().unwrap());
            let scale = own.abs().max(other.abs()).max(1e-300);
            if (own - other).abs() <= 1e-12 * scale {
                None
            } else {
                differ()
            }
        }
        _ if ours == theirs => None,
        _ => differ(),
    }
}
