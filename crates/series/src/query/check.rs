//! The checks of a question before any table is looked at.
//!
//! Does: refuse what contradicts itself and buckets that would be millions, and read the literals that are numbers. Does
//! not: look at types of columns; those are a snapshot's.

use super::{
    Aggregate, Bound, Choice, Column, Expr, Fill, Limit, OrderBy, Shape, Source, TOP_ROWS_MAX,
    TagExpr, Window,
};
use crate::bucket::Width;
use crate::context::Limits;
use crate::error::Error;
use crate::value::{Literal, Value};

/// Queries in queries. Whoever writes them by hand stops at five; a generated text must not overflow the stack.
const DEPTH_MAX: usize = 32;

/// Operators in operators, for the same reason. A language whose expressions may be deeper works them out in another way.
pub const EXPR_DEPTH_MAX: usize = 128;

/// Parts of a histogram. Each bucket of time has all of them.
const HISTOGRAM_BUCKETS_MAX: u32 = 10_000;

pub(super) fn check(shape: &Shape, limits: Limits) -> Result<Bound, Error> {
    check_at(shape, limits, 0)
}

fn check_at(shape: &Shape, limits: Limits, depth: usize) -> Result<Bound, Error> {
    if depth == DEPTH_MAX {
        return refuse(format!("more than {DEPTH_MAX} queries are nested"));
    }
    match &shape.source {
        Source::Tables(tables) if tables.is_empty() => return refuse("it names no table"),
        Source::Tables(_) => {}
        Source::Nested(nested) => {
            check_at(nested, limits, depth + 1)?;
        }
    }
    check_names(shape)?;
    check_tags(&shape.tags, 0)?;
    let is_aggregate = shape.is_aggregate();
    if let Some(rows) = &shape.rows {
        check_rows(rows, "the condition on rows")?;
    }
    for column in &shape.columns {
        check_depth(&column.expr, 0)?;
        match &shape.choice {
            Some(choice) => check_chosen(column, shape, choice)?,
            None => check_column(column, shape, is_aggregate)?,
        }
    }
    if let Some(choice) = &shape.choice {
        check_choice(shape, choice)?;
    }
    check_bucket(shape, is_aggregate)?;
    let bound = bound(shape)?;
    check_count(shape, &bound, limits)?;
    check_ties(shape, &bound)?;
    Ok(bound)
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, Error> {
    Err(Error::contradiction(problem))
}

fn check_names(shape: &Shape) -> Result<(), Error> {
    let mut names: Vec<&str> = shape.group.iter().map(String::as_str).collect();
    names.extend(shape.columns.iter().map(|column| column.name.as_str()));
    names.extend(shape.shows_time().then_some(nilometer_engine::TIME_COLUMN));
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|two| two.first() == two.last()) {
        let name = twice.first().copied().unwrap_or_default();
        return refuse(format!(
            "two columns of the answer are called {name:?}; name one of them otherwise"
        ));
    }
    if names.is_empty() {
        return refuse("it has no columns");
    }
    Ok(())
}

fn check_tags(tags: &TagExpr, depth: usize) -> Result<(), Error> {
    if depth == EXPR_DEPTH_MAX {
        return refuse(format!(
            "conditions on tags are nested deeper than {EXPR_DEPTH_MAX}"
        ));
    }
    let texts = |values: &mut dyn Iterator<Item = &Literal>| {
        for value in values {
            if !matches!(literal(value)?, Value::Text(_) | Value::Int(_)) {
                return refuse(format!(
                    "a tag is compared with {value}; tags are texts or integers"
                ));
            }
        }
        Ok(())
    };
    match tags {
        TagExpr::All | TagExpr::Absent(_) => Ok(()),
        TagExpr::OneOf(_, values) => texts(&mut values.iter()),
        TagExpr::Range(_, first, last) => {
            texts(&mut first.iter().chain(last))?;
            let kind = |bound: &Option<Literal>| match bound {
                Some(bound) => Ok::<_, Error>(Some(literal(bound)?.kind())),
                None => Ok(None),
            };
            match (kind(first)?, kind(last)?) {
                (None, None) => refuse("a range of tags has no bound"),
                (Some(first), Some(last)) if first != last => {
                    refuse("a range of tags has bounds of two types")
                }
                _ => Ok(()),
            }
        }
        TagExpr::Matches(_, pattern) => match literal(pattern)? {
            Value::Text(_) => Ok(()),
            other => refuse(format!("{other} is no regular expression")),
        },
        TagExpr::And(all) | TagExpr::Or(all) => {
            all.iter().try_for_each(|it| check_tags(it, depth + 1))
        }
        TagExpr::Not(inner) => check_tags(inner, depth + 1),
    }
}

