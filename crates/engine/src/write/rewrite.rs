//! Tags of a table that has rows: its rows are written anew into another table, which takes its place.
//!
//! Does: copy the rows while readers and writers go on, make up for what was written meanwhile, and put the copy in the place of
//! the table as one record of definitions, so that a crash leaves the one or the other. Does not: change what a row says: a value
//! that no tag can have is refused, and the table stays as it is.
//!
//! The copy has an id of its own, because an id means one form of rows for ever. What others keep of the table they keep under the
//! id that it had at first ([`TableSchema::kept_id`]), so it is still theirs.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::engine::{DeleteRequest, Engine, Rewriting};
use crate::error::Error;
use crate::ingest::{Moved, Session};
use crate::scan::{Narrowing, Scan, ScanRequest};
use crate::schema::TableSchema;
use crate::snapshot::Snapshot;

/// Rows that are read at once, about: some tens of megabytes.
const SLICE_ROWS: u64 = 100_000;
/// Bytes of large values that are read at once, about.
const SLICE_BYTES: u64 = 64 << 20;
/// Rows that a step may have copied for writers to be held up for the next: some milliseconds.
const HELD_ROWS: u64 = 20_000;
/// Steps in which a copy makes up for what is written meanwhile before it holds writers up, however much that is.
const STEPS_MAX: usize = 8;
/// Rows from which on it is looked at how many of them a series has.
const FEW_ROWS: u64 = 1_000;
/// Rows that a series has at least, on average, where nobody has named the tag.
const ROWS_OF_SERIES_MIN: u64 = 4;
/// Copies that are begun because the table changed otherwise meanwhile, which is rare.
const TRIES_MAX: usize = 5;

impl Engine {
    /// Makes tags of fields of text or integers of a table with rows, named as [`TableSchema::arrow_schema`] shows them: as
    /// [`Self::make_tags`] does for one without. Readers and writers go on meanwhile; writers of the table wait for the last step.
    /// Durable on return. The table has another [`TableSchema::id`] then, and the same [`TableSchema::kept_id`]. With `few` columns
    /// that have nearly as many values as there are rows are refused. Once `stop` says so, it ends with [`Error::RewriteStopped`]
    /// before the next rows, and the table stays as it was.
    pub fn rewrite_tags(
        self: &Arc<Self>,
        database: &str,
        schema: &str,
        table: &str,
        columns: &[String],
        few: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        if stop() {
            let table = table.to_owned();
            return Err(Error::RewriteStopped { table });
        }
        let name = [database, schema, table].map(str::to_owned);
        let Some(rewriting) = self.begin_rewrite(name.clone()) else {
            let table = table.to_owned();
            return Err(Error::RewriteRunning { table });
        };
        for _ in 0..TRIES_MAX {
            let Some([from, to]) = self.begin_copy(&name, columns)? else {
                return Ok(());
            };
            let done = self.fill_and_swap(&rewriting, (&from, &to), &name, (few, stop));
            rewriting.release();
            if let Ok(true) = done {
                return Ok(());
            }
            // What went wrong is said, and not that the copy stays until the next start.
            let dropped = self.drop_copy(to.id);
            done?;
            dropped?;
        }
        Err(Error::RewriteOvertaken {
            table: table.to_owned(),
        })
    }

    /// False = the table changed otherwise meanwhile, and the copy has not taken its place.
    fn fill_and_swap(
        self: &Arc<Self>,
        rewriting: &Rewriting<'_>,
        (from, to): (&Arc<TableSchema>, &Arc<TableSchema>),
        name: &[String; 3],
        (few, stop): (bool, &dyn Fn() -> bool),
    ) -> Result<bool, Error> {
        let mut copying = Copying {
            session: Session::in_schema(Arc::clone(self), &name[0], Some(&name[1]))?,
            moved: Moved::of(from, to),
            rewriting,
            from,
            to,
            few,
            stop,
        };
        self.watch_rewrite(rewriting, from.id)?;
        copying.copy(self, &self.snapshot(), (&(i64::MIN..=i64::MAX), true))?;
        for _ in 0..STEPS_MAX {
            if copying.make_up(self, false)? <= HELD_ROWS {
                break;
            }
        }
        copying.make_up(self, true)?;
        copying.check_stop()?;
        self.put_in_place(from, to)
    }
}

