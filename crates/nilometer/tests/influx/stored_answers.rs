//! Stored answers of continuous aggregates, which InfluxQL and line protocol leave as they are.

use nilometer_engine::{AggregateSource, DeclaredTable, DeclaredTime, PhysicalType};
use nilometer_service::define::{self, NewAggregate, TableName};
use nilometer_service::{Principal, Scope};

use crate::support::Server;

/// `m` with a row, and an aggregate of it.
async fn with_aggregate() -> Server {
    let server = Server::new();
    server.ask("create database d").await;
    let answer = server
        .send("POST", "/write?db=d", &[], "m,host=a v=1i 1")
        .await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let snapshot = server.engine.snapshot();
    let schema = snapshot.default_schema("d").unwrap();
    let table = snapshot.table("d", &schema, "m").unwrap();
    let source = TableName {
        database: "d".to_owned(),
        schema,
        table: "m".to_owned(),
    };
    let time = DeclaredTime {
        name: "minute".to_owned(),
        ..DeclaredTime::default()
    };
    let new = NewAggregate {
        path: "c".into(),
        query:
            "SELECT time_bucket('1 minute', time) AS minute, sum(v) AS total FROM m GROUP BY minute"
                .to_owned(),
        is_stored_only: false,
        source,
        bucket: "60000000000 0 - 0 0 1 -".to_owned(),
        width_ns: 60_000_000_000,
        reads: vec![AggregateSource::Times(table.id)],
        columns: vec![define::stored_column("total", PhysicalType::I64)],
        declared: DeclaredTable {
            time: Some(time),
            ..DeclaredTable::default()
        },
    };
    let scope = Scope::of_database("d");
    let made = define::create_aggregate(&server.engine, &Principal::anyone(), &scope, new, false);
    assert!(made.unwrap().is_some());
    server
}

/// Each of these wrote or deleted stored answers, of which the view knew nothing.
#[tokio::test]
async fn stored_answers_are_neither_written_nor_deleted() {
    let server = with_aggregate().await;
    let answer = server
        .send(
            "POST",
            "/write?db=d",
            &[],
            "_materialized_c total=7i 1\nm,host=a v=2i 2",
        )
        .await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer.text().contains("stored answers"),
        "{}",
        answer.text()
    );
    for statement in [
        "delete from \"_materialized_c\"",
        "delete from \"_materialized_c\" where time > 0",
        "drop series from \"_materialized_c\"",
        "drop measurement \"_materialized_c\"",
    ] {
        let refused = server.result(statement).await;
        assert!(
            refused.contains("continuous aggregate"),
            "{statement}: {refused}"
        );
    }
    // Whoever deletes everything means the rows.
    for statement in ["delete where time < 2", "delete from /.*/"] {
        assert_eq!(server.result(statement).await, "", "{statement}");
        let snapshot = server.engine.snapshot();
        let schema = snapshot.default_schema("d").unwrap();
        let has_deletes = ["m", "_materialized_c"].map(|name| {
            let table = snapshot.table("d", &schema, name).unwrap();
            snapshot.has_deletes(table.id)
        });
        assert_eq!(has_deletes, [true, false], "{statement}");
    }
    assert_eq!(server.result("select v from m").await, "");
}
