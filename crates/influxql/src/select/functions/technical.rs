//! Technical functions: averages that weigh what is newer, and rates of them.
//!
//! Does: `exponential_moving_average` and its kin, `relative_strength_index`, `kaufmans_*`, `chande_momentum_oscillator`.
//! Does not: predict (`holt_winters`), which is not there yet.

use std::collections::VecDeque;

use nilometer_influxql_syntax::ast::{Call, Expr};

use crate::select::error::Error;
use crate::select::values::points::Point;
use crate::select::values::value::Value;

pub(crate) fn unknown(name: &str) -> Error {
    Error::refused(format!("{name}() is not supported yet"))
}

/// The points that a technical function makes of others.
pub(crate) fn technical(call: &Call, points: Vec<Point>) -> Vec<Point> {
    let integer = |place: usize| match call.arguments.get(place) {
        Some(Expr::Integer(value)) => Some(*value),
        _ => None,
    };
    let period = integer(1)
        .and_then(|period| usize::try_from(period).ok())
        .unwrap_or(1);
    let simple = matches!(call.arguments.get(3), Some(Expr::Text(kind)) if kind == "simple");
    let smooth = matches!(call.arguments.get(3), Some(Expr::Text(kind)) if kind != "none");
    let mut indicator = Indicator::new(&call.name, period, simple, smooth);
    let hold = integer(2).and_then(|hold| usize::try_from(hold).ok());
    let hold = hold.unwrap_or(indicator.warm);
    let mut out = Vec::new();
    let values = points
        .iter()
        .filter_map(|point| Some((point.time, point.value.as_float()?)));
    for (place, (time, value)) in values.enumerate() {
        let next = indicator.next(value);
        if place >= hold && !next.is_infinite() {
            out.push(Point::new(time, Value::Float(next)));
        }
    }
    out
}

/// An average in which a value weighs the less the older it is.
#[derive(Debug, Clone)]
struct Average {
    period: usize,
    alpha: f64,
    simple: bool,
    count: usize,
    last: f64,
}

impl Average {
    fn new(period: usize, simple: bool) -> Self {
        Self {
            period,
            alpha: 2.0 / (period + 1) as f64,
            simple,
            count: 0,
            last: 0.0,
        }
    }

    fn is_warm(&self) -> bool {
        self.count == self.period
    }

    /// Whether an average of this one can start.
    fn leads(&self) -> bool {
        self.is_warm() || !self.simple
    }

    fn next(&mut self, value: f64) -> f64 {
        let count = self.count as f64;
        self.last = if self.count == 0 {
            value
        } else if self.is_warm() {
            (value - self.last) * self.alpha + self.last
        } else if self.simple {
            (self.last * count + value) / (count + 1.0)
        } else {
            (value - self.last) * (2.0 / (count + 2.0)) + self.last
        };
        self.count = (self.count + 1).min(self.period);
        self.last
    }
}

#[derive(Debug)]
struct Indicator {
    /// Values before the first that is shown.
    warm: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// As many averages of averages, and the last result.
    Averages(Vec<Average>, f64, bool),
    /// Averages of what went up and down, and the last value.
    UpDown(Average, Average, f64, bool),
    /// Efficiency of the way through the last values; the adaptive average.
    Efficiency(VecDeque<(f64, f64)>, f64, Option<f64>, usize),
    /// Sums of what went up and down within the last values.
    Momentum(VecDeque<(f64, f64)>, f64, f64, bool),
}

