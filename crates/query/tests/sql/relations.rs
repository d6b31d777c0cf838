//! Promise: what `sqltests/statements/relations.slt` cannot say of relations: how they are read, that they outlive the
//! process, and that those who change one row at once do so one after the other.

use std::sync::Arc;

use crate::support::Store;

async fn store() -> Store {
    let store = Store::new();
    for statement in [
        "CREATE TABLE tags (id BIGINT PRIMARY KEY, name TEXT UNIQUE, hits BIGINT)",
        "INSERT INTO tags VALUES (1, 'a', 0), (2, 'b', 0), (3, NULL, 0)",
    ] {
        store.rows(statement).await;
    }
    store
}

#[tokio::test]
async fn a_row_is_looked_up_where_a_whole_key_is_given_and_else_all_are_read() {
    let store = store().await;
    for (condition, shown) in [
        ("id = 2", "primary key=(2)"),
        ("name = 'b' AND hits < 9", "unique key=(\"b\")"),
        ("id > 2", "rows=3"),
        ("id = 2 OR id = 3", "primary key=(2) or (3)"),
        ("id IN (1, 2, 3, 4)", "primary key=(1) or (2) or (3) or (4)"),
        (
            "hits IN (7, 9) AND name IS NOT NULL",
            "rows=3, where hits in (7, 9) and name is not null",
        ),
    ] {
        let plan = store
            .rows(&format!("EXPLAIN SELECT hits FROM tags WHERE {condition}"))
            .await
            .join("\n");
        assert!(plan.contains("RelationScan: table=d.public.tags"), "{plan}");
        assert!(plan.contains(shown), "{condition}: {plan}");
    }
}

#[tokio::test]
async fn rows_and_keys_are_there_after_the_process_has_ended() {
    let store = store().await;
    store.rows("UPDATE tags SET name = 'c' WHERE id = 3").await;
    store.rows("DELETE FROM tags WHERE id = 1").await;
    let store = store.reopened();
    assert_eq!(
        store.rows("SELECT * FROM tags ORDER BY id").await,
        ["2|b|0", "3|c|0"]
    );
    let error = store.error("INSERT INTO tags VALUES (4, 'c', 0)").await;
    assert!(error.to_string().contains("unique key (name)"), "{error}");
    store.rows("INSERT INTO tags VALUES (1, 'a', 7)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_those_who_count_at_once_each_counts() {
    const WRITERS: usize = 3;
    const EACH: usize = 10;
    let store = Arc::new(store().await);
    let upsert = "INSERT INTO tags (id, hits) VALUES (1, 1), (9, 1) ON CONFLICT (id) DO UPDATE SET hits = tags.hits + excluded.hits";
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    // Somebody who is overtaken ten times in a row is told so, and asks again.
                    let statement = if writer == 0 {
                        "UPDATE tags SET hits = hits + 1 WHERE id = 1"
                    } else {
                        upsert
                    };
                    while let Err(error) = store.batches(statement).await {
                        assert!(
                            error.to_string().contains("run the statement again"),
                            "{error}"
                        );
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(
        store
            .rows("SELECT hits FROM tags WHERE id IN (1, 9) ORDER BY id")
            .await,
        [
            (WRITERS * EACH).to_string(),
            ((WRITERS - 1) * EACH).to_string()
        ]
    );
}