fn check_depth(expr: &Expr, depth: usize) -> Result<(), Error> {
    if depth == EXPR_DEPTH_MAX {
        return refuse(format!("an expression is deeper than {EXPR_DEPTH_MAX}"));
    }
    let depth = depth + 1;
    match expr {
        Expr::Time | Expr::Tag(_) | Expr::Field(_) => Ok(()),
        Expr::Literal(value) => literal(value).map(drop),
        Expr::Neighbour(_, of) if of.has_neighbour() => refuse(format!(
            "{expr} is two rows away; put the first step into a nested query"
        )),
        Expr::Unary(_, of) | Expr::Neighbour(_, of) => check_depth(of, depth),
        Expr::Binary(_, left, right) => {
            check_depth(left, depth)?;
            check_depth(right, depth)
        }
        Expr::Call(_, operands) => operands.iter().try_for_each(|of| check_depth(of, depth)),
        Expr::Aggregate(aggregate) => {
            let mut operands = aggregate.operands().into_iter();
            operands.try_for_each(|of| check_depth(of, depth))
        }
    }
}

/// An expression over rows, which has no aggregate and no neighbour.
fn check_rows(expr: &Expr, what: &str) -> Result<(), Error> {
    check_depth(expr, 0)?;
    if expr.has_aggregate() {
        return refuse(format!(
            "{what} has an aggregate; put the aggregate into a nested query"
        ));
    }
    if expr.has_neighbour() {
        return refuse(format!(
            "{what} has the value of another row; put that into a nested query"
        ));
    }
    Ok(())
}

fn check_column(column: &Column, shape: &Shape, is_aggregate: bool) -> Result<(), Error> {
    if !is_aggregate {
        return Ok(());
    }
    if column.expr.has_neighbour() {
        return refuse(format!(
            "the column {:?} has the value of another row and is one of groups; nest the groups",
            column.name
        ));
    }
    check_grouped(&column.expr, shape, &column.name)
}

/// Outside of aggregates there are only the tags of the group and the start of the bucket.
fn check_grouped(expr: &Expr, shape: &Shape, name: &str) -> Result<(), Error> {
    match expr {
        Expr::Literal(_) => Ok(()),
        Expr::Neighbour(_, of) | Expr::Unary(_, of) => check_grouped(of, shape, name),
        Expr::Binary(_, left, right) => {
            check_grouped(left, shape, name)?;
            check_grouped(right, shape, name)
        }
        Expr::Call(_, operands) => operands
            .iter()
            .try_for_each(|of| check_grouped(of, shape, name)),
        Expr::Time if shape.bucket.is_some() => Ok(()),
        Expr::Tag(tag) if shape.group.contains(tag) => Ok(()),
        Expr::Time | Expr::Tag(_) | Expr::Field(_) => refuse(format!(
            "the column {name:?} has {expr}, which is not the same for all rows of a group; group by it, or take an aggregate of it"
        )),
        Expr::Aggregate(aggregate) => {
            for of in aggregate.operands() {
                check_rows(of, &format!("an aggregate of the column {name:?}"))?;
            }
            check_aggregate(aggregate)
        }
    }
}

