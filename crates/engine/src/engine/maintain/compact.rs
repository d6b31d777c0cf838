//! Compaction jobs: claimed under the jobs' lock, worked on without any, published as one edit.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::budget::MemoryUse;
use crate::compaction::balance::Balance;
use crate::compaction::plan::{Job, Part, Situation, Wanted, covers, next_job};
use crate::compaction::rewrite::Rewrite;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::{Maintained, Published};
use crate::engine::maintain::jobs::Answered;
use crate::engine::repair::damaged::DamagedSegment;
use crate::error::Error;
use crate::layout::{segment_dir, segment_name};
use crate::manifest::Edit;
use crate::sabotage::Sabotage;
use crate::schema::{Lsn, TableId};
use crate::segment::{
    GROUP_BYTES_MAX, Home, Segment, SegmentFormat, SegmentMeta, SegmentWriter, Tier, Window,
};
use crate::state::State;
use crate::tombstone::Tombstone;

/// A job with what it was planned on.
struct Claim {
    job: Job,
    /// What the pages of its partitions are written for.
    tiers: Tiers,
    state: State,
    /// Deletes up to this LSN are durable, and known to the job.
    visible: Lsn,
    tombstones: Vec<Arc<Tombstone>>,
}

/// A segment about to be written, and what goes into it.
struct Target {
    home: Home,
    parts: Vec<Part>,
}

/// What partitions are to be written for.
struct Tiers {
    now_ns: i64,
    /// Whatever tables say.
    forced: Option<Tier>,
    /// By table: the age after which a partition is cold.
    cold_after: BTreeMap<TableId, i64>,
    /// Somebody has asked for it.
    wanted: Option<Wanted>,
}

impl Tiers {
    /// `None` = what it was written for.
    fn of(&self, window: &Window) -> Option<Tier> {
        if self.forced.is_some() {
            return self.forced;
        }
        if let Some(wanted) = &self.wanted {
            // Of the rest nothing is to be done now.
            return wanted.has(window).then_some(wanted.tier);
        }
        match *self.cold_after.get(&window.table)? {
            i64::MAX => Some(Tier::Hot),
            after => {
                let is_old = window.last() < self.now_ns.saturating_sub(after);
                is_old.then_some(Tier::Cold)
            }
        }
    }

    /// Of how many segments the pages were written for something else.
    fn others(&self, segments: &[Arc<Segment>]) -> usize {
        if self.forced.is_none() && self.cold_after.is_empty() {
            return 0;
        }
        let is_other = |it: &&Arc<Segment>| match it.meta.home {
            Home::Partition(window) => self.of(&window).is_some_and(|tier| tier != it.tier()),
            Home::Mixed => false,
        };
        segments.iter().filter(is_other).count()
    }
}

impl Claim {
    /// Whether it may make or change partitions: two that do must not run at once, or their windows could overlap.
    fn decides_windows(&self) -> bool {
        match &self.job {
            Job::Drop { .. } => false,
            Job::Widen { .. } => true,
            Job::Rewrite { segments, .. } => segments
                .iter()
                .filter_map(|id| segment_of(&self.state, *id))
                .any(|segment| segment.meta.home == Home::Mixed),
        }
    }
}

