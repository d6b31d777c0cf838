//! Promise: a grouped query on a raw table that a continuous aggregate can answer is answered by it, and answers what it does
//! without.

use std::sync::Arc;

use nilometer_query::{Error, Sql, SqlOptions};
use nilometer_service::{
    Access, Grant, LanguageContext, Principal, Privileges, Threads, UserChange, change_users,
};

use crate::support::Store;

async fn run(store: &Store, sql: &str) {
    let done = store.sql().query("d", sql).await;
    let done = done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    done.collect().await.unwrap();
}

async fn rows(sql: &Sql, query: &str) -> Vec<String> {
    let answer = sql.query("d", query).await;
    let answer = answer.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows = crate::support::rows(&answer.collect().await.unwrap());
    rows.sort();
    rows
}

/// The plan, as EXPLAIN says it.
async fn explained(store: &Store, query: &str) -> String {
    rows(store.sql(), &format!("EXPLAIN {query}"))
        .await
        .join("\n")
}

/// The same but for the last digits of floats: sums of sums are added in another order.
fn is_same(one: &str, other: &str) -> bool {
    let values = |row: &str| row.split('|').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (values(one), values(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            if one == other {
                return true;
            }
            match (one.parse::<f64>(), other.parse::<f64>()) {
                (Ok(one), Ok(other)) => (one - other).abs() <= 1e-12 * one.abs().max(other.abs()),
                _ => false,
            }
        })
}

async fn assert_same(store: &Store, query: &str, when: &str) {
    let found = rows(store.sql(), query).await;
    let expected = rows(&store.sql().without_aggregates(), query).await;
    let is_same = found.len() == expected.len()
        && found
            .iter()
            .zip(&expected)
            .all(|(one, other)| is_same(one, other));
    assert!(is_same, "{when}: {query}\n{found:#?}\n{expected:#?}");
}

const VIEW: &str = "SELECT time_bucket('1 minute', time) AS minute, host, count(*) AS n, count(v) AS n_v, sum(v) AS total, min(v) AS low, max(v) AS high, sum(w) AS total_w, count(w) AS n_w, first(v, time) AS opened, last(w, time) AS closed, max(time) AS newest FROM m GROUP BY minute, host";

/// A row a host and ten seconds for two hours; `w` is missing in every seventh.
async fn two_hours() -> Store {
    let store = Store::that_compacts();
    run(
        &store,
        "CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, rack TEXT TAG, v BIGINT, w DOUBLE PRECISION) WITH (duplicates = 'last')",
    )
    .await;
    let mut lines = Vec::new();
    for second in (0..7_200_i64).step_by(10) {
        for (at, host) in ["a", "b", "c"].iter().enumerate() {
            let offset = i64::try_from(at).unwrap();
            let v = (second * 31 + offset * 7) % 101;
            let w = (second % 7 != 0).then(|| format!(",w={}", (v as f64) * 0.1 + 0.01));
            lines.push(format!(
                "m,host={host},rack=r{} v={v}i{} {}",
                second % 2,
                w.unwrap_or_default(),
                second + offset
            ));
        }
    }
    store.write_seconds(&lines.join("\n"));
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {VIEW}"),
    )
    .await;
    store
}