fn check_choice(shape: &Shape, choice: &Choice) -> Result<(), Error> {
    let what = "what is chosen";
    match choice {
        Choice::Distinct(of) => {
            check_rows(of, what)?;
            if shape.bucket.is_none() && shape.order.by == OrderBy::Time {
                return refuse("groups without buckets have no time to be ordered by");
            }
        }
        Choice::Top(top) => {
            let mut all = top.each.iter().chain([&top.by]);
            all.try_for_each(|of| check_rows(of, what))?;
        }
    }
    if shape.fill != Fill::Absent {
        return refuse(
            "it chooses rows, which has no buckets to fill; fill those of a query around it",
        );
    }
    Ok(())
}

fn check_chosen(column: &Column, shape: &Shape, choice: &Choice) -> Result<(), Error> {
    check_rows(&column.expr, &format!("the column {:?}", column.name))?;
    match choice {
        Choice::Top(_) => Ok(()),
        Choice::Distinct(of) => check_distinct(&column.expr, of, shape, &column.name),
    }
}

/// Beside the value there are only the tags of the group and the start of the bucket.
fn check_distinct(expr: &Expr, of: &Expr, shape: &Shape, name: &str) -> Result<(), Error> {
    let inner = |expr: &Expr| check_distinct(expr, of, shape, name);
    match expr {
        _ if expr == of => Ok(()),
        Expr::Literal(_) => Ok(()),
        Expr::Unary(_, of) => inner(of),
        Expr::Binary(_, left, right) => inner(left).and_then(|()| inner(right)),
        Expr::Call(_, operands) => operands.iter().try_for_each(inner),
        Expr::Time if shape.bucket.is_some() => Ok(()),
        Expr::Tag(tag) if shape.group.contains(tag) => Ok(()),
        _ => refuse(format!(
            "the column {name:?} has {expr}, which is not the same for all rows with one value of {of}; group by it, or leave it out"
        )),
    }
}

