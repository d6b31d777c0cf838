//! Comparisons of rows, `(a, b) = (c, d)` and `(a, b) IN ((1, 2), (3, 4))`, as comparisons of their values.
//!
//! The planner makes one value of a row, in which NULL equals NULL and which is never NULL itself. Comparing value by value is
//! what the standard says (SQL:2016, 8.2; `PostgreSQL`'s manual, 9.25.5), and each pair gets a type of its own. Does not:
//! compare a row with a subquery, which is refused, or touch one that is compared with something else, such as a column.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, UnaryOperator,
};

use crate::error::Error;
use crate::statement::name::position;

/// Rows of a list. The planner's rules look at all of them again and again.
const ROWS_MAX: usize = 1000;

/// What may be added to a statement by values that stand in several conditions: rows in rows and lists in lists multiply.
const COPIES_BYTES_MAX: usize = 1 << 20;

/// What copies may still add, in bytes of text.
pub(super) struct Copies(usize);

impl Copies {
    pub(super) const fn new() -> Self {
        Self(COPIES_BYTES_MAX)
    }

    pub(super) fn take(&mut self, values: &[Expr], times: usize) -> Result<(), Error> {
        let bytes: usize = values.iter().map(|value| value.to_string().len()).sum();
        let left = self.0.checked_sub(bytes.saturating_mul(times));
        self.0 = left.ok_or_else(|| Error::Plan {
            message: format!(
                "a row stands in a condition for each that it is compared with, and all of them are limited to {COPIES_BYTES_MAX} bytes; put the rows into a table and join it"
            ),
            position: values.first().and_then(|it| position(it.span())),
        })?;
        Ok(())
    }
}

/// Spells a comparison of rows out, with what it holds left for the visitor to find.
pub(super) fn rewrite(expr: &mut Expr, copies: &mut Copies) -> Result<(), Error> {
    let spelled = match expr {
        Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
            (Some(one), Some(other)) => compared(&one, op, &other, copies)?,
            (Some(_), None) if is_subquery(right) => return Err(no_subquery(right)),
            (None, Some(_)) if is_subquery(left) => return Err(no_subquery(left)),
            _ => None,
        },
        Expr::InSubquery { expr, .. } if row(expr).is_some() => return Err(no_subquery(expr)),
        Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } if row(left).is_some() => {
            return Err(no_subquery(left));
        }
        Expr::IsDistinctFrom(left, right) => match (row(left), row(right)) {
            (Some(one), Some(other)) => any(pairs(&one, &other, distinct)?),
            _ => None,
        },
        Expr::IsNotDistinctFrom(left, right) => match (row(left), row(right)) {
            (Some(one), Some(other)) => all(pairs(&one, &other, not_distinct)?),
            _ => None,
        },
        Expr::InList {
            expr,
            list,
            negated,
        } => match row(expr) {
            Some(one) => {
                copies.take(&one, list.len())?;
                within(&one, list)?.map(|found| not_if(*negated, found))
            }
            None => None,
        },
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => match (row(expr), row(low), row(high)) {
            (Some(one), Some(low), Some(high)) => {
                let from = compared(&one, &BinaryOperator::GtEq, &low, copies)?;
                let to = compared(&one, &BinaryOperator::LtEq, &high, copies)?;
                let both = from.into_iter().chain(to).collect();
                all(both).map(|found| not_if(*negated, found))
            }
            _ => None,
        },
        // Of a row, IS NOT NULL is not the opposite of IS NULL.
        Expr::IsNull(inner) => row(inner).and_then(|values| {
            all(values
                .into_iter()
                .map(|it| Expr::IsNull(boxed(it)))
                .collect())
        }),
        Expr::IsNotNull(inner) => row(inner).and_then(|values| {
            let values = values.into_iter();
            all(values.map(|it| Expr::IsNotNull(boxed(it))).collect())
        }),
        _ => None,
    };
    if let Some(spelled) = spelled {
        *expr = spelled;
    }
    Ok(())
}

/// The values of `(a, b)` and of `ROW(a, b)`.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(function)
            if function.over.is_none() && function.name.to_string().eq_ignore_ascii_case("row") =>
        {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_subquery(inner),
        expr => matches!(expr, Expr::Subquery(_)),
    }
}

fn no_subquery(at: &Expr) -> Error {
    Error::Plan {
        message: "a row is not compared with a subquery; write EXISTS (SELECT 1 FROM ... WHERE x = a AND y = b)".to_owned(),
        position: position(at.span()),
    }
}

