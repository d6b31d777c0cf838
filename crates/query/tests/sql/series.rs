//! Promise: what is recognised as a series query is answered as the planner answers it without, to the name, the type and the
//! order of each column, whatever state the rows are in; and a statement of a shape that was asked before is answered as afresh.
//!
//! Exact but for sums and means of floats, which may be off by 1e-12 of the magnitudes. `PROPTEST_CASES` asks for more cases.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers that are drawn are small"
)]

mod data;
mod joined;
mod questions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nilometer_query::{Error, Param, Params, Sql, SqlOptions};

use crate::support::Store;
use data::{Dice, World};
use questions::Question;

/// Statements that are asked of one store.
const QUESTIONS: usize = 30;

/// Questions without a wish. Each is asked with two sets of values, which are two cases: ten thousand where the code is optimised. Where it
/// is not, as while it is written, a case takes twenty times as long.
const CASES: usize = if cfg!(debug_assertions) { 240 } else { 5000 };

/// Questions of which is said whether they were recognised. The plan for that costs as much as an answer.
const EXPLAINED: usize = 600;

/// What the recogniser never makes of SQL, as the text of a series query has it: these clauses are compared with a model that goes
/// over all rows, in `crates/series/tests/property`.
const NEVER: [&str; 14] = [
    "; choose ",
    "; fill ",
    "; limit groups ",
    "previous(",
    "next(",
    "median(",
    "mode(",
    "percentile",
    "histogram(",
    "stddev(",
    "spread(",
    "count(distinct ",
    "rules influx",
    // Several tables.
    "from d.public.merged, ",
];

struct Found {
    schema: SchemaRef,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Float(f64),
    Other(String),
}

async fn ask(sql: &Sql, statement: &str) -> Result<Found, Error> {
    let answer = sql.query("d", statement).await?;
    let schema = answer.schema();
    let batches = answer.collect().await?;
    for batch in &batches {
        let (told, is) = (schema.fields(), batch.schema());
        for (told, is) in told.iter().zip(is.fields()) {
            assert_eq!(told.data_type(), is.data_type(), "{statement}");
        }
    }
    let rows = batches.iter().flat_map(cells).collect();
    Ok(Found { schema, rows })
}

fn cells(batch: &RecordBatch) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<Cell>> = batch.columns().iter().map(column).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

fn column(values: &ArrayRef) -> Vec<Cell> {
    let options = FormatOptions::default().with_null("NULL");
    let plain = match values.data_type() {
        DataType::Dictionary(_, of) => cast(values, of).unwrap(),
        _ => Arc::clone(values),
    };
    let shown = ArrayFormatter::try_new(&plain, &options).unwrap();
    let floats = plain.as_primitive_opt::<Float64Type>();
    (0..plain.len())
        .map(|row| match floats {
            Some(floats) if floats.is_valid(row) => Cell::Float(floats.value(row)),
            _ => Cell::Other(shown.value(row).to_string()),
        })
        .collect()
}

fn is_same(one: &Cell, other: &Cell, question: &Question) -> bool {
    match (one, other) {
        (Cell::Float(one), Cell::Float(other)) => {
            let is_bitwise = one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan());
            // Which of two zeros the extreme of both is depends on the order of rows.
            is_bitwise || (question.is_grouped && (one - other).abs() <= question.off)
        }
        (one, other) => one == other,
    }
}

/// In an order that sums which are a little off do not change: by all that is no float first.
fn sorted(mut rows: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
    let key = |row: &Vec<Cell>| {
        let others = row.iter().map(|cell| match cell {
            Cell::Other(text) => text.clone(),
            Cell::Float(_) => String::new(),
        });
        let floats = row.iter().map(|cell| match cell {
            Cell::Float(value) => format!("{:.3e}", value + 0.0),
            Cell::Other(_) => String::new(),
        });
        (others.collect::<Vec<_>>(), floats.collect::<Vec<_>>())
    };
    rows.sort_by_cached_key(key);
    rows
}

