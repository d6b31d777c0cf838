//! Repair of a closed store, with a report of the losses.
//!
//! Does: put files aside that do not open, end a damaged log before the damage, mend index files, and write segments of
//! which parts do not read again without the blocks that these parts belong to. Does not: guess values, keep a row of
//! which one value is lost (it would be another row), or repair a manifest, definitions or relations: without them nothing
//! else has a meaning, so the store is refused and stays as it is.
//!
//! The order for a segment is that of `salvage_index.rs`: new file durable, second name of the damaged one and its note durable,
//! one edit of the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::MemoryUse;
use crate::compaction::balance::Balance;
use crate::compaction::rewrite::Rewrite;
use crate::disk::Disk;
use crate::engine::maintain::flush::Published;
use crate::engine::repair::Repair;
use crate::engine::repair::damaged::{Damage, Quarantined, QuarantinedTable};
use crate::engine::repair::quarantine::keep_aside;
use crate::error::Error;
use crate::layout::{segment_dir, segment_name};
use crate::manifest::Edit;
use crate::schema::TableId;
use crate::segment::{Broken, GROUP_BYTES_MAX, Home, Segment, SegmentMeta, Window};

/// What a repair has found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was damaged before.
    pub found: Vec<Damage>,
    /// Files that were put aside now, and what is lost with each. The rows of a segment of which a part did not read are
    /// those of that part: the others are in a new file.
    pub put_aside: Vec<Quarantined>,
    /// What is damaged still; nothing, unless something broke meanwhile.
    pub left: Vec<Damage>,
}

impl Repair {
    /// Mends what is damaged in the open store; returns what was put aside since `began_ns`, or is not among `known`.
    pub(in crate::engine) fn repair_all(
        &self,
        began_ns: i64,
        known: &BTreeSet<Option<PathBuf>>,
    ) -> Result<Vec<Quarantined>, Error> {
        self.mend_index_files()?;
        let mut put_aside: Vec<Quarantined> = self
            .quarantined()
            .iter()
            .chain(&self.mended_index_files())
            .filter(|it| it.time_ns >= began_ns || !known.contains(&it.kept))
            .cloned()
            .collect();
        let segments = self.sequencer.versions().version();
        for segment in &segments.segments {
            put_aside.extend(self.rescue(segment)?);
        }
        Ok(put_aside)
    }

    /// Writes a segment again without what of it does not read; `None` = all of it reads.
    fn rescue(&self, segment: &Arc<Segment>) -> Result<Option<Quarantined>, Error> {
        let broken = {
            let catalogue = self.sequencer.catalogue();
            let mut columns: BTreeMap<TableId, BTreeSet<u32>> = BTreeMap::new();
            for (_, group) in segment.all_groups() {
                if let Some(table) = catalogue.table(group.table) {
                    let ids = table.fields.iter().map(|field| field.id.0);
                    columns.insert(group.table, ids.collect());
                }
            }
            drop(catalogue);
            segment.broken(&columns)?
        };
        let Some(broken) = broken else {
            return Ok(None);
        };
        let _memory = self
            .site
            .budget()
            .take(MemoryUse::Compaction, GROUP_BYTES_MAX as u64);
        let file_id = self.jobs.new_file_id();
        let path = segment_dir(self.site.dir()).join(segment_name(file_id));
        self.site.remove_leftover(&path)?;
        let mut balance = Balance::default();
        let done = self
            .write_rest(segment, &broken, (file_id, &path), &mut balance)
            .and_then(|rest| self.replace_broken(segment, &broken, rest, balance));
        if done.is_err() && self.sequencer.check_poisoned().is_ok() {
            drop(self.site.disk().remove(&path));
        }
        done.map(Some)
    }

