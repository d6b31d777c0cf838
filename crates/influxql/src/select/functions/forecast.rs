//! `holt_winters`: a forecast by the damped method of Holt and Winters, with multiplied seasons.
//!
//! Does: find smoothing factors by the simplex method of Nelder and Mead from a grid of guesses, as InfluxDB does, step for step,
//! because a search that goes another way ends at other factors. Does not: fill buckets; one without a value counts as unknown.

use nilometer_influxql_syntax::ast::{Call, Expr};

use crate::select::values::points::Point;
use crate::select::values::value::Value;

/// First guesses of each of the four factors.
const GUESSES: [f64; 2] = [0.3, 0.7];
/// The search ends when the errors at the corners of the simplex differ by less.
const EPSILON: f64 = 1e-4;
const ITERATIONS_MAX: usize = 1000;
/// Factors before level, trend and seasons: alpha, beta, gamma, phi.
const FACTORS: usize = 4;
/// Where the seasons begin among the parameters.
const SEASONS: usize = FACTORS + 2;

/// The points that a forecast adds to those of buckets of this width, or with the fit all of them. `ended` says whether to stop.
pub(crate) fn holt_winters(
    call: &Call,
    points: &[Point],
    width: i64,
    ended: &dyn Fn() -> bool,
) -> Vec<Point> {
    let integer = |place: usize| match call.arguments.get(place) {
        Some(Expr::Integer(value)) => usize::try_from(*value).unwrap_or_default(),
        _ => 0,
    };
    let (horizon, season) = (integer(1), integer(2));
    let points: Vec<(i64, f64)> = points
        .iter()
        .filter_map(|point| Some((point.time, point.value.as_float()?)))
        .collect();
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
        return Vec::new();
    };
    let seasons = if season < 2 { 0 } else { season };
    let values = spaced(&points, width);
    if points.len() < 2.max(seasons) || horizon == 0 || values.len() < 2 || values.len() < seasons {
        return Vec::new();
    }
    let model = Model { values, seasons };
    let Some(mut best) = model.best(ended) else {
        return Vec::new();
    };
    let all = model.forecast(horizon, &mut best);
    let with_fit = call.name == "holt_winters_with_fit";
    let (start, skipped) = if with_fit {
        (first.0, 0)
    } else {
        (last.0.saturating_add(width), model.values.len())
    };
    let shown = all.into_iter().skip(skipped).enumerate();
    shown
        .filter(|(_, value)| !value.is_nan())
        .map(|(place, value)| {
            let steps = i64::try_from(place).unwrap_or(i64::MAX);
            let time = start.saturating_add(width.saturating_mul(steps));
            Point::new(time, Value::Float(value))
        })
        .collect()
}

/// The values bucket by bucket; one that is missing is not a number. Of several in one bucket the first counts.
fn spaced(points: &[(i64, f64)], width: i64) -> Vec<f64> {
    // To the nearest multiple, as the buckets may begin somewhere else.
    let rounded = |time: i64| {
        let up = i64::from(time % width > width / 2);
        (time / width + up) * width
    };
    let mut values = Vec::with_capacity(points.len());
    let mut at = i64::MIN;
    for &(time, value) in points {
        let time = rounded(time);
        if values.is_empty() {
            values.push(value);
            at = time;
        } else if time > at {
            let missing = usize::try_from((time - at) / width - 1).unwrap_or_default();
            values.extend(std::iter::repeat_n(f64::NAN, missing));
            values.push(value);
            at = time;
        }
    }
    values
}

/// What is forecast of.
struct Model {
    values: Vec<f64>,
    /// Buckets of a season; 0 = there are none.
    seasons: usize,
}

