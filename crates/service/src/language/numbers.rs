//! Numbers of sequences that a connection was given.
//!
//! Does: remember the last one of each sequence, and of all. Does not: give one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::define::TableName;

/// What a connection was given last, of each sequence.
#[derive(Debug, Default)]
pub struct SessionNumbers(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// By database, schema and name.
    by_sequence: HashMap<[String; 3], i64>,
    /// The sequence that gave the last one.
    last: Option<[String; 3]>,
}

fn key(sequence: &TableName) -> [String; 3] {
    let TableName {
        database,
        schema,
        table,
    } = sequence.clone();
    [database, schema, table]
}

impl SessionNumbers {
    /// A sequence gave this number.
    pub fn given(&self, sequence: &TableName, number: i64) {
        let mut given = self.lock();
        given.by_sequence.insert(key(sequence), number);
        given.last = Some(key(sequence));
    }

    /// A sequence was set to this number, as if it had given it.
    pub fn set(&self, sequence: &TableName, number: i64) {
        self.lock().by_sequence.insert(key(sequence), number);
    }

    /// The last number of a sequence; `None` = it gave none.
    pub fn current(&self, sequence: &TableName) -> Option<i64> {
        self.lock().by_sequence.get(&key(sequence)).copied()
    }

    /// The last number of the sequence that gave one last; `None` = none did.
    pub fn last(&self) -> Option<i64> {
        let given = self.lock();
        given.by_sequence.get(given.last.as_ref()?).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
