//! Rows on their way into lanes: which belong to which cell, and when they are.
//!
//! Does: say it. Does not: add up.

/// Rows one after another that belong to one cell, and ascend in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) cell: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Run {
    pub(super) fn rows(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What tells rows of one time apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ties<'a> {
    /// They are of one series.
    One(u64),
    Each(&'a [u64]),
}

/// When rows are, and of which series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When<'a> {
    pub(crate) times: &'a [i64],
    pub(crate) ties: Ties<'a>,
}

impl When<'_> {
    pub(super) fn at(&self, row: usize) -> (i64, u64) {
        let tie = match self.ties {
            Ties::One(tie) => tie,
            Ties::Each(ties) => ties.get(row).copied().unwrap_or(0),
        };
        (self.times.get(row).copied().unwrap_or(0), tie)
    }
}

pub(super) fn resize<T: Clone>(list: &mut Vec<T>, rows: usize, value: T) {
    list.reserve_exact(rows.saturating_sub(list.len()));
    list.resize(rows, value);
}

pub(super) fn add_to(counts: &mut [u64], cell: u32, more: u64) {
    if let Some(count) = counts.get_mut(cell as usize) {
        *count += more;
    }
}
