//! Acquisition times: when the store took a record, in an order that never goes back.
//!
//! Does: give every record a time of its own, know up to which time all records are there for good, and keep a bound of what
//! was given in a relation of the store's own, so that neither a restart nor a clock that is set back lowers it. Does not: write
//! the record; whoever writes it settles its [`Stamps`] afterwards.
//!
//! The promise: [`Acquisitions::complete`] answers a time below which no row is stamped any more. It is the lowest stamp of a
//! write that is on its way, or the next stamp that would be given. A snapshot taken after the question has all rows below it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn, Value,
};

use crate::access::{internal_relation, internal_rows};
use crate::define::own_relations::ACQUISITION;
use crate::error::Error;
use crate::sabotage::AcquisitionBug;
use crate::service::Service;

/// The key of its only row.
const BOUND: &str = "bound";

/// How far ahead of the last stamp the bound is kept: one write of it serves so long, and after a crash stamps may be
/// so far ahead of the clock.
const AHEAD_NS: i64 = 10_000_000_000;

/// The acquisition times of a store, in nanoseconds since 1970.
#[derive(Debug)]
pub struct Acquisitions {
    engine: Arc<Engine>,
    order: Mutex<Order>,
    /// Held by whoever raises the bound.
    raising: Mutex<()>,
    bug: Option<AcquisitionBug>,
}

#[derive(Debug)]
struct Order {
    /// The next stamp, or a lower one than the clock gives.
    next: i64,
    /// No stamp reaches it before a higher one is durable.
    bound: i64,
    /// First stamps of writes whose rows are not there for good.
    on_their_way: BTreeSet<i64>,
}

