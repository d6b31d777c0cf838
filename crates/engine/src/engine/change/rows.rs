//! Deletes and updates of single rows that the caller has read.
//!
//! Does: check that the rows are as they were read, and hide them and add what takes their place in one batch. Does not:
//! know which rows are meant (a scan says that, by [`ScanRequest::SERIES`] and [`ScanRequest::NTH`]) or run a statement
//! again.
//!
//! A delete hides a key, so in a `keep` table, where several rows may have one, those that stay are written again in the
//! same batch, as they were.

use std::sync::Arc;

use crate::batch::{Batch, TableRows};
use crate::engine::sequencer::Written;
use crate::engine::{Engine, Key, Keys, Presence, Since};
use crate::error::Error;
use crate::head::append_rows;
use crate::scan::{Scan, ScanRequest};
use crate::schema::{Duplicates, Lsn, SeriesId, TableId, TableSchema};
use crate::snapshot::Snapshot;
use crate::tombstone::{Deleted, Tombstone};

/// Which row of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Its series.
    pub series: SeriesId,
    /// Its time in nanoseconds.
    pub time: i64,
    /// Its place among the rows of this series and time, from 0; only a `keep` table has more than one.
    pub nth: u32,
}

/// Rows that go and rows that come, as one.
pub(crate) struct RowChange<'a> {
    /// Where the rows were read.
    pub(crate) snapshot: &'a Snapshot,
    /// The table as it is now.
    pub(crate) table: &'a Arc<TableSchema>,
    /// The rows that go.
    pub(crate) gone: &'a [RowKey],
    /// The rows that come.
    pub(crate) new: Option<TableRows>,
    /// Keys of rows that come and must not be there, ascending.
    pub(crate) unwanted: &'a [Key],
}

/// Why rows cannot be changed.
pub(crate) enum Refused {
    /// One of the keys that must not be there is, by its position.
    Unwanted(usize),
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Engine {
    /// Deletes rows that `snapshot` has shown, as one batch: durable and visible on return, at the LSN returned; `None` =
    /// no row was named. If one of them was written or deleted since, nothing is done and the error says so: then take a
    /// new snapshot and read again.
    pub fn delete_rows(
        &self,
        snapshot: &Snapshot,
        table: &TableSchema,
        rows: &[RowKey],
    ) -> Result<Option<Lsn>, Error> {
        loop {
            let epoch = self.sequencer.catalogue_epoch();
            let table = self.current(table)?;
            let change = RowChange {
                snapshot,
                table: &table,
                gone: rows,
                new: None,
                unwanted: &[],
            };
            match self.change_rows(change, epoch) {
                Ok(None) | Err(Refused::Unwanted(_)) => {}
                Ok(Some(written)) => return Ok((written.lsn > 0).then_some(written.lsn)),
                Err(Refused::Error(error)) => return Err(error),
            }
        }
    }

    /// A table as it is now.
    pub(crate) fn current(&self, table: &TableSchema) -> Result<Arc<TableSchema>, Error> {
        let now = self.sequencer.catalogue().table(table.id).cloned();
        now.ok_or_else(|| self.sequencer.gone(table))
    }

    /// The tags of a series for a person.
    pub(crate) fn shown_tags(&self, table: &TableSchema, series: SeriesId) -> String {
        let layers = Arc::clone(self.sequencer.catalogue().layers());
        let mut shown = Vec::new();
        for tag in &table.tags {
            // This is for the text of another error; a file that does not read will be one of its own.
            let Ok(column) = layers.tag_column(table.id, tag.id, &[series.0]) else {
                return format!("those of series {}", series.0);
            };
            shown.extend(column.value(0).map(|value| format!("{}={value}", tag.name)));
        }
        if shown.is_empty() {
            return "no tag".to_owned();
        }
        shown.join(", ")
    }

    /// `None` = something changed meanwhile that does not matter to the rows: build it again.
    pub(crate) fn change_rows(
        &self,
        change: RowChange<'_>,
        epoch: u64,
    ) -> Result<Option<Written>, Refused> {
        self.site.check_batch_rows(change.gone.len() as u64)?;
        let mut gone = change.gone.to_vec();
        gone.sort_unstable();
        gone.dedup();
        let mut keys: Vec<Key> = gone.iter().map(|row| (row.series.0, row.time)).collect();
        keys.dedup();
        let table = change.table;
        let id = table.id;
        let look = self
            .sequencer
            .look_up(asked(id, &keys), Since::snapshot(change.snapshot))?;
        let changed = look.found.iter().position(|it| *it != Presence::Old);
        if let Some(&(series, time)) = changed.and_then(|at| keys.get(at)) {
            // So that a new snapshot shows what has changed.
            self.sequencer.wait_for(look.lsn)?;
            return Err(Refused::Error(Error::ChangedMeanwhile {
                table: table.name.clone(),
                tags: self.shown_tags(table, SeriesId(series)),
                time,
            }));
        }
        let there = self
            .sequencer
            .look_up(asked(id, change.unwanted), Since::default())?;
        let mut unwanted = there.found.iter().zip(change.unwanted);
        let is_in_the_way = |(found, key): (&Presence, &Key)| {
            *found != Presence::Absent && keys.binary_search(key).is_err()
        };
        if let Some(at) = unwanted.position(is_in_the_way) {
            self.sequencer.wait_for(there.lsn)?;
            return Err(Refused::Unwanted(at));
        }
        let mut rows = change.new;
        add_survivors(change.snapshot, table, &gone, &keys, &mut rows)?;
        let batch = batch_of(table.id, &keys, rows);
        keys.extend_from_slice(change.unwanted);
        keys.sort_unstable();
        keys.dedup();
        let still_holds =
            |state: &crate::engine::State| !state.has_news(asked(id, &keys), look.lsn);
        Ok(self.write_if(batch, epoch, still_holds)?)
    }
}

fn asked(table: TableId, keys: &[Key]) -> Keys<'_> {
    Keys { table, keys }
}

