//! Small statements that are carried out on the thread that asks, and all others that leave it.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use nilometer_engine::Error as EngineError;
use nilometer_query::{CancellationToken, Error, Params, Sql};
use nilometer_service::{BegunTask, Executor, Threads};

use crate::support::{Store, rows};

/// Where a statement ended that was begun here, and what it answered.
async fn ended(
    executor: &Arc<dyn Executor>,
    sql: &Sql,
    text: &str,
    params: Params,
) -> (ThreadId, Result<Vec<String>, Error>) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (sql, text) = (sql.clone(), text.to_owned());
    let begun = BegunTask::new(executor, async move {
        let answer = match sql.query_with("d", &text, &params).await {
            Ok(answer) => answer.collect().await.map(|batches| rows(&batches)),
            Err(error) => Err(error),
        };
        sender.send((thread::current().id(), answer)).unwrap();
    });
    begun.await;
    receiver.await.unwrap()
}

async fn store() -> Store {
    let store = Store::new();
    for sql in [
        "CREATE TABLE p (id bigint PRIMARY KEY, s text)",
        "INSERT INTO p SELECT i, 'row ' || i FROM generate_series(1, 100) AS g(i)",
        "CREATE TABLE b (id bigserial PRIMARY KEY, v bigint)",
        "CREATE TABLE c (id bigint PRIMARY KEY, v bigint CHECK (v % 2 = 0))",
        "CREATE TABLE m (time timestamptz NOT NULL, v double precision)",
        "CREATE TABLE f (id bigint REFERENCES p (id))",
    ] {
        store.rows(sql).await;
    }
    store
}

