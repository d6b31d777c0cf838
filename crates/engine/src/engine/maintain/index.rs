//! Index files of a running store: written by flushes, merged by jobs of their own.
//!
//! Does: write the series that a flush took, decide which files become one, merge them, publish. Does not: look anything
//! up (`names/catalogue/layers.rs` does), know the bytes (`index.rs` does), or find series without rows (`gone_series.rs` does).
//!
//! A merge reads from front to back. Beside the footer of what it writes it holds a window of [`window_bytes`] and
//! [`PART_BYTES`] for each file; that is counted and not refused.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::budget::MemoryUse;
use crate::catalogue::{Layers, SetAside};
use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::Maintained;
use crate::engine::maintain::gone_series::Gone;
use crate::engine::maintain::jobs::JobList;
use crate::error::Error;
use crate::index::{Index, IndexWriter, PART_BYTES, merge};
use crate::layout::{segment_dir, side_name};
use crate::manifest::{Edit, FileKind, FileMeta};

/// Most memory for the codes of series that a merge finds at once: those of four million series, so that nearly every
/// merge needs one pass over the values to find them.
const WINDOW_BYTES_MAX: u64 = 16 << 20;
/// Part of the memory budget that this may be.
const WINDOW_PART: u64 = 64;
/// What is mended is held decoded, table by table: about so many times its size in the file.
const MENDING_FACTOR: u64 = 12;

/// Memory to mend a file of so many bytes.
pub(in crate::engine) fn memory_of(bytes: u64) -> u64 {
    bytes.saturating_mul(MENDING_FACTOR)
}

/// Whether a file has all series of those that it replaces, but for those of dropped tables.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) enum Series<'a> {
    AllThere,
    SomeLost,
    /// These are left out, as no row is of them.
    Gone(&'a Gone),
}

impl Jobs {
    /// Writes and syncs the series that a flush took aside, and adds the file to `edit`.
    pub(in crate::engine) fn write_series(
        &self,
        aside: Option<&SetAside>,
        edit: &mut Edit,
    ) -> Result<Option<Arc<Index>>, Error> {
        let Some(aside) = aside else {
            return Ok(None);
        };
        let (file_id, path) = self.new_index_file()?;
        let mut writer = IndexWriter::create(self.site.disk(), &path, self.site.uuid(), file_id)?;
        let mut tables = aside.series.read().tables();
        // What was dropped, durably, is looked up by nobody.
        tables.retain(|table| self.sequencer.catalogue().table(*table).is_some());
        let series = aside.series.read();
        for table in tables {
            series.write(table, &mut writer)?;
        }
        let bytes = writer.finish(aside.next_series)?;
        edit.next_series = aside.next_series;
        drop(series);
        self.open_index_file(file_id, &path, bytes, edit).map(Some)
    }

    pub(in crate::engine) fn new_index_file(&self) -> Result<(u64, PathBuf), Error> {
        let file_id = self.new_file_id();
        let path = segment_dir(self.site.dir()).join(side_name(FileKind::Index, file_id));
        self.site.remove_leftover(&path)?;
        Ok((file_id, path))
    }

    fn open_index_file(
        &self,
        file_id: u64,
        path: &std::path::Path,
        bytes: u64,
        edit: &mut Edit,
    ) -> Result<Arc<Index>, Error> {
        edit.added_files.push(FileMeta {
            kind: FileKind::Index,
            file_id,
            bytes,
        });
        let (disk, cache) = (self.site.disk(), Arc::clone(self.site.index_cache()));
        Index::open(disk, path, self.site.uuid(), file_id, bytes, cache).map(Arc::new)
    }

    /// Makes the name of a written index file durable and opens it.
    pub(in crate::engine) fn list_index_file(
        &self,
        file_id: u64,
        path: &std::path::Path,
        bytes: u64,
        edit: &mut Edit,
    ) -> Result<Arc<Index>, Error> {
        let dir = segment_dir(self.site.dir());
        self.site
            .disk()
            .sync_dir(&dir)
            .map_err(Error::io("sync", &dir))?;
        self.open_index_file(file_id, path, bytes, edit)
    }

