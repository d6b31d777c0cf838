//! Maintenance. Head to segments: freeze, write, list in the manifest, recycle the log, in this order.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::batch::TableRows;
use crate::compaction::balance::Balance;
use crate::compaction::order;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::jobs::RowsWent;
use crate::engine::maintain::kept_pages::KeptPages;
use crate::error::Error;
use crate::head::{Head, Run, append_rows};
use crate::index::Index;
use crate::layout::{segment_dir, segment_name};
use crate::manifest::Edit;
use crate::mask::{Deletes, Mask};
use crate::ranked::Locked;
use crate::sabotage::Sabotage;
use crate::schema::{Lsn, TableId};
use crate::segment::{Home, Segment, SegmentMeta, SegmentWriter, TableInput, Window};
use crate::state::{Frozen, Version};
use crate::tombstone::{Tombstone, joined};

/// What one call of [`Engine::maintain`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintained {
    /// Nothing was due.
    Idle,
    /// The head became a segment.
    Flushed {
        /// Its rows.
        rows: u64,
    },
    /// Index files became one.
    Indexed {
        /// Files read.
        files: usize,
    },
    /// Segments became fewer, larger or were split into partitions.
    Compacted {
        /// Segments read.
        segments: usize,
        /// Rows written.
        rows: u64,
    },
    /// A part of the store was read for the sake of its checksums.
    Scrubbed {
        /// Bytes read.
        bytes: u64,
        /// Damaged places that were not known; [`Engine::scrubbed`] lists them.
        damage: u64,
    },
    /// Rows older than their tables keep were deleted; compactions remove their files.
    Expired {
        /// Tables that lost rows.
        tables: usize,
    },
}

/// Who publishes an edit.
pub(in crate::engine) enum Published {
    /// A flush: the frozen head is in files now.
    Flush {
        /// Its deletes; older files may still wait for them.
        deletes: Vec<Arc<Tombstone>>,
        /// Its series.
        series: Option<Arc<Index>>,
        /// What became of its rows, but for those in the files.
        balance: Balance,
    },
    /// A compaction, and what became of the rows of files that go, but for those in the new ones.
    Compaction(Balance),
}

impl Jobs {
    /// Turns the head into a segment if that is due, and does nothing else: for a thread that shall not be busy with a
    /// compaction when the head is full. Not needed where [`Self::maintain`] is called often enough.
    pub(in crate::engine) fn flush_if_due(&self) -> Result<Maintained, Error> {
        if let Some(flushing) = self.flushing.try_lock()
            && self.flush_is_due()
        {
            let rows = self.flush_holding(&flushing)?;
            return Ok(Maintained::Flushed { rows });
        }
        Ok(Maintained::Idle)
    }

    /// Turns the head into a segment now, whatever its size.
    pub(in crate::engine) fn flush(&self) -> Result<(), Error> {
        let flushing = self.flushing.lock();
        // An earlier, failed flush may have left rows aside; they come first, and then what was written since.
        if self.sequencer.versions().now().frozen.is_some() {
            self.flush_holding(&flushing)?;
        }
        self.flush_holding(&flushing).map(drop)
    }

    fn flush_is_due(&self) -> bool {
        let state = self.sequencer.versions().now();
        if state.frozen.is_some() {
            return true;
        }
        let rows = state.head.rows();
        let log_full = self.sequencer.counters().log_bytes.load(Ordering::Relaxed)
            >= self.site.options().log_bytes_max / 2;
        let idle = self.site.options().flush_idle_ms > 0
            && self.sequencer.idle_ms() >= self.site.options().flush_idle_ms
            && rows >= self.site.options().flush_idle_rows_min.max(1);
        rows >= self.site.options().flush_rows
            || state.head.bytes() >= self.sequencer.flush_bytes()
            || log_full
            || idle
            || self.sequencer.series_are_many()
    }

    pub(in crate::engine) fn flush_holding(
        &self,
        _flushing: &Locked<'_, ()>,
    ) -> Result<u64, Error> {
        let Some(frozen) = self.sequencer.freeze()? else {
            return Ok(0);
        };
        // A row that is not durable in the log must not become durable in a segment first.
        self.sequencer.log().sync(frozen.lsn)?;
        if self.site.options().sabotage == Some(Sabotage::LogTrimmedBeforeManifest) {
            self.trim_after(&frozen)?;
        }
        let rows = self.write_files(&frozen)?;
        self.trim_after(&frozen)?;
        Ok(rows)
    }

