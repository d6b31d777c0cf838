//! Calls that have several points in a bucket, which the series' engine chooses: `top`, `bottom` and `distinct`.
//!
//! Does: ask for one of them of a measurement, and put its points into the order of InfluxDB. Does not: say which calls the
//! engine may be asked for (`stored`).

use std::cmp::Ordering;

use nilometer_influxql_syntax::ast::{Call, Expr, Reference};
use nilometer_series::{self as series, Choice, Column, SeriesQuery, Top};

use crate::select::checked::window::Window;
use crate::select::error::Error;
use crate::select::planned::plan::Table;
use crate::select::run::Run;
use crate::select::steps::read::{Wanted, column_name, stored};
use crate::select::steps::stored::{Leaf, bucket, field_of};
use crate::select::values::points::{Point, Points};
use crate::select::values::rows::Sets;

/// Whether a call has several points in a bucket.
pub(crate) fn is_choice(name: &str) -> bool {
    matches!(name, "top" | "bottom" | "distinct")
}

/// What a call chooses of the rows of a measurement. `aux` are the references beside it, which the tags of `top` are among.
pub(crate) fn choice(call: &Call, table: &Table, aux: &[Reference]) -> Option<Choice> {
    if !is_choice(&call.name) {
        return None;
    }
    let of = stored(field_of(call)?, table)?;
    if call.name == "distinct" {
        return Some(Choice::Distinct(of));
    }
    let rows = match call.arguments.last() {
        Some(Expr::Integer(rows)) => *rows,
        _ => 1,
    };
    let tags = call.arguments.iter().skip(1);
    let tags = tags.filter_map(|argument| match argument {
        Expr::Reference(reference) if aux.contains(reference) => stored(reference, table),
        _ => None,
    });
    Some(Choice::Top(Top {
        by: of,
        rows: series::Value::Int(rows).into(),
        smallest: call.name == "bottom",
        each: tags.collect(),
    }))
}

impl Run<'_> {
    /// The points that a call chooses; `None` = not all of the condition can be asked for.
    pub(super) fn chosen_points(
        &self,
        table: &Table,
        leaf: Leaf<'_>,
        wanted: Wanted<'_>,
        window: Option<Window>,
        sets: &mut Sets,
    ) -> Result<Option<Vec<Points>>, Error> {
        let (mut shape, rest) = wanted.shape(table);
        shape.choice = choice(leaf.call, table, leaf.aux);
        let (true, Some(of)) = (rest.is_empty(), stored(leaf.field, table)) else {
            return Ok(None);
        };
        shape.bucket = window.map(bucket);
        let aux = leaf.aux.iter().map(|name| {
            let nothing = || series::Expr::literal(series::Value::Null);
            stored(name, table).unwrap_or_else(nothing)
        });
        let columns = std::iter::once(of).chain(aux).enumerate();
        shape.columns = columns
            .map(|(place, expr)| Column {
                name: column_name(place),
                expr,
            })
            .collect();
        let has_time = shape.shows_time();
        let query = SeriesQuery::new(shape, self.context.limits)?;
        let rows = self.grouped(&query, table, wanted, has_time)?;
        let all: Vec<usize> = (1..=leaf.aux.len()).collect();
        let points = Points::of_column(&rows, 0, &all, sets, wanted.group);
        let points = points.map(|points| in_buckets(leaf.call, points, window, wanted.ascending));
        Ok(Some(vec![points]))
    }
}

/// The points in the order of InfluxDB: from the first time of each bucket on, whichever way buckets go; and of one time the
/// greatest of `top` first, and the smallest of `bottom`.
fn in_buckets(
    call: &Call,
    mut points: Vec<Point>,
    window: Option<Window>,
    ascending: bool,
) -> Vec<Point> {
    let start = |point: &Point| window.map_or(0, |window| window.start(point.time));
    for own in points.chunk_by_mut(|one, other| start(one) == start(other)) {
        match call.name.as_str() {
            "distinct" if !ascending => own.reverse(),
            "distinct" => {}
            name => own.sort_by(|one, other| match one.time.cmp(&other.time) {
                Ordering::Equal if name == "top" => other.value.order(&one.value),
                Ordering::Equal => one.value.order(&other.value),
                order => order,
            }),
        }
    }
    points
}
