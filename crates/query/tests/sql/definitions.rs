//! CREATE, ALTER and DROP that are refused: what is said, and where in the statement.
//!
//! What carries them out knows no text, only which name of the change is meant. Whoever writes `ALTER TABLE a.b.c RENAME
//! COLUMN x TO y` still wants to be shown the one of these six names that is wrong.

use nilometer_query::{Error, SqlOptions};
use nilometer_service::Class;

use crate::support::Store;

async fn store() -> Store {
    let store = Store::new();
    for sql in [
        "CREATE TABLE cpu (time TIMESTAMPTZ, host TEXT TAG, load REAL)",
        "CREATE TABLE site (id BIGINT PRIMARY KEY, name TEXT)",
        "CREATE VIEW busy AS SELECT time, load FROM cpu",
        "CREATE SCHEMA other",
    ] {
        store.rows(sql).await;
    }
    store
}

/// Statement, text, and the line and column of the name that is meant.
type Refused = (&'static str, &'static str, Option<(u64, u64)>);

const REFUSED: &[Refused] = &[
    (
        "DROP DATABASE dd",
        "database not found: \"dd\"; did you mean \"d\"?",
        Some((1, 15)),
    ),
    (
        "ALTER DATABASE dd RENAME TO e",
        "database not found: \"dd\"; did you mean \"d\"?",
        Some((1, 16)),
    ),
    (
        "DROP DATABASE a.b",
        "the name has too many parts; a database has one name",
        Some((1, 15)),
    ),
    (
        "ALTER DATABASE d SET (default_schema = 'othr')",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((1, 40)),
    ),
    (
        "ALTER DATABASE dd SET (default_schema = 'other')",
        "database not found: \"dd\"; did you mean \"d\"?",
        Some((1, 41)),
    ),
    (
        "CREATE SCHEMA other",
        "schema \"other\" exists already in d; choose another name, or rename or drop the one that is there",
        None,
    ),
    (
        "CREATE SCHEMA dd.s",
        "database not found: \"dd\"; did you mean \"d\"?",
        Some((1, 18)),
    ),
    (
        "CREATE SCHEMA a.b.c",
        "the name has too many parts; write database.schema",
        Some((1, 15)),
    ),
    (
        "CREATE SCHEMA d.system",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 17)),
    ),
    (
        "DROP SCHEMA information_schema",
        "the schema \"information_schema\" is what the store says of itself and cannot be changed",
        Some((1, 13)),
    ),
    (
        "DROP SCHEMA\n  othr",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((2, 3)),
    ),
    (
        "DROP SCHEMA d.public",
        "the schema \"public\" has 2 tables and 1 views; write DROP SCHEMA public CASCADE to drop them too",
        Some((1, 15)),
    ),
    (
        "ALTER SCHEMA other RENAME TO system",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 30)),
    ),
    (
        "ALTER SCHEMA system RENAME TO system",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 14)),
    ),
    (
        "ALTER SCHEMA othr SET (retention = '1 day')",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((1, 14)),
    ),
    (
        "CREATE TABLE othr.t (time TIMESTAMPTZ, v REAL)",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((1, 14)),
    ),
    (
        "CREATE TABLE d.system.t (time TIMESTAMPTZ, v REAL)",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 23)),
    ),
    (
        "CREATE TABLE a.b.c.d (time TIMESTAMPTZ, v REAL)",
        "the name has too many parts; write database.schema.table",
        Some((1, 14)),
    ),
    (
        "CREATE TABLE \"system views\" (id BIGINT PRIMARY KEY)",
        "the name \"system views\" is taken by what the store keeps for itself",
        Some((1, 14)),
    ),
    (
        "CREATE TABLE busy (time TIMESTAMPTZ, v REAL)",
        "view \"busy\" exists already in \"d\".\"public\"; choose another name, or rename or drop the one that is there",
        None,
    ),
    (
        "DROP TABLE cpi",
        "table not found: \"d.public.cpi\"; did you mean \"cpu\"?",
        Some((1, 12)),
    ),
    (
        "DROP TABLE dd.public.cpu",
        "database not found: \"dd\"; did you mean \"d\"?",
        Some((1, 12)),
    ),
    (
        "DROP TABLE busy",
        "\"busy\" is a view; change what it reads, or make it again with CREATE OR REPLACE VIEW",
        Some((1, 12)),
    ),
    (
        "DROP TABLE IF EXISTS public.busy",
        "\"busy\" is a view; change what it reads, or make it again with CREATE OR REPLACE VIEW",
        Some((1, 22)),
    ),
    (
        "DROP TABLE system.tables",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 19)),
    ),
    (
        "ALTER TABLE site SET (retention = '1 day')",
        "a table without a time has no settings; leave SET out",
        None,
    ),
    (
        "ALTER TABLE cpu DROP COLUMN lood",
        "column not found: \"lood\"; did you mean \"load\"?",
        Some((1, 29)),
    ),
    (
        "ALTER TABLE cpu DROP COLUMN time",
        "the column time cannot be changed",
        Some((1, 29)),
    ),
    (
        "ALTER TABLE d.public.cpu RENAME COLUMN lood TO x",
        "column not found: \"lood\"; did you mean \"load\"?",
        Some((1, 40)),
    ),
    (
        "ALTER TABLE cpu ALTER COLUMN lood TYPE BIGINT",
        "column not found: \"lood\"; did you mean \"load\"?",
        Some((1, 30)),
    ),
    (
        "ALTER TABLE cpu ADD COLUMN load REAL",
        "column \"load\" exists already in table \"cpu\"; choose another name, or rename or drop the one that is there",
        None,
    ),
    // A table that is not there is said before a setting that is wrong.
    (
        "ALTER TABLE cpi SET (retenton = '1 day')",
        "table not found: \"d.public.cpi\"; did you mean \"cpu\"?",
        Some((1, 13)),
    ),
    (
        "ALTER TABLE system.tables SET (retenton = '1 day')",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 20)),
    ),
    (
        "ALTER TABLE cpu SET (retenton = '1 day')",
        "setting of a table not found: \"retenton\"; did you mean \"retention\"?",
        Some((1, 22)),
    ),
    (
        "ALTER TABLE IF EXISTS cpu SET (duplicates = 'some')",
        "duplicates: \"some\" is none of last, keep and unique",
        Some((1, 45)),
    ),
    (
        "CREATE VIEW cpu AS SELECT 1 AS one",
        "table \"cpu\" exists already in \"d\".\"public\"; choose another name, or rename or drop the one that is there",
        None,
    ),
    (
        "CREATE VIEW othr.v AS SELECT 1 AS one",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((1, 13)),
    ),
    (
        "CREATE VIEW a.b.c.d AS SELECT 1 AS one",
        "the name has too many parts; write database.schema.table",
        Some((1, 13)),
    ),
    (
        "DROP VIEW busi",
        "view not found: \"d.public.busi\"; did you mean \"busy\"?",
        Some((1, 11)),
    ),
    (
        "DROP VIEW d.othr.busy",
        "schema not found: \"d.othr\"; did you mean \"other\"?",
        Some((1, 11)),
    ),
    (
        "DROP VIEW system.v",
        "the schema \"system\" is what the store says of itself and cannot be changed",
        Some((1, 18)),
    ),
];

