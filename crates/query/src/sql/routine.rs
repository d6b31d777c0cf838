//! Functions and procedures of SQL, carried out.
//!
//! Does: check what is to be kept, run the statements of a procedure as one transaction, run the
//! jobs of procedures. Does not: keep them (`nilometer_service::define` does), read their bodies (`statement/routine.rs` does), or write
//! calls of functions out (`inline.rs` does).

mod inline;

use std::sync::{Arc, Weak};

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement};
use futures::{FutureExt, StreamExt};
use nilometer_engine::{DEFAULT_SCHEMA, Snapshot};
use nilometer_service::define::{self, Change, NewRoutine, Part, Routine};
use nilometer_service::{
    Error as ServiceError, Fault, JobContext, JobEnd, JobError, Principal, USER_ACTION,
};

use super::Sql;
use crate::Params;
use crate::error::{Error, Position};
use crate::execution::{Queries, blocking};
use crate::statement::name::{NameScope, Path, literal};
use crate::statement::routine::{self, Argument, ProcedureCall};
use crate::statement::{self, Bounds, Statement, WrittenChange};

/// Says what jobs of procedures do, and who asks functions what is now. Neither holds the queries, which hold the jobs.
pub(super) fn register(queries: &Arc<Queries>) {
    let jobs = &queries.shared.jobs;
    let weak = Arc::downgrade(queries);
    let function = move |context: JobContext| run(weak.clone(), context).boxed();
    jobs.register(USER_ACTION, Arc::new(function));
    let weak = Arc::downgrade(queries);
    jobs.set_integer_clock(Arc::new(move |function| {
        let queries = weak.upgrade();
        async move {
            let queries = queries.ok_or(ServiceError::Panicked { what: "job" })?;
            // Whoever made it may ask for no more than they may.
            let owner = Principal::of_owner(&queries.shared.engine, &function.owner)?;
            let sql = Sql::of_store(queries, tokio_util::sync::CancellationToken::new());
            Ok(sql.asked_by(&owner).value_of(&function).await?)
        }
        .boxed()
    }));
}

/// Runs the procedure of a job with the rights of the job's owner.
async fn run(queries: Weak<Queries>, context: JobContext) -> Result<JobEnd, ServiceError> {
    let job = &context.job;
    let failed = |reason: String| JobError::Failed { id: job.id, reason };
    let Some(queries) = queries.upgrade() else {
        return Err(failed("the store is being closed".to_owned()).into());
    };
    let snapshot = context.engine.snapshot();
    let found = define::routine_by_number(&snapshot, &job.database, job.target);
    let Some(procedure) = found else {
        return Ok(JobEnd::TargetGone);
    };
    let owner = Principal::of_owner(&context.engine, &job.owner)?;
    let sql = Sql::of_store(queries, context.cancelled.clone()).asked_by(&owner);
    let config = match job.config.as_str() {
        "" => "NULL".to_owned(),
        config => literal(config),
    };
    let given = [(None, job.id.to_string()), (None, config)];
    let done = sql.run_procedure(&procedure, &given, None).await;
    done.map_err(|error| failed(error.to_string()))?;
    Ok(JobEnd::Done)
}

