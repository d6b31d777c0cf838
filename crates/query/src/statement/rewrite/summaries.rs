//! Two-step aggregates as `TimescaleDB`'s users write them: `summary -> accessor()`, functions that have the name of an aggregate,
//! ranges of times, and rows in FROM.
//!
//! Does: tell by what is written whether `sum(x)` asks a summary. Does not: know types; of a column of a table nothing is written,
//! so there the arrow says it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::calls::{call_of, of_one};
use crate::function::{INTO_VALUES, MAKERS, ROLLUP, accessor_named, of_column, rows_of};
use crate::statement::types::null;
use crate::walk;

/// The schema in which the toolkit keeps what is new.
const EXPERIMENTAL: &str = "toolkit_experimental";

/// Names of columns that a statement gives to summaries, and the aggregates that make them.
#[derive(Debug, Default)]
pub(super) struct Named(HashMap<String, String>);

impl VisitorMut for Named {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.of_body(&query.body);
        ControlFlow::Continue(())
    }
}

impl Named {
    pub(super) fn in_statement(statement: &mut ast::Statement) -> Self {
        let mut named = Self::default();
        walk::visit_mut(statement, &mut named);
        named
    }

    fn of_body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for item in &select.projection {
                    if let SelectItem::ExprWithAlias { expr, alias } = item
                        && let Some(maker) = self.maker(expr)
                    {
                        self.0.insert(alias.value.to_lowercase(), maker);
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.of_body(left);
                self.of_body(right);
            }
            _ => {}
        }
    }

    /// The aggregate that makes a summary; `rollup` where only that is known.
    fn maker(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Nested(inner) => self.maker(inner),
            Expr::Identifier(name) => self.0.get(&name.value.to_lowercase()).cloned(),
            Expr::CompoundIdentifier(names) => {
                let name = names.last()?;
                self.0.get(&name.value.to_lowercase()).cloned()
            }
            Expr::Function(function) => {
                let name = last_name(function)?;
                if !MAKERS.contains(&name.as_str()) {
                    return None;
                }
                if name != ROLLUP && name != "with_bounds" {
                    return Some(name);
                }
                let inner = values(function)?.into_iter().next();
                Some(inner.and_then(|it| self.maker(&it)).unwrap_or(name))
            }
            _ => None,
        }
    }

    /// Rewrites an expression if it asks a summary or makes one.
    pub(super) fn rewrite(&self, expr: &mut Expr) {
        if let Expr::BinaryOp {
            left,
            op: BinaryOperator::Arrow,
            right,
        } = expr
            && let Expr::Function(function) = right.as_mut()
            && let Some(name) = last_name(function).and_then(|name| accessor_named(&name))
            && let FunctionArguments::List(list) = &mut function.args
        {
            let summary = std::mem::replace(left.as_mut(), null());
            let summary = FunctionArg::Unnamed(FunctionArgExpr::Expr(summary));
            if name.starts_with("approx_percentile") {
                list.args.push(summary);
            } else {
                list.args.insert(0, summary);
            }
            function.name = of_one(&name);
            *expr = std::mem::replace(right.as_mut(), null());
        }
        let Expr::Function(function) = expr else {
            return;
        };
        let Some(name) = last_name(function) else {
            return;
        };
        if matches!(name.as_str(), "counter_agg" | "gauge_agg" | "with_bounds") {
            spread_range(function);
        }
        if is_experimental(function) && (MAKERS.contains(&name.as_str()) || is_asked(&name)) {
            function.name = of_one(&name);
        }
        if self.asks(function, &name)
            && let Some(apart) = accessor_named(&name)
        {
            function.name = of_one(&apart);
        }
    }

    /// Whether a call whose name an aggregate has too asks a summary.
    fn asks(&self, function: &Function, name: &str) -> bool {
        let Some(columns) = of_column(name) else {
            return false;
        };
        if function.name.0.len() > 1 || function.over.is_some() || function.filter.is_some() {
            return false;
        }
        let Some(values) = values(function) else {
            return false;
        };
        let is_method = |value: &Expr| matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
        match values.as_slice() {
            [value] => columns > 1 || self.maker(value).is_some(),
            [_, method] => is_method(method) && name != "rate" && name != "delta",
            _ => false,
        }
    }

    /// Rewrites a table of a query if it is rows of a summary: `FROM into_values((SELECT state_agg(time, state) FROM t))`.
    pub(super) fn rows(&self, table: &mut TableFactor) {
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
        let function = function
            .trim_start_matches("toolkit_experimental.")
            .to_owned();
        let [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(summary)),
            more @ ..,
        ] = args.args.as_slice()
        else {
            return;
        };
        let mut more = more.to_vec();
        let Some(query) = subquery(summary) else {
            return;
        };
        let Some((query, maker)) = self.summary_named(query) else {
            return;
        };
        let said = more.first().and_then(text_of);
        let columns = match function.as_str() {
            INTO_VALUES => {
                let maker = said.or(maker);
                if more.first().and_then(text_of).is_none()
                    && let Some(maker) = &maker
                {
                    let name = Value::SingleQuotedString(maker.clone());
                    let name = FunctionArgExpr::Expr(Expr::value(name));
                    more.insert(0, FunctionArg::Unnamed(name));
                }
                match maker.as_deref() {
                    Some("max_n" | "min_n") => &["value"][..],
                    Some(maker) => match rows_of(maker) {
                        Some(columns) => columns,
                        None => return,
                    },
                    None => return,
                }
            }
            "topn" => &["value"][..],
            // A name of an aggregate is no function of rows.
            name if MAKERS.contains(&name) => return,
            name => match rows_of(name) {
                Some(columns) => columns,
                None => return,
            },
        };
        let made = derived(&function, columns, query, more, alias.take());
        if let Some(made) = made {
            *table = made;
        }
    }

    /// A query of one column, which is called `summary`, and the aggregate that makes it.
    fn summary_named(&self, query: &Query) -> Option<(Query, Option<String>)> {
        let mut query = query.clone();
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        let [item] = select.projection.as_mut_slice() else {
            return None;
        };
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item
        else {
            return None;
        };
        let maker = self.maker(expr).filter(|maker| maker != ROLLUP);
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::new("summary"),
        };
        Some((query, maker))
    }
}

