//! Aggregates over frames that leave rows behind: the answer is that of the frame's rows, whatever was in it before.

use std::path::PathBuf;

use arrow::array::RecordBatch;
use nilometer_query::{Error, SqlOptions};
use serde_json::Value;

use crate::support::{Store, rows};

/// Aggregates that are asked for in one statement.
const TOGETHER: usize = 8;

async fn ask(store: &Store, sql: &str) -> Vec<RecordBatch> {
    let answer = store.sql().query("d", sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = answer.collect().await;
    batches.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The call with its frame, which stands after the aggregate also where that is the argument of a function.
fn over(aggregate: &str, frame: &str) -> String {
    let inner = if aggregate.starts_with("array") {
        "(m)"
    } else {
        ")"
    };
    aggregate.replacen(inner, &format!("{inner} OVER ({frame})"), 1)
}

/// Whether our text of a value says what that of `psql` says, floats to the last bit. Which zero is the least of two is
/// nobody's business.
fn same(aggregate: &str, wanted: Option<&str>, found: &str) -> bool {
    let Some(wanted) = wanted else {
        return found == "-";
    };
    if let (Ok(wanted), Ok(found)) = (wanted.parse::<f64>(), found.parse::<f64>()) {
        let is_extreme = aggregate.starts_with("min") || aggregate.starts_with("max");
        let both_zero = is_extreme && wanted == 0.0 && found == 0.0;
        let both_nan = wanted.is_nan() && found.is_nan();
        return both_zero || both_nan || wanted.to_bits() == found.to_bits();
    }
    let truth = match found {
        "true" => "t",
        "false" => "f",
        text => text,
    };
    wanted == truth
}

/// The story: a reviewer asked for sums and averages of the last rows, and one NaN, one infinity or one 1e20 among a day's
/// values spoiled all answers until midnight, because what left a frame was subtracted; `bool_and`, `string_agg`, `bit_and` and
/// others were refused with "`retract_batch` is not implemented". `scripts/frames.py` asked PostgreSQL 15.18 the same.
#[tokio::test]
async fn aggregates_over_random_frames_are_those_of_postgresql_to_the_last_bit() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../testdata/frames/postgresql.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let (head, cases) = lines.split_first().unwrap();
    let (table, store) = (head["table"].as_str().unwrap(), Store::new());
    let mut differing = Vec::new();
    for cases in cases.chunks(TOGETHER) {
        let part = |case: &Value, name: &str| case[name].as_str().unwrap().to_owned();
        let calls = cases.iter().enumerate().map(|(index, case)| {
            let call = over(&part(case, "aggregate"), &part(case, "over"));
            format!("{call} AS c{index}")
        });
        let calls: Vec<String> = calls.collect();
        let sql = format!("SELECT {} FROM {table} ORDER BY i", calls.join(", "));
        let found = rows(&ask(&store, &sql).await);
        for (column, case) in cases.iter().enumerate() {
            let wanted = case["rows"].as_array().unwrap();
            assert_eq!(wanted.len(), found.len());
            let found: Vec<&str> = found
                .iter()
                .map(|row| row.split('|').nth(column).unwrap())
                .collect();
            let aggregate = part(case, "aggregate");
            let mut both = wanted.iter().zip(&found);
            if !both.all(|(wanted, found)| same(&aggregate, wanted.as_str(), found)) {
                differing.push(format!("{case}\nwas {found:?}"));
            }
        }
    }
    assert!(lines.len() > 300);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// The first row of a row's frame, and the one after its last.
type Bounds = fn(usize) -> (usize, usize);

/// Of each row of a long table: a float that is a whole number, so that sums of it are exact in any order, but for a few.
fn value(row: usize) -> f64 {
    match row {
        1000 => f64::NAN,
        2500 => f64::INFINITY,
        2600 => f64::NEG_INFINITY,
        _ => ((row * 7919) % 1009) as f64,
    }
}

/// What aggregates of a long frame are, by going over its rows.
fn by_hand(frame: &[usize]) -> [Option<f64>; 5] {
    let values: Vec<f64> = frame.iter().map(|&row| value(row)).collect();
    let sum = values.iter().copied().reduce(|sum, value| sum + value);
    let mean = sum.map(|sum| sum / values.len() as f64);
    let variance = mean.map(|mean| {
        let squares = values.iter().map(|value| (value - mean).powi(2));
        squares.sum::<f64>() / values.len() as f64
    });
    let greatest = values.iter().copied().reduce(|one, other| {
        let is_greater = other.is_nan() || other > one;
        if is_greater && !one.is_nan() {
            other
        } else {
            one
        }
    });
    let above = frame.iter().all(|&row| value(row) != 0.0);
    let above = (!frame.is_empty()).then(|| f64::from(u8::from(above)));
    [sum, mean, variance, greatest, above]
}

/// Frames longer than what is aggregated again row by row are kept as parts that are merged: no part may be lost, come twice or
/// stay. The sums are whole numbers, and the rows are gone over by hand here.
#[tokio::test]
async fn long_frames_have_their_rows_and_no_others() {
    const ROWS: usize = 12_000;
    let store = Store::new();
    let table = format!(
        "(SELECT value AS i, CASE value WHEN 1000 THEN 'NaN'::double precision WHEN 2500 THEN 'Infinity'::double precision \
         WHEN 2600 THEN '-Infinity'::double precision ELSE (value * 7919 % 1009)::double precision END AS f \
         FROM generate_series(0, {})) AS long",
        ROWS - 1
    );
    let frames: [(&str, Bounds); 5] = [
        ("ROWS BETWEEN 3000 PRECEDING AND CURRENT ROW", |row| {
            (row.saturating_sub(3000), row + 1)
        }),
        ("ROWS BETWEEN 1024 PRECEDING AND 1024 FOLLOWING", |row| {
            (row.saturating_sub(1024), row + 1025)
        }),
        ("RANGE BETWEEN 4000 PRECEDING AND 1500 PRECEDING", |row| {
            (row.saturating_sub(4000), (row + 1).saturating_sub(1500))
        }),
        (
            "GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            |row| (row, ROWS),
        ),
        ("ROWS BETWEEN 700 FOLLOWING AND 2900 FOLLOWING", |row| {
            (row + 700, row + 2901)
        }),
    ];
    for (frame, bounds) in frames {
        let calls = [
            "sum(f)",
            "avg(f)",
            "var_pop(f)",
            "max(f)",
            "bool_and(f <> 0)",
        ];
        let calls = calls.map(|call| format!("{call} OVER (ORDER BY i {frame})"));
        let sql = format!("SELECT {} FROM {table} ORDER BY i", calls.join(", "));
        let found = rows(&ask(&store, &sql).await);
        assert_eq!(found.len(), ROWS);
        for (row, found) in found.iter().enumerate().step_by(37) {
            let (from, to) = bounds(row);
            let within: Vec<usize> = (from.min(ROWS)..to.min(ROWS)).collect();
            for (wanted, found) in by_hand(&within).into_iter().zip(found.split('|')) {
                let found = match found {
                    "-" => None,
                    "true" => Some(1.0),
                    "false" => Some(0.0),
                    number => Some(number.parse::<f64>().unwrap()),
                };
                let is_close = match (wanted, found) {
                    (Some(one), Some(other)) if one.is_finite() => {
                        (one - other).abs() <= 1e-10 * one.abs()
                    }
                    (Some(one), Some(other)) => {
                        one.is_nan() && other.is_nan() || one.total_cmp(&other).is_eq()
                    }
                    (one, other) => one.is_none() && other.is_none(),
                };
                assert!(is_close, "{frame}, row {row}: {found:?}, not {wanted:?}");
            }
        }
    }
}

/// The story: what PostgreSQL does not have over windows, or at all, was refused over frames that leave rows behind as well.
#[tokio::test]
async fn every_aggregate_stands_over_every_frame() {
    let store = Store::new();
    let table = "(VALUES (1, 7.0::double precision, 'a'), (2, 1, 'b'), (3, 1, 'b'), (4, NULL, NULL), (5, 9, 'c')) AS t(i, v, s)";
    for (call, wanted) in [
        // Of 7; 7 and 1; 7, 1 and 1; 1, 1 and NULL; 1, NULL and 9.
        ("median(v)", ["7.0", "4.0", "1.0", "1.0", "5.0"]),
        (
            "percentile_cont(v, 0.5)",
            ["7.0", "4.0", "1.0", "1.0", "5.0"],
        ),
        (
            "percentile_disc(v, 0.5)",
            ["7.0", "1.0", "1.0", "1.0", "1.0"],
        ),
        ("count(DISTINCT v)", ["1", "2", "2", "1", "2"]),
        ("sum(DISTINCT v)", ["7.0", "8.0", "8.0", "1.0", "10.0"]),
        ("avg(DISTINCT v)", ["7.0", "4.0", "4.0", "1.0", "5.0"]),
        ("first(v, i)", ["7.0", "7.0", "7.0", "1.0", "1.0"]),
        ("last(i, i)", ["1", "2", "3", "4", "5"]),
        ("delta(v, i)", ["0.0", "-6.0", "-6.0", "0.0", "8.0"]),
        ("string_agg(s, '')", ["a", "ab", "abb", "bb", "bc"]),
        // Two negative zeros, then positive ones.
        (
            "count(DISTINCT (i - 3) * 0.0::double precision)",
            ["1", "1", "1", "1", "1"],
        ),
    ] {
        let sql = format!(
            "SELECT {call} OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM {table} ORDER BY i"
        );
        assert_eq!(store.rows(&sql).await, wanted, "{sql}");
    }
}

/// A frame that is aggregated again for each row works long for each: the statement ends in time, within a row too.
#[tokio::test]
async fn long_frames_that_are_aggregated_again_end_in_time() {
    let store = Store::with(SqlOptions {
        query_ms_max: 200,
        ..SqlOptions::default()
    });
    let began = std::time::Instant::now();
    for call in ["median(value)", "avg(DISTINCT value)", "stddev(value)"] {
        let sql = format!(
            "SELECT count(x) FROM (SELECT {call} OVER (ORDER BY value ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM generate_series(1, 3000000))"
        );
        let error = store.error(&sql).await;
        assert!(
            matches!(error, Error::Time { limit_ms: 200 }),
            "{sql}: {error:?}"
        );
    }
    assert!(began.elapsed() < std::time::Duration::from_mins(1));
}

/// The story: the variance of one NaN was 0, as if it were a number; `every` and `mod` were no functions. The answers are
/// those of PostgreSQL 15.18, which of floats knows no `mod`: there it is C's `fmod`.
#[tokio::test]
async fn statistics_every_and_mod_are_those_of_postgresql() {
    let store = Store::new();
    let groups = "(VALUES (1, 'NaN'::double precision, 1), (2, 'Infinity', 2), (3, 5, 3), (4, NULL, 4), (5, 1, 2), (5, 2, 2), (6, 1, 1), (6, 2, '-Infinity'::double precision)) AS t(k, v, w)";
    for (sql, wanted) in [
        (
            format!("SELECT var_pop(v), stddev_pop(v), var_samp(v), stddev(v) FROM {groups} GROUP BY k ORDER BY k"),
            vec!["NaN|NaN|-|-", "NaN|NaN|-|-", "0.0|0.0|-|-", "-|-|-|-", "0.25|0.5|0.5|0.7071067811865476", "0.25|0.5|0.5|0.7071067811865476"],
        ),
        (
            format!("SELECT covar_pop(v, w), corr(v, w), regr_slope(v, w), regr_r2(w, v), regr_count(v, w) FROM {groups} GROUP BY k ORDER BY k"),
            vec!["NaN|-|-|1.0|1", "NaN|-|-|1.0|1", "0.0|-|-|-|1", "-|-|-|-|0", "0.0|-|-|1.0|2", "NaN|NaN|NaN|NaN|2"],
        ),
        (
            "SELECT every(b), bool_and(b) FILTER (WHERE b), variance(i) FROM (VALUES (true, 1), (false, 2), (true, 4)) AS t(b, i)".to_owned(),
            vec!["false|true|2.3333333333333335"],
        ),
        (
            "SELECT mod(7, 3), mod(-7, 3), mod(7, -3), mod(-7.5, 2), mod((-9223372036854775808)::bigint, -1), mod(NULL, 2), mod(5 + 4, 2 + 2) * 3, mod(7.25::numeric, 0.5)".to_owned(),
            vec!["1|-1|1|-1.5|0|-|3|0.25"],
        ),
        (
            "SELECT mod(7.5::double precision, 2), mod('Infinity'::double precision, 2), 2 ^ mod(5, 3)".to_owned(),
            vec!["1.5|NaN|4.0"],
        ),
        (
            "SELECT mod(v, 2), count(*) FROM (VALUES (1), (2), (3)) AS t(v) GROUP BY mod(v, 2) ORDER BY mod(v, 2)".to_owned(),
            vec!["0|1", "1|2"],
        ),
    ] {
        assert_eq!(store.rows(&sql).await, wanted, "{sql}");
    }
    let error = store.error("SELECT mod(5, 0)").await;
    assert!(error.to_string().contains("division by zero"), "{error}");
    let sql = "SELECT every(true), mod(5, 2), variance(1.0), stddev_samp(2.0)";
    let (names, _) = store.answer(sql).await.unwrap();
    assert_eq!(names, ["every", "mod", "variance", "stddev_samp"]);
}