fn check_aggregate(aggregate: &Aggregate) -> Result<(), Error> {
    match aggregate {
        Aggregate::Percentile(_, percent, _) if !(0.0..=100.0).contains(percent) => refuse(
            format!("{percent} is no percentile; it is a number from 0 to 100"),
        ),
        Aggregate::Histogram {
            low, high, buckets, ..
        } => {
            let is_range = low.is_finite() && high.is_finite() && low < high;
            if !is_range || !(1..=HISTOGRAM_BUCKETS_MAX).contains(buckets) {
                return refuse(format!(
                    "a histogram from {low} to {high} in {buckets} parts; it has 1 to {HISTOGRAM_BUCKETS_MAX} parts and ends above its start"
                ));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_bucket(shape: &Shape, is_aggregate: bool) -> Result<(), Error> {
    if let Some(bucket) = &shape.bucket {
        let is_wide = match bucket.width {
            Width::Fixed(width) => width > 0,
            Width::Months(months) => months > 0,
        };
        if !is_wide {
            return refuse("a bucket has no width");
        }
    } else if shape.fill != Fill::Absent {
        return refuse("it fills buckets and has none; give the width of the buckets");
    }
    check_fills(shape)?;
    if is_aggregate && shape.bucket.is_none() && shape.order.by == OrderBy::Time {
        return refuse("groups without buckets have no time to be ordered by");
    }
    Ok(())
}

fn check_fills(shape: &Shape) -> Result<(), Error> {
    for (at, (name, fill)) in shape.fills.iter().enumerate() {
        if !shape.columns.iter().any(|column| column.name == *name) {
            return refuse(format!(
                "it fills the column {name:?} and has none of this name"
            ));
        }
        if shape.fill_place(name) != at + 1 {
            return refuse(format!(
                "it fills the column {name:?} in two ways; take one"
            ));
        }
        if *fill == Fill::Absent || shape.fill == Fill::Absent {
            return refuse(format!(
                "the column {name:?} is filled and others are not, so that nobody knows which rows there are; fill all of them"
            ));
        }
    }
    Ok(())
}

fn literal(literal: &Literal) -> Result<&Value, Error> {
    match literal {
        Literal::Value(value) => Ok(value),
        Literal::Parameter(number) => Err(Error::Parameter {
            number: number + 1,
            problem: "it has no value".to_owned(),
        }),
    }
}

fn bound(shape: &Shape) -> Result<Bound, Error> {
    let time = |bound: Option<&Literal>| match bound.map(literal).transpose()? {
        None => Ok(None),
        Some(Value::Time(time) | Value::Int(time)) => Ok(Some(*time)),
        Some(other) => refuse(format!("{other} is no time")),
    };
    let from = time(shape.time.from.as_ref())?;
    let to = time(shape.time.to.as_ref())?;
    // No row is at the last time that there is.
    let last = to.map_or(Some(i64::MAX), |to| to.checked_sub(1));
    let (first_ns, last_ns) = match last {
        Some(last) => (from.unwrap_or(i64::MIN), last),
        // Before the first time that there is.
        None => (0, -1),
    };
    Ok(Bound {
        first_ns,
        last_ns,
        has_first: from.is_some(),
        has_last: to.is_some(),
        groups: window(shape.limit_groups.as_ref())?,
        per_group: window(shape.limit_per_group.as_ref())?,
        overall: Window {
            with_ties: shape.with_ties,
            ..window(shape.limit.as_ref())?
        },
        top: match &shape.choice {
            Some(Choice::Top(top)) => number(&top.rows)?,
            _ => u64::MAX,
        },
    })
}

fn window(limit: Option<&Limit>) -> Result<Window, Error> {
    let Some(limit) = limit else {
        return Ok(Window::ALL);
    };
    Ok(Window {
        skip: number(&limit.skip)?,
        rows: number(&limit.rows)?,
        with_ties: false,
    })
}

fn number(value: &Literal) -> Result<u64, Error> {
    match literal(value)? {
        Value::Int(number) if *number >= 0 => Ok(number.unsigned_abs()),
        Value::Unsigned(number) => Ok(*number),
        other => refuse(format!("{other} is no number of rows")),
    }
}

/// Which rows are ties is known of those at an end of time, which the engine looks for with theirs.
fn check_ties(shape: &Shape, bound: &Bound) -> Result<(), Error> {
    let is_table = matches!(&shape.source, Source::Tables(tables) if tables.len() == 1);
    let is_plain = is_table
        && shape.rows.is_none()
        && shape.choice.is_none()
        && !shape.is_aggregate()
        && !shape.has_neighbours();
    let is_end = shape.order.by == OrderBy::Time
        && shape.limit.is_some()
        && shape.limit_per_group.is_none()
        && shape.limit_groups.is_none()
        && bound.overall.skip == 0
        && bound.overall.rows <= TOP_ROWS_MAX;
    if shape.with_ties && !(is_plain && is_end) {
        return refuse(format!(
            "ties go with the first {TOP_ROWS_MAX} rows of one table at most, in the order of their times and without a condition on rows"
        ));
    }
    Ok(())
}

/// Buckets that are filled are as many as the range has, whatever rows there are.
fn check_count(shape: &Shape, bound: &Bound, limits: Limits) -> Result<(), Error> {
    let Some(bucket) = &shape.bucket else {
        return Ok(());
    };
    let is_known = bound.has_first && bound.has_last && bound.first_ns <= bound.last_ns;
    if shape.fill == Fill::Absent || !is_known {
        return Ok(());
    }
    let buckets = bucket.count(bound.first_ns, bound.last_ns);
    if buckets > limits.buckets {
        return Err(Error::TooManyBuckets {
            buckets,
            buckets_max: limits.buckets,
        });
    }
    Ok(())
}

impl Shape {
    /// Whether a column has the value of another row.
    pub(crate) fn has_neighbours(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.expr.has_neighbour())
    }
}
