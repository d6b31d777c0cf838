//! Interface of a fold over the rows of an aggregation: what it asks for and is given.
//!
//! Does: name the calls. Does not: add up; the operators above the engine do, and `bucket.rs` for those who want rows.

use std::ops::Range;

use nilometer_codec::ColumnRef;

use crate::error::Error;
use crate::segment::StoredField;

/// Adds up the rows of an aggregation, series by series. What is given of a series comes in the order of writing: of values
/// of one time, what comes later was written later.
pub trait Fold {
    /// Why it ends early.
    type Error: From<Error>;

    /// Whether rows from one time to another, both included, are added to one place, so that what is stored of all of them
    /// may stand for them.
    fn is_one(&self, first: i64, last: i64) -> bool;

    /// Whether an hour may be one place.
    fn takes_hours(&self) -> bool;

    /// Whether first and last values of fields are asked for, and not only their numbers, sums and extremes.
    fn wants_ends(&self) -> bool;

    /// Whether rows may change nothing because of what is known already: [`Self::passes_over`] is asked of blocks then.
    fn may_pass_over(&self) -> bool {
        false
    }

    /// Whether no row of a series between two times, both included, would change anything, given what is stored of each
    /// field of more rows than these: extremes that are known already, of places that have rows already.
    fn passes_over(
        &mut self,
        _position: usize,
        _times: (i64, i64),
        _fields: &[Option<StoredField<'_>>],
    ) -> bool {
        false
    }

    /// Bytes that are held from now on, before they are taken.
    fn hold(&mut self, bytes: usize) -> Result<(), Self::Error>;

    /// Stretches of rows of a series, in the order of time, each in one place, and what is stored of each field in them;
    /// `None` = it has no values there.
    fn stored(
        &mut self,
        position: usize,
        stretches: &[Stretch],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<(), Self::Error>;

    /// Rows of a series.
    fn rows(&mut self, position: usize, rows: FoldRows<'_>) -> Result<(), Self::Error>;

    /// Whether rows of several series may come together by [`Self::runs`], so that those of one series come in several calls with
    /// others in between. No two of these have one time, and each comes once.
    fn takes_runs(&self) -> bool {
        false
    }

    /// Whether the time of each row is asked for, and not only the first and last of runs that are in one place.
    fn wants_times(&self) -> bool {
        true
    }

    /// Rows of several series in a block.
    fn runs(&mut self, runs: &[FoldRun], block: &FoldBlock<'_>) -> Result<(), Self::Error> {
        for run in runs {
            let rows = FoldRows {
                times: block.times.unwrap_or_default(),
                columns: block.columns,
                range: run.start as usize..run.end as usize,
            };
            self.rows(run.position, rows)?;
        }
        Ok(())
    }
}

/// Rows of one series that stand together in a block, ascending in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldRun {
    /// Of the series.
    pub position: usize,
    /// Time of the first row.
    pub first_ns: i64,
    /// Time of the last row.
    pub last_ns: i64,
    /// The first row in the block.
    pub start: u32,
    /// The row behind the last.
    pub end: u32,
}

/// The columns of a block.
#[derive(Debug, Clone, Copy)]
pub struct FoldBlock<'a> {
    /// `None` = nobody asks for them, and each run is in one place.
    pub times: Option<&'a [i64]>,
    /// By field; `None` = all are null.
    pub columns: &'a [Option<ColumnRef<'a>>],
}

/// Some rows of a series one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Time of the first.
    pub first_ns: i64,
    /// Time of the last.
    pub last_ns: i64,
    /// How many there are.
    pub rows: u32,
}

/// Rows of a series, ascending in time.
#[derive(Debug, Clone)]
pub struct FoldRows<'a> {
    /// Of more rows than those that are meant.
    pub times: &'a [i64],
    /// By field; `None` = all are null. As long as `times`.
    pub columns: &'a [Option<ColumnRef<'a>>],
    /// Those that are meant.
    pub range: Range<usize>,
}