impl Indicator {
    fn new(name: &str, period: usize, simple: bool, smooth: bool) -> Self {
        let average = Average::new(period, simple);
        let warm = period - 1;
        let of = |warm, kind| Self { warm, kind };
        let strength = || {
            let average = Average {
                alpha: 1.0 / period as f64,
                ..Average::new(period + 1, simple)
            };
            (average.clone(), average)
        };
        match name {
            "double_exponential_moving_average" => of(
                if simple { 2 * warm } else { warm },
                Kind::Averages(vec![average; 2], 0.0, false),
            ),
            "triple_exponential_moving_average" => of(
                if simple { 3 * warm } else { warm },
                Kind::Averages(vec![average; 3], 0.0, false),
            ),
            "triple_exponential_derivative" => of(
                if simple { 3 * warm + 1 } else { warm + 1 },
                Kind::Averages(vec![average; 3], 0.0, true),
            ),
            "relative_strength_index" => {
                let (up, down) = strength();
                of(period, Kind::UpDown(up, down, 0.0, false))
            }
            "chande_momentum_oscillator" if smooth => {
                let (up, down) = strength();
                of(period, Kind::UpDown(up, down, 0.0, true))
            }
            "chande_momentum_oscillator" => {
                let window = VecDeque::from(vec![(0.0, 0.0); warm.max(1)]);
                of(warm, Kind::Momentum(window, 0.0, 0.0, false))
            }
            "kaufmans_efficiency_ratio" => of(
                period,
                Kind::Efficiency(VecDeque::from(vec![(0.0, 0.0); period]), 0.0, None, 0),
            ),
            "kaufmans_adaptive_moving_average" => of(
                period,
                Kind::Efficiency(VecDeque::from(vec![(0.0, 0.0); period]), 0.0, Some(0.0), 0),
            ),
            _ => of(warm, Kind::Averages(vec![average], 0.0, false)),
        }
    }

    fn next(&mut self, value: f64) -> f64 {
        match &mut self.kind {
            Kind::Averages(averages, last, derivative) => {
                let mut results = [value; 3];
                let (mut current, mut goes_on) = (value, true);
                for (average, result) in averages.iter_mut().zip(&mut results) {
                    if goes_on {
                        current = average.next(current);
                        goes_on = average.leads();
                    }
                    *result = current;
                }
                let [one, two, three] = results;
                if *derivative {
                    let rate = (current / *last - 1.0) * 100.0;
                    *last = current;
                    return rate;
                }
                match averages.len() {
                    1 => one,
                    2 => 2.0 * one - two,
                    _ => 3.0 * one - 3.0 * two + three,
                }
            }
            Kind::UpDown(up, down, last, momentum) => {
                let (up, down) = (
                    up.next((value - *last).max(0.0)),
                    down.next((*last - value).max(0.0)),
                );
                *last = value;
                if *momentum {
                    100.0 * ((up - down) / (up + down))
                } else {
                    100.0 - 100.0 / (1.0 + up / down)
                }
            }
            Kind::Efficiency(window, noise, adaptive, count) => {
                let newest = window.back().map_or(0.0, |(price, _)| *price);
                let (oldest, left) = window.pop_front().unwrap_or_default();
                if let Some(last) = adaptive.as_mut().filter(|_| *count <= window.len() + 1) {
                    *last = newest;
                }
                let step = (value - newest).abs();
                *noise = *noise - left + step;
                window.push_back((value, step));
                *count = (*count + 1).min(window.len() + 1);
                let signal = (value - oldest).abs();
                let ratio = if signal == 0.0 || *noise == 0.0 {
                    0.0
                } else {
                    signal / *noise
                };
                let Some(last) = adaptive else { return ratio };
                let weight = (ratio * (2.0 / 3.0 - 2.0 / 31.0) + 2.0 / 31.0).powi(2);
                *last += weight * (value - *last);
                *last
            }
            Kind::Momentum(window, up, down, started) => {
                let newest = window.back().map_or(0.0, |(price, _)| *price);
                let change = if *started { value - newest } else { 0.0 };
                *started = true;
                *up += change.max(0.0);
                *down += (-change).max(0.0);
                let all = *up + *down;
                let result = if all == 0.0 {
                    0.0
                } else {
                    100.0 * ((*up - *down) / all)
                };
                let (_, left) = window.pop_front().unwrap_or_default();
                *up -= left.max(0.0);
                *down -= (-left).max(0.0);
                window.push_back((value, change));
                result
            }
        }
    }
}
