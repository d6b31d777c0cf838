//! The groups of a query, in their order.
//!
//! Does: number the groups that the tags of series make, so that a higher number comes later. Does not: say which have rows.

use std::cmp::Ordering;
use std::sync::Arc;

use nilometer_engine::{SeriesTag, Snapshot};
use rustc_hash::FxHashMap;

use super::tags::matches;
use super::{Input, Table};
use crate::error::Error;
use crate::query::Shape;
use crate::value::Rules;

/// Tags of a group, in the order of the grouping; `None` = absent.
pub(crate) type Key = Vec<Option<Arc<str>>>;

/// The groups of a query.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// In their order.
    pub(crate) keys: Vec<Key>,
}

/// In place of the group of rows that nobody asked for.
pub(crate) const NO_GROUP: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Numbers {
    by_key: FxHashMap<Key, u32>,
}

impl Numbers {
    fn number(&mut self, key: Key) -> u32 {
        let next = u32::try_from(self.by_key.len()).unwrap_or(NO_GROUP);
        *self.by_key.entry(key).or_insert(next)
    }
}

/// How two values of a tag are ordered.
pub(crate) fn tag_order(one: Option<&str>, other: Option<&str>, rules: Rules) -> Ordering {
    match (one, other, rules) {
        (None, Some(_), Rules::Postgres) => Ordering::Greater,
        (Some(_), None, Rules::Postgres) => Ordering::Less,
        (one, other, _) => one.cmp(&other),
    }
}

impl Groups {
    /// Numbers the groups, and tells each input the number of its rows'.
    pub(super) fn of(snapshot: &Snapshot, all: &mut [Input], shape: &Shape) -> Result<Self, Error> {
        let mut numbers = Numbers::default();
        let mut found = Vec::with_capacity(all.len());
        for input in &*all {
            found.push(match input {
                Input::Table(table) => of_table(snapshot, table, &shape.group, &mut numbers)?,
                Input::Nested(nested) => nested.groups(&shape.group, |key, tag| {
                    if matches(&shape.tags, shape.rules, tag)? {
                        Ok(numbers.number(key))
                    } else {
                        Ok(NO_GROUP)
                    }
                })?,
            });
        }
        if shape.group.is_empty() {
            // The one group of all rows, also of none.
            numbers.number(Vec::new());
        }
        let mut ordered: Vec<(Key, u32)> = numbers.by_key.into_iter().collect();
        ordered.sort_by(|(one, _), (other, _)| key_order(one, other, shape.rules));
        let mut renamed = vec![NO_GROUP; ordered.len()];
        for (new, (_, old)) in (0..).zip(&ordered) {
            if let Some(place) = renamed.get_mut(*old as usize) {
                *place = new;
            }
        }
        let rename = |old: &u32| renamed.get(*old as usize).copied().unwrap_or(NO_GROUP);
        for (input, found) in all.iter_mut().zip(found) {
            let groups = found.iter().map(rename).collect();
            match input {
                Input::Table(table) => table.groups = groups,
                Input::Nested(nested) => nested.groups = groups,
            }
        }
        Ok(Self {
            keys: ordered.into_iter().map(|(key, _)| key).collect(),
        })
    }
}

fn key_order(one: &Key, other: &Key, rules: Rules) -> Ordering {
    let pairs = one.iter().zip(other);
    let mut orders = pairs.map(|(one, other)| tag_order(one.as_deref(), other.as_deref(), rules));
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// By position of the series.
fn of_table(
    snapshot: &Snapshot,
    table: &Table,
    group: &[String],
    numbers: &mut Numbers,
) -> Result<Vec<u32>, Error> {
    if group.is_empty() {
        return Ok(vec![numbers.number(Vec::new()); table.series.len()]);
    }
    let mut tags: Vec<Option<SeriesTag>> = Vec::with_capacity(group.len());
    for name in group {
        tags.push(match table.schema.tag(name) {
            None => None,
            Some(tag) => Some(snapshot.series_tag(&table.schema, tag.id, &table.series)?),
        });
    }
    let keys = (0..table.series.len()).map(|position| {
        let values = tags.iter().map(|tag| tag.as_ref()?.value(position));
        values.map(|value| value.map(Arc::from)).collect::<Key>()
    });
    Ok(keys.map(|key| numbers.number(key)).collect())
}
