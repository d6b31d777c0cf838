//! Templates of statements. That what is planned from one is what is planned afresh is checked for each query of these tests,
//! as it is and with other texts, wherever it is asked (`Store::answer`); here it is checked on purpose.

use std::fmt::Write;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nilometer_engine::{Clock, SystemClock};

use crate::support::Store;

const NS: i64 = 1_000_000_000;

fn store() -> Store {
    let store = Store::new();
    let mut lines = String::new();
    for minute in 0..180i64 {
        for host in 0..5 {
            let time = (1_451_606_400 + minute * 60) * NS;
            let user = (minute * 7 + host * 13) % 100;
            let region = ["eu", "us"][usize::from(host > 2)];
            writeln!(
                lines,
                "cpu,hostname=host_{host},region={region} usage_user={user}i,idle={host}.5 {time}"
            )
            .unwrap();
        }
    }
    store.write(&lines);
    store
}

/// Statements whose values may be others, with a place for each of hosts, start and end.
const TEMPLATES: [&str; 8] = [
    "SELECT time_bucket('1 hour', time) AS hour, max(usage_user), max(idle) FROM cpu WHERE hostname IN (HOSTS) AND time >= timestamp 'START' AND time < timestamp 'END' GROUP BY hour ORDER BY hour",
    "SELECT time_bucket('1 minute', time) AS minute, max(usage_user) AS m FROM cpu WHERE hostname IN (HOSTS) AND time >= 'START' AND time < 'END' GROUP BY minute ORDER BY minute",
    "SELECT c.hostname, count(*), avg(c.idle) FROM cpu c WHERE c.time BETWEEN 'START' AND 'END' AND c.region = 'eu' GROUP BY c.hostname ORDER BY c.hostname",
    "SELECT * FROM cpu WHERE usage_user > 90.0 AND time >= timestamp 'START' AND time < timestamp 'END' AND hostname IN (HOSTS) ORDER BY time, hostname",
    "SELECT time, usage_user FROM cpu WHERE hostname IN (HOSTS) AND time < 'END' ORDER BY time DESC LIMIT 5",
    "SELECT region, hostname, last(usage_user, time) FROM cpu WHERE time > 'START' AND hostname IN (HOSTS) AND region IN ('us') GROUP BY region, hostname ORDER BY region, hostname",
    "SELECT count(*) FROM cpu WHERE hostname IN (HOSTS)",
    "SELECT date_trunc('hour', time) AS h, sum(usage_user) FROM \"cpu\" WHERE \"time\" > '2016-01-01 00:30:00.5' AND hostname IN (HOSTS) GROUP BY 1 ORDER BY 1",
];

const HOSTS: [&str; 8] = [
    "'host_1'",
    "'host_4'",
    "'nobody'",
    "'host_0', 'host_3'",
    "'host_3', '', 'host_1'",
    "'host_0', 'host_1', 'host_2', 'host_3'",
    "'host_4', 'host_3', 'x''y', 'host_1', 'host_0'",
    "'host_1', 'host_1'",
];

const RANGES: [[&str; 2]; 6] = [
    ["2016-01-01T00:00:00Z", "2016-01-01T03:00:00Z"],
    ["2016-01-01T00:12:34Z", "2016-01-01T01:59:59.999999999Z"],
    ["2016-01-01 01:00:00", "2016-01-01 02:00:00"],
    ["2016-01-01T02:00:00Z", "2016-01-01T01:00:00Z"],
    ["2016-01-01", "2016-01-01T02:00:00+01:00"],
    ["1999-12-31T23:59:59Z", "2030-01-01T00:00:00"],
];

fn with(template: &str, hosts: &str, [start, end]: [&str; 2]) -> String {
    let sql = template.replace("HOSTS", hosts);
    sql.replace("START", start).replace("END", end)
}

