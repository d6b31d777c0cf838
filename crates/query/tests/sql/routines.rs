//! Promise: functions and procedures outlive the process, a job of a procedure runs with the rights of its owner, and a function that
//! is replaced answers anew in the next statement; a table that was given another column as its time keeps it.

use std::sync::Arc;

use nilometer_query::{Error, Sql, SqlOptions};
use nilometer_service::{
    Access, Grant, LanguageContext, Principal, Privileges, Threads, UserChange, change_users,
};

use crate::support::Store;

async fn run(store: &Store, statements: &[&str]) {
    for sql in statements {
        store.rows(sql).await;
    }
}

#[tokio::test]
async fn routines_and_their_jobs_outlive_the_process() {
    let store = Store::that_compacts();
    run(
        &store,
        &[
            "CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT)",
            "INSERT INTO counts VALUES (1, 0)",
            "CREATE FUNCTION half() RETURNS BIGINT LANGUAGE SQL AS $$ SELECT n / 2 FROM counts $$",
            "CREATE PROCEDURE step(job_id INT, config JSONB) LANGUAGE SQL AS $$ UPDATE counts SET n = n + (config ->> 'by')::bigint $$",
            "SELECT add_job('step', INTERVAL '1 hour', config => '{\"by\": 8}')",
            "CALL run_job(1000)",
        ],
    )
    .await;
    let store = store.reopened();
    assert_eq!(store.rows("SELECT n, half() FROM counts").await, ["8|4"]);
    // The job means the procedure, and not its text nor its schema's name.
    run(
        &store,
        &[
            "CREATE OR REPLACE PROCEDURE step(job_id INT, config JSONB) LANGUAGE SQL AS $$ UPDATE counts SET n = n - (config ->> 'by')::bigint; UPDATE counts SET n = n * 3 $$",
            "INSERT INTO counts VALUES (2, 8)",
            "CALL run_job(1000)",
        ],
    )
    .await;
    let rows = "SELECT id, n FROM counts ORDER BY id";
    assert_eq!(store.rows(rows).await, ["1|0", "2|0"]);
    let store = store.reopened();
    let stats = "SELECT proc_name, total_runs, total_successes FROM timescaledb_information.jobs JOIN timescaledb_information.job_stats USING (job_id)";
    assert_eq!(store.rows(stats).await, ["step|2|2"]);
    assert_eq!(store.rows(rows).await, ["1|0", "2|0"]);
}

/// Statements of one shape have one plan with places for their values. What a function stands for is in none.
#[tokio::test]
async fn a_function_that_is_replaced_answers_anew() {
    let store = Store::new();
    store.write("cpu,host=a usage=1 1000000000\ncpu,host=a usage=5 2000000000\n");
    let asked = "SELECT sum(usage) FROM cpu WHERE usage > least_usage()";
    for (body, sum) in [("SELECT 0", "6"), ("SELECT 2", "5"), ("SELECT 7", "-")] {
        let make = format!(
            "CREATE OR REPLACE FUNCTION least_usage() RETURNS INT LANGUAGE SQL AS $$ {body} $$"
        );
        run(&store, &[make.as_str()]).await;
        for _ in 0..3 {
            let found = store.rows(asked).await;
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].trim_end_matches(".0"), sum, "{body}");
        }
    }
}

#[tokio::test]
async fn a_function_that_calls_itself_is_an_error() {
    let store = Store::new();
    run(
        &store,
        &[
            "CREATE FUNCTION one() RETURNS INT LANGUAGE SQL AS $$ SELECT 1 $$",
            "CREATE FUNCTION two() RETURNS INT LANGUAGE SQL AS $$ SELECT one() + 1 $$",
        ],
    )
    .await;
    assert_eq!(store.rows("SELECT two() + one()").await, ["3"]);
    let again = "CREATE OR REPLACE FUNCTION one() RETURNS INT LANGUAGE SQL AS $$ SELECT two() $$";
    let error = match store.answer(again).await {
        Ok(_) => store.error("SELECT one()").await,
        Err(error) => error,
    };
    let error = error.to_string();
    assert!(
        error.contains("call each other more than 8 times"),
        "{error}"
    );
}

