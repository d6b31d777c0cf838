//! SQL as one of the languages of the service.
//!
//! Does: give the service's sessions what [`Sql`] does, in the service's words. Does not: run anything by itself.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use nilometer_service::define;
use nilometer_service::{
    Charged, Description, Error as ServiceError, Language, Outcome, Params, Prepared, RowStream,
    Rows, Session, SessionChange,
};

use crate::answer::Answer;
use crate::error::Error;
use crate::sql::Sql;
use crate::statement::session::session_change;

impl Language for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn time_zone(&self, name: &str) -> Result<String, ServiceError> {
        Ok(self.in_zone(name)?.time_zone().to_owned())
    }

    fn session_change(&self, text: &str) -> Result<Option<SessionChange>, ServiceError> {
        Ok(session_change(text)?)
    }

    fn prepare(&self, text: &str, session: &Session) -> Result<Box<dyn Prepared>, ServiceError> {
        Ok(Box::new(Taken {
            sql: self.of_session(session)?,
            database: session.database.clone(),
            text: text.to_owned(),
        }))
    }

    fn describe<'a>(
        &'a self,
        text: &'a str,
        known: &'a [Option<DataType>],
        session: &'a Session,
    ) -> BoxFuture<'a, Result<Description, ServiceError>> {
        Box::pin(async move {
            let sql = self.of_session(session)?;
            let described =
                AssertUnwindSafe(Box::pin(sql.described(&session.database, text, known)));
            let described = described.catch_unwind().await;
            let described = described.unwrap_or_else(|panic| Err(Error::of_panic(panic.as_ref())));
            Ok(described?)
        })
    }

    fn complete<'a>(
        &'a self,
        table: &'a define::TableName,
        rows: RecordBatch,
        session: &'a Session,
    ) -> BoxFuture<'a, Result<RecordBatch, ServiceError>> {
        Box::pin(async move {
            let sql = self.of_session(session)?;
            let completed = AssertUnwindSafe(Box::pin(sql.completed(table, rows)));
            let completed = completed.catch_unwind().await;
            let completed = completed.unwrap_or_else(|panic| Err(Error::of_panic(panic.as_ref())));
            Ok(completed?)
        })
    }
}

impl Sql {
    /// The same for a session.
    fn of_session(&self, session: &Session) -> Result<Self, ServiceError> {
        let mut sql = self.cancelled_by(&session.cancelled);
        if session.principal.name().is_some() {
            sql = sql.of_asker(&session.principal);
        }
        if !session.principal.is_admin() {
            sql = sql.asked_by(&session.principal);
        }
        if let Some(zone) = &session.zone {
            sql = sql.in_zone(zone)?;
        }
        if let Some(schema) = &session.schema {
            sql = sql.in_schema(schema);
        }
        if let Some(client) = &session.client {
            sql = sql.of_client(client);
        }
        if let Some(transaction) = &session.transaction {
            sql = sql.within(transaction);
        }
        if let Some(timings) = &session.timings {
            sql = sql.timed(timings);
        }
        if session.is_read_only {
            sql = sql.read_only();
        }
        Ok(sql)
    }
}

/// A statement that was taken. It is read when it runs: its values have a say in what it means, and a statement like one
/// that ran before is not read at all.
#[derive(Debug)]
struct Taken {
    sql: Sql,
    database: String,
    text: String,
}

impl Prepared for Taken {
    fn run<'a>(&'a self, parameters: &'a Params) -> BoxFuture<'a, Result<Outcome, ServiceError>> {
        Box::pin(async move {
            let answer = self.sql.query_with(&self.database, &self.text, parameters);
            let answer = answer.await?;
            Ok(match answer.written() {
                Some(rows) => Outcome::Done { rows },
                None => Outcome::Rows(RowStream::new(Answered(answer))),
            })
        })
    }
}

/// An answer with the service's errors.
struct Answered(Answer);

impl Stream for Answered {
    type Item = Result<RecordBatch, ServiceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .poll_next_unpin(context)
            .map(|item| item.map(|batch| batch.map_err(ServiceError::from)))
    }
}

