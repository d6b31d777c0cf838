//! Functions of several rows in FROM that take columns of the tables before them, `FROM t, jsonb_array_elements(t.j) AS e`, and those
//! with numbers, `unnest(a) WITH ORDINALITY`: sub-selects of their arrays, which `semantics::outer` unnests beside the rows of the tables.
//!
//! Does: call the column of `jsonb_array_elements` `value`, and let the name of the table stand for it, as in `PostgreSQL`. Does
//! not: touch a function that takes no column, which stands by itself (`sets`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Select, SelectItem, SetExpr, Statement,
    TableAlias, TableAliasColumnDef, TableFactor, Value,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::super::calls::call_of;
use super::{is_elements, is_set};
use crate::statement::types::cast;
use crate::walk;

const UNNEST: &str = "unnest";

/// Rewrites the functions in the FROM of a SELECT.
pub(in crate::statement::rewrite) fn of_select(select: &mut Select) {
    let mut elements = Vec::new();
    for (at, table) in select.from.iter_mut().enumerate() {
        name_elements(&mut table.relation, &mut elements);
        of_table(&mut table.relation, at > 0);
        for join in &mut table.joins {
            name_elements(&mut join.relation, &mut elements);
            of_table(&mut join.relation, true);
        }
    }
    if elements.is_empty() {
        return;
    }
    // The name of the table for its only column.
    let _ = walk::expressions_mut(select, &mut |expr| {
        if let Expr::Identifier(name) = expr
            && elements.iter().any(|it| is_same(it, name))
        {
            *expr = Expr::CompoundIdentifier(vec![name.clone(), Ident::new("value")]);
        }
        ControlFlow::Continue(())
    });
}

fn is_same(one: &Ident, other: &Ident) -> bool {
    match (one.quote_style, other.quote_style) {
        (None, None) => one.value.eq_ignore_ascii_case(&other.value),
        _ => one.value == other.value,
    }
}

/// Calls the column of the elements of a JSON array `value`.
fn name_elements(table: &mut TableFactor, elements: &mut Vec<Ident>) {
    let (TableFactor::Table {
        name,
        alias,
        args: Some(_),
        ..
    }
    | TableFactor::Function { name, alias, .. }) = table
    else {
        return;
    };
    let function = name.to_string().to_lowercase();
    if !is_elements(&function) {
        return;
    }
    let alias = alias.get_or_insert_with(|| named(Ident::new(function)));
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: Ident::new("value"),
            data_type: None,
        });
        elements.push(alias.name.clone());
    }
}

fn named(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// A call in FROM.
struct Call {
    name: String,
    /// What becomes rows, one column each.
    arrays: Vec<Expr>,
    alias: Option<TableAlias>,
    has_numbers: bool,
    is_lateral: bool,
}

fn of_table(table: &mut TableFactor, is_behind: bool) {
    let Some(mut call) = call(table) else {
        return;
    };
    let speaks = call.arrays.iter().any(names_column);
    if !call.has_numbers && !(is_behind && (speaks || call.is_lateral)) {
        return;
    }
    call.arrays.iter_mut().for_each(spell_arrays);
    if let Some(rows) = rows(call, is_behind && speaks) {
        *table = rows;
    }
}

/// The call, if a table of FROM is one that answers several rows.
fn call(table: &TableFactor) -> Option<Call> {
    let of_arguments = |name: &str, args: &[FunctionArg]| {
        let values = args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
            _ => None,
        });
        let values: Vec<Expr> = values.collect::<Option<_>>()?;
        match name {
            UNNEST => Some(values),
            name if is_set(name) => Some(vec![call_of(name, values)]),
            _ => None,
        }
    };
    Some(match table {
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_ordinality,
            ..
        } if args.settings.is_none() => {
            let name = name.to_string().to_lowercase();
            Call {
                arrays: of_arguments(&name, &args.args)?,
                name,
                alias: alias.clone(),
                has_numbers: *with_ordinality,
                is_lateral: false,
            }
        }
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality,
            ..
        } => {
            let name = name.to_string().to_lowercase();
            Call {
                arrays: of_arguments(&name, args)?,
                name,
                alias: alias.clone(),
                has_numbers: *with_ordinality,
                is_lateral: true,
            }
        }
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_ordinality,
            ..
        } => Call {
            name: UNNEST.to_owned(),
            arrays: array_exprs.clone(),
            alias: alias.clone(),
            has_numbers: *with_ordinality,
            is_lateral: false,
        },
        _ => return None,
    })
}

/// Writes `ARRAY[a, b]` as a call: the planner looks for columns of an array's elements in the sub-select only.
fn spell_arrays(expr: &mut Expr) {
    let _ = walk::expressions_mut(expr, &mut |part| {
        if let Expr::Array(array) = part {
            let elements = std::mem::take(&mut array.elem);
            *part = call_of("make_array", elements);
        }
        ControlFlow::Continue(())
    });
}

/// Whether an expression names a column.
fn names_column(expr: &Expr) -> bool {
    walk::expressions(expr, &mut |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// `(SELECT unnest(a) AS v, unnest(generate_series(1, array_length(a, 1))) AS n) AS e`.
fn rows(call: Call, is_lateral: bool) -> Option<TableFactor> {
    let alias = call.alias.unwrap_or_else(|| named(Ident::new(&call.name)));
    let mut names = alias.columns.iter().map(|column| column.name.clone());
    let mut items = Vec::with_capacity(call.arrays.len() + 1);
    let is_one = call.arrays.len() == 1;
    for (at, array) in call.arrays.iter().enumerate() {
        let name = names.next().unwrap_or_else(|| match at {
            _ if is_one => alias.name.clone(),
            0 => Ident::new(UNNEST),
            at => Ident::new(format!("{UNNEST}_{at}")),
        });
        let expr = if call.name == UNNEST {
            call_of(UNNEST, vec![array.clone()])
        } else {
            array.clone()
        };
        items.push(SelectItem::ExprWithAlias { expr, alias: name });
    }
    if call.has_numbers {
        // Of several arrays the longest counts; the others are filled up with NULL.
        let lengths = call.arrays.into_iter().map(|array| {
            let length = call_of("array_length", vec![array]);
            cast(length, DataType::BigInt(None))
        });
        let lengths: Vec<Expr> = lengths.collect();
        let longest = if is_one {
            lengths.into_iter().next()?
        } else {
            call_of("greatest", lengths)
        };
        let first = Expr::value(Value::Number("1".to_owned(), false));
        let numbers = call_of("generate_series", vec![first, longest]);
        items.push(SelectItem::ExprWithAlias {
            expr: numbers,
            alias: names.next().unwrap_or_else(|| Ident::new("ordinality")),
        });
    }
    let mut statements = Parser::parse_sql(&GenericDialect {}, "SELECT 1").ok()?;
    let Statement::Query(mut query) = statements.pop()? else {
        return None;
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
    }
    Some(TableFactor::Derived {
        lateral: is_lateral,
        subquery: query,
        alias: Some(named(alias.name)),
        sample: None,
    })
}
