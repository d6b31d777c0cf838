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

mod altered;
mod counting;
mod unique;

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
        payload: None,
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
        seen: None,
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

/// The setting of a table whose payloads have these numbers.
fn set_payload(text: &str) -> Change {
    let setting = TableSetting::TstoragePayload(text.to_owned());
    alter("records", TableChange::Set(vec![setting]))
}

#[test]
fn a_payload_schema_makes_its_columns_and_goes_with_its_table() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    let run = |change| run(&engine, &Principal::anyone(), &scope, change);
    let create = |name: &str| {
        let Change::CreateTable {
            path,
            if_not_exists,
            mut columns,
            settings,
            declared,
            is_hypertable,
            payload,
        } = create_table(name.into())
        else {
            unreachable!("it makes a table");
        };
        columns.push(Column {
            name: "payload".to_owned(),
            kind: ColumnKind::Field(PhysicalType::Bytes),
            declared: Declared::default(),
        });
        Change::CreateTable {
            path,
            if_not_exists,
            columns,
            settings,
            declared,
            is_hypertable,
            payload,
        }
    };
    let kept = |name: &str| {
        let snapshot = engine.snapshot();
        let table = snapshot.table("d", "public", name).unwrap();
        payload_schema(&snapshot, ("d", "public"), &table).map(|it| it.to_string())
    };
    run(create_database("d")).unwrap();
    run(create("records")).unwrap();
    assert_eq!(kept("records"), None);
    // Nothing to forget.
    run(set_payload("")).unwrap();
    run(set_payload("load float8le, n int4be")).unwrap();
    assert_eq!(kept("records").as_deref(), Some("load float8le, n int4be"));
    let table = engine.snapshot().table("d", "public", "records").unwrap();
    let kind = |name: &str| table.field(name).map(|field| field.kind);
    assert_eq!(kind("n"), Some(ColumnKind::Field(PhysicalType::I64)));
    assert_eq!(kind("load"), Some(ColumnKind::Field(PhysicalType::F64)));
    // What is refused changes nothing, and what is kept is no table of anybody's.
    for (text, advice) in [
        ("n int4", "write int4be or int4le"),
        ("host int4be", "is no field of the table"),
        ("new int1, load int4be", "of another type"),
    ] {
        let refused = run(set_payload(text)).unwrap_err();
        assert!(refused.to_string().contains(advice), "{refused}");
        assert_eq!(refused.class(), Class::BadRequest, "{refused}");
    }
    let table = engine.snapshot().table("d", "public", "records").unwrap();
    assert!(table.field("new").is_none());
    assert_eq!(relations(&engine.snapshot(), "d", "public"), [""; 0]);
    // Another table of the name has none.
    run(alter(
        "records",
        TableChange::Rename {
            to: "old".to_owned(),
        },
    ))
    .unwrap();
    run(create("records")).unwrap();
    assert_eq!(kept("records"), None);
    assert_eq!(kept("old").as_deref(), Some("load float8le, n int4be"));
    run(set_payload("n int2le")).unwrap();
    run(set_payload("")).unwrap();
    assert_eq!(kept("records"), None);
    assert!(kept("old").is_some());
}

#[test]
fn a_table_without_payloads_has_no_payload_schema() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    let run = |change| run(&engine, &Principal::anyone(), &scope, change);
    run(create_database("d")).unwrap();
    run(create_table("records".into())).unwrap();
    let refused = run(set_payload("n int4be")).unwrap_err();
    assert!(
        refused.to_string().contains("has no field payload"),
        "{refused}"
    );
}

