//! Functions that answer several rows, in a SELECT list and in FROM: arrays that are unnested.

pub(super) mod laterals;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TimezoneInfo, TypedString,
    Value,
};

use super::calls::{call_of, interval};
use crate::function::is_rows;
use crate::statement::types::{cast, null};

const SERIES: &str = "generate_series";

/// Functions whose array stands for rows.
const SETS: [&str; 7] = [
    SERIES,
    "json_array_elements",
    "json_array_elements_text",
    "json_object_keys",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_object_keys",
];

pub(super) fn is_set(name: &str) -> bool {
    let name = name.to_lowercase();
    SETS.contains(&name.as_str()) || is_rows(&name)
}

/// Whether a function of this name answers the elements of a JSON array, in a column that is called `value`.
pub(super) fn is_elements(name: &str) -> bool {
    is_set(name) && name.contains("_array_elements")
}

/// Unnests them where they are columns of a query.
pub(super) fn of_query(query: &mut Query) {
    of_body(&mut query.body);
}

fn of_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                {
                    unnest(expr);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left);
            of_body(right);
        }
        _ => {}
    }
}

fn unnest(expr: &mut Expr) {
    match expr {
        Expr::Function(function) if is_set(&function.name.to_string()) => {
            name_types(function);
            let array = std::mem::replace(expr, null());
            *expr = call_of("unnest", vec![array]);
        }
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { expr: inner, .. } => unnest(inner),
        Expr::BinaryOp { left, right, .. } => {
            unnest(left);
            unnest(right);
        }
        _ => {}
    }
}

/// `FROM generate_series(1, 3) AS x`: a table of one column, which has the name of the table unless it has one of its own.
pub(super) fn of_table(table: &mut TableFactor) {
    let TableFactor::Table {
        name,
        alias,
        args: Some(args),
        with_ordinality: false,
        ..
    } = table
    else {
        return;
    };
    let function = name.to_string().to_lowercase();
    if !is_set(&function) || args.settings.is_some() {
        return;
    }
    let values = args.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    let Some(values) = values.collect::<Option<Vec<Expr>>>() else {
        return;
    };
    // The planner has a table of numbers that are known, however many: only its column is called otherwise.
    if function == SERIES && values.iter().all(is_number) {
        if let Some(alias) = alias
            && alias.columns.is_empty()
        {
            alias.columns.push(TableAliasColumnDef {
                name: alias.name.clone(),
                data_type: None,
            });
        }
        return;
    }
    let mut call = call_of(&function, values);
    if let Expr::Function(function) = &mut call {
        name_types(function);
    }
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// Gives the arguments of a series of times their types: texts without one, and dates, are times with a zone.
fn name_types(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(first)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(end)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(step)),
    ] = list.args.as_mut_slice()
    else {
        return;
    };
    let is_of_times = matches!(step, Expr::Interval(_)) || is_text(step) || is_interval(step);
    if !is_of_times {
        return;
    }
    let zoned = DataType::Timestamp(None, TimezoneInfo::Tz);
    let kind = [&*first, &*end]
        .into_iter()
        .filter_map(kind_of)
        .find(|kind| matches!(kind, DataType::Timestamp(..)))
        .cloned()
        .unwrap_or(zoned);
    for time in [first, end] {
        if is_text(time) || matches!(kind_of(time), Some(DataType::Date)) {
            let value = std::mem::replace(time, null());
            *time = cast(value, kind.clone());
        }
    }
    let value = std::mem::replace(step, null());
    *step = interval(value);
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { expr, .. } => is_number(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_interval(expr: &Expr) -> bool {
    matches!(kind_of(expr), Some(DataType::Interval { .. }))
}

/// The type that is written with a value.
fn kind_of(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Some(data_type)
        }
        Expr::Nested(inner) => kind_of(inner),
        _ => None,
    }
}
