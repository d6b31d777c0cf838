//! Limits of groups.
//!
//! Does: count groups that have rows, in their order and no more of them than are wanted, and leave out the series of all
//! others before a row of them is read. Does not: limit rows (`operators`).

use nilometer_engine::{SeriesId, Snapshot};

use super::groups::NO_GROUP;
use super::{Groups, Input};
use crate::context::Context;
use crate::error::Error;
use crate::query::SeriesQuery;

/// Groups that are looked at together, at least.
const GROUPS_MIN: u64 = 64;

/// The groups within the limit, in their order, and of inputs the rows of those.
pub(super) fn within(
    on: (&Snapshot, &Context),
    all: &mut [Input],
    groups: Groups,
    query: &SeriesQuery,
) -> Result<Groups, Error> {
    let (shape, window) = (query.shape(), query.bound.groups);
    let order = groups.counted(&shape.group, shape.rules);
    let mut kept = vec![false; groups.len()];
    let (mut seen, mut next) = (0, 0);
    while seen < window.end() && window.rows > 0 && next < order.len() {
        let wanted = (window.end() - seen).max(GROUPS_MIN);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let part = order.iter().skip(next).take(wanted);
        next = next.saturating_add(wanted);
        let part: Vec<u32> = part.copied().collect();
        on.1.check()?;
        let has_rows = with_rows(on, all, &part, groups.len())?;
        for group in part {
            if has_rows.get(group as usize) != Some(&true) {
                continue;
            }
            if let Some(kept) = kept.get_mut(group as usize) {
                *kept = window.contains(seen);
            }
            seen += 1;
        }
    }
    let is_kept = |group: u32| kept.get(group as usize) == Some(&true);
    let mut are_tables = false;
    for input in &mut *all {
        match input {
            Input::Table(table) => {
                are_tables = true;
                table.retain(is_kept);
            }
            Input::Nested(nested) => {
                for group in nested.groups.iter_mut().filter(|group| !is_kept(**group)) {
                    *group = NO_GROUP;
                }
            }
        }
    }
    if are_tables {
        // They are numbered anew, without gaps.
        return Groups::of(on.0, all, (shape, true), on.1);
    }
    Ok(groups)
}

/// By group: whether it is among some and has a row at any time.
fn with_rows(
    on: (&Snapshot, &Context),
    all: &[Input],
    some: &[u32],
    groups: usize,
) -> Result<Vec<bool>, Error> {
    let mut is_asked = vec![false; groups];
    let mut has_rows = vec![false; groups];
    for group in some {
        if let Some(place) = is_asked.get_mut(*group as usize) {
            *place = true;
        }
    }
    let is_asked = |group: u32| is_asked.get(group as usize) == Some(&true);
    let mut found = |group: u32| {
        if let Some(place) = has_rows.get_mut(group as usize) {
            *place = true;
        }
    };
    for input in all {
        match input {
            Input::Table(table) => {
                let pairs = table.series.iter().zip(&table.groups);
                let own = pairs.filter(|(_, group)| is_asked(**group));
                let own: Vec<SeriesId> = own.map(|(series, _)| *series).collect();
                for series in table.with_rows(on, &own)? {
                    if let Ok(position) = table.series.binary_search(&series) {
                        found(table.group(position));
                    }
                }
            }
            Input::Nested(nested) => {
                nested
                    .groups
                    .iter()
                    .copied()
                    .filter(|group| is_asked(*group))
                    .for_each(&mut found);
            }
        }
    }
    Ok(has_rows)
}
