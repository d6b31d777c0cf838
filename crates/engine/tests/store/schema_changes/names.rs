//! What is made, renamed and set, and what is refused.

use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{
    ColumnDef, ColumnKind, Duplicates, Engine, Error, NewColumn, TableSettings,
};

use super::{F64, I64, everywhere, lines, open, rows, session, table, write};

#[test]
fn what_is_renamed_keeps_its_rows_and_frees_its_name() {
    everywhere(
        |engine| {
            write(engine, "m,host=a v=1 10");
            engine.create_database("e").unwrap();
            lines(&mut session(engine, "e"), "m v=9 1");
        },
        |engine| {
            engine.rename_column("d", "public", "m", "v", "w").unwrap();
            engine
                .rename_column("d", "public", "m", "host", "server")
                .unwrap();
            engine.rename_table("d", "public", "m", "n").unwrap();
            engine.rename_schema("d", "public", "main").unwrap();
            engine.rename_database("e", "f").unwrap();
        },
        |engine| {
            write(engine, "n,server=a v=2 10\nm,host=a v=3 10");
            engine.create_database("e").unwrap();
            lines(&mut session(engine, "e"), "m v=8 2");
        },
        |engine, told| {
            let expected = [
                "d.main.m host=a time=10 v=3.0",
                "d.main.n server=a time=10 v=2.0 w=1.0",
                "e.public.m time=2 v=8.0",
                "f.public.m time=1 v=9.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

#[test]
fn a_tag_and_a_field_of_one_name_are_two_columns() {
    everywhere(
        |engine| write(engine, "m,x=tag x=1,y=5 10"),
        |engine| {
            let names = |engine| {
                let arrow = table(engine, "m").arrow_schema();
                let names = arrow.fields().iter().map(|field| field.name().clone());
                names.collect::<Vec<_>>()
            };
            assert_eq!(names(engine), ["time", "x", "x_1", "y"]);
            engine
                .rename_column("d", "public", "m", "x_1", "z")
                .unwrap();
            assert_eq!(names(engine), ["time", "x", "z", "y"]);
            // A field may take a tag's name, a tag may not take a tag's.
            engine.rename_column("d", "public", "m", "y", "x").unwrap();
            assert_eq!(names(engine), ["time", "x", "z", "x_1"]);
            engine.drop_column("d", "public", "m", "x").unwrap();
        },
        |engine| write(engine, "m x=6 10\nm,x=tag x=7 10"),
        |engine, told| {
            let expected = [
                "d.public.m time=10 x_1=5.0 z=1.0",
                "d.public.m time=10 x_1=6.0",
                "d.public.m time=10 x=tag x_1=7.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

#[test]
fn columns_and_settings_of_a_new_table_are_there_before_its_first_row() {
    let settings = TableSettings {
        cold_after_ns: None,
        duplicates: Duplicates::Keep,
        partition_interval_ns: 3_600_000_000_000,
        retention_ns: Some(1),
    };
    let changed = TableSettings {
        retention_ns: None,
        ..settings
    };
    everywhere(
        |engine| {
            engine.create_database("d").unwrap();
            let columns = [
                NewColumn {
                    name: "x",
                    kind: ColumnKind::Field(I64),
                },
                NewColumn {
                    name: "x",
                    kind: ColumnKind::Tag,
                },
            ];
            let create = || engine.create_table("d", "public", "m", &columns, settings);
            assert!(create().unwrap());
            assert!(!create().unwrap(), "it is there already");
            assert_eq!(table(engine, "m").settings, settings);
        },
        |engine| {
            let add = |kind| {
                let column = NewColumn { name: "y", kind };
                engine.add_column("d", "public", "m", column)
            };
            assert!(add(ColumnKind::Field(F64)).unwrap());
            assert!(!add(ColumnKind::Field(F64)).unwrap());
            assert!(add(ColumnKind::Tag).unwrap(), "the key is kind and name");
            assert!(matches!(
                add(ColumnKind::Field(I64)),
                Err(Error::ExistsAlready { what: "column", .. })
            ));
            engine.set_table("d", "public", "m", changed).unwrap();
        },
        |_| {},
        |engine, told| {
            let made = table(engine, "m");
            assert_eq!(made.settings, changed, "{told}");
            let names = |columns: &[ColumnDef]| {
                let keys = columns.iter().map(|c| (c.name.clone(), c.kind));
                keys.collect::<Vec<_>>()
            };
            let tag = |name: &str| (name.to_owned(), ColumnKind::Tag);
            let field = |name: &str, kind| (name.to_owned(), ColumnKind::Field(kind));
            assert_eq!(names(&made.tags), [tag("x"), tag("y")], "{told}");
            let fields = [field("x", I64), field("y", F64)];
            assert_eq!(names(&made.fields), fields, "{told}");
        },
    );
}

#[test]
fn a_table_without_a_retention_has_its_schemas() {
    let retention = |engine: &Arc<Engine>, name| {
        let id = table(engine, name).id;
        engine.snapshot().retention_ns(id)
    };
    everywhere(
        |engine| write(engine, "m v=1 1\nown v=1 1\nkept v=1 1"),
        |engine| {
            assert_eq!(retention(engine, "m"), None);
            engine.set_schema_retention("d", "public", Some(5)).unwrap();
            for (name, retention_ns) in [("own", 7), ("kept", i64::MAX)] {
                let settings = TableSettings {
                    retention_ns: Some(retention_ns),
                    ..TableSettings::default()
                };
                engine.set_table("d", "public", name, settings).unwrap();
            }
        },
        |_| {},
        |engine, told| {
            assert_eq!(retention(engine, "m"), Some(5), "{told}");
            assert_eq!(retention(engine, "own"), Some(7), "{told}");
            assert_eq!(retention(engine, "kept"), None, "{told}");
        },
    );
}

#[test]
fn line_protocol_goes_where_the_default_schema_points() {
    everywhere(
        |engine| {
            write(engine, "m v=1 1");
            assert!(engine.create_schema("d", "s").unwrap());
            assert!(!engine.create_schema("d", "s").unwrap());
        },
        |engine| {
            let mut old = session(engine, "d");
            lines(&mut old, "m v=2 2");
            engine.set_default_schema("d", "s").unwrap();
            lines(&mut old, "m v=3 3");
        },
        |engine| write(engine, "m v=4 4"),
        |engine, told| {
            let expected = [
                "d.public.m time=1 v=1.0",
                "d.public.m time=2 v=2.0",
                "d.s.m time=3 v=3.0",
                "d.s.m time=4 v=4.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
            let default = engine.snapshot().default_schema("d");
            assert_eq!(default.as_deref(), Some("s"), "{told}");
        },
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "Cpu,host=a v=1 10\nm v=1 1");
    let said = |result: Result<(), Error>| result.unwrap_err().to_string();
    assert_eq!(
        said(engine.drop_table("d", "public", "cpu")),
        "table \"cpu\" not found in \"d\".\"public\"; did you mean \"Cpu\"? Upper and lower case are told apart"
    );
    assert_eq!(
        said(engine.drop_column("d", "public", "m", "w")),
        "column \"w\" not found in table \"m\"; there are: v"
    );
    assert_eq!(
        said(engine.drop_schema("d", "other")),
        "schema \"other\" not found in database \"d\"; there are: public"
    );
    assert_eq!(
        said(engine.drop_database("other")),
        "database not found: \"other\""
    );
    assert_eq!(
        said(engine.drop_schema("d", "public")),
        "schema \"public\" is the default schema of \"d\"; make another schema the default one first, or drop the database"
    );
    assert_eq!(
        said(engine.rename_table("d", "public", "m", "Cpu")),
        "table \"Cpu\" exists already in \"d\".\"public\"; choose another name, or rename or drop the one that is there"
    );
    assert_eq!(
        said(engine.rename_column("d", "public", "m", "v", "time")),
        "invalid column name \"time\": it is the time column's"
    );
    assert_eq!(
        said(engine.change_type("d", "public", "Cpu", "host", I64)),
        "column \"host\" of table \"Cpu\" is a tag, and tags are text; name a field"
    );
    let set = |partition_interval_ns, retention_ns| {
        let settings = TableSettings {
            partition_interval_ns,
            retention_ns,
            ..TableSettings::default()
        };
        engine.set_table("d", "public", "m", settings)
    };
    assert_eq!(
        said(set(0, None)),
        "the partition interval must be 1 nanosecond or more, not 0"
    );
    assert_eq!(
        said(set(1, Some(-1))),
        "the retention must be 1 nanosecond or more, not -1"
    );
    let twice = NewColumn {
        name: "x",
        kind: ColumnKind::Tag,
    };
    let created = engine.create_table("d", "public", "n", &[twice; 2], TableSettings::default());
    assert!(matches!(
        created,
        Err(Error::ExistsAlready { what: "column", .. })
    ));
    for name in ["", "a\nb", &"x".repeat(1025)] {
        assert!(matches!(
            engine.rename_table("d", "public", "m", name),
            Err(Error::InvalidName { .. })
        ));
    }
    let expected = [
        "d.public.Cpu host=a time=10 v=1.0",
        "d.public.m time=1 v=1.0",
    ];
    assert_eq!(rows(&engine), expected);
}
