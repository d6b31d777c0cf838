//! VALUES that are literals: rows without a plan.
//!
//! Does: read each literal as its column takes it, with the place of the one that it cannot read; `now()` is one in a column of
//! moments. Does not: evaluate; with one other expression among them the planner does all of it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt32Array,
    UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArguments, UnaryOperator, Value, ValueWithSpan, Values,
};
use nilometer_engine::{NUMERIC_DIGITS_MAX, SQL_TYPE};
use nilometer_service::bytes_of_text;

use super::rows::{execution, fitted};
use crate::error::{Error, Position};
use crate::planning::templates::this_moment;
use crate::semantics::zone::Zone;
use crate::statement::name::position;
use crate::statement::params::time_text;
use crate::statement::types::{cast, null, timestamp_type};

/// A literal.
struct Literal<'a> {
    value: &'a Value,
    negative: bool,
    position: Option<Position>,
}

/// The columns of rows that are literals, in the order of `fields`; `None` = one is none, or a row has another length.
pub(super) fn read(
    values: &Values,
    fields: &[Field],
    zone: &Zone,
) -> Result<Option<Vec<ArrayRef>>, Error> {
    let is_literal = |row: &Vec<Expr>| {
        let mut values = row.iter().zip(fields);
        row.len() == fields.len() && values.all(|(value, field)| literal(value, field).is_some())
    };
    if !values.rows.iter().all(|row| is_literal(&row.content)) {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let literals = values
            .rows
            .iter()
            .filter_map(|row| literal(row.content.get(at)?, field));
        columns.push(column(literals, field, zone)?);
    }
    Ok(Some(columns))
}

/// Puts the time of the statement in the place of `now()` in columns of moments.
pub(super) fn put_now(rows: &mut [ast::Parens<Vec<Expr>>], fields: &[Field]) {
    let mut now = None;
    for row in rows {
        for (value, field) in row.content.iter_mut().zip(fields) {
            if matches!(field.data_type(), DataType::Timestamp(_, Some(_))) && is_now(value) {
                let text = time_text(*now.get_or_insert_with(this_moment));
                let text = Expr::value(Value::SingleQuotedString(text));
                *value = cast(text, timestamp_type());
            }
        }
    }
}

/// Whether an expression is `now()`, under whichever of the names that mean the time of the statement's transaction here.
fn is_now(expr: &Expr) -> bool {
    let Expr::Function(call) = expr else {
        return false;
    };
    let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else {
        return false;
    };
    let has_no_arguments = match &call.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let is_plain = call.over.is_none() && call.filter.is_none() && call.within_group.is_empty();
    let named = |known: &str| name.value.eq_ignore_ascii_case(known);
    name.quote_style.is_none()
        && has_no_arguments
        && is_plain
        && (named("now") || named("current_timestamp"))
}

/// The values of columns for each of so many rows, where they are literals that say the same in all; `None` = one is another
/// expression, or no value of its column.
pub(super) fn repeated(
    row: Vec<Expr>,
    fields: &[Field],
    zone: &Zone,
    rows: usize,
) -> Result<Option<Vec<ArrayRef>>, Error> {
    let mut values = Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![ast::Parens {
            opening_token: ast::helpers::attached_token::AttachedToken::empty(),
            content: row,
            closing_token: ast::helpers::attached_token::AttachedToken::empty(),
        }],
    };
    put_now(&mut values.rows, fields);
    // What is wrong with one is said by the planner: places in it are none of the statement.
    let Ok(Some(columns)) = read(&values, fields, zone) else {
        return Ok(None);
    };
    let first = UInt32Array::from(vec![0; rows]);
    let columns = columns.iter().map(|column| take(column, &first, None));
    columns
        .collect::<Result<_, _>>()
        .map(Some)
        .map_err(execution)
}

fn literal<'a>(expr: &'a Expr, field: &Field) -> Option<Literal<'a>> {
    let (value, negative) = match expr {
        Expr::Value(value) => (value, false),
        // A parameter that is a time.
        Expr::Cast {
            expr,
            data_type: ast::DataType::Timestamp(None, ast::TimezoneInfo::Tz),
            ..
        } if matches!(field.data_type(), DataType::Timestamp(..)) => match expr.as_ref() {
            Expr::Value(value) => (value, false),
            _ => return None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(value) if matches!(value.value, Value::Number(..)) => (value, true),
            _ => return None,
        },
        _ => return None,
    };
    let ValueWithSpan { value, span } = value;
    let is_known = matches!(
        value,
        Value::Null
            | Value::Boolean(_)
            | Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::HexStringLiteral(_)
    );
    is_known.then(|| Literal {
        value,
        negative,
        position: position(*span),
    })
}

