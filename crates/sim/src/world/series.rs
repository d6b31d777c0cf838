//! Questions about series, against what their tags say.
//!
//! Does: ask for the series that filters keep, for their number and for the values of a tag, and compare with all series
//! of the table, one by one. Does not: know which series there must be, beside those that have rows.

use std::collections::BTreeSet;

use nilometer_engine::{SeriesId, Snapshot, TableSchema, TagPredicate};

use crate::model::Table;
use crate::plan::{Probe, Tags, all_keep};

/// Values that are asked for at once.
const VALUES_MAX: usize = 3;

/// Compares; `rows` are those that the table must have, with their tags.
pub(super) fn compare(
    snapshot: &Snapshot,
    schema: &TableSchema,
    predicates: &[TagPredicate],
    probe: &Probe,
    rows: &Table,
) -> Result<(), String> {
    let text = |error: nilometer_engine::Error| error.to_string();
    let all = tags_of(
        snapshot,
        schema,
        &snapshot.series(schema, &[]).map_err(text)?,
    )?;
    let known: BTreeSet<&Tags> = all.iter().map(|(_, tags)| tags).collect();
    if let Some((tags, _)) = rows.keys().find(|(tags, _)| !known.contains(tags)) {
        return Err(format!("the series {tags:?} has rows and is not listed"));
    }
    let kept: Vec<&(SeriesId, Tags)> = all
        .iter()
        .filter(|(_, tags)| all_keep(&probe.tags, tags))
        .collect();
    let wanted: Vec<SeriesId> = kept.iter().map(|(series, _)| *series).collect();
    let found = snapshot.series(schema, predicates).map_err(text)?;
    if found != wanted {
        return Err(format!(
            "the series {found:?} instead of {wanted:?}, of {all:?}"
        ));
    }
    let count = snapshot.series_count(schema, predicates).map_err(text)?;
    if count != wanted.len() as u64 {
        return Err(format!("{count} series instead of {}", wanted.len()));
    }
    let live = snapshot.live_series(schema, &(probe.time.0..=probe.time.1));
    let live: BTreeSet<SeriesId> = live.map_err(text)?.into_iter().collect();
    let in_time = |tags: &Tags| {
        let first = (tags.clone(), probe.time.0);
        probe.time.0 <= probe.time.1
            && rows
                .range(first..)
                .next()
                .is_some_and(|((other, time), _)| other == tags && *time <= probe.time.1)
    };
    // Series that a dropped tag told apart look the same: one of them has the row.
    let live_tags: BTreeSet<&Tags> = all
        .iter()
        .filter(|(series, _)| live.contains(series))
        .map(|(_, tags)| tags)
        .collect();
    if let Some(missing) = known
        .iter()
        .find(|tags| in_time(tags) && !live_tags.contains(*tags))
    {
        return Err(format!(
            "the series {missing:?} has rows in the time and is not live"
        ));
    }
    for tag in &schema.tags {
        for prefix in ["", "h"] {
            let values: BTreeSet<&String> = kept
                .iter()
                .filter_map(|(_, tags)| tags.get(&tag.name))
                .filter(|value| value.starts_with(prefix))
                .collect();
            let wanted: Vec<&String> = values.into_iter().take(VALUES_MAX).collect();
            let found = snapshot.tag_values(schema, tag.id, predicates, prefix, VALUES_MAX);
            let found = found.map_err(text)?;
            if !found.iter().eq(wanted.iter().copied()) {
                return Err(format!(
                    "the values {found:?} of {} from {prefix:?} on, instead of {wanted:?}",
                    tag.name
                ));
            }
        }
    }
    Ok(())
}

fn tags_of(
    snapshot: &Snapshot,
    schema: &TableSchema,
    series: &[SeriesId],
) -> Result<Vec<(SeriesId, Tags)>, String> {
    let tags = snapshot.series_tags(schema, series);
    let tags = tags.map_err(|error| error.to_string())?;
    let named = tags.into_iter().map(|values| {
        let names = schema.tags.iter().zip(values);
        names
            .filter_map(|(tag, value)| Some((tag.name.clone(), value?)))
            .collect()
    });
    Ok(series.iter().copied().zip(named).collect())
}
