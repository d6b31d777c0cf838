//! Head to segment: freeze, write, list in the manifest, recycle the log, in this order.

use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::open::{definitions_name, segment_dir, segment_name};
use super::{Engine, Frozen, Version, lock};
use crate::definitions_file;
use crate::error::Error;
use crate::head::{Head, append_rows};
use crate::manifest::{Contents, Edit, FileKind, FileMeta, Manifest};
use crate::sabotage::Sabotage;
use crate::segment::{Home, Segment, SegmentMeta, TableInput, write_segment};

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
}

impl Engine {
    /// Does one job if one is due. Callers call it again and again, from one thread or several.
    pub fn maintain(&self) -> Result<Maintained, Error> {
        let Ok(manifest) = self.maintenance.try_lock() else {
            return Ok(Maintained::Idle);
        };
        if !self.flush_is_due() {
            return Ok(Maintained::Idle);
        }
        let rows = self.flush_holding(manifest)?;
        Ok(Maintained::Flushed { rows })
    }

    /// Turns the head into a segment now, whatever its size.
    pub fn flush(&self) -> Result<(), Error> {
        // An earlier, failed flush may have left rows aside; they come first, and then what was written since.
        if lock(&self.state).frozen.is_some() {
            self.flush_holding(lock(&self.maintenance))?;
        }
        self.flush_holding(lock(&self.maintenance)).map(drop)
    }

    /// Flushes for a graceful stop, so that the next start has nothing to replay.
    pub fn close(&self) -> Result<(), Error> {
        self.flush()
    }

    fn flush_is_due(&self) -> bool {
        let state = lock(&self.state).clone();
        if state.frozen.is_some() {
            return true;
        }
        let rows = state.head.rows();
        let log_full =
            self.counters.log_bytes.load(Ordering::Relaxed) >= self.options.log_bytes_max / 2;
        let now = self.clock.monotonic_ms();
        let idle_ms = now.saturating_sub(self.counters.last_write_ms.load(Ordering::Relaxed));
        let idle = self.options.flush_idle_ms > 0
            && idle_ms >= self.options.flush_idle_ms
            && rows >= self.options.flush_idle_rows_min.max(1);
        rows >= self.options.flush_rows
            || state.head.bytes() >= self.options.flush_bytes
            || log_full
            || idle
    }

    pub(super) fn flush_holding(
        &self,
        mut manifest: MutexGuard<'_, Manifest>,
    ) -> Result<u64, Error> {
        let Some(frozen) = self.freeze(manifest.contents.flushed_lsn)? else {
            return Ok(0);
        };
        // A row that is not durable in the log must not become durable in a segment first.
        self.log.sync(frozen.lsn)?;
        if self.options.sabotage == Some(Sabotage::LogTrimmedBeforeManifest) {
            self.trim_after(&frozen)?;
        }
        let rows = self.write_files(&frozen, &mut manifest)?;
        self.trim_after(&frozen)?;
        Ok(rows)
    }

    /// Takes the head aside, or the one that an earlier, failed flush took; `None` = nothing to flush.
    fn freeze(&self, flushed_lsn: u64) -> Result<Option<Arc<Frozen>>, Error> {
        let mut sequencer = lock(&self.sequencer);
        self.log_definitions(&mut sequencer)?;
        let lsn = sequencer.next_lsn - 1;
        let mut state = lock(&self.state);
        if let Some(frozen) = &state.frozen {
            return Ok(Some(Arc::clone(frozen)));
        }
        if lsn == flushed_lsn {
            return Ok(None);
        }
        let frozen = Arc::new(Frozen {
            head: std::mem::take(&mut state.head),
            lsn,
            min_lsn: flushed_lsn + 1,
            definitions: std::mem::take(&mut sequencer.unfiled),
            _hold: self.holds.hold(|| lsn),
        });
        state.frozen = Some(Arc::clone(&frozen));
        self.counters.log_bytes.store(0, Ordering::Relaxed);
        Ok(Some(frozen))
    }

