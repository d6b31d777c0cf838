//! What is dropped leaves nothing behind and its ids to nobody.

use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{
    ColumnId, ColumnKind, DeleteRequest, Error, NewColumn, Sabotage, SystemClock, TableId,
    TableSettings,
};

use super::{F64, everywhere, lines, open, open_with, rows, scan_all, session, table, write};

#[test]
fn a_dropped_table_leaves_no_row_to_the_one_that_follows() {
    everywhere(
        |engine| write(engine, "m,host=a v=1,w=2i 10\nm,host=b v=3 20\nkept v=1 1"),
        |engine| engine.drop_table("d", "public", "m").unwrap(),
        |engine| write(engine, "m,host=b v=4 20\nm,host=c v=5 30"),
        |engine, told| {
            let expected = [
                "d.public.kept time=1 v=1.0",
                "d.public.m host=b time=20 v=4.0",
                "d.public.m host=c time=30 v=5.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
            assert_eq!(table(engine, "m").fields.len(), 1, "{told}");
        },
    );
}

#[test]
fn a_dropped_table_stays_away() {
    everywhere(
        |engine| write(engine, "m v=1 10\nkept v=1 1"),
        |engine| engine.drop_table("d", "public", "m").unwrap(),
        |_| {},
        |engine, told| {
            assert_eq!(rows(engine), ["d.public.kept time=1 v=1.0"], "{told}");
            assert_eq!(engine.metrics().tables, 1, "{told}");
            assert_eq!(engine.metrics().series, 1, "{told}");
        },
    );
}

#[test]
fn a_store_whose_only_table_is_dropped_flushes_and_opens() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, "m v=1 10");
    engine.drop_table("d", "public", "m").unwrap();
    engine.flush().unwrap();
    assert_eq!(engine.metrics().segments, 0);
    drop(engine);
    assert_eq!(rows(&open(&disk)), [""; 0]);
}

#[test]
fn schemas_and_databases_take_their_tables_with_them() {
    everywhere(
        |engine| {
            write(engine, "m v=1 10");
            engine.create_schema("d", "s").unwrap();
            engine.set_default_schema("d", "s").unwrap();
            write(engine, "m v=2 10");
            engine.create_database("e").unwrap();
            lines(&mut session(engine, "e"), "m v=3 10");
        },
        |engine| {
            engine.drop_schema("d", "public").unwrap();
            engine.drop_database("e").unwrap();
        },
        |engine| {
            engine.create_schema("d", "public").unwrap();
            engine.create_database("e").unwrap();
            lines(&mut session(engine, "e"), "m v=4 11");
        },
        |engine, told| {
            let expected = ["d.s.m time=10 v=2.0", "e.public.m time=11 v=4.0"];
            assert_eq!(rows(engine), expected, "{told}");
            let snapshot = engine.snapshot();
            assert_eq!(snapshot.schemas("d").unwrap(), ["public", "s"], "{told}");
            assert_eq!(snapshot.tables("d", "public").unwrap(), [""; 0], "{told}");
        },
    );
}

