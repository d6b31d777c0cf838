//! The schedule: statements that run again and again by the clock, and up to when each has run.
//!
//! Does: keep both as rows of relations of the store's own, in the log and the backups. Does not: understand a statement, or say
//! when it is due; its language does ([`Language::due`](crate::Language::due)). `define/databases.rs` lets them go with their
//! database.

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationSchema, Snapshot, Value,
};

use crate::access::{internal_relation, internal_rows};
use crate::define::own_relations::{SCHEDULED, SCHEDULED_RUNS};
use crate::error::Error;

/// A statement of the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The database that it belongs to.
    pub database: String,
    /// Its name there.
    pub name: String,
    /// The statement, in the words of its language.
    pub text: String,
    /// When it was made, in nanoseconds since 1970: it counts from then on, also if it has never run.
    pub made_ns: i64,
    /// Up to when it has run, in nanoseconds since 1970; `None` = never.
    pub ran_to_ns: Option<i64>,
}

/// All statements, those of one database in the order in which they were made.
pub fn scheduled(snapshot: &Snapshot) -> Vec<Scheduled> {
    let runs = internal_rows(snapshot, SCHEDULED_RUNS);
    let ran_to = |database: &str, name: &str| {
        let own = runs
            .iter()
            .find(|row| text(row, 0) == database && text(row, 1) == name);
        own.and_then(|row| integer(row, 2))
    };
    let mut all: Vec<Scheduled> = internal_rows(snapshot, SCHEDULED)
        .iter()
        .map(|row| {
            let (database, name) = (text(row, 0), text(row, 1));
            Scheduled {
                ran_to_ns: ran_to(&database, &name),
                database,
                name,
                made_ns: integer(row, 2).unwrap_or_default(),
                text: text(row, 3),
            }
        })
        // One whose database went at the same time.
        .filter(|statement| snapshot.default_schema(&statement.database).is_some())
        .collect();
    all.sort_by_cached_key(|it| (it.database.clone(), it.made_ns, it.name.clone()));
    all
}

/// Keeps a statement that has not run yet; durable when this returns. One of the name in the database is replaced.
pub fn keep_scheduled(
    engine: &Arc<Engine>,
    (database, name): (&str, &str),
    text: &str,
) -> Result<(), Error> {
    let row = vec![
        Value::from(database),
        Value::from(name),
        Value::I64(engine.wall_ns()),
        Value::from(text),
    ];
    let (statements, runs) = (
        relation(engine, SCHEDULED)?,
        relation(engine, SCHEDULED_RUNS)?,
    );
    engine.write_relations(&[
        RelationChange::Replace(statements, vec![row]),
        RelationChange::Delete(runs, vec![key(database, name)]),
    ])?;
    Ok(())
}

/// Forgets a statement; one that is not there is no error.
pub fn forget_scheduled(engine: &Arc<Engine>, database: &str, name: &str) -> Result<(), Error> {
    let all = scheduled(&engine.snapshot());
    if !all
        .iter()
        .any(|known| known.database == database && known.name == name)
    {
        return Ok(());
    }
    let (statements, runs) = (
        relation(engine, SCHEDULED)?,
        relation(engine, SCHEDULED_RUNS)?,
    );
    engine.write_relations(&[
        RelationChange::Delete(statements, vec![key(database, name)]),
        RelationChange::Delete(runs, vec![key(database, name)]),
    ])?;
    Ok(())
}

/// Keeps up to when a statement has run.
pub fn note_run(
    engine: &Arc<Engine>,
    (database, name): (&str, &str),
    ran_to_ns: i64,
) -> Result<(), Error> {
    let row = vec![
        Value::from(database),
        Value::from(name),
        Value::I64(ran_to_ns),
    ];
    let runs = relation(engine, SCHEDULED_RUNS)?;
    engine.write_relations(&[RelationChange::Replace(runs, vec![row])])?;
    Ok(())
}

fn key(database: &str, name: &str) -> Vec<Value> {
    vec![Value::from(database), Value::from(name)]
}

fn text(row: &[Value], column: usize) -> String {
    match row.get(column) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn integer(row: &[Value], column: usize) -> Option<i64> {
    match row.get(column) {
        Some(Value::I64(value)) => Some(*value),
        _ => None,
    }
}

fn relation(engine: &Arc<Engine>, name: &str) -> Result<Arc<RelationSchema>, EngineError> {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let mut columns = vec![
        column("database", PhysicalType::Text),
        column("name", PhysicalType::Text),
    ];
    if name == SCHEDULED {
        columns.push(column("made_ns", PhysicalType::I64));
        columns.push(column("text", PhysicalType::Text));
    } else {
        columns.push(column("ran_to_ns", PhysicalType::I64));
    }
    let new = NewRelation {
        columns,
        primary_key: vec!["database".to_owned(), "name".to_owned()],
        unique: Vec::new(),
    };
    internal_relation(engine, name, &new)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::{Options, SystemClock};

    use super::*;

    fn names(engine: &Arc<Engine>) -> Vec<String> {
        let all = scheduled(&engine.snapshot()).into_iter();
        all.map(|it| format!("{}.{} {:?}", it.database, it.name, it.ran_to_ns))
            .collect()
    }

    #[test]
    fn the_schedule_outlives_the_process() {
        let disk = Arc::new(MemoryDisk::default());
        let open = || {
            let clock = Arc::new(SystemClock);
            let dir = Path::new("/data");
            Arc::new(Engine::open(Arc::clone(&disk) as _, clock, dir, Options::default()).unwrap())
        };
        let engine = open();
        engine.create_database("a").unwrap();
        engine.create_database("b").unwrap();
        for (database, name) in [("b", "one"), ("a", "two"), ("a", "one")] {
            keep_scheduled(&engine, (database, name), "text").unwrap();
        }
        note_run(&engine, ("a", "two"), 7).unwrap();
        engine.close().unwrap();
        drop(engine);
        let engine = open();
        assert_eq!(
            names(&engine),
            ["a.two Some(7)", "a.one None", "b.one None"]
        );
        // Made anew, it has not run.
        keep_scheduled(&engine, ("a", "two"), "text").unwrap();
        forget_scheduled(&engine, "a", "one").unwrap();
        forget_scheduled(&engine, "nowhere", "one").unwrap();
        // The end of a run that was on its way brings nothing back.
        note_run(&engine, ("a", "one"), 8).unwrap();
        assert_eq!(names(&engine), ["a.two None", "b.one None"]);
    }
}
