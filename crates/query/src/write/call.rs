//! Calls that change a table, carried out, and what they answer.
//!
//! Does: hand the change to the service, put its answer into columns, or into one value where the call is one. Does not: read a
//! statement.

mod refresh;
mod together;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use chrono::DateTime;
use nilometer_engine::{Engine, SQL_TYPE};
use nilometer_service::define::{
    self, ChunkRange, Hypertable, Moved, Policy, TimeBound, span_text,
};
use nilometer_service::{
    BackgroundJobs, Class, Error as ServiceError, Fault, Job, Place, Principal, Privilege, Scope,
    Span, jobs as jobs_of,
};

use crate::error::{Error, Position};
use crate::semantics::zone::{Instant, Zone};
use crate::statement::name::NameScope;
use crate::statement::settings::span;
use crate::statement::together::Together;
use crate::statement::{Bound, Call, What};
use together::Site;

/// A column of an answer.
enum Answered {
    Integer(&'static str, i64),
    Name(&'static str, String),
    Text(&'static str, Option<String>),
    Bool(&'static str, bool),
    Time(&'static str, Option<i64>),
}

/// What a call answers.
struct Reply {
    /// What its one column is called, unless its answer is a table.
    name: String,
    /// Its columns, by row.
    rows: Vec<Vec<Answered>>,
}

impl Reply {
    fn of(call: &Call, columns: Vec<Answered>) -> Self {
        Self {
            name: call.heading.clone(),
            rows: vec![columns],
        }
    }

    /// One value of no name.
    fn value(call: &Call, value: impl Fn(&'static str) -> Answered) -> Self {
        Self::of(call, vec![value("")])
    }
}

/// How far a call came.
pub(crate) enum Done {
    Answer(RecordBatch),
    /// Maintenance has the files of this chunk; try again a moment later.
    Busy(String),
}

/// The columns of what a call answers.
pub(crate) fn schema(call: &Call) -> SchemaRef {
    let nobody = Hypertable {
        id: 0,
        name: define::TableName {
            database: String::new(),
            schema: String::new(),
            table: String::new(),
        },
        is_new: false,
    };
    let reply = match &call.what {
        What::Create(_) | What::Dimension(_) | What::Interval(..) => answered(call, &nobody),
        What::DropChunks(..) | What::Convert(_) => {
            Reply::value(call, |name| Answered::Text(name, None))
        }
        What::AddPolicy(..) | What::AddRefresh(..) | What::AddJob(..) => {
            Reply::value(call, |name| Answered::Integer(name, 0))
        }
        What::RemovePolicy(_, policy, _) => removed(call, *policy, false),
        What::AlterJob { .. } => Reply::of(call, altered(None)),
        What::Together(_, Together::Show) => policies_shown(call, Vec::new()),
        What::Together(..) => Reply::value(call, |name| Answered::Bool(name, false)),
        What::RunJob(_) | What::DeleteJob(_) | What::RemoveRefresh(..) | What::IntegerNow(..) => {
            void(call)
        }
    };
    batch(call, reply).schema()
}

/// Carries a call out. Blocks for a sync of the log, and for as long as the files of a chunk take to be written.
pub(crate) fn run(
    engine: &Arc<Engine>,
    jobs: &Arc<BackgroundJobs>,
    principal: &Principal,
    place: NameScope,
    zone: &Zone,
    call: &Call,
) -> Result<Done, Error> {
    let scope = Scope::from(place);
    let failed = |error| placed(error, call.position);
    let bound = |bound: &Option<Bound>| bound.as_ref().map(|it| time(it, zone, call)).transpose();
    let reply = match &call.what {
        What::Create(new) => {
            let done = define::create_hypertable(engine, principal, &scope, new.clone());
            answered(call, &done.map_err(failed)?)
        }
        What::Dimension(new) => {
            let done = define::add_dimension(engine, principal, &scope, new.clone());
            answered(call, &done.map_err(failed)?)
        }
        What::Interval(path, interval) => {
            let path = path.clone();
            let done = define::set_chunk_interval(engine, principal, &scope, path, *interval);
            answered(call, &done.map_err(failed)?)
        }
        What::DropChunks(path, older, newer) => {
            let range = ChunkRange {
                older_than: bound(older)?,
                newer_than: bound(newer)?,
            };
            let dropped = define::drop_chunks(engine, principal, &scope, path.clone(), &range);
            chunks(call, dropped.map_err(failed)?)
        }
        What::Convert(conversion) => {
            let moved = define::convert_chunk(engine, principal, &scope, conversion);
            match moved.map_err(failed)? {
                Moved::Done(chunk) => {
                    Reply::value(call, |name| Answered::Text(name, Some(chunk.clone())))
                }
                Moved::Not => Reply::value(call, |name| Answered::Text(name, None)),
                Moved::Busy(chunk) => return Ok(Done::Busy(chunk)),
            }
        }
        What::AddPolicy(new, initial) => {
            let mut new = new.clone();
            new.initial_ns = instant(bound(initial)?, engine, call)?;
            let id = define::add_policy(engine, jobs, principal, &scope, new).map_err(failed)?;
            // As there: what was there already has no number.
            Reply::value(call, |name| Answered::Integer(name, id.unwrap_or(-1)))
        }
        What::RemovePolicy(path, policy, if_exists) => {
            let which = (path.clone(), *policy, *if_exists);
            let done = define::remove_policy(engine, jobs, principal, &scope, which);
            removed(call, *policy, done.map_err(failed)?)
        }
        What::AddRefresh(path, new, initial) => {
            let mut new = *new;
            new.initial_ns = instant(bound(initial)?, engine, call)?;
            let id = refresh::add(engine, jobs, principal, &scope, (path, new));
            let id = id.map_err(failed)?;
            Reply::value(call, |name| Answered::Integer(name, id.unwrap_or(-1)))
        }
        What::RemoveRefresh(path, if_exists) => {
            let which = (path, *if_exists);
            refresh::remove(engine, jobs, principal, &scope, which).map_err(failed)?;
            void(call)
        }
        What::AlterJob { .. } => alter_job(engine, jobs, principal, zone, call)?,
        What::AddJob(new, initial) => {
            let mut new = new.clone();
            new.initial_ns = instant(bound(initial)?, engine, call)?;
            let id = define::add_user_job(engine, jobs, principal, &scope, new).map_err(failed)?;
            Reply::value(call, |name| Answered::Integer(name, id))
        }
        What::IntegerNow(table, function, replaces) => {
            let names = (table.clone(), function.clone());
            define::set_integer_now(engine, principal, &scope, names, *replaces).map_err(failed)?;
            void(call)
        }
        What::DeleteJob(id) => {
            check_job(engine, principal, *id)?;
            jobs.delete(*id).map_err(failed)?;
            void(call)
        }
        What::Together(path, what) => {
            let site = Site {
                engine,
                jobs,
                principal,
                scope: &scope,
                path,
            };
            together(&site, call, what).map_err(failed)?
        }
        What::RunJob(_) => void(call),
    };
    Ok(Done::Answer(batch(call, reply)))
}

/// Changes a job, and says what it is then.
fn alter_job(
    engine: &Arc<Engine>,
    jobs: &BackgroundJobs,
    principal: &Principal,
    zone: &Zone,
    call: &Call,
) -> Result<Reply, Error> {
    let What::AlterJob {
        id,
        change,
        next,
        initial,
        if_exists,
    } = &call.what
    else {
        return Ok(void(call));
    };
    let known = jobs_of(&engine.snapshot()).iter().any(|job| job.id == *id);
    if !known && *if_exists {
        return Ok(Reply::of(call, altered(None)));
    }
    let failed = |error| placed(error, call.position);
    let bound = |bound: &Option<Bound>| bound.as_ref().map(|it| time(it, zone, call)).transpose();
    check_job(engine, principal, *id)?;
    refresh::check_change(engine, *id, change).map_err(failed)?;
    let mut change = change.clone();
    change.next_start_ns = instant(bound(next)?, engine, call)?;
    change.initial_ns = instant(bound(initial)?, engine, call)?;
    let job = jobs.alter(*id, &change).map_err(failed)?;
    let next_ns = jobs.next_start_ns(&engine.snapshot(), &job);
    Ok(Reply::of(call, altered(Some((&job, next_ns)))))
}

/// The names of chunks, a row each.
fn chunks(call: &Call, names: Vec<String>) -> Reply {
    let rows = names.into_iter();
    let rows = rows.map(|chunk| vec![Answered::Text("", Some(chunk))]);
    Reply {
        name: call.heading.clone(),
        rows: rows.collect(),
    }
}

/// Carries out a call about several policies.
fn together(site: &Site<'_>, call: &Call, what: &Together) -> Result<Reply, ServiceError> {
    let done = match what {
        Together::Add(new, if_not_exists) => site.add(new, *if_not_exists)?,
        Together::Alter(new, if_exists) => site.alter(new, *if_exists)?,
        Together::Remove(kinds, if_exists) => site.remove(kinds, *if_exists)?,
        Together::Show => return Ok(policies_shown(call, site.show()?)),
    };
    Ok(Reply::value(call, |name| Answered::Bool(name, done)))
}

/// A row for each policy.
fn policies_shown(call: &Call, shown: Vec<String>) -> Reply {
    let rows = shown.into_iter();
    let rows = rows.map(|policy| vec![Answered::Text("", Some(policy))]);
    Reply {
        name: call.heading.clone(),
        rows: rows.collect(),
    }
}

/// Refuses somebody else's job: who may define in its database may change it.
pub(crate) fn check_job(engine: &Arc<Engine>, principal: &Principal, id: i64) -> Result<(), Error> {
    let jobs = jobs_of(&engine.snapshot());
    let Some(job) = jobs.iter().find(|job| job.id == id) else {
        return Err(placed(
            nilometer_service::JobError::Unknown { id }.into(),
            None,
        ));
    };
    let about = Place::database(&job.database);
    let allowed = principal.check(Privilege::Define, about);
    allowed.map_err(|error| Error::Denied(Box::new(error)))
}

/// What a call answers that answers nothing.
pub(crate) fn nothing(call: &Call) -> RecordBatch {
    batch(call, void(call))
}

/// The error for a chunk whose files are not free for long.
pub(crate) fn busy(chunk: &str) -> Error {
    Error::Definition {
        message: format!("maintenance has the files of {chunk}; try again when it has done"),
        fault: Fault::Changed,
        position: None,
    }
}

pub(crate) fn placed(error: ServiceError, position: Option<Position>) -> Error {
    match error {
        ServiceError::Engine(error) => error.into(),
        ServiceError::Define { source, .. } => Error::of_name(source, position),
        ServiceError::Job(error) => Error::Definition {
            fault: match error {
                nilometer_service::JobError::Unknown { .. } => Fault::UnknownName,
                nilometer_service::JobError::Runs { .. } => Fault::Changed,
                nilometer_service::JobError::Config { .. } => Fault::InvalidParameter,
                _ => Fault::Unsupported,
            },
            message: error.to_string(),
            position,
        },
        denied if denied.class() == Class::Forbidden => Error::Denied(Box::new(denied)),
        other => Error::internal(other.to_string()),
    }
}

/// A point in time, where a text is in the session's time zone.
fn time(bound: &Bound, zone: &Zone, call: &Call) -> Result<TimeBound, Error> {
    match bound {
        Bound::Known(known) => Ok(*known),
        Bound::Text(text) => match zone.read(text) {
            Ok(Instant::At(ns)) => Ok(TimeBound::At(ns)),
            Ok(_) => Err(plan(
                call,
                &format!("{text:?} is beyond the times that there are"),
            )),
            Err(why) => match span(text) {
                Ok(span) => Ok(TimeBound::Ago(span)),
                Err(_) => Err(plan(call, &why)),
            },
        },
    }
}

/// A start of a job.
fn instant(
    bound: Option<TimeBound>,
    engine: &Arc<Engine>,
    call: &Call,
) -> Result<Option<i64>, Error> {
    match bound {
        None => Ok(None),
        Some(TimeBound::At(ns)) => Ok(Some(ns)),
        Some(TimeBound::Ago(span)) => Ok(Some(span.before(engine.wall_ns()))),
        Some(TimeBound::Number(_)) => Err(plan(call, "the start of a job is a time, not a number")),
    }
}

fn plan(call: &Call, message: &str) -> Error {
    Error::Plan {
        message: format!("{}: {message}", call.function),
        position: call.position,
    }
}

fn batch(call: &Call, reply: Reply) -> RecordBatch {
    let Reply { name, rows } = reply;
    let shown: Vec<Vec<(Field, ArrayRef)>> = rows
        .into_iter()
        .map(|columns| match columns.as_slice() {
            // A single value has the name of the call.
            [_] => columns
                .into_iter()
                .map(|it| named(column(it), &name))
                .collect(),
            _ if call.is_table => columns.into_iter().map(column).collect(),
            _ => vec![text(&name, record(&columns))],
        })
        .collect();
    let empty = || vec![text(&name, String::new())];
    let first = shown.first().map_or_else(empty, Clone::clone);
    let fields: Vec<Field> = first.iter().map(|(field, _)| field.clone()).collect();
    let schema = Arc::new(Schema::new(fields));
    if shown.is_empty() {
        return RecordBatch::new_empty(schema);
    }
    let rows = shown.into_iter().map(|columns| {
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::clone(&schema), arrays)
            .expect("each column is made with its field, and all have one row")
    });
    let rows: Vec<RecordBatch> = rows.collect();
    concat_batches(&schema, &rows).expect("all rows are of one schema")
}

fn named((field, array): (Field, ArrayRef), name: &str) -> (Field, ArrayRef) {
    if field.name().is_empty() {
        (field.with_name(name), array)
    } else {
        (field, array)
    }
}

/// Nothing, as a function that answers nothing has it.
fn void(call: &Call) -> Reply {
    Reply::value(call, |name| Answered::Text(name, Some(String::new())))
}

/// As there: the one answers nothing, the others whether there was one.
fn removed(call: &Call, policy: Policy, was_there: bool) -> Reply {
    match policy {
        Policy::Compression if call.function != "remove_columnstore_policy" => {
            Reply::value(call, |name| Answered::Bool(name, was_there))
        }
        _ => void(call),
    }
}

fn altered(job: Option<(&Job, i64)>) -> Vec<Answered> {
    let span = |span| Some(span_text(span));
    let of_ns = |ns| span(Span::of_ns(ns));
    let schedule = job.map(|(job, _)| job.schedule);
    vec![
        Answered::Integer("job_id", job.map_or(0, |(job, _)| job.id)),
        Answered::Text(
            "schedule_interval",
            schedule.and_then(|it| span(it.interval)),
        ),
        Answered::Text(
            "max_runtime",
            schedule.and_then(|it| of_ns(it.runtime_ns_max)),
        ),
        Answered::Integer("max_retries", schedule.map_or(0, |it| it.retries_max)),
        Answered::Text("retry_period", schedule.and_then(|it| of_ns(it.retry_ns))),
        Answered::Bool("scheduled", schedule.is_some_and(|it| it.is_on)),
        Answered::Text("config", job.map(|(job, _)| job.config.clone())),
        Answered::Time("next_start", job.map(|(_, next_ns)| next_ns)),
        Answered::Text("check_config", None),
        Answered::Bool(
            "fixed_schedule",
            schedule.is_some_and(|it| it.initial_ns.is_some()),
        ),
        Answered::Time("initial_start", schedule.and_then(|it| it.initial_ns)),
        Answered::Text("timezone", None),
    ]
}

fn answered(call: &Call, done: &Hypertable) -> Reply {
    let created = Answered::Bool("created", done.is_new);
    let names = || {
        [
            Answered::Name("schema_name", done.name.schema.clone()),
            Answered::Name("table_name", done.name.table.clone()),
        ]
    };
    match &call.what {
        What::Create(_) => {
            let mut all = vec![Answered::Integer("hypertable_id", done.id)];
            if !call.is_by_dimension {
                all.extend(names());
            }
            all.push(created);
            Reply::of(call, all)
        }
        What::Dimension(new) => {
            let mut all = vec![Answered::Integer("dimension_id", done.id)];
            if !call.is_by_dimension {
                all.extend(names());
                all.push(Answered::Name("column_name", new.column.clone()));
            }
            all.push(created);
            Reply::of(call, all)
        }
        _ => void(call),
    }
}

fn text(name: &str, value: String) -> (Field, ArrayRef) {
    let array: ArrayRef = Arc::new(StringArray::from(vec![value]));
    (Field::new(name, DataType::Utf8, true), array)
}

fn column(answered: Answered) -> (Field, ArrayRef) {
    let typed = |name: &str, kind, of: &str| {
        let said = HashMap::from([(SQL_TYPE.to_owned(), of.to_owned())]);
        Field::new(name, kind, true).with_metadata(said)
    };
    match answered {
        Answered::Integer(name, value) => (
            typed(name, DataType::Int64, "integer"),
            Arc::new(Int64Array::from(vec![value])),
        ),
        Answered::Name(name, value) => (
            typed(name, DataType::Utf8, "name"),
            Arc::new(StringArray::from(vec![value])),
        ),
        Answered::Text(name, value) => (
            Field::new(name, DataType::Utf8, true),
            Arc::new(StringArray::from(vec![value])),
        ),
        Answered::Time(name, value) => {
            let array = TimestampNanosecondArray::from(vec![value]).with_timezone("UTC");
            (
                Field::new(name, array.data_type().clone(), true),
                Arc::new(array),
            )
        }
        Answered::Bool(name, value) => (
            Field::new(name, DataType::Boolean, true),
            Arc::new(BooleanArray::from(vec![value])),
        ),
    }
}

/// Columns as one value, as PostgreSQL writes a record.
fn record(columns: &[Answered]) -> String {
    let values: Vec<String> = columns
        .iter()
        .map(|column| match column {
            Answered::Integer(_, value) => value.to_string(),
            Answered::Bool(_, value) => if *value { "t" } else { "f" }.to_owned(),
            Answered::Name(_, value) | Answered::Text(_, Some(value)) => quoted(value),
            Answered::Text(_, None) => String::new(),
            Answered::Time(_, value) => {
                let value = value.map(DateTime::from_timestamp_nanos);
                value.map_or_else(String::new, |time| {
                    quoted(&time.format("%Y-%m-%d %H:%M:%S%.f+00").to_string())
                })
            }
        })
        .collect();
    format!("({})", values.join(","))
}

fn quoted(value: &str) -> String {
    let is_plain =
        |letter: char| !matches!(letter, '"' | '\\' | '(' | ')' | ',') && !letter.is_whitespace();
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 prints of `SELECT ROW(1, 'a', 'b c', true)` and of names with its own signs.
    #[test]
    fn records_are_written_as_postgresql_writes_them() {
        let name = |text: &str| Answered::Name("n", text.to_owned());
        let columns = [
            Answered::Integer("i", 1),
            name("a"),
            name("b c"),
            Answered::Bool("b", true),
        ];
        assert_eq!(record(&columns), "(1,a,\"b c\",t)");
        assert_eq!(record(&[name("a\"b"), name("")]), "(\"a\"\"b\",\"\")");
    }
}