impl Acquisitions {
    /// Goes on after what the store remembers.
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Self::with_bug(engine, None)
    }

    /// The same with a planted bug. For the simulation.
    #[doc(hidden)]
    pub fn with_bug(engine: Arc<Engine>, bug: Option<AcquisitionBug>) -> Arc<Self> {
        let rows = internal_rows(&engine.snapshot(), ACQUISITION);
        let bound = rows.iter().find_map(|row| match row.get(1) {
            Some(Value::I64(bound)) => Some(*bound),
            _ => None,
        });
        let bound = bound.unwrap_or(i64::MIN);
        Arc::new(Self {
            engine,
            order: Mutex::new(Order {
                next: bound,
                bound,
                on_their_way: BTreeSet::new(),
            }),
            raising: Mutex::default(),
            bug,
        })
    }

    /// Stamps for so many records, at least one. Blocks when the bound has to be raised.
    pub fn begin(self: &Arc<Self>, records: usize) -> Result<Stamps, Error> {
        loop {
            if let Some(stamps) = self.try_begin(records) {
                return Ok(stamps);
            }
            self.raise(records)?;
        }
    }

    /// The time below which no row is stamped any more. Ask before taking the snapshot to read. Blocks when the bound has to be
    /// raised.
    pub fn complete(&self) -> Result<i64, Error> {
        loop {
            if let Some(complete) = self.try_complete() {
                return Ok(complete);
            }
            self.raise(1)?;
        }
    }

    /// The same as far as the bound goes that is durable, so it never waits: what is known to be complete while nobody has asked.
    pub fn known(&self) -> i64 {
        let mut order = self.lock();
        if let Some(first) = self.first_on_its_way(&order) {
            return first;
        }
        order.next = self.next(&order).min(order.bound);
        order.next
    }

    /// The next stamp.
    fn next(&self, order: &Order) -> i64 {
        let now = self.engine.wall_ns();
        if self.bug == Some(AcquisitionBug::ClockBelieved) {
            return now;
        }
        order.next.max(now)
    }

    fn first_on_its_way(&self, order: &Order) -> Option<i64> {
        let first = order.on_their_way.first().copied();
        first.filter(|_| self.bug != Some(AcquisitionBug::WritesNotAwaited))
    }

    fn try_begin(self: &Arc<Self>, records: usize) -> Option<Stamps> {
        let mut order = self.lock();
        let first = self.next(&order);
        let end = first.checked_add(i64::try_from(records.max(1)).ok()?)?;
        if end > order.bound {
            return None;
        }
        order.next = end;
        order.on_their_way.insert(first);
        drop(order);
        Some(Stamps {
            acquisitions: Arc::clone(self),
            first,
            last: end - 1,
            is_at_risk: false,
        })
    }

    fn try_complete(&self) -> Option<i64> {
        let mut order = self.lock();
        if let Some(first) = self.first_on_its_way(&order) {
            return Some(first);
        }
        let next = self.next(&order);
        if next > order.bound {
            return None;
        }
        order.next = next;
        Some(next)
    }

    /// Makes a bound durable that leaves room for so many stamps, then allows them.
    fn raise(&self, records: usize) -> Result<(), Error> {
        let _one_at_a_time = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = {
            let order = self.lock();
            let next = self.next(&order);
            let records = i64::try_from(records).unwrap_or(i64::MAX);
            let needed = next.saturating_add(records);
            if needed <= order.bound {
                return Ok(());
            }
            needed.saturating_add(AHEAD_NS)
        };
        if self.bug != Some(AcquisitionBug::BoundNotDurable) {
            self.keep(wanted)?;
        }
        let mut order = self.lock();
        order.bound = order.bound.max(wanted);
        Ok(())
    }

    /// Brings the bound down to what was given, so that the next start goes on there. Only when nothing is stamped any more.
    #[doc(hidden)]
    pub fn close(&self) -> Result<(), Error> {
        let (next, bound) = {
            let order = self.lock();
            (order.next, order.bound)
        };
        if bound > next {
            self.keep(next)?;
            self.lock().bound = next;
        }
        Ok(())
    }

    fn keep(&self, bound: i64) -> Result<(), Error> {
        let column = |name: &str, kind| RelationColumn {
            name: name.to_owned(),
            kind,
            nullable: false,
        };
        let new = NewRelation {
            columns: vec![
                column("name", PhysicalType::Text),
                column("ns", PhysicalType::I64),
            ],
            primary_key: vec!["name".to_owned()],
            unique: Vec::new(),
        };
        let relation = internal_relation(&self.engine, ACQUISITION, &new)?;
        let row = vec![Value::from(BOUND), Value::I64(bound)];
        self.engine
            .write_relations(&[RelationChange::Replace(relation, vec![row])])?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The acquisition times of the records of one write, which follow each other. Dropped, they are given up, unless their rows
/// may be in the log without being durable: then nothing above them is complete before the store is opened again.
#[derive(Debug)]
pub struct Stamps {
    acquisitions: Arc<Acquisitions>,
    /// Of the first record.
    pub first: i64,
    /// Of the last.
    pub last: i64,
    is_at_risk: bool,
}

impl Stamps {
    /// Writes the rows that have these stamps, and settles what became of them.
    pub fn store<T>(mut self, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.is_at_risk = true;
        let written = write();
        // Every other error comes before the log has the rows.
        self.is_at_risk = matches!(
            written,
            Err(Error::Engine(
                EngineError::Poisoned { .. } | EngineError::Io { .. }
            ))
        ) && self.acquisitions.bug != Some(AcquisitionBug::FailedWriteForgotten);
        written
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        if self.is_at_risk {
            tracing::warn!(
                first = self.first,
                "records may be in the log without being durable; acquisition times are complete up to them until the store is opened again"
            );
            return;
        }
        self.acquisitions.lock().on_their_way.remove(&self.first);
    }
}

impl Service {
    /// Stamps for so many records; see [`Acquisitions::begin`].
    pub async fn stamps(&self, records: usize) -> Result<Stamps, Error> {
        if let Some(stamps) = self.acquisitions().try_begin(records) {
            return Ok(stamps);
        }
        let acquisitions = Arc::clone(self.acquisitions());
        let begun = self.executor().block(move || acquisitions.begin(records));
        begun.await.unwrap_or(Err(Error::Stopping))
    }

    /// The acquisition time below which everything is there for good; see [`Acquisitions::complete`].
    pub async fn complete_acquisition(&self) -> Result<i64, Error> {
        if let Some(complete) = self.acquisitions().try_complete() {
            return Ok(complete);
        }
        let acquisitions = Arc::clone(self.acquisitions());
        let complete = self.executor().block(move || acquisitions.complete());
        complete.await.unwrap_or(Err(Error::Stopping))
    }
}

#[cfg(test)]
mod tests;
