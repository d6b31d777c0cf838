//! Masks: rows of one source (segment or run) that deletes hide.
//!
//! Does: bring the deletes of a table into an order in which a key finds the last one that concerns it, and say of a row
//! whether that one is newer. Does not: keep deletes; the head and the manifest do.
//!
//! A statement that changes one row is a delete of one key, and there may be tens of thousands of them between two
//! flushes: short lists of rows are put together, once a read, and only ranges and long lists are asked one by one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::head::Run;
use crate::schema::Lsn;
use crate::tombstone::{Deleted, Tombstone};

/// A list of rows with more entries is asked by itself: to copy it would cost more.
const SHORT_ROWS_MAX: usize = 1024;

/// The deletes in one table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletes {
    /// Ranges and long lists, in LSN order.
    whole: Vec<Arc<Tombstone>>,
    rows: Arc<Vec<DeletedRow>>,
    /// Of `rows`.
    last_lsn: Lsn,
}

/// A key of short lists, and the last LSN at which it was deleted. Ascending, each key once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeletedRow {
    series: u32,
    time: i64,
    lsn: Lsn,
}

impl Deletes {
    /// Takes deletes of one table.
    pub(crate) fn new(tombstones: &[Arc<Tombstone>]) -> Self {
        let mut deletes = Self::default();
        let mut rows: Vec<DeletedRow> = Vec::new();
        for tombstone in tombstones {
            match &tombstone.what {
                Deleted::Rows { series, .. } if series.len() <= SHORT_ROWS_MAX => {
                    let lsn = tombstone.lsn;
                    deletes.last_lsn = deletes.last_lsn.max(lsn);
                    rows.extend(tombstone.rows().map(|(series, time)| DeletedRow {
                        series,
                        time,
                        lsn,
                    }));
                }
                _ => deletes.whole.push(Arc::clone(tombstone)),
            }
        }
        // Of each key the last one is kept: it hides all that the others do.
        rows.sort_unstable();
        rows.reverse();
        rows.dedup_by_key(|row| (row.series, row.time));
        rows.reverse();
        deletes.rows = Arc::new(rows);
        deletes
    }
}

/// What is hidden of one source's rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask {
    /// With the number of rows, from the source's start, that are below the tombstone's LSN.
    whole: Vec<(Arc<Tombstone>, usize)>,
    /// Empty if none concerns the source.
    rows: Arc<Vec<DeletedRow>>,
    age: Age,
}

/// How old the rows of a source are.
#[derive(Debug, Clone)]
enum Age {
    /// All of them are older than every delete above this LSN, and have lost what those up to it hide.
    Applied(Lsn),
    Run(Arc<Run>),
}

impl Default for Age {
    fn default() -> Self {
        Self::Applied(0)
    }
}

impl Mask {
    /// What is hidden of a segment's rows with these series and times.
    pub(crate) fn of_segment(
        deletes: &Deletes,
        applied_lsn: Lsn,
        series: RangeInclusive<u32>,
        time: RangeInclusive<i64>,
    ) -> Self {
        let mut mask = Self {
            age: Age::Applied(applied_lsn),
            ..Self::default()
        };
        for tombstone in &deletes.whole {
            if tombstone.lsn > applied_lsn && tombstone.touches(series.clone(), time.clone()) {
                mask.whole.push((Arc::clone(tombstone), usize::MAX));
            }
        }
        if deletes.last_lsn > applied_lsn
            && any_row(&deletes.rows, &series, &time, |row| row.lsn > applied_lsn)
        {
            mask.rows = Arc::clone(&deletes.rows);
        }
        mask
    }

    /// What is hidden of a run's rows: a delete concerns those that were there before it.
    pub(crate) fn of_run(deletes: &Deletes, run: &Arc<Run>) -> Self {
        let mut mask = Self::default();
        let older = |lsn: Lsn| run.visible_rows(lsn.saturating_sub(1));
        for tombstone in &deletes.whole {
            let rows = older(tombstone.lsn);
            if rows > 0 {
                mask.whole.push((Arc::clone(tombstone), rows));
            }
        }
        if older(deletes.last_lsn) > 0 {
            mask.rows = Arc::clone(&deletes.rows);
            mask.age = Age::Run(Arc::clone(run));
        }
        mask
    }