impl Rows for Answered {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn hold(&mut self, bytes: usize) -> Result<(), ServiceError> {
        Ok(self.0.hold(bytes)?)
    }

    fn hand_over(&mut self, bytes: usize) -> Charged {
        Charged::by(self.0.hand_over(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlOptions;
    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::{Engine, Options, SystemClock};
    use nilometer_service::{Class, Principal};
    use std::path::Path;
    use std::sync::Arc;

    fn sql() -> Sql {
        let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
        engine.create_database("d").unwrap();
        Sql::new(Arc::new(engine), SqlOptions::default()).unwrap()
    }

    async fn run(session: &Session, sql: &Sql, text: &str) -> Result<Outcome, ServiceError> {
        session.run(sql, text, &Params::new()).await
    }

    #[tokio::test]
    async fn a_statement_answers_rows_or_how_many_it_wrote() {
        let (sql, session) = (sql(), Session::new("d", Principal::anyone()));
        let create = "CREATE TABLE t (time TIMESTAMPTZ, v REAL)";
        let insert = "INSERT INTO t (time, v) VALUES ('2024-05-01T00:00:00Z', 1), ('2024-05-02T00:00:00Z', 2)";
        for (text, wrote) in [(create, 0), (insert, 2), ("DELETE FROM t WHERE v = 1", 1)] {
            match run(&session, &sql, text).await.unwrap() {
                Outcome::Done { rows } => assert_eq!(rows, wrote, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let Outcome::Rows(mut rows) = run(&session, &sql, "SELECT v FROM t").await.unwrap() else {
            panic!("a query answers rows");
        };
        assert_eq!(rows.schema().field(0).name(), "v");
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1);
        assert!(rows.next().await.is_none());
    }

    /// `SET TIME ZONE` was refused wherever it was sent from: nothing kept a session from one statement to the next.
    #[tokio::test]
    async fn a_session_that_is_kept_remembers_its_time_zone() {
        let (sql, mut session) = (sql(), Session::new("d", Principal::anyone()));
        let berlin = "SET TIME ZONE 'Europe/Berlin'";
        let alone = run(&session, &sql, berlin).await.unwrap_err();
        assert!(alone.to_string().contains("parameter timezone"), "{alone}");
        assert!(session.set(&sql, berlin).unwrap());
        assert_eq!(session.zone.as_deref(), Some("Europe/Berlin"));
        assert!(!session.set(&sql, "SELECT 1").unwrap());
        session.set(&sql, "SET TIME ZONE 'Mars'").unwrap_err();
        let Outcome::Rows(mut rows) = run(&session, &sql, "SHOW timezone").await.unwrap() else {
            panic!("SHOW answers rows");
        };
        let batch = rows.next().await.unwrap().unwrap();
        let shown = arrow::util::display::array_value_to_string(batch.column(0), 0);
        assert_eq!(shown.unwrap(), "Europe/Berlin");
        assert!(session.set(&sql, "RESET timezone").unwrap());
        assert_eq!(session.zone, None);
    }

    #[tokio::test]
    async fn an_error_says_what_it_means_and_where_it_is() {
        let (sql, session) = (sql(), Session::new("d", Principal::anyone()));
        let error = run(&session, &sql, "SELECT 1 FROM nowhere").await;
        let error = error.unwrap_err();
        let place = error.position().unwrap();
        assert_eq!(error.class(), Class::BadRequest);
        assert_eq!((place.line, place.column), (1, 15));
        let reader = Session {
            is_read_only: true,
            ..session.clone()
        };
        let error = run(&reader, &sql, "CREATE TABLE t (time TIMESTAMPTZ, v REAL)").await;
        assert_eq!(error.unwrap_err().class(), Class::Forbidden);
        let stranger = Session::new("elsewhere", Principal::anyone());
        let error = run(&stranger, &sql, "SELECT v FROM t").await;
        assert_eq!(error.unwrap_err().class(), Class::NotFound);
        let lost = Session {
            zone: Some("Mars/Olympus".to_owned()),
            ..session
        };
        let error = run(&lost, &sql, "SELECT 1").await;
        assert_eq!(error.unwrap_err().class(), Class::BadRequest);
    }
}
