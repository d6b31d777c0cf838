//! Answers to SQL from a server: rows as they come, the columns of a table, and an end to what is asked for too long.

use anyhow::{Context, bail};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use ureq::{Agent, BodyReader};

use super::{Refused, Server};
use crate::sql_text::identifier;

impl Server {
    /// The same server over connections of its own.
    pub(crate) fn reconnected(&self) -> Self {
        Self {
            agent: Agent::new_with_config(self.agent.config().clone()),
            ..self.clone()
        }
    }

    /// Closes all connections, also those that a thread waits at, for good: what comes later needs
    /// [`Self::reconnected`]. The server ends what it did for them.
    pub(crate) fn disconnect(&self) {
        self.agent.clone().shutdown();
    }

    /// Runs a statement in a time zone; `None` = the server's.
    pub(crate) fn rows(
        &self,
        database: &str,
        zone: Option<&str>,
        statement: &str,
    ) -> anyhow::Result<ServerRows> {
        let mut posted = serde_json::json!({ "db": database, "q": statement, "format": "arrow" });
        if let Some(zone) = zone {
            posted["timezone"] = zone.into();
        }
        let posted = posted.to_string();
        let headers = [("Content-Type", "application/json")];
        let response = self.post("/api/v3/query_sql", &[], &headers, posted.as_bytes())?;
        if response.status() != 200 {
            let refused = Refused::of(response);
            let sentence = refused.sentence(self);
            if database.is_empty() && sentence.starts_with("missing query parameter 'db'") {
                bail!("which database? give its name with -d NAME or NILOMETER_DATABASE");
            }
            bail!(sentence);
        }
        let body = response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        let reader =
            StreamReader::try_new(body, None).context("the answer is not an Arrow stream")?;
        Ok(ServerRows { reader })
    }

    /// The columns of a table as SQL shows them; `None` = there is no such table, or no such database.
    pub(crate) fn columns(&self, database: &str, table: &str) -> anyhow::Result<Option<SchemaRef>> {
        let statement = format!("SELECT * FROM {} LIMIT 0", identifier(table));
        let posted =
            serde_json::json!({ "db": database, "q": statement, "format": "arrow" }).to_string();
        let headers = [("Content-Type", "application/json")];
        let response = self.post("/api/v3/query_sql", &[], &headers, posted.as_bytes())?;
        match response.status().as_u16() {
            200 => {
                let body = response.into_body().into_reader();
                let reader = StreamReader::try_new(body, None);
                Ok(Some(
                    reader
                        .context("the answer is not an Arrow stream")?
                        .schema(),
                ))
            }
            // The statement is right, so it is the table that it does not know.
            400 | 404 => Ok(None),
            _ => bail!("{}", Refused::of(response).sentence(self)),
        }
    }
}

/// Rows of an answer as they come.
pub(crate) struct ServerRows {
    reader: StreamReader<BodyReader<'static>>,
}

impl ServerRows {
    pub(crate) fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

impl Iterator for ServerRows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.reader.next()
    }
}
