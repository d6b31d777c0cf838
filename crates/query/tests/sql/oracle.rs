//! Promise: random queries over random tables get the answers that `PostgreSQL`, `DuckDB` and `SQLite` give.
//!
//! `scripts/oracle.py` makes the tables and the queries from a seed and asks one of the three; its output is what is compared
//! here. `testdata/oracle` has some of it, which needs none of them. With `NILOMETER_ORACLE=all` a run
//! asks anew with a seed of its own, which it prints with what differs; `NILOMETER_ORACLE=postgresql:17:300:edges` repeats one
//! (oracle, seed, queries, and `edges` for those about NULL, -0.0, NaN and numbers that do not fit). `NILOMETER_ORACLE_FILES`
//! names files that the script has printed before, with spaces between them, and compares those. Where a
//! program is missing, or nothing is asked, a line says so.
//!
//! What differs is a failure unless one of the rules in [`RULES`] says why it is meant.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use chrono::{DateTime, NaiveDateTime};
use flate2::read::GzDecoder;
use serde_json::Value;

use self::rules::{Difference, RULES};
use crate::support::Store;

mod rules;

/// Queries of one live run.
const QUERIES: &str = "400";

/// A value of an answer.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Null,
    Integer(i128),
    Float(f64),
    Truth(bool),
    Text(String),
    Time(i64),
}

fn cells(array: &ArrayRef) -> Vec<Cell> {
    let kind = match array.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        kind => kind.clone(),
    };
    let (to, read): (DataType, fn(&ArrayRef, usize) -> Cell) = match kind {
        DataType::Null => return vec![Cell::Null; array.len()],
        DataType::Boolean => (DataType::Boolean, |array, at| {
            Cell::Truth(array.as_boolean().value(at))
        }),
        DataType::UInt64 => (DataType::UInt64, |array, at| {
            let values = array.as_primitive::<arrow::datatypes::UInt64Type>();
            Cell::Integer(values.value(at).into())
        }),
        kind if kind.is_integer() => (DataType::Int64, |array, at| {
            Cell::Integer(array.as_primitive::<Int64Type>().value(at).into())
        }),
        kind if kind.is_numeric() => (DataType::Float64, |array, at| {
            Cell::Float(array.as_primitive::<Float64Type>().value(at))
        }),
        DataType::Timestamp(..) => {
            let to = DataType::Timestamp(TimeUnit::Nanosecond, None);
            (to, |array, at| {
                Cell::Time(array.as_primitive::<TimestampNanosecondType>().value(at))
            })
        }
        _ => (DataType::Utf8, |array, at| {
            Cell::Text(array.as_string::<i32>().value(at).to_owned())
        }),
    };
    let array = cast(array, &to).unwrap();
    let read = |at| {
        if array.is_null(at) {
            Cell::Null
        } else {
            read(&array, at)
        }
    };
    (0..array.len()).map(read).collect()
}

fn nanoseconds(text: &str) -> Option<i64> {
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    let time = time.or_else(|_| {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").map(|time| time.and_utc())
    });
    time.ok()?.timestamp_nanos_opt()
}

/// Floats may differ in their last digits, because sums are made in another order.
fn close(a: f64, b: f64) -> bool {
    let both = a.is_finite() && b.is_finite();
    let close = both && (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    // Infinities are the same or not at all.
    close || a.total_cmp(&b).is_eq() || (a.is_nan() && b.is_nan())
}

fn same(wanted: &Value, found: &Cell) -> bool {
    match (wanted, found) {
        (Value::Null, Cell::Null) => true,
        (Value::Bool(wanted), Cell::Truth(found)) => wanted == found,
        // SQLite's truths are numbers.
        (Value::Number(wanted), Cell::Truth(found)) => wanted.as_i64() == Some((*found).into()),
        (Value::Number(wanted), Cell::Integer(found)) => match wanted.as_i64() {
            Some(wanted) => i128::from(wanted) == *found,
            None => wanted.as_f64().is_some_and(|wanted| {
                #[expect(clippy::cast_precision_loss, reason = "it is compared as a float")]
                close(wanted, *found as f64)
            }),
        },
        (Value::Number(wanted), Cell::Float(found)) => {
            wanted.as_f64().is_some_and(|wanted| close(wanted, *found))
        }
        (Value::String(wanted), Cell::Text(found)) => wanted == found,
        (Value::String(wanted), Cell::Float(found)) => match wanted.as_str() {
            "NaN" => found.is_nan(),
            "Infinity" => *found == f64::INFINITY,
            "-Infinity" => *found == f64::NEG_INFINITY,
            _ => false,
        },
        (Value::String(wanted), Cell::Time(found)) => nanoseconds(wanted) == Some(*found),
        _ => false,
    }
}

fn same_row(wanted: &Value, found: &[Cell]) -> bool {
    let wanted = wanted.as_array().unwrap();
    wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| same(a, b))
}