/// The story: a point query took eleven calls of `futex`, an insert twice as many: a task for the connection, another for the
/// statement, a thread that waits for the disk, and all the way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_point_query_by_its_template_and_a_small_insert_need_no_other_thread() {
    let (store, executor) = (store().await, Threads::start(1).unwrap());
    let here = |text: &'static str, params: Params| ended(&executor, store.sql(), text, params);
    let caller = thread::current().id();
    let point = "SELECT s FROM p WHERE id = $1";
    for (id, is_known) in [(5i64, false), (6, true), (700, true)] {
        let mut params = Params::new();
        params.push(id);
        let (thread, answer) = here(point, params).await;
        assert_eq!(thread == caller, is_known, "{id}");
        let expected: &[&str] = match id {
            5 => &["row 5"],
            6 => &["row 6"],
            _ => &[],
        };
        assert_eq!(answer.unwrap(), expected);
    }
    for text in [
        "INSERT INTO p VALUES (101, 'new')",
        "INSERT INTO p (id) VALUES (102), (103)",
        "INSERT INTO m VALUES (now(), 0.5)",
        "INSERT INTO m VALUES ('2024-01-01 00:00:00+00', 0.5)",
    ] {
        let (thread, answer) = here(text, Params::new()).await;
        assert_eq!(thread, caller, "{text}");
        let written = if text.contains("103") { "2" } else { "1" };
        assert_eq!(answer.unwrap(), [written], "{text}");
    }
    // Numbers that are at hand.
    assert_eq!(store.rows("INSERT INTO b (v) VALUES (7)").await, ["1"]);
    let (thread, answer) = here("INSERT INTO b (v) VALUES (8)", Params::new()).await;
    assert_eq!((thread, answer.unwrap()), (caller, vec!["1".to_owned()]));
    assert_eq!(
        store.rows("SELECT id, v FROM b ORDER BY id").await,
        ["1|7", "2|8"]
    );
    assert_eq!(store.rows("SELECT count(*) FROM m").await, ["2"]);
    assert_eq!(
        store
            .rows("SELECT id, s FROM p WHERE id > 100 ORDER BY id")
            .await,
        ["101|new", "102|-", "103|-"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_take_long_leaves_the_thread() {
    let (store, executor) = (store().await, Threads::start(1).unwrap());
    let caller = thread::current().id();
    let long = format!("SELECT s FROM p WHERE id = 1 -- {}", "x".repeat(10_000));
    let many = (0..40).map(|id| id.to_string()).collect::<Vec<_>>();
    let many = format!("SELECT s FROM p WHERE id IN ({})", many.join(", "));
    for text in [
        "SELECT 1",
        "SELECT s FROM p WHERE s = 'row 1'",
        "SELECT count(*) FROM p WHERE id = 1",
        "SELECT v FROM m WHERE time < '2024-01-01'",
        &long,
        &many,
        "INSERT INTO p SELECT 200, 'x' WHERE false",
        "INSERT INTO p VALUES (201 + 0, 'x')",
        "INSERT INTO c VALUES (1, 2)",
        "INSERT INTO p VALUES (202, 'x') RETURNING id",
        "UPDATE p SET s = 'y' WHERE id = 1",
        "DELETE FROM p WHERE id = 2",
    ] {
        // The second time its shape may be known.
        for _ in 0..2 {
            let (thread, _) = ended(&executor, store.sql(), text, Params::new()).await;
            assert_ne!(thread, caller, "{text}");
        }
    }
}

/// A row that another must be there for, and a row of a transaction, may wait for more than the log.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_and_transactions_are_what_they_were() {
    let (store, executor) = (store().await, Threads::start(1).unwrap());
    let (_, answer) = ended(
        &executor,
        store.sql(),
        "INSERT INTO f VALUES (1)",
        Params::new(),
    )
    .await;
    assert_eq!(answer.unwrap(), ["1"]);
    let (_, answer) = ended(
        &executor,
        store.sql(),
        "INSERT INTO f VALUES (999)",
        Params::new(),
    )
    .await;
    answer.unwrap_err();
    assert_eq!(store.rows("SELECT id FROM f").await, ["1"]);
    let own = store.engine.begin().unwrap();
    let within = store.sql().within(&own);
    let text = "INSERT INTO p VALUES (300, 'x')";
    let (_, answer) = ended(&executor, &within, text, Params::new()).await;
    assert_eq!(answer.unwrap(), ["1"]);
    let found = "SELECT s FROM p WHERE id = 300";
    assert!(store.rows(found).await.is_empty());
    // Whoever writes the row beside it has to wait for its end.
    let (_, answer) = ended(&executor, store.sql(), text, Params::new()).await;
    let refused = answer.unwrap_err();
    let is_locked = matches!(refused, Error::Engine(EngineError::RowLocked { .. }));
    assert!(is_locked, "{refused}");
    own.rollback();
    assert!(store.rows(found).await.is_empty());
}

/// A statement in a transaction that had to wait for the row that it points to was carried out once more, on top of what it had
/// written before it waited: its row was there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_waits_for_the_row_it_points_to_leaves_nothing_of_its_first_try() {
    let (store, executor) = (store().await, Threads::start(1).unwrap());
    let (one, other) = (store.engine.begin().unwrap(), store.engine.begin().unwrap());
    let text = "INSERT INTO f VALUES (1)";
    let within = store.sql().within(&one);
    ended(&executor, &within, text, Params::new())
        .await
        .1
        .unwrap();
    let within = store.sql().within(&other);
    let (_, answer) = ended(&executor, &within, text, Params::new()).await;
    let refused = answer.unwrap_err();
    let is_locked = matches!(refused, Error::Engine(EngineError::RowLocked { .. }));
    assert!(is_locked, "{refused}");
    one.commit().unwrap();
    ended(&executor, &within, text, Params::new())
        .await
        .1
        .unwrap();
    other.commit().unwrap();
    assert_eq!(store.rows("SELECT id FROM f").await, ["1", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_cancelled_ends_where_it_was_begun_and_an_error_is_told_there() {
    let (store, executor) = (store().await, Threads::start(1).unwrap());
    let point = "SELECT s FROM p WHERE id = 7";
    assert_eq!(store.rows(point).await, ["row 7"]);
    let caller = CancellationToken::new();
    caller.cancel();
    let cancelled = store.sql().cancelled_by(&caller);
    let (_, answer) = ended(&executor, &cancelled, point, Params::new()).await;
    assert!(matches!(answer, Err(Error::Cancelled)), "{answer:?}");
    let twice = "INSERT INTO p VALUES (7, 'again')";
    let (thread, answer) = ended(&executor, store.sql(), twice, Params::new()).await;
    assert_eq!(thread, thread::current().id());
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("its primary key (id) = (7) is there already"),
        "{error}"
    );
    let read_only = store.sql().read_only();
    let (_, answer) = ended(&executor, &read_only, twice, Params::new()).await;
    assert!(matches!(answer, Err(Error::ReadOnly)), "{answer:?}");
}

/// Each is told of its own row, whoever leads their group.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_that_insert_at_once_each_find_what_they_wrote() {
    let store = store().await;
    let tasks = (0..16i64).map(|client| {
        let sql = store.sql().clone();
        tokio::spawn(async move {
            for nth in 0..20 {
                // Every third meets a key that is there.
                let id = if nth % 3 == 2 {
                    1
                } else {
                    1000 + client * 100 + nth
                };
                let mut params = Params::new();
                params.push(id);
                let text = "INSERT INTO p VALUES ($1, 'mine')";
                let done = sql.query_with("d", text, &params).await;
                assert_eq!(done.is_err(), id == 1, "{done:?}");
                let found = sql.query_with("d", "SELECT s FROM p WHERE id = $1", &params);
                let found = rows(&found.await.unwrap().collect().await.unwrap());
                assert_eq!(found, [if id == 1 { "row 1" } else { "mine" }]);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let count = store.rows("SELECT count(*) FROM p WHERE id >= 1000").await;
    // 14 of each 20.
    assert_eq!(count, ["224"]);
}
