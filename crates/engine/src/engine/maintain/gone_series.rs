//! Series without a row leave the index.
//!
//! Does: after rows were deleted or have expired, find the series of an index file of which no segment and no head has a row,
//! and write the file again without them. Does not: look at rows that a delete hides and no compaction has taken away yet;
//! as long as they are there, their series is.
//!
//! Rows are looked for without a lock. Then, under the sequencer, where nothing gets an LSN, those that came meanwhile are looked
//! at. Only if none of them is of such a series the edit is made, still under it, and every id that was looked up before
//! counts for nothing: a series that is written again gets a new id. While a segment cannot be read or was put aside no series goes,
//! because its rows may come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::budget::MemoryUse;
use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::Maintained;
use crate::engine::maintain::index::{Series, memory_of};
use crate::engine::maintain::jobs::RowsWent;
use crate::error::Error;
use crate::head::Head;
use crate::index::{Index, IndexWriter};
use crate::manifest::Edit;
use crate::sabotage::Sabotage;
use crate::scan::series::live_series;
use crate::schema::{Lsn, TableId};
use crate::state::State;

/// A file is written again while others write if one of so many of its series is gone; when nobody writes, for each.
const GONE_PART: u64 = 4;

/// Series without a row, by table.
#[derive(Debug, Default)]
pub(in crate::engine) struct Gone {
    series: BTreeMap<TableId, RoaringBitmap>,
    /// The first LSN whose rows were not looked at.
    since: Lsn,
}

impl Jobs {
    /// Writes an index file again if series of it are gone. The caller holds the lock of index jobs.
    pub(super) fn forget_series(&self, settle: bool) -> Result<Maintained, Error> {
        let settle_ms = self.site.options().compaction.settle_ms;
        let idle = settle || (settle_ms > 0 && self.sequencer.idle_ms() >= settle_ms);
        {
            let mut jobs = self.list();
            let is_due = match jobs.rows_went {
                RowsWent::Unknown => settle,
                RowsWent::Since => true,
                RowsWent::ForIdle => idle,
                RowsWent::No => false,
            };
            let is_kept = self.has_put_aside || self.has_staged();
            if !is_due || jobs.indexing || !jobs.damaged.is_empty() || is_kept {
                return Ok(Maintained::Idle);
            }
            // What goes from here on is looked for the next time.
            jobs.rows_went = RowsWent::No;
            jobs.indexing = true;
        }
        let outcome = self.forget_in_files(idle);
        let mut jobs = self.list();
        jobs.indexing = false;
        let (left, done) = match outcome {
            Ok(Looked::Forgot) => (RowsWent::Since, Ok(Maintained::Indexed { files: 1 })),
            Ok(Looked::ForIdle) => (RowsWent::ForIdle, Ok(Maintained::Idle)),
            Ok(Looked::All) | Err(Error::Corrupt { .. }) => (RowsWent::No, Ok(Maintained::Idle)),
            Err(error) => (RowsWent::Since, Err(error)),
        };
        if jobs.rows_went == RowsWent::No {
            jobs.rows_went = left;
        }
        done
    }

    fn forget_in_files(&self, idle: bool) -> Result<Looked, Error> {
        let (state, since) = {
            let order = self.sequencer.lock();
            (self.sequencer.versions().now(), order.next_lsn)
        };
        let files = Arc::clone(self.sequencer.catalogue().layers())
            .files()
            .to_vec();
        let damaged = self.list().damaged_index.clone();
        let mut looked = Looked::All;
        for file in files {
            if file.damage().is_some() || damaged.contains(&file.file_id()) {
                continue;
            }
            let (gone, is_much) = self.gone_of(&file, &state, since)?;
            if gone.series.is_empty() {
                continue;
            }
            if !idle && !is_much {
                looked = Looked::ForIdle;
                continue;
            }
            if !self.site.has_room_for(file.file_bytes()) {
                continue;
            }
            return Ok(if self.write_without(&file, &gone)? {
                Looked::Forgot
            } else {
                Looked::ForIdle
            });
        }
        Ok(looked)
    }