    /// Merges index files if that is due.
    pub(in crate::engine) fn merge_index(&self, settle: bool) -> Result<Maintained, Error> {
        if self.sequencer.check_poisoned().is_err() {
            return Ok(Maintained::Idle);
        }
        let Some(_indexing) = self.indexing.try_lock() else {
            return Ok(Maintained::Idle);
        };
        let Some(inputs) = self.claim_index(settle) else {
            return self.forget_series(settle);
        };
        let outcome = self.merge_files(&inputs);
        let mut jobs = self.list();
        jobs.indexing = false;
        if let Err(Error::Corrupt { path, .. }) = &outcome {
            let damaged = inputs.iter().filter(|input| input.path() == path);
            jobs.damaged_index
                .extend(damaged.map(|input| input.file_id()));
        }
        outcome
    }

    /// The files of the next job, which nobody else may merge until it is done.
    fn claim_index(&self, settle: bool) -> Option<Vec<Arc<Index>>> {
        let mut jobs = self.list();
        if jobs.indexing {
            return None;
        }
        let settle_ms = self.site.options().compaction.settle_ms;
        let idle = settle || (settle_ms > 0 && self.sequencer.idle_ms() >= settle_ms);
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        let sizes: Vec<Option<u64>> = layers
            .files()
            .iter()
            .map(|file| {
                let is_damaged =
                    file.damage().is_some() || jobs.damaged_index.contains(&file.file_id());
                (!is_damaged).then(|| file.file_bytes())
            })
            .collect();
        let fan_in = self.site.options().compaction.fan_in;
        let range = next_merge(&sizes, fan_in, idle);
        let range = range.or_else(|| self.next_cleared(&layers, &sizes, &mut jobs))?;
        let inputs = layers.files().get(range)?.to_vec();
        let bytes = inputs.iter().map(|file| file.file_bytes()).sum();
        if !self.site.has_room_for(bytes) {
            return None;
        }
        jobs.indexing = true;
        Some(inputs)
    }

    /// A file of mostly series whose tables were dropped, to be written again without them.
    fn next_cleared(
        &self,
        layers: &Layers,
        sizes: &[Option<u64>],
        jobs: &mut JobList,
    ) -> Option<Range<usize>> {
        let files = layers.files();
        // Only a drop or another file makes another answer.
        let situation = (
            self.sequencer.catalogue_epoch(),
            files.last().map(|file| file.file_id()),
        );
        if jobs.index_kept_at == Some(situation) {
            return None;
        }
        let catalogue = self.sequencer.catalogue();
        let is_mostly_gone = |file: &Index| {
            let (mut gone, mut there) = (0, 0);
            for table in file.tables() {
                let series = u64::from(file.series_count(table));
                match catalogue.table(table) {
                    Some(_) => there += series,
                    None => gone += series,
                }
            }
            gone > there
        };
        let mut files = files.iter().zip(sizes);
        let found = files.position(|(file, size)| size.is_some() && is_mostly_gone(file));
        if found.is_none() {
            jobs.index_kept_at = Some(situation);
        }
        found.map(|at| at..at + 1)
    }

    fn merge_files(&self, inputs: &[Arc<Index>]) -> Result<Maintained, Error> {
        let parts = inputs.len().saturating_mul(PART_BYTES) as u64;
        let _memory = self
            .site
            .budget()
            .take(MemoryUse::Compaction, self.window_bytes() + parts);
        let (file_id, path) = self.new_index_file()?;
        let mut edit = Edit {
            removed_files: inputs.iter().map(|file| file.file_id()).collect(),
            ..Edit::default()
        };
        let written = self.write_merged(inputs, file_id, &path, &mut edit);
        let published =
            written.and_then(|merged| self.publish_index(edit, inputs, merged, Series::AllThere));
        if published.is_err() && self.sequencer.check_poisoned().is_ok() {
            // No edit lists it; the next open would remove it too.
            drop(self.site.disk().remove(&path));
        }
        published?;
        Ok(Maintained::Indexed {
            files: inputs.len(),
        })
    }

    fn write_merged(
        &self,
        inputs: &[Arc<Index>],
        file_id: u64,
        path: &std::path::Path,
        edit: &mut Edit,
    ) -> Result<Arc<Index>, Error> {
        let mut writer = IndexWriter::create(self.site.disk(), path, self.site.uuid(), file_id)?;
        let files: Vec<&Index> = inputs.iter().map(AsRef::as_ref).collect();
        let is_there = |table| self.sequencer.catalogue().table(table).is_some();
        let window = usize::try_from(self.window_bytes()).unwrap_or(usize::MAX);
        merge(&files, &is_there, window, &mut writer)?;
        let next = files.iter().map(|file| file.next_series()).max();
        let bytes = writer.finish(next.unwrap_or(1))?;
        self.list_index_file(file_id, path, bytes, edit)
    }