#[test]
fn a_dropped_field_leaves_no_value_to_the_one_that_follows() {
    everywhere(
        |engine| write(engine, "m,host=a v=1,w=2 10\nm,host=a v=3 20"),
        |engine| engine.drop_column("d", "public", "m", "v").unwrap(),
        |engine| write(engine, "m,host=a v=\"text\" 30"),
        |engine, told| {
            let expected = [
                "d.public.m host=a time=10 w=2.0",
                "d.public.m host=a time=20",
                "d.public.m host=a time=30 v=text",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

#[test]
fn series_that_only_a_dropped_tag_told_apart_stay_apart() {
    everywhere(
        |engine| write(engine, "m,host=a,rack=1 v=1 10\nm,host=a,rack=2 v=2 10"),
        |engine| engine.drop_column("d", "public", "m", "rack").unwrap(),
        |engine| {
            write(engine, "m,host=a v=3 10");
            // A tag of the name is another tag: this is a fourth series.
            write(engine, "m,host=a,rack=1 v=4 10");
        },
        |engine, told| {
            let expected = [
                "d.public.m host=a time=10 v=1.0",
                "d.public.m host=a time=10 v=2.0",
                "d.public.m host=a time=10 v=3.0",
                "d.public.m host=a rack=1 time=10 v=4.0",
            ];
            assert_eq!(rows(engine), expected, "{told}");
        },
    );
}

/// Ids of everything that has been made by the name `m` in the schema `s`, through its drop and its return.
#[test]
fn ids_are_never_given_out_again() {
    for (flush, reopen) in [(false, false), (false, true), (true, false), (true, true)] {
        let disk = MemoryDisk::new();
        let mut engine = open(&disk);
        engine.create_database("d").unwrap();
        let mut schemas = Vec::new();
        let mut tables = Vec::new();
        let mut columns = Vec::new();
        for round in 0..6 {
            engine.create_schema("d", "s").unwrap();
            let new = [
                NewColumn {
                    name: "host",
                    kind: ColumnKind::Tag,
                },
                NewColumn {
                    name: "v",
                    kind: ColumnKind::Field(F64),
                },
            ];
            engine
                .create_table("d", "s", "m", &new, TableSettings::default())
                .unwrap();
            let made = engine.snapshot().table("d", "s", "m").unwrap();
            schemas.push(made.schema);
            tables.push(made.id);
            columns.extend([made.tags[0].id, made.fields[0].id]);
            // What was made last has the highest ids of all.
            match round % 3 {
                0 => engine.drop_schema("d", "s").unwrap(),
                1 => engine.drop_table("d", "s", "m").unwrap(),
                _ => engine.drop_database("d").unwrap(),
            }
            engine.create_database("d").unwrap();
            if flush {
                engine.flush().unwrap();
            }
            if reopen {
                drop(engine);
                engine = open(&disk);
            }
        }
        let rising = |ids: &[u32]| ids.windows(2).all(|pair| pair[0] < pair[1]);
        let tables: Vec<u32> = tables.iter().map(|id: &TableId| id.0).collect();
        assert!(rising(&tables), "{tables:?}");
        let columns: Vec<u32> = columns.iter().map(|id: &ColumnId| id.0).collect();
        assert!(rising(&columns), "{columns:?}");
        // Dropping the table alone leaves the schema, so its id stands there twice, side by side.
        schemas.dedup();
        let schemas: Vec<u32> = schemas.iter().map(|id| id.0).collect();
        assert_eq!(schemas.len(), 4);
        assert!(rising(&schemas), "{schemas:?}");
    }
}

/// The planted bug is one that these tests would notice, or it could not show that the simulation does.
#[test]
fn an_id_given_out_again_brings_old_rows_back() {
    let tell = |sabotage| {
        let disk = MemoryDisk::new();
        let engine = open_with(&disk, Arc::new(SystemClock), sabotage);
        write(&engine, "m,host=a v=1 10");
        engine.drop_table("d", "public", "m").unwrap();
        write(&engine, "m,host=b v=2 20");
        let live = rows(&engine);
        drop(engine);
        let engine = open_with(&disk, Arc::new(SystemClock), sabotage);
        (live, rows(&engine))
    };
    let right = vec!["d.public.m host=b time=20 v=2.0".to_owned()];
    assert_eq!(tell(None), (right.clone(), right.clone()));
    let (live, reopened) = tell(Some(Sabotage::SeriesIdReused));
    assert_ne!(live, right);
    assert_ne!(reopened, right);
}

#[test]
fn maintenance_frees_what_a_drop_left() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, "kept v=1 1");
    engine.settle().unwrap();
    write(&engine, "m v=1 10\nm v=2 20");
    engine.settle().unwrap();
    assert_eq!(engine.metrics().segments, 2);
    // There was nothing more to do; a drop is a reason to look again.
    engine.drop_table("d", "public", "m").unwrap();
    engine.settle().unwrap();
    assert_eq!(engine.metrics().segments, 1);
    let kept = ["d.public.kept time=1 v=1.0"];
    assert_eq!(rows(&engine), kept);
    drop(engine);
    let engine = open(&disk);
    assert_eq!(rows(&engine), kept);
    let refused = engine.drop_table("d", "public", "m");
    assert!(matches!(refused, Err(Error::NotFound { .. })));
}

#[test]
fn a_delete_from_a_dropped_table_says_so() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=1 10");
    let request = DeleteRequest {
        table: table(&engine, "m"),
        time: 0..=100,
        tags: Vec::new(),
    };
    engine.drop_table("d", "public", "m").unwrap();
    assert!(matches!(
        engine.delete(&request),
        Err(Error::TableDropped { table }) if table == "m"
    ));
}

/// Until snapshots had names of their own, a scan that was planned after the drop was refused, though its rows were there.
#[test]
fn a_scan_of_a_table_that_was_dropped_since_ends_well_and_one_of_a_later_table_says_so() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=1 10\nm v=2 20");
    engine.flush().unwrap();
    write(&engine, "m v=3 30");
    let snapshot = engine.snapshot();
    let request = scan_all(table(&engine, "m"));
    let planned = snapshot.scan(&request).unwrap();
    engine.drop_table("d", "public", "m").unwrap();
    let planned_after = snapshot.scan(&request).unwrap();
    engine.settle().unwrap();
    let planned_at_last = snapshot.scan(&request).unwrap();
    for scan in [planned, planned_after, planned_at_last] {
        let read: usize = scan.read(0).map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(read, 3);
    }
    let refused = engine.snapshot().scan(&request).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "table \"m\" was dropped meanwhile; ask for it by name again"
    );
}