fn compare(
    what: &str,
    question: &Question,
    found: Result<Found, Error>,
    wanted: Result<Found, Error>,
) {
    let (found, wanted) = match (found, wanted) {
        (Ok(found), Ok(wanted)) => (found, wanted),
        (Err(found), Err(wanted)) => {
            assert_eq!(
                std::mem::discriminant(&found),
                std::mem::discriminant(&wanted),
                "{what}\n{found}\n{wanted}"
            );
            return;
        }
        // Whether a sum of a group that a limit leaves out fails depends on how groups are made.
        (Ok(_), Err(_)) if what.contains(" LIMIT ") => return,
        (Ok(_), Err(error)) => panic!("{what}\nanswered, and without series queries: {error}"),
        (Err(error), Ok(_)) => panic!("{what}\n{error}"),
    };
    assert_eq!(found.schema, wanted.schema, "{what}");
    assert_eq!(found.rows.len(), wanted.rows.len(), "{what}");
    let (found, wanted) = if question.is_ordered {
        (found.rows, wanted.rows)
    } else {
        (sorted(found.rows), sorted(wanted.rows))
    };
    for (row, (one, other)) in found.iter().zip(&wanted).enumerate() {
        let mut pairs = one.iter().zip(other);
        assert!(
            pairs.all(|(one, other)| is_same(one, other, question)),
            "{what}\nrow {row}\n{one:?}\n{other:?}"
        );
    }
}

/// What became of a store.
struct Checked {
    /// Statements that were recognised, of those that were explained.
    recognised: usize,
    explained: usize,
    is_compacted: bool,
}

async fn check(seed: u64, explains: bool) -> Checked {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice).await;
    let engine = &world.engine;
    let plain = Sql::without_series(Arc::clone(engine), SqlOptions::default()).unwrap();
    let sql = Sql::new(Arc::clone(engine), SqlOptions::default()).unwrap();
    let mut changes = String::new();
    while dice.one_in(4) {
        // What is refused, because a value would change, changes nothing.
        let change = dice.one(&[
            "ALTER TABLE merged ALTER COLUMN n TYPE DOUBLE PRECISION",
            "ALTER TABLE replaced ALTER COLUMN u TYPE BIGINT",
            "ALTER TABLE merged DROP COLUMN u, ADD COLUMN u BIGINT",
            "ALTER TABLE replaced DROP COLUMN rack, ADD COLUMN rack TEXT TAG",
            "ALTER TABLE kept RENAME COLUMN f TO g, RENAME COLUMN n TO f, RENAME COLUMN g TO n",
        ]);
        for part in change.split(", ") {
            let table = change.split(' ').nth(2).unwrap_or_default();
            let part = part.trim_start_matches(&format!("ALTER TABLE {table} "));
            let done = sql.query("d", &format!("ALTER TABLE {table} {part}")).await;
            changes.push_str(&[table, " ", part, ": ", &done.is_ok().to_string(), "; "].concat());
        }
        if dice.one_in(2) {
            engine.flush().unwrap();
        }
    }
    let mut recognised = 0;
    for _ in 0..QUESTIONS {
        let question = questions::question(&mut dice, &world);
        // The second is of the shape of the first, and answered from its template.
        for statement in &question.statements {
            let what = format!("seed {seed}, {}{changes}\n{statement}", world.history);
            let found = ask(&sql, statement).await;
            compare(&what, &question, found, ask(&plain, statement).await);
        }
        if explains && is_recognised(&sql, &question.statements[0]).await {
            recognised += 1;
        }
    }
    Checked {
        recognised,
        explained: if explains { QUESTIONS } else { 0 },
        is_compacted: world.is_compacted,
    }
}

/// Whether a series query is in the plan, made of clauses that are known to be made.
async fn is_recognised(sql: &Sql, statement: &str) -> bool {
    let Ok(plan) = ask(sql, &format!("EXPLAIN {statement}")).await else {
        return false;
    };
    let plan = format!("{:?}", plan.rows);
    let queries = plan.split("SeriesExec: ").skip(1);
    for query in queries.clone() {
        let query = query.split("; table=").next().unwrap_or_default();
        for clause in NEVER {
            assert!(!query.contains(clause), "{clause:?}: {statement}\n{query}");
        }
    }
    queries.count() > 0
}

