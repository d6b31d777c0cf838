//! `count(t.*)` where an outer join may leave `t` out: `PostgreSQL` counts the rows that were found, and the planner would count all.
//!
//! Does: refuse it, with what to write. Does not: touch it where every row has one of `t`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, JoinOperator, ObjectNamePart,
    Select, TableFactor, TableWithJoins,
};

use crate::error::Error;
use crate::statement::headings::folded;
use crate::walk;

/// What is wrong with such a call in the columns of a SELECT, or in its HAVING.
pub(crate) fn check(select: &Select) -> Option<Error> {
    let mut open = HashSet::new();
    for from in &select.from {
        left_out(from, &mut open);
    }
    if open.is_empty() {
        return None;
    }
    let mut found = None;
    let mut look = |expr: &Expr| {
        if let Expr::Function(function) = expr
            && let Some(name) = counted(function).filter(|name| open.contains(name))
        {
            found = Some(name);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let _ = walk::expressions(&select.projection, &mut look);
    let _ = walk::expressions(&select.having, &mut look);
    found.map(|name| Error::Unsupported {
        statement: format!("count({name}.*) of what an outer join may leave out"),
        instead: "count a column of it that is never NULL, such as its key or its time",
    })
}

/// The names of tables that may be left out.
fn left_out(from: &TableWithJoins, open: &mut HashSet<String>) {
    let mut before = Vec::new();
    names(&from.relation, &mut before, open);
    for join in &from.joins {
        let mut joined = Vec::new();
        names(&join.relation, &mut joined, open);
        let (is_left_open, is_right_open) = match &join.join_operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
            JoinOperator::FullOuter(_) => (true, true),
            _ => (false, false),
        };
        if is_left_open {
            open.extend(before.iter().cloned());
        }
        if is_right_open {
            open.extend(joined.iter().cloned());
        }
        before.append(&mut joined);
    }
}

/// The names of what stands in FROM.
fn names(table: &TableFactor, found: &mut Vec<String>, open: &mut HashSet<String>) {
    let (alias, name) = match table {
        TableFactor::Table { alias, name, .. } => {
            (alias, name.0.last().and_then(ObjectNamePart::as_ident))
        }
        TableFactor::Derived { alias, .. } | TableFactor::Function { alias, .. } => (alias, None),
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => {
            left_out(table_with_joins, open);
            names(&table_with_joins.relation, found, open);
            for join in &table_with_joins.joins {
                names(&join.relation, found, open);
            }
            return;
        }
        _ => return,
    };
    let name = alias.as_ref().map(|alias| &alias.name).or(name);
    found.extend(name.map(folded));
}

/// The table whose rows are counted.
fn counted(function: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name))] = list.args.as_slice()
    else {
        return None;
    };
    let is_count = function.name.to_string().eq_ignore_ascii_case("count");
    let name = name.0.last().and_then(ObjectNamePart::as_ident);
    name.filter(|_| is_count).map(folded)
}
