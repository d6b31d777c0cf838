//! Values that come beside a statement: `$name` and `$1` stand for them.
//!
//! Does: put the values into the parsed statement as literals, so that what plans or writes it sees no difference. Does
//! not: put text into text; a value never becomes SQL.

pub(crate) mod types;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use nilometer_engine::nearest;
use nilometer_service::{Param, Params};

use super::name::position;
use super::types::{cast, timestamp_type};
use crate::error::{Error, Position};
use crate::walk;

/// Puts the values into a statement.
pub(super) fn fill(params: &Params, statement: &mut impl VisitMut) -> Result<(), Error> {
    let mut fill = Fill {
        params,
        failed: None,
    };
    walk::visit_mut(statement, &mut fill);
    fill.failed.map_or(Ok(()), Err)
}

fn literal_of(
    params: &Params,
    placeholder: &str,
    position: Option<Position>,
) -> Result<Expr, Error> {
    let Some(name) = placeholder
        .strip_prefix('$')
        .filter(|name| !name.is_empty())
    else {
        return Err(Error::Parameter {
            name: placeholder.to_owned(),
            reason: "write $name for a value by name, or $1 for the first one by number".to_owned(),
            position,
        });
    };
    let number: Option<usize> = name.parse().ok();
    let numbered = number.and_then(|number| params.numbered(number));
    match numbered.or_else(|| params.named(name)) {
        Some(value) => Ok(literal(value)),
        None => Err(Error::Parameter {
            name: placeholder.to_owned(),
            reason: missing(params, name, number.is_some()),
            position,
        }),
    }
}

fn missing(params: &Params, name: &str, is_number: bool) -> String {
    if is_number {
        return format!("{} values were given by number", params.numbers());
    }
    match nearest(name, params.names().map(str::to_owned)) {
        Some(near) => format!("no value of this name was given; did you mean \"${near}\"?"),
        None => "no value of this name was given; add it to the parameters".to_owned(),
    }
}

fn literal(value: &Param) -> Expr {
    match value {
        Param::Null => Expr::value(Value::Null),
        Param::Bool(value) => Expr::value(Value::Boolean(*value)),
        Param::I64(value) => number(value.unsigned_abs().to_string(), *value < 0),
        Param::U64(value) => number(value.to_string(), false),
        Param::F64(value) if value.is_finite() => {
            number(format!("{:e}", value.abs()), value.is_sign_negative())
        }
        Param::F64(value) => cast(text(&value.to_string()), ast::DataType::DoublePrecision),
        Param::Text(value) => text(value),
        // As text: a cast would take a number for seconds.
        Param::Time(value) => cast(text(&time_text(*value)), timestamp_type()),
        Param::Bytes(value) => {
            let digits = value.iter().map(|byte| format!("{byte:02X}"));
            Expr::value(Value::HexStringLiteral(digits.collect()))
        }
        Param::List(values) => Expr::Array(ast::Array {
            elem: values.iter().map(literal).collect(),
            named: true,
        }),
        Param::Of { kind, value } => of_kind(kind, value),
    }
}

/// A value that says what it is to be, in one of SQL's words; of another word it is what it is.
fn of_kind(kind: &str, value: &Param) -> Expr {
    let written = match value {
        Param::Text(written) => written.clone(),
        Param::Null => return null_of(kind),
        Param::Time(time_ns) if kind == "timestamp" => {
            let time = chrono::DateTime::from_timestamp_nanos(*time_ns).naive_utc();
            time.to_string()
        }
        other => return literal(other),
    };
    let kind = match kind {
        "timestamptz" => timestamp_type(),
        "timestamp" => ast::DataType::Timestamp(None, ast::TimezoneInfo::None),
        "date" => ast::DataType::Date,
        "time" => ast::DataType::Time(None, ast::TimezoneInfo::None),
        "interval" => ast::DataType::Interval {
            fields: None,
            precision: None,
        },
        "numeric" => {
            let digits = written.strip_prefix('-');
            return number(digits.unwrap_or(&written).to_owned(), digits.is_some());
        }
        _ => return text(&written),
    };
    if matches!(kind, ast::DataType::Interval { .. }) {
        return cast(text(&without_clocks(&written)), kind);
    }
    cast(text(&written), kind)
}

/// An interval in which `2:00:00.5` is written as hours, minutes and seconds: the planner reads no clocks.
fn without_clocks(interval: &str) -> String {
    let words = interval.split_whitespace().map(|word| {
        if !word.contains(':') {
            return word.to_owned();
        }
        let (sign, clock) = match word.strip_prefix('-') {
            Some(clock) => ("-", clock),
            None => ("", word.trim_start_matches('+')),
        };
        let units = ["hours", "minutes", "seconds"];
        let parts = clock.split(':').zip(units);
        let parts = parts.map(|(number, unit)| format!("{sign}{number} {unit}"));
        parts.collect::<Vec<_>>().join(" ")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// NULL of a type, for a statement that is planned before it has values.
fn null_of(kind: &str) -> Expr {
    let kind = match kind {
        "timestamptz" => timestamp_type(),
        "timestamp" => ast::DataType::Timestamp(None, ast::TimezoneInfo::None),
        "date" => ast::DataType::Date,
        "time" => ast::DataType::Time(None, ast::TimezoneInfo::None),
        "boolean" => ast::DataType::Boolean,
        "smallint" => ast::DataType::SmallInt(None),
        "integer" => ast::DataType::Integer(None),
        "double precision" => ast::DataType::DoublePrecision,
        "numeric" => ast::DataType::Numeric(ast::ExactNumberInfo::None),
        "bytea" => ast::DataType::Bytea,
        "text" => ast::DataType::Text,
        _ => return Expr::value(Value::Null),
    };
    cast(Expr::value(Value::Null), kind)
}

/// A time as the text that it is cast from.
pub(crate) fn time_text(time_ns: i64) -> String {
    chrono::DateTime::from_timestamp_nanos(time_ns).to_rfc3339()
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}

fn number(digits: String, negative: bool) -> Expr {
    let digits = Expr::value(Value::Number(digits, false));
    if !negative {
        return digits;
    }
    Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(digits),
    }
}

struct Fill<'a> {
    params: &'a Params,
    failed: Option<Error>,
}

impl VisitorMut for Fill<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(ValueWithSpan {
            value: Value::Placeholder(name),
            span,
        }) = expr
        {
            match literal_of(self.params, name, position(*span)) {
                Ok(literal) => *expr = literal,
                Err(error) => {
                    self.failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An interval as psycopg sends it, `1 day 2:00:00.000003`, was a syntax error.
    #[test]
    fn clocks_in_intervals_become_units() {
        for (written, read) in [
            ("1 day 2:00:00.5", "1 day 2 hours 00 minutes 00.5 seconds"),
            ("-2:30:00", "-2 hours -30 minutes -00 seconds"),
            ("+00:01", "00 hours 01 minutes"),
            ("3 mons 1 day", "3 mons 1 day"),
        ] {
            assert_eq!(without_clocks(written), read, "{written}");
        }
    }
}