fn column<'a>(
    literals: impl Iterator<Item = Literal<'a>>,
    field: &Field,
    zone: &Zone,
) -> Result<ArrayRef, Error> {
    if field.metadata().contains_key(SQL_TYPE) && !is_moment(field) {
        // The engine reads a declared type from its text, exactly.
        let values = all(literals, field, declared)?;
        return Ok(Arc::new(values.collect::<StringArray>()));
    }
    Ok(match field.data_type() {
        DataType::Int64 => Arc::new(all(literals, field, number::<i64>)?.collect::<Int64Array>()),
        DataType::UInt64 => Arc::new(all(literals, field, number::<u64>)?.collect::<UInt64Array>()),
        DataType::Float64 => {
            Arc::new(all(literals, field, number::<f64>)?.collect::<Float64Array>())
        }
        DataType::Boolean => Arc::new(all(literals, field, truth)?.collect::<BooleanArray>()),
        DataType::Binary => {
            let values = all(literals, field, bytes)?.collect::<Vec<_>>();
            let values = values.iter().map(Option::as_deref);
            Arc::new(values.collect::<BinaryArray>())
        }
        DataType::Timestamp(..) | DataType::Date32 | DataType::List(_) => {
            let mut columns = Vec::new();
            // One by one, so that what is wrong has its place.
            for literal in literals {
                let at = literal.position;
                let one = all(std::iter::once(literal), field, quoted)?;
                let one: ArrayRef = Arc::new(one.collect::<StringArray>());
                columns.push(fitted(&one, field, at, zone)?);
            }
            let parts: Vec<&dyn arrow::array::Array> = columns.iter().map(AsRef::as_ref).collect();
            arrow::compute::concat(&parts).map_err(execution)?
        }
        _ => Arc::new(all(literals, field, text)?.collect::<StringArray>()),
    })
}

/// Whether a column has moments, or arrays of them, whose texts mean something in the session's time zone.
fn is_moment(field: &Field) -> bool {
    match field.data_type() {
        DataType::List(of) => matches!(of.data_type(), DataType::Timestamp(_, Some(_))),
        kind => matches!(kind, DataType::Timestamp(_, Some(_))),
    }
}

/// The text of a literal for a column of a declared type.
fn declared(literal: &Literal<'_>) -> Option<String> {
    match literal.value {
        Value::Boolean(_) | Value::HexStringLiteral(_) => None,
        _ => text(literal),
    }
}

/// Gives texts among values that are not all literals the types of their columns, as they have alone.
pub(super) fn typed(values: &mut Values, fields: &[Field]) {
    for (at, field) in fields.iter().enumerate() {
        if matches!(field.data_type(), DataType::List(_)) {
            arrays_as_texts(values, at);
        }
    }
    for row in &mut values.rows {
        for (value, field) in row.content.iter_mut().zip(fields) {
            let is_declared = field.metadata().contains_key(SQL_TYPE) && !is_moment(field);
            let kind = match field.data_type() {
                DataType::Decimal128(..) if is_declared => {
                    if let Some(exact) = exact(value) {
                        *value = exact;
                    }
                    continue;
                }
                _ if is_declared => continue,
                DataType::Timestamp(_, None) => {
                    ast::DataType::Timestamp(None, ast::TimezoneInfo::None)
                }
                DataType::Timestamp(..) => timestamp_type(),
                DataType::Date32 => ast::DataType::Date,
                DataType::Float64 => ast::DataType::DoublePrecision,
                DataType::Int64 => ast::DataType::BigInt(None),
                DataType::UInt64 => ast::DataType::BigIntUnsigned(None),
                DataType::Boolean => ast::DataType::Boolean,
                _ => continue,
            };
            if let Expr::Value(text) = value
                && matches!(text.value, Value::SingleQuotedString(_))
            {
                let text = Expr::Value(text.clone());
                *value = cast(text, kind);
            }
        }
    }
}

