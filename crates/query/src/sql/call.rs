//! Calls that change something: one, or one for each row of a query.
//!
//! Does: run them where waiting is allowed, wait while maintenance has a chunk's files, put the answers together. Does not: carry a
//! call out (`write/call.rs` does), or read one (`statement/timescale.rs` does).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::sql::sqlparser::ast::Value;
use futures::StreamExt;
use nilometer_service::Running;

use super::Sql;
use crate::answer::Answer;
use crate::error::Error;
use crate::execution::blocking;
use crate::statement::name::NameScope;
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
        let answer = self.called(&call, &place).await?;
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
            answers.push(self.called(call, &place).await?);
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
            Statement::Call(call) if !call.is_procedure => Ok(Some(call::schema(call))),
            Statement::CallOfRows(calls) => Ok(Some(call::schema(&calls.stand_in()?))),
            _ => Ok(None),
        }
    }

    async fn called(&self, asked: &Call, place: &NameScope) -> Result<RecordBatch, Error> {
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
            match blocking(&shared.executor, run).await? {
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
