//! Calls that change a table: `SELECT create_hypertable('t', 'time')` and its kin.
//!
//! Does: tell such a statement by its tokens, read its arguments by place and by name, refuse what has no meaning here. Does not:
//! carry it out (`nilometer_service::define` does).

mod arguments;
mod policies;
mod refresh;
mod rows;
pub(crate) mod together;
mod what;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, TableFactor,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::define::{NewDimension, NewHypertable};

use super::name::Name;
use crate::error::{Error, Position};
use arguments::{Arguments, Given, NO_FUNCTIONS};

pub(crate) use arguments::Bound;
pub(crate) use rows::CallOfRows;
pub(super) use rows::read_rows;
pub(crate) use what::What;

/// The functions that are a statement of their own.
const NAMES: [&str; 4] = [
    "add_dimension",
    "create_hypertable",
    "set_chunk_time_interval",
    "set_partitioning_interval",
];

/// Tokens in front of the function's name that are looked at: `SELECT count(*) AS n FROM (SELECT f`.
const FRONT_MAX: usize = 12;

/// A call that changes a table.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) what: What,
    /// Whether its answer is a table, and not one value of all columns.
    pub(crate) is_table: bool,
    /// The columns of the table that are asked for, with their headings; `None` = all.
    pub(crate) columns: Option<Vec<(Name, String)>>,
    /// By `by_range` or `by_hash`, which have a shorter answer.
    pub(crate) is_by_dimension: bool,
    /// By CALL, which answers nothing.
    pub(crate) is_procedure: bool,
    /// Its name.
    pub(crate) function: String,
    /// What its column is called, where it answers one.
    pub(crate) heading: String,
    pub(crate) position: Option<Position>,
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
        .is_some_and(|first| is(first, &|it| matches!(it, "select" | "call")))
        && front.any(|token| is(token, &is_name))
}

fn is_name(name: &str) -> bool {
    NAMES.contains(&name) || policies::is_name(name)
}

/// A call as it is written.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a way to write a call"
)]
struct Written<'a> {
    function: String,
    arguments: &'a [FunctionArg],
    is_table: bool,
    /// Nothing else is in the statement.
    is_alone: bool,
    is_procedure: bool,
    /// It is called for the rows of something.
    has_rows: bool,
    /// The answers of its rows are counted.
    is_counted: bool,
    /// What its column is called.
    alias: Option<String>,
    columns: Option<Vec<(Name, String)>>,
    position: Option<Position>,
}

/// The call that a statement is; `None` = it is another statement.
fn written(statement: &ast::Statement) -> Option<Written<'_>> {
    if let ast::Statement::Call(function) = statement {
        let FunctionArguments::List(list) = &function.args else {
            return None;
        };
        let called = function
            .name
            .0
            .last()
            .and_then(ast::ObjectNamePart::as_ident);
        let called = Name::from(called?);
        return is_name(&called.text).then_some(Written {
            function: called.text,
            arguments: &list.args,
            is_table: false,
            is_alone: true,
            is_procedure: true,
            has_rows: false,
            is_counted: false,
            alias: None,
            columns: None,
            position: called.position,
        });
    }
    let ast::Statement::Query(query) = statement else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let mut is_counted = false;
    let (name, arguments, is_table) = match (select.projection.as_slice(), select.from.as_slice()) {
        (
            [
                SelectItem::UnnamedExpr(Expr::Function(function))
                | SelectItem::ExprWithAlias {
                    expr: Expr::Function(function),
                    ..
                },
            ],
            _,
        ) => {
            let inner = counted(function);
            is_counted = inner.is_some();
            let function = inner.unwrap_or(function);
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            (&function.name, list.args.as_slice(), false)
        }
        (_, [from]) if from.joins.is_empty() => match &from.relation {
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
    let columns = match select.projection.as_slice() {
        _ if !is_table => None,
        [SelectItem::Wildcard(_)] => None,
        items => Some(items.iter().map(column).collect::<Option<_>>()?),
    };
    let called = name.0.last().and_then(ast::ObjectNamePart::as_ident)?;
    let called = Name::from(called);
    let alias = match select.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => Some(Name::from(alias).text),
        _ => None,
    };
    let mut is_alone = select.selection.is_none() && query.order_by.is_none();
    is_alone &= query.with.is_none() && query.limit_clause.is_none() && select.having.is_none();
    is_name(&called.text).then_some(Written {
        function: called.text,
        arguments,
        is_table,
        is_alone,
        is_procedure: false,
        has_rows: !is_table && !select.from.is_empty(),
        is_counted,
        alias,
        columns,
        position: called.position,
    })
}

/// The call in `count(call)`.
fn counted(function: &ast::Function) -> Option<&ast::Function> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))] = list.args.as_slice()
    else {
        return None;
    };
    let is_plain = list.duplicate_treatment.is_none() && function.filter.is_none();
    let is_count = function.name.to_string().eq_ignore_ascii_case("count");
    (is_plain && is_count && function.over.is_none()).then_some(inner)
}

/// A column of what a call answers as a table, and its heading.
fn column(item: &SelectItem) -> Option<(Name, String)> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(Name::from(alias).text)),
        _ => return None,
    };
    let name = match expr {
        Expr::Identifier(name) => Name::from(name),
        Expr::CompoundIdentifier(parts) => Name::from(parts.last()?),
        _ => return None,
    };
    let heading = alias.unwrap_or_else(|| name.text.clone());
    Some((name, heading))
}

/// Whether a statement is a call, whatever its arguments are.
pub(super) fn is_call(statement: &ast::Statement) -> bool {
    written(statement).is_some() || rows::counted_outside(statement).is_some()
}

/// Reads a call; `None` = it is another statement.
pub(super) fn read(statement: &ast::Statement) -> Result<Option<Call>, Error> {
    let Some(call) = written(statement) else {
        return Ok(None);
    };
    let (function, at, is_table) = (call.function, call.position, call.is_table);
    if let Some(refused) = policies::refuse(&function) {
        return Err(refused);
    }
    if !call.is_alone || call.has_rows || call.is_counted {
        return Err(Error::Unsupported {
            statement: format!("{function} in a query"),
            instead: "send SELECT and the call alone",
        });
    }
    let given = Arguments::read(&function, call.arguments, at)?;
    let (what, is_by_dimension) = match function.as_str() {
        "create_hypertable" => create(given)?,
        "add_dimension" => dimension(given)?,
        "set_chunk_time_interval" | "set_partitioning_interval" => (interval(given)?, false),
        _ => (policies::read(&function, given)?, false),
    };
    Ok(Some(Call {
        what,
        is_table,
        columns: call.columns,
        is_by_dimension,
        is_procedure: call.is_procedure,
        heading: call.alias.unwrap_or_else(|| function.clone()),
        function,
        position: at,
    }))
}

const ONE_SERVER: &str = "there is one server; leave it out, or NULL";
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
