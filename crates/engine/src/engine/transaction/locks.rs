//! Locks of rows of relations, by key, from a statement's change to the end of its transaction.
//!
//! Does: give a key to one transaction at a time, say whom to wait for, refuse to close a circle of waiting transactions. Does not:
//! wait: whoever is refused gives its turn and its thread back first, and tries again when [`RowWait`] says so.
//!
//! A key stands here as 64 bits of a hash: two keys of one hash wait for each other without need, and that is all.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;

use crate::engine::RelationChange;
use crate::error::{Error, RowWait, Transactions};
use crate::ranked::{Mutex, Rank};
use crate::relation::{RelationSchema, Value};

/// Who may have a lock.
pub(crate) type Owner = u64;

/// The locks of a store.
#[derive(Debug)]
pub(crate) struct RowLocks {
    held: Mutex<Held>,
    hasher: RandomState,
    /// Transactions that are open.
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct Held {
    rows: FxHashMap<u64, Owner>,
    owners: FxHashMap<Owner, Owned>,
    last: Owner,
}

#[derive(Debug, Default)]
struct Owned {
    rows: Vec<u64>,
    /// Whose end it waits for.
    waits_for: Option<Owner>,
    wakers: Vec<Waker>,
}

/// The locks of whoever writes outside of a transaction, while it writes.
#[derive(Debug)]
pub(crate) struct LockedRows<'a>(Option<(&'a RowLocks, Owner)>);

impl LockedRows<'_> {
    /// Whether rows are locked: there are transactions.
    pub(crate) fn are_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for LockedRows<'_> {
    fn drop(&mut self) {
        if let Some((locks, owner)) = self.0 {
            locks.release(owner);
        }
    }
}

impl Default for RowLocks {
    fn default() -> Self {
        Self {
            held: Mutex::new(Rank::RowLocks, Held::default()),
            hasher: RandomState::new(),
            open: AtomicUsize::new(0),
        }
    }
}

impl RowLocks {
    /// Another transaction begins.
    pub(super) fn begin(&self) -> Owner {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.new_owner()
    }

    /// It has ended, and whoever waits for it goes on.
    pub(super) fn end(&self, owner: Owner) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.release(owner);
    }

    fn new_owner(&self) -> Owner {
        let mut held = self.held.lock();
        held.last += 1;
        let owner = held.last;
        held.owners.insert(owner, Owned::default());
        owner
    }

    fn release(&self, owner: Owner) {
        let wakers = {
            let mut held = self.held.lock();
            let Some(ended) = held.owners.remove(&owner) else {
                return;
            };
            for row in ended.rows {
                held.rows.remove(&row);
            }
            ended.wakers
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The rows that changes concern, for a write outside of transactions. Nothing is locked while there are none.
    pub(crate) fn while_writing(
        self: &Arc<Self>,
        changes: &[RelationChange],
    ) -> Result<LockedRows<'_>, Error> {
        if self.open.load(Ordering::Relaxed) == 0 {
            return Ok(LockedRows(None));
        }
        let owner = self.new_owner();
        let locked = LockedRows(Some((&**self, owner)));
        self.take(owner, changes).map(|_| locked)
    }

    /// Locks the rows that changes concern: all of them, or none. Returns how many are new.
    pub(super) fn take(
        self: &Arc<Self>,
        owner: Owner,
        changes: &[RelationChange],
    ) -> Result<usize, Error> {
        let mut rows = Vec::new();
        for change in changes {
            self.put_keys(change, &mut rows);
        }
        let mut held = self.held.lock();
        if let Some(own) = held.owners.get_mut(&owner) {
            own.waits_for = None;
        }
        let of_other = |row: &u64| held.rows.get(row).copied().filter(|other| *other != owner);
        if let Some(other) = rows.iter().find_map(of_other) {
            let mut next = other;
            while let Some(after) = held.owners.get(&next).and_then(|it| it.waits_for) {
                if after == owner {
                    return Err(Error::Deadlock);
                }
                next = after;
            }
            if let Some(own) = held.owners.get_mut(&owner) {
                own.waits_for = Some(other);
            }
            let transactions: Arc<Self> = Arc::clone(self);
            return Err(Error::RowLocked {
                wait: RowWait {
                    transactions,
                    transaction: other,
                },
            });
        }
        let mut new = 0;
        for row in rows {
            if held.rows.insert(row, owner).is_none() {
                new += 1;
                if let Some(own) = held.owners.get_mut(&owner) {
                    own.rows.push(row);
                }
            }
        }
        Ok(new)
    }
}

impl RowLocks {
    /// Hashes of the keys that a change concerns: all keys of rows that come, the primary ones of those that go.
    fn put_keys(&self, change: &RelationChange, out: &mut Vec<u64>) {
        let mut put = |schema: &RelationSchema, nth: usize, key: &[&Value]| {
            if key.contains(&&Value::Null) {
                return;
            }
            let mut state = self.hasher.build_hasher();
            (schema.id, nth).hash(&mut state);
            for value in key {
                value.hash_key(&mut state);
            }
            out.push(state.finish());
        };
        match change {
            RelationChange::Insert(schema, rows) | RelationChange::Replace(schema, rows) => {
                let keys = std::iter::once(&schema.primary_key).chain(&schema.unique);
                for (nth, key) in keys.enumerate() {
                    for row in rows {
                        let values = key.iter().filter_map(|&at| row.get(at as usize));
                        put(schema, nth, &values.collect::<Vec<_>>());
                    }
                }
            }
            RelationChange::Delete(schema, keys) => {
                for key in keys {
                    put(schema, 0, &key.iter().collect::<Vec<_>>());
                }
            }
        }
    }
}

impl Transactions for RowLocks {
    fn poll_ended(&self, transaction: Owner, context: &mut Context<'_>) -> Poll<()> {
        let mut held = self.held.lock();
        match held.owners.get_mut(&transaction) {
            None => Poll::Ready(()),
            Some(owned) => {
                if !owned.wakers.iter().any(|it| it.will_wake(context.waker())) {
                    owned.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
