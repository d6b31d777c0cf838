//! Rows that are to be written for a tier on command.
//!
//! Does: say which windows and segments have some. Does not: choose a job (`anew.rs` does).

use std::ops::RangeInclusive;

use super::aligned;
use crate::schema::TableId;
use crate::segment::{Home, Segment, Tier, Window};

/// Rows of a table that are to be written for a tier on command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) table: TableId,
    pub(crate) time: RangeInclusive<i64>,
    pub(crate) tier: Tier,
    /// Files of a lower number may have such rows; later ones have been gone over, or are of later rows.
    pub(crate) below: u64,
}

impl Wanted {
    /// Whether a window has some of them.
    pub(crate) fn has(&self, window: &Window) -> bool {
        window.table == self.table
            && window.start <= *self.time.end()
            && window.last() >= *self.time.start()
    }

    /// All windows of a width that have some of them, as one.
    pub(super) fn around(&self, interval: i64) -> Window {
        let end = aligned(self.table, interval, *self.time.end()).end;
        Window {
            end,
            ..aligned(self.table, interval, *self.time.start())
        }
    }

    /// Whether a segment may have some of them.
    pub(crate) fn concerns(&self, segment: &Segment) -> bool {
        if segment.meta.home == Home::Mixed && segment.meta.file_id >= self.below {
            return false;
        }
        segment.groups(self.table).any(|(_, group)| {
            group.min_time <= *self.time.end() && group.max_time >= *self.time.start()
        })
    }
}
