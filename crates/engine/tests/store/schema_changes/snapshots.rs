//! A snapshot shows what was there when it was taken, whatever is made, renamed, retyped, set or dropped after it.

use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{
    ColumnKind, Duplicates, Engine, NewColumn, NewRelation, RelationChange, RelationColumn,
    Snapshot, TableSettings, TagMatch, TagPredicate, Value,
};

use super::{F64, I64, TEXT, lines, open, session, write};
use crate::support::{Answer, everything_in};

/// All that a snapshot says of names, types and settings, as text.
fn names_in(snapshot: &Snapshot) -> Vec<String> {
    let mut told = Vec::new();
    for database in snapshot.databases() {
        told.push(format!(
            "{database}, default {:?}",
            snapshot.default_schema(&database)
        ));
        for schema in snapshot.schemas(&database).unwrap() {
            told.push(format!(
                "{database}.{schema} kept {:?}",
                snapshot.schema_retention_ns(&database, &schema)
            ));
            for name in snapshot.tables(&database, &schema).unwrap() {
                let table = snapshot.table(&database, &schema, &name).unwrap();
                told.push(format!(
                    "{database}.{schema}.{} {:?} kept {:?}: {:?} {:?}",
                    table.name,
                    table.settings.duplicates,
                    snapshot.retention_ns(table.id),
                    table.arrow_schema().fields(),
                    snapshot.series_count(&table, &[]).unwrap(),
                ));
            }
            for name in snapshot.relations(&database, &schema).unwrap() {
                told.push(format!("{database}.{schema}.{name} relation"));
            }
        }
    }
    told
}

fn all_of(snapshot: &Snapshot) -> (Vec<String>, Answer) {
    (names_in(snapshot), everything_in(snapshot).unwrap())
}

fn make_places(engine: &Arc<Engine>) {
    let definition = NewRelation {
        columns: vec![RelationColumn {
            name: "name".to_owned(),
            kind: TEXT,
            nullable: false,
        }],
        primary_key: vec!["name".to_owned()],
        unique: Vec::new(),
    };
    engine
        .create_relation("d", "public", "places", &definition)
        .unwrap();
    let reader = engine.snapshot().relation("d", "public", "places").unwrap();
    let rows = vec![vec![Value::Text("Aswan".into())]];
    engine
        .write_relations(&[RelationChange::Insert(Arc::clone(reader.schema()), rows)])
        .unwrap();
}