/// A column of the list that got another name was not written any more, and the list went on naming what was not there. Found by
/// an attack on TStorage's surface from outside.
#[test]
fn a_payload_schema_follows_its_columns_to_other_names() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    let run = |change| run(&engine, &Principal::anyone(), &scope, change);
    let rename = |column: &str, to: &str| {
        let (column, to) = (column.to_owned(), to.to_owned());
        alter("records", TableChange::RenameColumn { column, to })
    };
    let kept = || {
        let snapshot = engine.snapshot();
        let table = snapshot.table("d", "public", "records").unwrap();
        payload_schema(&snapshot, ("d", "public"), &table).map(|it| it.to_string())
    };
    run(create_database("d")).unwrap();
    run(plain("records", &[("payload", PhysicalType::Bytes, None)])).unwrap();
    run(set_payload("a int2be, skip 3, b float8le, c uint1")).unwrap();
    run(rename("a", "volts")).unwrap();
    run(rename("c", "a")).unwrap();
    let now = "volts int2be, skip 3, b float8le, a uint1";
    assert_eq!(kept().as_deref(), Some(now));
    // The list could not be written with such a name.
    for to in ["Upper", "two words", "skip", "1st", "acq", ""] {
        assert!(run(rename("b", to)).is_err(), "{to}");
    }
    assert_eq!(kept().as_deref(), Some(now));
    // What is dropped is passed over; a column of its name that comes later is another one.
    let drop = |column: &str| {
        let column = column.to_owned();
        let if_exists = false;
        alter("records", TableChange::Drop { column, if_exists })
    };
    run(drop("b")).unwrap();
    assert_eq!(kept().as_deref(), Some("volts int2be, skip 11, a uint1"));
    let column = Column {
        name: "b".to_owned(),
        kind: ColumnKind::Field(PhysicalType::F64),
        declared: Declared::default(),
    };
    let if_not_exists = false;
    run(alter(
        "records",
        TableChange::Add {
            column,
            if_not_exists,
            with: Vec::new(),
            values: Vec::new(),
        },
    ))
    .unwrap();
    assert_eq!(kept().as_deref(), Some("volts int2be, skip 11, a uint1"));
    run(drop("a")).unwrap();
    run(drop("volts")).unwrap();
    assert_eq!(kept(), None);
}

/// `SET (duplicates = 'last')` on a table of records was done, and every PUT and GET refused from then on.
#[test]
fn a_table_of_records_keeps_its_duplicates() {
    let (engine, scope) = (engine(), Scope::of_database("d"));
    let run = |change| run(&engine, &Principal::anyone(), &scope, change);
    let set = |list: Vec<TableSetting>| alter("records", TableChange::Set(list));
    run(create_database("d")).unwrap();
    let records = records::new_records();
    run(Change::CreateTable {
        path: "records".into(),
        if_not_exists: false,
        columns: records.columns,
        settings: records.settings,
        declared: records.declared,
        is_hypertable: false,
        payload: None,
    })
    .unwrap();
    let last = TableSetting::Duplicates(Duplicates::Last);
    let payload = TableSetting::TstoragePayload("a int1".to_owned());
    let refused = run(set(vec![payload, last.clone()])).unwrap_err();
    assert!(refused.to_string().contains("copy them"), "{refused}");
    assert_eq!(refused.class(), Class::BadRequest, "{refused}");
    let table = engine.snapshot().table("d", "public", "records").unwrap();
    assert!(table.field("a").is_none(), "a refused list changes nothing");
    let keep = TableSetting::Duplicates(Duplicates::Keep);
    run(set(vec![keep, TableSetting::PartitionInterval(DAY_NS)])).unwrap();
    // Without its payload it is a table as others are.
    let (column, if_exists) = ("payload".to_owned(), false);
    run(alter("records", TableChange::Drop { column, if_exists })).unwrap();
    run(set(vec![last])).unwrap();
}

fn reopened(disk: &Arc<MemoryDisk>) -> Arc<Engine> {
    let (disk, clock) = (Arc::clone(disk), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, FilePath::new("/data"), Options::default()).unwrap();
    Arc::new(engine)
}

fn done(engine: &Arc<Engine>, change: Change) {
    let scope = Scope::of_database("d");
    run(engine, &Principal::anyone(), &scope, change).unwrap();
}

/// A plain table of these columns beside its time, as SQL makes it.
fn plain(name: &str, columns: &[(&str, PhysicalType, Option<Numbered>)]) -> Change {
    let column = |(name, kind, numbered): &(&str, PhysicalType, Option<Numbered>)| Column {
        name: (*name).to_owned(),
        kind: ColumnKind::Field(*kind),
        declared: Declared {
            default: numbered.as_ref().map(Numbered::text),
            ..Declared::default()
        },
    };
    Change::CreateTable {
        path: name.into(),
        if_not_exists: false,
        columns: columns.iter().map(column).collect(),
        settings: TableSettings {
            duplicates: Duplicates::Keep,
            ..TableSettings::default()
        },
        declared: DeclaredTable::default(),
        is_hypertable: false,
        payload: None,
    }
}

fn in_public(table: &str) -> TableName {
    TableName {
        database: "d".to_owned(),
        schema: "public".to_owned(),
        table: table.to_owned(),
    }
}

