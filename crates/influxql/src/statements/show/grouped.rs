//! Cardinalities by the values of tags: `GROUP BY` of a `SHOW ... CARDINALITY`.
//!
//! Does: put the series that a condition selects into groups, and count what is asked for in each. Does not: count without
//! groups (`cardinality.rs` does), or by time: there a cardinality by time has buckets from the first time to the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_engine::{SeriesId, SeriesTag, TableSchema};
use nilometer_influxql_syntax::ast::{Cardinality, Expr};
use nilometer_service::{Error as ServiceError, Set};

use super::lists::{Keys, View, fields};
use crate::statements::condition::split;
use crate::statements::context::Context;
use crate::statements::error::Error;
use crate::statements::names::regex;
use crate::statements::sets::{Table, is_left};

/// What is counted.
pub(super) enum Counted<'a> {
    Series,
    Measurements,
    TagKeys,
    TagValues(&'a Keys),
    FieldKeys,
}

/// What one group has.
#[derive(Debug, Default)]
struct Group {
    series: usize,
    names: BTreeSet<String>,
}

/// By the values of the dimensions, in their order.
type Groups = BTreeMap<Vec<String>, Group>;

/// A count of each group, and none of a group that has nothing to count.
pub(super) fn counts(
    context: &Context,
    clauses: &Cardinality,
    counted: &Counted<'_>,
) -> Result<Vec<Set>, ServiceError> {
    let view = View::of_policies(context, clauses.database.as_deref(), &clauses.sources)?;
    let dimensions = dimensions(&view, &clauses.dimensions)?;
    let split = split(clauses.condition.as_ref(), context.engine.wall_ns())?;
    let mut sets = Vec::new();
    let mut show = |name: &str, groups: Groups| {
        for (values, group) in groups {
            let count = match counted {
                Counted::Series => group.series,
                _ => group.names.len(),
            };
            // Each is a row of its own series.
            if count > 0 && is_left(clauses.limit, clauses.offset) {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                let tags = dimensions.iter().map(String::as_str);
                let table = Table::named(name).ints("count", vec![count]);
                sets.push(table.tagged(tags.zip(values)));
            }
        }
    };
    // Names of measurements are counted over all of them.
    let mut of_all = Groups::new();
    for (name, tables) in &view.measurements {
        let mut own = Groups::new();
        let groups = match counted {
            Counted::Measurements => &mut of_all,
            _ => &mut own,
        };
        let names = match counted {
            Counted::Measurements => vec![name.clone()],
            Counted::FieldKeys => {
                let fields = fields(&view, tables)?;
                fields.into_iter().map(|(field, _)| field).collect()
            }
            _ => Vec::new(),
        };
        for table in tables {
            context.gather(0)?;
            let series = view.series(table, &split)?;
            let of = Series {
                context,
                view: &view,
                table,
                ids: &series,
            };
            of.group(&dimensions, counted, &names, groups)?;
        }
        show(name, own);
    }
    show("", of_all);
    Ok(sets)
}

/// Series of a table.
struct Series<'a> {
    context: &'a Context,
    view: &'a View,
    table: &'a TableSchema,
    ids: &'a [SeriesId],
}

impl Series<'_> {
    fn column(&self, name: &str) -> Result<Option<SeriesTag>, ServiceError> {
        let Some(tag) = self.table.tag(name) else {
            return Ok(None);
        };
        let snapshot = &self.view.snapshot;
        Ok(Some(snapshot.series_tag(self.table, tag.id, self.ids)?))
    }

    /// Counts each series in its group; `names` are what every series has of what is counted.
    fn group(
        &self,
        dimensions: &[String],
        counted: &Counted<'_>,
        names: &[String],
        groups: &mut Groups,
    ) -> Result<(), ServiceError> {
        let by = dimensions.iter().map(|name| self.column(name));
        let by: Vec<_> = by.collect::<Result<_, _>>()?;
        let wanted = self.table.tags.iter().filter(|tag| match counted {
            Counted::TagKeys => true,
            Counted::TagValues(keys) => keys.has(&tag.name),
            _ => false,
        });
        let wanted = wanted.map(|tag| Ok((tag.name.as_str(), self.column(&tag.name)?)));
        let wanted: Vec<_> = wanted.collect::<Result<_, ServiceError>>()?;
        for at in 0..self.ids.len() {
            let values = by
                .iter()
                .map(|column| value(column.as_ref(), at).to_owned());
            let known = groups.len();
            let group = groups.entry(values.collect()).or_default();
            let before = group.names.len();
            group.series += 1;
            for name in names {
                add(&mut group.names, name);
            }
            for (key, column) in &wanted {
                let value = value(column.as_ref(), at);
                match counted {
                    _ if value.is_empty() => {}
                    Counted::TagKeys => add(&mut group.names, key),
                    _ => add(&mut group.names, value),
                }
            }
            let new = group.names.len() - before;
            let new = new + groups.len() - known;
            if new > 0 {
                self.context
                    .gather(new * GROUP_BYTES * (1 + dimensions.len()))?;
            }
        }
        Ok(())
    }
}

/// The value of a tag of a series; empty if it has none.
fn value(column: Option<&SeriesTag>, at: usize) -> &str {
    column.and_then(|column| column.value(at)).unwrap_or("")
}

/// About what a group or a name of it takes, for each dimension and itself.
const GROUP_BYTES: usize = 64;

fn add(names: &mut BTreeSet<String>, name: &str) {
    if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

/// The names of the tags, each once, sorted.
fn dimensions(view: &View, asked: &[Expr]) -> Result<Vec<String>, Error> {
    let there = || {
        let tables = view.measurements.values().flatten();
        tables.flat_map(|table: &Arc<_>| table.tags.iter().map(|tag| tag.name.clone()))
    };
    let refuse = |why: &str| Err(Error::Condition(why.to_owned()));
    let mut names = BTreeSet::new();
    for dimension in asked {
        match dimension.inner() {
            Expr::Reference(name) if name.name.eq_ignore_ascii_case("time") => {
                return refuse("time() is a function and expects at least one argument");
            }
            Expr::Reference(name) => {
                names.insert(name.name.clone());
            }
            Expr::Wildcard(_) => names.extend(there()),
            Expr::Regex(pattern) => {
                let pattern = regex(pattern)?;
                names.extend(there().filter(|name| pattern.is_match(name)));
            }
            Expr::Call(call) if call.name == "time" => {
                return Err(Error::Unsupported("GROUP BY time() in a cardinality"));
            }
            Expr::Call(_) => return refuse("only time() calls allowed in dimensions"),
            _ => return refuse("only time and tag dimensions allowed"),
        }
    }
    Ok(names.into_iter().collect())
}
