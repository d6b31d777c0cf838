//! Transformations: of the points of a group in their order.

use std::collections::VecDeque;

use nilometer_influxql_syntax::ast::{Call, Expr, Operator};

use crate::select::checked::window::Window;
use crate::select::functions::sketch::Sketch;
use crate::select::values::points::Point;
use crate::select::values::value::{Division, Value, operate};

const SECOND_NS: i64 = 1_000_000_000;

/// What stands around a transformation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    pub(crate) window: Option<Window>,
    pub(crate) ascending: bool,
}

fn duration(call: &Call, otherwise: i64) -> i64 {
    match call.arguments.get(1) {
        Some(Expr::Duration(ns)) => *ns,
        _ => otherwise,
    }
}

/// What a sketch counts; of what is none nothing, as there.
fn distinct(value: &Value) -> u64 {
    match value {
        Value::Text(text) => Sketch::of_text(text).map_or(0, |sketch| sketch.count()),
        _ => 0,
    }
}

/// The points that a transformation makes of others.
pub(crate) fn transform(call: &Call, points: Vec<Point>, around: Around) -> Vec<Point> {
    let positive = call.name.starts_with("non_negative");
    match call.name.as_str() {
        "derivative" | "non_negative_derivative" => {
            let unit = duration(call, around.window.map_or(SECOND_NS, |window| window.width));
            pairs(points, |before, point| {
                let change = operate(Operator::Sub, &point.value, &before.value, Division::Float);
                let change = change.as_float()?;
                let elapsed = point.time - before.time;
                let elapsed = if around.ascending { elapsed } else { -elapsed };
                let rate = change / (elapsed as f64 / unit as f64);
                (!positive || change >= 0.0).then_some(Value::Float(rate))
            })
        }
        "difference" | "non_negative_difference" => pairs(points, |before, point| {
            let change = operate(Operator::Sub, &point.value, &before.value, Division::Float);
            let is_negative = change.as_float().is_some_and(|change| change < 0.0);
            (!positive || !is_negative).then_some(change)
        }),
        "count_hll" => points
            .into_iter()
            .map(|point| Point::new(point.time, Value::Unsigned(distinct(&point.value))))
            .collect(),
        "elapsed" => {
            let unit = duration(call, 1);
            let times: Vec<i64> = points.iter().map(|point| point.time).collect();
            let steps = times.iter().zip(times.iter().skip(1));
            steps
                .map(|(before, time)| Point::new(*time, Value::Integer((time - before) / unit)))
                .collect()
        }
        "cumulative_sum" => {
            let mut sum: Option<Value> = None;
            let mut out = Vec::with_capacity(points.len());
            for point in points {
                let next = match &sum {
                    Some(sum) => operate(Operator::Add, sum, &point.value, Division::Float),
                    None => point.value,
                };
                out.push(Point::new(point.time, next.clone()));
                sum = Some(next);
            }
            out
        }
        "moving_average" => moving_average(call, points),
        _ => Vec::new(),
    }
}

/// A value of every two points that follow each other; of points of one time only the first counts.
fn pairs(points: Vec<Point>, value: impl Fn(&Point, &Point) -> Option<Value>) -> Vec<Point> {
    let mut out = Vec::with_capacity(points.len());
    let mut before: Option<Point> = None;
    for point in points {
        match &before {
            Some(before) if before.time == point.time => continue,
            Some(before) => {
                out.extend(value(before, &point).map(|value| Point::new(point.time, value)));
            }
            None => {}
        }
        before = Some(point);
    }
    out
}

fn moving_average(call: &Call, points: Vec<Point>) -> Vec<Point> {
    let Some(Expr::Integer(size)) = call.arguments.get(1) else {
        return Vec::new();
    };
    let size = usize::try_from(*size).unwrap_or(usize::MAX);
    let mut last: VecDeque<f64> = VecDeque::new();
    let mut sum = 0.0;
    let mut out = Vec::new();
    for point in points {
        let Some(value) = point.value.as_float() else {
            continue;
        };
        if last.len() == size {
            sum -= last.pop_front().unwrap_or_default();
        }
        sum += value;
        last.push_back(value);
        if last.len() == size {
            out.push(Point::new(point.time, Value::Float(sum / size as f64)));
        }
    }
    out
}

/// The area below the points, by buckets; a line between two points is cut where a bucket ends. `whole` is the time of integers
/// without buckets.
///
/// Of integers InfluxDB keeps the value before the cut and takes that of the cut for the next point, in the first step of
/// a bucket.
pub(crate) fn integral(call: &Call, points: &[Point], whole: i64, around: Around) -> Vec<Point> {
    let is_whole = points
        .first()
        .is_some_and(|point| !matches!(point.value, Value::Float(_)));
    let unit = duration(call, SECOND_NS) as f64;
    let edges = |time: i64| match around.window {
        // Without buckets the area stands at 1970.
        None if !is_whole => (0, i64::MAX),
        None => (whole, i64::MAX),
        Some(window) => {
            let (first, end) = (window.start(time), window.end(time));
            if around.ascending {
                (first, end)
            } else {
                (end, first)
            }
        }
    };
    let passed = |time: i64, end: i64| match around.window {
        None => false,
        Some(_) if around.ascending => time >= end,
        Some(_) => time <= end,
    };
    let mut out = Vec::new();
    let mut points = points
        .iter()
        .filter_map(|point| Some((point.time, point.value.as_float()?)));
    let Some((mut time, mut value)) = points.next() else {
        return out;
    };
    let (mut first, mut end) = edges(time);
    let mut sum = 0.0;
    for (next_time, next) in points {
        if next_time == time {
            value = next;
            continue;
        }
        let mut reached = next;
        if passed(next_time, end) {
            if time != end {
                let share = (end - time) as f64 / (next_time - time) as f64;
                let cut = value + (next - value) * share;
                sum += 0.5 * (cut + value) * ((end - time) as f64 / unit);
                time = end;
                if is_whole {
                    reached = cut;
                } else {
                    value = cut;
                }
            }
            out.push(Point::new(first, Value::Float(sum)));
            sum = 0.0;
            (first, end) = edges(next_time);
        }
        sum += 0.5 * (reached + value) * ((next_time - time) as f64 / unit);
        (time, value) = (next_time, next);
    }
    if time != first {
        out.push(Point::new(first, Value::Float(sum)));
    }
    out
}