/// Whether two answers have the same rows, in the same order where there is one.
fn same_rows(wanted: &[Value], mut found: Vec<Vec<Cell>>, ordered: bool) -> bool {
    if wanted.len() != found.len() {
        return false;
    }
    if ordered {
        return wanted.iter().zip(&found).all(|(a, b)| same_row(a, b));
    }
    wanted.iter().all(|row| {
        let at = found.iter().position(|found| same_row(row, found));
        at.map(|at| found.swap_remove(at)).is_some()
    })
}

async fn ask(store: &Store, query: &str, plans: Plans) -> Result<Vec<Vec<Cell>>, String> {
    let batches = match plans {
        Plans::All => store.batches(query).await,
        Plans::One => match store.sql().query("d", query).await {
            Ok(answer) => answer.collect().await,
            Err(error) => Err(error),
        },
    };
    let mut rows = Vec::new();
    for batch in batches.map_err(|error| error.to_string())? {
        let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect();
        for at in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column[at].clone()).collect());
        }
    }
    Ok(rows)
}

/// How a query is planned before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plans {
    /// With few rules, with all, and from a template, which must be the same.
    All,
    /// As a server does it.
    One,
}

/// What a comparison has seen.
#[derive(Debug, Default)]
struct Seen {
    asked: usize,
    differing: Vec<String>,
    /// Differences that are meant, by the names of their rules.
    meant: BTreeMap<&'static str, usize>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.differing.extend(other.differing);
        for (name, times) in other.meant {
            *self.meant.entry(name).or_default() += times;
        }
    }
}

/// Asks what an oracle was asked, from memory and once more from compacted segments, and says what differs.
async fn compare(lines: &str, plans: Plans) -> Seen {
    let mut seen = compare_from(lines, false, plans).await;
    let again = compare_from(lines, true, plans).await;
    seen.differing.extend(again.differing);
    seen
}

/// What we say to one query, and to what is done before it.
async fn answer_to(
    store: &Store,
    case: &Value,
    compacted: bool,
    plans: Plans,
) -> Result<Vec<Vec<Cell>>, String> {
    let before = case["before"].as_array().map_or(&[][..], Vec::as_slice);
    for statement in before {
        ask(store, statement.as_str().unwrap(), Plans::One).await?;
        if compacted {
            store.compact();
        }
    }
    ask(store, case["query"].as_str().unwrap(), plans).await
}

