//! Technical functions: averages that weigh what is newer, and rates of them.
//!
//! Does: `exponential_moving_average` and its kin, `relative_strength_index`, `kaufmans_*`, `chande_momentum_oscillator`.
//! Does not: predict (`forecast.rs` does).

use std::collections::VecDeque;

use nilometer_influxql_syntax::ast::{Call, Expr};

use crate::select::values::points::Point;
use crate::select::values::value::Value;

/// The points that a technical function makes of others.
pub(crate) fn technical(call: &Call, points: &[Point]) -> Vec<Point> {
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

#[cfg(test)]
mod tests {
    use nilometer_influxql_syntax::ast::Expr;
    use nilometer_influxql_syntax::parse_expr;

    use super::technical;
    use crate::select::values::points::Point;
    use crate::select::values::value::Value;

    /// The expected values are those of TA-Lib for the same list.
    #[test]
    fn indicators_are_those_of_ta_lib() {
        let list = (1..=15).chain((1..=14).rev());
        let points: Vec<Point> = list
            .map(|value| Point::new(value, Value::Integer(value)))
            .collect();
        for (text, expected) in [
            (
                "exponential_moving_average(x, 10, -1, 'simple')",
                &[
                    5.5,
                    6.5,
                    7.5,
                    8.5,
                    9.5,
                    10.5,
                    11.136_363_636_363_637,
                    11.475_206_611_570_249,
                ][..],
            ),
            (
                "double_exponential_moving_average(x, 10, -1, 'simple')",
                &[
                    13.568_840_926_166_246,
                    12.701_748_119_313_985,
                    11.701_405_062_848_783,
                ],
            ),
            (
                "triple_exponential_moving_average(x, 4, -1, 'simple')",
                &[
                    10.0,
                    11.0,
                    12.0,
                    13.0,
                    14.0,
                    15.0,
                    14.431_999_999_999_995,
                    13.345_600_000_000_001,
                ],
            ),
            (
                "relative_strength_index(x, 10, -1, 'simple')",
                &[
                    100.0, 100.0, 100.0, 100.0, 100.0, 90.0, 81.0, 72.9, 65.61, 59.049,
                ],
            ),
            (
                "kaufmans_adaptive_moving_average(x, 10)",
                &[
                    10.444_444_444_444_445,
                    11.135_802_469_135_802,
                    11.964_334_705_075_446,
                ],
            ),
            (
                "chande_momentum_oscillator(x, 10, 10)",
                &[
                    100.0, 100.0, 100.0, 100.0, 100.0, 80.0, 60.0, 40.0, 20.0, 0.0, -20.0,
                ],
            ),
            (
                "chande_momentum_oscillator(x, 10, -1, 'simple')",
                &[
                    100.0, 100.0, 100.0, 100.0, 100.0, 80.0, 62.0, 45.8, 31.22, 18.098, 6.2882,
                ],
            ),
            (
                "triple_exponential_derivative(x, 4, -1, 'simple')",
                &[
                    18.181_818_181_818_187,
                    15.384_615_384_615_374,
                    13.333_333_333_333_33,
                ],
            ),
        ] {
            let Ok(Expr::Call(call)) = parse_expr(text) else {
                panic!("{text} is a call")
            };
            let found = technical(&call, &points);
            let found: Vec<f64> = found
                .iter()
                .filter_map(|point| point.value.as_float())
                .collect();
            assert!(
                found.len() >= expected.len(),
                "{text}: {} values",
                found.len()
            );
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-9,
                    "{text}: {found} and not {expected}"
                );
            }
        }
    }

    #[test]
    fn efficiency_is_the_distance_by_the_way() {
        let Ok(Expr::Call(call)) = parse_expr("kaufmans_efficiency_ratio(x, 3)") else {
            panic!("a call")
        };
        let list = [20, 21, 22, 23, 22, 21];
        let points = (0..)
            .zip(list)
            .map(|(time, value)| Point::new(time, Value::Integer(value)));
        let points: Vec<Point> = points.collect();
        let found = technical(&call, &points);
        let found: Vec<f64> = found
            .iter()
            .filter_map(|point| point.value.as_float())
            .collect();
        assert_eq!(found.len(), 3);
        assert!(
            found
                .iter()
                .zip([1.0, 1.0 / 3.0, 1.0 / 3.0])
                .all(|(one, two)| (one - two).abs() < 1e-12),
            "{found:?}"
        );
    }
}
