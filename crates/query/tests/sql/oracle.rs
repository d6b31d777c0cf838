//! Promise: random queries over random tables get the answers that `PostgreSQL` and `SQLite` give.
//!
//! `scripts/oracle.py` makes the tables and the queries from a seed and asks one of the two; its output is what is compared
//! here. `testdata/oracle` has some of it, which needs neither of them. With `NILOMETER_ORACLE=all` a run
//! asks anew with a seed of its own, which it prints with what differs; `NILOMETER_ORACLE=postgresql:17:300` repeats one (oracle, seed, queries). Where a
//! program is missing, or nothing is asked, a line says so.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use chrono::{DateTime, NaiveDateTime};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::Store;

/// Queries of one live run.
const QUERIES: &str = "400";

/// Differences that are meant, by what the query or the error says, with the reason.
const KNOWN: [(&str, &str); 5] = [
    (
        "round(",
        "ties go away from zero, as in SQLite and for PostgreSQL's numeric; its double goes to the even one",
    ),
    (
        "ceil(v.y) IN (ceil(t.f), NULL)",
        "open: -0.0 equals 0.0 in PostgreSQL and not in Arrow's kernels",
    ),
    (
        "Conflicting ordering requirements in aggregate functions",
        "two aggregates with ORDER BY of their own in one SELECT",
    ),
    (
        "Unary operator '-' only supports signed numeric",
        "the length of a tag is a dictionary of integers",
    ),
    (
        "Schema contains duplicate qualified field name",
        "one column twice in ROLLUP",
    ),
];

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

async fn ask(store: &Store, query: &str) -> Result<Vec<Vec<Cell>>, String> {
    let batches = store.batches(query).await;
    let mut rows = Vec::new();
    for batch in batches.map_err(|error| error.to_string())? {
        let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect();
        for at in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column[at].clone()).collect());
        }
    }
    Ok(rows)
}

/// Asks what an oracle was asked, from memory and once more from compacted segments, and says what differs.
async fn compare(lines: &str) -> (usize, Vec<String>) {
    let (asked, mut differing) = compare_from(lines, false).await;
    let (_, more) = compare_from(lines, true).await;
    differing.extend(more);
    (asked, differing)
}

async fn compare_from(lines: &str, compacted: bool) -> (usize, Vec<String>) {
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
    let name = format!(
        "{} {} from {kept}",
        head["oracle"].as_str().unwrap(),
        head["seed"]
    );
    let mut differing = Vec::new();
    let mut asked = 0;
    for case in lines {
        asked += 1;
        let query = case["query"].as_str().unwrap();
        let wanted = case["rows"].as_array().unwrap();
        let ordered = case["ordered"].as_bool().unwrap();
        let found = ask(&store, query).await;
        let is_known = |what: &str| KNOWN.iter().any(|(part, _)| what.contains(part));
        let difference = match found {
            Err(error) if is_known(&error) => continue,
            Err(error) => format!("refused: {error}"),
            Ok(found) if same_rows(wanted, found.clone(), ordered) => continue,
            Ok(_) if is_known(query) => continue,
            Ok(found) => {
                let missing = wanted
                    .iter()
                    .filter(|row| !found.iter().any(|found| same_row(row, found)));
                let extra = found
                    .iter()
                    .filter(|found| !wanted.iter().any(|row| same_row(row, found)));
                let missing: Vec<String> = missing.take(3).map(ToString::to_string).collect();
                let extra: Vec<_> = extra.take(3).collect();
                format!(
                    "{} rows instead of {}, without {missing:?}, with {extra:?}",
                    found.len(),
                    wanted.len()
                )
            }
        };
        differing.push(format!("{name}: {query}\n  {difference}"));
    }
    (asked, differing)
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test]
async fn recorded_answers_of_other_databases_are_ours_too() {
    let mut files = 0;
    let mut differing = Vec::new();
    for entry in std::fs::read_dir(folder().join("testdata/oracle")).unwrap() {
        let path = entry.unwrap().path();
        let mut lines = String::new();
        GzDecoder::new(std::fs::File::open(&path).unwrap())
            .read_to_string(&mut lines)
            .unwrap();
        let (asked, differs) = compare(&lines).await;
        assert!(asked > 100, "{}: {asked} queries", path.display());
        differing.extend(differs);
        files += 1;
    }
    assert!(files >= 2, "{files} files");
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The line of who was not asked, where a run of the tests shows it: what a test prints is kept back when it passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", line.trim_end());
}

#[tokio::test]
async fn other_databases_answer_new_queries_as_we_do() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = now.as_secs().to_string();
    let wanted = std::env::var("NILOMETER_ORACLE").unwrap_or_default();
    let runs = match wanted.as_str() {
        "" => {
            say("skipped: no new queries to PostgreSQL and SQLite; NILOMETER_ORACLE=all asks both");
            return;
        }
        "all" => vec![
            vec!["sqlite", &seed, QUERIES],
            vec!["postgresql", &seed, QUERIES],
        ],
        one => vec![one.split(':').collect()],
    };
    let mut differing = Vec::new();
    for arguments in runs {
        let script = folder().join("scripts/oracle.py");
        let done = Command::new("python3")
            .arg(script)
            .args(&arguments)
            .output();
        let Ok(done) = done else {
            say("skipped: no python3, so neither PostgreSQL nor SQLite is asked");
            return;
        };
        let error = String::from_utf8_lossy(&done.stderr);
        if done.status.code() == Some(3) {
            say(&error);
            continue;
        }
        assert!(done.status.success(), "{arguments:?}: {error}");
        let (asked, differs) = compare(&String::from_utf8(done.stdout).unwrap()).await;
        assert!(asked > 0, "{arguments:?} asked nothing");
        differing.extend(differs);
    }
    assert!(
        differing.is_empty(),
        "{} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}