#[tokio::test]
async fn a_refused_change_says_which_of_its_names_is_meant_and_where_it_stands() {
    let store = store().await;
    for (sql, text, place) in REFUSED {
        let error = store.error(sql).await;
        let position = error.position().map(|at| (at.line, at.column));
        assert_eq!(error.to_string(), *text, "{sql}");
        assert_eq!(position, *place, "{sql}: {error}");
        let class = match error {
            Error::Engine(_) => Class::Conflict,
            _ => Class::BadRequest,
        };
        assert_eq!(error.class(), class, "{sql}");
    }
    // Nothing of it happened.
    let tables = "SELECT table_name FROM system.tables ORDER BY 1";
    assert_eq!(store.rows(tables).await, ["busy", "cpu", "site"]);
}

#[tokio::test]
async fn what_is_not_there_may_be_missing_whatever_else_is_wrong() {
    let store = store().await;
    for sql in [
        "ALTER TABLE IF EXISTS cpi SET (retenton = '1 day')",
        "ALTER TABLE IF EXISTS cpi DROP COLUMN lood",
        "ALTER TABLE IF EXISTS othr.cpu RENAME TO x",
        "ALTER TABLE cpu DROP COLUMN IF EXISTS lood",
        "DROP TABLE IF EXISTS dd.public.cpu",
        "DROP VIEW IF EXISTS othr.busy",
        "DROP SCHEMA IF EXISTS dd.other",
        "DROP DATABASE IF EXISTS dd",
        "CREATE SCHEMA IF NOT EXISTS other WITH (retention = '1 day')",
        "CREATE TABLE IF NOT EXISTS cpu (id BIGINT PRIMARY KEY)",
        "CREATE VIEW IF NOT EXISTS busy AS SELECT 1 AS one",
    ] {
        assert_eq!(store.rows(sql).await, ["0"], "{sql}");
    }
}

#[tokio::test]
async fn a_reader_is_told_so_before_anything_else_that_is_wrong_with_the_names() {
    let store = Store::with(SqlOptions {
        read_only: true,
        ..SqlOptions::default()
    });
    for sql in [
        "DROP TABLE a.b.c.d",
        "ALTER TABLE nowhere SET (nothing = '1')",
    ] {
        let error = store.error(sql).await;
        assert!(matches!(error, Error::ReadOnly), "{sql}: {error}");
    }
}
