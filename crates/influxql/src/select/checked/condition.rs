//! Conditions: the range of time, and what is left of a condition without it.
//!
//! Times stand behind AND and OR alike: all of them narrow the range, as there is no such thing as one range or another.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use nilometer_influxql_syntax::ast::{Expr, Operator};

use crate::select::checked::arguments::check_count;
use crate::select::checked::fold::{folded, is_literal};
use crate::select::checked::go_type::go_type;
use crate::select::error::Error;

/// First and last time of points, as InfluxDB has them.
pub(crate) const TIME_MIN: i64 = i64::MIN + 2;
pub(crate) const TIME_MAX: i64 = i64::MAX - 1;

/// A range of time, both ends included; `None` = no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub(crate) first: Option<i64>,
    pub(crate) last: Option<i64>,
}

impl Range {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            first: self.first.max(other.first),
            last: match (self.last, other.last) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            },
        }
    }
}

/// What times in a statement mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) now_ns: i64,
    pub(crate) zone: Option<Tz>,
}

/// Divides a condition into a range of time and the rest.
pub(crate) fn divided(
    condition: Option<&Expr>,
    clock: Clock,
) -> Result<(Option<Expr>, Range), Error> {
    let Some(condition) = condition else {
        return Ok((None, Range::default()));
    };
    let (rest, range) = divide(condition, clock)?;
    let rest = match rest {
        Some(Expr::Paren(inner)) => Some(*inner),
        rest => rest,
    };
    Ok((rest.filter(|rest| *rest != Expr::Boolean(true)), range))
}

fn divide(condition: &Expr, clock: Clock) -> Result<(Option<Expr>, Range), Error> {
    match condition {
        Expr::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
            let (left, one) = divide(left, clock)?;
            let (right, two) = divide(right, clock)?;
            let rest = match (left, right) {
                (Some(left), Some(right)) => Some(folded(&Expr::Binary(
                    *operator,
                    Box::new(left),
                    Box::new(right),
                ))),
                (left, right) => left.or(right),
            };
            Ok((rest, one.and(two)))
        }
        Expr::Binary(operator, left, right) => {
            if is_time(left) {
                return Ok((None, compared(*operator, right, clock)?));
            }
            if is_time(right) {
                let turned = match operator {
                    Operator::Gt => Operator::Lt,
                    Operator::Lt => Operator::Gt,
                    Operator::GtEq => Operator::LtEq,
                    Operator::LtEq => Operator::GtEq,
                    other => *other,
                };
                return Ok((None, compared(turned, left, clock)?));
            }
            Ok((Some(folded(condition)), Range::default()))
        }
        Expr::Paren(inner) => {
            let (rest, range) = divide(inner, clock)?;
            let rest = rest.map(|rest| match rest {
                rest @ Expr::Binary(..) => Expr::Paren(Box::new(rest)),
                rest => rest,
            });
            Ok((rest, range))
        }
        Expr::Boolean(_) => Ok((Some(condition.clone()), Range::default())),
        other => Err(Error::refused(format!(
            "invalid condition expression: {other}"
        ))),
    }
}

fn is_time(expr: &Expr) -> bool {
    matches!(expr, Expr::Reference(reference) if reference.name.eq_ignore_ascii_case("time"))
}

fn compared(operator: Operator, operand: &Expr, clock: Clock) -> Result<Range, Error> {
    let time = instant(operand, clock)?;
    let both = |first: Option<i64>, last: Option<i64>| Ok(Range { first, last });
    match operator {
        Operator::Gt => both(Some(time.saturating_add(1)), None),
        Operator::GtEq => both(Some(time), None),
        Operator::Lt => both(None, Some(time.saturating_sub(1))),
        Operator::LtEq => both(None, Some(time)),
        Operator::Eq => both(Some(time), Some(time)),
        other => {
            let symbol = other.symbol();
            Err(Error::refused(format!(
                "invalid time comparison operator: {symbol}"
            )))
        }
    }
}

/// What an operand of a comparison with the time is.
#[expect(
    clippy::cast_possible_truncation,
    reason = "Go converts a float to an instant in the same way"
)]
fn instant(operand: &Expr, clock: Clock) -> Result<i64, Error> {
    match moment(operand, clock)? {
        Moment::Time(time) => {
            let shown = |time: i128| match i64::try_from(time / 1_000_000_000) {
                Ok(seconds) => DateTime::from_timestamp(seconds, 0).map_or_else(
                    || time.to_string(),
                    |time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
                ),
                Err(_) => time.to_string(),
            };
            if time > i128::from(TIME_MAX) {
                return Err(Error::refused(format!(
                    "time {} overflows time literal",
                    shown(time)
                )));
            }
            if time <= i128::from(TIME_MIN) {
                return Err(Error::refused(format!(
                    "time {} underflows time literal",
                    shown(time)
                )));
            }
            Ok(time as i64)
        }
        Moment::Other(Expr::Duration(ns) | Expr::Integer(ns)) => Ok(ns),
        Moment::Other(Expr::Float(value)) => Ok(value as i64),
        Moment::Other(other) => Err(Error::refused(format!(
            "invalid operation: time and {} are not compatible",
            go_type(&other)
        ))),
    }
}