/// A user who may do everything in the database `d`.
fn maker(store: &Store) -> Sql {
    let context = LanguageContext::new(
        Arc::clone(&store.engine),
        Threads::of_caller(),
        SqlOptions::default(),
    );
    let access = Access::new(&context, (None, None), true);
    let create = UserChange::Create {
        name: MAKER.to_owned(),
        password: "secret".to_owned(),
        is_admin: false,
    };
    change_users(&store.engine, &Principal::anyone(), create).unwrap();
    let change = UserChange::Grant {
        user: MAKER.to_owned(),
        grant: grant(Privileges::ALL),
    };
    change_users(&store.engine, &Principal::anyone(), change).unwrap();
    store
        .sql()
        .asked_by(&access.standing_for(Some(MAKER)).unwrap())
}

const MAKER: &str = "maker";

fn grant(privileges: Privileges) -> Grant {
    Grant {
        database: "d".to_owned(),
        schema: None,
        table: None,
        privileges,
    }
}

fn revoke(store: &Store, privileges: Privileges) {
    let change = UserChange::Revoke {
        user: MAKER.to_owned(),
        grant: grant(privileges),
    };
    change_users(&store.engine, &Principal::anyone(), change).unwrap();
}

/// The function that says what is now was asked with the rights of the store: who may read nothing could have it read anything.
#[tokio::test]
async fn what_is_now_is_asked_with_the_rights_of_the_functions_owner() {
    let store = Store::new();
    let maker = maker(&store);
    for sql in [
        "CREATE TABLE events (n BIGINT NOT NULL, v BIGINT)",
        "SELECT create_hypertable('events', by_range('n', 10))",
        "INSERT INTO events VALUES (1, 1), (15, 2), (95, 3)",
        "CREATE FUNCTION newest() RETURNS BIGINT LANGUAGE SQL STABLE AS $$ SELECT max(n) FROM events $$",
        "SELECT set_integer_now_func('events', 'newest')",
        "SELECT add_retention_policy('events', drop_after => 85)",
    ] {
        maker.query("d", sql).await.unwrap();
    }
    let rows = "SELECT n FROM events ORDER BY n";
    revoke(&store, Privileges::READ);
    let refused = store.error("CALL run_job(1000)").await.to_string();
    assert!(refused.contains(MAKER), "{refused}");
    assert_eq!(store.rows(rows).await, ["1", "15", "95"]);
    let again = UserChange::Grant {
        user: MAKER.to_owned(),
        grant: grant(Privileges::ALL),
    };
    change_users(&store.engine, &Principal::anyone(), again).unwrap();
    run(&store, &["CALL run_job(1000)"]).await;
    assert_eq!(store.rows(rows).await, ["15", "95"]);
}

/// A user who may write makes a job; it fails once they may not any more, whoever starts it, and writes nothing.
#[tokio::test]
async fn a_job_runs_with_the_rights_of_its_owner() {
    let store = Store::new();
    run(
        &store,
        &["CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT)"],
    )
    .await;
    let maker = maker(&store);
    for sql in [
        "CREATE PROCEDURE fill(job_id INT, config JSONB) LANGUAGE SQL AS $$ INSERT INTO counts SELECT coalesce(max(id), 0) + 1, job_id FROM counts $$",
        "SELECT add_job('fill', INTERVAL '1 hour')",
    ] {
        maker.query("d", sql).await.unwrap();
    }
    let owner = "SELECT owner FROM timescaledb_information.jobs";
    assert_eq!(store.rows(owner).await, ["maker"]);
    run(&store, &["CALL run_job(1000)"]).await;
    let rows = "SELECT id, n FROM counts";
    assert_eq!(store.rows(rows).await, ["1|1000"]);
    revoke(&store, Privileges::WRITE);
    let refused = store.error("CALL run_job(1000)").await;
    assert!(refused.to_string().contains("maker"), "{refused}");
    assert_eq!(store.rows(rows).await, ["1|1000"]);
    let error = maker.query("d", "CALL fill(1, NULL)").await.unwrap_err();
    assert!(matches!(error, Error::Denied(_)), "{error}");
    let drop = UserChange::Drop {
        name: MAKER.to_owned(),
    };
    change_users(&store.engine, &Principal::anyone(), drop).unwrap();
    let gone = store.error("CALL run_job(1000)").await.to_string();
    assert!(gone.contains("maker"), "{gone}");
}

