//! Sums over runs.

use std::fmt;
use std::ops::AddAssign;

/// What runs added up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Times that the store was opened.
    pub opens: u64,
    /// Lives that ended by a crash at a chosen call.
    pub crashes_at_a_call: u64,
    /// Power cuts, at a chosen call or between two steps.
    pub power_cuts: u64,
    /// Processes killed, at a chosen call or between two steps.
    pub kills: u64,
    /// Disk calls that were made to fail, crashes aside.
    pub failed_calls: u64,
    /// Batches that were acknowledged.
    pub batches: u64,
    /// Batches that a failure left in doubt.
    pub in_doubt: u64,
    /// Deletes that were acknowledged.
    pub deletes: u64,
    /// Changes of tables and columns that were acknowledged.
    pub changes: u64,
    /// Typed writes that were acknowledged.
    pub typed: u64,
    /// Updates and deletes of single rows that were acknowledged.
    pub updates: u64,
    /// Typed writes and updates that were refused for a row in their way.
    pub conflicts: u64,
    /// Batches that were sent again and answered as before.
    pub repeats: u64,
    /// Compactions, settling aside.
    pub compactions: u64,
    /// Stores that were settled: flushed and compacted to the end.
    pub settles: u64,
    /// Steps of the scrub.
    pub scrubs: u64,
    /// Visits while a segment was written.
    pub visits: u64,
    /// Backups that ended well.
    pub backups: u64,
    /// Backups that were restored and compared.
    pub restores: u64,
    /// Rows that retention took.
    pub expired: u64,
    /// Tables whose aggregates were compared.
    pub aggregates: u64,
    /// Hours and blocks that the store did not read for them.
    pub spared: u64,
    /// Changes of databases and schemas that were acknowledged.
    pub places: u64,
    /// Changes of rows of relations that were acknowledged.
    pub relations: u64,
    /// Writers who came between another writer's look and its place in the order.
    pub races: u64,
    /// Requests that ended before their batch had a place in the order.
    pub cancelled: u64,
    /// Tables that somebody has read to the end, slowly.
    pub slow_reads: u64,
    /// Segments that were damaged and put aside.
    pub put_aside: u64,
    /// Rows that were lost with them.
    pub lost: u64,
    /// Calls that the memory budget refused.
    pub refused: u64,
    /// Segments of earlier formats that an opened store had, those of format 1 first.
    pub earlier: [u64; 3],
    /// Segments that settling had made cold.
    pub cold: u64,
    /// Rows compared with the model.
    pub rows_compared: u64,
}

impl Counts {
    fn named(&mut self) -> [(&'static str, &mut u64); 36] {
        let [first, second, third] = &mut self.earlier;
        [
            ("runs", &mut self.runs),
            ("opens", &mut self.opens),
            ("crashes_at_a_call", &mut self.crashes_at_a_call),
            ("power_cuts", &mut self.power_cuts),
            ("kills", &mut self.kills),
            ("failed_calls", &mut self.failed_calls),
            ("batches", &mut self.batches),
            ("in_doubt", &mut self.in_doubt),
            ("deletes", &mut self.deletes),
            ("changes", &mut self.changes),
            ("typed", &mut self.typed),
            ("updates", &mut self.updates),
            ("conflicts", &mut self.conflicts),
            ("repeats", &mut self.repeats),
            ("compactions", &mut self.compactions),
            ("settles", &mut self.settles),
            ("scrubs", &mut self.scrubs),
            ("visits", &mut self.visits),
            ("backups", &mut self.backups),
            ("restores", &mut self.restores),
            ("expired", &mut self.expired),
            ("aggregates", &mut self.aggregates),
            ("spared", &mut self.spared),
            ("places", &mut self.places),
            ("relations", &mut self.relations),
            ("races", &mut self.races),
            ("cancelled", &mut self.cancelled),
            ("slow_reads", &mut self.slow_reads),
            ("put_aside", &mut self.put_aside),
            ("lost", &mut self.lost),
            ("refused", &mut self.refused),
            ("earlier_1", first),
            ("earlier_2", second),
            ("earlier_3", third),
            ("cold", &mut self.cold),
            ("rows_compared", &mut self.rows_compared),
        ]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, mut other: Self) {
        for ((_, to), (_, from)) in self.named().into_iter().zip(other.named()) {
            *to += *from;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = *self;
        for (at, (name, value)) in own.named().into_iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{name}={value}")?;
        }
        Ok(())
    }
}
