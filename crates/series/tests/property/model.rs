//! The naive model: rows in a list, and queries answered by going over all of them.
//!
//! It knows nothing of the engine or of operators. What it takes from the crate are the values that a question is made of.

mod aggregates;
mod buckets;
mod choices;
mod values;

use std::collections::BTreeMap;

use nilometer_series::{Aggregate, Expr, Literal, OrderBy, Rules, Shape, Source, Transform};

use aggregates::{aggregate, aggregates_of};
use buckets::{GroupKey, bucket_start, fill_of, filled, limited, of_groups, tag_keys, window};
use choices::answer_of_choice;
use values::{Result, eval, exact, tags_hold, value_of};

pub(crate) use values::{Cell, Refused, Row, Val};

/// The rows of each table, and the names of its tags in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) tables: BTreeMap<String, (Vec<String>, Vec<Row>)>,
}

/// An answer. Floats that were summed up carry the sum of magnitudes.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The same rows for a query around this one.
    nested: Vec<Row>,
}

/// The source of rows of nested answers.
const NESTED: usize = usize::MAX;

impl Tables {
    /// Answers a question.
    pub(crate) fn answer(&self, shape: &Shape) -> Result<Answer> {
        let rules = shape.rules;
        let mut rows = self.source(shape)?;
        let time = |bound: &Option<Literal>, open: i64| match bound.as_ref().map(value_of) {
            Some(Val::Time(time) | Val::Int(time)) => time,
            _ => open,
        };
        let from = time(&shape.time.from, i64::MIN);
        let to = time(&shape.time.to, i64::MAX);
        rows.retain(|row| tags_hold(&shape.tags, row, rules) == Some(true));
        if shape.limit_groups.is_some() {
            rows = of_groups(rows, shape);
        }
        rows.retain(|row| from <= row.time && row.time < to);
        if let Some(condition) = &shape.rows {
            let mut kept = Vec::new();
            for row in rows {
                if eval(condition, &row, rules, &|_| None)? == Val::Bool(true) {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        if let Some(choice) = &shape.choice {
            return answer_of_choice(shape, choice, &rows);
        }
        if shape.is_aggregate() {
            answer_of_groups(shape, &rows)
        } else {
            answer_of_rows(shape, rows)
        }
    }

    fn source(&self, shape: &Shape) -> Result<Vec<Row>> {
        match &shape.source {
            Source::Tables(names) => {
                let mut all = Vec::new();
                for (source, name) in names.iter().enumerate() {
                    let (tags, rows) = &self.tables[&name.table];
                    let mut rows: Vec<Row> = rows.clone();
                    for row in &mut rows {
                        row.source = source;
                    }
                    let rules = shape.rules;
                    rows.sort_by_key(|row| {
                        (row.time, tag_keys(row, tags.iter(), rules), row.written)
                    });
                    all.extend(rows);
                }
                // Stable: of one time, by source, then as they are.
                all.sort_by_key(|row| row.time);
                Ok(all)
            }
            Source::Nested(nested) => {
                let mut rows = self.answer(nested)?.nested;
                rows.sort_by_key(|row| row.time);
                Ok(rows)
            }
        }
    }
}

fn answer_of_rows(shape: &Shape, rows: Vec<Row>) -> Result<Answer> {
    let rules = shape.rules;
    let mut groups: BTreeMap<GroupKey, Vec<Row>> = BTreeMap::new();
    for row in rows {
        let key = tag_keys(&row, shape.group.iter(), rules);
        groups.entry(key).or_default().push(row);
    }
    let mut made: Vec<(GroupKey, (Row, Vec<Val>))> = Vec::new();
    for (group, rows) in &groups {
        for (at, row) in rows.iter().enumerate() {
            let known = |expr: &Expr| match expr {
                Expr::Neighbour(which, of) => {
                    let other = match which {
                        Transform::Previous => at.checked_sub(1),
                        Transform::Next => Some(at + 1),
                    };
                    let other = other.and_then(|at| rows.get(at));
                    Some(other.map_or(Val::Null, |other| {
                        eval(of, other, rules, &|_| None).unwrap()
                    }))
                }
                _ => None,
            };
            let columns = shape.columns.iter();
            let values = columns.map(|column| eval(&column.expr, row, rules, &known));
            let values = values.collect::<Result<Vec<Val>>>()?;
            made.push((group.clone(), (row.clone(), values)));
        }
    }
    Ok(answer_of_made(shape, made))
}

/// Rows of groups, each from the first on, in the order and within the limits of the question.
fn answer_of_made(shape: &Shape, mut made: Vec<(GroupKey, (Row, Vec<Val>))>) -> Answer {
    let descending = shape.order.descending;
    if descending {
        // Within a group everything is turned around.
        let mut turned = Vec::new();
        for part in made.chunk_by(|a, b| a.0 == b.0) {
            turned.extend(part.iter().rev().cloned());
        }
        made = turned;
    }
    if shape.order.by == OrderBy::Time {
        made.sort_by(|a, b| {
            let order = a.1.0.time.cmp(&b.1.0.time);
            if descending { order.reverse() } else { order }
        });
    }
    let times: Vec<i64> = made.iter().map(|(_, (row, _))| row.time).collect();
    let mut kept = limited(made.clone(), shape);
    if shape.with_ties && !kept.is_empty() {
        let last = times[kept.len() - 1];
        let behind = made.into_iter().map(|(_, row)| row).skip(kept.len());
        kept.extend(behind.take_while(|(row, _)| row.time == last));
    }
    let mut answer = Answer {
        rows: Vec::new(),
        nested: Vec::new(),
    };
    for (place, (row, values)) in kept.into_iter().enumerate() {
        let values: Vec<Cell> = values.into_iter().map(exact).collect();
        answer.push(shape, &row.tags, row.time, values, place);
    }
    answer
}

fn answer_of_groups(shape: &Shape, rows: &[Row]) -> Result<Answer> {
    let rules = shape.rules;
    let only = match shape.time.from.as_ref().map(value_of) {
        Some(Val::Time(time) | Val::Int(time)) => time,
        _ => 0,
    };
    let mut groups: BTreeMap<GroupKey, BTreeMap<i64, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        let start = match &shape.bucket {
            Some(_) => bucket_start(shape, row.time),
            None => only,
        };
        let key = tag_keys(row, shape.group.iter(), rules);
        groups
            .entry(key)
            .or_default()
            .entry(start)
            .or_default()
            .push(row);
    }
    let is_one = shape.group.is_empty() && shape.bucket.is_none();
    let has_one = shape.limit_groups.is_none() || window(shape.limit_groups.as_ref()).0 == 0;
    let has_one = has_one && window(shape.limit_groups.as_ref()).1 > 0;
    if is_one && has_one && rules == Rules::Postgres && groups.is_empty() {
        groups
            .entry(Vec::new())
            .or_default()
            .insert(only, Vec::new());
    }
    let aggregates = aggregates_of(shape);
    let mut made: Vec<(GroupKey, (i64, Vec<Cell>))> = Vec::new();
    for (group, buckets) in groups {
        for (start, rows) in buckets {
            let values = aggregates.iter().map(|(it, _)| aggregate(it, &rows, rules));
            made.push((group.clone(), (start, values.collect::<Result<_>>()?)));
        }
    }
    let fills: Vec<usize> = aggregates.iter().map(|it| it.1).collect();
    let mut made = filled(made, shape, &fills);
    let order = shape.order;
    made.sort_by(|a, b| {
        let by_time = a.1.0.cmp(&b.1.0);
        let by_time = if order.descending {
            by_time.reverse()
        } else {
            by_time
        };
        match order.by {
            OrderBy::Time => by_time.then_with(|| a.0.cmp(&b.0)),
            _ => a.0.cmp(&b.0).then(by_time),
        }
    });
    let with_group = made
        .into_iter()
        .map(|(group, rest)| (group.clone(), (group, rest)));
    let kept = limited(with_group.collect(), shape);
    let mut answer = Answer {
        rows: Vec::new(),
        nested: Vec::new(),
    };
    for (place, (group, (start, cells))) in kept.into_iter().enumerate() {
        let pairs = shape.group.iter().zip(group);
        let tags = pairs.filter_map(|(tag, (_, value))| Some((tag.clone(), value?)));
        let tags: BTreeMap<String, String> = tags.collect();
        let row = Row {
            time: start,
            tags: tags.clone(),
            fields: BTreeMap::new(),
            source: 0,
            written: 0,
        };
        let mut values = Vec::new();
        for column in &shape.columns {
            let fill = fill_of(shape, &column.name);
            let place = |wanted: &Aggregate| {
                let mut all = aggregates.iter();
                all.position(|(it, own)| it == wanted && *own == fill)
            };
            let known = |expr: &Expr| match expr {
                Expr::Aggregate(wanted) => Some(cells[place(wanted)?].value.clone()),
                _ => None,
            };
            let value = eval(&column.expr, &row, rules, &known)?;
            let off = match &column.expr {
                Expr::Aggregate(wanted) => cells[place(wanted).unwrap()].off,
                _ => 0.0,
            };
            values.push(Cell { value, off });
        }
        answer.push(shape, &tags, start, values, place);
    }
    Ok(answer)
}

impl Answer {
    fn push(
        &mut self,
        shape: &Shape,
        tags: &BTreeMap<String, String>,
        time: i64,
        values: Vec<Cell>,
        place: usize,
    ) {
        let mut cells = Vec::new();
        if shape.shows_time() {
            cells.push(exact(Val::Time(time)));
        }
        let own = |tag: &String| match tags.get(tag) {
            Some(value) => exact(Val::Text(value.clone())),
            None => exact(Val::Null),
        };
        cells.extend(shape.group.iter().map(own));
        // Tags leave as they are: absent is null, whatever an expression makes of it.
        let columns = shape.columns.iter().zip(&values);
        cells.extend(columns.map(|(column, cell)| match &column.expr {
            Expr::Tag(tag) => own(tag),
            _ => cell.clone(),
        }));
        self.rows.push(cells);
        let names = shape.columns.iter().map(|column| column.name.clone());
        let kept = tags.iter().filter(|(tag, _)| shape.group.contains(tag));
        self.nested.push(Row {
            time,
            tags: kept
                .map(|(tag, value)| (tag.clone(), value.clone()))
                .collect(),
            fields: names
                .zip(values.into_iter().map(|cell| cell.value))
                .collect(),
            source: NESTED,
            written: place,
        });
    }
}
