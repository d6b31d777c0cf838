//! Databases, and what relations of the store's own keep of them by name: grants, scheduled statements, progress of devices.
//!
//! Does: make, rename and drop a database together with these. Does not: check names or privileges.
//!
//! A database and these rows are two records of the log, so the store may stop between the two. What is left then has a name
//! without a database, and is forgotten before a database takes that name: another one of the name never has the grants of
//! the one before. A rename writes the rows of the new name first, so nothing of a database that is there is lost.

use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::{Engine, Error as EngineError, RelationChange, RelationSchema, Value};

use super::own_relations::{DEVICES, GRANTS, SCHEDULED, SCHEDULED_RUNS};
use crate::access::internal;

/// A relation with rows of databases, the column of their names, and how many columns its key has; they are the first.
const KEPT: [(&str, usize, usize); 4] = [
    (GRANTS, 1, 4),
    (SCHEDULED, 0, 2),
    (SCHEDULED_RUNS, 0, 2),
    (DEVICES, 0, 3),
];

/// Held while a database is made, renamed or dropped: in between nobody may take a name whose rows are about to go.
static CHANGES: Mutex<()> = Mutex::new(());

/// Makes a database; `false` = it is there.
pub fn create_database(engine: &Arc<Engine>, name: &str) -> Result<bool, EngineError> {
    let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there(engine, name) {
        return Ok(false);
    }
    forget(engine, name)?;
    engine.create_database(name)
}

/// Drops a database that is there.
pub(super) fn drop_database(engine: &Arc<Engine>, name: &str) -> Result<(), EngineError> {
    let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    engine.drop_database(name)?;
    forget(engine, name)
}

/// Renames a database that is there.
pub(super) fn rename_database(
    engine: &Arc<Engine>,
    name: &str,
    to: &str,
) -> Result<(), EngineError> {
    let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there(engine, to) {
        // The engine says what is wrong with it.
        return engine.rename_database(name, to);
    }
    copy(engine, name, to)?;
    if let Err(refused) = engine.rename_database(name, to) {
        // What stays after an error of its own is forgotten with the next database of the name.
        let _ = forget(engine, to);
        return Err(refused);
    }
    forget(engine, name)
}

fn is_there(engine: &Arc<Engine>, name: &str) -> bool {
    engine.snapshot().schemas(name).is_some()
}

/// Forgets all rows of a name.
fn forget(engine: &Arc<Engine>, name: &str) -> Result<(), EngineError> {
    let gone = kept_of(engine, name).map(|kept| {
        let key = |row: Vec<Value>| row.into_iter().take(kept.key_columns).collect();
        RelationChange::Delete(kept.schema, kept.rows.into_iter().map(key).collect())
    });
    write(engine, gone)
}

/// Gives a name the rows that another one has, and no others.
fn copy(engine: &Arc<Engine>, name: &str, to: &str) -> Result<(), EngineError> {
    forget(engine, to)?;
    let copied = kept_of(engine, name).map(|mut kept| {
        for database in kept
            .rows
            .iter_mut()
            .filter_map(|row| row.get_mut(kept.column))
        {
            *database = Value::from(to);
        }
        RelationChange::Replace(kept.schema, kept.rows)
    });
    write(engine, copied)
}

/// What a relation has of a database.
struct Kept {
    schema: Arc<RelationSchema>,
    /// The column of the database's name.
    column: usize,
    key_columns: usize,
    rows: Vec<Vec<Value>>,
}

/// Those that have something.
fn kept_of(engine: &Arc<Engine>, name: &str) -> impl Iterator<Item = Kept> {
    let snapshot = engine.snapshot();
    let name = Value::from(name);
    KEPT.into_iter()
        .filter_map(move |(relation, column, key_columns)| {
            let relation = internal(&snapshot, relation)?;
            let rows = relation.rows().into_iter();
            let rows = rows.filter(|row| row.get(column) == Some(&name));
            let rows: Vec<Vec<Value>> = rows.map(|row| row.to_vec()).collect();
            (!rows.is_empty()).then(|| Kept {
                schema: Arc::clone(relation.schema()),
                column,
                key_columns,
                rows,
            })
        })
}

