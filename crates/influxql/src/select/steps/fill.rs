//! Buckets without points, for a call.

use nilometer_influxql_syntax::ast::Fill;

use crate::select::checked::condition::TIME_MIN;
use crate::select::checked::window::Window;
use crate::select::values::points::Point;
use crate::select::values::value::{Kind, Value};

/// The range and order in which buckets are filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling {
    pub(crate) fill: Fill,
    pub(crate) window: Window,
    /// Both included.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) ascending: bool,
}

impl Filling {
    /// Buckets of the range, if it has a start.
    pub(crate) fn buckets(&self) -> Option<u64> {
        if self.first_ns == TIME_MIN {
            return None;
        }
        let (first, last) = (
            self.window.start(self.first_ns),
            self.window.start(self.last_ns),
        );
        let length = i128::from(last) - i128::from(first);
        u64::try_from(length / i128::from(self.window.width) + 1).ok()
    }

    /// The points of a group with those of the buckets between them. `kind` is the type of the values.
    pub(crate) fn filled(&self, points: Vec<Point>, name: &str, kind: Option<Kind>) -> Vec<Point> {
        let (from, to) = if self.ascending {
            (self.first_ns, self.last_ns)
        } else {
            (self.last_ns, self.first_ns)
        };
        let Some(first) = points.first() else {
            return points;
        };
        let mut bucket = if self.ascending && from == TIME_MIN {
            self.window.start(first.time)
        } else {
            self.window.start(from)
        };
        // Backwards without an end, filling stops at the last point.
        let end = if to == TIME_MIN {
            None
        } else {
            Some(self.window.start(to))
        };
        let mut shift = self.window.shift(bucket);
        let constant = match self.fill {
            Fill::Null if name == "count" => Value::Integer(0),
            Fill::Integer(value) => Value::Integer(value).filling(kind.unwrap_or(Kind::Float)),
            Fill::Float(value) => Value::Float(value).filling(kind.unwrap_or(Kind::Float)),
            _ => Value::Null,
        };
        let aux = points.first().map_or(0, |point| point.aux.len());
        let mut out: Vec<Point> = Vec::with_capacity(points.len());
        let mut before: Option<Point> = None;
        let mut rest = points.into_iter().peekable();
        loop {
            let is_inside = match (end, self.ascending) {
                (Some(end), true) => bucket <= end,
                (Some(end), false) => bucket >= end,
                (None, _) => false,
            };
            let next = rest.peek();
            if next.is_none() && !is_inside {
                return out;
            }
            let is_gap = match next {
                None => true,
                Some(next) if self.ascending => next.time > bucket,
                Some(next) => next.time < bucket,
            };
            if is_gap {
                let value = match (self.fill, &before) {
                    (Fill::Previous, Some(before)) => before.value.clone(),
                    (Fill::Linear, Some(before)) => next.map_or(Value::Null, |next| {
                        line(self.window.width, bucket, before, next)
                    }),
                    _ => constant.clone(),
                };
                out.push(Point {
                    time: bucket,
                    value,
                    aux: vec![Value::Null; aux],
                });
            } else if let Some(point) = rest.next() {
                before = Some(point.clone());
                out.push(point);
            }
            bucket = self.window.step(bucket, self.ascending, &mut shift);
        }
    }
}

/// The value at a bucket on the line between two points.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the line of integers is cut to integers there"
)]
fn line(width: i64, bucket: i64, before: &Point, next: &Point) -> Value {
    let place = |time: i64| time / width;
    let (from, to) = (place(before.time), place(next.time));
    let into = (place(bucket) - from) as f64;
    let on_line = |one: f64, change: f64| change / (to - from) as f64 * into + one;
    match (&before.value, &next.value) {
        (Value::Integer(one), Value::Integer(two)) => {
            Value::Integer(on_line(*one as f64, two.wrapping_sub(*one) as f64) as i64)
        }
        (Value::Unsigned(one), Value::Unsigned(two)) => {
            Value::Unsigned(on_line(*one as f64, two.wrapping_sub(*one) as f64) as u64)
        }
        (one, two) => match (one.as_float(), two.as_float()) {
            (Some(one), Some(two)) => Value::Float(on_line(one, two - one)),
            _ => Value::Null,
        },
    }
}
