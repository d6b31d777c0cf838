//! The scrub: all bytes of an open store read and checked, a little at a time, again and again.
//!
//! Does: go through manifest, log and files in order, one bounded slice a call; remember the place across restarts
//! (`scrub/place.rs`); tell of damage as whoever reads does, so that it is dealt with before a query needs it. Does not:
//! decide what becomes of damage (index files are mended, compactions leave segments alone, see `salvage_index.rs` and `compact.rs`),
//! leave anything in a cache, or take what was removed meanwhile for missing.
//!
//! A part of the log that is damaged while its rows are in memory, and a damaged manifest, whose contents are in memory,
//! lose nothing yet: the log is flushed, the manifest written afresh.

mod place;
mod progress;

use std::sync::Arc;

use self::place::{ScrubPlace, Stage};
pub use self::progress::Scrubbed;
pub(in crate::engine) use self::progress::{Scrub, begin};
use crate::checked_file::{ChecksumPass, Identity};
use crate::engine::maintain::flush::Maintained;
use crate::engine::repair::Repair;
use crate::engine::repair::damaged::{Damage, DamagedSegment};
use crate::error::Error;
use crate::index::{Index, IndexPlace};
use crate::layout::{segment_dir, segment_name, side_name};
use crate::manifest::{FileKind, FileMeta};
use crate::options::OnDamage;
use crate::ranked::Locked;
use crate::segment::{Segment, SegmentPlace};
use crate::{definitions_file, idempotency, relation};

/// What one step reads when it is done by [`Engine::maintain`]: some milliseconds of a disk.
const SLICE_BYTES: u64 = 1 << 20;
/// Steps have at least this between them, so that a store that was closed for long does not catch up at one go.
const PAUSE_MS: u64 = 100;
/// The place is written down so often at most.
const SAVE_MS: u64 = 60_000;
/// Places that are listed. A disk that fails as a whole has millions, and the list is searched for each.
const DAMAGE_LISTED_MAX: usize = 1000;
const DAY_NS: u128 = 24 * 3600 * 1_000_000_000;

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Bytes read.
    pub bytes: u64,
    /// Damaged places that were not known.
    pub damage: u64,
    /// Everything that was there when the pass began has been read.
    pub is_end: bool,
}

/// A file to read, held so that it stays.
enum Next {
    Segment(Arc<Segment>),
    Index(Arc<Index>),
    Whole(FileMeta),
}

impl Repair {
    /// Reads and checks about so many bytes more of the store, from where the last step stopped. After an error that is
    /// not about damage, such as a disk that does not answer, the next step goes on behind it.
    pub(in crate::engine) fn scrub_step(&self, bytes_max: u64) -> Result<ScrubStep, Error> {
        let mut scrub = self.scrub.lock();
        self.scrub_holding(&mut scrub, bytes_max)
    }

    /// What the scrub has read and found.
    pub(in crate::engine) fn scrubbed(&self) -> Scrubbed {
        self.scrubbed.lock().clone()
    }

    /// Does a step if one is due: everything is read once in the days that the setting says.
    pub(in crate::engine) fn scrub_if_due(&self) -> Result<Maintained, Error> {
        let days = self.site.options().scrub_days;
        let Some(mut scrub) = self.scrub.try_lock() else {
            return Ok(Maintained::Idle);
        };
        if days == 0 || self.sequencer.check_poisoned().is_err() {
            return Ok(Maintained::Idle);
        }
        let (now_ns, since_ms) = (self.site.clock().now_ns(), self.site.clock().monotonic_ms());
        if scrub.place.started_ns == 0 || scrub.place.started_ns > now_ns {
            // The first pass, or a clock that was set back.
            scrub.place.started_ns = now_ns.max(1);
        }
        if scrub.saved_ms.is_none() {
            // So that a store that is never open for long knows when its pass began.
            self.save_place(&mut scrub, since_ms);
        }
        let pause = scrub
            .stepped_ms
            .map(|at| at.saturating_add(PAUSE_MS) > since_ms);
        let total = self.bytes_to_scrub();
        let elapsed = u128::from(now_ns.abs_diff(scrub.place.started_ns));
        let target = u128::from(total) * elapsed / (u128::from(days) * DAY_NS);
        let done = scrub.place.done.min(total);
        let slice = SLICE_BYTES.min(total - done).max(1);
        if pause == Some(true) || target < u128::from(done) + u128::from(slice) {
            return Ok(Maintained::Idle);
        }
        // As much as the period takes, however large the store is.
        let per_pause =
            u128::from(total) * u128::from(PAUSE_MS) * 2_000_000 / (u128::from(days) * DAY_NS);
        let bytes_max = SLICE_BYTES.max(u64::try_from(per_pause).unwrap_or(u64::MAX));
        scrub.stepped_ms = Some(since_ms);
        let step = self.scrub_holding(&mut scrub, bytes_max)?;
        Ok(Maintained::Scrubbed {
            bytes: step.bytes,
            damage: step.damage,
        })
    }