    pub(in crate::engine) fn write_files(&self, frozen: &Frozen) -> Result<u64, Error> {
        let dir = segment_dir(self.site.dir());
        let mut edit = Edit {
            flushed_lsn: frozen.lsn,
            ..Edit::default()
        };
        let merged = self.write_definitions(&frozen.definitions, &mut edit)?;
        let series = self.write_series(frozen.series.as_ref(), &mut edit)?;
        let mut balance = Balance::default();
        let written = self.write_segments(frozen, &mut edit, &mut balance)?;
        let sides = self.checkpoint_sides(frozen.lsn, merged, &mut edit)?;
        self.site
            .disk()
            .sync_dir(&dir)
            .map_err(Error::io("sync", &dir))?;
        let mut added: Vec<Arc<Segment>> = written.into_iter().map(Arc::new).collect();
        let rows = added.iter().map(|segment| segment.meta.rows).sum();
        let mut deletes = joined(frozen.head.tombstones(u64::MAX));
        if let Some(staged) = frozen.staged() {
            staged.join(&mut edit, &mut balance);
            added.extend(staged.segments.iter().cloned());
            deletes.extend(staged.deletes.iter().cloned());
        }
        self.publish(
            edit,
            &added,
            Published::Flush {
                deletes,
                series,
                balance,
            },
        )?;
        self.sides_checkpointed(sides);
        Ok(rows)
    }

    /// Writes the rows of a head, and of those that stand in flash pages the pages, and adds the segments to `edit`.
    fn write_segments(
        &self,
        frozen: &Frozen,
        edit: &mut Edit,
        balance: &mut Balance,
    ) -> Result<Vec<Segment>, Error> {
        let deletes = frozen.head.tombstones(u64::MAX);
        let pages = match frozen.pages_lsn {
            Some(_) => frozen.head.pages(),
            None => Vec::new(),
        };
        let mut pages = KeptPages::new(&pages);
        let mut begun = None;
        let mut merged = 0;
        for id in frozen.head.tables() {
            // Of the copies that are written only one table's is there at a time.
            let Some(input) = self.table_input(&frozen.head, id, &deletes, balance) else {
                continue;
            };
            let Some(input) = rest_of(input, &mut pages) else {
                continue;
            };
            let (writer, ..) = match &mut begun {
                Some(begun) => begun,
                none => none.insert(self.begin_segment()?),
            };
            let gone = writer.write_table(&input)?;
            balance.of(id).merged += gone;
            merged += gone;
        }
        self.sequencer
            .counters()
            .merged
            .fetch_add(merged, Ordering::Relaxed);
        let mut segments = Vec::new();
        let lsns = (frozen.min_lsn, frozen.rows_lsn);
        if let Some(begun) = begun {
            segments.push(self.end_segment(begun, lsns, edit)?);
        }
        let pages = pages.finish();
        if let Some(lsn) = frozen.pages_lsn.filter(|_| !pages.is_empty()) {
            let (file_id, path) = self.new_segment()?;
            let mut writer = self.site.device_writer(&path, file_id)?;
            writer.write_device_pages(&pages)?;
            segments.push(self.end_segment((writer, file_id, path), (lsn, lsn), edit)?);
        }
        Ok(segments)
    }

    /// Id and place of a segment that is about to be written.
    fn new_segment(&self) -> Result<(u64, PathBuf), Error> {
        let file_id = self.new_file_id();
        let path = segment_dir(self.site.dir()).join(segment_name(file_id));
        self.site.remove_leftover(&path)?;
        Ok((file_id, path))
    }

    fn begin_segment(&self) -> Result<(SegmentWriter, u64, PathBuf), Error> {
        let (file_id, path) = self.new_segment()?;
        let writer = self
            .site
            .segment_writer(&path, file_id)?
            .with_window_rows_min(self.site.options().compaction.partition_rows_min);
        Ok((writer, file_id, path))
    }

    /// Ends a segment of a flush and adds it to `edit`.
    fn end_segment(
        &self,
        (writer, file_id, path): (SegmentWriter, u64, PathBuf),
        (min_lsn, max_lsn): (Lsn, Lsn),
        edit: &mut Edit,
    ) -> Result<Segment, Error> {
        let sync = self.site.options().sabotage != Some(Sabotage::ManifestBeforeDataSync);
        let (bytes, rows) = writer.finish(sync)?;
        let meta = SegmentMeta {
            file_id,
            bytes,
            rows,
            min_lsn,
            max_lsn,
            applied_lsn: max_lsn,
            home: Home::Mixed,
        };
        edit.added_segments.push(meta.clone());
        Segment::open(self.site.segment_cache(), path, self.site.uuid(), meta)
    }

