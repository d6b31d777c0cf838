//! Conditions of lists and deletes: the times in them apart from the rest.
//!
//! Does: intersect the comparisons of `time`, also those of `OR`, as `InfluxDB` does. Does not: know tags.

use std::ops::RangeInclusive;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use nilometer_influxql_syntax::ast::{Expr, Operator};

use super::error::Error;

/// First and last time that a row may have.
pub(super) const ALL_TIME: RangeInclusive<i64> = (i64::MIN + 1)..=(i64::MAX - 1);

/// A condition in two parts.
#[derive(Debug)]
pub(super) struct Split<'a> {
    /// The times; without a comparison of `time`, all.
    pub(super) time: RangeInclusive<i64>,
    /// Whether `time` is compared.
    pub(super) has_time: bool,
    /// Everything else; all parts hold.
    pub(super) rest: Option<Rest<'a>>,
}

/// A condition without times.
#[derive(Debug, Clone)]
pub(super) enum Rest<'a> {
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Leaf(&'a Expr),
}

/// Takes a condition apart. `now` is what `now()` means.
pub(super) fn split(condition: Option<&Expr>, now: i64) -> Result<Split<'_>, Error> {
    let mut split = Split {
        time: ALL_TIME,
        has_time: false,
        rest: None,
    };
    if let Some(condition) = condition {
        split.rest = walk(condition, now, &mut split)?;
    }
    Ok(split)
}

fn walk<'a>(expr: &'a Expr, now: i64, split: &mut Split<'a>) -> Result<Option<Rest<'a>>, Error> {
    match expr {
        Expr::Paren(inner) => walk(inner, now, split),
        Expr::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
            let left = walk(left, now, split)?;
            let right = walk(right, now, split)?;
            Ok(match (left, right) {
                (Some(left), Some(right)) => {
                    let (left, right) = (Box::new(left), Box::new(right));
                    Some(match operator {
                        Operator::And => Rest::And(left, right),
                        _ => Rest::Or(left, right),
                    })
                }
                (Some(one), None) | (None, Some(one)) => Some(one),
                (None, None) => None,
            })
        }
        Expr::Binary(operator, left, right) if is_time(left) => {
            narrow(split, *operator, right, now)?;
            Ok(None)
        }
        Expr::Binary(operator, left, right) if is_time(right) => {
            narrow(split, turned(*operator), left, now)?;
            Ok(None)
        }
        Expr::Binary(..) | Expr::Boolean(_) => Ok(Some(Rest::Leaf(expr))),
        other => Err(Error::Condition(format!(
            "invalid condition expression: {other}"
        ))),
    }
}

fn is_time(expr: &Expr) -> bool {
    matches!(expr.inner(), Expr::Reference(name) if name.name.eq_ignore_ascii_case("time"))
}

fn turned(operator: Operator) -> Operator {
    match operator {
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        other => other,
    }
}

fn narrow(split: &mut Split<'_>, operator: Operator, value: &Expr, now: i64) -> Result<(), Error> {
    let at = time(value, now)?;
    let (first, last) = match operator {
        Operator::Eq => (at, at),
        Operator::Lt => (i64::MIN, at.saturating_sub(1)),
        Operator::LtEq => (i64::MIN, at),
        Operator::Gt => (at.saturating_add(1), i64::MAX),
        Operator::GtEq => (at, i64::MAX),
        other => {
            let symbol = other.symbol();
            return Err(Error::Condition(format!(
                "invalid time comparison operator: {symbol}"
            )));
        }
    };
    split.has_time = true;
    split.time = first.max(*split.time.start())..=last.min(*split.time.end());
    Ok(())
}

/// Nanoseconds of a time or of a duration.
fn time(expr: &Expr, now: i64) -> Result<i64, Error> {
    let wrong = |kind: &str| {
        Err(Error::Condition(format!(
            "invalid operation: time and *influxql.{kind} are not compatible"
        )))
    };
    match expr.inner() {
        Expr::Integer(value) | Expr::Duration(value) => Ok(*value),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a fraction of a nanosecond is no time, and what is too large is the last time"
        )]
        Expr::Float(value) => Ok(*value as i64),
        Expr::Text(text) => match parse_time(text) {
            Some(at) => Ok(at),
            None => wrong("StringLiteral"),
        },
        Expr::Call(call) if call.name == "now" && call.arguments.is_empty() => Ok(now),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (time(left, now)?, time(right, now)?);
            Ok(match operator {
                Operator::Add => left.saturating_add(right),
                Operator::Sub => left.saturating_sub(right),
                _ => return wrong("BinaryExpr"),
            })
        }
        Expr::Boolean(_) => wrong("BooleanLiteral"),
        Expr::Reference(_) => wrong("VarRef"),
        Expr::Regex(_) => wrong("RegexLiteral"),
        _ => wrong("Expr"),
    }
}

fn parse_time(text: &str) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return time.timestamp_nanos_opt();
    }
    let civil = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok();
    let civil = civil.or_else(|| {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        date.and_hms_opt(0, 0, 0)
    });
    civil?.and_utc().timestamp_nanos_opt()
}

#[cfg(test)]
mod tests {
    use nilometer_influxql_syntax::parse_expr;

    use super::*;

    const NOW: i64 = 1_000_000_000_000;

    /// Seconds since 1970 are those of `date -u -d TIME +%s`.
    #[test]
    fn times_are_taken_out_of_a_condition_and_intersected() {
        let end = *ALL_TIME.end();
        for (text, time, rest) in [
            ("time > 5", 6..=end, false),
            ("5 >= time AND host = 'a'", *ALL_TIME.start()..=5, true),
            (
                "time >= 1m AND time < 2m",
                60_000_000_000..=119_999_999_999,
                false,
            ),
            ("time > now() - 1s", NOW - 999_999_999..=end, false),
            (
                "time = '2024-02-29'",
                1_709_164_800_000_000_000..=1_709_164_800_000_000_000,
                false,
            ),
            (
                "time >= '2024-02-29 12:00:00.5'",
                1_709_208_000_500_000_000..=end,
                false,
            ),
            (
                "time >= '2024-02-29T00:00:00Z' + 1s",
                1_709_164_801_000_000_000..=end,
                false,
            ),
            (
                "(time > 1 OR time < 9) AND (host = 'a' OR host = 'b')",
                2..=8,
                true,
            ),
            ("host = 'a'", ALL_TIME, true),
        ] {
            let expr = parse_expr(text).unwrap();
            let split = split(Some(&expr), NOW).unwrap();
            assert_eq!(split.time, time, "{text}");
            assert_eq!(split.rest.is_some(), rest, "{text}");
            assert_eq!(split.has_time, text.contains("time"), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_in_the_words_of_influxdb() {
        for (text, why) in [
            (
                "time > 'foo'",
                "invalid operation: time and *influxql.StringLiteral are not compatible",
            ),
            ("time != 5", "invalid time comparison operator: !="),
            // It was taken for a condition that always holds.
            ("host", "invalid condition expression: host"),
            ("host = 'a' and 'x'", "invalid condition expression: 'x'"),
        ] {
            let expr = parse_expr(text).unwrap();
            assert_eq!(split(Some(&expr), NOW).unwrap_err().to_string(), why);
        }
    }
}
