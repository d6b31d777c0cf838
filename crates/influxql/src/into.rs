//! `SELECT ... INTO`: series of an answer as rows of a measurement.
//!
//! Does: find the place, make of tags of the answer tags of the rows and of columns fields, write series of one measurement
//! together, batch by batch; a batch is atomic. Rows beyond what the place keeps are left out and counted. A tag and a field may have one name. Does not: convert: a column whose type is another one than the field's is an error, as in a write.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampNanosecondArray, new_null_array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::concat::concat;
use arrow_select::filter::filter_record_batch;
use nilometer_engine::ingest::{
    Bound, Missing, OnConflict, SeenKeys, Session as Ingest, Stated, Target as Rows, WriteWindow,
};
use nilometer_engine::{ColumnKind, Duplicates, Engine, PhysicalType, Snapshot, TIME_COLUMN};
use nilometer_influxql_syntax::ast::{Expr, Measurement, Select};
use nilometer_influxql_syntax::format_clock;
use nilometer_service::define::{policy_of_schema, write_window};
use nilometer_service::{Error as ServiceError, Session, Set, SetHead};

use crate::policies::schema_of;
use crate::statements::Error;

/// Where the rows go.
#[derive(Debug)]
pub(crate) struct Target {
    database: String,
    schema: String,
    /// `None` = each series to the measurement of its name.
    measurement: Option<String>,
    /// The policy, how long it keeps rows, and the times that they may have.
    policy: String,
    /// Columns of the answer that are tags of the rows.
    tags: Vec<(usize, String)>,
    retention_ns: i64,
    window: WriteWindow,
}

impl Target {
    /// Looks the place up.
    pub(crate) fn of(
        snapshot: &Snapshot,
        target: &Measurement,
        session: &Session,
        now_ns: i64,
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
        let own = session.schema.as_deref();
        let schema = schema_of(snapshot, &database, &target.policy, own)
            .map_err(|policy| Error::UnknownPolicy(policy.to_owned()))?;
        let measurement = (!target.name.is_empty()).then(|| target.name.clone());
        Ok(Self {
            policy: policy_of_schema(snapshot, &database, &schema),
            retention_ns: snapshot
                .schema_retention_ns(&database, &schema)
                .unwrap_or(0),
            tags: Vec::new(),
            window: write_window(snapshot, &database, &schema, now_ns),
            database,
            schema,
            measurement,
        })
    }

    /// The same for an answer of which some columns are tags.
    pub(crate) fn with_tags(mut self, tags: Vec<(usize, String)>) -> Self {
        self.tags = tags;
        self
    }
}

/// The tags in `top()` and `bottom()` of a SELECT that writes its answer, by their columns there.
pub(crate) fn tag_columns(select: &Select) -> Vec<(usize, String)> {
    let mut tags = Vec::new();
    if select.target.is_none() {
        return tags;
    }
    // The time stands before all others.
    let mut column = 1;
    for field in &select.fields {
        if matches!(&field.expr, Expr::Reference(reference) if reference.name == TIME_COLUMN) {
            continue;
        }
        column += 1;
        if let Expr::Call(call) = field.expr.inner()
            && matches!(call.name.as_str(), "top" | "bottom")
        {
            for argument in call.arguments.iter().skip(1) {
                if let Expr::Reference(tag) = argument {
                    tags.push((column, tag.name.clone()));
                    column += 1;
                }
            }
        }
    }
    tags
}

/// Rows of series that are written together: each batch is made durable by itself, and thousands of series have a row each.
const TOGETHER_ROWS: usize = 8192;

/// Rows on their way into measurements.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    target: &'a Target,
    engine: Arc<Engine>,
    session: Ingest,
    waiting: Waiting,
    /// What is wrong with the first rows that have a field of another type than the measurement, and how many there were.
    clash: Option<String>,
    clashing: u64,
    rows: i64,
    /// Rows that were left out because retention would remove them at once, and those beyond other bounds.
    beyond: (u64, u64),
}

/// Rows of one measurement that are to be written.
#[derive(Debug, Default)]
struct Waiting {
    measurement: String,
    batches: Vec<RecordBatch>,
    /// All columns that one of them has.
    fields: Vec<FieldRef>,
    rows: usize,
}

impl Waiting {
    /// Takes rows if they can be in one batch with those before; else gives them back.
    fn take(&mut self, measurement: &str, batch: RecordBatch) -> Option<RecordBatch> {
        let is_same = |one: &Field, other: &Field| {
            one.name() == other.name() && one.metadata() == other.metadata()
        };
        let mut new = Vec::new();
        for field in batch.schema_ref().fields() {
            match self.fields.iter().find(|known| is_same(known, field)) {
                Some(known) if known.data_type() != field.data_type() => return Some(batch),
                Some(_) => {}
                None => new.push(Arc::clone(field)),
            }
        }
        let is_new = self.batches.is_empty();
        let has_place = self.rows + batch.num_rows() <= TOGETHER_ROWS;
        if !is_new && (self.measurement != measurement || !has_place) {
            return Some(batch);
        }
        self.fields.extend(new);
        measurement.clone_into(&mut self.measurement);
        self.rows += batch.num_rows();
        self.batches.push(batch);
        None
    }