    /// An id for a file that is about to be written.
    pub(in crate::engine) fn new_file_id(&self) -> u64 {
        let mut jobs = self.list();
        jobs.next_file_id += 1;
        jobs.next_file_id - 1
    }

    /// Makes an edit hold and shows what it says. The files that it adds are durable already, `added` are its segments,
    /// open. Refused, with nothing done, if rows are not accounted for or files would have no order. A flush that is refused
    /// stops the store: its rows stay in memory and in the log, and whoever opens the store again finds them there.
    pub(in crate::engine) fn publish(
        &self,
        mut edit: Edit,
        added: &[Arc<Segment>],
        by: Published,
    ) -> Result<(), Error> {
        let mut manifest = self.manifest.lock();
        edit.next_file_id = self.list().next_file_id;
        let new_bytes: u64 = edit.added_segments.iter().map(|meta| meta.bytes).sum();
        edit.written_bytes = manifest.contents.written_bytes + new_bytes;
        let before = self.sequencer.versions().version();
        let is_removed = |id: u64| edit.removed_segments.contains(&id);
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        let mut removed = Vec::new();
        for segment in &before.segments {
            let list = if is_removed(segment.meta.file_id) {
                &mut removed
            } else {
                &mut segments
            };
            list.push(Arc::clone(segment));
        }
        segments.extend(added.iter().cloned());
        segments.sort_by_key(|segment| segment.meta.place());
        let waits = |tombstone: &Tombstone| segments.iter().any(|it| it.waits_for(tombstone));
        let is_flush = matches!(by, Published::Flush { .. });
        let mut filed = None;
        let balance = match by {
            Published::Compaction(balance) => balance,
            Published::Flush {
                deletes,
                series,
                balance,
            } => {
                filed = series;
                edit.added_tombstones = deletes.into_iter().filter(|it| waits(it)).collect();
                balance
            }
        };
        let rows_went = balance.has_deleted();
        let checked = self
            .check_balance(balance, &removed, added, is_flush)
            .and_then(|()| self.check_order(&segments, &removed, added));
        if let Err(refused) = checked {
            self.sequencer
                .counters()
                .refused_edits
                .fetch_add(1, Ordering::Relaxed);
            if is_flush {
                self.sequencer.log().poison(&refused.to_string());
            }
            return Err(refused);
        }
        let done = before.tombstones.iter().filter(|it| !waits(it));
        edit.removed_tombstones = done.map(|it| (it.lsn, it.table)).collect();
        // A partition is there as long as a segment of it is.
        if !is_flush {
            settle_windows(&manifest.contents.windows, &segments, &mut edit);
        }
        // From here on an error leaves it open what the manifest says: the store must be opened again to know.
        manifest
            .append(self.site.disk(), edit)
            .inspect_err(|error| self.sequencer.log().poison(&error.to_string()))?;
        if let Some(filed) = filed {
            self.sequencer.catalogue_mut().filed(filed);
        }
        let contents = &manifest.contents;
        let next = |before: &Version| Version::new(before.number + 1, segments, contents);
        if is_flush {
            self.sequencer.versions().publish_flushed(next);
        } else {
            self.sequencer.versions().publish(next);
        }
        drop(manifest);
        let mut jobs = self.list();
        jobs.removed.extend(removed);
        if rows_went {
            jobs.rows_went = RowsWent::Since;
        }
        Ok(())
    }

    /// No row goes unless it is known where to: asked before every edit that removes or adds segments.
    fn check_balance(
        &self,
        mut balance: Balance,
        removed: &[Arc<Segment>],
        added: &[Arc<Segment>],
        is_flush: bool,
    ) -> Result<(), Error> {
        for segment in removed {
            balance.read(segment);
        }
        for segment in added {
            balance.written(segment);
        }
        if self.site.options().sabotage == Some(Sabotage::RowsLeftOut) {
            return Ok(());
        }
        let work = if is_flush { "a flush" } else { "a compaction" };
        let catalogue = self.sequencer.catalogue();
        balance.check(work, |table| catalogue.table(table).is_some())
    }

    /// Of two files that may have a row of one key it is known which one is newer. Files that had no order when the store was
    /// opened may be rewritten one by one.
    fn check_order(
        &self,
        segments: &[Arc<Segment>],
        removed: &[Arc<Segment>],
        added: &[Arc<Segment>],
    ) -> Result<(), Error> {
        if self.site.options().sabotage == Some(Sabotage::RunCutInTie) {
            return Ok(());
        }
        let is_new = |id: u64| added.iter().any(|it| it.meta.file_id == id);
        let lsns: BTreeSet<Lsn> = added.iter().map(|it| it.meta.max_lsn).collect();
        let is_old =
            !self.unordered.is_empty() && removed.iter().any(|it| lsns.contains(&it.meta.max_lsn));
        let pairs = order::unordered(segments, |lsn| lsns.contains(&lsn));
        match pairs.iter().find(|(a, b)| is_new(*a) || is_new(*b)) {
            Some(&(first, second)) if !is_old => Err(Error::FilesUnordered { first, second }),
            _ => Ok(()),
        }
    }

