//! Types of parameters before they have values, from where they stand.
//!
//! Does: look at what a placeholder is compared with, cast to, written to or counted by, and give statements values to be
//! planned with that have these types. Does not: look names up (who asks does), or decide: what nothing says is a text, as
//! in PostgreSQL.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    LimitClause, ObjectName, Query, SetExpr, TableFactor, TableObject, Value, ValueWithSpan,
    Visitor,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_engine::SQL_TYPE;
use nilometer_service::{Param, Params};

use crate::statement::name::Name;
use crate::statement::rewrite::acquisition::time_of;
use crate::walk;

/// The most parameters that a statement has.
const NUMBERS_MAX: usize = 65_535;

/// How many parameters by number there are: the largest one.
pub(crate) fn numbers(tokens: &[TokenWithSpan]) -> usize {
    let numbers = tokens.iter().filter_map(|token| match &token.token {
        Token::Placeholder(name) => name.strip_prefix('$')?.parse::<usize>().ok(),
        _ => None,
    });
    numbers.max().unwrap_or(0).min(NUMBERS_MAX)
}

/// Values that a statement can be planned with, before there are others: NULL of each type, and one where a statement
/// needs a number or a length of time to be planned at all.
pub(crate) fn stand_ins(types: &[DataType]) -> Params {
    let mut params = Params::new();
    for kind in types {
        params.push(stand_in(kind));
    }
    params
}

fn stand_in(kind: &DataType) -> Param {
    let null_of = |kind: &str| Param::Of {
        kind: kind.to_owned(),
        value: Box::new(Param::Null),
    };
    match kind {
        DataType::Boolean => null_of("boolean"),
        DataType::Int8 | DataType::Int16 => null_of("smallint"),
        DataType::Int32 => null_of("integer"),
        // It may stand behind LIMIT, where NULL says nothing.
        DataType::Int64 => Param::I64(1),
        DataType::UInt64 => Param::U64(1),
        DataType::Float32 | DataType::Float64 => null_of("double precision"),
        DataType::Decimal128(..) => null_of("numeric"),
        DataType::Binary => null_of("bytea"),
        DataType::Timestamp(_, Some(_)) => null_of("timestamptz"),
        DataType::Timestamp(_, None) => null_of("timestamp"),
        DataType::Date32 => null_of("date"),
        DataType::Time64(_) => null_of("time"),
        DataType::Interval(_) => Param::Of {
            kind: "interval".to_owned(),
            value: Box::new(Param::Text("1 second".to_owned())),
        },
        DataType::List(of) => Param::List(vec![stand_in(of.data_type())]),
        _ => null_of("text"),
    }
}

/// The type of a parameter for values of a column: that of its declaration, where it is another one than what is shown. A
/// UUID is its 16 bytes.
pub(crate) fn of_column(field: &Field) -> DataType {
    match (
        field.metadata().get(SQL_TYPE).map(String::as_str),
        field.data_type(),
    ) {
        (Some("smallint"), _) => DataType::Int16,
        (Some("integer"), _) => DataType::Int32,
        (Some("uuid"), _) => DataType::FixedSizeBinary(16),
        (Some("uuid[]"), _) => {
            let of = Field::new_list_field(DataType::FixedSizeBinary(16), true);
            DataType::List(Arc::new(of))
        }
        (_, DataType::Dictionary(_, value)) => value.as_ref().clone(),
        (_, kind) => kind.clone(),
    }
}

/// Finds the types of a statement's parameters. `columns` = the columns of its tables by name.
pub(crate) fn types(
    statement: &DfStatement,
    count: usize,
    known: &[Option<DataType>],
    columns: &HashMap<String, DataType>,
) -> Vec<DataType> {
    let mut found = Found {
        types: (0..count)
            .map(|at| known.get(at).cloned().flatten())
            .collect(),
        columns,
    };
    if let DfStatement::Statement(statement) = statement {
        found.written(statement);
        walk::visit(statement.as_ref(), &mut found);
    }
    let types = found.types.into_iter();
    types.map(|kind| kind.unwrap_or(DataType::Null)).collect()
}

/// Tables that a statement names, by the parts of their names.
pub(crate) fn tables(statement: &DfStatement) -> Vec<ObjectName> {
    let mut named = Named(Vec::new());
    if let DfStatement::Statement(statement) = statement {
        walk::visit(statement.as_ref(), &mut named);
        if let ast::Statement::Insert(insert) = statement.as_ref()
            && let TableObject::TableName(name) = &insert.table
        {
            named.0.push(name.clone());
        }
    }
    named.0
}

