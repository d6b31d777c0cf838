//! Running statements over HTTP and timing them.

use std::fmt::Write;
use std::time::Instant;

use serde::Serialize;
use serde::de::IgnoredAny;

use super::QuerySpec;
use crate::http::{Address, Client, shown};
use crate::load::grouped;
use crate::{Error, Result};

/// How long the statements of one type took: from sending the request to having the whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryTiming {
    /// The suite's name of the type.
    pub name: &'static str,
    /// Requests timed.
    pub runs: usize,
    /// The shortest.
    pub min_ms: f64,
    /// Half took no longer.
    pub median_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Rows of the last answer.
    pub rows: usize,
    /// Bytes of the last answer.
    pub answer_bytes: usize,
    /// How the data set made the question smaller than its name says, if it did.
    pub note: Option<String>,
}

/// Runs every statement `repeats` times, in order, on one connection. Statements of one type that follow each other
/// share a timing. Answers are parsed after the clock has stopped.
pub fn run_queries(
    url: &str,
    database: &str,
    specs: &[QuerySpec],
    repeats: u32,
) -> Result<Vec<QueryTiming>> {
    let client = Client::new(&Address::parse(url)?);
    let mut timings = Vec::new();
    for same_type in specs.chunk_by(|a, b| a.name == b.name) {
        let mut millis = Vec::new();
        let mut answer = Vec::new();
        for spec in same_type {
            for _ in 0..repeats {
                let begin = Instant::now();
                let (status, body) =
                    client
                        .query_sql(database, &spec.sql)
                        .map_err(|why| Error::NoAnswer {
                            name: spec.name.to_owned(),
                            why,
                        })?;
                millis.push(begin.elapsed().as_secs_f64() * 1e3);
                if status != 200 {
                    let (name, sql) = (spec.name.to_owned(), spec.sql.clone());
                    return Err(Error::Query {
                        name,
                        status,
                        body: shown(&body),
                        sql,
                    });
                }
                answer = body;
            }
        }
        let (Some(last), false) = (same_type.last(), millis.is_empty()) else {
            continue;
        };
        millis.sort_by(f64::total_cmp);
        timings.push(QueryTiming {
            name: last.name,
            runs: millis.len(),
            min_ms: millis[0],
            median_ms: median(&millis),
            max_ms: millis[millis.len() - 1],
            rows: count_rows(last.name, &answer)?,
            answer_bytes: answer.len(),
            note: last.note.clone(),
        });
    }
    Ok(timings)
}

/// The middle of sorted numbers, of which there is at least one.
fn median(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

fn count_rows(name: &str, answer: &[u8]) -> Result<usize> {
    // The rows are walked over, not built: the widest answers have hundreds of thousands.
    match serde_json::from_slice::<Vec<IgnoredAny>>(answer) {
        Ok(rows) => Ok(rows.len()),
        Err(e) => Err(Error::Answer {
            name: name.to_owned(),
            why: format!("{e}: {}", shown(answer)),
        }),
    }
}

/// Timings as a table for people.
pub fn table(timings: &[QueryTiming]) -> String {
    let mut out = format!(
        "{:<24}{:>6}{:>11}{:>11}{:>11}{:>10}\n",
        "query", "runs", "min ms", "median ms", "max ms", "rows"
    );
    for t in timings {
        let note = t
            .note
            .as_ref()
            .map(|note| format!("  ({note})"))
            .unwrap_or_default();
        writeln!(
            out,
            "{:<24}{:>6}{:>11.2}{:>11.2}{:>11.2}{:>10}{note}",
            t.name,
            t.runs,
            t.min_ms,
            t.median_ms,
            t.max_ms,
            grouped(t.rows as u64)
        )
        .expect("writing to memory does not fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{count_rows, median};

    #[test]
    fn medians_are_the_middle() {
        for (sorted, middle) in [
            (&[3.0][..], 3.0),
            (&[1.0, 2.0], 1.5),
            (&[1.0, 2.0, 9.0], 2.0),
        ] {
            assert!((median(sorted) - middle).abs() < 1e-12, "{sorted:?}");
        }
    }

    #[test]
    fn rows_are_counted_and_other_answers_refused() {
        assert_eq!(count_rows("q", b"[]").unwrap(), 0);
        assert_eq!(count_rows("q", br#"[{"a":[1,2]}, {"a":null}]"#).unwrap(), 2);
        for answer in [&b""[..], b"{}", b"[{}", b"{\"error\":\"no\"}"] {
            assert!(count_rows("q", answer).is_err());
        }
    }
}