    /// Writes the place down, for a graceful stop.
    pub(in crate::engine) fn save_scrub(&self) {
        let mut scrub = self.scrub.lock();
        if scrub.saved_ms.is_some() || scrub.place.done > 0 {
            self.save_place(&mut scrub, self.site.clock().monotonic_ms());
        }
    }

    fn scrub_holding(
        &self,
        scrub: &mut Locked<'_, Scrub>,
        bytes_max: u64,
    ) -> Result<ScrubStep, Error> {
        let mut step = ScrubStep::default();
        if self.sequencer.check_poisoned().is_err() {
            // What is on the disk is in doubt, and opening the store again decides.
            return Ok(step);
        }
        let mut outcome = Ok(());
        while outcome.is_ok() && step.bytes < bytes_max && !step.is_end {
            let before = step.bytes;
            outcome = match scrub.place.stage {
                Stage::Manifest => self.scrub_manifest(scrub, &mut step),
                Stage::Log => self.scrub_log(scrub, bytes_max - before, &mut step),
                Stage::Files => self.scrub_file(scrub, bytes_max - before, &mut step),
            };
            scrub.place.done += step.bytes - before;
        }
        let (now_ns, since_ms) = (self.site.clock().now_ns(), self.site.clock().monotonic_ms());
        let mut scrubbed = self.scrubbed.lock();
        scrubbed.bytes += step.bytes;
        if step.is_end {
            scrubbed.passes += 1;
            scrub.place = ScrubPlace {
                started_ns: now_ns.max(1),
                last_pass_ns: now_ns,
                ..ScrubPlace::default()
            };
        }
        scrubbed.last_pass_ns = scrub.place.last_pass_ns;
        scrubbed.pass_started_ns = scrub.place.started_ns;
        scrubbed.pass_bytes = scrub.place.done;
        drop(scrubbed);
        let is_old = |at: u64| at.saturating_add(SAVE_MS) <= since_ms;
        if step.is_end || scrub.saved_ms.is_none_or(is_old) {
            self.save_place(scrub, since_ms);
        }
        outcome.map(|()| step)
    }

    /// An error is nobody's: the place is a help, and an earlier one does as well.
    fn save_place(&self, scrub: &mut Scrub, since_ms: u64) {
        scrub.saved_ms = Some(since_ms);
        drop(place::write(
            self.site.disk(),
            self.site.dir(),
            self.site.uuid(),
            &scrub.place,
        ));
    }