async fn compare_from(lines: &str, compacted: bool, plans: Plans) -> Seen {
    let mut lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let head = lines.next().unwrap();
    let store = Store::that_compacts();
    for statement in head["setup"].as_array().unwrap() {
        store.rows(statement.as_str().unwrap()).await;
        if compacted {
            store.compact();
        }
    }
    let kept = if compacted { "compacted" } else { "memory" };
    let oracle = head["oracle"].as_str().unwrap();
    let name = format!("{oracle} {} from {kept}", head["seed"]);
    let mut seen = Seen::default();
    for case in lines {
        seen.asked += 1;
        let found = answer_to(&store, &case, compacted, plans).await;
        let wanted = case["rows"].as_array().unwrap();
        let is_refused = case["refused"].as_bool().unwrap_or(false);
        let is_same = match &found {
            Err(_) => is_refused,
            Ok(found) => {
                let ordered = case["ordered"].as_bool().unwrap();
                !is_refused && same_rows(wanted, found.clone(), ordered)
            }
        };
        if is_same {
            continue;
        }
        // With the statement that changed what is asked about, if there is one: the difference may be in that.
        let change = case["before"].as_array().and_then(|before| before.last());
        let change = change.map_or_else(String::new, |change| format!("{change}, "));
        let query = format!("{change}{}", case["query"].as_str().unwrap());
        let difference = Difference {
            oracle,
            query: &query,
            wanted: (!is_refused).then_some(wanted.as_slice()),
            found: found.as_ref().map(Vec::as_slice).map_err(String::as_str),
        };
        if let Some(rule) = RULES.iter().find(|rule| (rule.excuses)(&difference)) {
            *seen.meant.entry(rule.name).or_default() += 1;
            continue;
        }
        seen.differing
            .push(format!("{name}: {query}\n  {}", difference.told()));
    }
    seen
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a file as the script prints them, or packed.
fn lines_of(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(file).read_to_string(&mut lines).unwrap();
    } else {
        std::io::BufReader::new(file)
            .read_to_string(&mut lines)
            .unwrap();
    }
    lines
}

#[tokio::test]
async fn recorded_answers_of_other_databases_are_ours_too() {
    let mut files = 0;
    let mut seen = Seen::default();
    for entry in std::fs::read_dir(folder().join("testdata/oracle")).unwrap() {
        let path = entry.unwrap().path();
        let part = compare(&lines_of(&path), Plans::All).await;
        assert!(part.asked > 100, "{}: {part:?}", path.display());
        seen.add(part);
        files += 1;
    }
    assert!(files >= 4, "{files} files");
    assert!(seen.differing.is_empty(), "{}", seen.differing.join("\n"));
}

/// The line of who was not asked, where a run of the tests shows it: what a test prints is kept back when it passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", line.trim_end());
}

#[tokio::test]
async fn answers_in_the_files_that_are_named_are_ours_too() {
    let files = std::env::var("NILOMETER_ORACLE_FILES").unwrap_or_default();
    let mut seen = Seen::default();
    for file in files.split_whitespace() {
        let part = compare(&lines_of(Path::new(file)), Plans::One).await;
        say(&format!(
            "{file}: {} asked, {} differ, meant: {:?}",
            part.asked,
            part.differing.len(),
            part.meant
        ));
        seen.add(part);
    }
    assert!(
        seen.differing.is_empty(),
        "{} differ:\n{}",
        seen.differing.len(),
        seen.differing.join("\n")
    );
}

#[tokio::test]
async fn other_databases_answer_new_queries_as_we_do() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let drawn = now.as_secs().to_string();
    let wanted = std::env::var("NILOMETER_ORACLE").unwrap_or_default();
    let runs = match wanted.as_str() {
        "" => {
            say(
                "skipped: no new queries to PostgreSQL, DuckDB and SQLite; NILOMETER_ORACLE=all asks all",
            );
            return;
        }
        "all" => vec![
            vec!["sqlite", &drawn, QUERIES],
            vec!["postgresql", &drawn, QUERIES],
            vec!["postgresql", &drawn, QUERIES, "edges"],
            vec!["duckdb", &drawn, QUERIES],
        ],
        one => vec![one.split(':').collect()],
    };
    let mut seen = Seen::default();
    for arguments in runs {
        let script = folder().join("scripts/oracle.py");
        let done = Command::new("python3")
            .arg(script)
            .args(&arguments)
            .output();
        let Ok(done) = done else {
            say("skipped: no python3, so no other database is asked");
            return;
        };
        let error = String::from_utf8_lossy(&done.stderr);
        if done.status.code() == Some(3) {
            say(&error);
            continue;
        }
        assert!(done.status.success(), "{arguments:?}: {error}");
        let part = compare(&String::from_utf8(done.stdout).unwrap(), Plans::All).await;
        assert!(part.asked > 0, "{arguments:?} asked nothing");
        seen.add(part);
    }
    assert!(
        seen.differing.is_empty(),
        "{} differ:\n{}",
        seen.differing.len(),
        seen.differing.join("\n")
    );
}