/// Whether the row is one of a list, the list halved and halved again so that the conditions do not nest deep.
fn within(one: &[Expr], list: &[Expr]) -> Result<Option<Expr>, Error> {
    if list.len() > ROWS_MAX {
        let place = list.get(ROWS_MAX).or_else(|| list.first());
        return Err(Error::Plan {
            message: format!(
                "a list is limited to {ROWS_MAX} rows; put them into a table and join it"
            ),
            position: place.and_then(|it| position(it.span())),
        });
    }
    let equal = list.iter().map(|item| match row(item) {
        Some(other) => Ok(all(pairs(one, &other, equal)?)),
        None => Err(Error::Plan {
            message: format!(
                "a row is in a list of rows, each of {} values: (a, b) IN ((1, 2), (3, 4))",
                one.len()
            ),
            position: position(item.span()),
        }),
    });
    let equal = equal.collect::<Result<Option<Vec<_>>, _>>()?;
    Ok(equal.and_then(any))
}

fn compared(
    one: &[Expr],
    op: &BinaryOperator,
    other: &[Expr],
    copies: &mut Copies,
) -> Result<Option<Expr>, Error> {
    let strict = match op {
        BinaryOperator::Eq => return Ok(all(pairs(one, other, equal)?)),
        BinaryOperator::NotEq => {
            let differ = |one, other| binary(one, BinaryOperator::NotEq, other);
            return Ok(any(pairs(one, other, differ)?));
        }
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return Ok(None),
    };
    copies.take(one, 2)?;
    copies.take(other, 2)?;
    ordered(one, &strict, op, other)
}

/// The first pair that is not equal decides: `a < c OR (a = c AND b <= d)`.
fn ordered(
    one: &[Expr],
    strict: &BinaryOperator,
    last: &BinaryOperator,
    other: &[Expr],
) -> Result<Option<Expr>, Error> {
    let mut decided: Option<Expr> = None;
    for (one, other) in same_length(one, other)?.rev() {
        decided = Some(match decided {
            None => binary(one, last.clone(), other),
            Some(rest) => {
                let before = binary(one.clone(), strict.clone(), other.clone());
                let rest = binary(equal(one, other), BinaryOperator::And, rest);
                binary(before, BinaryOperator::Or, rest)
            }
        });
    }
    Ok(decided.map(closed))
}

fn pairs(
    one: &[Expr],
    other: &[Expr],
    compare: impl Fn(Expr, Expr) -> Expr,
) -> Result<Vec<Expr>, Error> {
    let pairs = same_length(one, other)?;
    Ok(pairs.map(|(one, other)| compare(one, other)).collect())
}

fn same_length(
    one: &[Expr],
    other: &[Expr],
) -> Result<impl DoubleEndedIterator<Item = (Expr, Expr)>, Error> {
    if one.len() != other.len() {
        return Err(Error::Plan {
            message: format!(
                "a row of {} values is compared with one of {}; write as many on both sides",
                one.len(),
                other.len()
            ),
            position: other.first().and_then(|it| position(it.span())),
        });
    }
    let pairs: Vec<(Expr, Expr)> = one.iter().cloned().zip(other.iter().cloned()).collect();
    Ok(pairs.into_iter())
}

fn equal(one: Expr, other: Expr) -> Expr {
    binary(one, BinaryOperator::Eq, other)
}

fn distinct(one: Expr, other: Expr) -> Expr {
    Expr::IsDistinctFrom(boxed(one), boxed(other))
}

fn not_distinct(one: Expr, other: Expr) -> Expr {
    Expr::IsNotDistinctFrom(boxed(one), boxed(other))
}

fn all(conditions: Vec<Expr>) -> Option<Expr> {
    joined(conditions, &BinaryOperator::And)
}

fn any(conditions: Vec<Expr>) -> Option<Expr> {
    joined(conditions, &BinaryOperator::Or)
}

fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    if conditions.len() <= 1 {
        return conditions.pop().map(closed);
    }
    let second = conditions.split_off(conditions.len() / 2);
    let first = joined(conditions, op)?;
    Some(closed(binary(first, op.clone(), joined(second, op)?)))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: boxed(left),
        op,
        right: boxed(right),
    }
}

fn not_if(is_negated: bool, condition: Expr) -> Expr {
    if !is_negated {
        return condition;
    }
    closed(Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: boxed(condition),
    })
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(closed(expr))
}

/// In parentheses, so that no chain takes it apart.
fn closed(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(_)
        | Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Tuple(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}