    fn bytes_to_scrub(&self) -> u64 {
        let manifest = self.jobs.manifest();
        let segments = manifest.contents.segments.iter().map(|it| it.bytes);
        let files = manifest.contents.files.iter().map(|it| it.bytes);
        let files: u64 = segments.chain(files).sum();
        drop(manifest);
        files
            + self
                .sequencer
                .counters()
                .log_bytes
                .load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Lists damage, once.
    fn tell(&self, error: Error, step: &mut ScrubStep) -> Result<(), Error> {
        let Error::Corrupt {
            path,
            offset,
            reason,
        } = error
        else {
            return Err(error);
        };
        let mut scrubbed = self.scrubbed.lock();
        let mut known = scrubbed.damage.iter();
        if scrubbed.damage.len() < DAMAGE_LISTED_MAX
            && !known.any(|it| it.path == path && it.offset == offset)
        {
            step.damage += 1;
            scrubbed.damage.push(Damage {
                path,
                offset,
                reason,
            });
        }
        Ok(())
    }

    fn scrub_manifest(&self, scrub: &mut Scrub, step: &mut ScrubStep) -> Result<(), Error> {
        scrub.place.stage = Stage::Log;
        scrub.place.end_id = self.jobs.list().next_file_id;
        let mut manifest = self.jobs.manifest();
        if self.sequencer.check_poisoned().is_err() {
            return Ok(());
        }
        let found = match manifest.verify(self.site.disk()) {
            Ok(bytes) => {
                step.bytes += bytes;
                return Ok(());
            }
            Err(error) => error,
        };
        self.tell(found, step)?;
        if self.site.options().on_damage == OnDamage::Quarantine {
            // What it must say is in memory. An error leaves it open what it says.
            manifest
                .rewrite(self.site.disk())
                .inspect_err(|error| self.sequencer.log().poison(&error.to_string()))?;
        }
        Ok(())
    }

    fn scrub_log(
        &self,
        scrub: &mut Scrub,
        bytes_max: u64,
        step: &mut ScrubStep,
    ) -> Result<(), Error> {
        let read = match self.sequencer.log().verify_some(&mut scrub.log, bytes_max) {
            Ok(read) => read,
            Err(error) => {
                scrub.log = None;
                scrub.place.stage = Stage::Files;
                return Err(error);
            }
        };
        step.bytes += read.bytes;
        if let Some(suspect) = read.suspect {
            self.look_at_log(suspect, step)?;
        }
        if read.is_end {
            scrub.log = None;
            scrub.place.stage = Stage::Files;
        }
        Ok(())
    }

    /// Something of the log does not read. If it is needed still, it is damage, and what it holds becomes a segment.
    fn look_at_log(&self, suspect: Error, step: &mut ScrubStep) -> Result<(), Error> {
        let flushing = self.jobs.flushing();
        let Error::Corrupt { path, offset, .. } = &suspect else {
            return Err(suspect);
        };
        let flushed = self.jobs.manifest().contents.flushed_lsn;
        if !self.sequencer.log().is_live(path) {
            return Ok(());
        }
        let damage = if *offset == 0 {
            // A header says whose the records are; without it the file's later records would be lost too.
            Err(suspect)
        } else {
            let durable = self.sequencer.log().durable();
            self.sequencer
                .log()
                .replay(flushed, durable, &mut |_: u64, _: &[u8]| Ok(()))
        };
        let Err(error) = damage else { return Ok(()) };
        self.tell(error, step)?;
        self.sequencer.log().end_file();
        drop(flushing);
        self.jobs.flush()
    }

    fn scrub_file(
        &self,
        scrub: &mut Scrub,
        bytes_max: u64,
        step: &mut ScrubStep,
    ) -> Result<(), Error> {
        let Some((id, next)) = self.next_to_scrub(&scrub.place) else {
            step.is_end = true;
            return Ok(());
        };
        if id != scrub.place.file_id {
            scrub.place.file_id = id;
            scrub.place.at = (0, 0);
        }
        let read = match &next {
            Next::Segment(segment) => self.scrub_segment(segment, scrub, bytes_max, step),
            Next::Index(index) => {
                let (table, part) = scrub.place.at;
                let mut place = IndexPlace { table, part };
                let read = index.verify_some(&mut place, bytes_max);
                scrub.place.at = (place.table, place.part);
                read.map(|read| (read.bytes, read.is_end))
            }
            Next::Whole(meta) => self.scrub_whole(*meta, scrub, bytes_max),
        };
        match read {
            Ok((bytes, is_end)) => {
                step.bytes += bytes;
                scrub.place.file_id += u64::from(is_end);
                if is_end {
                    scrub.place.at = (0, 0);
                }
                Ok(())
            }
            Err(error) => {
                scrub.place.file_id += 1;
                scrub.place.at = (0, 0);
                if matches!(&next, Next::Whole(meta) if !self.is_listed(*meta)) {
                    return Ok(());
                }
                let error = missing(error);
                if let (Next::Segment(segment), Error::Corrupt { .. }) = (&next, &error) {
                    self.mark_damaged(segment, &error);
                }
                self.tell(error, step)
            }
        }
    }

    /// The next file of the pass; a segment or an index file is held, and so stays where it is.
    fn next_to_scrub(&self, place: &ScrubPlace) -> Option<(u64, Next)> {
        let is_next = |id: u64| (place.file_id..place.end_id).contains(&id);
        let manifest = self.jobs.manifest();
        let segments = self.sequencer.versions().version();
        let segment = segments
            .segments
            .iter()
            .filter(|it| is_next(it.meta.file_id))
            .min_by_key(|it| it.meta.file_id);
        let files = manifest.contents.files.iter();
        let file = files
            .filter(|it| is_next(it.file_id))
            .min_by_key(|it| it.file_id)
            .copied();
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        drop(manifest);
        match (segment, file) {
            (Some(segment), file)
                if file.is_none_or(|file| segment.meta.file_id < file.file_id) =>
            {
                Some((segment.meta.file_id, Next::Segment(Arc::clone(segment))))
            }
            (_, Some(file)) if file.kind == FileKind::Index => {
                let mut open = layers.files().iter();
                let open = open.find(|it| it.file_id() == file.file_id);
                // Merged away between the two looks: what is in its place belongs to the next pass.
                let next = open.map_or(Next::Whole(file), |open| Next::Index(Arc::clone(open)));
                Some((file.file_id, next))
            }
            (_, file) => file.map(|file| (file.file_id, Next::Whole(file))),
        }
    }

    fn scrub_segment(
        &self,
        segment: &Arc<Segment>,
        scrub: &mut Scrub,
        bytes_max: u64,
        step: &mut ScrubStep,
    ) -> Result<(u64, bool), Error> {
        let path = segment_dir(self.site.dir()).join(segment_name(segment.meta.file_id));
        let (disk, meta) = (self.site.disk(), segment.meta.clone());
        // Not through the cache: it is the disk that is asked, and what queries need stays in memory.
        let alone = Segment::open_alone(disk, path, self.site.uuid(), meta)?;
        let (group, page) = scrub.place.at;
        let mut place = SegmentPlace { group, page };
        let mut told = ScrubStep::default();
        let mut tell = |error: Error| {
            self.mark_damaged(segment, &error);
            self.tell(error, &mut told)
        };
        let read = alone.verify_some(&mut place, bytes_max, &mut tell)?;
        step.damage += told.damage;
        scrub.place.at = (place.group, place.page);
        Ok((read.bytes, read.is_end))
    }

    /// From here on compactions leave the segment alone, and it is listed as damaged.
    fn mark_damaged(&self, segment: &Segment, error: &Error) {
        if let Error::Corrupt {
            path,
            offset,
            reason,
        } = error
        {
            let mut jobs = self.jobs.list();
            let known = jobs.damaged.entry(segment.meta.file_id);
            known.or_insert_with(|| DamagedSegment {
                file: path.clone(),
                offset: *offset,
                reason: reason.clone(),
            });
        }
    }

    fn scrub_whole(
        &self,
        meta: FileMeta,
        scrub: &mut Scrub,
        bytes_max: u64,
    ) -> Result<(u64, bool), Error> {
        let Some(mut reading) = self.begin_reading(meta)? else {
            return Ok((0, true));
        };
        reading.go_on_at(scrub.place.at);
        let bytes = reading.some(bytes_max)?;
        scrub.place.at = reading.place();
        Ok((bytes, reading.is_end()))
    }

    /// `None` = an index file that is not in force any more.
    fn begin_reading(&self, meta: FileMeta) -> Result<Option<ChecksumPass>, Error> {
        let path = segment_dir(self.site.dir()).join(side_name(meta.kind, meta.file_id));
        let kind = match meta.kind {
            FileKind::Definitions => definitions_file::KIND,
            FileKind::Keys => idempotency::FILE_KIND,
            FileKind::Relations => relation::FILE_KIND,
            FileKind::Index => return Ok(None),
        };
        let identity = Identity {
            kind,
            uuid: self.site.uuid(),
            file_id: meta.file_id,
        };
        ChecksumPass::start(self.site.disk(), &path, identity, meta.bytes).map(Some)
    }

    fn is_listed(&self, meta: FileMeta) -> bool {
        self.jobs.manifest().contents.files.contains(&meta)
    }
}

/// A file that is listed and held and yet not there is damage.
fn missing(error: Error) -> Error {
    match error {
        Error::Io { source, path, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::corrupt(&path, 0, "the file is missing")
        }
        other => other,
    }
}