impl Model {
    /// The parameters with the least squared error that a search from each guess finds; `None` = it was ended.
    fn best(&self, ended: &dyn Fn() -> bool) -> Option<Vec<f64>> {
        let mut start = self.start();
        let mut best: Option<(f64, Vec<f64>)> = None;
        for guess in 0..GUESSES.len().pow(4) {
            // The last factor changes first.
            for factor in 0..FACTORS {
                let digit = (guess >> (FACTORS - 1 - factor)) & 1;
                if let (Some(slot), Some(guess)) = (start.get_mut(factor), GUESSES.get(digit)) {
                    *slot = *guess;
                }
            }
            let (error, found) = minimum(&|of| self.error(of), &start, ended)?;
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Parameters without their factors: level, trend, and what each bucket of a season multiplies.
    fn start(&self) -> Vec<f64> {
        let value = |at: usize| self.values.get(at).copied().unwrap_or(f64::NAN);
        let count = self.seasons as f64;
        let (mut level, mut trend) = (0.0, 0.0);
        if self.seasons == 0 {
            level += 0.5 * value(0);
            if !value(1).is_nan() {
                trend = 0.5 * (value(1) - value(0));
            }
        }
        for at in 0..self.seasons {
            if !value(at).is_nan() {
                level += (1.0 / count) * value(at);
            }
            let change = value(self.seasons + at) - value(at);
            if !change.is_nan() {
                trend += 1.0 / (count * count) * change;
            }
        }
        let seasons = (0..self.seasons).map(|at| match value(at) {
            value if value.is_nan() => 0.0,
            value => value / level,
        });
        let mut start = vec![0.0; FACTORS];
        start.extend([level, trend]);
        start.extend(seasons);
        start
    }

    /// The values that the parameters give, and so many after them. The factors are brought between 0 and 1, and the seasons
    /// go on where this ends: both stay with the parameters, and the search goes on from there.
    fn forecast(&self, horizon: usize, parameters: &mut [f64]) -> Vec<f64> {
        for factor in parameters.iter_mut().take(FACTORS) {
            *factor = factor.clamp(0.0, 1.0);
        }
        let (given, seasons) = parameters.split_at_mut(SEASONS.min(parameters.len()));
        let &mut [alpha, beta, gamma, phi, mut level, mut trend] = given else {
            return Vec::new();
        };
        let mut damping = phi;
        let mut value = self.values.first().copied().unwrap_or(f64::NAN);
        let count = self.values.len() + horizon;
        let mut out = Vec::with_capacity(count);
        out.push(value);
        // The ring turns with each season that is written.
        let mut turned = seasons.len().saturating_sub(1);
        for at in 1..count {
            let (mut own, mut ahead) = (1.0, 1.0);
            if !seasons.is_empty() {
                let into = at % seasons.len();
                let place = |extra: usize| (at + extra + turned) % seasons.len();
                own = seasons.get(place(0)).copied().unwrap_or(1.0);
                ahead = seasons.get(place(into)).copied().unwrap_or(1.0);
            }
            let steady = level + phi * trend;
            let next_level = alpha * (value / own) + (1.0 - alpha) * steady;
            let next_trend = beta * (next_level - level) + (1.0 - beta) * phi * trend;
            let season = gamma * (value / steady) + (1.0 - gamma) * own;
            value = (next_level + damping * next_trend) * ahead;
            (level, trend) = (next_level, next_trend);
            damping += power(phi, at);
            if !seasons.is_empty() {
                let place = (at + turned) % seasons.len();
                if let Some(slot) = seasons.get_mut(place) {
                    *slot = season;
                }
                turned += 1;
            }
            out.push(value);
        }
        out
    }

    /// The sum of the squared errors of what is known.
    fn error(&self, parameters: &mut [f64]) -> f64 {
        let mut sum = 0.0;
        for (found, value) in self.forecast(0, parameters).into_iter().zip(&self.values) {
            if value.is_nan() {
                continue;
            }
            if found.is_nan() {
                return f64::INFINITY;
            }
            let difference = found - value;
            sum += difference * difference;
        }
        sum
    }
}

/// By squaring, as Go does it: the last digit of a power decides where the search goes.
fn power(base: f64, exponent: usize) -> f64 {
    let (mut power, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            power *= square;
        }
        square *= square;
        rest >>= 1;
    }
    power
}

/// A corner of the simplex, and the value there.
struct Corner {
    at: Vec<f64>,
    value: f64,
}

/// The least value of a function near a start, and where it is (Nelder and Mead, 1965); `None` = it was ended. The function
/// may move the point that it is asked for.
fn minimum(
    function: &dyn Fn(&mut [f64]) -> f64,
    start: &[f64],
    ended: &dyn Fn() -> bool,
) -> Option<(f64, Vec<f64>)> {
    let count = start.len();
    let mut corners = simplex(function, start);
    for _ in 0..ITERATIONS_MAX {
        if ended() {
            return None;
        }
        let (worst, best, second) = ranked(&corners);
        let centre: Vec<f64> = (0..count)
            .map(|axis| {
                let others = corners
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| *place != worst);
                let sum = others.fold(0.0, |sum, (_, corner)| sum + axis_of(&corner.at, axis));
                sum / count as f64
            })
            .collect();
        let value_of = |corners: &[Corner], place: usize| {
            corners.get(place).map_or(f64::NAN, |corner| corner.value)
        };
        let (least, middle) = (value_of(&corners, best), value_of(&corners, second));
        let away = |factor: f64, from: &[f64]| -> Vec<f64> {
            let both = centre.iter().zip(from);
            both.map(|(centre, from)| centre + factor * (from - centre))
                .collect()
        };
        let old = corners.get(worst).map(|corner| corner.at.clone())?;
        let mut reflected: Vec<f64> = centre
            .iter()
            .zip(&old)
            .map(|(centre, old)| centre + (centre - old))
            .collect();
        let reflection = function(&mut reflected);
        let replace = |corners: &mut [Corner], at: Vec<f64>, value: f64| {
            if let Some(corner) = corners.get_mut(worst) {
                *corner = Corner { at, value };
            }
        };
        if reflection < middle && reflection >= least {
            replace(&mut corners, reflected.clone(), reflection);
        }
        if reflection < least {
            let mut expanded = away(2.0, &reflected);
            let expansion = function(&mut expanded);
            if expansion < reflection {
                replace(&mut corners, expanded, expansion);
            } else {
                replace(&mut corners, reflected.clone(), reflection);
            }
        }
        // Where all corners are level, the one that was replaced is also the one that is compared with.
        if reflection >= value_of(&corners, second) {
            let most = value_of(&corners, worst);
            let old = corners.get(worst).map(|corner| corner.at.clone())?;
            let mut contracted = if reflection < most {
                away(0.5, &reflected)
            } else {
                let both = centre.iter().zip(&old);
                both.map(|(centre, old)| centre - 0.5 * (centre - old))
                    .collect()
            };
            let contraction = function(&mut contracted);
            if contraction < most {
                replace(&mut corners, contracted, contraction);
            } else {
                shrink(&mut corners, function, (worst, best, second));
            }
        }
        if spread(&corners) < EPSILON {
            break;
        }
    }
    let (_, best, _) = ranked(&corners);
    let corner = corners.get_mut(best)?;
    let found = corner.at.clone();
    Some((function(&mut corner.at), found))
}