#[test]
fn series_queries_answer_as_the_planner_does() {
    let wish = std::env::var("PROPTEST_CASES").ok();
    let wish: Option<usize> = wish.and_then(|cases| cases.parse().ok());
    let stores = wish.unwrap_or(CASES).div_ceil(QUESTIONS) as u64;
    let next = AtomicU64::new(0);
    // Two of them, as the machines have on which this has to end soon.
    let read = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let (mut recognised, mut all, mut compacted) = (0, 0, 0);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= stores {
                return [recognised, all, compacted];
            }
            let explains = seed * (QUESTIONS as u64) < EXPLAINED as u64;
            let checked = runtime.block_on(check(seed, explains));
            recognised += checked.recognised;
            all += checked.explained;
            compacted += usize::from(checked.is_compacted);
        }
    };
    let found = std::thread::scope(|scope| {
        let threads = [scope.spawn(read), scope.spawn(read)];
        threads.map(|thread| thread.join().unwrap())
    });
    let [recognised, all, compacted] = [0, 1, 2].map(|at| found[0][at] + found[1][at]);
    // Of the first stores every fifth is, or more.
    assert!(compacted * 8 >= stores as usize, "{compacted} of {stores}");
    // The property says nothing of what is never recognised.
    assert!(recognised * 10 >= all * 6, "{recognised} of {all}");
}