    /// All of them as one batch: a column that some do not have is null in their rows.
    fn together(&mut self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let batches = std::mem::take(&mut self.batches);
        self.rows = 0;
        let schema = Arc::new(Schema::new(std::mem::take(&mut self.fields)));
        let columns = schema.fields().iter().map(|field| {
            let own = batches.iter().map(|batch| {
                let mut pairs = batch.schema_ref().fields().iter().zip(batch.columns());
                let own = pairs.find(|(own, _)| own == &field);
                own.map_or_else(
                    || new_null_array(field.data_type(), batch.num_rows()),
                    |(_, column)| Arc::clone(column),
                )
            });
            let own: Vec<ArrayRef> = own.collect();
            let own: Vec<&dyn Array> = own.iter().map(AsRef::as_ref).collect();
            concat(&own)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        RecordBatch::try_new(schema, columns)
    }
}

impl<'a> Written<'a> {
    /// Nothing yet.
    pub(crate) fn into(engine: &Arc<Engine>, target: &'a Target) -> Result<Self, ServiceError> {
        Ok(Self {
            target,
            engine: Arc::clone(engine),
            session: Ingest::new(Arc::clone(engine), &target.database)?,
            waiting: Waiting::default(),
            clash: None,
            clashing: 0,
            rows: 0,
            beyond: (0, 0),
        })
    }

    /// Writes rows of a series, together with those of others of its measurement. Rows without a value are left out.
    pub(crate) fn write(&mut self, set: &Set) -> Result<(), ServiceError> {
        let Some(rows) = self.as_rows(set).map_err(unwritten)? else {
            return Ok(());
        };
        let measurement = self.target.measurement.as_deref();
        let measurement = measurement.unwrap_or(&set.head.name);
        if let Some(rows) = self.waiting.take(measurement, rows) {
            self.flush()?;
            self.waiting.take(measurement, rows);
        }
        Ok(())
    }

    /// Writes what waits; durable when it returns.
    fn flush(&mut self) -> Result<(), ServiceError> {
        if self.waiting.batches.is_empty() {
            return Ok(());
        }
        let rows = self.waiting.together().map_err(unwritten)?;
        let rows = self.fitting(rows).map_err(unwritten)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let table = Rows {
            schema: Some(&self.target.schema),
            table: &self.waiting.measurement,
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

    /// The rows without those that have a field of another type than it has in the measurement: a write leaves them out, too.
    fn fitting(&mut self, rows: RecordBatch) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let (target, measurement) = (self.target, &self.waiting.measurement);
        let snapshot = self.engine.snapshot();
        let table = snapshot.table(&target.database, &target.schema, measurement);
        let Some(table) = table else { return Ok(rows) };
        let of_field = Stated::Field.said_of(Field::new("", DataType::Null, true));
        let (mut kept, mut places) = (vec![true; rows.num_rows()], Vec::new());
        let columns = rows.schema_ref().fields().iter().zip(rows.columns());
        for (place, (field, column)) in columns.enumerate() {
            let is_field = field.metadata() == of_field.metadata();
            let known = table.field(field.name()).filter(|_| is_field);
            let Some((own, there)) = known.and_then(|it| clash(field.data_type(), it.kind)) else {
                places.push(place);
                continue;
            };
            for (row, kept) in kept.iter_mut().enumerate() {
                *kept = *kept && column.is_null(row);
            }
            let name = field.name();
            self.clash.get_or_insert_with(|| {
                format!(
                    "field type conflict: input field \"{name}\" on measurement \"{measurement}\" is type {own}, already exists as type {there}"
                )
            });
        }
        if places.len() == rows.num_columns() {
            return Ok(rows);
        }
        self.clashing += kept.iter().filter(|kept| !**kept).count() as u64;
        let rows = filter_record_batch(&rows.project(&places)?, &BooleanArray::from(kept))?;
        if rows.num_rows() == 0 {
            return Ok(rows);
        }
        // What only rows that are left out have makes no column, and gives no new field its type.
        let has_value = |place: &usize| {
            let column = rows.columns().get(*place);
            column.is_some_and(|column| column.null_count() < column.len())
        };
        let places: Vec<usize> = (0..rows.num_columns()).filter(has_value).collect();
        rows.project(&places)
    }

    /// Writes the last rows, and says how many there were; durable when it returns.
    pub(crate) fn finish(mut self) -> Result<Set, ServiceError> {
        self.flush()?;
        Ok(self.shown()?)
    }

    /// How many rows were written, as `InfluxDB` says it; an error if some were left out.
    fn shown(&self) -> Result<Set, Error> {
        let (expired, limited) = self.beyond;
        let target = self.target;
        let refused = |reason: &str| {
            Err(Error::Condition(format!(
                "partial write: {reason} dropped={} for database: {} for retention policy: {}",
                expired + limited + self.clashing,
                target.database,
                target.policy
            )))
        };
        if let Some(clash) = &self.clash {
            return refused(clash);
        }
        if expired + limited > 0 {
            let mut reason = format!(
                "dropped {expired} points outside retention policy of duration {}",
                format_clock(target.retention_ns)
            );
            if limited > 0 {
                reason = format!("{reason} and {limited} points outside write window");
            }
            return refused(&reason);
        }
        let time = TimestampNanosecondArray::from(vec![0]).with_timezone("UTC");
        let fields = vec![
            Field::new(TIME_COLUMN, time.data_type().clone(), false),
            Field::new("written", DataType::Int64, false),
        ];
        let columns: Vec<ArrayRef> =
            vec![Arc::new(time), Arc::new(Int64Array::from(vec![self.rows]))];
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        let head = SetHead {
            name: "result".into(),
            tags: Vec::new(),
        };
        let rows = rows.expect("two columns of the types that the schema says");
        Ok(Set::new(head, rows))
    }

    /// The rows of a series that have a value and are kept, with its tags as columns; `None` = there is none.
    fn as_rows(&mut self, set: &Set) -> Result<Option<RecordBatch>, arrow_schema::ArrowError> {
        let (count, own) = (set.rows.len(), set.alone());
        let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
        let mut push = |name: &str, column: ArrayRef, stated: Option<Stated>| {
            let field = Field::new(name, column.data_type().clone(), true);
            fields.push(match stated {
                Some(stated) => stated.said_of(field),
                None => field,
            });
            columns.push(column);
        };
        for (name, value) in &set.head.tags {
            if !value.is_empty() {
                push(name, tag(value, count), Some(Stated::Tag));
            }
        }
        let is_group = |tag: &str| set.head.tags.iter().any(|(name, _)| **name == *tag);
        let mut has_value = vec![false; count];
        let mut times = None;
        let shown = own.schema_ref().fields().iter();
        for (place, (field, column)) in shown.zip(own.columns()).enumerate() {
            let tag = self.target.tags.iter().find(|(own, _)| *own == place);
            if let Some((_, name)) = tag {
                let words = as_tag(column).filter(|_| !is_group(name));
                if let Some(words) = words {
                    push(name, words, Some(Stated::Tag));
                }
                continue;
            }
            if field.name() == TIME_COLUMN {
                push(TIME_COLUMN, Arc::clone(column), None);
                times = column.as_primitive_opt::<TimestampNanosecondType>();
                continue;
            }
            if column.null_count() == count || *column.data_type() == DataType::Null {
                continue;
            }
            for (row, has_value) in has_value.iter_mut().enumerate() {
                *has_value = *has_value || column.is_valid(row);
            }
            push(field.name(), as_field(column), Some(Stated::Field));
        }
        let times = times.iter().flat_map(|times| times.values());
        for (keep, &time_ns) in has_value.iter_mut().zip(times) {
            if !*keep {
                continue;
            }
            if let Some(bound) = self.target.window.passed(time_ns) {
                *keep = false;
                match bound {
                    Bound::Retention => self.beyond.0 += 1,
                    Bound::Past | Bound::Future => self.beyond.1 += 1,
                }
            }
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let rows = filter_record_batch(&rows, &BooleanArray::from(has_value))?;
        Ok((rows.num_rows() > 0).then_some(rows))
    }
}

/// The types of a column and of a field of its name, as InfluxDB calls them, if no value of the one is one of the other.
fn clash(column: &DataType, field: ColumnKind) -> Option<(&'static str, &'static str)> {
    let own = match column {
        DataType::Float64 => "float",
        DataType::Int64 => "integer",
        DataType::UInt64 => "unsigned",
        DataType::Boolean => "boolean",
        DataType::Utf8 => "string",
        _ => return None,
    };
    let there = match field {
        ColumnKind::Field(PhysicalType::F64) => "float",
        ColumnKind::Field(PhysicalType::I64) => "integer",
        ColumnKind::Field(PhysicalType::U64) => "unsigned",
        ColumnKind::Field(PhysicalType::Bool) => "boolean",
        ColumnKind::Field(PhysicalType::Text) => "string",
        _ => return None,
    };
    let is_number = |name| matches!(name, "float" | "integer" | "unsigned");
    let fits = own == there || (is_number(own) && is_number(there));
    (!fits).then_some((own, there))
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unwritten(error: arrow_schema::ArrowError) -> ServiceError {
    Error::Condition(format!("INTO cannot write this: {error}")).into()
}

/// One tag of all rows.
fn tag(value: &str, rows: usize) -> ArrayRef {
    let keys = Int32Array::from(vec![0; rows]);
    let values = Arc::new(StringArray::from(vec![value]));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

/// A column of texts as a tag.
fn as_tag(column: &ArrayRef) -> Option<ArrayRef> {
    if column.as_dictionary_opt::<Int32Type>().is_some() {
        return Some(Arc::clone(column));
    }
    let words = column.as_string_opt::<i32>()?;
    Some(Arc::new(
        words.iter().collect::<DictionaryArray<Int32Type>>(),
    ))
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