    /// Writes what reads, durably; `None` = nothing is left.
    fn write_rest(
        &self,
        segment: &Arc<Segment>,
        broken: &Broken,
        (file_id, path): (u64, &Path),
        balance: &mut Balance,
    ) -> Result<Option<Segment>, Error> {
        let mut writer = self.site.segment_writer(path, file_id)?;
        let is_partition = matches!(segment.meta.home, Home::Partition(_));
        if is_partition {
            writer = writer.of_partition(segment.tier());
        }
        for window in windows_of(segment) {
            let table = self.sequencer.catalogue().table(window.table).cloned();
            let Some(table) = table else { continue };
            let gone = Rewrite {
                table: &table,
                window,
                segments: std::slice::from_ref(segment),
                // What waits for the segment goes on waiting for what is left of it.
                tombstones: &[],
                rollups: is_partition,
                tier: segment.tier(),
                broken: Some(broken),
                sabotage: self.site.options().sabotage,
            }
            .run(&mut writer)?;
            balance.of(table.id).merged += gone.merged;
        }
        let (bytes, rows) = writer.finish(true)?;
        if rows == 0 {
            self.site
                .disk()
                .remove(path)
                .map_err(Error::io("remove", path))?;
            return Ok(None);
        }
        let dir = segment_dir(self.site.dir());
        self.site
            .disk()
            .sync_dir(&dir)
            .map_err(Error::io("sync", &dir))?;
        let meta = SegmentMeta {
            file_id,
            bytes,
            rows,
            ..segment.meta.clone()
        };
        Segment::open(
            self.site.segment_cache(),
            path.to_owned(),
            self.site.uuid(),
            meta,
        )
        .map(Some)
    }

    fn replace_broken(
        &self,
        segment: &Arc<Segment>,
        broken: &Broken,
        rest: Option<Segment>,
        mut balance: Balance,
    ) -> Result<Quarantined, Error> {
        let name = segment_name(segment.meta.file_id);
        let entry = self.entry_of_broken(segment, broken);
        let entry = keep_aside(self.site.disk(), self.site.dir(), &name, entry)?;
        let edit = Edit {
            added_segments: rest.iter().map(|it| it.meta.clone()).collect(),
            removed_segments: vec![segment.meta.file_id],
            ..Edit::default()
        };
        for (table, lost) in &broken.lost {
            balance.of(*table).unreadable += lost.rows;
        }
        let published = Published::Compaction(balance);
        let rest: Vec<Arc<Segment>> = rest.into_iter().map(Arc::new).collect();
        self.jobs.publish(edit, &rest, published)?;
        self.jobs.list().damaged.remove(&segment.meta.file_id);
        Ok(entry)
    }

    fn entry_of_broken(&self, segment: &Segment, broken: &Broken) -> Quarantined {
        let catalogue = self.sequencer.catalogue();
        let lost = broken
            .lost
            .iter()
            .filter(|(id, _)| catalogue.table(**id).is_some());
        let tables: Vec<QuarantinedTable> = lost
            .map(|(&id, lost)| QuarantinedTable {
                id,
                name: catalogue.full_name(id).map(|name| name.join(".")),
                rows: Some(lost.rows),
                series: None,
                times: lost.times,
            })
            .collect();
        Quarantined {
            file: segment.path().to_owned(),
            kept: None,
            offset: broken.offset,
            reason: broken.reason.clone(),
            time_ns: self.site.clock().now_ns(),
            bytes: segment.meta.bytes,
            rows: Some(tables.iter().filter_map(|table| table.rows).sum()),
            series: None,
            lsns: Some((segment.meta.min_lsn, segment.meta.max_lsn)),
            tables,
        }
    }
}

/// Where files are that were put aside before; nobody's error if that cannot be told.
pub(in crate::engine) fn aside_before(disk: &dyn Disk, dir: &Path) -> BTreeSet<Option<PathBuf>> {
    let aside = crate::engine::repair::quarantine::quarantine_dir(dir);
    let names = disk.list(&aside).unwrap_or_default();
    names
        .into_iter()
        .map(|name| Some(aside.join(name)))
        .collect()
}

/// Stretches of time that together have every row of each table once, cut where the segment's groups are.
fn windows_of(segment: &Segment) -> Vec<Window> {
    if let Home::Partition(window) = segment.meta.home {
        return vec![window];
    }
    let mut starts: BTreeMap<TableId, BTreeSet<i64>> = BTreeMap::new();
    for (_, group) in segment.all_groups() {
        let of_table = starts.entry(group.table).or_default();
        of_table.insert(group.partition_start);
    }
    let mut windows = Vec::new();
    for (table, starts) in starts {
        let starts: Vec<i64> = starts.into_iter().collect();
        for (at, &start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(i64::MAX);
            // Rows of before the first start there would be none, but if there are, they are not to be lost.
            let start = if at == 0 {
                first_time(segment, table).min(start)
            } else {
                start
            };
            windows.push(Window { table, start, end });
        }
    }
    windows
}

fn first_time(segment: &Segment, table: TableId) -> i64 {
    let times = segment.groups(table).map(|(_, group)| group.min_time);
    times.min().unwrap_or(i64::MAX)
}