/// Statements of the Time Series Benchmark Suite, of which each must be one.
#[tokio::test]
async fn what_dashboards_ask_is_one_series_query() {
    let mut dice = Dice::new(1);
    let world = World::new(&mut dice).await;
    let sql = Sql::new(Arc::clone(&world.engine), SqlOptions::default()).unwrap();
    let within = "time >= '2024-10-04 00:10:00.5 +0000' AND time < timestamp '2024-10-04 05:00:00'";
    for statement in [
        format!("SELECT time_bucket('1 minute', time) AS minute, max(f) AS max_f FROM merged WHERE host IN ('a') AND {within} GROUP BY minute ORDER BY minute ASC"),
        format!("SELECT time_bucket('60 seconds', time) AS minute, max(f), max(n) FROM merged WHERE host IN ('a', 'b', 'x', 'y', 'z') AND {within} GROUP BY minute ORDER BY minute"),
        format!("SELECT time_bucket('1 hour', time) AS hour, host, avg(f) AS mean_f, avg(n) FROM merged WHERE {within} GROUP BY hour, host ORDER BY hour, host"),
        format!("SELECT * FROM merged WHERE f > 90.0 AND {within} AND host IN ('a')"),
        format!("SELECT * FROM merged WHERE n > 90.0 AND {within}"),
        "SELECT DISTINCT ON (host) * FROM merged ORDER BY host, time DESC".to_owned(),
        "SELECT time_bucket('1 minute', time) AS minute, max(f) FROM merged WHERE time < '2024-10-04 05:00:00' GROUP BY minute ORDER BY minute DESC LIMIT 5".to_owned(),
        "SELECT host, last(f, time), last(n, time) FROM merged GROUP BY host ORDER BY host".to_owned(),
        "SELECT count(*), min(time), max(time) FROM merged".to_owned(),
        "SELECT * FROM merged WHERE host = 'a' ORDER BY time DESC LIMIT 1".to_owned(),
    ] {
        let before = sql.templates();
        for _ in 0..2 {
            ask(&sql, &statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let plan = ask(&sql, &format!("EXPLAIN {statement}")).await.unwrap();
        let plan = format!("{:?}", plan.rows);
        assert!(plan.contains("SeriesExec"), "{statement}\n{plan}");
        // Nothing stands above it, and the next of its shape has no plan.
        for other in ["SortExec", "FilterExec", "ProjectionExec", "AggregateExec"] {
            assert!(!plan.contains(other), "{statement}\n{plan}");
        }
        assert_eq!(sql.templates(), before + 1, "{statement}");
    }
}

/// The tables of the suite's loader for TimescaleDB, and its statements over them. A hypertable's columns are in the order that they were
/// declared in, its tags are integers, and none of its statements was a series query once for that.
#[tokio::test]
async fn what_the_suite_asks_of_hypertables_is_made_of_series_queries() {
    let store = Store::new();
    for statement in [
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, hostname TEXT, fleet TEXT, name TEXT, driver TEXT, load_capacity DOUBLE PRECISION)",
        "CREATE TABLE cpu (time TIMESTAMPTZ, tags_id INTEGER, hostname TEXT, usage_user DOUBLE PRECISION, usage_system DOUBLE PRECISION, additional_tags JSONB DEFAULT NULL) \
         WITH (tsdb.hypertable, tsdb.partition_column = 'time', tsdb.segmentby = 'tags_id')",
        "INSERT INTO tags VALUES (1, 'host_0', 'South', 'truck_0', 'Trish', 1500), (10, 'host_9', 'South', 'truck_9', 'Rodney', 2000)",
        "INSERT INTO cpu VALUES ('2016-01-01 00:00:00+00', 1, 'host_0', 58, 2, NULL), ('2016-01-01 00:00:10+00', 1, 'host_0', 57, 3, NULL), \
         ('2016-01-01 00:00:00+00', 10, 'host_9', 95, 5, NULL), ('2016-01-01 01:00:00+00', 10, 'host_9', 91, 7, NULL)",
    ] {
        store
            .batches(statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let plain = Sql::without_series(Arc::clone(&store.engine), SqlOptions::default()).unwrap();
    let question = Question {
        statements: [String::new(), String::new()],
        is_ordered: false,
        is_grouped: true,
        off: 1e-9,
    };
    let mut others: Vec<String> = Vec::new();
    let within =
        "time >= '2015-12-31 23:59:52.646325 +0000' AND time < '2016-01-01 01:47:52.646325 +0000'";
    for statement in [
        format!("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) as max_usage_user FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname IN ('host_9')) AND {within} GROUP BY minute ORDER BY minute ASC"),
        format!("SELECT time_bucket('3600 seconds', time) AS hour, max(usage_user), max(usage_system) FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname IN ('host_9','host_3','host_0')) AND {within} GROUP BY hour ORDER BY hour"),
        format!("WITH cpu_avg AS (SELECT time_bucket('3600 seconds', time) as hour, tags_id, avg(usage_user) as mean_usage_user FROM cpu WHERE {within} GROUP BY 1, 2) SELECT hour, tags.hostname, mean_usage_user FROM cpu_avg JOIN tags ON cpu_avg.tags_id = tags.id ORDER BY hour, tags.hostname"),
        format!("SELECT * FROM cpu WHERE usage_user > 90.0 and {within} AND tags_id IN (SELECT id FROM tags WHERE hostname IN ('host_9'))"),
        "SELECT DISTINCT ON (t.hostname) * FROM tags t INNER JOIN LATERAL(SELECT * FROM cpu c WHERE c.tags_id = t.id ORDER BY time DESC LIMIT 1) AS b ON true ORDER BY t.hostname, b.time DESC".to_owned(),
        "SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE time < '2016-01-01 08:47:52.646325 +0000' GROUP BY minute ORDER BY minute DESC LIMIT 5".to_owned(),
        "SELECT t.name AS name, t.driver AS driver, r.* FROM tags t INNER JOIN LATERAL (SELECT usage_user, usage_system FROM cpu r WHERE r.tags_id=t.id ORDER BY time DESC LIMIT 1) r ON true WHERE t.name IN ('truck_9')".to_owned(),
        "SELECT t.name AS name, t.driver AS driver, d.* FROM tags t INNER JOIN LATERAL (SELECT usage_user FROM cpu d WHERE d.tags_id=t.id ORDER BY time DESC LIMIT 1) d ON true WHERE t.name IS NOT NULL AND d.usage_user/t.load_capacity > 0.04 AND t.fleet = 'South'".to_owned(),
        format!("SELECT t.name AS name, t.driver AS driver FROM tags t INNER JOIN cpu r ON r.tags_id = t.id WHERE {within} AND t.name IS NOT NULL AND t.fleet = 'South' GROUP BY 1, 2 HAVING avg(r.usage_user) < 60"),
        format!("SELECT t.name AS name, t.driver AS driver FROM tags t INNER JOIN LATERAL (SELECT time_bucket('10 minutes', time) AS ten_minutes, tags_id FROM cpu WHERE {within} GROUP BY ten_minutes, tags_id HAVING avg(usage_user) > 1 ORDER BY ten_minutes, tags_id) AS r ON t.id = r.tags_id WHERE t.name IS NOT NULL AND t.fleet = 'South' GROUP BY name, driver HAVING count(r.ten_minutes) > 1"),
        "WITH sessions AS (SELECT time_bucket('10 minutes', TIME) AS ten_minutes, tags_id FROM cpu r GROUP BY tags_id, ten_minutes HAVING avg(usage_user) > 1), daily AS (SELECT time_bucket('24 hours', ten_minutes) AS day, tags_id, count(*) / 6 AS hours FROM sessions GROUP BY day, tags_id) SELECT t.fleet AS fleet, t.name AS name, t.driver AS driver, avg(d.hours) AS avg_daily_hours FROM daily d INNER JOIN tags t ON t.id = d.tags_id GROUP BY fleet, name, driver".to_owned(),
        "SELECT t.fleet AS fleet, avg(r.usage_user) AS average, avg(t.load_capacity) AS projected FROM tags t INNER JOIN LATERAL(SELECT tags_id, usage_user FROM cpu r WHERE r.tags_id = t.id AND usage_system > 2) r ON true WHERE t.fleet IS NOT NULL AND t.load_capacity IS NOT NULL AND t.name IS NOT NULL GROUP BY fleet".to_owned(),
        format!("SELECT t.fleet, count(*), count(r.usage_system), sum(r.usage_user), min(r.usage_user), max(r.hostname), max(t.driver), avg(t.load_capacity) FROM cpu r JOIN tags t ON r.tags_id = t.id WHERE {within} GROUP BY t.fleet"),
        "SELECT t.name AS name, t.driver AS driver, d.* FROM tags t INNER JOIN LATERAL (SELECT usage_system FROM cpu d WHERE d.tags_id=t.id ORDER BY time DESC LIMIT 1) d ON true WHERE t.name IS NOT NULL AND d.usage_system < 4 AND t.fleet = 'South'".to_owned(),
        "SELECT t.fleet AS fleet, t.load_capacity, avg(d.avg_load / t.load_capacity) AS part FROM tags t INNER JOIN (SELECT tags_id, avg(usage_user) AS avg_load FROM cpu d GROUP BY tags_id) d ON t.id = d.tags_id WHERE t.name IS NOT NULL GROUP BY t.fleet, t.load_capacity".to_owned(),
    ] {
        let found = ask(store.sql(), &statement).await;
        match &found {
            Ok(found) => assert!(!found.rows.is_empty(), "{statement}"),
            Err(error) => panic!("{statement}: {error}"),
        }
        compare(&statement, &question, found, ask(&plain, &statement).await);
        let explained = ask(store.sql(), &format!("EXPLAIN {statement}")).await.unwrap();
        let shown = format!("{:#?}", explained.rows);
        if !shown.contains("SeriesExec") || shown.contains("SeriesScan") {
            others.push(format!("{statement}\n{shown}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// A prepared statement comes with other values each time, and is planned once.
#[tokio::test]
async fn parameters_are_put_into_the_shape() {
    let mut dice = Dice::new(3);
    let world = World::new(&mut dice).await;
    let plain = Sql::without_series(Arc::clone(&world.engine), SqlOptions::default()).unwrap();
    let sql = Sql::new(Arc::clone(&world.engine), SqlOptions::default()).unwrap();
    let statement = "SELECT time_bucket('1 hour', time) AS hour, count(*), max(u) FROM merged \
                     WHERE time >= $1 AND time < $2 AND host IN ($3, $4) GROUP BY hour ORDER BY hour";
    let values = |hour: i64, host: &str| {
        let time = |hours: i64| Param::Time(data::START + hours * 3600 * data::SECOND);
        let mut params = Params::new();
        params
            .push(time(hour))
            .push(time(hour + 3))
            .push(host)
            .push("b");
        params
    };
    for (hour, host) in [(-1, "a"), (0, "ab"), (1, "host c"), (2, "nobody")] {
        let params = values(hour, host);
        let rows = async |sql: &Sql| {
            let answer = sql.query_with("d", statement, &params).await.unwrap();
            let batches = answer.collect().await.unwrap();
            batches.iter().flat_map(cells).collect::<Vec<_>>()
        };
        assert_eq!(rows(&sql).await, rows(&plain).await, "{hour} {host}");
    }
    assert_eq!(sql.templates(), 1);
    // A number may make another plan, so it is another shape.
    for rows in 1..=2_i64 {
        let mut params = Params::new();
        params.push(rows);
        let limited = "SELECT time FROM merged ORDER BY time LIMIT $1";
        let answer = sql.query_with("d", limited, &params).await.unwrap();
        let batches = answer.collect().await.unwrap();
        let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert!(found <= rows as usize, "{found} rows of {rows}");
    }
    assert_eq!(sql.templates(), 3);
}

/// Buckets of the first times begin before there are times; a field may be called as a tag is, and a tag as what is counted;
/// all are rare and none is a reason to answer otherwise.
#[tokio::test]
async fn odd_names_and_the_ends_of_time_are_answered_as_without() {
    let store = Store::new();
    store.write(&format!(
        "edge,host=a v=1i {}\nedge,host=a v=2i {}\nedge,host=b v=4i 0\nodd,rows=y v=1i,rows=5i 5\nodd,rows=z v=2i 6\nodd v=3i 7",
        i64::MIN + 2,
        i64::MAX - 1
    ));
    let plain = Sql::without_series(Arc::clone(&store.engine), SqlOptions::default()).unwrap();
    let question = Question {
        statements: [String::new(), String::new()],
        is_ordered: false,
        is_grouped: true,
        off: 0.0,
    };
    for sql in [
        "SELECT time_bucket('1 hour', time), sum(v) FROM edge GROUP BY 1",
        "SELECT time_bucket('1 hour', time), sum(v) FROM edge WHERE host = 'b' GROUP BY 1",
        "SELECT time_bucket('1 hour', time), sum(v) FROM edge WHERE time > '1970-01-01' GROUP BY 1",
        "SELECT date_trunc('day', time), sum(v) FROM edge WHERE time >= '1970-01-01' GROUP BY 1",
        "SELECT host, min(time), max(time), count(*) FROM edge GROUP BY host",
        "SELECT * FROM edge WHERE time <= '9999-01-01' AND time >= '0001-01-01'",
        "SELECT * FROM edge WHERE time < '1600-01-01'",
        "SELECT rows, count(*) FROM odd GROUP BY rows",
        "SELECT rows, max(rows_1), max(v) AS rows, count(*) AS time FROM odd GROUP BY rows",
        "SELECT DISTINCT ON (rows) * FROM odd ORDER BY rows, time DESC",
        "SELECT rows FROM odd GROUP BY rows",
        "SELECT DISTINCT rows FROM odd",
        "SELECT * FROM odd WHERE rows = 'y' OR v > 2",
        "SELECT rows_1, rows FROM odd WHERE rows_1 = 5",
        "SELECT count(*) FROM edge WHERE false",
        "SELECT host, count(*) FROM edge WHERE host IN ('a', NULL) GROUP BY host",
        "SELECT host, count(*) FROM edge WHERE host NOT IN ('a', NULL) GROUP BY host",
        "SELECT host, sum(v) FROM edge GROUP BY host LIMIT 0",
    ] {
        // From a plan, and then from a template.
        for _ in 0..2 {
            compare(
                sql,
                &question,
                ask(store.sql(), sql).await,
                ask(&plain, sql).await,
            );
        }
    }
}
