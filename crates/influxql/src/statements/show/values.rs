//! Conditions on the column `value` of SHOW TAG VALUES: which values are listed, whatever the series have beside them.
//!
//! Does: take them out of a condition, try a value. Does not: know tags; a tag or a field of that name is not asked, as in
//! InfluxDB since 1.8.

use nilometer_influxql_syntax::ast::{Expr, Operator};
use regex::Regex;

use crate::statements::condition::Rest;
use crate::statements::error::Error;
use crate::statements::names::regex;

/// What a value has to be.
#[derive(Debug)]
pub(super) enum Wanted {
    Both(Box<Self>, Box<Self>),
    Either(Box<Self>, Box<Self>),
    Text(String, bool),
    Pattern(Regex, bool),
    /// A value is a text, so it is no number.
    None,
}

impl Wanted {
    pub(super) fn has(&self, value: &str) -> bool {
        match self {
            Self::Both(left, right) => left.has(value) && right.has(value),
            Self::Either(left, right) => left.has(value) || right.has(value),
            Self::Text(text, is_wanted) => (value == text) == *is_wanted,
            Self::Pattern(pattern, is_wanted) => pattern.is_match(value) == *is_wanted,
            Self::None => false,
        }
    }

    /// What a comparison says of values; `None` = it is about something else.
    fn of_leaf(expr: &Expr) -> Result<Option<Self>, Error> {
        let Expr::Binary(operator, left, right) = expr.inner() else {
            return Ok(None);
        };
        if !matches!(left.inner(), Expr::Reference(name) if name.name == "value") {
            return Ok(None);
        }
        let is_wanted = match operator {
            Operator::Eq | Operator::Match => true,
            Operator::NotEq | Operator::NotMatch => false,
            _ => return Ok(None),
        };
        Ok(Some(match right.inner() {
            Expr::Text(text) => Self::Text(text.clone(), is_wanted),
            Expr::Regex(pattern) => Self::Pattern(regex(pattern)?, is_wanted),
            _ => Self::None,
        }))
    }

    fn of(rest: &Rest<'_>) -> Result<Option<Self>, Error> {
        let both = |left: &Rest<'_>, right: &Rest<'_>| -> Result<_, Error> {
            let (left, right) = (Self::of(left)?, Self::of(right)?);
            Ok(left
                .zip(right)
                .map(|(left, right)| (Box::new(left), Box::new(right))))
        };
        match rest {
            Rest::Leaf(expr) => Self::of_leaf(expr),
            Rest::And(left, right) => {
                Ok(both(left, right)?.map(|(left, right)| Self::Both(left, right)))
            }
            Rest::Or(left, right) => {
                Ok(both(left, right)?.map(|(left, right)| Self::Either(left, right)))
            }
        }
    }
}

/// A condition in two parts that both hold: of values, and of series. What mixes the two by OR is of series.
pub(super) fn divided(rest: Rest<'_>) -> Result<(Option<Wanted>, Option<Rest<'_>>), Error> {
    if let Some(wanted) = Wanted::of(&rest)? {
        return Ok((Some(wanted), None));
    }
    let Rest::And(left, right) = rest else {
        return Ok((None, Some(rest)));
    };
    let ((one, left), (other, right)) = (divided(*left)?, divided(*right)?);
    let wanted = match (one, other) {
        (Some(one), Some(other)) => Some(Wanted::Both(Box::new(one), Box::new(other))),
        (one, other) => one.or(other),
    };
    let rest = match (left, right) {
        (Some(left), Some(right)) => Some(Rest::And(Box::new(left), Box::new(right))),
        (left, right) => left.or(right),
    };
    Ok((wanted, rest))
}