enum Moment {
    Time(i128),
    Other(Expr),
}

fn moment(expr: &Expr, clock: Clock) -> Result<Moment, Error> {
    match expr {
        Expr::Text(text) => Ok(match parse_time(text, clock.zone)? {
            Some(time) => Moment::Time(time),
            None => Moment::Other(expr.clone()),
        }),
        Expr::Call(call) if call.name == "now" && call.arguments.is_empty() => {
            Ok(Moment::Time(i128::from(clock.now_ns)))
        }
        Expr::Paren(inner) => moment(inner, clock),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (moment(left, clock)?, moment(right, clock)?);
            Ok(match (left, operator, right) {
                (Moment::Time(time), Operator::Add, Moment::Other(Expr::Duration(ns)))
                | (Moment::Other(Expr::Duration(ns)), Operator::Add, Moment::Time(time)) => {
                    Moment::Time(time + i128::from(ns))
                }
                (Moment::Time(time), Operator::Sub, Moment::Other(Expr::Duration(ns))) => {
                    Moment::Time(time - i128::from(ns))
                }
                (Moment::Time(one), Operator::Sub, Moment::Time(two)) => {
                    Moment::Other(Expr::Duration(i64::try_from(one - two).unwrap_or(i64::MAX)))
                }
                (Moment::Other(left), operator, Moment::Other(right)) => {
                    let both = Expr::Binary(*operator, Box::new(left), Box::new(right));
                    Moment::Other(folded(&both))
                }
                _ => Moment::Other(expr.clone()),
            })
        }
        other => Ok(Moment::Other(other.clone())),
    }
}

/// The instant that a text writes: a date, a date and a time, or RFC 3339; `None` = it does not look like a time.
pub(crate) fn parse_time(text: &str, zone: Option<Tz>) -> Result<Option<i128>, Error> {
    let is_date = |text: &str| {
        let mut parts = text.split('-');
        let digits = |part: Option<&str>, count: usize| {
            part.is_some_and(|part| {
                part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        digits(parts.next(), 4)
            && digits(parts.next(), 2)
            && digits(parts.next(), 2)
            && parts.next().is_none()
    };
    if !text.get(..10).is_some_and(is_date) {
        return Ok(None);
    }
    let local = |local: NaiveDateTime| {
        let ns = |utc: DateTime<chrono::Utc>| {
            i128::from(utc.timestamp()) * 1_000_000_000 + i128::from(utc.timestamp_subsec_nanos())
        };
        match zone {
            None => ns(local.and_utc()),
            Some(zone) => zone
                .from_local_datetime(&local)
                .earliest()
                .map_or_else(|| ns(local.and_utc()), |time| ns(time.to_utc())),
        }
    };
    if text.len() == 10 {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
        let midnight = date.and_then(|date| date.and_hms_opt(0, 0, 0));
        return midnight.map(local).map(Some).ok_or_else(invalid_time);
    }
    if let Ok(time) = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f") {
        return Ok(Some(local(time)));
    }
    let is_rfc = text.as_bytes().get(10) == Some(&b'T');
    match DateTime::parse_from_rfc3339(text) {
        Ok(time) if is_rfc => {
            let utc = time.to_utc();
            let ns = i128::from(utc.timestamp()) * 1_000_000_000;
            Ok(Some(ns + i128::from(utc.timestamp_subsec_nanos())))
        }
        _ => Err(invalid_time()),
    }
}

fn invalid_time() -> Error {
    Error::refused("invalid timestamp string")
}

/// Refuses calls in a condition, but for those of mathematics.
pub(crate) fn check(condition: &Expr) -> Result<(), Error> {
    match condition {
        Expr::Binary(_, left, right) => {
            check(left)?;
            check(right)
        }
        Expr::Call(call) => {
            if !crate::select::functions::is_math(&call.name) {
                return Err(Error::refused(format!(
                    "invalid function call in condition: {call}"
                )));
            }
            let expected = if matches!(call.name.as_str(), "atan2" | "pow") {
                2
            } else {
                1
            };
            check_count(&call.name, expected, call.arguments.len())?;
            call.arguments
                .iter()
                .filter(|argument| !is_literal(argument))
                .try_for_each(check)
        }
        _ => Ok(()),
    }
}