/// What it does, and the change.
type Step = (&'static str, fn(&Arc<Engine>));

/// What may happen to names after a snapshot was taken, in an order in which each step can be done.
const STEPS: &[Step] = &[
    ("a table is made", |it| write(it, "new,host=z v=1 1")),
    ("a column is made", |it| write(it, "m,host=a,rack=1 w=1 10")),
    ("a series is made", |it| write(it, "m,host=later v=5 50")),
    ("a field is renamed", |it| {
        it.rename_column("d", "public", "m", "v", "x").unwrap();
    }),
    ("a tag is renamed", |it| {
        it.rename_column("d", "public", "m", "host", "server")
            .unwrap();
    }),
    ("a type is changed", |it| {
        it.change_type("d", "public", "m", "n", F64).unwrap();
        write(it, "m,server=a n=1.5 11");
    }),
    ("a field is dropped", |it| {
        it.drop_column("d", "public", "m", "x").unwrap();
    }),
    ("a table gets other settings", |it| {
        let settings = TableSettings {
            duplicates: Duplicates::Keep,
            retention_ns: Some(5_000_000_000),
            ..TableSettings::default()
        };
        it.set_table("d", "public", "m", settings).unwrap();
    }),
    ("a schema gets other settings", |it| {
        it.set_schema_retention("d", "public", Some(7_000_000_000))
            .unwrap();
    }),
    ("a table is renamed, and another takes its name", |it| {
        it.rename_table("d", "public", "m", "old").unwrap();
        write(it, "m,host=a v=99 10");
    }),
    ("a table is dropped, and another takes its name", |it| {
        it.drop_table("d", "public", "gone").unwrap();
        write(it, "gone,host=a v=77 10");
    }),
    ("a relation is dropped", |it| {
        it.drop_relation("d", "public", "places").unwrap();
    }),
    ("another schema is the default", |it| {
        it.create_schema("d", "later").unwrap();
        it.set_default_schema("d", "later").unwrap();
    }),
    ("a schema is renamed", |it| {
        it.rename_schema("d", "public", "main").unwrap();
    }),
    ("a schema is dropped", |it| {
        it.drop_schema("d", "main").unwrap();
    }),
    ("a database is renamed, and another takes its name", |it| {
        it.rename_database("d", "e").unwrap();
        it.create_database("d").unwrap();
        lines(&mut session(it, "d"), "m,host=a v=11 10");
    }),
    ("databases are dropped", |it| {
        it.drop_database("d").unwrap();
        it.drop_database("e").unwrap();
    }),
];

/// A report took its list of tables from a snapshot and read each of them from the same one. Between the two steps somebody
/// renamed a table and another got its name: the report showed the rows of none of them, and called it by a name that
/// never had been. A snapshot said that nothing later changes it, but looked names up in the catalogue of now.
#[test]
fn no_change_of_names_shows_in_a_snapshot_that_was_taken_before() {
    for flush_before in [false, true] {
        for settle_between in [false, true] {
            let engine = open(&MemoryDisk::new());
            write(
                &engine,
                "m,host=a v=1,n=1i 10\nm,host=b v=2,n=2i 20\ngone,host=g v=3 30",
            );
            make_places(&engine);
            if flush_before {
                engine.settle().unwrap();
            }
            let snapshot = engine.snapshot();
            let before = all_of(&snapshot);
            let tables = snapshot.tables("d", "public");
            assert_eq!(tables, Some(vec!["gone".to_owned(), "m".to_owned()]));
            assert_eq!(before.1["d.public.m"].len(), 2);
            assert_eq!(before.1["d.public.places"].len(), 1);
            for (step, change) in STEPS {
                let then = engine.snapshot();
                let seen = all_of(&then);
                change(&engine);
                if settle_between {
                    engine.settle().unwrap();
                }
                let told =
                    format!("{step}; flushed before: {flush_before}, settled: {settle_between}");
                assert_eq!(all_of(&then), seen, "{told}");
                assert_eq!(all_of(&snapshot), before, "{told}");
                assert_ne!(all_of(&engine.snapshot()), seen, "{told}");
            }
        }
    }
}

/// Somebody counted a table's series twice in one statement, and the second number was the larger one.
#[test]
fn series_that_come_later_are_not_in_a_snapshot() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m,host=a,rack=1 v=1 10\nm,host=b,rack=1 v=2 20");
    let host_like = |prefix: &str| TagPredicate {
        column: 1,
        matches: TagMatch::OneOf(vec![Some(prefix.to_owned())]),
        negated: true,
    };
    let asked = |snapshot: &Snapshot| {
        let table = snapshot.table("d", "public", "m").unwrap();
        let host = table.tag("host").unwrap().id;
        let rack = table.tag("rack").unwrap().id;
        let mut told = Vec::new();
        for tags in [vec![], vec![host_like("nobody")]] {
            let ids = snapshot.series(&table, &tags).unwrap();
            told.push(snapshot.series_count(&table, &tags).unwrap().to_string());
            told.push(ids.len().to_string());
            for tag in [host, rack] {
                let values = snapshot.tag_values(&table, tag, &tags, "", 10);
                told.push(values.unwrap().join(" "));
            }
        }
        told
    };
    let two = ["2", "2", "a b", "1"].repeat(2);
    let three = ["3", "3", "a b c", "1 2"].repeat(2);
    let first = engine.snapshot();
    assert_eq!(asked(&first), two);
    write(&engine, "m,host=c,rack=2 v=3 30");
    let second = engine.snapshot();
    for told in ["in memory", "in a file", "settled"] {
        assert_eq!(asked(&first), two, "{told}");
        assert_eq!(asked(&second), three, "{told}");
        assert_eq!(asked(&engine.snapshot()), three, "{told}");
        if told == "in memory" {
            engine.flush().unwrap();
        } else {
            write(&engine, "n,host=d v=1 1");
            engine.settle().unwrap();
        }
    }
}

/// The writer of a body with many new fields waited for a query that had only just begun: it held the names.
#[test]
fn who_holds_a_snapshot_keeps_nobody_from_changing_names() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=1 10");
    let held: Vec<Snapshot> = (0..300)
        .map(|nth| {
            let snapshot = engine.snapshot();
            let field = format!("f{nth}");
            let column = NewColumn {
                name: &field,
                kind: ColumnKind::Field(I64),
            };
            assert!(engine.add_column("d", "public", "m", column).unwrap());
            write(&engine, &format!("t{nth} v=1 1"));
            snapshot
        })
        .collect();
    for (nth, snapshot) in held.iter().enumerate() {
        let table = snapshot.table("d", "public", "m").unwrap();
        assert_eq!(table.fields.len(), 1 + nth);
        let tables = snapshot.tables("d", "public").unwrap();
        assert_eq!(tables.len(), 1 + nth);
    }
}
