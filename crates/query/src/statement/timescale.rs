//! Calls that change a table: `SELECT create_hypertable('t', 'time')` and its kin.
//!
//! Does: tell such a statement by its tokens, read its arguments by place and by name, refuse what has no meaning here. Does not:
//! carry it out (`nilometer_service::define` does).

use datafusion::sql::sqlparser::ast::{
    self, DateTimeField, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem,
    SetExpr, TableFactor, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use nilometer_service::define::{ChunkInterval, NewDimension, NewHypertable, Path};

use super::grammar::Grammar;
use super::name::{Name, position};
use super::settings::duration_ns;
use crate::error::{Error, Position, syntax};

/// The functions that are a statement of their own.
const NAMES: [&str; 4] = [
    "add_dimension",
    "create_hypertable",
    "set_chunk_time_interval",
    "set_partitioning_interval",
];

/// Tokens in front of the function's name that are looked at.
const FRONT_MAX: usize = 8;

/// A call that changes a table.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) what: What,
    /// Whether its answer is a table, and not one value of all columns.
    pub(crate) is_table: bool,
    /// By `by_range` or `by_hash`, which have a shorter answer.
    pub(crate) is_by_dimension: bool,
    pub(crate) position: Option<Position>,
}

/// What is called.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Create(NewHypertable),
    Dimension(NewDimension),
    Interval(Path, ChunkInterval),
}

/// Whether a statement may be such a call.
pub(super) fn mentions(tokens: &[TokenWithSpan]) -> bool {
    let significant = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut front = significant.take(FRONT_MAX);
    let is = |token: &Token, known: &dyn Fn(&str) -> bool| matches!(token, Token::Word(word) if known(&word.value.to_ascii_lowercase()));
    front
        .next()
        .is_some_and(|first| is(first, &|it| it == "select"))
        && front.any(|token| is(token, &|it| NAMES.contains(&it)))
}

/// A call as it is written.
struct Written<'a> {
    function: String,
    arguments: &'a [FunctionArg],
    is_table: bool,
    /// Nothing else is in the statement.
    is_alone: bool,
    position: Option<Position>,
}

/// The call that a statement is; `None` = it is another statement.
fn written(statement: &ast::Statement) -> Option<Written<'_>> {
    let ast::Statement::Query(query) = statement else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let (name, arguments, is_table) = match (select.projection.as_slice(), select.from.as_slice()) {
        ([SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }], []) => {
            let Expr::Function(function) = expr else {
                return None;
            };
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            (&function.name, list.args.as_slice(), false)
        }
        ([SelectItem::Wildcard(_)], [from]) if from.joins.is_empty() => match &from.relation {
            TableFactor::Table {
                name,
                args: Some(args),
                ..
            } => (name, args.args.as_slice(), true),
            TableFactor::Function { name, args, .. } => (name, args.as_slice(), true),
            _ => return None,
        },
        _ => return None,
    };
    let called = name.0.last().and_then(ast::ObjectNamePart::as_ident)?;
    let called = Name::from(called);
    let mut is_alone = select.selection.is_none() && query.order_by.is_none();
    is_alone &= query.with.is_none() && query.limit_clause.is_none() && select.having.is_none();
    NAMES.contains(&called.text.as_str()).then_some(Written {
        function: called.text,
        arguments,
        is_table,
        is_alone,
        position: called.position,
    })
}

/// Whether a statement is a call, whatever its arguments are.
pub(super) fn is_call(statement: &ast::Statement) -> bool {
    written(statement).is_some()
}