#[tokio::test]
async fn a_statement_with_other_literals_is_planned_and_answered_as_afresh() {
    let store = store();
    for template in TEMPLATES {
        for hosts in HOSTS {
            for range in RANGES {
                let sql = with(template, hosts, range);
                // Compares the plans, and then asks with the template.
                let rows = store.rows(&sql).await;
                // A condition that is always true leaves no template for it.
                let afresh = sql.replace("WHERE ", "WHERE (1 < 2 OR hostname = 'x') AND ");
                assert_eq!(rows, store.rows(&afresh).await, "{sql}");
            }
        }
    }
    // By the number of values in the list: one, two, three, more.
    let of_lists = TEMPLATES.iter().filter(|sql| sql.contains("HOSTS")).count();
    let of_others = TEMPLATES.len() - of_lists;
    assert!(
        store.sql().templates() >= 4 * of_lists + of_others,
        "{}",
        store.sql().templates()
    );
}

#[tokio::test]
async fn what_could_be_another_plan_with_other_literals_has_no_template() {
    let store = store();
    for sql in [
        "SELECT count(*) FROM cpu WHERE time > now() - interval '1 month' AND hostname = 'host_1'",
        "SELECT count(*), now() FROM cpu WHERE time > now() - interval '1 hour'",
        "SELECT count(*), random() FROM cpu WHERE time > now() - interval '1 hour'",
        "SELECT count(*) FROM cpu WHERE hostname = 'host_1' OR hostname = 'host_2'",
        "SELECT count(*) FROM cpu WHERE hostname = 'host_1' AND hostname = 'host_2'",
        "SELECT count(*) FROM cpu WHERE hostname = 'host_1' AND hostname <> 'host_2'",
        "SELECT count(*) FROM cpu WHERE time > '2016-01-01T00:00:00Z' AND time >= '2016-01-01T01:00:00Z'",
        "SELECT count(*) FROM cpu WHERE time = '2016-01-01T00:00:00Z'",
        "SELECT count(*) FROM cpu WHERE hostname = region AND hostname = 'host_1'",
        "SELECT count(*) FROM cpu WHERE hostname NOT IN ('host_1', 'host_2')",
        "SELECT count(*) FROM cpu WHERE upper(hostname) = 'HOST_1'",
        "SELECT count(*), 'host_1' FROM cpu WHERE hostname = 'host_1'",
        "SELECT count(*) FROM cpu a JOIN cpu b ON a.time = b.time WHERE a.hostname = 'host_1'",
        "SELECT table_name FROM information_schema.tables WHERE table_name = 'cpu'",
        "SELECT time_bucket_gapfill('1 hour', time) AS h, avg(idle) FROM cpu WHERE hostname = 'host_1' AND time >= '2016-01-01T00:00:00Z' AND time < '2016-01-01T02:00:00Z' GROUP BY h",
    ] {
        store.batches(sql).await.unwrap();
        assert_eq!(store.sql().templates(), 0, "{sql}");
    }
}

/// A dashboard asks for the last hour again and again, and each time it is another one.
#[tokio::test]
async fn this_moment_is_that_of_each_statement() {
    let store = store();
    let now = || SystemClock.now_ns();
    let second = 1_000_000_000;
    // A row that comes into the window, and one that is long past.
    for (host, time) in [("new", now()), ("old", now() - 7200 * second)] {
        store.write(&format!(
            "cpu,hostname={host},region=eu usage_user=1i {time}"
        ));
    }
    let statements = [
        "SELECT hostname, count(*) FROM cpu WHERE time > now() - INTERVAL '1 hour' GROUP BY hostname",
        "SELECT hostname, count(*) FROM cpu WHERE time >= now() - interval '1 day' AND time < now() - interval '90 minutes' GROUP BY hostname",
        "SELECT hostname, usage_user + 1 FROM cpu WHERE now() - interval '1 hour' < time AND hostname = 'new'",
        "SELECT hostname, usage_user + 1 FROM cpu WHERE time > now() - interval '1 hour' AND hostname = 'new'",
    ];
    let wanted = ["new|1", "old|1", "new|2", "new|2"];
    for _ in 0..3 {
        for (sql, wanted) in statements.iter().zip(wanted) {
            assert_eq!(store.rows(sql).await, [wanted], "{sql}");
        }
    }
    // The one that is turned around has none.
    assert_eq!(store.sql().templates(), 3);
    // A template that was made long ago says what is the case now: the window ends with this statement.
    let before = "SELECT count(*) FROM cpu WHERE time > now() AND hostname = 'new'";
    assert_eq!(store.rows(before).await, ["0"]);
    store.write(&format!(
        "cpu,hostname=new usage_user=1i {}",
        now() + second / 2
    ));
    assert_eq!(store.rows(before).await, ["1"]);
}