/// Gives arrays of a column the form of those that are written as texts, if there are such: the planner takes no column of both.
fn arrays_as_texts(values: &mut Values, at: usize) {
    let is_text = |value: &Expr| matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let rows = values.rows.iter();
    let mut column = rows.filter_map(|row| row.content.get(at));
    if !column.any(is_text) {
        return;
    }
    for row in &mut values.rows {
        if let Some(value) = row.content.get_mut(at)
            && !matches!(value, Expr::Value(_))
        {
            let array = std::mem::replace(value, null());
            *value = cast(array, ast::DataType::Text);
        }
    }
}

/// A number as a decimal with all its digits, which the planner would read as a float; `None` = it is none, or too long.
fn exact(value: &Expr) -> Option<Expr> {
    let (written, sign) = match value {
        Expr::Value(written) => (&written.value, ""),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(written) => (&written.value, "-"),
            _ => return None,
        },
        _ => return None,
    };
    let Value::Number(text, _) = written else {
        return None;
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let whole_digits = whole.trim_start_matches('0').len().max(1);
    let digits = whole_digits + fraction.len();
    if !is_plain(whole) || !is_plain(fraction) || digits > usize::from(NUMERIC_DIGITS_MAX) {
        return None;
    }
    let precision = u64::try_from(digits).ok()?;
    let scale = i64::try_from(fraction.len()).ok()?;
    let text = Value::SingleQuotedString(format!("{sign}{text}"));
    let info = ast::ExactNumberInfo::PrecisionAndScale(precision, scale);
    Some(cast(Expr::value(text), ast::DataType::Numeric(info)))
}

/// The values, each read by `read`; `None` = NULL.
fn all<'a, T>(
    literals: impl Iterator<Item = Literal<'a>>,
    field: &Field,
    read: impl Fn(&Literal<'_>) -> Option<T>,
) -> Result<std::vec::IntoIter<Option<T>>, Error> {
    let values: Result<Vec<Option<T>>, Error> = literals
        .map(|literal| match literal.value {
            Value::Null => Ok(None),
            _ => match read(&literal) {
                Some(value) => Ok(Some(value)),
                None => Err(refused(&literal, field)),
            },
        })
        .collect();
    Ok(values?.into_iter())
}

fn refused(literal: &Literal<'_>, field: &Field) -> Error {
    let kind = crate::statement::types::name_of_arrow(field.data_type());
    let sign = if literal.negative { "-" } else { "" };
    let remedy = match field.data_type() {
        DataType::Timestamp(..) => "; write it as text, such as '2026-01-31T12:00:00Z'",
        _ => "",
    };
    Error::Plan {
        message: format!(
            "{sign}{} is no value for the column \"{}\" of type {kind}{remedy}",
            literal.value,
            field.name()
        ),
        position: literal.position,
    }
}

fn digits(literal: &Literal<'_>) -> Option<String> {
    let sign = if literal.negative { "-" } else { "" };
    match literal.value {
        Value::Number(digits, _) => Some(format!("{sign}{digits}")),
        Value::SingleQuotedString(text) => Some(text.trim().to_owned()),
        _ => None,
    }
}

fn number<T: std::str::FromStr>(literal: &Literal<'_>) -> Option<T> {
    digits(literal)?.parse().ok()
}

fn truth(literal: &Literal<'_>) -> Option<bool> {
    match literal.value {
        Value::Boolean(value) => Some(*value),
        Value::SingleQuotedString(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "on" | "yes" | "1" => Some(true),
            "false" | "f" | "off" | "no" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn text(literal: &Literal<'_>) -> Option<String> {
    match literal.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        Value::Number(..) => digits(literal),
        _ => None,
    }
}

fn quoted(literal: &Literal<'_>) -> Option<String> {
    match literal.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

/// `X'00ff'`, or a text as PostgreSQL reads it.
fn bytes(literal: &Literal<'_>) -> Option<Vec<u8>> {
    match literal.value {
        Value::HexStringLiteral(digits) => bytes_of_text(&format!("\\x{digits}")).ok(),
        Value::SingleQuotedString(text) => bytes_of_text(text).ok(),
        _ => None,
    }
}