struct Named(Vec<ObjectName>);

impl Visitor for Named {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.push(relation.clone());
        ControlFlow::Continue(())
    }
}

struct Found<'a> {
    types: Vec<Option<DataType>>,
    columns: &'a HashMap<String, DataType>,
}

fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::Placeholder(name),
            ..
        }) => name.strip_prefix('$')?.parse().ok(),
        Expr::Nested(inner) => number_of(inner),
        _ => None,
    }
}

impl Found<'_> {
    /// Notes the type of a placeholder; the first place counts.
    fn note(&mut self, expr: &Expr, kind: Option<DataType>) {
        let place = number_of(expr).and_then(|number| self.types.get_mut(number.checked_sub(1)?));
        if let (Some(place @ None), Some(kind)) = (place, kind) {
            *place = Some(kind);
        }
    }

    fn column(&self, name: &ast::Ident) -> Option<DataType> {
        self.columns.get(&Name::from(name).text).cloned()
    }

    /// The type of an expression, where its spelling says it.
    fn type_of(&self, expr: &Expr) -> Option<DataType> {
        match expr {
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(names) => self.column(names.last()?),
            Expr::Nested(inner) => self.type_of(inner),
            Expr::UnaryOp { expr, .. } => self.type_of(expr),
            Expr::Cast { data_type, .. } => of_written(data_type),
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Some(DataType::Int64),
                Value::Number(..) => Some(DataType::Float64),
                Value::Boolean(_) => Some(DataType::Boolean),
                Value::Placeholder(_) => {
                    let at = number_of(expr)?.checked_sub(1)?;
                    self.types.get(at).cloned().flatten()
                }
                _ => None,
            },
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo => self.type_of(left).or_else(|| self.type_of(right)),
                BinaryOperator::StringConcat => Some(DataType::Utf8),
                _ => Some(DataType::Boolean),
            },
            Expr::Function(function) => {
                let name = function
                    .name
                    .0
                    .last()?
                    .as_ident()?
                    .value
                    .to_ascii_lowercase();
                let first = || {
                    let FunctionArguments::List(list) = &function.args else {
                        return None;
                    };
                    match list.args.first()? {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.type_of(expr),
                        _ => None,
                    }
                };
                match name.as_str() {
                    "now" | "current_timestamp" | "time_bucket" | "date_trunc" | "date_bin"
                    | "to_timestamp" | "clock_timestamp" => Some(timestamptz()),
                    "count" | "length" | "char_length" => Some(DataType::Int64),
                    "avg" | "sqrt" | "random" | "date_part" => Some(DataType::Float64),
                    "lower" | "upper" | "concat" | "substr" | "substring" | "trim" | "replace"
                    | "left" | "right" => Some(DataType::Utf8),
                    "min" | "max" | "sum" | "abs" | "first" | "last" | "coalesce"
                    | "first_value" | "last_value" | "round" => first(),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What is written into columns.
    fn written(&mut self, statement: &ast::Statement) {
        match statement {
            ast::Statement::Insert(insert) => {
                let Some(source) = &insert.source else { return };
                let SetExpr::Values(values) = source.body.as_ref() else {
                    return;
                };
                let names = insert.columns.iter().map(|path| {
                    let name = path.0.last().and_then(|part| part.as_ident());
                    name.and_then(|name| self.column(name))
                });
                let mut kinds: Vec<Option<DataType>> = names.collect();
                if kinds.is_empty() {
                    // In the order of the table, which whoever asks gives under these names.
                    let numbered = (0..).map(|at| self.columns.get(&format!("\u{0}{at}")).cloned());
                    kinds = numbered.take_while(Option::is_some).collect();
                }
                for row in &values.rows {
                    for (value, kind) in row.content.iter().zip(&kinds) {
                        self.note(value, kind.clone());
                    }
                }
            }
            ast::Statement::Update(update) => {
                for assignment in &update.assignments {
                    if let AssignmentTarget::ColumnName(name) = &assignment.target
                        && let Some(name) = name.0.last().and_then(|part| part.as_ident())
                    {
                        let kind = self.column(name);
                        self.note(&assignment.value, kind);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit_operator(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) {
        let adds = matches!(op, BinaryOperator::Plus | BinaryOperator::Minus);
        for (placeholder, other) in [(left, right), (right, left)] {
            if number_of(placeholder).is_none() {
                continue;
            }
            let kind = match self.type_of(other) {
                // A time and a length of it.
                Some(DataType::Timestamp(..)) if adds => Some(interval()),
                None if *op == BinaryOperator::StringConcat => Some(DataType::Utf8),
                None if matches!(op, BinaryOperator::And | BinaryOperator::Or) => {
                    Some(DataType::Boolean)
                }
                kind => kind,
            };
            self.note(placeholder, kind);
        }
    }
}

impl Visitor for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            for count in limit
                .iter()
                .chain(offset.as_ref().map(|offset| &offset.value))
            {
                self.note(count, Some(DataType::Int64));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let Some(time) = time_of(table) {
            self.note(time, Some(timestamptz()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast {
                expr, data_type, ..
            } => self.note(expr, of_written(data_type)),
            Expr::BinaryOp { left, op, right } => self.visit_operator(left, op, right),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                for (placeholder, other) in [(left, right), (right, left)] {
                    let kind = self.type_of(other);
                    self.note(placeholder, kind);
                }
            }
            Expr::Between {
                expr, low, high, ..
            } => {
                let kind = self
                    .type_of(expr)
                    .or_else(|| self.type_of(low))
                    .or_else(|| self.type_of(high));
                for side in [expr, low, high] {
                    self.note(side, kind.clone());
                }
            }
            Expr::InList { expr, list, .. } => {
                let kind = self.type_of(expr);
                for value in list {
                    self.note(value, kind.clone());
                }
            }
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
                let kind = self.type_of(left).unwrap_or(DataType::Utf8);
                let list = DataType::List(Arc::new(Field::new_list_field(kind, true)));
                self.note(right, Some(list));
                if let Some(DataType::List(of)) = self.type_of(right) {
                    self.note(left, Some(of.data_type().clone()));
                }
            }
            Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => {
                self.note(expr, Some(DataType::Utf8));
                self.note(pattern, Some(DataType::Utf8));
            }
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(|part| part.as_ident());
                let is_bucket = name.is_some_and(|name| {
                    ["time_bucket", "time_bucket_gapfill", "date_bin"]
                        .iter()
                        .any(|known| name.value.eq_ignore_ascii_case(known))
                });
                if is_bucket
                    && let FunctionArguments::List(list) = &function.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(width))) =
                        list.args.first()
                {
                    self.note(width, Some(interval()));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn interval() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

/// The type that a cast names.
fn of_written(written: &ast::DataType) -> Option<DataType> {
    use ast::DataType as T;
    Some(match written {
        T::Timestamp(_, ast::TimezoneInfo::Tz | ast::TimezoneInfo::WithTimeZone) => timestamptz(),
        T::Timestamp(..) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        T::Date => DataType::Date32,
        T::Time(..) => DataType::Time64(TimeUnit::Nanosecond),
        T::Interval { .. } => interval(),
        T::Bool | T::Boolean => DataType::Boolean,
        T::SmallInt(_) | T::Int2(_) => DataType::Int16,
        T::Int(_) | T::Integer(_) | T::Int4(_) => DataType::Int32,
        T::BigInt(_) | T::Int8(_) => DataType::Int64,
        T::Real | T::Float4 => DataType::Float32,
        T::DoublePrecision | T::Double(_) | T::Float8 | T::Float(_) => DataType::Float64,
        T::Numeric(_) | T::Decimal(_) | T::Dec(_) => DataType::Decimal128(38, 10),
        T::Bytea => DataType::Binary,
        T::Text
        | T::Varchar(_)
        | T::CharacterVarying(_)
        | T::Char(_)
        | T::Character(_)
        | T::String(_) => DataType::Utf8,
        // Drivers ask for types by arrays of their numbers, and know no other arrays until they have the answer.
        T::Array(ast::ArrayElemTypeDef::SquareBracket(of, _))
            if of.to_string().eq_ignore_ascii_case("oid") =>
        {
            let said = HashMap::from([(SQL_TYPE.to_owned(), "oid".to_owned())]);
            let of = Field::new_list_field(DataType::Int64, true).with_metadata(said);
            DataType::List(Arc::new(of))
        }
        T::Array(ast::ArrayElemTypeDef::SquareBracket(of, _)) => {
            DataType::List(Arc::new(Field::new_list_field(of_written(of)?, true)))
        }
        _ => return None,
    })
}
