//! Index files that turn out to be damaged while the store is open.
//!
//! Does: write such a file again from what of it is intact, put the damaged one aside with a note of what is lost, and
//! forget whatever was remembered of series that are lost. Does not: find damage (whoever reads does), or bring a
//! series back: one that is written again gets a new id, and rows of the old id are in no answer.
//!
//! The order: the new file is durable, then the second name of the damaged one and its note, then one edit of the
//! manifest puts the new one in its place. A crash before the edit leaves the store as it was.

use std::sync::Arc;

use crate::budget::MemoryUse;
use crate::engine::maintain::flush::Maintained;
use crate::engine::maintain::index::{Series, memory_of};
use crate::engine::repair::Repair;
use crate::engine::repair::damaged::{Quarantined, QuarantinedTable};
use crate::engine::repair::quarantine::keep_aside;
use crate::error::Error;
use crate::index::{Index, IndexWriter};
use crate::layout::side_name;
use crate::manifest::{Edit, FileKind};
use crate::options::OnDamage;
use crate::schema::TableId;

/// A file that was written again.
struct Mended {
    file: Arc<Index>,
    /// Series that are lost, by table.
    lost: Vec<(TableId, u32)>,
}

impl Repair {
    /// Reads every index file and mends those that are damaged; returns how many were. Does nothing if damage is to be
    /// refused: then reading what is damaged fails and says so.
    pub(in crate::engine) fn mend_index_files(&self) -> Result<usize, Error> {
        let mut mended = 0;
        loop {
            let files = Arc::clone(self.sequencer.catalogue().layers())
                .files()
                .to_vec();
            for file in files {
                match file.verify() {
                    Ok(()) | Err(Error::Corrupt { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            if !self.mend_one()? {
                return Ok(mended);
            }
            mended += 1;
        }
    }

    /// Mends an index file, if one was found damaged and may be put aside.
    pub(in crate::engine) fn mend_index(&self) -> Result<Maintained, Error> {
        if self.damaged_index_file().is_none() {
            return Ok(Maintained::Idle);
        }
        if self.mend_one()? {
            return Ok(Maintained::Indexed { files: 1 });
        }
        Ok(Maintained::Idle)
    }

    /// Whether it is worth trying again what failed with `error`, because it was a damaged index file and that is mended
    /// now.
    pub(crate) fn mend_after(&self, error: Error) -> Result<(), Error> {
        let Error::Corrupt { path, .. } = &error else {
            return Err(error);
        };
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        let is_index = layers.files().iter().any(|file| file.path() == path);
        if !is_index {
            // Somebody else may have mended it meanwhile.
            let is_gone = path.extension().is_some_and(|ending| ending == "idx");
            return if is_gone { Ok(()) } else { Err(error) };
        }
        if self.mend_one()? {
            return Ok(());
        }
        Err(error)
    }

    fn damaged_index_file(&self) -> Option<Arc<Index>> {
        if self.site.options().on_damage == OnDamage::Refuse
            || self.sequencer.check_poisoned().is_err()
        {
            return None;
        }
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        let jobs = self.jobs.list();
        let mut files = layers.files().iter();
        let may_mend = |file: &Index| !jobs.damaged_index.contains(&file.file_id());
        files
            .find(|file| file.damage().is_some() && may_mend(file))
            .cloned()
    }

    /// False = there was nothing to mend.
    fn mend_one(&self) -> Result<bool, Error> {
        // Waits for a merge; what it reads may be what is damaged.
        let _indexing = self.jobs.indexing();
        let Some(damaged) = self.damaged_index_file() else {
            return Ok(false);
        };
        let mended = self.mend(&damaged);
        if let Err(Error::Corrupt { .. }) = &mended {
            // Then it stays as it is, and what does not read of it is an error.
            self.jobs.list().damaged_index.insert(damaged.file_id());
        }
        mended.map(|()| true)
    }

    /// Writes index files of the layout of earlier versions again, in that of now. Done once, when the store is opened.
    pub(in crate::engine) fn renew_index_files(&self) -> Result<(), Error> {
        let _indexing = self.jobs.indexing();
        let files = Arc::clone(self.sequencer.catalogue().layers())
            .files()
            .to_vec();
        for old in files.iter().filter(|file| file.is_old()) {
            let (file_id, path) = self.jobs.new_index_file()?;
            let mut edit = Edit {
                removed_files: vec![old.file_id()],
                ..Edit::default()
            };
            let renewed = self
                .write_intact(old, file_id, &path, &mut edit)
                .and_then(|renewed| match old.damage() {
                    None => {
                        let inputs = std::slice::from_ref(old);
                        self.jobs
                            .publish_index(edit, inputs, renewed.file, Series::AllThere)
                            .map(drop)
                    }
                    Some(_) if self.site.options().on_damage == OnDamage::Quarantine => {
                        self.replace_damaged(old, renewed, edit)
                    }
                    Some((offset, reason)) => Err(Error::corrupt(old.path(), offset, reason)),
                });
            if renewed.is_err() && self.sequencer.check_poisoned().is_ok() {
                drop(self.site.disk().remove(&path));
            }
            renewed?;
        }
        Ok(())
    }

    fn mend(&self, damaged: &Arc<Index>) -> Result<(), Error> {
        let _memory = self
            .site
            .budget()
            .take(MemoryUse::Compaction, memory_of(damaged.file_bytes()));
        let (file_id, path) = self.jobs.new_index_file()?;
        let mut edit = Edit {
            removed_files: vec![damaged.file_id()],
            ..Edit::default()
        };
        let done = self
            .write_intact(damaged, file_id, &path, &mut edit)
            .and_then(|mended| self.replace_damaged(damaged, mended, edit));
        if done.is_err() && self.sequencer.check_poisoned().is_ok() {
            // No edit lists it; the next open would remove it too.
            drop(self.site.disk().remove(&path));
        }
        done
    }

    fn write_intact(
        &self,
        damaged: &Index,
        file_id: u64,
        path: &std::path::Path,
        edit: &mut Edit,
    ) -> Result<Mended, Error> {
        let mut writer = IndexWriter::create(self.site.disk(), path, self.site.uuid(), file_id)?;
        let mut lost = Vec::new();
        let tables: Vec<TableId> = damaged.tables().collect();
        for table in tables {
            if self.sequencer.catalogue().table(table).is_none() {
                continue;
            }
            if let Some(left) = damaged.salvage(table)? {
                writer.write_table(&left.series)?;
                if left.lost > 0 {
                    lost.push((table, left.lost));
                }
            }
        }
        let bytes = writer.finish(damaged.next_series())?;
        let file = self.jobs.list_index_file(file_id, path, bytes, edit)?;
        Ok(Mended { file, lost })
    }

    fn replace_damaged(
        &self,
        damaged: &Arc<Index>,
        mended: Mended,
        edit: Edit,
    ) -> Result<(), Error> {
        let entry = self.entry_of(damaged, &mended.lost);
        let name = side_name(FileKind::Index, damaged.file_id());
        let entry = keep_aside(self.site.disk(), self.site.dir(), &name, entry)?;
        let series = if mended.lost.is_empty() {
            Series::AllThere
        } else {
            Series::SomeLost
        };
        self.jobs
            .publish_index(edit, std::slice::from_ref(damaged), mended.file, series)?;
        self.mended.lock().push(entry);
        Ok(())
    }

    fn entry_of(&self, damaged: &Index, lost: &[(TableId, u32)]) -> Quarantined {
        let (offset, reason) = damaged.damage().unwrap_or_default();
        let catalogue = self.sequencer.catalogue();
        let tables = lost.iter().map(|&(id, series)| QuarantinedTable {
            id,
            name: catalogue.full_name(id).map(|name| name.join(".")),
            rows: None,
            series: Some(series.into()),
            times: (i64::MIN, i64::MAX),
        });
        Quarantined {
            file: damaged.path().to_owned(),
            kept: None,
            offset,
            reason: reason.to_owned(),
            time_ns: self.site.clock().now_ns(),
            bytes: damaged.file_bytes(),
            rows: None,
            series: Some(lost.iter().map(|(_, series)| u64::from(*series)).sum()),
            lsns: None,
            tables: tables.collect(),
        }
    }

    /// Index files that were found damaged and put aside while the store is open, oldest first.
    /// [`Self::quarantined`] lists them once it is opened again.
    pub(in crate::engine) fn mended_index_files(&self) -> Vec<Quarantined> {
        self.mended.lock().clone()
    }
}