fn axis_of(at: &[f64], axis: usize) -> f64 {
    at.get(axis).copied().unwrap_or_default()
}

/// A corner at the start, and one from there in each direction.
fn simplex(function: &dyn Fn(&mut [f64]) -> f64, start: &[f64]) -> Vec<Corner> {
    let count = start.len() as f64;
    let root = (count + 1.0).sqrt() - 1.0;
    let (far, near) = (
        ((count + 1.0).sqrt() - 1.0 + count) / (count * std::f64::consts::SQRT_2),
        root / (count * std::f64::consts::SQRT_2),
    );
    let mut corners = Vec::with_capacity(start.len() + 1);
    for direction in 0..=start.len() {
        let along = |(axis, value): (usize, &f64)| match direction {
            0 => *value,
            _ if direction == axis + 1 => far + value,
            _ => near + value,
        };
        let mut at: Vec<f64> = start.iter().enumerate().map(along).collect();
        let value = function(&mut at);
        corners.push(Corner { at, value });
    }
    corners
}

/// The places of the worst corner, of the best, and of the worst but one.
fn ranked(corners: &[Corner]) -> (usize, usize, usize) {
    let value = |place: usize| corners.get(place).map_or(f64::NAN, |corner| corner.value);
    let (mut worst, mut best) = (0, 0);
    for place in 0..corners.len() {
        if value(place) > value(worst) {
            worst = place;
        }
        if value(place) < value(best) {
            best = place;
        }
    }
    let mut second = best;
    for place in 0..corners.len() {
        if value(place) > value(second) && value(place) < value(worst) {
            second = place;
        }
    }
    (worst, best, second)
}

/// Halves the way from the best corner to all others; only the two worst are valued anew.
fn shrink(
    corners: &mut [Corner],
    function: &dyn Fn(&mut [f64]) -> f64,
    (worst, best, second): (usize, usize, usize),
) {
    let Some(centre) = corners.get(best).map(|corner| corner.at.clone()) else {
        return;
    };
    for (place, corner) in corners.iter_mut().enumerate() {
        if place == best {
            continue;
        }
        for (value, best) in corner.at.iter_mut().zip(&centre) {
            *value = best + (*value - best) / 2.0;
        }
    }
    for place in [worst, second] {
        if let Some(corner) = corners.get_mut(place) {
            corner.value = function(&mut corner.at);
        }
    }
}

/// How far the values at the corners are from each other.
fn spread(corners: &[Corner]) -> f64 {
    let sum: f64 = corners.iter().fold(0.0, |sum, corner| sum + corner.value);
    let mean = sum / corners.len() as f64;
    let count = corners.len().saturating_sub(1) as f64;
    let squares = corners.iter().fold(0.0, |sum, corner| {
        sum + (corner.value - mean) * (corner.value - mean) / count
    });
    squares.sqrt()
}