/// A batch of keys that go and rows that come.
pub(crate) fn batch_of(table: TableId, keys: &[Key], rows: Option<TableRows>) -> Batch {
    let tombstone = Tombstone {
        lsn: 0,
        table,
        what: Deleted::Rows {
            series: keys.iter().map(|key| key.0).collect(),
            times: keys.iter().map(|key| key.1).collect(),
        },
    };
    let tombstone = (!keys.is_empty()).then_some(tombstone);
    Batch {
        tables: rows.into_iter().filter(|rows| rows.rows() > 0).collect(),
        tombstones: tombstone.into_iter().collect(),
        ..Batch::default()
    }
}

/// Adds to `rows`, before all others, those that have the key of one that goes and stay: in a `keep` table there may be some.
pub(crate) fn add_survivors(
    snapshot: &Snapshot,
    table: &Arc<TableSchema>,
    gone: &[RowKey],
    keys: &[Key],
    rows: &mut Option<TableRows>,
) -> Result<(), Error> {
    if table.settings.duplicates != Duplicates::Keep {
        return Ok(());
    }
    let times = || keys.iter().map(|(_, time)| *time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Ok(());
    };
    let mut series: Vec<u32> = keys.iter().map(|(series, _)| *series).collect();
    series.dedup();
    let fields = 1 + table.tags.len()..1 + table.tags.len() + table.fields.len();
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: fields.collect(),
        time: first..=last,
        tags: Vec::new(),
        limit: None,
    };
    let scan = Scan::of_series(snapshot.moment(), &request, series)?;
    let mut survivors: Option<TableRows> = None;
    scan.read_rows(table.id, |read| {
        let mut kept = Vec::new();
        let mut before: Option<RowKey> = None;
        let all = (0u32..).zip(read.series.iter().zip(&read.times));
        for (row, (&series, &time)) in all {
            let series = SeriesId(series);
            let nth = match before {
                Some(it) if (it.series, it.time) == (series, time) => it.nth + 1,
                _ => 0,
            };
            let key = RowKey { series, time, nth };
            let is_concerned = keys.binary_search(&(series.0, time)).is_ok();
            if is_concerned && gone.binary_search(&key).is_err() {
                kept.push(row);
            }
            before = Some(key);
        }
        if !kept.is_empty() {
            add(&mut survivors, &read.picked(&kept));
        }
    })?;
    if let (Some(survivors), Some(rows)) = (&mut survivors, &rows) {
        append_rows(survivors, rows);
    }
    if survivors.is_some() {
        *rows = survivors;
    }
    Ok(())
}

fn add(to: &mut Option<TableRows>, rows: &TableRows) {
    match to {
        Some(to) => append_rows(to, rows),
        None => *to = Some(rows.clone()),
    }
}