/// Queries that the aggregate answers.
const ANSWERED: [&str; 16] = [
    "SELECT time_bucket('1 minute', time) AS b, host, count(*), sum(v) FROM m GROUP BY b, host",
    "SELECT time_bucket('1 minute', time) AS b, host, avg(w), avg(v), first(v, time), last(w, time) FROM m GROUP BY b, host",
    "SELECT time_bucket('60 seconds', time) AS b, min(v), max(v), count(*) FROM m WHERE host = 'a' GROUP BY b",
    "SELECT time_bucket('5 minutes', time) AS b, host, count(*), count(w), sum(w), avg(w), min(v), max(v) FROM m GROUP BY host, b",
    "SELECT time_bucket('5 minutes', time) AS b, host, first(v, time), last(w, time) FROM m GROUP BY b, host",
    "SELECT time_bucket('7 minutes', time) AS b, sum(v) AS s FROM m WHERE host IN ('a', 'b') GROUP BY b HAVING sum(v) > 100",
    "SELECT time_bucket('1 hour', m.time) AS b, sum(m.v) + count(*) AS s FROM m WHERE m.time >= '1970-01-01 00:10:00Z' AND m.time < '1970-01-01 01:20:00Z' GROUP BY b",
    "SELECT time_bucket('1 hour', time) AS b, sum(v) AS s FROM m WHERE time > '1970-01-01 00:10:07Z' AND time <= '1970-01-01 01:20:30Z' GROUP BY b",
    "SELECT time_bucket('10 minutes', x.time) AS b, x.host, max(x.time) FROM m AS x WHERE x.time BETWEEN '1970-01-01 00:10:00Z' AND '1970-01-01 01:00:00Z' GROUP BY b, x.host",
    "SELECT upper(host) AS h, time_bucket('10 minutes', time) AS b, sum(v) FROM m WHERE host <> 'c' GROUP BY h, b",
    "SELECT time_bucket('1 day', time) AS b, sum(v) FROM m GROUP BY 1",
    "SELECT time_bucket('1 month', time) AS b, count(v) FROM m GROUP BY 1",
    "SELECT b, max(s) FROM (SELECT time_bucket('2 minutes', time) AS b, host, sum(v) AS s FROM m GROUP BY b, host) AS q GROUP BY b",
    "WITH q AS (SELECT time_bucket('2 minutes', time) AS b, avg(v) AS s FROM m GROUP BY b) SELECT count(*), avg(s) FROM q",
    "SELECT time_bucket('2 minutes', time, INTERVAL '1 minute') AS b, sum(v) FROM m GROUP BY b ORDER BY b DESC LIMIT 5",
    "SELECT time_bucket('3 minutes', time) AS b, count(*) FROM m WHERE time_bucket('1 minute', time) <> '1970-01-01 00:02:00Z' GROUP BY b",
];

/// Queries that it does not.
const NOT_ANSWERED: [&str; 12] = [
    "SELECT time_bucket('1 minute', time) AS b, rack, count(*) FROM m GROUP BY b, rack",
    "SELECT time_bucket('1 minute', time) AS b, count(*) FROM m WHERE v > 5 GROUP BY b",
    "SELECT time_bucket('1 minute', time) AS b, count(*) FROM m WHERE rack = 'r0' GROUP BY b",
    "SELECT time_bucket('90 seconds', time) AS b, sum(v) FROM m GROUP BY b",
    "SELECT time_bucket('30 seconds', time) AS b, sum(v) FROM m GROUP BY b",
    "SELECT time_bucket('5 minutes', time, INTERVAL '30 seconds') AS b, sum(v) FROM m GROUP BY b",
    "SELECT time_bucket('5 minutes', time) AS b, count(DISTINCT host) FROM m GROUP BY b",
    "SELECT time_bucket('5 minutes', time) AS b, stddev(v) FROM m GROUP BY b",
    "SELECT time_bucket('5 minutes', time) AS b, first(v, time) FROM m GROUP BY b",
    "SELECT time_bucket('5 minutes', time) AS b, sum(v) FILTER (WHERE v > 3) FROM m GROUP BY b",
    "SELECT host, sum(v) FROM m GROUP BY host",
    "SELECT time_bucket('1 minute', time) AS b, sum(v) FROM m WHERE time >= '1970-01-01 00:00:10Z' AND time < '1970-01-01 00:00:50Z' GROUP BY b",
];

