//! Conversion of a range of a table to a tier, on command.
//!
//! Does: flush, give the range partitions of its own, write these anew for the tier, one job after the other. Does not: say how
//! they stay: a table with `cold_after` has its partitions written for their age again.

use std::ops::RangeInclusive;

use crate::compaction::plan::Wanted;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::Maintained;
use crate::error::Error;
use crate::schema::TableId;
use crate::segment::{Home, SegmentFormat, Tier};

/// What became of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Converted {
    /// Every row of the range is where it should be.
    Done,
    /// Another job of maintenance has some of the files; try again a moment later.
    Busy,
    /// Some of the files could not be read, or must not be touched.
    Damaged,
}

impl Jobs {
    /// Writes the rows of a table in a range of time for a tier.
    pub(in crate::engine) fn convert(
        &self,
        table: TableId,
        time: RangeInclusive<i64>,
        tier: Tier,
    ) -> Result<Converted, Error> {
        if SegmentFormat::of(self.site().options().segment_format) < SegmentFormat::Second {
            return Err(Error::InvalidSetting {
                what: "segment_format",
                range: "at least 2, where tiers are converted",
                value: i64::from(self.site().options().segment_format),
            });
        }
        self.flush()?;
        let below = self.list().next_file_id;
        let wanted = Wanted {
            table,
            time,
            tier,
            below,
        };
        while self.compact_wanted(&wanted)? != Maintained::Idle {}
        Ok(self.left_of(&wanted))
    }

    /// Why there is nothing to do for a conversion.
    fn left_of(&self, wanted: &Wanted) -> Converted {
        let jobs = self.list();
        let (state, ()) = self.sequencer().versions().now_with(|| ());
        let mut left = Converted::Done;
        for segment in state.version.segments_of(wanted.table) {
            let is_right = segment.tier() == wanted.tier
                || (wanted.tier == Tier::Hot && segment.meta.home == Home::Mixed);
            if is_right || !wanted.concerns(segment) {
                continue;
            }
            let id = segment.meta.file_id;
            if jobs.damaged.contains_key(&id) || jobs.left_alone.contains(&id) {
                return Converted::Damaged;
            }
            left = Converted::Busy;
        }
        left
    }
}
