//! Retention at work: rows older than their table keeps are deleted, whole partitions at a time.
//!
//! Does: ask the guarded clock, delete by the log like anybody else, persist the clock's mark. Does not: remove files:
//! a compaction drops what a delete covers as a whole, and a replica that replays the log deletes the same.

use std::sync::Arc;

use crate::compaction::balance::Balance;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::{Maintained, Published};
use crate::error::Error;
use crate::manifest::Edit;
use crate::retention::{RetentionTime, cutoff};
use crate::schema::TableSchema;
use crate::segment::{Home, Window};
use crate::state::State;
use crate::tombstone::{Deleted, Tombstone};
use crate::{DeleteRequest, Lsn};

/// Looking costs a walk over all segments, and partitions are hours wide at least.
const LOOK_MS: u64 = 10_000;

/// Why retention removes nothing: the wall clock is further ahead than time can have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPause {
    /// For how long, in milliseconds of a clock that does not jump, since this process noticed.
    pub for_ms: u64,
    /// What the wall clock said when retention looked last, in nanoseconds since 1970.
    pub wall_ns: i64,
    /// How far ahead of the latest time that could be believed that is, in nanoseconds.
    pub ahead_ns: i64,
}

impl Jobs {
    /// What retention takes the time to be; `None` = it had no reason to look yet.
    pub(in crate::engine) fn retention_time(&self) -> Option<RetentionTime> {
        self.retention.lock().time
    }

    /// Whether retention waits for the wall clock to be right again, or for [`Self::accept_clock`]; `None` = it goes on, or
    /// had no reason to look yet.
    pub(in crate::engine) fn retention_pause(&self) -> Option<RetentionPause> {
        let now_ms = self.site.clock().monotonic_ms();
        let retention = self.retention.lock();
        let (Some(RetentionTime::Paused { wall, believed }), Some(since_ms)) =
            (retention.time, retention.paused_ms)
        else {
            return None;
        };
        Some(RetentionPause {
            for_ms: now_ms.saturating_sub(since_ms),
            wall_ns: wall,
            ahead_ns: wall.saturating_sub(believed),
        })
    }

    /// Lets retention believe the wall clock as it is now: the command of somebody who has looked at it.
    pub(in crate::engine) fn accept_clock(&self) {
        let mut retention = self.retention.lock();
        let (wall_ns, now_ms) = (self.site.clock().now_ns(), self.site.clock().monotonic_ms());
        retention.clock.accept(wall_ns, now_ms);
        retention.note(RetentionTime::Believed(wall_ns), now_ms);
        retention.looked_ms = None;
    }

    /// What the guarded clock takes the time to be now. What is believed is durable on return.
    pub(in crate::engine) fn guarded_time(&self) -> Result<RetentionTime, Error> {
        self.sequencer.check_poisoned()?;
        let time = {
            let mut retention = self.retention.lock();
            let (wall_ns, now_ms) = (self.site.clock().now_ns(), self.site.clock().monotonic_ms());
            let time = retention.clock.look(wall_ns, now_ms);
            retention.note(time, now_ms);
            time
        };
        self.persist_clock()?;
        Ok(time)
    }

    /// Deletes what is older than its table keeps, if it is time to look.
    pub(in crate::engine) fn expire(&self) -> Result<Maintained, Error> {
        let monotonic_ms = self.site.clock().monotonic_ms();
        let keeping = self.tables_with_retention();
        let time = {
            let mut retention = self.retention.lock();
            let is_due = retention
                .looked_ms
                .is_none_or(|then| monotonic_ms.saturating_sub(then) >= LOOK_MS);
            if keeping.is_empty() || !is_due || self.sequencer.check_poisoned().is_err() {
                return Ok(Maintained::Idle);
            }
            retention.looked_ms = Some(monotonic_ms);
            let time = retention
                .clock
                .look(self.site.clock().now_ns(), monotonic_ms);
            retention.note(time, monotonic_ms);
            time
        };
        let RetentionTime::Believed(now_ns) = time else {
            return Ok(Maintained::Idle);
        };
        self.persist_clock()?;
        let (state, visible) = self
            .sequencer
            .versions()
            .now_with(|| self.sequencer.log().durable());
        let tombstones = state.all_tombstones(visible);
        let mut tables = 0;
        for (table, retention_ns) in keeping {
            let Some(last) = last_expired(&state, &table, cutoff(now_ns, retention_ns)) else {
                continue;
            };
            if is_deleted(&state, &tombstones, &table, last) {
                continue;
            }
            let request = DeleteRequest {
                table,
                time: i64::MIN..=last,
                tags: Vec::new(),
            };
            // Answers that were computed of these rows stay.
            self.sequencer.delete(&request, false)?;
            tables += 1;
        }
        Ok(match tables {
            0 => Maintained::Idle,
            tables => Maintained::Expired { tables },
        })
    }

    fn tables_with_retention(&self) -> Vec<(Arc<TableSchema>, i64)> {
        let catalogue = self.sequencer.catalogue();
        let keeping = catalogue.live_tables();
        keeping
            .filter_map(|table| Some((Arc::clone(table), catalogue.retention_ns(table.id)?)))
            .collect()
    }

    /// The mark goes into the manifest before anything is deleted by it, so that a restart does not look like a jump.
    fn persist_clock(&self) -> Result<(), Error> {
        let Some(mark_ns) = self.retention.lock().clock.unpersisted() else {
            return Ok(());
        };
        let edit = Edit {
            clock_ns: mark_ns,
            ..Edit::default()
        };
        let published = Published::Compaction(Balance::default());
        self.publish(edit, &[], published)?;
        self.retention.lock().clock.persisted(mark_ns);
        Ok(())
    }
}

/// The last time of the last partition of a table whose every possible row is older than `cutoff`, where there may be one.
fn last_expired(state: &State, table: &TableSchema, cutoff: i64) -> Option<i64> {
    let interval = table.settings.partition_interval_ns.max(1);
    let own = state.version.windows.iter();
    let own = own.filter(|window| window.table == table.id);
    let explicit = own.map(Window::last);
    // Rows that have no partition of their own yet go by the one that they would have, each by itself: a group of flash pages, or of few
    // rows that were merged, has rows of many.
    let whole = cutoff.div_euclid(interval).saturating_mul(interval);
    let whole = whole.saturating_sub(1);
    let mixed = state.version.segments.iter();
    let mixed = mixed.filter(|segment| segment.meta.home == Home::Mixed);
    let implied = mixed
        .flat_map(|segment| segment.groups(table.id))
        .filter_map(|(_, group)| {
            let next = group.max_time.div_euclid(interval).saturating_add(1);
            let last = next.saturating_mul(interval).saturating_sub(1).min(whole);
            (group.min_time <= last).then_some(last)
        });
    explicit.chain(implied).filter(|&last| last < cutoff).max()
}

/// Whether every row up to `last` in segments is deleted already.
fn is_deleted(
    state: &State,
    tombstones: &[Arc<Tombstone>],
    table: &TableSchema,
    last: i64,
) -> bool {
    let covers = |tombstone: &Tombstone, max_lsn: Lsn| {
        tombstone.table == table.id
            && tombstone.lsn > max_lsn
            && matches!(
                &tombstone.what,
                Deleted::Range { series: None, time }
                    if *time.start() == i64::MIN && *time.end() >= last
            )
    };
    state.version.segments.iter().all(|segment| {
        let mut groups = segment.groups(table.id);
        let has_old = groups.any(|(_, group)| group.min_time <= last);
        !has_old
            || tombstones
                .iter()
                .any(|tombstone| covers(tombstone, segment.meta.max_lsn))
    })
}