#[tokio::test]
async fn what_an_aggregate_can_answer_is_answered_by_it_and_is_the_same() {
    let store = two_hours().await;
    for round in ["fresh", "late rows and new ones", "refreshed"] {
        for query in ANSWERED {
            let plan = explained(&store, query).await;
            assert!(
                plan.contains("_materialized_c of the continuous aggregate \"c\""),
                "{round}: {query}: {plan}"
            );
            assert_same(&store, query, round).await;
        }
        for query in NOT_ANSWERED {
            let plan = explained(&store, query).await;
            assert!(
                !plan.contains("_materialized_c"),
                "{round}: {query}: {plan}"
            );
            assert_same(&store, query, round).await;
        }
        if round == "fresh" {
            run(&store, "INSERT INTO m VALUES (to_timestamp(601), 'a', 'r0', 1000, 0.5), (to_timestamp(3000.5), 'd', 'r1', -1000, NULL), (to_timestamp(7205), 'a', 'r1', 5, 1e6)").await;
            run(
                &store,
                "DELETE FROM m WHERE time >= to_timestamp(4000) AND time < to_timestamp(4100)",
            )
            .await;
            run(
                &store,
                "UPDATE m SET v = v + 1000 WHERE time = to_timestamp(5000)",
            )
            .await;
        } else {
            run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
        }
    }
}

/// Nothing of an aggregate that leaves rows out answers a query that wants them; one that wants the same is answered.
#[tokio::test]
async fn an_aggregate_of_some_rows_answers_queries_of_these() {
    let store = two_hours().await;
    run(&store, "DROP MATERIALIZED VIEW c").await;
    run(&store, "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 minute', time) AS minute, host, sum(v) AS total FROM m WHERE v > 50 AND rack = 'r0' GROUP BY minute, host").await;
    for (condition, is_answered) in [
        ("", false),
        ("WHERE v > 50", false),
        ("WHERE v > 49 AND rack = 'r0'", false),
        ("WHERE rack = 'r0' AND v > 50", true),
        ("WHERE rack = 'r0' AND v > 50 AND host = 'a'", true),
    ] {
        let query = format!(
            "SELECT time_bucket('4 minutes', time) AS b, sum(v) FROM m {condition} GROUP BY b"
        );
        let plan = explained(&store, &query).await;
        assert_eq!(
            plan.contains("_materialized_c"),
            is_answered,
            "{query}: {plan}"
        );
        assert_same(&store, &query, condition).await;
    }
    // One of groups that HAVING leaves out, of a join, or of other groups in no column: not all groups are stored.
    run(&store, "DROP MATERIALIZED VIEW c").await;
    run(&store, "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 minute', time) AS minute, host, sum(v) AS total FROM m GROUP BY minute, host HAVING sum(v) > 100").await;
    let query = "SELECT time_bucket('1 minute', time) AS b, host, sum(v) FROM m GROUP BY b, host";
    assert!(!explained(&store, query).await.contains("_materialized_c"));
    assert_same(&store, query, "HAVING").await;
}

/// Of two that can answer, the one with the wider buckets has fewer rows to read.
#[tokio::test]
async fn the_aggregate_with_the_widest_buckets_answers() {
    let store = two_hours().await;
    run(&store, "CREATE MATERIALIZED VIEW ten WITH (timescaledb.continuous) AS SELECT time_bucket('10 minutes', time) AS t, sum(v) AS total FROM m GROUP BY t").await;
    let hours = "SELECT time_bucket('1 hour', time) AS b, sum(v) FROM m GROUP BY b";
    let plan = explained(&store, hours).await;
    assert!(
        plan.contains("\"ten\"") && !plan.contains("_materialized_c"),
        "{plan}"
    );
    assert_same(&store, hours, "hours").await;
    let five = "SELECT time_bucket('5 minutes', time) AS b, sum(v) FROM m GROUP BY b";
    let plan = explained(&store, five).await;
    assert!(
        plan.contains("\"c\"") && !plan.contains("_materialized_ten"),
        "{plan}"
    );
    assert_same(&store, five, "five minutes").await;
    // Where nothing is stored, the other one.
    run(&store, "DROP MATERIALIZED VIEW ten").await;
    run(&store, "CREATE MATERIALIZED VIEW ten WITH (timescaledb.continuous) AS SELECT time_bucket('10 minutes', time) AS t, sum(v) AS total FROM m GROUP BY t WITH NO DATA").await;
    let plan = explained(&store, hours).await;
    assert!(plan.contains("\"c\""), "{plan}");
    assert_same(&store, hours, "nothing is stored").await;
}

