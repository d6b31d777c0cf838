//! Segments that are written anew for what they are, not for where their rows are: of another tier, of an earlier format.

use std::sync::Arc;

use super::{Job, Part, Situation, Wanted, shares};
use crate::segment::{Home, Segment, Tier};

impl Situation<'_> {
    /// Segments of a partition that are not of its tier. Neighbours that are come along unless they are much more: full blocks are
    /// smaller.
    pub(super) fn tier_job(&self) -> Option<Job> {
        for (window, homes) in self.homes() {
            let Some(tier) = (self.tier_of)(&window) else {
                continue;
            };
            if homes.iter().all(|it| it.tier() == tier) {
                continue;
            }
            let sharing: Vec<&Arc<Segment>> = self
                .segments
                .iter()
                .filter(|segment| shares(segment, &window))
                .collect();
            let barrier = |segment: &Arc<Segment>| {
                let id = segment.meta.file_id;
                segment.meta.home == Home::Mixed || (self.is_busy)(id) || (self.is_damaged)(id)
            };
            let units = self.units_of(&sharing);
            for files in units.split(|unit| unit.iter().any(|it| barrier(it))) {
                let run: Vec<&Arc<Segment>> =
                    files.iter().flat_map(|it| it.iter().copied()).collect();
                let other = || run.iter().filter(|it| it.tier() != tier);
                let rows: u64 = run.iter().map(|it| it.meta.rows).sum();
                let wrong: u64 = other().map(|it| it.meta.rows).sum();
                let Some(first) = other().next() else {
                    continue;
                };
                if rows > self.options.job_rows_max || wrong < rows / 4 {
                    return self.alone(first);
                }
                let segments: Vec<u64> = run.iter().map(|it| it.meta.file_id).collect();
                return Some(Job::Rewrite {
                    parts: vec![Part {
                        window,
                        own: true,
                        segments: segments.clone(),
                    }],
                    segments,
                });
            }
        }
        None
    }

    /// A segment with rows that are to be written for a tier on command, or several of one partition.
    pub(crate) fn wanted_job(&self, wanted: &Wanted) -> Option<Job> {
        if wanted.tier == Tier::Cold {
            let mut mixed = self.free().filter(|it| {
                let is_damaged = (self.is_damaged)(it.meta.file_id);
                it.meta.home == Home::Mixed && !is_damaged && wanted.concerns(it)
            });
            if let Some(segment) = mixed.next() {
                return self.alone(segment);
            }
        }
        self.tier_job().or_else(|| self.wanted_in_tie(wanted))
    }

    /// A segment of a partition that has been widened over the rows of a mixed one, with which it is in a tie: it is written anew alone,
    /// as no run may have the one without the other.
    fn wanted_in_tie(&self, wanted: &Wanted) -> Option<Job> {
        let mut others = self.free().filter(|it| {
            let is_damaged = (self.is_damaged)(it.meta.file_id);
            let is_other = it.meta.home != Home::Mixed && it.tier() != wanted.tier;
            is_other && !is_damaged && wanted.concerns(it)
        });
        self.alone(others.next()?)
    }

    /// A segment of an earlier format, or of pages that a device wrote, that nothing else has come by, once there is time for it.
    pub(super) fn upgrade_job(&self) -> Option<Job> {
        if !self.idle {
            return None;
        }
        let mut old = self
            .free()
            .filter(|it| it.format < self.format || it.is_of_devices());
        self.alone(old.find(|it| !(self.is_damaged)(it.meta.file_id))?)
    }

    /// One segment written anew.
    pub(super) fn alone(&self, segment: &Arc<Segment>) -> Option<Job> {
        let id = segment.meta.file_id;
        let parts = match segment.meta.home {
            Home::Partition(home) => vec![Part {
                window: self.windows_from(&home).next().unwrap_or(home),
                own: true,
                segments: vec![id],
            }],
            Home::Mixed if self.windows_busy => return None,
            Home::Mixed => self.parts_of(&[segment]),
        };
        Some(Job::Rewrite {
            segments: vec![id],
            parts,
        })
    }
}
