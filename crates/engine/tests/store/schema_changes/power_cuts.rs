//! A change of the schema is durable when it returns and whole or absent before, wherever the power goes.

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, FaultyDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    ColumnKind, Duplicates, Engine, Error, NewColumn, Options, SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

use crate::support::everything;

type Step = fn(&Arc<Engine>) -> Result<(), Error>;

/// Each is one change, so that the store may only ever be seen between two of them.
const STEPS: [Step; 22] = [
    |engine| engine.create_database("d").map(drop),
    |engine| {
        let columns = [
            NewColumn {
                name: "host",
                kind: ColumnKind::Tag,
            },
            NewColumn {
                name: "v",
                kind: ColumnKind::Field(PhysicalType::I64),
            },
        ];
        let settings = TableSettings {
            cold_after_ns: None,
            duplicates: Duplicates::Keep,
            partition_interval_ns: 1000,
            retention_ns: Some(2000),
        };
        let created = engine.create_table("d", "public", "m", &columns, settings);
        created.map(drop)
    },
    |engine| write(engine, "m,host=a v=1i 10\nm,host=b v=2i 20"),
    |engine| {
        write(
            engine,
            "m,host=a v=3i,room=\"hall\" 30\nm v=4i,room=\"attic\" 10",
        )
    },
    |engine| engine.rewrite_tags("d", "public", "m", &["room".to_owned()], false, &|| false),
    |engine| engine.change_type("d", "public", "m", "v", PhysicalType::F64),
    |engine| write(engine, "m,host=a v=1.5 30"),
    |engine| engine.flush(),
    |engine| engine.rename_column("d", "public", "m", "v", "w"),
    |engine| {
        let column = NewColumn {
            name: "v",
            kind: ColumnKind::Field(PhysicalType::Bool),
        };
        engine.add_column("d", "public", "m", column).map(drop)
    },
    |engine| write(engine, "m,host=a v=true 30"),
    |engine| engine.drop_column("d", "public", "m", "w"),
    |engine| engine.create_schema("d", "s").map(drop),
    |engine| engine.set_schema_retention("d", "s", Some(7)),
    |engine| engine.rename_table("d", "public", "m", "n"),
    |engine| engine.set_default_schema("d", "s"),
    |engine| engine.rename_schema("d", "public", "old"),
    |engine| engine.flush(),
    |engine| engine.drop_table("d", "old", "n"),
    |engine| engine.rename_database("d", "e"),
    |engine| engine.drop_schema("e", "old"),
    |engine| engine.drop_database("e"),
];

fn write(engine: &Arc<Engine>, body: &str) -> Result<(), Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!(report.rejected, []);
    Ok(())
}

fn open(disk: &FaultyDisk) -> Result<Arc<Engine>, Error> {
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    engine.map(Arc::new)
}

/// Everything that a user can see.
fn describe(engine: &Arc<Engine>) -> String {
    let snapshot = engine.snapshot();
    let mut text = String::new();
    for database in snapshot.databases() {
        text += &format!("{database}: {:?}\n", snapshot.default_schema(&database));
        for schema in snapshot.schemas(&database).unwrap() {
            text += &format!("{schema}\n");
            for name in snapshot.tables(&database, &schema).unwrap() {
                let table = snapshot.table(&database, &schema, &name).unwrap();
                let retention_ns = snapshot.retention_ns(table.id);
                text += &format!(
                    "{name}: {:?}, kept for {retention_ns:?}, {:?}, {:?}\n",
                    table.settings, table.tags, table.fields
                );
            }
        }
    }
    text + &format!("{:#?}", everything(engine).unwrap())
}

/// What is seen after each number of steps, and the calls that all of them make.
fn calm() -> (Vec<String>, u64) {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk).unwrap();
    disk.set_plan(CrashPlan::default());
    let mut seen = vec![describe(&engine)];
    for step in STEPS {
        step(&engine).unwrap();
        seen.push(describe(&engine));
    }
    (seen, disk.calls())
}

/// Runs until the power goes; returns how many steps were acknowledged.
fn run(engine: &Arc<Engine>) -> usize {
    let failed = STEPS.iter().position(|step| step(engine).is_err());
    failed.unwrap_or(STEPS.len())
}

#[test]
fn after_a_power_cut_a_change_holds_if_it_was_acknowledged_and_is_whole_if_it_was_not() {
    let (seen, calls) = calm();
    let mut cut_inside = 0;
    for seed in 0..4 {
        for crash_at in 1..=calls {
            let disk = FaultyDisk::new(seed, CrashPlan::default());
            let engine = open(&disk).unwrap();
            disk.set_plan(CrashPlan {
                crash_at: Some(crash_at),
                ..CrashPlan::default()
            });
            let acknowledged = run(&engine);
            drop(engine);
            let disk = disk.after_power_cut(seed ^ crash_at, CrashPlan::default());
            let engine = open(&disk).unwrap();
            let found = describe(&engine);
            let allowed = [Some(&seen[acknowledged]), seen.get(acknowledged + 1)];
            assert!(
                allowed.contains(&Some(&found)),
                "seed {seed}, call {crash_at}, {acknowledged} acknowledged:\n{found}\ninstead of\n{}",
                seen[acknowledged]
            );
            cut_inside += usize::from(acknowledged < STEPS.len());
            // And what recovery shows is durable: it is the same after the next cut.
            drop(engine);
            let disk = disk.after_power_cut(seed, CrashPlan::default());
            assert_eq!(describe(&open(&disk).unwrap()), found);
        }
    }
    assert!(cut_inside > 100, "the power went {cut_inside} times");
}

#[test]
fn a_change_whose_sync_fails_does_not_hold_and_stops_writing() {
    let drop_it: Step = |engine| engine.drop_table("d", "public", "m");
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk).unwrap();
    engine.create_database("d").unwrap();
    write(&engine, "m v=1 10").unwrap();
    let before = describe(&engine);
    disk.set_plan(CrashPlan {
        fail_sync_at: (1..100).collect(),
        ..CrashPlan::default()
    });
    assert!(drop_it(&engine).is_err());
    assert!(disk.failures() > 0);
    assert_eq!(describe(&engine), before, "nobody saw it go");
    disk.set_plan(CrashPlan::default());
    assert!(matches!(drop_it(&engine), Err(Error::Poisoned { .. })));
    assert!(matches!(
        write(&engine, "m v=2 20"),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(describe(&engine), before);
}