/// A query that was asked before there was an aggregate was planned from its template for ever.
#[tokio::test]
async fn an_aggregate_answers_what_was_asked_before_it_was_made() {
    let store = two_hours().await;
    run(&store, "DROP MATERIALIZED VIEW c").await;
    let query =
        "SELECT time_bucket('5 minutes', time) AS b, sum(v) FROM m WHERE host = 'a' GROUP BY b";
    let expected = rows(store.sql(), query).await;
    rows(store.sql(), query).await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {VIEW}"),
    )
    .await;
    let without = rows(&store.sql().without_aggregates(), query).await;
    assert_eq!(without, expected);
    assert!(explained(&store, query).await.contains("_materialized_c"));
    assert_eq!(rows(store.sql(), query).await, expected);
    assert_eq!(
        store.sql().templates(),
        0,
        "a template of a query that an aggregate answers"
    );
}

/// Rows that retention drops are in stored answers yet, and a query on the table means the rows.
#[tokio::test]
async fn stored_answers_of_rows_that_are_gone_answer_nothing() {
    let store = Store::that_compacts();
    run(&store, "CREATE TABLE m (time TIMESTAMPTZ, v BIGINT)").await;
    run(
        &store,
        "INSERT INTO m SELECT now() - INTERVAL '1 hour' * g, 1 FROM generate_series(0, 99) AS s(g)",
    )
    .await;
    run(&store, "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS t, sum(v) AS total FROM m GROUP BY t").await;
    let query = "SELECT time_bucket('1 hour', time) AS b, sum(v) FROM m GROUP BY b";
    assert!(explained(&store, query).await.contains("_materialized_c"));
    store.compact();
    run(&store, "ALTER TABLE m SET (retention = '50 hours')").await;
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
    assert_same(&store, query, "some rows are gone").await;
    assert!(explained(&store, query).await.contains("_materialized_c"));
    assert_eq!(rows(store.sql(), "SELECT sum(total) FROM c").await, ["100"]);
    run(
        &store,
        "ALTER TABLE _materialized_c SET (retention = '20 hours')",
    )
    .await;
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
    assert_same(&store, query, "stored answers are gone").await;
}

struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A query of groups, buckets, conditions and measures that are drawn.
    fn query(&mut self) -> String {
        let width = self.one_of(&[
            "1 minute",
            "2 minutes",
            "5 minutes",
            "1 hour",
            "1 day",
            "90 seconds",
        ]);
        let group = self.one_of(&["", ", host", ", upper(host) AS up"]);
        let by = match group {
            "" => "",
            ", host" => ", host",
            _ => ", up",
        };
        let measures: Vec<String> = (0..3)
            .map(|at| {
                let it = self.one_of(&[
                    "count(*)",
                    "count(w)",
                    "sum(v)",
                    "sum(w)",
                    "avg(v)",
                    "avg(w)",
                    "min(v)",
                    "max(v)",
                    "max(time)",
                ]);
                format!("{it} AS a{at}")
            })
            .collect();
        let mut conditions = Vec::new();
        if self.below(3) == 0 {
            conditions.push(
                self.one_of(&[
                    "host = 'a'",
                    "host IN ('b', 'c')",
                    "host <> 'a' OR host IS NULL",
                ])
                .to_owned(),
            );
        }
        if self.below(2) == 0 {
            let edge = self.one_of(&[">", ">="]);
            conditions.push(format!("time {edge} to_timestamp({})", self.below(4_000)));
        }
        if self.below(2) == 0 {
            let edge = self.one_of(&["<", "<="]);
            conditions.push(format!("time {edge} to_timestamp({})", self.below(8_000)));
        }
        let condition = match conditions.as_slice() {
            [] => String::new(),
            all => format!(" WHERE ({})", all.join(") AND (")),
        };
        format!(
            "SELECT time_bucket('{width}', time) AS b{group}, {} FROM m{condition} GROUP BY b{by}",
            measures.join(", ")
        )
    }

    fn change(&mut self, newest: &mut u64) -> String {
        match self.below(8) {
            0..3 => {
                *newest += self.below(90);
                let late = self.below(*newest + 1);
                let rows: Vec<String> = [*newest, late, late + 1]
                    .iter()
                    .map(|second| {
                        let host = self.one_of(&["a", "b", "c"]);
                        let w = self.one_of(&["NULL", "0.1", "1e10", "-3.25"]);
                        format!(
                            "(to_timestamp({second}), '{host}', 'r0', {}, {w})",
                            self.below(100)
                        )
                    })
                    .collect();
                format!("INSERT INTO m VALUES {}", rows.join(", "))
            }
            3 => format!("UPDATE m SET v = v + 1 WHERE v % 7 = {}", self.below(7)),
            4 => format!("DELETE FROM m WHERE v = {}", self.below(100)),
            5 => {
                let from = self.below(*newest + 1);
                format!(
                    "DELETE FROM m WHERE time >= to_timestamp({from}) AND time < to_timestamp({})",
                    from + self.below(200)
                )
            }
            6 => "CALL refresh_continuous_aggregate('c', NULL, NULL)".to_owned(),
            _ => format!(
                "CALL refresh_continuous_aggregate('c', NULL, to_timestamp({}))",
                self.below(*newest + 1) + 60
            ),
        }
    }
}

