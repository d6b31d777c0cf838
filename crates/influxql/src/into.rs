//! `SELECT ... INTO`: series of an answer as rows of a measurement.
//!
//! Does: find the place, make of tags of the answer tags of the rows and of columns fields, write batch by batch; a batch is
//! atomic. Does not: convert: a column whose type is another one than the field's is an error, as in a write.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use nilometer_engine::ingest::{Missing, OnConflict, SeenKeys, Session as Ingest, Target as Rows};
use nilometer_engine::{Duplicates, Engine, Snapshot, TIME_COLUMN};
use nilometer_influxql_syntax::ast::Measurement;
use nilometer_service::define::schema_of_policy;
use nilometer_service::{Error as ServiceError, Session, Set, SetHead};

use crate::statements::Error;

/// Where the rows go.
#[derive(Debug)]
pub(crate) struct Target {
    database: String,
    schema: String,
    /// `None` = each series to the measurement of its name.
    measurement: Option<String>,
}

impl Target {
    /// Looks the place up.
    pub(crate) fn of(
        snapshot: &Snapshot,
        target: &Measurement,
        session: &Session,
    ) -> Result<Self, Error> {
        let database = match target.database.as_str() {
            "" => session.database.clone(),
            name => name.to_owned(),
        };
        if database.is_empty() {
            return Err(Error::NoDatabase);
        }
        if snapshot.default_schema(&database).is_none() {
            return Err(Error::UnknownDatabase(database));
        }
        let schema = schema_of_policy(snapshot, &database, &target.policy)
            .ok_or_else(|| Error::UnknownPolicy(target.policy.clone()))?;
        let measurement = (!target.name.is_empty()).then(|| target.name.clone());
        Ok(Self {
            database,
            schema,
            measurement,
        })
    }
}

/// Rows on their way into measurements.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    target: &'a Target,
    session: Ingest,
    rows: i64,
}

impl<'a> Written<'a> {
    /// Nothing yet.
    pub(crate) fn into(engine: &Arc<Engine>, target: &'a Target) -> Result<Self, ServiceError> {
        Ok(Self {
            target,
            session: Ingest::new(Arc::clone(engine), &target.database)?,
            rows: 0,
        })
    }

    /// Writes rows of a series; durable when it returns. Rows without a value are left out.
    pub(crate) fn write(&mut self, set: &Set) -> Result<(), ServiceError> {
        let rows = as_rows(set).map_err(|error| {
            ServiceError::from(Error::Condition(format!("INTO cannot write this: {error}")))
        })?;
        let Some(rows) = rows else { return Ok(()) };
        let table = Rows {
            schema: Some(&self.target.schema),
            table: self.target.measurement.as_ref().unwrap_or(&set.head.name),
        };
        let missing = Missing {
            tags: None,
            adds_columns: true,
            duplicates: Duplicates::Last,
        };
        let conflicts = OnConflict::Replace;
        self.session
            .make_missing_for(table, &rows, missing, conflicts)?;
        let mut seen = SeenKeys::new(0);
        self.session
            .write_arrow_counted(None, table, &rows, conflicts, &mut seen)?;
        self.rows += i64::try_from(rows.num_rows()).unwrap_or(i64::MAX);
        Ok(())
    }

    /// How many rows were written, as `InfluxDB` says it.
    pub(crate) fn shown(&self) -> Set {
        let time = TimestampNanosecondArray::from(vec![0]).with_timezone("UTC");
        let fields = vec![
            Field::new(TIME_COLUMN, time.data_type().clone(), false),
            Field::new("written", DataType::Int64, false),
        ];
        let columns: Vec<ArrayRef> =
            vec![Arc::new(time), Arc::new(Int64Array::from(vec![self.rows]))];
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Set {
            head: Arc::new(SetHead {
                name: "result".to_owned(),
                tags: Vec::new(),
            }),
            rows: rows.expect("two columns of the types that the schema says"),
        }
    }
}

/// The rows of a series that have a value, with its tags as columns; `None` = no row has one.
fn as_rows(set: &Set) -> Result<Option<RecordBatch>, arrow_schema::ArrowError> {
    let count = set.rows.num_rows();
    let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
    let mut push = |name: &str, column: ArrayRef| {
        fields.push(Field::new(name, column.data_type().clone(), true));
        columns.push(column);
    };
    for (name, value) in &set.head.tags {
        if !value.is_empty() {
            push(name, tag(value, count));
        }
    }
    let mut has_value = vec![false; count];
    for (field, column) in set
        .rows
        .schema_ref()
        .fields()
        .iter()
        .zip(set.rows.columns())
    {
        if field.name() == TIME_COLUMN {
            push(TIME_COLUMN, Arc::clone(column));
            continue;
        }
        if column.null_count() == count || *column.data_type() == DataType::Null {
            continue;
        }
        for (row, has_value) in has_value.iter_mut().enumerate() {
            *has_value = *has_value || column.is_valid(row);
        }
        push(field.name(), as_field(column));
    }
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    let rows = filter_record_batch(&rows, &BooleanArray::from(has_value))?;
    Ok((rows.num_rows() > 0).then_some(rows))
}

/// One tag of all rows.
fn tag(value: &str, rows: usize) -> ArrayRef {
    let keys = Int32Array::from(vec![0; rows]);
    let values = Arc::new(StringArray::from(vec![value]));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

/// A column as a field: a tag that was selected is a text.
fn as_field(column: &ArrayRef) -> ArrayRef {
    let words = column
        .as_dictionary_opt::<Int32Type>()
        .and_then(DictionaryArray::downcast_dict::<StringArray>);
    match words {
        Some(words) => Arc::new(words.into_iter().collect::<StringArray>()),
        None => Arc::clone(column),
    }
}
