//! Rows that are not needed: by conditions on fields, and by their place among those of their series or of all.
//!
//! Does: look at a morsel before anything of it is read, and leave out what that shows not to be needed. Does not: say what
//! may be asked for (`request.rs` does), or promise to leave out everything; whoever asks looks at the rows again.
//!
//! A row may be left out by its values only if nothing else says what they are: where several sources may have rows of
//! one key, all of them are read and become one row first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::choose;
use super::conflicts::Conflicts;
use super::ends::{self, Bounds};
use super::merge::strictly_ascending;
use super::plan::{Narrowed, Plan, Source};
use super::source::{GroupCursor, GroupReader, Piece, Rows, RunCursor, needed_blocks};
use crate::error::Error;
use crate::schema::Duplicates;
use crate::segment::{GroupDirectory, Segment};

/// What is known of a morsel's series before their blocks are read.
#[derive(Debug)]
pub(super) struct Survey {
    positions: Range<usize>,
    /// By position; empty where nothing can conflict.
    conflicts: Vec<Conflicts>,
    /// By position; empty where all of a series is wanted.
    bounds: Vec<Bounds>,
}

impl Survey {
    /// `None` = all rows are needed.
    pub(super) fn of(plan: &Plan, positions: Range<usize>) -> Result<Option<Self>, Error> {
        let keeps = plan.duplicates == Duplicates::Keep;
        let wanted = match &plan.narrowed {
            Narrowed::Nothing => return Ok(None),
            Narrowed::Fields(_) => None,
            Narrowed::Ends { first, last } => Some((*first, *last)),
        };
        let mut survey = Self {
            positions: positions.clone(),
            conflicts: Vec::new(),
            bounds: Vec::new(),
        };
        let is_alone = keeps || plan.sources.len() < 2;
        if wanted.is_none() && is_alone {
            return Ok(Some(survey));
        }
        let series = plan.series.get(positions).unwrap_or_default();
        let (mut runs, mut groups) = (Vec::new(), Vec::new());
        for (rank, source) in plan.sources.iter().enumerate() {
            match source {
                Source::Run { run, visible, mask } => {
                    let cursor = RunCursor::open(run, *visible, series, &[]);
                    runs.extend(cursor.map(|cursor| (rank, cursor, mask)));
                }
                Source::Group { .. } => {
                    groups.extend(ends::Group::of(rank, source, plan, series)?);
                }
            }
        }
        for &id in series {
            let mut pieces: Vec<Piece> = Vec::new();
            for (rank, cursor, mask) in &mut runs {
                let before = pieces.len();
                cursor.take(id, *rank, &plan.time, &mut pieces);
                let mut new = pieces.split_off(before);
                new.retain_mut(|piece| mask.is_empty() || piece.hide(id, mask));
                pieces.append(&mut new);
            }
            if let Some((first, last)) = wanted {
                let bounds = Bounds::of(id, plan, first, last, &mut groups, &pieces)?;
                survey.bounds.push(bounds);
            } else {
                let blocks = groups.iter().flat_map(|group| group.blocks_of(id));
                let conflicts = Conflicts::of(&plan.time, blocks, &pieces);
                survey.conflicts.push(conflicts);
            }
        }
        Ok(Some(survey))
    }

    /// The series of the morsel.
    pub(super) fn series<'p>(&self, plan: &'p Plan) -> &'p [u32] {
        plan.series.get(self.positions.clone()).unwrap_or_default()
    }

    fn at(&self, position: usize) -> Option<usize> {
        position.checked_sub(self.positions.start)
    }

    /// Whether at most one source has rows of a series in these times.
    pub(super) fn is_free(&self, position: usize, min_time: i64, max_time: i64) -> bool {
        let conflicts = self.at(position).and_then(|at| self.conflicts.get(at));
        conflicts.is_none_or(|conflicts| !conflicts.touches(min_time, max_time))
    }

    /// A cursor over what is needed of a group; `None` = nothing.
    pub(super) fn open(
        &self,
        plan: &Plan,
        segment: &Arc<Segment>,
        group: usize,
        directory: &Arc<GroupDirectory>,
    ) -> Result<Option<GroupCursor>, Error> {
        if let Narrowed::Fields(conditions) = &plan.narrowed {
            return choose::open(self, plan, conditions, (segment, group, directory));
        }
        let series = self.series(plan);
        let blocks = needed_blocks(directory, series, &plan.time).filter(|&at| {
            let Some(block) = directory.blocks.get(at) else {
                return false;
            };
            let first = series.partition_point(|&id| id < block.first_series);
            let last = series.partition_point(|&id| id <= block.last_series);
            let bounds = self.bounds.get(first..last).unwrap_or_default();
            bounds.iter().any(|bounds| bounds.needs(block))
        });
        let reader = GroupReader::open(segment, directory, blocks.collect(), &plan.fields)?;
        Ok(GroupCursor::of(
            reader.wanting(series, &plan.time),
            BTreeMap::new(),
        ))
    }

    /// Leaves out rows of a piece of a series. `is_plain` = its source has at most one row of a key, or all are kept.
    pub(super) fn narrow_piece(
        &self,
        plan: &Plan,
        position: usize,
        is_plain: bool,
        piece: &mut Piece,
    ) {
        let Narrowed::Fields(conditions) = &plan.narrowed else {
            return;
        };
        let Some((first, last)) = super::conflicts::extent(piece) else {
            return;
        };
        let is_plain = plan.duplicates == Duplicates::Keep
            || (is_plain && strictly_ascending(piece) && self.is_free(position, first, last));
        if !is_plain {
            return;
        }
        for condition in conditions {
            let column = piece.data.column(condition.slot);
            for matches in &condition.matches {
                let rows = (0..piece.rows.len()).map(|at| piece.rows.get(at));
                let picked = matches.pick(column, rows);
                if picked.len() < piece.rows.len() {
                    piece.rows = Rows::Picked(picked);
                }
            }
        }
    }

    /// Leaves out pieces, or rows of them, of a series that are not at its ends, and adds those that need not be read.
    pub(super) fn narrow_series(&self, plan: &Plan, position: usize, pieces: &mut Vec<Piece>) {
        let Narrowed::Ends { first, last } = plan.narrowed else {
            return;
        };
        let bounds = self.at(position).and_then(|at| self.bounds.get(at));
        if let Some(bounds) = bounds {
            let before = pieces.len();
            pieces.extend(bounds.known());
            plan.counters.add_ends(pieces.len() - before);
        }
        ends::trim(pieces, first, last, plan.duplicates == Duplicates::Keep);
    }
}