#[tokio::test]
async fn a_call_in_a_transaction_is_part_of_it() {
    let store = Store::new();
    run(
        &store,
        &[
            "CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT)",
            "CREATE PROCEDURE fill(a BIGINT) LANGUAGE SQL AS $$ INSERT INTO counts VALUES (a, 1); UPDATE counts SET n = n + a $$",
        ],
    )
    .await;
    let transaction = store.engine.begin().unwrap();
    let within = store.sql().within(&transaction);
    within.query("d", "CALL fill(5)").await.unwrap();
    within.query("d", "CALL fill(7)").await.unwrap();
    let rows = "SELECT id, n FROM counts ORDER BY id";
    assert_eq!(store.rows(rows).await, Vec::<String>::new());
    transaction.commit().unwrap();
    assert_eq!(store.rows(rows).await, ["5|13", "7|8"]);
    let other = store.engine.begin().unwrap();
    let within = store.sql().within(&other);
    within.query("d", "CALL fill(9)").await.unwrap();
    other.rollback();
    assert_eq!(store.rows(rows).await, ["5|13", "7|8"]);
}

/// What SHOW CREATE TABLE says makes the same table, its time chosen later among columns of several types.
#[tokio::test]
async fn a_time_that_was_chosen_later_is_kept_and_shown() {
    let store = Store::that_compacts();
    run(
        &store,
        &[
            "CREATE TABLE m (a INTEGER, at TIMESTAMP, t SMALLINT, host TEXT, v REAL)",
            "CREATE INDEX ON m (host, t DESC)",
            "SELECT create_hypertable('m', 't', chunk_time_interval => 10)",
            "INSERT INTO m VALUES (1, '2024-05-01 00:00:00', 7, 'x', 1.5), (NULL, NULL, -3, 'y', 2.5)",
        ],
    )
    .await;
    let rows = "SELECT * FROM m ORDER BY t";
    let expected = ["-|-|-3|y|2.5", "1|2024-05-01T00:00:00|7|x|1.5"];
    assert_eq!(store.rows(rows).await, expected);
    let store = store.reopened();
    assert_eq!(store.rows(rows).await, expected);
    let chunks = "SELECT range_start_integer FROM timescaledb_information.chunks ORDER BY 1";
    assert_eq!(store.rows(chunks).await, ["-10", "0"]);
    let made = store.batches("SHOW CREATE TABLE m").await.unwrap();
    let text = arrow::util::display::array_value_to_string(made[0].column(1), 0).unwrap();
    let copied = text.replace("public.m", "public.copied");
    run(
        &store,
        &[copied.as_str(), "INSERT INTO copied SELECT * FROM m"],
    )
    .await;
    assert_eq!(
        store.rows("SELECT * FROM copied ORDER BY t").await,
        expected
    );
    let again = store.batches("SHOW CREATE TABLE copied").await.unwrap();
    let again = arrow::util::display::array_value_to_string(again[0].column(1), 0).unwrap();
    assert_eq!(again.replace("public.copied", "public.m"), text);
    let error = store.error("INSERT INTO copied (t) VALUES (32768)").await;
    assert!(
        error.to_string().contains("out of range for type smallint"),
        "{error}"
    );
}

/// Line protocol writes the same integers, and is held to the same range.
#[tokio::test]
async fn lines_write_integers_as_times() {
    let store = Store::new();
    run(
        &store,
        &["CREATE TABLE m (time INTEGER, v DOUBLE PRECISION) WITH (tsdb.hypertable, tsdb.partition_column = 'time', tsdb.chunk_interval = 100)"],
    )
    .await;
    store.write("m v=1.5 70\nm v=2.5 -1\n");
    assert_eq!(
        store.rows("SELECT time, v FROM m ORDER BY time").await,
        ["-1|2.5", "70|1.5"]
    );
}