    /// Memory for the codes that a merge finds at once.
    fn window_bytes(&self) -> u64 {
        WINDOW_BYTES_MAX.min(self.site.budget().total() / WINDOW_PART)
    }

    /// Makes the edit hold and shows the merged file in place of its inputs. False = nothing was done, as rows of series that
    /// are left out came meanwhile.
    pub(in crate::engine) fn publish_index(
        &self,
        mut edit: Edit,
        inputs: &[Arc<Index>],
        merged: Arc<Index>,
        series: Series<'_>,
    ) -> Result<bool, Error> {
        let removed = edit.removed_files.clone();
        let mut manifest = self.manifest.lock();
        edit.next_file_id = self.list().next_file_id;
        let mut sequencer = None;
        if let Series::Gone(gone) = series {
            // No row may get the id of such a series between this look and the moment from which on nobody knows it.
            sequencer = Some(self.sequencer.lock());
            if self.has_come_back(gone) {
                return Ok(false);
            }
        }
        // From here on an error leaves it open what the manifest says: the store must be opened again to know.
        manifest
            .append(self.site.disk(), edit)
            .inspect_err(|error| self.sequencer.log().poison(&error.to_string()))?;
        {
            // A row must not get the id of a series that nobody knows: no batch is given its place until what was looked up
            // before counts for nothing.
            if let Series::SomeLost = series {
                sequencer = Some(self.sequencer.lock());
            }
            let mut catalogue = self.sequencer.catalogue_mut();
            catalogue.merged(&removed, merged);
            if sequencer.is_some() {
                catalogue.lost_series();
            }
        }
        drop(sequencer);
        self.sequencer
            .versions()
            .publish(|before| before.with_files(&manifest.contents));
        drop(manifest);
        self.list().removed_index.extend(inputs.iter().cloned());
        Ok(true)
    }
}

/// Which neighbours become one: `fan_in` or more of a like size, or, when nobody writes, as many of the newest ones as are
/// worth it. `None` in `sizes` stands for a file that must stay.
fn next_merge(sizes: &[Option<u64>], fan_in: usize, idle: bool) -> Option<Range<usize>> {
    let fan_in = fan_in.max(2);
    let least = if idle { 2 } else { fan_in };
    let factor = u64::try_from(fan_in).unwrap_or(u64::MAX);
    let mut best = None;
    let mut newer = 0u64;
    let mut largest = 0;
    for (at, size) in sizes.iter().enumerate().rev() {
        let Some(size) = *size else {
            break;
        };
        largest = largest.max(size);
        let is_worth_it = if idle {
            // Writing a file again must make it a good deal larger, or it is written again and again.
            size <= newer.saturating_mul(factor)
        } else {
            largest <= newer.midpoint(size)
        };
        newer = newer.saturating_add(size);
        if is_worth_it && sizes.len() - at >= least {
            best = Some(at..sizes.len());
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flushes of one size, merged as long as that is due; returns what is left and all bytes written.
    fn live(flushes: usize, fan_in: usize) -> (Vec<Option<u64>>, u64) {
        let (mut sizes, mut written) = (Vec::new(), 0);
        for _ in 0..flushes {
            sizes.push(Some(100));
            written += 100;
            while let Some(range) = next_merge(&sizes, fan_in, false) {
                let sum: u64 = sizes[range.clone()].iter().flatten().sum();
                sizes.splice(range, [Some(sum)]);
                written += sum;
            }
        }
        (sizes, written)
    }

    #[test]
    fn a_thousand_flushes_leave_few_files_and_write_each_series_a_few_times() {
        for fan_in in [4, 8] {
            let (sizes, written) = live(1000, fan_in);
            assert!(sizes.len() <= 4 * fan_in, "{} files", sizes.len());
            assert!(written <= 100 * 1000 * 8, "{written} bytes");
        }
    }

    #[test]
    fn when_nobody_writes_small_files_become_one_and_a_large_one_stays() {
        assert_eq!(next_merge(&[Some(10), Some(10)], 8, true), Some(0..2));
        assert_eq!(next_merge(&[Some(1000), Some(10)], 8, true), None);
        let files = [Some(1000), Some(10), Some(20), Some(1)];
        assert_eq!(next_merge(&files, 8, true), Some(1..4));
        assert_eq!(next_merge(&[Some(7)], 8, true), None);
        assert_eq!(
            next_merge(&[Some(5), None, Some(5), Some(5)], 8, true),
            Some(2..4)
        );
        assert_eq!(next_merge(&[], 8, true), None);
    }
}
