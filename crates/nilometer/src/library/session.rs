//! Sessions of an embedded database: statements that share a database and a time zone.
//!
//! Does: remember what `SET TIME ZONE` sets, and run statements with it. Does not: keep anything in the store.

use nilometer_service::{Principal, Session as ServiceSession, SessionChange};

use crate::library::database::Database;
use crate::library::error::Error;
use crate::library::rows::{Begun, LANGUAGE, RowStream, Rows, begin, done};

/// Statements one after the other, in one database and one time zone: times without an offset are in it, and
/// `SET TIME ZONE` changes it for those that follow. Without that it is UTC.
///
/// ```
/// # let scratch = tempfile::tempdir()?;
/// # let database = nilometer::open(scratch.path().join("data"))?;
/// use nilometer::arrow::array::AsArray;
/// use nilometer::arrow::datatypes::TimestampNanosecondType;
///
/// database.create_database("d")?;
/// let mut session = database.session("d");
/// session.sql("SET TIME ZONE 'Europe/Berlin'")?;
/// assert_eq!(session.time_zone(), "Europe/Berlin");
/// // Noon in Berlin in summer is ten o'clock in UTC.
/// let mut rows = session.sql("SELECT timestamptz '2024-07-01 12:00' AS noon")?;
/// let batch = rows.next().expect("one batch")?;
/// let noon = batch.column(0).as_primitive::<TimestampNanosecondType>().value(0);
/// assert_eq!(noon, 1_719_828_000_000_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Session<'a> {
    database: &'a Database,
    session: ServiceSession,
}

impl<'a> Session<'a> {
    pub(crate) fn new(database: &'a Database, name: &str) -> Self {
        Self {
            database,
            session: ServiceSession::new(name, Principal::anyone()),
        }
    }

    /// Runs one statement as [`Database::sql`] does, or takes over what it sets of the session.
    pub fn sql(&mut self, statement: &str) -> Result<Rows, Error> {
        self.begin(statement)?.wait()
    }

    /// As [`Session::sql`], for a program that is asynchronous itself, on whichever runtime.
    pub async fn sql_async(&mut self, statement: &str) -> Result<RowStream, Error> {
        self.begin(statement)?.wait_async().await
    }

    /// The name of its time zone.
    pub fn time_zone(&self) -> &str {
        self.session.zone.as_deref().unwrap_or("UTC")
    }

    /// Sets the time zone by its name, such as `Europe/Berlin`, or as an offset, such as `+02:00`.
    pub fn set_time_zone(&mut self, zone: &str) -> Result<(), Error> {
        let language = self.database.service.language(LANGUAGE)?;
        let zone = language.time_zone(zone).map_err(Error::of_query)?;
        self.session.change(SessionChange::Zone(Some(zone)));
        Ok(())
    }

    fn begin(&mut self, statement: &str) -> Result<Begun, Error> {
        let service = &self.database.service;
        let language = service.language(LANGUAGE)?;
        let set = self.session.set(&**language, statement);
        if set.map_err(Error::of_query)? {
            return Ok(done());
        }
        Ok(begin(service, self.session.clone(), statement))
    }
}

#[cfg(feature = "sql")]
#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::*;
    use crate::open;

    fn text(rows: Rows) -> String {
        let batches: Vec<_> = rows.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 1);
        array_value_to_string(batches[0].column(0), 0).unwrap()
    }

    /// `SET TIME ZONE` was refused with the name of a parameter of HTTP, which a program without a server has none of.
    #[test]
    fn a_session_remembers_its_time_zone_and_others_have_their_own() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        database.create_database("d").unwrap();
        let mut session = database.session("d");
        let mut other = database.session("d");
        let noon = "SELECT timestamptz '2024-07-01 12:00'";
        assert_eq!(text(session.sql(noon).unwrap()), "2024-07-01T12:00:00Z");
        let done = session.sql("SET TIME ZONE 'America/New_York'").unwrap();
        assert_eq!(done.schema().fields().len(), 1);
        assert_eq!(text(done), "0");
        assert_eq!(text(session.sql(noon).unwrap()), "2024-07-01T16:00:00Z");
        let shown = text(session.sql("SHOW timezone").unwrap());
        assert_eq!(shown, "America/New_York");
        assert_eq!(text(other.sql(noon).unwrap()), "2024-07-01T12:00:00Z");
        other.set_time_zone("+02:00").unwrap();
        assert_eq!(text(other.sql(noon).unwrap()), "2024-07-01T10:00:00Z");

        let wrong = session.sql("SET TIME ZONE 'Mars'").unwrap_err();
        assert!(wrong.to_string().contains("Europe/Berlin"), "{wrong}");
        other.set_time_zone("Mars").unwrap_err();
        assert_eq!(session.time_zone(), "America/New_York");
        text(session.sql("RESET timezone").unwrap());
        assert_eq!(text(session.sql(noon).unwrap()), "2024-07-01T12:00:00Z");
        assert_eq!(session.time_zone(), "UTC");
        // Without a session nothing would be left of it.
        database.sql("d", "SET TIME ZONE 'UTC'").unwrap_err();
    }

    #[test]
    fn a_task_has_its_session_too() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        database.create_database("d").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let shown = runtime.unwrap().block_on(async {
            let mut session = database.session("d");
            session.sql_async("SET timezone = '-03:00'").await.unwrap();
            let rows = session.sql_async("SHOW timezone").await.unwrap();
            futures::StreamExt::collect::<Vec<_>>(rows).await
        });
        let batch = shown[0].as_ref().unwrap();
        assert_eq!(array_value_to_string(batch.column(0), 0).unwrap(), "-03:00");
    }
}
