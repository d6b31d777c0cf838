//! Arguments of calls: values by their place or their name.
//!
//! Does: read them, say what an argument should have been. Does not: know what a call does.

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DateTimeField, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use nilometer_service::Span;
use nilometer_service::define::{Age, ChunkInterval, Path, TimeBound};

use crate::error::{Error, Position, syntax};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Name, position};
use crate::statement::settings::{span, width_ns};

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    Null,
    Text(String),
    Number(i64),
    Bool(bool),
    Interval(Span),
    /// So long before now.
    Ago(Span),
    /// A time, as it is written.
    Time(String),
    Range(String, Option<Box<Given>>),
    Hash(String, Option<i64>),
}

/// A point in time, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    Known(TimeBound),
    /// In the time zone of the session.
    Text(String),
}

/// The arguments of a call by their names.
pub(super) struct Arguments {
    function: String,
    named: Vec<(String, Given)>,
    pub(super) position: Option<Position>,
}

/// The arguments by their places; those of the form with a dimension are its own.
const OF_CREATE: [&str; 14] = [
    "relation",
    "time_column_name",
    "partitioning_column",
    "number_partitions",
    "associated_schema_name",
    "associated_table_prefix",
    "chunk_time_interval",
    "create_default_indexes",
    "if_not_exists",
    "partitioning_func",
    "migrate_data",
    "time_partitioning_func",
    "replication_factor",
    "data_nodes",
];
const OF_CREATE_BY: [&str; 5] = [
    "relation",
    "dimension",
    "create_default_indexes",
    "if_not_exists",
    "migrate_data",
];
const OF_DIMENSION: [&str; 6] = [
    "hypertable",
    "column_name",
    "number_partitions",
    "chunk_time_interval",
    "partitioning_func",
    "if_not_exists",
];
const OF_DIMENSION_BY: [&str; 3] = ["hypertable", "dimension", "if_not_exists"];
const OF_INTERVAL: [&str; 3] = ["hypertable", "chunk_time_interval", "dimension_name"];
const OF_RANGE: [&str; 3] = ["column_name", "partition_interval", "partition_func"];
const OF_HASH: [&str; 3] = ["column_name", "number_partitions", "partition_func"];