#[tokio::test]
async fn drawn_queries_answer_the_same_with_and_without_whatever_was_written() {
    for (seed, duplicates) in [(1, "last"), (2, "keep"), (3, "last")] {
        let mut numbers = Drawn(seed);
        let mut store = Store::that_compacts();
        run(&store, &format!("CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, rack TEXT TAG, v BIGINT, w DOUBLE PRECISION) WITH (duplicates = '{duplicates}')")).await;
        run(
            &store,
            &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {VIEW}"),
        )
        .await;
        let (mut newest, mut answered) = (0, 0);
        for step in 0..30 {
            let change = numbers.change(&mut newest);
            run(&store, &change).await;
            match numbers.below(8) {
                0 => store.engine.flush().unwrap(),
                1 => store.compact(),
                2 => store = store.reopened(),
                _ => {}
            }
            for _ in 0..3 {
                let query = numbers.query();
                let when = format!("seed {seed}, step {step}: {change}");
                assert_same(&store, &query, &when).await;
                answered +=
                    usize::from(explained(&store, &query).await.contains("_materialized_c"));
            }
        }
        assert!(
            answered > 20,
            "seed {seed}: {answered} queries were answered by the aggregate"
        );
    }
}

/// Writers go on while others refresh and ask the raw table. The parts of an answer are of one moment: each batch adds two rows
/// with opposite values in two buckets, one of them late, and each delete takes such a pair.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_of_one_moment_while_others_write_and_refresh() {
    let store = Store::that_compacts();
    run(
        &store,
        "CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, v BIGINT)",
    )
    .await;
    run(&store, "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 minute', time) AS t, sum(v) AS total, count(*) AS n FROM m GROUP BY t").await;
    let writer = {
        let sql = store.sql().clone();
        tokio::spawn(async move {
            let mut drawn = Drawn(9);
            for nth in 1..50_u64 {
                let late = drawn.below(nth * 20);
                let insert = format!(
                    "INSERT INTO m VALUES (to_timestamp({}), 'w', {nth}), (to_timestamp({late}.5), 'w{nth}', -{nth})",
                    nth * 20
                );
                sql.query("d", &insert).await.unwrap();
                if nth % 5 == 0 {
                    let gone = format!("DELETE FROM m WHERE v = {0} OR v = -{0}", nth - 2);
                    sql.query("d", &gone).await.unwrap();
                }
            }
        })
    };
    let refresher = {
        let sql = store.sql().clone();
        tokio::spawn(async move {
            for _ in 0..12 {
                sql.query("d", "CALL refresh_continuous_aggregate('c', NULL, NULL)")
                    .await
                    .unwrap();
            }
        })
    };
    let query = "SELECT coalesce(sum(s), 0), coalesce(sum(n), 0) % 2 FROM (SELECT time_bucket('4 minutes', time) AS b, sum(v) AS s, count(*) AS n FROM m GROUP BY b) AS q";
    for _ in 0..25 {
        assert_eq!(rows(store.sql(), query).await, ["0|0"]);
    }
    writer.await.unwrap();
    refresher.await.unwrap();
    assert_same(
        &store,
        "SELECT time_bucket('2 minutes', time) AS b, sum(v), count(*) FROM m GROUP BY b",
        "at the end",
    )
    .await;
}