/// Writes all of them in one record.
fn write(
    engine: &Arc<Engine>,
    changes: impl Iterator<Item = RelationChange>,
) -> Result<(), EngineError> {
    let changes: Vec<RelationChange> = changes.collect();
    if !changes.is_empty() {
        engine.write_relations(&changes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::{Options, SystemClock};

    use super::*;
    use crate::access::{Place, Privileges, grants, put_grant};
    use crate::jobs::schedule::{keep_scheduled, scheduled};

    fn open() -> Arc<Engine> {
        let disk = Arc::new(MemoryDisk::default());
        let dir = Path::new("/data");
        Arc::new(Engine::open(disk, Arc::new(SystemClock), dir, Options::default()).unwrap())
    }

    /// A database with a grant and a scheduled statement.
    fn keep(engine: &Arc<Engine>, name: &str) {
        assert!(create_database(engine, name).unwrap());
        put_grant(engine, "u", Place::database(name), Privileges::ALL).unwrap();
        keep_scheduled(engine, (name, "c"), "text").unwrap();
    }

    /// The databases with grants of `u`, and those with statements, as far as they are there: what is left of others is
    /// shown to nobody.
    fn kept(engine: &Arc<Engine>) -> (Vec<String>, Vec<String>) {
        let snapshot = engine.snapshot();
        let grants = grants(&snapshot, "u").into_iter();
        let statements = scheduled(&snapshot).into_iter();
        (
            grants.map(|it| it.database).collect(),
            statements.map(|it| it.database).collect(),
        )
    }

    /// The story: the server was killed between the record of DROP DATABASE and that of the grants, and the next database of that
    /// name let the old grantee write.
    #[test]
    fn a_database_never_has_what_was_granted_for_one_of_its_name_before() {
        let engine = open();
        keep(&engine, "a");
        // All that a stop after the first record leaves done.
        engine.drop_database("a").unwrap();
        assert_eq!(kept_of(&engine, "a").count(), 2);
        assert_eq!(kept(&engine), (vec![], vec![]));
        assert!(create_database(&engine, "a").unwrap());
        assert_eq!(kept(&engine), (vec![], vec![]));
        // One that is there keeps what it has.
        put_grant(&engine, "u", Place::database("a"), Privileges::READ).unwrap();
        assert!(!create_database(&engine, "a").unwrap());
        assert_eq!(kept(&engine).0, ["a"]);
        drop_database(&engine, "a").unwrap();
        assert_eq!(kept(&engine).0, [""; 0]);
    }

    /// The story: after a kill in RENAME the grants had the old name; the database had lost them, and a new one had them.
    #[test]
    fn a_rename_that_stops_halfway_loses_no_grant_and_gives_nobody_more() {
        let engine = open();
        keep(&engine, "a");
        // It stops after the rows of the new name: the database has all that it had, and one made of the other name nothing.
        copy(&engine, "a", "b").unwrap();
        assert!(create_database(&engine, "b").unwrap());
        assert_eq!(kept(&engine), (vec!["a".to_owned()], vec!["a".to_owned()]));
        drop_database(&engine, "b").unwrap();
        // It stops after the database's record.
        copy(&engine, "a", "b").unwrap();
        engine.rename_database("a", "b").unwrap();
        assert_eq!(kept(&engine).0, ["b"]);
        assert!(create_database(&engine, "a").unwrap());
        assert_eq!(kept(&engine), (vec!["b".to_owned()], vec!["b".to_owned()]));
        // To a name that is taken it changes nothing; to its end it takes all along.
        rename_database(&engine, "b", "a").unwrap_err();
        assert_eq!(kept(&engine).0, ["b"]);
        rename_database(&engine, "b", "").unwrap_err();
        assert_eq!(kept_of(&engine, "").count(), 0);
        rename_database(&engine, "b", "c").unwrap();
        assert_eq!(kept(&engine), (vec!["c".to_owned()], vec!["c".to_owned()]));
    }
}