impl Arguments {
    pub(super) fn read(
        function: &str,
        arguments: &[FunctionArg],
        position: Option<Position>,
    ) -> Result<Self, Error> {
        let mut values = Vec::new();
        for argument in arguments {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. }
                | FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg,
                    ..
                } => (Some(Name::from(name).text), arg),
                FunctionArg::ExprNamed { .. } => return Err(no_value(function, position)),
            };
            let FunctionArgExpr::Expr(value) = value else {
                return Err(no_value(function, position));
            };
            values.push((name, given(value, function, position)?));
        }
        let is_by = |value: &Given| matches!(value, Given::Range(..) | Given::Hash(..));
        let is_by = values.iter().any(|(_, value)| is_by(value));
        let places: &[&str] = match (function, is_by) {
            ("create_hypertable", true) => &OF_CREATE_BY,
            ("create_hypertable", false) => &OF_CREATE,
            ("add_dimension", true) => &OF_DIMENSION_BY,
            ("add_dimension", false) => &OF_DIMENSION,
            ("by_range", _) => &OF_RANGE,
            ("by_hash", _) => &OF_HASH,
            ("set_partitioning_interval", _) => {
                &["hypertable", "partition_interval", "dimension_name"]
            }
            ("set_chunk_time_interval", _) => &OF_INTERVAL,
            _ => super::policies::places(function),
        };
        let mut named: Vec<(String, Given)> = Vec::new();
        for (at, (name, value)) in values.into_iter().enumerate() {
            let name = match name {
                Some(name) => name,
                None => match places.get(at) {
                    Some(name) => (*name).to_owned(),
                    None => {
                        return Err(plan(
                            format!("{function} has {} arguments at most", places.len()),
                            position,
                        ));
                    }
                },
            };
            if !places.contains(&name.as_str()) {
                let known = places.join(", ");
                return Err(plan(
                    format!("{function} has no argument {name}; it has {known}"),
                    position,
                ));
            }
            if named.iter().any(|(known, _)| *known == name) {
                return Err(plan(format!("{name} is named twice"), position));
            }
            named.push((name, value));
        }
        Ok(Self {
            function: function.to_owned(),
            named,
            position,
        })
    }

    /// The value of an argument, which is not asked for again; `None` = it is NULL, or was not given.
    pub(super) fn take(&mut self, name: &str) -> Option<Given> {
        let at = self.named.iter().position(|(known, _)| known == name)?;
        Some(self.named.swap_remove(at).1).filter(|value| *value != Given::Null)
    }

    /// Whether an argument was given and is not NULL.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut named = self.named.iter();
        named.any(|(known, value)| known == name && *value != Given::Null)
    }

    /// Whether an argument is one of these texts, in lower case.
    pub(super) fn is_text(&self, name: &str, texts: &[&str]) -> bool {
        let mut named = self.named.iter();
        named.any(|(known, value)| {
            known == name
                && matches!(value, Given::Text(text) if texts.contains(&text.to_lowercase().as_str()))
        })
    }

    pub(super) fn wrong(&self, name: &str, wanted: &str) -> Error {
        let function = &self.function;
        plan(format!("{name} of {function} is {wanted}"), self.position)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a name in single quotes")),
        }
    }

    pub(super) fn needed(&mut self, name: &str) -> Result<String, Error> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.wrong(name, "a name in single quotes, and is missing"))
    }

    pub(super) fn table(&mut self, name: &str) -> Result<Path, Error> {
        let text = self.needed(name)?;
        path(&text)
    }

    pub(super) fn is(&mut self, name: &str, otherwise: bool) -> Result<bool, Error> {
        match self.take(name) {
            None => Ok(otherwise),
            Some(Given::Bool(value)) => Ok(value),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    pub(super) fn partitions(&mut self, name: &str) -> Result<Option<i64>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Number(number)) if (1..=i64::from(i16::MAX)).contains(&number) => {
                Ok(Some(number))
            }
            Some(_) => Err(self.wrong(name, "a number from 1 to 32767")),
        }
    }

    pub(super) fn interval(&mut self, name: &str) -> Result<Option<ChunkInterval>, Error> {
        let value = self.take(name);
        value.map(|value| self.as_interval(name, value)).transpose()
    }

    pub(super) fn as_interval(&self, name: &str, value: Given) -> Result<ChunkInterval, Error> {
        match value {
            Given::Number(number) => Ok(ChunkInterval::Number(number)),
            Given::Interval(span) => self.width(name, span),
            Given::Text(text) => match span(&text) {
                Ok(span) => self.width(name, span),
                Err(why) => Err(self.wrong(name, &why)),
            },
            _ => Err(self.wrong(name, "an interval, or microseconds")),
        }
    }

    /// A width of chunks.
    fn width(&self, name: &str, span: Span) -> Result<ChunkInterval, Error> {
        let ns = width_ns(span);
        ns.map(ChunkInterval::Ns)
            .ok_or_else(|| self.wrong(name, "longer than 292 years"))
    }

    /// A length of time by the calendar.
    pub(super) fn span(&mut self, name: &str) -> Result<Option<Span>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Interval(span)) => Ok(Some(span)),
            Some(Given::Text(text)) => match span(&text) {
                Ok(span) => Ok(Some(span)),
                Err(why) => Err(self.wrong(name, &why)),
            },
            Some(_) => Err(self.wrong(name, "an interval, such as INTERVAL '1 day'")),
        }
    }

    /// A length of time as the table has times: an interval, or a number of a time that is an integer.
    pub(super) fn as_age(&self, name: &str, value: Given) -> Result<Age, Error> {
        match value {
            Given::Interval(span) => Ok(Age::Span(span)),
            Given::Number(number) => Ok(Age::Number(number)),
            Given::Text(text) => match span(&text) {
                Ok(span) => Ok(Age::Span(span)),
                Err(why) => Err(self.wrong(name, &why)),
            },
            _ => Err(self.wrong(name, "an interval, or a number of the time")),
        }
    }

    /// Whether an argument was given, be it NULL.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| known == name)
    }

    /// A number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<i64>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Number(number)) => Ok(Some(number)),
            Some(_) => Err(self.wrong(name, "a number")),
        }
    }

    /// A point in time.
    pub(super) fn bound(&mut self, name: &str) -> Result<Option<Bound>, Error> {
        Ok(match self.take(name) {
            None => None,
            Some(Given::Number(number)) => Some(Bound::Known(TimeBound::Number(number))),
            Some(Given::Interval(span) | Given::Ago(span)) => {
                Some(Bound::Known(TimeBound::Ago(span)))
            }
            Some(Given::Time(text) | Given::Text(text)) => Some(Bound::Text(text)),
            Some(_) => return Err(self.wrong(name, "a time, an interval or a number")),
        })
    }

    /// Refuses what would mean something else than what happens here.
    pub(super) fn refuse(&mut self, names: &[&str], why: &str) -> Result<(), Error> {
        for name in names {
            if self.take(name).is_some() {
                return Err(Error::Definition {
                    message: format!("{name} of {} is not supported: {why}", self.function),
                    fault: nilometer_service::Fault::Unsupported,
                    position: self.position,
                });
            }
        }
        Ok(())
    }
}

pub(super) const NO_FUNCTIONS: &str = "rows are divided by the values of columns; leave it out";

