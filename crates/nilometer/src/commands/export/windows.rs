//! A table in windows of time, each small enough for one answer of a server.
//!
//! A server limits the rows and the time of an answer, and a table may have any number of rows. So they are counted, and
//! halves of the time are asked for until each has few enough. Rows that are written meanwhile may be in or not.

use anyhow::{Context, bail};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};

use super::ExportArgs;
use crate::source::{Answer, Source};

/// Rows of a window, well below the rows that an answer may have.
const ROWS_MAX: u64 = 4_000_000;

/// Times from the first to the last, both in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) first: i64,
    pub(super) last: i64,
}

/// The windows of a table, in the order of their times.
pub(super) struct Windows<'a> {
    source: &'a Source,
    args: &'a ExportArgs,
    all: Vec<Window>,
    pub(super) rows: u64,
}

impl<'a> Windows<'a> {
    pub(super) fn of(source: &'a Source, args: &'a ExportArgs) -> anyhow::Result<Self> {
        let mut found = Self {
            source,
            args,
            all: Vec::new(),
            rows: 0,
        };
        let statement = args.select("count(*), min(time), max(time)", None)?;
        let row = found.numbers(&statement)?;
        if let [Some(rows), Some(first), Some(last)] = row.as_slice() {
            found.rows = rows.unsigned_abs();
            let window = Window {
                first: *first,
                last: *last,
            };
            let mut all = Vec::new();
            let mut count = |window| {
                let statement = args.select("count(*)", Some(window))?;
                let counted = found.numbers(&statement)?.first().copied().flatten();
                Ok(counted.unwrap_or(0).unsigned_abs())
            };
            split(window, found.rows, ROWS_MAX, &mut count, &mut all)?;
            found.all = all;
        }
        Ok(found)
    }

    /// Asks for the first window; the others follow when their rows are wanted.
    pub(super) fn open(self) -> anyhow::Result<Parts<'a>> {
        let mut windows = self.all.into_iter();
        let statement = self.args.statement(windows.next())?;
        let current = self.source.query(&self.args.database, &statement)?;
        Ok(Parts {
            source: self.source,
            args: self.args,
            windows,
            schema: current.schema(),
            current,
        })
    }

    /// The first row of an answer, times in nanoseconds.
    fn numbers(&self, statement: &str) -> anyhow::Result<Vec<Option<i64>>> {
        let mut answer = self.source.query(&self.args.database, statement)?;
        let batch = answer.find(|batch| !batch.as_ref().is_ok_and(|batch| batch.num_rows() == 0));
        let batch = batch.context("the count has no rows")??;
        let number = |column: &arrow::array::ArrayRef| {
            let column = match column.data_type() {
                DataType::Timestamp(..) => {
                    cast(column, &DataType::Timestamp(TimeUnit::Nanosecond, None))?
                }
                _ => column.clone(),
            };
            let numbers = cast(&column, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            Ok(numbers.is_valid(0).then(|| numbers.value(0)))
        };
        batch.columns().iter().map(number).collect()
    }
}

/// Halves a window of `rows` rows until no part has more than `rows_max`, or only one time.
fn split(
    window: Window,
    rows: u64,
    rows_max: u64,
    count: &mut dyn FnMut(Window) -> anyhow::Result<u64>,
    into: &mut Vec<Window>,
) -> anyhow::Result<()> {
    let Window { first, last } = window;
    if rows <= rows_max || first == last {
        if rows > 0 {
            into.push(window);
        }
        return Ok(());
    }
    let half = (i128::from(last) - i128::from(first)) / 2;
    let middle = i64::try_from(i128::from(first) + half).unwrap_or(last - 1);
    let early = Window {
        first,
        last: middle,
    };
    let late = Window {
        first: middle + 1,
        last,
    };
    let early_rows = count(early)?;
    split(early, early_rows, rows_max, count, into)?;
    split(late, rows.saturating_sub(early_rows), rows_max, count, into)
}

/// The rows of all windows, one answer after the other.
pub(super) struct Parts<'a> {
    source: &'a Source,
    args: &'a ExportArgs,
    windows: std::vec::IntoIter<Window>,
    schema: SchemaRef,
    current: Answer<'static>,
}

impl Parts<'_> {
    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn ask(&self, window: Window) -> anyhow::Result<Answer<'static>> {
        let statement = self.args.statement(Some(window))?;
        let answer = self.source.query(&self.args.database, &statement)?;
        if answer.schema() != self.schema {
            bail!("the columns of the table changed meanwhile; export it again");
        }
        Ok(answer)
    }
}

impl Iterator for Parts<'_> {
    type Item = anyhow::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.current.next() {
                return Some(batch);
            }
            let window = self.windows.next()?;
            match self.ask(window) {
                Ok(answer) => self.current = answer,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_few_rows_and_every_row_once() {
        let edges = [i64::MIN + 2, -1, 0, 1, 1_000, i64::MAX - 1];
        let crowd = (0..5_000).map(|n| n * n);
        let times: Vec<i64> = edges.into_iter().chain(crowd).collect();
        let in_window = |window: Window| -> Vec<i64> {
            let fits = |time: &i64| (window.first..=window.last).contains(time);
            times.iter().copied().filter(fits).collect()
        };
        let whole = Window {
            first: i64::MIN + 2,
            last: i64::MAX - 1,
        };
        let mut windows = Vec::new();
        let mut count = |window| Ok(in_window(window).len() as u64);
        split(whole, times.len() as u64, 100, &mut count, &mut windows).unwrap();
        let mut seen = Vec::new();
        for pair in windows.windows(2) {
            assert!(pair[0].last < pair[1].first);
        }
        for window in windows {
            let mut rows = in_window(window);
            assert!((1..=100).contains(&rows.len()), "{window:?}");
            seen.append(&mut rows);
        }
        let mut want = times.clone();
        want.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, want);
    }

    #[test]
    fn one_time_with_too_many_rows_is_one_window() {
        let window = Window { first: 7, last: 7 };
        let mut windows = Vec::new();
        let mut count = |_| Ok(0);
        split(window, 1_000, 10, &mut count, &mut windows).unwrap();
        assert_eq!(windows, [window]);
    }
}