/// What a text without an offset says depends on the zone, and so does what a template is of.
#[tokio::test]
async fn zones_have_templates_of_their_own() {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    let count = async |sql: &nilometer_query::Sql, statement: &str| {
        let answer = sql.query("d", statement).await.unwrap();
        let batches = answer.collect().await.unwrap();
        let count = batches[0].column(0).as_primitive::<Int64Type>();
        count.value(0)
    };
    // Rows begin at midnight in UTC, which is one o'clock in Berlin.
    for (text, utc, local) in [
        ("2016-01-01 00:00:00", 0, 0),
        ("2016-01-01T01:00:00Z", 5, 5),
        ("2016-01-01 01:00:00", 5, 0),
    ] {
        for form in ["'TEXT'", "timestamp 'TEXT'"] {
            let statement = format!(
                "SELECT count(DISTINCT hostname) FROM cpu WHERE time < {}",
                form.replace("TEXT", text)
            );
            for _ in 0..2 {
                let wanted = |count: i64, is_text: bool| {
                    // After TIMESTAMP an offset is left out.
                    if text.ends_with('Z') && !is_text {
                        None
                    } else {
                        Some(count)
                    }
                };
                let found = count(store.sql(), &statement).await;
                assert_eq!(
                    found,
                    wanted(utc, form == "'TEXT'").unwrap_or(found),
                    "{statement}"
                );
                let found = count(&berlin, &statement).await;
                assert_eq!(
                    found,
                    wanted(local, form == "'TEXT'").unwrap_or(found),
                    "{statement}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_template_sees_the_newest_rows_and_the_newest_schema() {
    let store = store();
    let sql = "SELECT * FROM cpu WHERE hostname = 'host_9' AND time >= '2016-01-01T00:00:00Z'";
    assert!(store.rows(sql).await.is_empty());
    assert_eq!(store.sql().templates(), 1);
    store.write("cpu,hostname=host_9,region=eu usage_user=1i 1451606400000000000");
    let before = store.rows(sql).await;
    assert_eq!(before, ["2016-01-01T00:00:00Z|host_9|eu|1|-"]);
    // Another column, and then another table of the same name.
    store.write("cpu,hostname=host_9,region=eu more=2i 1451606400000000000");
    assert_eq!(
        store.rows(sql).await,
        ["2016-01-01T00:00:00Z|host_9|eu|1|-|2"]
    );
    store.batches("DROP TABLE cpu").await.unwrap();
    assert!(store.error(sql).await.to_string().contains("cpu"));
    store.write("cpu,hostname=host_9 other=3i 1451606400000000000");
    assert_eq!(store.rows(sql).await, ["2016-01-01T00:00:00Z|host_9|3"]);
    store
        .batches("ALTER TABLE cpu RENAME TO old")
        .await
        .unwrap();
    store
        .batches("CREATE VIEW cpu AS SELECT time, 'host_9' AS hostname, 7 AS seven FROM old")
        .await
        .unwrap();
    assert_eq!(store.rows(sql).await, ["2016-01-01T00:00:00Z|host_9|7"]);
}

#[tokio::test]
async fn a_template_belongs_to_the_database_that_it_was_made_in() {
    let store = store();
    store.write_to(
        "e",
        "cpu,hostname=host_1 usage_user=77i 1451606400000000000",
    );
    let sql = "SELECT max(usage_user) FROM cpu WHERE hostname = 'host_1'";
    let of_d = store.rows(sql).await;
    let answer = store.sql().query("e", sql).await.unwrap();
    let batches = answer.collect().await.unwrap();
    let of_e = arrow::util::pretty::pretty_format_batches(&batches)
        .unwrap()
        .to_string();
    assert!(of_e.contains("77"), "{of_e}");
    assert_eq!(store.rows(sql).await, of_d);
    assert_eq!(store.sql().templates(), 2);
    assert!(store.sql().query("nowhere", sql).await.is_err());
}

#[tokio::test]
async fn templates_are_bounded_in_number() {
    let store = store();
    for number in 0..300 {
        let sql = format!("SELECT max(usage_user) AS m{number} FROM cpu WHERE hostname = 'host_1'");
        store
            .sql()
            .query("d", &sql)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
    }
    assert_eq!(store.sql().templates(), 256);
}

/// Point queries by integer keys were planned each time (0.6 ms of processor time where a template takes a tenth of it), because a
/// number was part of the shape.
#[tokio::test]
async fn rows_of_relations_are_looked_up_by_numbers_from_one_template() {
    let store = Store::new();
    for sql in [
        "CREATE TABLE p (id bigint PRIMARY KEY, small smallint, f double precision, n numeric(10, 2), s text)",
        "INSERT INTO p SELECT i, i % 7, i, i, 'row ' || i FROM generate_series(0, 40) AS g(i)",
    ] {
        store.batches(sql).await.unwrap();
    }
    // By what each looks for; `P` and `Q` are two numbers.
    let learnt = [
        "SELECT s, f FROM p WHERE id = P",
        "SELECT s FROM p WHERE id = P AND small = Q",
        "SELECT count(*) FROM p WHERE small = P AND s <> 'row 3'",
        "SELECT s FROM p WHERE id = P ORDER BY f LIMIT 1",
        "SELECT a.s, b.s FROM p a JOIN p b ON a.small = b.small WHERE a.id = P ORDER BY b.id",
    ];
    let others = [
        "SELECT s FROM p WHERE f = P ORDER BY s",
        "SELECT s FROM p WHERE n = P ORDER BY s",
        "SELECT s, 3 AS three FROM p WHERE id = P",
        "SELECT s FROM p WHERE id = P + Q",
        "SELECT s FROM p WHERE id = P OR id = Q ORDER BY s",
    ];
    for (sql, has_template) in learnt
        .iter()
        .map(|it| (it, true))
        .chain(others.iter().map(|it| (it, false)))
    {
        let before = store.sql().templates();
        for (one, other) in [
            (3, 4),
            (7, 0),
            (0, 0),
            (3, 3),
            (1, 1),
            (40, 5),
            (41, 2),
            (16, 2),
        ] {
            let asked = sql
                .replace('P', &one.to_string())
                .replace('Q', &other.to_string());
            let rows = store.rows(&asked).await;
            // What is calculated is compared with by the planner.
            let afresh = sql
                .replace('P', &format!("({one} + 0)"))
                .replace('Q', &format!("({other} + 0)"));
            assert_eq!(rows, store.rows(&afresh).await, "{asked}");
        }
        if has_template {
            // One of numbers as values, and at most one for each pair of which they were not unlike.
            let made = store.sql().templates() - before;
            assert!(made >= 1, "{sql}");
        }
    }
    // A number that comes beside the statement is one like others.
    let before = store.sql().templates();
    for id in 0..9i64 {
        let mut params = nilometer_query::Params::new();
        params.push(nilometer_query::Param::I64(id));
        let rows = store
            .rows_with("SELECT s FROM p WHERE id = $1", &params)
            .await;
        assert_eq!(rows, [format!("row {id}")]);
    }
    assert_eq!(store.sql().templates(), before + 1);
}
