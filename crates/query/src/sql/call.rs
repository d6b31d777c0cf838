//! Calls that change something: one, or one for each row of a query.
//!
//! Does: run them where waiting is allowed, wait while maintenance has a chunk's files, put the answers together. Does not: carry a
//! call out (`write/call.rs` does), or read one (`statement/timescale.rs` does).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use datafusion::sql::sqlparser::ast::Value;
use futures::StreamExt;
use nilometer_engine::nearest;
use nilometer_service::Running;

use super::Sql;
use crate::answer::Answer;
use crate::error::Error;
use crate::execution::changing;
use crate::statement::name::{Name, NameScope};
use crate::statement::{Call, CallOfRows, Statement, What};
use crate::write::call::{self, Done};

/// Pause before a chunk is tried again whose files maintenance has.
const BUSY_PAUSE: Duration = Duration::from_millis(250);
/// So often a chunk is tried: for two minutes.
const BUSY_MAX: u32 = 480;

impl Sql {
    /// Carries a call out, and answers.
    pub(super) async fn call(
        &self,
        call: Call,
        place: NameScope,
        running: Running,
    ) -> Result<Answer, Error> {
        // Before anything is changed: a column may be none of its answer.
        let places = chosen(&call::schema(&call), &call)?;
        let answer = self.called(&call, &place, &running).await?;
        let answer = shown(answer, &call, places.as_deref())?;
        if call.is_procedure {
            return Ok(Answer::of_rows(0, running, self.options()));
        }
        Ok(Answer::of_batch(answer, running, self.options()))
    }

    /// Carries out a call for each row of its query, which is over before the first of them.
    pub(super) async fn call_rows(
        &self,
        calls: CallOfRows,
        place: NameScope,
        running: Running,
    ) -> Result<Answer, Error> {
        let mut rows = Box::pin(self.query(&place.database, &calls.query)).await?;
        let mut asked = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|column| literal(column, row));
                asked.push(calls.of_row(&values.collect::<Result<Vec<_>, _>>()?)?);
            }
        }
        drop(rows);
        let mut answers = Vec::with_capacity(asked.len());
        for call in &asked {
            let mut answer = self.called(call, &place, &running).await?;
            for nth in 0..calls.calls_of_answers() {
                let value = literal(answer.column(0), 0)?;
                if value == Value::Null {
                    // What is called of no chunk answers none.
                    let column = new_null_array(answer.column(0).data_type(), 1);
                    let schema = call::schema(&calls.stand_in()?);
                    answer = RecordBatch::try_new(schema, vec![column])
                        .map_err(|error| Error::internal(error.to_string()))?;
                } else {
                    answer = self
                        .called(&calls.of_answer(nth, &value)?, &place, &running)
                        .await?;
                }
            }
            answers.push(answer);
        }
        if let Some(counted) = &calls.counted {
            let nulls = |batch: &RecordBatch| {
                let first = batch.columns().first().filter(|_| !counted.has_nulls);
                first.map_or(0, arrow::array::Array::null_count)
            };
            let rows = answers.iter().map(|batch| batch.num_rows() - nulls(batch));
            let answer = count(rows.sum(), &counted.heading)?;
            return Ok(Answer::of_batch(answer, running, self.options()));
        }
        let answer = match answers.first() {
            Some(first) => {
                let joined = concat_batches(&first.schema(), &answers);
                joined.map_err(|error| Error::internal(error.to_string()))?
            }
            None => RecordBatch::new_empty(call::schema(&calls.stand_in()?)),
        };
        Ok(Answer::of_batch(answer, running, self.options()))
    }

    /// The columns of what a call answers; `None` = nothing.
    pub(super) fn called_columns(statement: &Statement) -> Result<Option<SchemaRef>, Error> {
        match statement {
            Statement::Call(call) if !call.is_procedure => {
                let schema = call::schema(call);
                let places = chosen(&schema, call)?;
                let empty = RecordBatch::new_empty(schema);
                Ok(Some(shown(empty, call, places.as_deref())?.schema()))
            }
            Statement::CallOfRows(calls) => Ok(Some(match &calls.counted {
                Some(counted) => count(0, &counted.heading)?.schema(),
                None => call::schema(&calls.stand_in()?),
            })),
            _ => Ok(None),
        }
    }

    async fn called(
        &self,
        asked: &Call,
        place: &NameScope,
        running: &Running,
    ) -> Result<RecordBatch, Error> {
        let shared = self.shared();
        if let What::RunJob(id) = asked.what {
            call::check_job(&shared.engine, &self.principal, id)?;
            let run = shared.jobs.run(id, self.caller.clone()).await;
            run.map_err(|error| call::placed(error, asked.position))?;
            return Ok(call::nothing(asked));
        }
        let mut tries = 0;
        loop {
            let (engine, jobs) = (Arc::clone(&shared.engine), Arc::clone(&shared.jobs));
            let (principal, zone) = (self.principal.clone(), self.zone.clone());
            let (place, asked) = (place.clone(), asked.clone());
            let run = move || call::run(&engine, &jobs, &principal, place, &zone, &asked);
            let by = (&shared.executor, running);
            match changing(by, self.client.as_ref(), run).await? {
                Done::Answer(batch) => return Ok(batch),
                Done::Busy(chunk) if tries >= BUSY_MAX => return Err(call::busy(&chunk)),
                Done::Busy(_) => {
                    tries += 1;
                    let pause = shared.executor.sleep(BUSY_PAUSE);
                    if self.caller.run_until_cancelled(pause).await.is_none() {
                        return Err(Error::Cancelled);
                    }
                }
            }
        }
    }
}

/// The places of the columns that a call is asked for; `None` = of all of them.
fn chosen(schema: &SchemaRef, call: &Call) -> Result<Option<Vec<usize>>, Error> {
    let Some(columns) = &call.columns else {
        return Ok(None);
    };
    let names = || schema.fields().iter().map(|field| field.name().clone());
    let place = |(name, _): &(Name, String)| {
        let mut all = names();
        all.position(|known| known == name.text)
            .ok_or_else(|| Error::UnknownColumn {
                name: name.text.clone(),
                nearest: nearest(&name.text, names()),
                position: name.position,
            })
    };
    columns
        .iter()
        .map(place)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The columns at these places under their headings.
fn shown(answer: RecordBatch, call: &Call, places: Option<&[usize]>) -> Result<RecordBatch, Error> {
    let (Some(places), Some(columns)) = (places, &call.columns) else {
        return Ok(answer);
    };
    let wrong = |error: ArrowError| Error::internal(error.to_string());
    let rows = answer.num_rows();
    let answer = answer.project(places).map_err(wrong)?;
    let fields = answer.schema_ref().fields().iter().zip(columns);
    let fields = fields.map(|(field, (_, heading))| Field::clone(field).with_name(heading));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, answer.columns().to_vec(), &options).map_err(wrong)
}

/// The number of answers.
fn count(rows: usize, heading: &str) -> Result<RecordBatch, Error> {
    let field = Field::new(heading, DataType::Int64, false);
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    let column = Arc::new(Int64Array::from(vec![rows]));
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])
        .map_err(|error| Error::internal(error.to_string()))
}

/// A value of a row as a literal.
fn literal(column: &Arc<dyn Array>, row: usize) -> Result<Value, Error> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    let text = array_value_to_string(column, row);
    let text = text.map_err(|error| Error::internal(error.to_string()))?;
    Ok(match column.data_type() {
        DataType::Boolean => Value::Boolean(text == "true"),
        kind if kind.is_integer() => Value::Number(text, false),
        _ => Value::SingleQuotedString(text),
    })
}