fn is_asked(name: &str) -> bool {
    accessor_named(name).is_some()
}

fn is_experimental(function: &Function) -> bool {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(schema), _] => schema.value.eq_ignore_ascii_case(EXPERIMENTAL),
        _ => false,
    }
}

/// The name of a function without a schema, or with that of the toolkit.
fn last_name(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_lowercase()),
        [_, ObjectNamePart::Identifier(name)] if is_experimental(function) => {
            Some(name.value.to_lowercase())
        }
        _ => None,
    }
}

fn values(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let values = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    values.collect()
}

/// `tstzrange(start, finish)`, or `'[start, finish)'`, as two arguments; its end is not inside.
fn spread_range(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(range))) = list.args.last() else {
        return;
    };
    if let Some(ends) = ends_of(range) {
        list.args.pop();
        let ends = ends.into_iter();
        let ends = ends.map(|end| FunctionArg::Unnamed(FunctionArgExpr::Expr(end)));
        list.args.extend(ends);
    }
}

fn ends_of(range: &Expr) -> Option<[Expr; 2]> {
    match range {
        Expr::Function(range) if last_name(range).as_deref() == Some("tstzrange") => {
            match values(range)?.as_slice() {
                [from, to] => Some([from.clone(), to.clone()]),
                [from, to, Expr::Value(kind)] => match &kind.value {
                    Value::SingleQuotedString(kind) if kind == "[)" => {
                        Some([from.clone(), to.clone()])
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        Expr::Value(value) => {
            let Value::SingleQuotedString(text) = &value.value else {
                return None;
            };
            let inside = text.strip_prefix('[')?.strip_suffix(')')?;
            let (from, to) = inside.split_once(',')?;
            let time = |text: &str| {
                let text = text.trim().trim_matches('"').to_owned();
                Expr::value(Value::SingleQuotedString(text))
            };
            Some([time(from), time(to)])
        }
        _ => None,
    }
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => subquery(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

fn text_of(argument: &FunctionArg) -> Option<String> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The rows as a table: its columns are the parts of each row.
fn derived(
    function: &str,
    columns: &[&str],
    query: Query,
    more: Vec<FunctionArg>,
    named: Option<TableAlias>,
) -> Option<TableFactor> {
    let parts: Vec<String> = match columns {
        ["value"] => vec!["p AS \"value\"".to_owned()],
        columns => columns
            .iter()
            .map(|column| format!("p['{column}'] AS \"{column}\""))
            .collect(),
    };
    let template = format!(
        "SELECT 1 FROM (SELECT {} FROM (SELECT unnest(1) AS p FROM (SELECT 1) AS q) AS r) AS {function}",
        parts.join(", ")
    );
    let mut statements = Parser::parse_sql(&GenericDialect {}, &template).ok()?;
    let ast::Statement::Query(around) = statements.pop()? else {
        return None;
    };
    let mut outer = only_table(&around)?;
    let TableFactor::Derived {
        subquery, alias, ..
    } = &mut outer
    else {
        return None;
    };
    if named.is_some() {
        *alias = named;
    }
    let SetExpr::Select(select) = subquery.body.as_mut() else {
        return None;
    };
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    let SetExpr::Select(select) = subquery.body.as_mut() else {
        return None;
    };
    let SelectItem::ExprWithAlias { expr, .. } = select.projection.first_mut()? else {
        return None;
    };
    let summary = Expr::Identifier(Ident::new("summary"));
    let mut call = call_of(function, vec![summary]);
    if let Expr::Function(function) = &mut call
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args.extend(more);
    }
    *expr = call_of("unnest", vec![call]);
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **subquery = query;
    Some(outer)
}

fn only_table(query: &Query) -> Option<TableFactor> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    Some(select.from.first()?.relation.clone())
}