/// What a server gives out it has made durable before: the next one, which knows nothing of it, begins behind it. So does another
/// that serves the same store at the same time.
#[test]
fn no_number_is_given_twice_whatever_ends_in_between() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = reopened(&disk);
    done(&engine, create_database("d"));
    let numbered = || Some(Numbered::new(NumberedBy::Default, 1));
    done(
        &engine,
        plain("t", &[("id", PhysicalType::I64, numbered())]),
    );
    let known = sequences(&engine.snapshot(), "d", "public");
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].name, "t_id_seq");
    let sequence = in_public("t_id_seq");
    assert_eq!(
        sequence_of(&engine.snapshot(), &in_public("t"), "id").unwrap(),
        "t_id_seq"
    );

    let (one, other) = (Sequences::default(), Sequences::default());
    let mut given = one.take(&engine, &sequence, 3).unwrap();
    assert_eq!(given, [1, 2, 3]);
    given.extend(other.take(&engine, &sequence, 100).unwrap());
    given.extend(one.take(&engine, &sequence, 40).unwrap());
    drop((one, other, engine));
    let engine = reopened(&disk);
    let after = Sequences::default();
    given.extend(after.take(&engine, &sequence, 40).unwrap());
    let all: std::collections::BTreeSet<i64> = given.iter().copied().collect();
    assert_eq!(all.len(), 183, "{given:?}");

    // Another table of the name begins anew, and what memory had of the first one's numbers is not given out.
    let drop_table = Change::DropTable {
        path: "t".into(),
        if_exists: false,
    };
    done(&engine, drop_table);
    assert!(sequences(&engine.snapshot(), "d", "public").is_empty());
    after.take(&engine, &sequence, 1).unwrap_err();
    done(
        &engine,
        plain("t", &[("id", PhysicalType::I64, numbered())]),
    );
    assert_eq!(after.take(&engine, &sequence, 2).unwrap(), [1, 2]);
}

#[test]
fn a_default_is_read_back_as_the_number_that_it_was_written_as() {
    for (sequence, how, start) in [
        ("t_id_seq", NumberedBy::Default, 1),
        ("T 'id\"_seq", NumberedBy::Default, 1),
        ("t_id_seq", NumberedBy::Identity, -7),
        ("a\" START 9)", NumberedBy::Always, 9),
        ("", NumberedBy::Always, 1),
    ] {
        let numbered = Numbered {
            sequence: sequence.to_owned(),
            how,
            start,
        };
        assert_eq!(Numbered::of(&numbered.text()), Some(numbered));
    }
    for other in ["7", "nextval('a')", "GENERATED ALWAYS AS (a + 1)", ""] {
        assert_eq!(Numbered::of(other), None, "{other}");
    }
}

/// The tags of a hypertable are durable with it, and SQL goes on showing its columns where they were.
#[test]
fn a_hypertable_has_its_tags_after_the_next_start() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = reopened(&disk);
    done(&engine, create_database("d"));
    done(
        &engine,
        plain(
            "cpu",
            &[
                ("usage", PhysicalType::F64, None),
                ("host", PhysicalType::Text, None),
                ("n", PhysicalType::I64, None),
            ],
        ),
    );
    let index = |columns: [&str; 2]| Change::CreateIndex {
        path: "cpu".into(),
        new: NewIndex {
            name: None,
            if_not_exists: false,
            is_unique: false,
            columns: columns.iter().map(|it| Some((*it).to_owned())).collect(),
            definition: format!("USING btree ({})", columns.join(", ")),
        },
    };
    // A float tells no series apart, and one that does not continue with the time is not meant.
    for columns in [["usage", "time"], ["n", "usage"], ["host", "time"]] {
        let leading = columns[0];
        done(&engine, index(columns));
        assert!(leading != "host" || indexes(&engine.snapshot(), ("d", "public")).len() == 3);
    }
    let new = || NewHypertable {
        path: "cpu".into(),
        time: "time".to_owned(),
        space: None,
        interval: Some(ChunkInterval::Number(43_200_000_000)),
        has_default_indexes: false,
        if_not_exists: false,
        migrate_data: false,
    };
    let scope = Scope::of_database("d");
    let make =
        |engine: &Arc<Engine>, new| create_hypertable(engine, &Principal::anyone(), &scope, new);
    // The first of them that could is the float's; then comes the one of the host.
    let first = make(&engine, new()).unwrap();
    assert!(first.is_new);
    drop(engine);
    let engine = reopened(&disk);
    let table = engine.snapshot().table("d", "public", "cpu").unwrap();
    assert_eq!(i64::from(table.id.0), first.id);
    let again = make(&engine, new()).unwrap_err();
    assert!(
        again.to_string().contains("already a hypertable"),
        "{again}"
    );
    let shown: Vec<String> = table
        .shown_columns()
        .schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(shown, ["time", "usage", "host", "n"]);
    let tags: Vec<&str> = table.tags.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(tags, ["host"]);
    assert_eq!(table.settings.partition_interval_ns, DAY_NS / 2);
}