/// What a transaction has written itself counts before anybody else sees it.
#[tokio::test]
async fn a_transaction_is_answered_with_what_it_has_written() {
    let store = two_hours().await;
    let transaction = store.engine.begin().unwrap();
    let inside = store.sql().within(&transaction);
    let query = "SELECT time_bucket('5 minutes', time) AS b, sum(v), count(*) FROM m GROUP BY b";
    for change in [
        "INSERT INTO m VALUES ('1970-01-01 00:01:01Z', 'a', 'r0', 77, 1)",
        "DELETE FROM m WHERE v = 50",
    ] {
        inside.query("d", change).await.unwrap();
        let with = rows(&inside, query).await;
        let without = rows(&inside.without_aggregates(), query).await;
        assert_eq!(with, without, "{change}");
        let outside = rows(store.sql(), query).await;
        assert_ne!(with, outside, "{change}");
    }
    transaction.rollback();
    assert_same(&store, query, "after it").await;
}

/// The privileges of the table decide, and not those of the view or of its stored answers.
#[tokio::test]
async fn who_may_read_the_table_reads_it_through_the_aggregate_and_nobody_else_does() {
    let store = two_hours().await;
    let context = LanguageContext::new(
        Arc::clone(&store.engine),
        Threads::of_caller(),
        SqlOptions::default(),
    );
    let access = Access::new(&context, (None, None), true);
    let root = Principal::anyone();
    let users = [
        ("root", true, None),
        ("reads_m", false, Some("m")),
        ("reads_c", false, Some("c")),
    ];
    for (name, is_admin, table) in users {
        let (name, password) = (name.to_owned(), "secret".to_owned());
        let create = UserChange::Create {
            name: name.clone(),
            password,
            is_admin,
        };
        change_users(&store.engine, &root, create).unwrap();
        if let Some(table) = table {
            let grant = Grant {
                database: "d".to_owned(),
                schema: Some("public".to_owned()),
                table: Some(table.to_owned()),
                privileges: Privileges::READ,
            };
            change_users(
                &store.engine,
                &root,
                UserChange::Grant { user: name, grant },
            )
            .unwrap();
        }
    }
    let query = "SELECT time_bucket('5 minutes', time) AS b, sum(v) FROM m GROUP BY b";
    let expected = rows(store.sql(), query).await;
    assert_eq!(expected.len(), 24);
    let as_user = |name: &str| {
        store
            .sql()
            .asked_by(&access.standing_for(Some(name)).unwrap())
    };
    assert_eq!(rows(&as_user("reads_m"), query).await, expected);
    let explain = format!("EXPLAIN {query}");
    let plan = rows(&as_user("reads_m"), &explain).await.join("\n");
    assert!(plan.contains("_materialized_c"), "{plan}");
    for statement in [query, &explain] {
        let refused = as_user("reads_c").query("d", statement).await.unwrap_err();
        assert!(matches!(refused, Error::Denied(_)), "{refused}");
    }
    let refused = as_user("reads_m")
        .query("d", "SELECT * FROM _materialized_c")
        .await;
    assert!(matches!(refused.unwrap_err(), Error::Denied(_)));
}
