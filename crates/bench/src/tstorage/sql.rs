//! The three read scenarios through SQL: the database averages, over columns that the table's payload schema made.
//!
//! Does: write the statements, ask them over HTTP, check that each hour of each host is there. Does not: make the table.

use crate::calendar::format_rfc3339;
use crate::http::{Address, Client, shown};
use crate::queries::AnswerFormat;
use crate::workload::Spec;
use crate::{Error, Result};

use super::{HOUR_NS, Scenario};

/// Where statements are asked.
#[derive(Debug)]
pub(super) struct Sql {
    client: Client,
    database: String,
    table: String,
}

impl Sql {
    /// Of a server's address over HTTP, and the table `database.table` or `database.schema.table`.
    pub(super) fn new(url: &str, table: &str) -> Result<Self> {
        let (database, table) = table.split_once('.').ok_or_else(|| Error::Spec {
            what: format!("\"{table}\" is no database.table"),
        })?;
        let client = Client::new(&Address::parse(url)?);
        Ok(Self {
            client,
            database: database.to_owned(),
            table: table.to_owned(),
        })
    }

    /// Asks for a window of a host, or of all; the bytes of the answer.
    pub(super) fn ask(&self, statement: &str) -> Result<Vec<u8>> {
        const NAME: &str = "SQL";
        let asked = self.client.query_once(&self.database, statement, "json");
        let (status, answer) = asked.map_err(|why| Error::NoAnswer {
            name: NAME.to_owned(),
            why,
        })?;
        if status == 200 {
            return Ok(answer);
        }
        Err(Error::Answer {
            name: NAME.to_owned(),
            format: "json",
            why: format!("status {status}: {}", shown(&answer)),
        })
    }

    /// The statement of a scenario.
    pub(super) fn statement(
        &self,
        spec: &Spec,
        scenario: Scenario,
        host: Option<i32>,
        (start_ns, window_ns): (i64, i64),
    ) -> String {
        let metrics = spec.workload.metrics().iter().take(scenario.metrics());
        let averages: Vec<String> = metrics
            .map(|metric| format!("avg({metric}) AS {metric}"))
            .collect();
        let (which, hosts) = match host {
            Some(host) => (String::new(), format!("cid = {host} AND ")),
            None => ("cid, ".to_owned(), String::new()),
        };
        let (start, end) = (
            format_rfc3339(start_ns),
            format_rfc3339(start_ns + window_ns),
        );
        format!(
            "SELECT {which}time_bucket('1 hour', cap) AS hour, {} FROM {} WHERE {hosts}cap >= '{start}' AND cap < '{end}' GROUP BY {which}hour",
            averages.join(", "),
            self.table,
        )
    }

    /// Rows of an answer.
    pub(super) fn rows(answer: &[u8]) -> Result<usize> {
        AnswerFormat::Json.count_rows("SQL", answer)
    }
}

/// Hours with a record of a host in a window.
pub(super) fn hours_of(spec: &Spec, start_ns: i64, window_ns: i64) -> usize {
    let epochs = spec.epochs().unwrap_or_default().cast_signed();
    let mut hours: Vec<i64> = (0..epochs)
        .map(|epoch| spec.start_ns + epoch * spec.interval_ns)
        .filter(|time| (start_ns..start_ns + window_ns).contains(time))
        .map(|time| time.div_euclid(HOUR_NS))
        .collect();
    hours.dedup();
    hours.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tstorage::tests::spec;

    fn parse(text: &str) -> i64 {
        crate::calendar::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn statements_ask_what_the_scenarios_do() {
        let sql = Sql::new("http://127.0.0.1:8086", "tstorage.public.records").unwrap();
        let window = (parse("2016-01-01T03:00:00Z"), 12 * HOUR_NS);
        let one = sql.statement(&spec(), Scenario::OneMetric, Some(2), window);
        assert_eq!(
            one,
            "SELECT time_bucket('1 hour', cap) AS hour, avg(usage_user) AS usage_user FROM public.records WHERE cid = 2 AND cap >= '2016-01-01T03:00:00Z' AND cap < '2016-01-01T15:00:00Z' GROUP BY hour"
        );
        let all = sql.statement(&spec(), Scenario::AllMetrics, Some(2), window);
        assert_eq!(all.matches("avg(").count(), 10);
        let every = sql.statement(&spec(), Scenario::EveryHost, None, window);
        assert!(every.starts_with("SELECT cid, time_bucket"), "{every}");
        assert!(every.ends_with("GROUP BY cid, hour"), "{every}");
        assert!(!every.contains("cid ="), "{every}");
        assert!(Sql::new("http://127.0.0.1:8086", "records").is_err());
    }

    #[test]
    fn a_window_has_the_hours_that_its_records_are_in() {
        let spec = spec();
        for (offset, window, expected) in [
            (0, 12 * HOUR_NS, 12),
            (HOUR_NS / 2, 12 * HOUR_NS, 13),
            (1, 1, 0),
            (0, 1, 1),
        ] {
            let found = hours_of(&spec, spec.start_ns + offset, window);
            assert_eq!(found, expected, "{offset} {window}");
        }
    }
}