/// The value of an expression that is one.
pub(super) fn given(expr: &Expr, function: &str, at: Option<Position>) -> Result<Given, Error> {
    Ok(match expr {
        Expr::Nested(inner) => given(inner, function, at)?,
        Expr::Cast {
            expr, data_type, ..
        } => {
            let value = given(expr, function, at)?;
            match (value, data_type) {
                (Given::Text(text), ast::DataType::Interval { .. }) => Given::Interval(
                    span(&text).map_err(|why| plan(format!("{function}: {why}"), at))?,
                ),
                (Given::Text(text), kind) if is_time(kind) => Given::Time(text),
                (value, _) => value,
            }
        }
        Expr::TypedString(typed) if is_time(&typed.data_type) => match &typed.value.value {
            Value::SingleQuotedString(text) => Given::Time(text.clone()),
            _ => return Err(no_value(function, at)),
        },
        Expr::Value(value) => match &value.value {
            Value::Null => Given::Null,
            Value::Boolean(value) => Given::Bool(*value),
            Value::SingleQuotedString(text) => Given::Text(text.clone()),
            Value::Number(digits, _) => match digits.parse() {
                Ok(number) => Given::Number(number),
                Err(_) => return Err(no_value(function, position(value.span).or(at))),
            },
            _ => return Err(no_value(function, position(value.span).or(at))),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match given(expr, function, at)? {
            Given::Number(number) => Given::Number(-number),
            _ => return Err(no_value(function, at)),
        },
        Expr::Interval(interval) => {
            let Given::Text(text) = given(&interval.value, function, at)? else {
                return Err(no_value(function, at));
            };
            let unit = interval.leading_field.as_ref().map_or("", unit_of);
            let length = span(format!("{text} {unit}").trim());
            Given::Interval(length.map_err(|why| plan(format!("{function}: {why}"), at))?)
        }
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::Minus | BinaryOperator::Plus),
            right,
        } => match (given(left, function, at)?, given(right, function, at)?) {
            (Given::Ago(ago), Given::Interval(more)) => {
                let sign = if *op == BinaryOperator::Minus { 1 } else { -1 };
                let months = more.months.checked_mul(sign);
                let ns = more.ns.checked_mul(i64::from(sign));
                let months = months.and_then(|months| months.checked_add(ago.months));
                let ns = ns.and_then(|ns| ns.checked_add(ago.ns));
                match (months, ns) {
                    (Some(months), Some(ns)) => Given::Ago(Span { months, ns }),
                    _ => return Err(no_value(function, at)),
                }
            }
            _ => return Err(no_value(function, at)),
        },
        Expr::Function(call) => {
            let name = call.name.0.last().and_then(ast::ObjectNamePart::as_ident);
            let name = name.map(|name| Name::from(name).text).unwrap_or_default();
            if matches!(name.as_str(), "now" | "current_timestamp") {
                return Ok(Given::Ago(Span::default()));
            }
            let FunctionArguments::List(list) = &call.args else {
                return Err(no_value(function, at));
            };
            match name.as_str() {
                "by_range" => {
                    let mut own = Arguments::read(&name, &list.args, at)?;
                    own.refuse(&["partition_func"], NO_FUNCTIONS)?;
                    let interval = own.take("partition_interval").map(Box::new);
                    Given::Range(own.needed("column_name")?, interval)
                }
                "by_hash" => {
                    let mut own = Arguments::read(&name, &list.args, at)?;
                    own.refuse(&["partition_func"], NO_FUNCTIONS)?;
                    let partitions = own.partitions("number_partitions")?;
                    Given::Hash(own.needed("column_name")?, partitions)
                }
                _ => return Err(no_value(function, at)),
            }
        }
        _ => return Err(no_value(function, at)),
    })
}

fn unit_of(field: &DateTimeField) -> &'static str {
    match field {
        DateTimeField::Year | DateTimeField::Years => "years",
        DateTimeField::Month | DateTimeField::Months => "months",
        DateTimeField::Week(_) | DateTimeField::Weeks => "weeks",
        DateTimeField::Day | DateTimeField::Days => "days",
        DateTimeField::Hour | DateTimeField::Hours => "hours",
        DateTimeField::Minute | DateTimeField::Minutes => "minutes",
        DateTimeField::Second | DateTimeField::Seconds => "seconds",
        // What it is not, the reader of lengths says.
        _ => "of another unit",
    }
}

/// Whether a text that is cast to a type is a time.
fn is_time(kind: &ast::DataType) -> bool {
    match kind {
        ast::DataType::Timestamp(..) | ast::DataType::Date => true,
        ast::DataType::Custom(name, _) => {
            let name = name.to_string().to_ascii_lowercase();
            matches!(name.as_str(), "timestamptz" | "timestamp" | "date")
        }
        _ => false,
    }
}

/// A table's name as a text has it: `t`, `s.t`, `"T"`.
pub(super) fn path(text: &str) -> Result<Path, Error> {
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(&error.to_string()))?;
    let mut grammar = Grammar::new(tokens, &dialect);
    let path = grammar.path()?;
    grammar.end()?;
    Ok(path.names())
}

pub(super) fn plan(message: String, position: Option<Position>) -> Error {
    Error::Plan { message, position }
}

pub(super) fn no_value(function: &str, position: Option<Position>) -> Error {
    plan(
        format!(
            "the arguments of {function} are values: texts, numbers, intervals, true and false"
        ),
        position,
    )
}