impl Sql {
    fn schema_of(&self, snapshot: &Snapshot, database: &str) -> String {
        let default = || snapshot.default_schema(database);
        let own = self.schema.clone().or_else(default);
        own.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned())
    }

    /// What a function of integers answers now.
    pub(super) async fn value_of(&self, function: &Routine) -> Result<i64, Error> {
        let name = &function.name;
        let sql = self.in_schema(&name.schema);
        let text = format!("SELECT CAST(({}\n) AS BIGINT)", query_of(function));
        let mut answer = Box::pin(sql.query(&name.database, &text)).await?;
        let mut found = None;
        while let Some(batch) = answer.next().await {
            let batch = batch?;
            let values = batch.column(0).as_primitive_opt::<Int64Type>();
            if let Some(values) = values.filter(|it| !it.is_empty() && it.is_valid(0)) {
                found = Some(values.value(0));
            }
        }
        found.ok_or_else(|| Error::Definition {
            message: format!(
                "the function \"{}\" answers NULL, and not what is now; let it answer a number, such as coalesce(max(t), 0)",
                name.table
            ),
            fault: Fault::InvalidValue,
            position: None,
        })
    }

    /// Refuses a function or a procedure that could not be run.
    pub(super) async fn check_routine(
        &self,
        place: &NameScope,
        written: &WrittenChange,
    ) -> Result<(), Error> {
        let Change::CreateRoutine { path, new, .. } = &written.change else {
            return Ok(());
        };
        let at = written.position(Part::Name);
        let named = path.clone().table(&place.database, &place.schema);
        let name = named.map_err(|wrong| Error::of_name(wrong, at))?;
        let routine = Routine {
            number: 0,
            name,
            is_procedure: new.is_procedure,
            parameters: new.parameters.clone(),
            returns: new.returns.clone(),
            body: new.body.clone(),
            owner: String::new(),
        };
        if new.is_procedure {
            return self.check_procedure(&routine, at);
        }
        self.check_function(&routine, new, at).await
    }

    async fn check_function(
        &self,
        function: &Routine,
        new: &NewRoutine,
        at: Option<Position>,
    ) -> Result<(), Error> {
        let session = self.shared().session();
        let name = function.name.table.as_str();
        if session.scalar_functions().contains_key(name)
            || session.aggregate_functions().contains_key(name)
        {
            return Err(Error::Definition {
                message: format!("a function {name} is there already; take another name"),
                fault: Fault::ObjectExists,
                position: at,
            });
        }
        let bounds = Bounds::of(self.options());
        let statements = routine::statements(&new.body, bounds)?;
        let is_query = match statements.as_slice() {
            [one] if function.parameters.is_empty() => {
                matches!(parsed(one, bounds)?, Statement::Query(_))
            }
            [one] => is_query(one, bounds)?,
            _ => false,
        };
        if !is_query {
            return Err(Error::Plan {
                message: "the body of a function is one SELECT, whose answer it is".to_owned(),
                position: at,
            });
        }
        let sql = self.in_schema(&function.name.schema);
        // Each parameter is one of the statement, of its type.
        let arguments = function.parameters.iter().enumerate();
        let arguments = arguments.map(|(nth, parameter)| Argument {
            name: parameter.name.clone(),
            text: format!("CAST(${} AS {})", nth + 1, parameter.of),
        });
        let arguments: Vec<Argument> = arguments.collect();
        let place = NameScope {
            database: function.name.database.clone(),
            schema: function.name.schema.clone(),
        };
        let snapshot = self.shared().engine.snapshot();
        let has_column = |table: &ObjectName, column: &str| {
            let name = Path::of(table).ok().and_then(|it| it.table(&place).ok());
            name.is_some_and(|it| has_column(&snapshot, &it.name(), column))
        };
        let body = routine::bound(query_of(function), bounds, (name, &arguments), &has_column)?;
        let query = format!("SELECT CAST(({body}\n) AS {})", function.returns);
        let described = Box::pin(sql.described(&function.name.database, &query, &[]));
        described.await.map(drop)
    }

    /// Refuses statements that cannot be read. What they name may come later.
    fn check_procedure(&self, procedure: &Routine, at: Option<Position>) -> Result<(), Error> {
        let given: Vec<(Option<String>, String)> = procedure
            .parameters
            .iter()
            .map(|_| (None, "NULL".to_owned()))
            .collect();
        let statements = self.statements_of(procedure, &given, at)?;
        let bounds = Bounds::of(self.options());
        for statement in &statements {
            let found = parsed(statement, bounds)?;
            let refused = match found {
                Statement::Procedure(_) => {
                    "a procedure calls no other; write the statements of both into one"
                }
                Statement::Change(_)
                | Statement::Fill(_)
                | Statement::Call(_)
                | Statement::CallOfRows(_)
                | Statement::Aggregate(_)
                    if statements.len() > 1 =>
                {
                    "a definition, a refresh and a call about chunks or jobs are no part of a transaction; make a procedure of each alone"
                }
                _ => continue,
            };
            return Err(Error::Plan {
                message: refused.to_owned(),
                position: at,
            });
        }
        if statements.is_empty() {
            return Err(Error::Plan {
                message: "the body of a procedure has a statement at least".to_owned(),
                position: at,
            });
        }
        Ok(())
    }

    /// Carries a CALL out.
    pub(super) async fn call_procedure(
        &self,
        call: ProcedureCall,
        place: NameScope,
    ) -> Result<(), Error> {
        let at = call.path.start();
        let name = call.path.table(&place)?.name();
        let snapshot = self.shared().engine.snapshot();
        let found = define::routine(&snapshot, &name.database, &name.schema, &name.table);
        let Some(procedure) = found.filter(|it| it.is_procedure) else {
            return Err(Error::of_name(
                define::unknown_routine(&snapshot, &name, true),
                at,
            ));
        };
        self.run_procedure(&procedure, &call.arguments, at).await
    }

    /// Runs the statements of a procedure: one alone by itself, several as one transaction, or all as part of the one there is.
    async fn run_procedure(
        &self,
        procedure: &Routine,
        given: &[(Option<String>, String)],
        at: Option<Position>,
    ) -> Result<(), Error> {
        let statements = self.statements_of(procedure, given, at)?;
        let sql = self.in_schema(&procedure.name.schema);
        let database = procedure.name.database.as_str();
        if statements.len() == 1 || self.transaction.is_some() {
            for statement in &statements {
                sql.drained(database, statement).await?;
            }
            return Ok(());
        }
        let transaction = self.shared().engine.begin()?;
        let within = sql.within(&transaction);
        for statement in &statements {
            if let Err(error) = within.drained(database, statement).await {
                transaction.rollback();
                return Err(error);
            }
        }
        let commit = move || Ok(transaction.commit().map(drop)?);
        blocking(&self.shared().executor, commit).await
    }

    /// Carries a statement out, whatever it answers.
    async fn drained(&self, database: &str, text: &str) -> Result<(), Error> {
        let mut answer = Box::pin(self.query_with(database, text, &Params::new())).await?;
        while let Some(batch) = answer.next().await {
            batch?;
        }
        Ok(())
    }

    /// The statements of a procedure with what it is given.
    fn statements_of(
        &self,
        procedure: &Routine,
        given: &[(Option<String>, String)],
        at: Option<Position>,
    ) -> Result<Vec<String>, Error> {
        let arguments = arguments(procedure, given, at)?;
        let bounds = Bounds::of(self.options());
        let snapshot = self.shared().engine.snapshot();
        let place = NameScope {
            database: procedure.name.database.clone(),
            schema: procedure.name.schema.clone(),
        };
        let has_column = |table: &ObjectName, column: &str| {
            let path = Path::of(table).ok();
            let name = path.and_then(|path| path.table(&place).ok());
            name.is_some_and(|name| has_column(&snapshot, &name.name(), column))
        };
        let of = (procedure.name.table.as_str(), arguments.as_slice());
        let statements = routine::statements(&procedure.body, bounds)?.into_iter();
        statements
            .map(|text| routine::bound(&text, bounds, of, &has_column))
            .collect()
    }
}

