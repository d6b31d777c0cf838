//! InfluxQL as one of the languages of the service.
//!
//! Does: parse texts for sessions, list a statement while it runs, give it the thread it needs. Does not: know what a
//! statement does (`statements` does).

use std::ops::Deref;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use nilometer_influxql_syntax as syntax;
use nilometer_influxql_syntax::ast::Statement;
use nilometer_service::{
    Class, Due, Error as ServiceError, Language, LanguageContext, Outcome, Param, Params, Prepared,
    Running, Runs, Session, SetStream,
};

use crate::continuous;
use crate::continuous::counts::Counts;
use crate::privileges;
use crate::reading;
use crate::statements::{self, Answer, Context, Error};

/// InfluxQL over an engine.
#[derive(Debug)]
pub struct InfluxQl {
    shared: Arc<Shared>,
}

/// What all statements share.
#[derive(Debug)]
pub(crate) struct Shared {
    context: LanguageContext,
    pub(crate) continuous: Arc<Counts>,
}

impl Deref for Shared {
    type Target = LanguageContext;

    fn deref(&self) -> &LanguageContext {
        &self.context
    }
}

impl Shared {
    /// A statement for a session.
    pub(crate) fn take(
        self: &Arc<Self>,
        statement: Statement,
        session: &Session,
    ) -> Box<dyn Prepared> {
        Box::new(Taken {
            shared: Arc::clone(self),
            session: session.clone(),
            statement: Arc::new(statement),
        })
    }
}

impl InfluxQl {
    /// Over the engine of a service, beside its other languages.
    pub fn new(context: &LanguageContext) -> Self {
        Self {
            shared: Arc::new(Shared {
                context: context.clone(),
                continuous: Arc::default(),
            }),
        }
    }

    fn parse(&self, text: &str, parameters: &Params) -> Result<Vec<Statement>, ServiceError> {
        let length_max = self.shared.options.sql_bytes_max;
        if text.len() > length_max {
            return Err(Error::TooLong { length_max }.into());
        }
        let mut values = syntax::Params::new();
        for name in parameters.names() {
            if let Some(value) = parameters.named(name) {
                values.insert(name.to_owned(), value_of(value));
            }
        }
        let parsed = syntax::parse(text, &values);
        parsed.map_err(|error| ServiceError::Statement {
            class: Class::BadRequest,
            fault: None,
            setting: None,
            // The text says it.
            position: None,
            source: Box::new(error),
        })
    }
}

impl Language for InfluxQl {
    fn name(&self) -> &'static str {
        "influxql"
    }

    fn time_zone(&self, name: &str) -> Result<String, ServiceError> {
        let zone: Result<arrow_array::timezone::Tz, _> = name.parse();
        match zone {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => Err(Error::UnknownZone(name.to_owned()).into()),
        }
    }

    fn prepare(&self, text: &str, session: &Session) -> Result<Box<dyn Prepared>, ServiceError> {
        let mut statements = self.parse(text, &Params::new())?.into_iter();
        match (statements.next(), statements.next()) {
            (Some(statement), None) => Ok(self.shared.take(statement, session)),
            _ => Err(Error::NotOneStatement.into()),
        }
    }

    fn prepare_all(
        &self,
        text: &str,
        parameters: &Params,
        session: &Session,
    ) -> Result<Vec<Box<dyn Prepared>>, ServiceError> {
        let statements = self.parse(text, parameters)?.into_iter();
        Ok(statements
            .map(|statement| self.shared.take(statement, session))
            .collect())
    }

    fn due(&self, now_ns: i64) -> Vec<Box<dyn Due>> {
        continuous::due(&self.shared, now_ns)
    }

    fn runs(&self) -> Runs {
        self.shared.continuous.runs()
    }
}

fn value_of(param: &Param) -> syntax::Value {
    match param {
        Param::Bool(value) => syntax::Value::Boolean(*value),
        Param::I64(value) => syntax::Value::Integer(*value),
        Param::U64(value) => match i64::try_from(*value) {
            Ok(value) => syntax::Value::Integer(value),
            Err(_) => syntax::Value::Float(*value as f64),
        },
        Param::F64(value) => syntax::Value::Float(*value),
        Param::Text(value) => syntax::Value::Text(value.clone()),
        Param::Time(ns) => syntax::Value::Integer(*ns),
        Param::Of { kind, value } => syntax::Value::of_object(kind, value_of(value)),
        Param::Null => {
            syntax::Value::Unusable("unable to bind parameter with type <nil>".to_owned())
        }
        Param::List(_) => {
            syntax::Value::Unusable("unable to bind parameter with type []interface {}".to_owned())
        }
        Param::Bytes(_) => {
            syntax::Value::Unusable("unable to bind parameter with type []byte".to_owned())
        }
    }
}

/// A statement that was parsed. It is planned when it runs: names mean what they mean then.
#[derive(Debug)]
struct Taken {
    shared: Arc<Shared>,
    session: Session,
    statement: Arc<Statement>,
}

impl Prepared for Taken {
    fn run<'a>(&'a self, _: &'a Params) -> BoxFuture<'a, Result<Outcome, ServiceError>> {
        Box::pin(async move {
            let text = self.statement.to_string();
            let session = &self.session;
            let is_change = statements::changes(&self.statement);
            if is_change && (session.is_read_only || self.shared.options.read_only) {
                return Err(Error::ReadOnly.into());
            }
            privileges::check(session, &self.shared.engine.snapshot(), &self.statement)?;
            let statements = &self.shared.statements;
            let running = statements.start(&session.database, &text, &session.cancelled);
            let running = running.timed(session.timings.as_ref());
            running.begin().await?;
            let LanguageContext {
                engine, options, ..
            } = &**self.shared;
            match &*self.statement {
                Statement::Select(select) => {
                    return reading::run(engine, options, session, select, running).await;
                }
                Statement::Explain {
                    analyze, select, ..
                } => {
                    let explain = if *analyze {
                        reading::analyze
                    } else {
                        reading::explain
                    };
                    return explain(engine, options, session, select, running);
                }
                _ => {}
            }
            let engine = Arc::clone(&self.shared.engine);
            let statements = Arc::clone(statements);
            let counts = Arc::clone(&self.shared.continuous);
            let context = Context::new(engine, (statements, counts), session, running)?;
            if !is_change {
                return outcome(statements::run(context, &self.statement)?);
            }
            // It goes on to its end even if nobody waits for it any more.
            let statement = Arc::clone(&self.statement);
            let executor = &self.shared.executor;
            let done = executor
                .block(move || statements::run(context, &statement))
                .await;
            outcome(done.unwrap_or(Err(ServiceError::Panicked { what: "statement" }))?)
        })
    }

    fn change(&self) -> Option<String> {
        statements::is_warned_of(&self.statement).then(|| self.statement.to_string())
    }
}

fn outcome(answer: (Answer, Running)) -> Result<Outcome, ServiceError> {
    Ok(match answer {
        (Answer::Done, _) => Outcome::Done { rows: 0 },
        (Answer::Sets(sets, memory), running) => {
            let sets = stream::iter(sets).map(move |set| {
                // It counts until the last of them has left.
                let _ = &memory;
                Ok(set)
            });
            Outcome::Sets(SetStream::running(running, sets)?)
        }
    })
}
