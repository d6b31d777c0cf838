//! Definitions as a language hands them over that is not SQL.

use std::path::Path as FilePath;
use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{
    ColumnKind, Declared, DeclaredTable, Duplicates, Engine, Options, PhysicalType, SystemClock,
    TableSettings,
};

use super::*;
use crate::{Class, Error, Principal, Scope};

const DAY_NS: i64 = 86_400_000_000_000;

fn engine() -> Arc<Engine> {
    let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, FilePath::new("/data"), Options::default()).unwrap();
    Arc::new(engine)
}

fn path(names: &[&str]) -> Path {
    let (last, before) = names.split_last().unwrap();
    Path {
        before: before.iter().map(ToString::to_string).collect(),
        last: (*last).to_owned(),
    }
}

fn create_database(name: &str) -> Change {
    Change::CreateDatabase {
        name: name.to_owned(),
        if_not_exists: false,
    }
}

fn create_table(path: Path) -> Change {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        kind,
        declared: Declared::default(),
    };
    Change::CreateTable {
        is_hypertable: false,
        path,
        if_not_exists: false,
        columns: vec![
            column("host", ColumnKind::Tag),
            column("load", ColumnKind::Field(PhysicalType::F64)),
        ],
        settings: TableSettings::default(),
        declared: DeclaredTable::default(),
    }
}

fn alter(table: &str, change: TableChange) -> Change {
    Change::AlterTable {
        path: table.into(),
        if_exists: false,
        change,
    }
}

/// What the change is refused for: the text, and which of its names it is about.
fn refused(engine: &Arc<Engine>, scope: &Scope, change: Change) -> (String, Part) {
    let error = run(engine, &Principal::anyone(), scope, change).unwrap_err();
    assert_eq!(error.class(), Class::BadRequest, "{error}");
    let text = error.to_string();
    match error {
        Error::Define { part, .. } => (text, part),
        other => panic!("{other:?}"),
    }
}

/// `CREATE DATABASE` and `CREATE RETENTION POLICY ... DEFAULT` of `InfluxQL` are these changes: a retention policy is a
/// schema.
#[test]
fn a_language_that_knows_no_sql_makes_databases_and_schemas() {
    let (engine, scope) = (engine(), Scope::of_database("metrics"));
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create_database("metrics"),
    )
    .unwrap();
    let schema = Change::CreateSchema {
        path: "week".into(),
        if_not_exists: false,
        retention_ns: Some(7 * DAY_NS),
    };
    run(&engine, &Principal::anyone(), &scope, schema.clone()).unwrap();
    let default = Change::SetDefaultSchema {
        database: "metrics".to_owned(),
        schema: "week".to_owned(),
    };
    run(&engine, &Principal::anyone(), &scope, default).unwrap();
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.default_schema("metrics").unwrap(), "week");
    let again = run(&engine, &Principal::anyone(), &scope, schema).unwrap_err();
    assert_eq!(again.class(), Class::Conflict, "{again}");

    // A table without a schema is in the default one of now, unless the scope says otherwise.
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create_table("cpu".into()),
    )
    .unwrap();
    let other = Scope {
        schema: Some("public".to_owned()),
        ..scope
    };
    run(
        &engine,
        &Principal::anyone(),
        &other,
        create_table("disk".into()),
    )
    .unwrap();
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.tables("metrics", "week").unwrap(), ["cpu"]);
    assert_eq!(snapshot.tables("metrics", "public").unwrap(), ["disk"]);
}

