//! Advisory locks: numbers that sessions agree upon, and that mean nothing to the store.
//!
//! Does: give a number to one session, or to several that share it, until they give it back, their transaction ends, or they end;
//! say whom to wait for; refuse to close a circle of waiting sessions. Does not: wait (who is refused gives its turn and its thread
//! back first, and tries again when [`RowWait`] says so), or outlive the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use nilometer_engine::{Error as EngineError, RowWait, Transactions};

/// A number of 64 bits, or two of 32, in a database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AdvisoryKey {
    /// The database.
    pub database: String,
    /// The number, or the pair.
    pub number: AdvisoryNumber,
}

/// The spaces of one number and of pairs do not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdvisoryNumber {
    /// One of 64 bits.
    One(i64),
    /// Two of 32 bits.
    Pair(i32, i32),
}

/// How a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdvisoryMode {
    /// Others that share it may have it too.
    pub is_shared: bool,
    /// Until the end of the transaction, instead of the session's.
    pub of_transaction: bool,
}

type SessionId = u64;

/// The locks of a service.
#[derive(Debug, Default)]
pub struct AdvisoryLocks(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// How often each session has a lock, by how it was taken.
    locks: HashMap<AdvisoryKey, HashMap<SessionId, HashMap<AdvisoryMode, u64>>>,
    /// Whom a session was refused for last.
    waits_for: HashMap<SessionId, SessionId>,
    /// How often something was given back.
    freed: u64,
    wakers: Vec<Waker>,
}

impl AdvisoryLocks {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Held) -> bool) -> bool {
        let (changed, wakers) = {
            let mut held = self.lock();
            let changed = change(&mut held);
            if changed {
                held.locks.retain(|_, sessions| {
                    sessions.retain(|_, modes| {
                        modes.retain(|_, times| *times > 0);
                        !modes.is_empty()
                    });
                    !sessions.is_empty()
                });
                held.freed += 1;
            }
            let wakers = if changed {
                std::mem::take(&mut held.wakers)
            } else {
                Vec::new()
            };
            (changed, wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        changed
    }
}

/// Whoever waits for a lock tries again when any is given back.
impl Transactions for AdvisoryLocks {
    fn poll_ended(&self, freed: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut held = self.lock();
        if held.freed != freed {
            return Poll::Ready(());
        }
        if !held.wakers.iter().any(|it| it.will_wake(context.waker())) {
            held.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// What a connection has of them. Its end gives all back.
#[derive(Debug)]
pub struct SessionLocks {
    id: SessionId,
    all: OnceLock<Arc<AdvisoryLocks>>,
    /// The statement that took locks last, and which: one that has to wait for another begins again, and gives them back.
    taken: Mutex<(usize, Vec<(AdvisoryKey, AdvisoryMode)>)>,
}

impl Default for SessionLocks {
    fn default() -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            all: OnceLock::new(),
            taken: Mutex::default(),
        }
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.free_all(true);
        if let Some(all) = self.all.get() {
            all.lock().waits_for.remove(&self.id);
        }
    }
}

impl SessionLocks {
    /// Takes a lock, if nobody is in the way.
    pub fn try_take(
        &self,
        all: &Arc<AdvisoryLocks>,
        key: &AdvisoryKey,
        mode: AdvisoryMode,
    ) -> bool {
        self.take_or_who(all, key, mode).is_ok()
    }

    /// Takes a lock for a statement, or says what to wait for before the statement begins again.
    pub fn take(
        &self,
        all: &Arc<AdvisoryLocks>,
        statement: usize,
        key: &AdvisoryKey,
        mode: AdvisoryMode,
    ) -> Result<(), EngineError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.0 != statement {
            *taken = (statement, Vec::new());
        }
        let (other, freed) = match self.take_or_who(all, key, mode) {
            Ok(()) => {
                taken.1.push((key.clone(), mode));
                return Ok(());
            }
            Err(refused) => refused,
        };
        let again = std::mem::take(&mut taken.1);
        drop(taken);
        for (key, mode) in again {
            self.give_back(&key, mode);
        }
        let mut held = all.lock();
        let mut next = Some(other);
        while let Some(session) = next {
            if session == self.id {
                return Err(EngineError::Deadlock);
            }
            next = held.waits_for.get(&session).copied();
        }
        held.waits_for.insert(self.id, other);
        drop(held);
        let locks: Arc<AdvisoryLocks> = Arc::clone(all);
        Err(EngineError::RowLocked {
            wait: RowWait::new(locks, freed),
        })
    }