    /// The series of a file that no row is of, and whether they are much of it.
    fn gone_of(&self, file: &Index, state: &State, since: Lsn) -> Result<(Gone, bool), Error> {
        let mut gone = Gone {
            since,
            ..Gone::default()
        };
        let (mut all, mut without) = (0, 0);
        let mut seen = state.clone();
        if self.site.options().sabotage == Some(Sabotage::SeriesOfHeadForgotten) {
            (seen.frozen, seen.head) = (None, Arc::default());
        }
        for table in file.tables() {
            // Those of dropped tables are another merge's.
            if self.sequencer.catalogue().table(table).is_none() {
                continue;
            }
            let ids = file.all_ids(table)?;
            all += ids.len() as u64;
            let mut left: RoaringBitmap = ids.into_iter().collect();
            let always = i64::MIN..=i64::MAX;
            left -= live_series(&seen, Lsn::MAX, table, &always)?;
            without += left.len();
            if !left.is_empty() {
                gone.series.insert(table, left);
            }
        }
        Ok((gone, without.saturating_mul(GONE_PART) >= all))
    }

    /// False = rows of such a series came meanwhile, or the file is damaged.
    fn write_without(&self, file: &Arc<Index>, gone: &Gone) -> Result<bool, Error> {
        let _memory = self
            .site
            .budget()
            .take(MemoryUse::Compaction, memory_of(file.file_bytes()));
        let (file_id, path) = self.new_index_file()?;
        let mut edit = Edit {
            removed_files: vec![file.file_id()],
            ..Edit::default()
        };
        let written = self.write_rest(file, gone, file_id, &path, &mut edit);
        let done = written.and_then(|rest| {
            let inputs = std::slice::from_ref(file);
            match rest {
                Some(rest) => self.publish_index(edit, inputs, rest, Series::Gone(gone)),
                None => Ok(false),
            }
        });
        if !matches!(done, Ok(true)) && self.sequencer.check_poisoned().is_ok() {
            // No edit lists it; the next open would remove it too.
            drop(self.site.disk().remove(&path));
        }
        done
    }

    fn write_rest(
        &self,
        file: &Index,
        gone: &Gone,
        file_id: u64,
        path: &std::path::Path,
        edit: &mut Edit,
    ) -> Result<Option<Arc<Index>>, Error> {
        let mut writer = IndexWriter::create(self.site.disk(), path, self.site.uuid(), file_id)?;
        let none = RoaringBitmap::new();
        let tables: Vec<TableId> = file.tables().collect();
        for table in tables {
            if self.sequencer.catalogue().table(table).is_none() {
                continue;
            }
            let without = gone.series.get(&table).unwrap_or(&none);
            if let Some(rest) = file.salvage_without(table, without)? {
                if rest.lost > 0 {
                    return Ok(None);
                }
                writer.write_table(&rest.series)?;
            }
        }
        let bytes = writer.finish(file.next_series())?;
        self.list_index_file(file_id, path, bytes, edit).map(Some)
    }

    /// Whether a row of these series came since they were looked for. The caller holds the sequencer.
    pub(super) fn has_come_back(&self, gone: &Gone) -> bool {
        let state = self.sequencer.versions().now();
        // Then they may be in files already, or are in some that nobody sees yet.
        if state.version.flushed_lsn >= gone.since || self.has_staged() {
            return true;
        }
        heads(&state).any(|head| {
            gone.series.iter().any(|(table, series)| {
                head.runs(*table, Lsn::MAX).iter().any(|(run, _)| {
                    let seen = run.visible_rows(gone.since.saturating_sub(1));
                    let new = run.rows.series.get(seen..).unwrap_or_default();
                    new.iter().any(|id| series.contains(*id))
                })
            })
        })
    }
}

/// What became of a look at all files.
enum Looked {
    /// No series is gone.
    All,
    /// Some are, which are to be looked for when nobody writes.
    ForIdle,
    /// A file was written again; others may be left.
    Forgot,
}

fn heads(state: &State) -> impl Iterator<Item = &Head> {
    let frozen = state.frozen.as_ref().map(|frozen| &*frozen.head);
    frozen.into_iter().chain([&*state.head])
}