/// Whether a statement with parameters is a SELECT.
fn is_query(text: &str, bounds: Bounds) -> Result<bool, Error> {
    let parsed = statement::parse_unfilled(statement::tokens(text, bounds)?, text)?;
    Ok(matches!(
        parsed,
        Some(DfStatement::Statement(statement)) if matches!(*statement, SqlStatement::Query(_))
    ))
}

fn parsed(text: &str, bounds: Bounds) -> Result<Statement, Error> {
    statement::parse(text, bounds, &Params::new())
}

/// The SELECT of a function, without what ends it.
fn query_of(function: &Routine) -> &str {
    function.body.trim().trim_end_matches(';').trim_end()
}

/// Whether what has a name has a column of another; of a view nobody knows it without planning it.
fn has_column(snapshot: &Snapshot, name: &define::TableName, column: &str) -> bool {
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if let Some(table) = snapshot.table(database, schema, table) {
        return table.shown_columns().schema.index_of(column).is_ok();
    }
    define::find_relation(snapshot, database, schema, table).is_some_and(|relation| {
        let mut columns = relation.schema().named_columns().iter();
        columns.any(|known| known.name == column)
    })
}

/// What stands in the places of a procedure's parameters.
fn arguments(
    procedure: &Routine,
    given: &[(Option<String>, String)],
    at: Option<Position>,
) -> Result<Vec<Argument>, Error> {
    let names: Vec<Option<&String>> = given.iter().map(|(name, _)| name.as_ref()).collect();
    let matched = matched(procedure, &names, at)?.into_iter();
    let all = procedure.parameters.iter().zip(matched);
    let all = all.map(|(parameter, given_at)| {
        let value = given_at.and_then(|nth| given.get(nth));
        let value = value.map(|(_, value)| value).or(parameter.default.as_ref());
        let value = value.map_or("NULL", String::as_str);
        Argument {
            name: parameter.name.clone(),
            text: format!("CAST({value} AS {})", parameter.of),
        }
    });
    Ok(all.collect())
}

/// Which of the arguments each parameter has, by place or by name; `None` = its default.
fn matched(
    routine: &Routine,
    given: &[Option<&String>],
    at: Option<Position>,
) -> Result<Vec<Option<usize>>, Error> {
    let mismatch = || {
        let shown = routine.parameters.iter().map(|it| {
            let name = if it.name.is_empty() {
                String::new()
            } else {
                format!("{} ", it.name)
            };
            format!("{name}{}", it.of)
        });
        let shown: Vec<String> = shown.collect();
        let what = if routine.is_procedure {
            "procedure"
        } else {
            "function"
        };
        Error::Definition {
            message: format!(
                "{what} {} is called with other arguments than it has; it is {}({})",
                routine.name.table,
                routine.name.table,
                shown.join(", ")
            ),
            fault: Fault::UnknownFunction,
            position: at,
        }
    };
    let is_known = |name: &&String| routine.parameters.iter().any(|it| it.name == **name);
    let mut named = given.iter().flatten();
    if given.len() > routine.parameters.len() || !named.all(is_known) {
        return Err(mismatch());
    }
    let mut all = Vec::with_capacity(routine.parameters.len());
    for (nth, parameter) in routine.parameters.iter().enumerate() {
        let placed = given.get(nth).filter(|name| name.is_none()).map(|_| nth);
        let by_name = given.iter().position(|name| *name == Some(&parameter.name));
        let found = match (placed, by_name) {
            (Some(nth), None) | (None, Some(nth)) => Some(nth),
            (None, None) if parameter.default.is_some() => None,
            (Some(_), Some(_)) | (None, None) => return Err(mismatch()),
        };
        all.push(found);
    }
    Ok(all)
}
