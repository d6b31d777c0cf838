//! Pruning by conditions on fields: blocks of a group, and rows of those blocks.
//!
//! Does: rule blocks out by the statistics of their pages, then read the fields of the conditions, and the rest only of
//! blocks with a row that is left. Does not: look at blocks whose rows other sources may have too.

use std::collections::BTreeMap;
use std::sync::Arc;

use nilometer_codec::stats::PageStatistics;

use super::counters::GroupRead;
use super::narrow::Survey;
use super::plan::{Condition, Plan};
use super::source::{Given, GroupCursor, GroupReader, needed_blocks};
use crate::error::Error;
use crate::schema::Duplicates;
use crate::segment::{GroupDirectory, Segment};

/// What is known of a condition's field in the blocks of a group.
struct Known<'a> {
    condition: &'a Condition,
    /// Whether a block has values at all.
    lengths: Option<&'a [u32]>,
    /// By block; empty where nothing is known, or where pages are of another type than the field.
    pages: Vec<Option<PageStatistics>>,
}

impl Known<'_> {
    fn may_match(&self, block: usize) -> bool {
        let length = self.lengths.and_then(|lengths| lengths.get(block));
        if length.is_none_or(|&length| length == 0) {
            return false;
        }
        let page = self.pages.get(block).and_then(Option::as_ref);
        let mut matches = self.condition.matches.iter();
        page.is_none_or(|page| matches.all(|matches| matches.may_match(page)))
    }
}

/// A cursor over what is left of a group; `None` = nothing.
pub(super) fn open(
    survey: &Survey,
    plan: &Plan,
    conditions: &[Condition],
    (segment, group, directory): (&Arc<Segment>, usize, &Arc<GroupDirectory>),
) -> Result<Option<GroupCursor>, Error> {
    let series = survey.series(plan);
    let is_plain = plan.duplicates == Duplicates::Keep || !segment.group(group)?.has_duplicates;
    let mut known = None;
    let (mut blocks, mut candidates) = (Vec::new(), Vec::new());
    let mut read = GroupRead::default();
    for at in needed_blocks(directory, series, &plan.time) {
        let Some(block) = directory.blocks.get(at) else {
            continue;
        };
        let position = plan.series.binary_search(&block.first_series);
        let is_free =
            position.is_ok_and(|position| survey.is_free(position, block.min_time, block.max_time));
        if block.is_shared() || !is_plain || !is_free {
            blocks.push(at);
            continue;
        }
        let known = match &mut known {
            Some(known) => known,
            none => none.insert(look_up(plan, conditions, segment, group, directory)?),
        };
        if known.iter().all(|known| known.may_match(at)) {
            candidates.push(at);
        } else {
            read.blocks_ruled_out += 1;
            read.pages_skipped += directory.pages_of(at);
        }
    }
    let (mut given, mut picked) = (Given::new(), BTreeMap::new());
    if !candidates.is_empty() {
        let fields = conditions.iter().filter_map(|it| plan.fields.get(it.slot));
        let fields: Vec<_> = fields.copied().collect();
        let mut reader = GroupReader::open_fields(segment, directory, candidates, &fields)?;
        let fetched = reader.reads();
        (read.blocks, read.pages, read.bytes) = (fetched.blocks, fetched.pages, fetched.bytes);
        for at in reader.blocks().to_vec() {
            if pick(&mut reader, conditions, at, &mut given, &mut picked)? {
                blocks.push(at);
                // Counted when the rest of it is read.
                read.blocks -= 1;
            } else {
                read.blocks_without_hit += 1;
                read.pages_skipped += directory.pages_of(at).saturating_sub(fields.len() as u64);
            }
        }
    }
    blocks.sort_unstable();
    let reader = GroupReader::open_given(segment, directory, blocks, &plan.fields, given)?;
    plan.counters.add(read);
    Ok(GroupCursor::of(reader.wanting(series, &plan.time), picked))
}

/// Looks at a block's fields; false = no row is left.
fn pick(
    reader: &mut GroupReader,
    conditions: &[Condition],
    block: usize,
    given: &mut Given,
    picked: &mut BTreeMap<usize, Vec<u32>>,
) -> Result<bool, Error> {
    let rows = reader.rows(block);
    let mut left: Option<Vec<u32>> = None;
    let mut columns = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let column = reader.field(index, block)?;
        for matches in &condition.matches {
            let rows = match left.take() {
                None => matches.pick(column.as_ref(), 0..rows),
                Some(left) => {
                    let left = left.into_iter().map(|row| row as usize);
                    matches.pick(column.as_ref(), left)
                }
            };
            if rows.is_empty() {
                return Ok(false);
            }
            left = Some(rows);
        }
        columns.extend(column.map(|column| (condition.slot, column)));
    }
    // The block's reader has the times before the fields.
    given.extend(
        columns
            .into_iter()
            .map(|(slot, column)| ((block, slot + 1), column)),
    );
    if let Some(left) = left.filter(|left| left.len() < rows) {
        picked.insert(block, left);
    }
    Ok(true)
}

fn look_up<'a>(
    plan: &Plan,
    conditions: &'a [Condition],
    segment: &Segment,
    group: usize,
    directory: &'a GroupDirectory,
) -> Result<Vec<Known<'a>>, Error> {
    let statistics = segment.statistics(group)?;
    let mut all = Vec::new();
    for condition in conditions {
        let Some(&(id, kind)) = plan.fields.get(condition.slot) else {
            continue;
        };
        let chunk = directory.chunk(id.0);
        let mut pages = Vec::new();
        if let (Some(statistics), Some(_)) = (&statistics, chunk.filter(|it| it.kind == kind)) {
            let offset = segment.group(group)?.statistics_offset();
            let column = statistics.column(id.0, kind, directory.blocks.len());
            let column = column.map_err(|what| what.at(segment.path(), offset))?;
            pages = column.unwrap_or_default();
        }
        all.push(Known {
            condition,
            lengths: chunk.map(|chunk| chunk.lengths.as_slice()),
            pages,
        });
    }
    Ok(all)
}