    /// Takes a lock, or says who has it, and how often something was given back by then.
    fn take_or_who(
        &self,
        all: &Arc<AdvisoryLocks>,
        key: &AdvisoryKey,
        mode: AdvisoryMode,
    ) -> Result<(), (SessionId, u64)> {
        let all = self.all.get_or_init(|| Arc::clone(all));
        let mut held = all.lock();
        held.waits_for.remove(&self.id);
        let freed = held.freed;
        let sessions = held.locks.entry(key.clone()).or_default();
        let mut others = sessions.iter().filter(|(session, _)| **session != self.id);
        let in_the_way =
            others.find(|(_, modes)| !mode.is_shared || modes.keys().any(|known| !known.is_shared));
        if let Some((other, _)) = in_the_way {
            return Err((*other, freed));
        }
        *sessions
            .entry(self.id)
            .or_default()
            .entry(mode)
            .or_default() += 1;
        Ok(())
    }

    fn give_back(&self, key: &AdvisoryKey, mode: AdvisoryMode) -> bool {
        let Some(all) = self.all.get() else {
            return false;
        };
        all.change(|held| {
            let sessions = held.locks.get_mut(key);
            let modes = sessions.and_then(|sessions| sessions.get_mut(&self.id));
            let times = modes.and_then(|modes| modes.get_mut(&mode));
            times.is_some_and(|times| {
                let had = *times > 0;
                *times = times.saturating_sub(1);
                had
            })
        })
    }

    /// Gives a lock of the session back; `false` = it had none.
    pub fn free(&self, key: &AdvisoryKey, is_shared: bool) -> bool {
        let mode = AdvisoryMode {
            is_shared,
            of_transaction: false,
        };
        self.give_back(key, mode)
    }

    /// Gives all locks back that last as long as the session; with `those_of_transaction` all.
    pub fn free_all(&self, those_of_transaction: bool) {
        self.free_if(|mode| those_of_transaction || !mode.of_transaction);
    }

    /// The transaction, or the statement outside of one, has ended.
    pub fn end_transaction(&self) {
        self.free_if(|mode| mode.of_transaction);
    }

    fn free_if(&self, goes: impl Fn(&AdvisoryMode) -> bool) {
        let Some(all) = self.all.get() else {
            return;
        };
        all.change(|held| {
            let mut found = false;
            for modes in held
                .locks
                .values_mut()
                .filter_map(|it| it.get_mut(&self.id))
            {
                modes.retain(|mode, _| {
                    let stays = !goes(mode);
                    found |= !stays;
                    stays
                });
            }
            found
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCLUSIVE: AdvisoryMode = AdvisoryMode {
        is_shared: false,
        of_transaction: false,
    };
    const SHARED: AdvisoryMode = AdvisoryMode {
        is_shared: true,
        ..EXCLUSIVE
    };
    const OF_TRANSACTION: AdvisoryMode = AdvisoryMode {
        of_transaction: true,
        ..EXCLUSIVE
    };

    fn key(number: i64) -> AdvisoryKey {
        AdvisoryKey {
            database: "d".to_owned(),
            number: AdvisoryNumber::One(number),
        }
    }

    /// PostgreSQL's manual, 13.3.5: a lock that was taken twice is given back twice; locks of a transaction go with it.
    #[test]
    fn a_lock_is_had_until_it_is_given_back_as_often_as_it_was_taken() {
        let all = Arc::new(AdvisoryLocks::default());
        let (one, other) = (SessionLocks::default(), SessionLocks::default());
        assert!(one.try_take(&all, &key(1), EXCLUSIVE) && one.try_take(&all, &key(1), EXCLUSIVE));
        assert!(one.free(&key(1), false) && !other.try_take(&all, &key(1), SHARED));
        assert!(one.free(&key(1), false) && !one.free(&key(1), false));
        assert!(other.try_take(&all, &key(1), SHARED) && one.try_take(&all, &key(1), SHARED));
        assert!(!one.try_take(&all, &key(1), EXCLUSIVE));
        assert!(one.try_take(&all, &key(2), OF_TRANSACTION) && !one.free(&key(2), false));
        one.end_transaction();
        assert!(other.try_take(&all, &key(2), EXCLUSIVE));
        drop(other);
        assert!(one.try_take(&all, &key(2), EXCLUSIVE) && one.try_take(&all, &key(1), EXCLUSIVE));
        one.free_all(false);
        assert!(all.lock().locks.is_empty());
    }

    #[test]
    fn a_circle_of_waiting_sessions_is_refused_and_a_statement_that_waits_has_nothing() {
        let all = Arc::new(AdvisoryLocks::default());
        let (one, other) = (SessionLocks::default(), SessionLocks::default());
        one.take(&all, 1, &key(1), EXCLUSIVE).unwrap();
        other.take(&all, 2, &key(2), EXCLUSIVE).unwrap();
        other.take(&all, 3, &key(3), EXCLUSIVE).unwrap();
        let waits = other.take(&all, 3, &key(1), EXCLUSIVE).unwrap_err();
        assert!(matches!(waits, EngineError::RowLocked { .. }));
        assert!(
            one.try_take(&all, &key(3), EXCLUSIVE),
            "statement 3 begins again"
        );
        let circle = one.take(&all, 4, &key(2), EXCLUSIVE).unwrap_err();
        assert!(matches!(circle, EngineError::Deadlock));
    }
}