    /// Removes the files of segments and of the index that nobody reads any more. A file that cannot be removed is tried again, and
    /// at the latest when the store is opened.
    pub(in crate::engine) fn remove_files(&self) {
        let asks = self.site.options().sabotage != Some(Sabotage::FileRemovedUnderReader);
        let jobs = &mut *self.list();
        let backed_up = &jobs.backed_up;
        jobs.removed.retain(|segment| {
            let is_read = asks && Arc::strong_count(segment) > 1;
            let is_kept = is_read || backed_up.contains(&segment.meta.file_id);
            is_kept || self.site.disk().remove(segment.path()).is_err()
        });
        jobs.removed_index.retain(|index| {
            let is_kept = Arc::strong_count(index) > 1 || backed_up.contains(&index.file_id());
            is_kept || self.site.disk().remove(index.path()).is_err()
        });
    }

    /// The rows that a head has of a table, its runs one after another in LSN order, without what its own deletes hide.
    fn table_input(
        &self,
        head: &Head,
        id: TableId,
        deletes: &[Arc<Tombstone>],
        balance: &mut Balance,
    ) -> Option<TableInput> {
        // What was dropped, durably, is read by nobody who does not hold the head.
        let settings = self.sequencer.catalogue().table(id)?.settings;
        let own = deletes.iter().filter(|it| it.table == id);
        let deletes = Deletes::new(&own.cloned().collect::<Vec<_>>());
        let mut rows: Option<TableRows> = None;
        for (run, _) in head.runs(id, u64::MAX) {
            let kept = shown_rows(&run, &Mask::of_run(&deletes, &run));
            let kept = kept.as_ref().unwrap_or(&run.rows);
            let counts = balance.of(id);
            counts.read += run.rows.rows() as u64;
            counts.deleted += (run.rows.rows() - kept.rows()) as u64;
            match &mut rows {
                None => rows = Some(kept.clone()),
                Some(rows) => append_rows(rows, kept),
            }
        }
        let rows = rows.filter(|rows| rows.rows() > 0)?;
        Some(TableInput { rows, settings })
    }

    pub(in crate::engine) fn trim_after(&self, frozen: &Frozen) -> Result<(), Error> {
        self.sequencer.log().trim(frozen.lsn)
    }
}

/// The rows that stand in no flash page; `None` = each stands in one.
fn rest_of(input: TableInput, pages: &mut KeptPages<'_>) -> Option<TableInput> {
    let rows = match pages.take(&input.rows, input.settings) {
        None => return Some(input),
        Some(rest) if rest.is_empty() => return None,
        Some(rest) => input.rows.picked(&rest),
    };
    let settings = input.settings;
    Some(TableInput { rows, settings })
}

/// Adds to an edit the partitions that its segments are the first of, and takes away those that no segment is in.
fn settle_windows(windows: &BTreeSet<Window>, segments: &[Arc<Segment>], edit: &mut Edit) {
    let is_used = |window: &Window| segments.iter().any(|it| it.is_home(window));
    let kept = windows.iter();
    let kept = kept.filter(|window| !edit.removed_windows.contains(window));
    let (used, unused): (Vec<Window>, Vec<Window>) = kept.partition(|window| is_used(window));
    edit.removed_windows.extend(unused);
    for segment in &edit.added_segments {
        let Home::Partition(home) = segment.home else {
            continue;
        };
        let mut known = used.iter().chain(&edit.added_windows);
        if !known.any(|it| it.table == home.table && it.start <= home.start && home.end <= it.end) {
            edit.added_windows.push(home);
        }
    }
}

/// The rows of a run that no delete hides; `None` = all of them.
fn shown_rows(run: &Run, mask: &Mask) -> Option<TableRows> {
    if mask.is_empty() {
        return None;
    }
    let rows = &run.rows;
    let keys = rows.series.iter().zip(&rows.times).enumerate();
    let kept: Vec<u32> = keys
        .filter(|&(row, (&series, &time))| !mask.hides(row, series, time))
        .filter_map(|(row, _)| u32::try_from(row).ok())
        .collect();
    Some(rows.picked(&kept))
}