    /// Whether nothing is hidden at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.rows.is_empty()
    }

    /// Whether the row `row` of the source, with this key, is hidden.
    pub(crate) fn hides(&self, row: usize, series: u32, time: i64) -> bool {
        self.hides_by_row(row, series, time)
            || self
                .whole
                .iter()
                .any(|(tombstone, older)| row < *older && tombstone.hides(series, time))
    }

    fn hides_by_row(&self, row: usize, series: u32, time: i64) -> bool {
        let find = |it: &DeletedRow| (it.series, it.time).cmp(&(series, time));
        let found = self.rows.binary_search_by(find).ok();
        found
            .and_then(|at| self.rows.get(at))
            .is_some_and(|deleted| match &self.age {
                Age::Applied(lsn) => deleted.lsn > *lsn,
                Age::Run(run) => row < run.visible_rows(deleted.lsn.saturating_sub(1)),
            })
    }

    /// Whether a row of one of these series in this time could be hidden; sure about no.
    pub(crate) fn touches(&self, series: &RangeInclusive<u32>, time: &RangeInclusive<i64>) -> bool {
        let concerns = |row: &DeletedRow| match &self.age {
            Age::Applied(lsn) => row.lsn > *lsn,
            Age::Run(_) => true,
        };
        any_row(&self.rows, series, time, concerns)
            || self
                .whole
                .iter()
                .any(|(tombstone, _)| tombstone.touches(series.clone(), time.clone()))
    }
}

/// Whether one of the keys in a range of series has a time in another and is as wanted.
fn any_row(
    rows: &[DeletedRow],
    series: &RangeInclusive<u32>,
    time: &RangeInclusive<i64>,
    wanted: impl Fn(&DeletedRow) -> bool,
) -> bool {
    let start = rows.partition_point(|row| row.series < *series.start());
    let rest = rows.get(start..).unwrap_or_default();
    let mut inside = rest.iter().take_while(|row| row.series <= *series.end());
    inside.any(|row| time.contains(&row.time) && wanted(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, TableRows};
    use crate::head::Head;
    use crate::schema::TableId;

    const TABLE: TableId = TableId(3);

    fn rows(lsn: Lsn, keys: &[(u32, i64)]) -> Arc<Tombstone> {
        let (series, times) = keys.iter().copied().unzip();
        Arc::new(Tombstone {
            lsn,
            table: TABLE,
            what: Deleted::Rows { series, times },
        })
    }

    fn range(lsn: Lsn, time: RangeInclusive<i64>) -> Arc<Tombstone> {
        Arc::new(Tombstone {
            lsn,
            table: TABLE,
            what: Deleted::Range { series: None, time },
        })
    }

    /// One row of series 1 at each time, of LSN 10 and up.
    fn run(times: &[i64]) -> Arc<Run> {
        let head = Head::default();
        for (lsn, &time) in (10..).zip(times) {
            let rows = TableRows {
                table: TABLE,
                series: vec![1],
                times: vec![time],
                columns: Vec::new(),
            };
            let batch = Batch {
                tables: vec![rows],
                ..Batch::default()
            };
            head.insert(lsn, batch, false);
        }
        let runs = head.runs(TABLE, Lsn::MAX);
        assert_eq!(runs.len(), 1, "small runs become one");
        Arc::clone(&runs[0].0)
    }

    /// Whether each of the rows of LSN 10, 11 and 12 at time 5 is hidden.
    fn hidden(tombstones: &[Arc<Tombstone>]) -> Vec<bool> {
        let run = run(&[5, 5, 5]);
        let mask = Mask::of_run(&Deletes::new(tombstones), &run);
        (0..3).map(|row| mask.hides(row, 1, 5)).collect()
    }

    #[test]
    fn a_delete_hides_the_rows_of_a_run_that_are_older() {
        let long: Vec<(u32, i64)> = (0..2000).map(|time| (1, time)).collect();
        for tombstone in [rows(12, &[(1, 5)]), range(12, 0..=9), rows(12, &long)] {
            assert_eq!(hidden(&[tombstone]), [true, true, false]);
        }
        let both = [rows(11, &[(1, 4), (1, 5)]), rows(12, &[(1, 5)])];
        assert_eq!(hidden(&both), [true, true, false]);
        let beside = [
            rows(20, &[(1, 4), (2, 5)]),
            range(20, 6..=9),
            rows(10, &[(1, 5)]),
        ];
        assert_eq!(hidden(&beside), [false; 3]);
        assert!(Mask::of_run(&Deletes::new(&beside[2..]), &run(&[5])).is_empty());
    }

    #[test]
    fn a_segment_has_lost_what_was_applied_to_it_and_waits_for_the_rest() {
        let deletes = Deletes::new(&[rows(5, &[(1, 5), (7, 7)]), rows(9, &[(1, 6)])]);
        let mask = |applied| Mask::of_segment(&deletes, applied, 0..=3, 0..=9);
        assert!(mask(4).hides(0, 1, 5) && mask(4).hides(0, 1, 6));
        assert!(!mask(5).hides(0, 1, 5) && mask(5).hides(0, 1, 6));
        assert!(!mask(5).touches(&(1..=1), &(5..=5)) && mask(5).touches(&(0..=1), &(5..=6)));
        assert!(mask(9).is_empty());
        // What the segment does not have is not looked for in it.
        assert!(Mask::of_segment(&deletes, 0, 0..=3, 0..=4).is_empty());
        assert!(Mask::of_segment(&deletes, 0, 2..=3, 0..=9).is_empty());
    }
}