/// Reads a call; `None` = it is another statement.
pub(super) fn read(statement: &ast::Statement) -> Result<Option<Call>, Error> {
    let Some(call) = written(statement) else {
        return Ok(None);
    };
    let (function, at, is_table) = (call.function, call.position, call.is_table);
    if !call.is_alone {
        return Err(Error::Unsupported {
            statement: format!("{function} in a query"),
            instead: "send SELECT and the call alone",
        });
    }
    let arguments = call.arguments;
    let given = Arguments::read(&function, arguments, at)?;
    let (what, is_by_dimension) = match function.as_str() {
        "create_hypertable" => create(given)?,
        "add_dimension" => dimension(given)?,
        _ => (interval(given)?, false),
    };
    Ok(Some(Call {
        what,
        is_table,
        is_by_dimension,
        position: at,
    }))
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
enum Given {
    Null,
    Text(String),
    Number(i64),
    Bool(bool),
    /// Nanoseconds.
    Interval(i64),
    Range(String, Option<Box<Given>>),
    Hash(String, Option<i64>),
}

/// The arguments of a call by their names.
struct Arguments {
    function: String,
    named: Vec<(String, Given)>,
    position: Option<Position>,
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
    fn read(
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
            _ => &OF_INTERVAL,
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
    fn take(&mut self, name: &str) -> Option<Given> {
        let at = self.named.iter().position(|(known, _)| known == name)?;
        Some(self.named.swap_remove(at).1).filter(|value| *value != Given::Null)
    }

    fn wrong(&self, name: &str, wanted: &str) -> Error {
        let function = &self.function;
        plan(format!("{name} of {function} is {wanted}"), self.position)
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a name in single quotes")),
        }
    }

    fn needed(&mut self, name: &str) -> Result<String, Error> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.wrong(name, "a name in single quotes, and is missing"))
    }

    fn table(&mut self, name: &str) -> Result<Path, Error> {
        let text = self.needed(name)?;
        path(&text)
    }

    fn is(&mut self, name: &str, otherwise: bool) -> Result<bool, Error> {
        match self.take(name) {
            None => Ok(otherwise),
            Some(Given::Bool(value)) => Ok(value),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    fn partitions(&mut self, name: &str) -> Result<Option<i64>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Given::Number(number)) if (1..=i64::from(i16::MAX)).contains(&number) => {
                Ok(Some(number))
            }
            Some(_) => Err(self.wrong(name, "a number from 1 to 32767")),
        }
    }

    fn interval(&mut self, name: &str) -> Result<Option<ChunkInterval>, Error> {
        let value = self.take(name);
        value.map(|value| self.as_interval(name, value)).transpose()
    }

    fn as_interval(&self, name: &str, value: Given) -> Result<ChunkInterval, Error> {
        match value {
            Given::Number(number) => Ok(ChunkInterval::Number(number)),
            Given::Interval(ns) => Ok(ChunkInterval::Ns(ns)),
            Given::Text(text) => {
                let ns = duration_ns(&text).map_err(|why| self.wrong(name, &why))?;
                Ok(ChunkInterval::Ns(ns))
            }
            _ => Err(self.wrong(name, "an interval, or microseconds")),
        }
    }

    /// Refuses what would mean something else than what happens here.
    fn refuse(&mut self, names: &[&str], why: &str) -> Result<(), Error> {
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

const ONE_SERVER: &str = "there is one server; leave it out, or NULL";
const NO_FUNCTIONS: &str = "rows are divided by the values of columns; leave it out";
const NO_NAMES: &str = "partitions have no names here; leave it out";

fn create(mut given: Arguments) -> Result<(What, bool), Error> {
    given.refuse(
        &["partitioning_func", "time_partitioning_func"],
        NO_FUNCTIONS,
    )?;
    given.refuse(
        &["associated_schema_name", "associated_table_prefix"],
        NO_NAMES,
    )?;
    given.refuse(&["data_nodes"], ONE_SERVER)?;
    // One copy of each row is what there is.
    if !matches!(
        given.take("replication_factor"),
        None | Some(Given::Number(1))
    ) {
        return Err(Error::Definition {
            message: format!("replication_factor of create_hypertable: {ONE_SERVER}"),
            fault: nilometer_service::Fault::Unsupported,
            position: given.position,
        });
    }
    let path = given.table("relation")?;
    let dimension = given.take("dimension");
    let is_by = dimension.is_some();
    let (time, space, interval) = match dimension {
        Some(Given::Range(column, interval)) => {
            let interval = interval.map(|it| given.as_interval("partition_interval", *it));
            (column, None, interval.transpose()?)
        }
        Some(_) => return Err(given.wrong("dimension", "by_range('time'), the time itself")),
        None => {
            let time = given.needed("time_column_name")?;
            let column = given.text("partitioning_column")?;
            let partitions = given.partitions("number_partitions")?;
            let space = column.map(|column| (column, partitions));
            (time, space, given.interval("chunk_time_interval")?)
        }
    };
    let new = NewHypertable {
        path,
        time,
        space,
        interval,
        has_default_indexes: given.is("create_default_indexes", true)?,
        if_not_exists: given.is("if_not_exists", false)?,
        migrate_data: given.is("migrate_data", false)?,
    };
    Ok((What::Create(new), is_by))
}

fn dimension(mut given: Arguments) -> Result<(What, bool), Error> {
    given.refuse(&["partitioning_func"], NO_FUNCTIONS)?;
    let path = given.table("hypertable")?;
    let if_not_exists = given.is("if_not_exists", false)?;
    given.refuse(
        &["chunk_time_interval"],
        "a table is cut by one time; see set_chunk_time_interval",
    )?;
    let dimension = given.take("dimension");
    let is_by = dimension.is_some();
    let (column, partitions) = match dimension {
        Some(Given::Hash(column, partitions)) => (column, partitions),
        Some(_) => {
            return Err(given.wrong(
                "dimension",
                "by_hash('column', 4): a table is cut by one time",
            ));
        }
        None => (
            given.needed("column_name")?,
            given.partitions("number_partitions")?,
        ),
    };
    let new = NewDimension {
        path,
        column,
        partitions,
        if_not_exists,
    };
    Ok((What::Dimension(new), is_by))
}

fn interval(mut given: Arguments) -> Result<What, Error> {
    let path = given.table("hypertable")?;
    given.refuse(
        &["dimension_name"],
        "a table is cut by one time; leave it out",
    )?;
    let names = ["chunk_time_interval", "partition_interval"];
    let interval = match given.interval(names[0])? {
        Some(interval) => Some(interval),
        None => given.interval(names[1])?,
    };
    let interval = interval.ok_or_else(|| given.wrong(names[0], "missing"))?;
    Ok(What::Interval(path, interval))
}

/// The value of an expression that is one.
fn given(expr: &Expr, function: &str, at: Option<Position>) -> Result<Given, Error> {
    Ok(match expr {
        Expr::Nested(inner) => given(inner, function, at)?,
        Expr::Cast {
            expr, data_type, ..
        } => {
            let value = given(expr, function, at)?;
            match (value, data_type) {
                (Given::Text(text), ast::DataType::Interval { .. }) => Given::Interval(
                    duration_ns(&text).map_err(|why| plan(format!("{function}: {why}"), at))?,
                ),
                (value, _) => value,
            }
        }
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
            let ns = duration_ns(format!("{text} {unit}").trim());
            Given::Interval(ns.map_err(|why| plan(format!("{function}: {why}"), at))?)
        }
        Expr::Function(call) => {
            let name = call.name.0.last().and_then(ast::ObjectNamePart::as_ident);
            let name = name.map(|name| Name::from(name).text).unwrap_or_default();
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
        DateTimeField::Week(_) | DateTimeField::Weeks => "weeks",
        DateTimeField::Day | DateTimeField::Days => "days",
        DateTimeField::Hour | DateTimeField::Hours => "hours",
        DateTimeField::Minute | DateTimeField::Minutes => "minutes",
        DateTimeField::Second | DateTimeField::Seconds => "seconds",
        // What it is not, the reader of lengths says.
        _ => "months",
    }
}

/// A table's name as a text has it: `t`, `s.t`, `"T"`.
fn path(text: &str) -> Result<Path, Error> {
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(&error.to_string()))?;
    let mut grammar = Grammar::new(tokens, &dialect);
    let path = grammar.path()?;
    grammar.end()?;
    Ok(path.names())
}

fn plan(message: String, position: Option<Position>) -> Error {
    Error::Plan { message, position }
}

fn no_value(function: &str, position: Option<Position>) -> Error {
    plan(
        format!(
            "the arguments of {function} are values: texts, numbers, intervals, true and false"
        ),
        position,
    )
}
