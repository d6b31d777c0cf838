//! Functions, procedures and background jobs of a user: they run with the privileges of whoever made them, and keep the name.
//!
//! Does: find it. Does not: know tables and views, which belong to nobody.

use std::sync::Arc;

use nilometer_engine::{RelationChange, RelationReader, Snapshot, Value};

use super::store::{self, INTERNAL_DATABASE};
use crate::define::own_relations::{JOBS, ROUTINES};

/// The column of the user's name in each of them.
const ROUTINE_OWNER: usize = 6;
const JOB_OWNER: usize = 5;

/// How many of them an error names.
const NAMED_MAX: usize = 5;

/// A relation that keeps the names of users, and the column of them.
fn relations(snapshot: &Snapshot) -> Vec<(RelationReader, usize)> {
    let mut found = Vec::new();
    for database in snapshot.databases() {
        if database == INTERNAL_DATABASE {
            continue;
        }
        for schema in snapshot.schemas(&database).unwrap_or_default() {
            let routines = snapshot.relation(&database, &schema, ROUTINES);
            found.extend(routines.map(|reader| (reader, ROUTINE_OWNER)));
        }
    }
    let jobs = store::internal(snapshot, JOBS);
    found.extend(jobs.map(|reader| (reader, JOB_OWNER)));
    found
}

fn rows(reader: &RelationReader, column: usize, name: &str) -> Vec<Arc<[Value]>> {
    let name = Value::from(name);
    let mut rows = reader.rows();
    rows.retain(|row| row.get(column) == Some(&name));
    rows
}

/// The names of what a user has made; `None` = nothing.
pub(super) fn named(snapshot: &Snapshot, name: &str) -> Option<String> {
    let mut names = Vec::new();
    for (reader, column) in relations(snapshot) {
        for row in rows(&reader, column, name) {
            names.push(match (column, row.first()) {
                (JOB_OWNER, Some(Value::I64(id))) => format!("job {id}"),
                (_, Some(Value::Text(routine))) => format!("routine \"{routine}\""),
                _ => continue,
            });
        }
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// What gives all that a user has made to the same user of another name.
pub(super) fn renamed(snapshot: &Snapshot, name: &str, to: &str) -> Vec<RelationChange> {
    let all = relations(snapshot).into_iter();
    let changes = all.filter_map(|(reader, column)| {
        let rows = rows(&reader, column, name);
        let rows = rows.iter().map(|row| {
            let mut row = row.to_vec();
            if let Some(owner) = row.get_mut(column) {
                *owner = Value::from(to);
            }
            row
        });
        let rows: Vec<Vec<Value>> = rows.collect();
        (!rows.is_empty()).then(|| RelationChange::Replace(Arc::clone(reader.schema()), rows))
    });
    changes.collect()
}