#[test]
fn an_error_says_which_name_of_the_change_is_meant() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    run(&engine, &Principal::anyone(), &scope, create_database("d")).unwrap();
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create_table("cpu".into()),
    )
    .unwrap();
    let rename_column = |column: &str| TableChange::RenameColumn {
        column: column.to_owned(),
        to: "x".to_owned(),
    };
    let drop = |path: Path| Change::DropTable {
        path,
        if_exists: false,
    };
    for (change, text, part) in [
        (
            create_table(path(&["e", "public", "t"])),
            "database not found: \"e\"; did you mean \"d\"?",
            Part::Start,
        ),
        (
            drop(path(&["publik", "cpu"])),
            "schema not found: \"d.publik\"; did you mean \"public\"?",
            Part::Start,
        ),
        (
            drop("cpi".into()),
            "table not found: \"d.public.cpi\"; did you mean \"cpu\"?",
            Part::Start,
        ),
        (
            drop(path(&["a", "b", "c", "d"])),
            "the name has too many parts; write database.schema.table",
            Part::Start,
        ),
        (
            create_table(path(&["system", "t"])),
            "the schema \"system\" is what the store says of itself and cannot be changed",
            Part::Name,
        ),
        (
            Change::RenameSchema {
                path: "public".into(),
                to: "information_schema".to_owned(),
            },
            "the schema \"information_schema\" is what the store says of itself and cannot be changed",
            Part::Other,
        ),
        (
            alter("cpu", rename_column("lood")),
            "column not found: \"lood\"; did you mean \"load\"?",
            Part::Other,
        ),
        (
            alter("cpu", rename_column("time")),
            "the column time cannot be changed",
            Part::Other,
        ),
        (
            Change::DropSchema {
                path: "public".into(),
                if_exists: false,
                cascade: false,
            },
            "the schema \"public\" has 1 tables and 0 views; drop them first, or with it",
            Part::Name,
        ),
    ] {
        assert_eq!(
            refused(&engine, &scope, change),
            (text.to_owned(), part),
            "{text}"
        );
    }
}

#[test]
fn settings_are_changed_one_by_one_and_others_stay() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    run(&engine, &Principal::anyone(), &scope, create_database("d")).unwrap();
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create_table("cpu".into()),
    )
    .unwrap();
    let set = |list| alter("cpu", TableChange::Set(list));
    let keep = TableSetting::Duplicates(Duplicates::Keep);
    run(&engine, &Principal::anyone(), &scope, set(vec![keep])).unwrap();
    let both = vec![
        TableSetting::Retention(Some(DAY_NS)),
        TableSetting::PartitionInterval(2 * DAY_NS),
    ];
    run(&engine, &Principal::anyone(), &scope, set(both)).unwrap();
    let table = engine.snapshot().table("d", "public", "cpu").unwrap();
    let wanted = TableSettings {
        duplicates: Duplicates::Keep,
        partition_interval_ns: 2 * DAY_NS,
        retention_ns: Some(DAY_NS),
        cold_after_ns: None,
    };
    assert_eq!(table.settings, wanted);
}

#[test]
fn a_view_is_a_text_that_only_its_language_understands() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    run(&engine, &Principal::anyone(), &scope, create_database("d")).unwrap();
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create_table("cpu".into()),
    )
    .unwrap();
    let create = |name: &str, query: &str, or_replace| Change::CreateView {
        path: name.into(),
        or_replace,
        if_not_exists: false,
        query: query.to_owned(),
    };
    let first = create("v", "from(bucket: \"d\") |> mean()", false);
    run(&engine, &Principal::anyone(), &scope, first.clone()).unwrap();
    let taken = run(&engine, &Principal::anyone(), &scope, first).unwrap_err();
    assert_eq!(taken.class(), Class::Conflict, "{taken}");
    run(
        &engine,
        &Principal::anyone(),
        &scope,
        create("v", "\u{1F30A}", true),
    )
    .unwrap();
    let snapshot = engine.snapshot();
    let kept = view(&snapshot, "d", "public", "v");
    assert_eq!(kept.as_deref(), Some("\u{1F30A}"));
    assert_eq!(views(&snapshot, "d", "public"), ["v"]);
    // What views are kept in is no relation of anybody's.
    assert!(relations(&snapshot, "d", "public").is_empty());
    let on_table = run(
        &engine,
        &Principal::anyone(),
        &scope,
        create("cpu", "", true),
    )
    .unwrap_err();
    assert_eq!(on_table.class(), Class::Conflict, "{on_table}");
    let change = alter("v", TableChange::Set(Vec::new()));
    let (text, part) = refused(&engine, &scope, change);
    assert_eq!(text, "\"v\" is a view; change what it reads, or replace it");
    assert_eq!(part, Part::Start);
    let drop = |name: &str, if_exists| Change::DropView {
        path: name.into(),
        if_exists,
    };
    run(&engine, &Principal::anyone(), &scope, drop("v", false)).unwrap();
    run(&engine, &Principal::anyone(), &scope, drop("v", true)).unwrap();
    let (text, _) = refused(&engine, &scope, drop("v", false));
    assert_eq!(text, "view not found: \"d.public.v\"");
    assert!(views(&engine.snapshot(), "d", "public").is_empty());
}