    fn write_files(&self, frozen: &Frozen, manifest: &mut Manifest) -> Result<u64, Error> {
        let dir = segment_dir(&self.dir);
        let mut edit = Edit {
            next_file_id: manifest.contents.next_file_id,
            flushed_lsn: frozen.lsn,
            ..Edit::default()
        };
        let mut next_file_id = || {
            edit.next_file_id += 1;
            edit.next_file_id - 1
        };
        if !frozen.definitions.is_empty() {
            let file_id = next_file_id();
            let path = dir.join(definitions_name(file_id));
            self.remove_leftover(&path)?;
            let bytes = definitions_file::write(
                self.disk.as_ref(),
                &path,
                self.uuid,
                file_id,
                &frozen.definitions,
            )?;
            edit.added_files.push(FileMeta {
                kind: FileKind::Definitions,
                file_id,
                bytes,
            });
        }
        let mut segment = None;
        if frozen.head.rows() > 0 {
            let file_id = edit.next_file_id;
            edit.next_file_id += 1;
            let path = dir.join(segment_name(file_id));
            self.remove_leftover(&path)?;
            let tables = self.table_inputs(&frozen.head);
            let sync = self.options.sabotage != Some(Sabotage::ManifestBeforeDataSync);
            let (bytes, rows) =
                write_segment(self.disk.as_ref(), &path, self.uuid, file_id, &tables, sync)?;
            let meta = SegmentMeta {
                file_id,
                bytes,
                rows,
                min_lsn: frozen.min_lsn,
                max_lsn: frozen.lsn,
                applied_lsn: frozen.lsn,
                home: Home::Mixed,
            };
            edit.written_bytes = manifest.contents.written_bytes + bytes;
            edit.added_segments.push(meta.clone());
            segment = Some(Segment::open(self.disk.as_ref(), path, self.uuid, meta)?);
        }
        let mut next_file_id = edit.next_file_id;
        let mut new_file_id = || {
            next_file_id += 1;
            next_file_id - 1
        };
        let sides = self.checkpoint_sides(frozen.lsn, &mut new_file_id, &mut edit)?;
        edit.next_file_id = next_file_id;
        self.disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
        // From here on an error leaves it open what the manifest says: the store must be opened again to know.
        manifest
            .append(self.disk.as_ref(), edit)
            .inspect_err(|error| self.log.poison(&error.to_string()))?;
        let rows = segment.as_ref().map_or(0, |segment| segment.meta.rows);
        self.publish(segment, &manifest.contents);
        self.sides_checkpointed(&sides);
        Ok(rows)
    }

    /// A file of this id can only be what an earlier, failed attempt of this life left.
    pub(super) fn remove_leftover(&self, path: &std::path::Path) -> Result<(), Error> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// The rows of a head by table, each table's runs one after another in LSN order.
    fn table_inputs(&self, head: &Head) -> Vec<TableInput> {
        let catalogue = self.catalogue();
        let mut inputs = Vec::new();
        for id in head.tables() {
            let Some(table) = catalogue.table(id) else {
                continue;
            };
            let mut runs = head.runs(id, u64::MAX).into_iter();
            let Some((first, _)) = runs.next() else {
                continue;
            };
            let mut rows = first.rows.clone();
            for (run, _) in runs {
                append_rows(&mut rows, &run.rows);
            }
            inputs.push(TableInput {
                rows,
                settings: table.settings,
            });
        }
        inputs
    }

    fn publish(&self, segment: Option<Segment>, contents: &Contents) {
        let mut state = lock(&self.state);
        let mut segments = state.version.segments.clone();
        segments.extend(segment.map(Arc::new));
        state.version = Arc::new(Version::new(segments, contents));
        state.frozen = None;
    }

    fn trim_after(&self, frozen: &Frozen) -> Result<(), Error> {
        self.log.trim(frozen.lsn)
    }
}