impl Jobs {
    /// Compacts whatever can be compacted, as if nobody had written for a while; returns the first damage that was found.
    /// Every partition is written for `tier` if one is given.
    pub(in crate::engine) fn compact_all(
        &self,
        tier: Option<Tier>,
    ) -> Result<Option<Error>, Error> {
        let mut damage = None;
        loop {
            let known = self.list().damaged.len();
            match self.compact_one(true, tier) {
                Ok(Maintained::Idle) => return Ok(damage),
                Ok(_) => {}
                // Each damaged segment ends one job only, so this ends.
                Err(error) if self.list().damaged.len() > known => {
                    damage.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Segments that compactions found damaged since the store was opened.
    pub(in crate::engine) fn damaged_segments(&self) -> Vec<DamagedSegment> {
        self.list().damaged.values().cloned().collect()
    }

    /// Does one compaction if one is due.
    pub(in crate::engine) fn compact_one(
        &self,
        settle: bool,
        tier: Option<Tier>,
    ) -> Result<Maintained, Error> {
        if self.sequencer.check_poisoned().is_err() {
            return Ok(Maintained::Idle);
        }
        match self.claim(settle, tier, None) {
            Some(claim) => self.carry_out(&claim),
            None => Ok(Maintained::Idle),
        }
    }

    /// Does one step of a conversion, if one is left that no other job is in the way of.
    pub(in crate::engine) fn compact_wanted(&self, wanted: &Wanted) -> Result<Maintained, Error> {
        self.sequencer.check_poisoned()?;
        match self.claim(false, None, Some(wanted)) {
            Some(claim) => self.carry_out(&claim),
            None => Ok(Maintained::Idle),
        }
    }

    fn carry_out(&self, claim: &Claim) -> Result<Maintained, Error> {
        // What it writes is at most about what it reads. Without room for that it waits, rather than fill the disk.
        let outcome = if self.has_room_for(claim) {
            let _memory = self
                .site
                .budget()
                .take(MemoryUse::Compaction, memory_of(claim));
            self.work(claim)
        } else {
            Ok(Maintained::Idle)
        };
        self.release(claim, &outcome);
        outcome
    }

    /// Gives back what a job had claimed, and notes which of its segments did not read.
    fn release(&self, claim: &Claim, outcome: &Result<Maintained, Error>) {
        let mut jobs = self.list();
        for id in claim.job.segments() {
            jobs.compacting.remove(id);
        }
        if claim.decides_windows() {
            jobs.windows_busy = false;
        }
        if let Err(error @ (Error::RowsUnaccounted { .. } | Error::FilesUnordered { .. })) = outcome
        {
            // The same job would come to the same end, again and again. What is read is as it was.
            for id in claim.job.segments() {
                if matches!(claim.job, Job::Drop { .. }) {
                    jobs.left_alone.insert(*id);
                }
                if let Some(segment) = segment_of(&claim.state, *id) {
                    let damage = DamagedSegment {
                        file: segment.path().to_owned(),
                        offset: 0,
                        reason: error.to_string(),
                    };
                    jobs.damaged.insert(*id, damage);
                }
            }
        }
        if let Err(Error::Corrupt {
            path,
            offset,
            reason,
        }) = outcome
        {
            let mut inputs = claim.state.version.segments.iter();
            if let Some(damaged) = inputs.find(|segment| segment.path() == path) {
                let damage = DamagedSegment {
                    file: path.clone(),
                    offset: *offset,
                    reason: reason.clone(),
                };
                jobs.damaged.insert(damaged.meta.file_id, damage);
            }
        }
    }

    fn has_room_for(&self, claim: &Claim) -> bool {
        let Job::Rewrite { segments, .. } = &claim.job else {
            return true;
        };
        let inputs = segments
            .iter()
            .filter_map(|id| segment_of(&claim.state, *id));
        let bytes = inputs.map(|segment| segment.meta.bytes).sum();
        self.site.has_room_for(bytes)
    }

    fn claim(&self, settle: bool, tier: Option<Tier>, wanted: Option<&Wanted>) -> Option<Claim> {
        let mut jobs = self.list();
        let (state, visible) = self
            .sequencer
            .versions()
            .now_with(|| self.sequencer.log().durable());
        let idle_ms = self.sequencer.idle_ms();
        let settle_ms = self.site.options().compaction.settle_ms;
        let idle = settle || (settle_ms > 0 && idle_ms >= settle_ms);
        let tombstones = state.all_tombstones(visible);
        let catalogue = self.sequencer.catalogue();
        let format = SegmentFormat::of(self.site.options().segment_format);
        let has_tiers = format >= SegmentFormat::Second;
        let aging = catalogue.live_tables().filter(|_| has_tiers);
        let aging = aging.filter_map(|it| Some((it.id, it.settings.cold_after_ns?)));
        let tiers = Tiers {
            now_ns: self.site.clock().now_ns(),
            forced: tier.filter(|_| has_tiers),
            cold_after: aging.collect(),
            wanted: wanted.cloned(),
        };
        // The same situation has the same answer; a drop or a delete makes another one.
        let answered = Answered {
            version: state.version.number,
            epoch: self.sequencer.catalogue_epoch(),
            deleted: tombstones.last().map_or(0, |it| it.lsn),
            idle,
            of_other_tier: tiers.others(&state.version.segments),
        };
        if wanted.is_none() && jobs.idle_at == Some(answered) {
            return None;
        }
        let interval_of = |table: TableId| {
            let table = catalogue.table(table)?;
            Some(table.settings.partition_interval_ns.max(1))
        };
        let is_busy = |id: u64| jobs.compacting.contains(&id) || jobs.left_alone.contains(&id);
        let is_damaged = |id: u64| jobs.damaged.contains_key(&id);
        let situation = Situation {
            segments: &state.version.segments,
            windows: &state.version.windows,
            tombstones: &tombstones,
            is_busy: &is_busy,
            is_damaged: &is_damaged,
            interval_of: &interval_of,
            tier_of: &|window| tiers.of(window),
            windows_busy: jobs.windows_busy,
            idle,
            format,
            flush_rows: self.site.options().flush_rows,
            options: &self.site.options().compaction,
            sabotage: self.site.options().sabotage,
            wanted,
        };
        let job = match wanted {
            Some(wanted) => situation.wanted_job(wanted),
            None => next_job(&situation),
        };
        drop(catalogue);
        let Some(job) = job else {
            // A job that runs will change the situation without a new version if it fails.
            if wanted.is_none() && jobs.compacting.is_empty() && !jobs.windows_busy {
                jobs.idle_at = Some(answered);
            }
            return None;
        };
        jobs.compacting.extend(job.segments());
        let claim = Claim {
            job,
            tiers,
            state,
            visible,
            tombstones,
        };
        jobs.windows_busy |= claim.decides_windows();
        Some(claim)
    }

    fn work(&self, claim: &Claim) -> Result<Maintained, Error> {
        match &claim.job {
            Job::Drop { segments } => {
                let edit = Edit {
                    removed_segments: segments.clone(),
                    ..Edit::default()
                };
                let published = Published::Compaction(covered(claim, segments));
                self.publish(edit, &[], published)?;
                Ok(Maintained::Compacted {
                    segments: segments.len(),
                    rows: 0,
                })
            }
            Job::Widen { from, to } => {
                let edit = Edit {
                    removed_windows: from.clone(),
                    added_windows: vec![*to],
                    ..Edit::default()
                };
                let published = Published::Compaction(Balance::default());
                self.publish(edit, &[], published)?;
                Ok(Maintained::Compacted {
                    segments: 0,
                    rows: 0,
                })
            }
            Job::Rewrite { segments, parts } => self.rewrite(claim, segments, parts),
        }
    }

    fn rewrite(
        &self,
        claim: &Claim,
        segments: &[u64],
        parts: &[Part],
    ) -> Result<Maintained, Error> {
        let mut written = Vec::new();
        let mut balance = Balance::default();
        let outcome = self.write_targets(claim, targets(parts), &mut written, &mut balance);
        let rows = written.iter().map(|segment| segment.meta.rows).sum();
        let published = outcome.and_then(|()| {
            let edit = Edit {
                added_segments: written.iter().map(|it| it.meta.clone()).collect(),
                removed_segments: segments.to_vec(),
                ..Edit::default()
            };
            let paths: Vec<PathBuf> = written.iter().map(|it| it.path().to_owned()).collect();
            let added = std::mem::take(&mut written).into_iter();
            let added: Vec<Arc<Segment>> = added.map(Arc::new).collect();
            let published = self.publish(edit, &added, Published::Compaction(balance));
            let is_refused = matches!(
                published,
                Err(Error::RowsUnaccounted { .. } | Error::FilesUnordered { .. })
            );
            for path in paths.iter().filter(|_| is_refused) {
                drop(self.site.disk().remove(path));
            }
            published
        });
        // Files that no edit lists; the next open would remove them too.
        for segment in written {
            drop(self.site.disk().remove(segment.path()));
        }
        published?;
        Ok(Maintained::Compacted {
            segments: segments.len(),
            rows,
        })
    }

    fn write_targets(
        &self,
        claim: &Claim,
        targets: Vec<Target>,
        written: &mut Vec<Segment>,
        balance: &mut Balance,
    ) -> Result<(), Error> {
        let dir = segment_dir(self.site.dir());
        for target in targets {
            written.extend(self.write_target(claim, &target, balance)?);
        }
        self.site
            .disk()
            .sync_dir(&dir)
            .map_err(Error::io("sync", &dir))
    }

    /// Writes one segment; `None` = nothing is left of its rows.
    fn write_target(
        &self,
        claim: &Claim,
        target: &Target,
        balance: &mut Balance,
    ) -> Result<Option<Segment>, Error> {
        let file_id = self.new_file_id();
        let path = segment_dir(self.site.dir()).join(segment_name(file_id));
        self.site.remove_leftover(&path)?;
        let mut writer = self.site.segment_writer(&path, file_id)?;
        if matches!(target.home, Home::Partition(_)) {
            writer = writer.of_partition(claim.tier_of(target));
        }
        let finished = self
            .fill(claim, target, &mut writer, balance)
            .and_then(|()| writer.finish(true));
        let (bytes, rows) = match finished {
            Ok((bytes, rows)) if rows > 0 => (bytes, rows),
            other => {
                drop(self.site.disk().remove(&path));
                return other.map(|_| None);
            }
        };
        let inputs = || {
            let ids = target.parts.iter().flat_map(|part| &part.segments);
            ids.filter_map(|id| segment_of(&claim.state, *id))
        };
        let max_lsn = inputs().map(|it| it.meta.max_lsn).max().unwrap_or(0);
        let first = inputs().map(|it| it.meta.min_lsn).min().unwrap_or(0);
        let counts_as_newest = self.site.options().sabotage == Some(Sabotage::RunCutInTie);
        let meta = SegmentMeta {
            file_id,
            bytes,
            rows,
            min_lsn: if counts_as_newest { max_lsn } else { first },
            max_lsn,
            applied_lsn: claim.visible,
            home: target.home,
        };
        Segment::open(self.site.segment_cache(), path, self.site.uuid(), meta).map(Some)
    }

    fn fill(
        &self,
        claim: &Claim,
        target: &Target,
        writer: &mut SegmentWriter,
        balance: &mut Balance,
    ) -> Result<(), Error> {
        for part in &target.parts {
            let table = self.sequencer.catalogue().table(part.window.table).cloned();
            // Dropped since: its rows are left out.
            let Some(table) = table else { continue };
            let segments: Vec<Arc<Segment>> = part
                .segments
                .iter()
                .filter_map(|id| segment_of(&claim.state, *id).cloned())
                .collect();
            let tombstones: Vec<Arc<Tombstone>> = claim
                .tombstones
                .iter()
                .filter(|it| it.table == table.id)
                .cloned()
                .collect();
            let gone = Rewrite {
                table: &table,
                window: part.window,
                segments: &segments,
                tombstones: &tombstones,
                rollups: part.own,
                tier: claim.tier_of(target),
                broken: None,
                sabotage: self.site.options().sabotage,
            }
            .run(writer)?;
            let counts = balance.of(table.id);
            counts.merged += gone.merged;
            counts.deleted += gone.deleted;
        }
        Ok(())
    }
}

impl Claim {
    /// What a segment is written for.
    fn tier_of(&self, target: &Target) -> Tier {
        let Home::Partition(window) = target.home else {
            return Tier::Hot;
        };
        self.tiers.of(&window).unwrap_or_else(|| {
            let ids = target.parts.iter().flat_map(|part| &part.segments);
            let mut inputs = ids.filter_map(|id| segment_of(&self.state, *id));
            if inputs.all(|it| it.tier() == Tier::Cold) {
                Tier::Cold
            } else {
                Tier::Hot
            }
        })
    }
}

/// The balance of files that go without being read: every row is covered by a delete, or its table is gone.
fn covered(claim: &Claim, segments: &[u64]) -> Balance {
    let mut balance = Balance::default();
    for segment in segments
        .iter()
        .filter_map(|id| segment_of(&claim.state, *id))
    {
        for (_, group) in segment.all_groups() {
            let mut tombstones = claim.tombstones.iter();
            if tombstones.any(|it| {
                it.table == group.table
                    && it.lsn > segment.meta.max_lsn
                    && covers(it, group.min_time..=group.max_time)
            }) {
                balance.of(group.table).deleted += group.rows;
            }
        }
    }
    balance
}

/// About what a job holds at once: a group of each input as it is in the file, and one group of rows.
fn memory_of(claim: &Claim) -> u64 {
    let Job::Rewrite { segments, .. } = &claim.job else {
        return 0;
    };
    let inputs = segments
        .iter()
        .filter_map(|id| segment_of(&claim.state, *id));
    let groups = inputs.map(|segment| {
        let pages = segment.all_groups().map(|(_, group)| group.pages);
        pages.max().unwrap_or(0)
    });
    groups.sum::<u64>() + GROUP_BYTES_MAX as u64
}

fn segment_of(state: &State, id: u64) -> Option<&Arc<Segment>> {
    let mut segments = state.version.segments.iter();
    segments.find(|segment| segment.meta.file_id == id)
}

/// One file for each part that is worth it, and one for all the others.
fn targets(parts: &[Part]) -> Vec<Target> {
    let (own, mixed): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| part.own);
    let mut targets: Vec<Target> = own
        .into_iter()
        .map(|part| Target {
            home: Home::Partition(part.window),
            parts: vec![part.clone()],
        })
        .collect();
    if !mixed.is_empty() {
        // Groups stand by table and time in a segment.
        let ordered: BTreeMap<_, _> = mixed.into_iter().map(|part| (part.window, part)).collect();
        targets.push(Target {
            home: Home::Mixed,
            parts: ordered.into_values().cloned().collect(),
        });
    }
    targets
}
