//! The database that is loaded, as far as it is asked questions: does it answer, how durable is it, how many rows has it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::report::Visible;
use super::{Expected, LoadOptions};
use crate::http::{Address, Client, Connection, percent_encode, shown};
use crate::{Error, Result};

/// Pause between two attempts to reach the database, and between two counts of its rows.
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Target {
    client: Client,
    address: Address,
    write_path: String,
    database: String,
    tables: Vec<String>,
    visible_wait: Duration,
}

impl Target {
    /// Waits until the database answers.
    pub(super) fn reach(options: &LoadOptions, tables: Vec<String>) -> Result<Self> {
        let address = Address::parse(&options.url)?;
        let client = Client::new(&address);
        let begin = Instant::now();
        loop {
            let why = match client.get("/health") {
                // A server that asks who we are has been reached all the same.
                Ok((200..=299 | 401 | 403, _)) => break,
                Ok((status, body)) => format!("/health says {status}: {}", shown(&body)),
                Err(why) => why,
            };
            if begin.elapsed() >= options.reach_wait {
                return Err(Error::Unreachable {
                    url: options.url.clone(),
                    why,
                });
            }
            thread::sleep(POLL);
        }
        let write_path = format!(
            "/api/v3/write_lp?db={}&precision={}",
            percent_encode(&options.database),
            options.precision.name()
        );
        Ok(Self {
            client,
            address,
            write_path,
            database: options.database.clone(),
            tables,
            visible_wait: options.visible_wait,
        })
    }

    pub(super) fn connection(&self) -> Connection {
        Connection::new(&self.address, &self.write_path)
    }

    /// What the server says an acknowledgement means.
    pub(super) fn durability(&self) -> String {
        ["/health", "/metrics"]
            .iter()
            .filter_map(|target| self.client.get(target).ok())
            .filter_map(|(_, body)| serde_json::from_slice::<Value>(&body).ok())
            .find_map(|json| Some(json.get("durability")?.as_str()?.to_owned()))
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// The page of figures, if there is one.
    pub(super) fn metrics(&self) -> Option<String> {
        let (status, body) = self.client.get("/metrics").ok()?;
        (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
    }

    /// Rows of all tables, or `None` if the database or a table is not there yet.
    pub(super) fn count_rows(&self) -> Result<Option<u64>> {
        let mut sum = 0;
        for table in &self.tables {
            let sql = format!(
                "select count(*) as row_count from \"{}\"",
                table.replace('"', "\"\"")
            );
            let name = "row count".to_owned();
            let (status, body) =
                self.client
                    .query_sql(&self.database, &sql)
                    .map_err(|why| Error::NoAnswer {
                        name: name.clone(),
                        why,
                    })?;
            match status {
                200 => {}
                400 | 404 | 422 => return Ok(None),
                _ => {
                    return Err(Error::Query {
                        name,
                        status,
                        body: shown(&body),
                        sql,
                    });
                }
            }
            sum += only_number(&body).ok_or_else(|| Error::Answer {
                name,
                format: "json",
                why: shown(&body),
            })?;
        }
        Ok(Some(sum))
    }

    /// Counts until the rows acknowledged are there, which for Nilometer is the first count.
    pub(super) fn await_rows(&self, expected: &Expected) -> Result<Visible> {
        let Expected {
            before,
            acknowledged,
            min,
            max,
        } = *expected;
        let begin = Instant::now();
        let mut counts = 0;
        loop {
            let rows = self.count_rows()?.unwrap_or(0);
            counts += 1;
            if (min..=max).contains(&rows) {
                return Ok(Visible {
                    rows,
                    rows_before: before,
                    counts,
                    seconds: begin.elapsed().as_secs_f64(),
                });
            }
            if begin.elapsed() >= self.visible_wait || rows > max {
                let table = self.tables.join(", ");
                return Err(Error::NotVisible {
                    acknowledged,
                    before,
                    visible: rows,
                    table,
                });
            }
            thread::sleep(POLL);
        }
    }
}

/// The number in `[{"name": 5}]`. Some servers write 64-bit integers as text.
fn only_number(body: &[u8]) -> Option<u64> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let value = json.as_array()?.first()?.as_object()?.values().next()?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::only_number;

    #[test]
    fn counts_are_read_from_an_array_of_one_row() {
        assert_eq!(only_number(br#"[{"row_count":7}]"#), Some(7));
        assert_eq!(only_number(br#"[{"row_count":"7"}]"#), Some(7));
        for body in [
            "",
            "[]",
            "{}",
            "[7]",
            "[{}]",
            "[{\"n\":-1}]",
            "[{\"n\":1.5}]",
        ] {
            assert_eq!(only_number(body.as_bytes()), None, "{body}");
        }
    }
}
