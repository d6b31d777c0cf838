//! Aggregates and selectors of the points of a bucket.

use std::cmp::Ordering;

use nilometer_influxql_syntax::ast::Operator;

use crate::select::functions::order;
use crate::select::functions::sketch::Sketch;
use crate::select::values::points::Point;
use crate::select::values::value::{Division, Value, operate};

/// What a call makes of the points of a bucket. `start` is the time of what has none of its own.
pub(crate) fn reduce(name: &str, parameter: f64, points: Vec<Point>, start: i64) -> Vec<Point> {
    let one = |value: Value| vec![Point::new(start, value)];
    match name {
        "count" => one(Value::Integer(
            i64::try_from(points.len()).unwrap_or(i64::MAX),
        )),
        "sum" => sum(&points).map_or_else(Vec::new, one),
        "mean" => one(Value::Float(mean(&points))),
        "min" | "max" | "first" | "last" => chosen(name, points).into_iter().collect(),
        "spread" => {
            let least = points
                .iter()
                .map(|point| &point.value)
                .min_by(|one, two| one.order(two));
            let most = points
                .iter()
                .map(|point| &point.value)
                .max_by(|one, two| one.order(two));
            match (least, most) {
                (Some(least), Some(most)) => {
                    one(operate(Operator::Sub, most, least, Division::Float))
                }
                _ => Vec::new(),
            }
        }
        "sum_hll" => one(sketch(&points)),
        "stddev" => one(stddev(&points)),
        "median" => median(points).map_or_else(Vec::new, one),
        "mode" => mode(points).map_or_else(Vec::new, one),
        "distinct" => distinct(points, start),
        "percentile" => percentile(points, parameter).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn sum(points: &[Point]) -> Option<Value> {
    let mut values = points.iter().map(|point| point.value.clone());
    let first = match values.next()? {
        // From 0 on, as InfluxDB does, which numbers of -0 leave as it is.
        Value::Float(first) => Value::Float(0.0 + first),
        first => first,
    };
    Some(values.fold(first, |sum, value| {
        operate(Operator::Add, &sum, &value, Division::Float)
    }))
}

fn sketch(points: &[Point]) -> Value {
    let mut sketch = Sketch::new();
    for point in points {
        sketch.add(&point.value);
    }
    Value::Text(sketch.text().into())
}

fn floats(points: &[Point]) -> impl Iterator<Item = f64> {
    points.iter().filter_map(|point| point.value.as_float())
}

fn mean(points: &[Point]) -> f64 {
    // `sum` of numbers would begin at -0.
    floats(points).fold(0.0, |sum, value| sum + value) / points.len() as f64
}

fn stddev(points: &[Point]) -> Value {
    if points.len() < 2 {
        // Not a number, which is shown as null.
        return Value::Float(f64::NAN);
    }
    let mut mean = 0.0;
    for (count, value) in floats(points).enumerate() {
        mean += (value - mean) / (count + 1) as f64;
    }
    let squares: f64 = floats(points)
        .map(|value| (value - mean) * (value - mean))
        .sum();
    Value::Float((squares / (points.len() - 1) as f64).sqrt())
}

/// The point that a selector chooses.
fn chosen(name: &str, points: Vec<Point>) -> Option<Point> {
    points.into_iter().reduce(|kept, new| {
        let by_value = new.value.order(&kept.value);
        let by_time = new.time.cmp(&kept.time);
        // Of two booleans of one time the first is false, of anything else the greatest.
        let among = match (&new.value, name) {
            (Value::Boolean(_), "first") => by_value.is_lt(),
            _ => by_value.is_gt(),
        };
        let wins = match name {
            "min" => by_value.is_lt() || (by_value.is_eq() && by_time.is_lt()),
            "max" => by_value.is_gt() || (by_value.is_eq() && by_time.is_lt()),
            "first" => by_time.is_lt() || (by_time.is_eq() && among),
            _ => by_time.is_gt() || (by_time.is_eq() && among),
        };
        if wins { new } else { kept }
    })
}

fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    order::sort(&mut points, &|one, two| one.value.order(&two.value).is_lt());
    points
}

fn median(points: Vec<Point>) -> Option<Value> {
    let points = sorted(points);
    let middle = points.len() / 2;
    let high = points.get(middle)?.value.as_float()?;
    if points.len() % 2 == 1 {
        return Some(Value::Float(high));
    }
    let low = &points.get(middle.checked_sub(1)?)?.value;
    // The distance of two integers is one.
    let distance = operate(
        Operator::Sub,
        &points.get(middle)?.value,
        low,
        Division::Float,
    );
    Some(Value::Float(low.as_float()? + distance.as_float()? / 2.0))
}

/// The most frequent value; of several, as InfluxDB goes over them: one that starts before the last one found ended.
fn mode(points: Vec<Point>) -> Option<Value> {
    if points
        .iter()
        .all(|point| matches!(point.value, Value::Boolean(_)))
    {
        let yes = points
            .iter()
            .filter(|point| point.value == Value::Boolean(true))
            .count();
        return Some(Value::Boolean(yes * 2 >= points.len()));
    }
    let points = sorted(points);
    let first = points.first()?;
    let (mut best, mut best_count, mut best_time) = (&first.value, 0_u64, first.time);
    let (mut own, mut own_count, mut own_time) = (&first.value, 0_u64, first.time);
    for point in &points {
        if point.value.order(own).is_ne() {
            (own, own_count, own_time) = (&point.value, 1, point.time);
            continue;
        }
        own_count += 1;
        if best_count < own_count || (best_count == own_count && own_time <= best_time) {
            (best, best_count, best_time) = (&point.value, own_count, point.time);
        }
    }
    Some(best.clone())
}

/// Every value once, by the times at which they are met first, which are their last where points come from the end of time.
fn distinct(mut points: Vec<Point>, start: i64) -> Vec<Point> {
    points.sort_by(|one, two| one.value.order(&two.value));
    points.dedup_by(|one, two| one.value == two.value);
    points.sort_by(|one, two| one.time.cmp(&two.time).then(one.value.order(&two.value)));
    points
        .into_iter()
        .map(|point| Point::new(start, point.value))
        .collect()
}

fn percentile(points: Vec<Point>, percent: f64) -> Option<Point> {
    let place = (points.len() as f64 * percent / 100.0 + 0.5).floor() - 1.0;
    if place < 0.0 || place >= points.len() as f64 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it was compared with the number of points"
    )]
    let place = place as usize;
    sorted(points).into_iter().nth(place)
}

/// The points of the greatest values, or the smallest, of one bucket; in the order of their times.
pub(crate) fn top(mut points: Vec<Point>, count: usize, greatest: bool) -> Vec<Point> {
    points.sort_by(|one, two| {
        let by_value = two.value.order(&one.value);
        let by_value = if greatest {
            by_value
        } else {
            by_value.reverse()
        };
        by_value.then(one.time.cmp(&two.time))
    });
    points.truncate(count);
    points.sort_by(|one, two| match one.time.cmp(&two.time) {
        Ordering::Equal if greatest => two.value.order(&one.value),
        Ordering::Equal => one.value.order(&two.value),
        order => order,
    });
    points
}
