//! The groups of a query, in their order.
//!
//! Does: number the groups that the tags of series make, so that a higher number comes later. Does not: say which have rows.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
use nilometer_engine::{SeriesTag, Snapshot};
use rustc_hash::FxHashMap;

use super::chunk::{coded_column, tag_column};
use super::tags::matches;
use super::{Input, Table};
use crate::context::Context;
use crate::error::Error;
use crate::long::{self, Asks};
use crate::query::Shape;
use crate::value::Rules;

/// Tags of a group, in the order of the grouping; `None` = absent.
pub(crate) type Key = Vec<Option<Arc<str>>>;

/// The groups of a query.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    len: usize,
    /// By tag of the grouping.
    tags: Vec<GroupTag>,
}

/// A tag of all groups.
#[derive(Debug)]
struct GroupTag {
    /// By group: the place of its value; -1 = absent.
    codes: Vec<i32>,
    has_absent: bool,
    values: Arc<StringArray>,
}

/// In place of the group of rows that nobody asked for.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// Groups that tags could make, for each series, up to which they are numbered without sorting the series.
const DENSE_PART: u64 = 4;

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
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many of some groups have a tag, by its place in the grouping.
    pub(crate) fn count_with(&self, tag: usize, groups: impl Iterator<Item = u32>) -> usize {
        let codes = self.tags.get(tag).map_or(&[][..], |tag| &tag.codes);
        let has = |group: &u32| codes.get(*group as usize).is_some_and(|code| *code >= 0);
        groups.filter(has).count()
    }

    /// A tag of some groups, by its place in the grouping: a dictionary, of those values that are there if there are many.
    pub(crate) fn column(&self, tag: usize, groups: &[u32]) -> ArrayRef {
        let Some(tag) = self.tags.get(tag) else {
            return tag_column(std::iter::repeat_n(None, groups.len()));
        };
        let code = |group: &u32| {
            let code = tag.codes.get(*group as usize).copied();
            code.filter(|code| *code >= 0)
        };
        if tag.has_absent || tag.values.len() > groups.len() {
            return coded_column(&tag.values, groups.iter().map(code));
        }
        let keys = groups.iter().map(|group| code(group).unwrap_or(0));
        let keys = Int32Array::from_iter_values(keys);
        let values = Arc::clone(&tag.values) as ArrayRef;
        let array = DictionaryArray::<Int32Type>::try_new(keys, values);
        Arc::new(array.expect("every code is the place of a value"))
    }

    /// The groups in the order in which they are counted; `names` are those of their tags.
    pub(super) fn counted(&self, names: &[String], rules: Rules) -> Vec<u32> {
        let mut all: Vec<u32> = (0..).take(self.len).collect();
        // Of one tag both orders are the same.
        if rules == Rules::Influx && self.tags.len() > 1 {
            let mut tags: Vec<(&String, &GroupTag)> = names.iter().zip(&self.tags).collect();
            tags.sort_unstable_by_key(|(name, _)| *name);
            all.sort_by_cached_key(|group| {
                let known = tags.iter().filter_map(|(name, tag)| {
                    let code = *tag.codes.get(*group as usize)?;
                    let code = usize::try_from(code).ok()?;
                    Some((name.as_str(), tag.values.value(code)))
                });
                let (mut key, values): (Vec<&str>, Vec<&str>) = known.unzip();
                key.extend(values);
                key.join("|")
            });
        }
        all
    }

    /// Numbers the groups, and tells each input the number of its rows'.
    pub(super) fn of(
        snapshot: &Snapshot,
        all: &mut [Input],
        (shape, in_order): (&Shape, bool),
        context: &Context,
    ) -> Result<Self, Error> {
        if let [Input::Table(table)] = all
            && let Some(groups) = of_one_table((snapshot, context), table, (shape, in_order))?
        {
            return Ok(groups);
        }
        let mut numbers = Numbers::default();
        let mut found = Vec::with_capacity(all.len());
        for input in &*all {
            found.push(match input {
                Input::Table(table) => {
                    of_table((snapshot, context), table, &shape.group, &mut numbers)?
                }
                Input::Nested(nested) => nested.groups(&shape.group, context, |key, tag| {
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
        let ordered: Vec<(Key, u32)> = numbers.by_key.into_iter().collect();
        let ordered = long::sorted(ordered, context, |(one, _), (other, _)| {
            key_order(one, other, shape.rules)
        })?;
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
        let tags = (0..shape.group.len()).map(|tag| {
            let mut values: Vec<&str> = Vec::new();
            let mut places: FxHashMap<&str, i32> = FxHashMap::default();
            let codes = ordered.iter().map(|(key, _)| {
                let Some(Some(value)) = key.get(tag) else {
                    return -1;
                };
                let next = i32::try_from(values.len()).unwrap_or(-1);
                *places.entry(value).or_insert_with(|| {
                    values.push(value);
                    next
                })
            });
            let codes: Vec<i32> = codes.collect();
            GroupTag {
                has_absent: codes.contains(&-1),
                codes,
                values: Arc::new(StringArray::from_iter_values(values)),
            }
        });
        Ok(Self {
            len: ordered.len(),
            tags: tags.collect(),
        })
    }
}

/// The groups of one table, by the numbers of its tags' values alone. `None` = there are too many tags.
fn of_one_table(
    (snapshot, context): (&Snapshot, &Context),
    table: &mut Table,
    (shape, in_order): (&Shape, bool),
) -> Result<Option<Groups>, Error> {
    let series = table.series.len();
    // By position of the series: the places of its tags in the order of groups, as one number.
    let mut places = vec![0_u64; series];
    let mut room = 1_u64;
    let mut tags = Vec::with_capacity(shape.group.len());
    for name in &shape.group {
        context.check()?;
        let tag = match table.schema.tag(name) {
            None => None,
            Some(tag) => Some(snapshot.series_tag(&table.schema, tag.id, &table.series)?),
        };
        let values = tag.as_ref().and_then(SeriesTag::values).cloned();
        let values = values.unwrap_or_else(|| Arc::new(StringArray::from_iter_values([""; 0])));
        let (ranks, absent) = if in_order {
            ranks(&values, shape.rules, context)?
        } else {
            let codes = u32::try_from(values.len()).unwrap_or(u32::MAX);
            ((0..codes).collect(), codes)
        };
        let width = values.len() as u64 + 1;
        let Some(more) = room.checked_mul(width) else {
            return Ok(None);
        };
        room = more;
        for (position, place) in places.iter_mut().enumerate() {
            let code = tag.as_ref().and_then(|tag| tag.code(position));
            let rank = code.and_then(|code| ranks.get(code as usize)).copied();
            *place = *place * width + u64::from(rank.unwrap_or(absent));
        }
        tags.push((tag, values));
    }
    let firsts = if room <= DENSE_PART * series as u64 {
        number_by_place(&places, room, &mut table.groups)
    } else {
        number_by_order(places, &mut table.groups, context)?
    };
    // The one group of all rows, also of none.
    let len = firsts.len().max(usize::from(shape.group.is_empty()));
    let tags = tags.into_iter().map(|(tag, values)| {
        let code = |position: &usize| {
            let code = tag.as_ref().and_then(|tag| tag.code(*position));
            code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1)
        };
        let codes: Vec<i32> = firsts.iter().map(code).collect();
        GroupTag {
            has_absent: codes.contains(&-1),
            codes,
            values,
        }
    });
    Ok(Some(Groups {
        len,
        tags: tags.collect(),
    }))
}

/// Numbers groups in the order of their places, of which there are few, and returns the position of the first series of each.
fn number_by_place(places: &[u64], room: u64, groups: &mut Vec<u32>) -> Vec<usize> {
    let place = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let mut numbers = vec![NO_GROUP; place(room)];
    for (position, own) in (0..).zip(places) {
        if let Some(number) = numbers.get_mut(place(*own)).filter(|it| **it == NO_GROUP) {
            *number = position;
        }
    }
    let mut firsts = Vec::new();
    for number in numbers.iter_mut().filter(|it| **it != NO_GROUP) {
        let next = u32::try_from(firsts.len()).unwrap_or(NO_GROUP);
        firsts.push(std::mem::replace(number, next) as usize);
    }
    let number = |own: &u64| numbers.get(place(*own)).copied().unwrap_or(NO_GROUP);
    *groups = places.iter().map(number).collect();
    firsts
}

/// The same where there are many places.
fn number_by_order(
    places: Vec<u64>,
    groups: &mut Vec<u32>,
    context: &Context,
) -> Result<Vec<usize>, Error> {
    *groups = vec![NO_GROUP; places.len()];
    let order: Vec<(u64, u32)> = places.into_iter().zip(0..).collect();
    let order = long::sorted(order, context, Ord::cmp)?;
    let mut firsts: Vec<usize> = Vec::new();
    for group in order.chunk_by(|one, other| one.0 == other.0) {
        let number = u32::try_from(firsts.len()).unwrap_or(NO_GROUP);
        firsts.extend(group.first().map(|(_, position)| *position as usize));
        for (_, position) in group {
            if let Some(place) = groups.get_mut(*position as usize) {
                *place = number;
            }
        }
    }
    Ok(firsts)
}

/// By code the place of a value in their order, and that of its absence.
fn ranks(values: &StringArray, rules: Rules, context: &Context) -> Result<(Vec<u32>, u32), Error> {
    let order: Vec<(u64, u32)> = (0..values.len())
        .map(|at| prefix(values.value(at)))
        .zip(0..)
        .collect();
    let value = |at: u32| values.value(at as usize);
    let order = long::sorted(order, context, |one, other| {
        let by_text = || value(one.1).cmp(value(other.1));
        one.0.cmp(&other.0).then_with(by_text)
    })?;
    let first = u32::from(rules == Rules::Influx);
    let mut ranks = vec![0; values.len()];
    for (rank, (_, code)) in (first..).zip(order) {
        if let Some(place) = ranks.get_mut(code as usize) {
            *place = rank;
        }
    }
    let absent = match rules {
        Rules::Influx => 0,
        Rules::Postgres => u32::try_from(values.len()).unwrap_or(u32::MAX),
    };
    Ok((ranks, absent))
}

/// The first bytes of a text, the first one highest, padded with zeros: it orders as they do.
fn prefix(text: &str) -> u64 {
    let bytes = text.as_bytes().iter().chain(std::iter::repeat(&0)).take(8);
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
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
    (snapshot, context): (&Snapshot, &Context),
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
    let mut asks = Asks::of(context);
    let numbered = keys.map(|key| {
        asks.rows(1)?;
        Ok(numbers.number(key))
    });
    numbered.collect()
}