/// A copy while it is filled.
struct Copying<'a> {
    session: Session,
    moved: Moved,
    rewriting: &'a Rewriting<'a>,
    from: &'a Arc<TableSchema>,
    to: &'a Arc<TableSchema>,
    few: bool,
    stop: &'a dyn Fn() -> bool,
}

impl Copying<'_> {
    /// Fails once whoever asked for the rewrite does not want it any more.
    fn check_stop(&self) -> Result<(), Error> {
        if (self.stop)() {
            return Err(Error::RewriteStopped {
                table: self.from.name.clone(),
            });
        }
        Ok(())
    }

    /// Copies again what lies in times that were written to since the last step; returns how many rows that were. `hold` = writers
    /// wait from here on, so nothing comes after.
    fn make_up(&mut self, engine: &Arc<Engine>, hold: bool) -> Result<u64, Error> {
        let touched = engine.touched_since(self.rewriting, hold)?;
        if touched.is_empty() {
            return Ok(0);
        }
        let snapshot = engine.snapshot();
        let mut rows = 0;
        for (first, last) in touched {
            let time = first..=last;
            let request = DeleteRequest {
                table: Arc::clone(self.to),
                time: time.clone(),
                tags: Vec::new(),
            };
            engine.delete_old(&request)?;
            rows += self.copy(engine, &snapshot, (&time, false))?;
        }
        Ok(rows)
    }

    /// Copies the rows of a range of time, slice by slice; returns how many they are.
    fn copy(
        &mut self,
        engine: &Engine,
        snapshot: &Snapshot,
        (time, is_first): (&RangeInclusive<i64>, bool),
    ) -> Result<u64, Error> {
        let layers = &snapshot.moment().layers;
        let series = crate::scan::find_series(layers, self.from, &[])?;
        let weights = crate::read::slices::weights(snapshot.moment(), self.from, &series, time)?;
        if is_first {
            self.rewriting.expect(weights.rows());
        }
        let mut copied = 0;
        let mut start = *time.start();
        let cuts = weights.cuts_within(SLICE_ROWS, SLICE_BYTES);
        let cuts = cuts.into_iter().filter(|cut| cut < time.end());
        for end in cuts.chain([*time.end()]) {
            self.check_stop()?;
            if end >= start {
                copied += self.copy_slice(snapshot, start..=end)?;
            }
            if is_first && self.few {
                self.check_series(engine, copied)?;
            }
            start = end.saturating_add(1);
        }
        Ok(copied)
    }

    /// Refuses tags that tell nearly every row from all others.
    fn check_series(&self, engine: &Engine, rows: u64) -> Result<(), Error> {
        if rows < FEW_ROWS {
            return Ok(());
        }
        let now = Arc::clone(engine.sequencer().catalogue().layers());
        let series = crate::scan::find_series(&now, self.to, &[])?.len() as u64;
        let most = rows / ROWS_OF_SERIES_MIN;
        if series <= most {
            return Ok(());
        }
        Err(Error::Limit {
            what: "the series of a table that gets a tag by an index",
            limit: most,
            needed: series,
            remedy: "name the column with segmentby if it is to be a tag in any case",
        })
    }

    fn copy_slice(&mut self, snapshot: &Snapshot, time: RangeInclusive<i64>) -> Result<u64, Error> {
        let fields = 1 + self.from.tags.len()..1 + self.from.tags.len() + self.from.fields.len();
        let request = ScanRequest {
            table: Arc::clone(self.from),
            projection: fields.collect(),
            time,
            tags: Vec::new(),
            limit: None,
        };
        let scan = Scan::plan(snapshot.moment(), &request, &Narrowing::None)?;
        let mut parts = Vec::new();
        scan.read_rows(self.from.id, |rows| parts.push(rows))?;
        let mut copied = 0;
        for rows in parts {
            self.check_stop()?;
            let layers = &snapshot.moment().layers;
            let written = self
                .session
                .write_moved(&self.moved, self.to, layers, &rows)?;
            self.rewriting.count(written);
            copied += written;
        }
        Ok(copied)
    }
}
