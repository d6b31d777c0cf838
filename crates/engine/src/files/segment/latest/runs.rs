//! The rows of each series in the blocks that several share: which they are, and from when to when.
//!
//! Does: find them once, from the pages of series and times, and say of a block whether they are as its reader needs them. Does not:
//! know deletes or other sources; whoever asks looks at those. It never changes, as its file does not, and is kept in the segment
//! cache.

use std::sync::Arc;

use super::shared_runs;
use crate::error::Error;
use crate::files::segment::cache::{CachedPart, PartKind};
use crate::segment::{GroupDirectory, Segment};

/// Rows of one series that stand one after another in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedRun {
    pub(crate) series: u32,
    /// Where they end in the block; they start where those of the run before end.
    pub(crate) end: u32,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

/// How the rows of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It has one series, or they are in no order that a reader may rely on.
    Other,
    /// Each has a time of its own.
    Distinct,
    /// Several of a series have one time.
    Tied,
}

/// The runs of a group.
#[derive(Debug)]
pub(crate) struct GroupRuns {
    /// Of all shared blocks, in their order.
    runs: Vec<SharedRun>,
    /// By block: where its runs end among them, and how its rows are.
    blocks: Vec<(u32, Form)>,
}

impl GroupRuns {
    fn of(segment: &Segment, directory: &GroupDirectory) -> Result<Self, Error> {
        let mut found = Self {
            runs: Vec::new(),
            blocks: Vec::with_capacity(directory.blocks.len()),
        };
        for (number, block) in directory.blocks.iter().enumerate() {
            let mut form = Form::Other;
            if block.is_shared() {
                form = Form::Distinct;
                let start = found.runs.len();
                for run in shared_runs(segment, directory, number, block)? {
                    let own = found.runs.get(start..).unwrap_or_default();
                    let is_next = own.last().is_none_or(|before| before.series < run.series)
                        && (block.first_series..=block.last_series).contains(&run.series);
                    if !is_next || run.is_unordered {
                        form = Form::Other;
                        break;
                    }
                    if run.has_ties {
                        form = Form::Tied;
                    }
                    found.runs.push(SharedRun {
                        series: run.series,
                        end: run.row + 1,
                        min_time: run.first,
                        max_time: run.last,
                    });
                }
                if form == Form::Other {
                    found.runs.truncate(start);
                }
            }
            let end = u32::try_from(found.runs.len()).unwrap_or(u32::MAX);
            found.blocks.push((end, form));
        }
        found.runs.shrink_to_fit();
        Ok(found)
    }

    /// The runs of a block, ascending by series; `None` = it is not shared, or it has to be read row by row, as one has of a table
    /// in which rows of one time become one unless it `keeps` them.
    pub(crate) fn of_block(&self, block: usize, keeps: bool) -> Option<&[SharedRun]> {
        let (end, form) = *self.blocks.get(block)?;
        let before = block.checked_sub(1).and_then(|at| self.blocks.get(at));
        let start = before.map_or(0, |(end, _)| *end);
        let is_known = match form {
            Form::Other => false,
            Form::Distinct => true,
            Form::Tied => keeps,
        };
        is_known.then(|| self.runs.get(start as usize..end as usize))?
    }

    pub(in crate::files::segment) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(self.runs.as_slice()) + size_of_val(self.blocks.as_slice())
    }
}

impl Segment {
    /// Which rows of a group's shared blocks are whose.
    pub(crate) fn runs(&self, group: usize) -> Result<Arc<GroupRuns>, Error> {
        let part = self.part(group, PartKind::Runs, || {
            let directory = self.directory(group)?;
            let runs = GroupRuns::of(self, &directory)?;
            Ok(CachedPart::Runs(Arc::new(runs)))
        })?;
        match part {
            CachedPart::Runs(runs) => Ok(runs),
            _ => Err(self.mixed_up(self.group(group)?.directory_offset())),
        }
    }
}
