//! Column names of results, as in `PostgreSQL`.
//!
//! Does: name a column that has no AS as `PostgreSQL` does (`count`, `case`, `?column?`), in what is answered and in what a
//! query reads in FROM or WITH; give a second column of one name a number. Does not: name columns of tables, or look at
//! types. The rule is described in `docs/guide/sql.md`.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, CastKind, DataType, Expr, Function, GroupByExpr, Ident, OrderByKind, Query,
    Select, SelectFlavor, SelectItem, SetExpr, TableFactor, TrimWhereField, Value, VisitorMut,
    WildcardAdditionalOptions,
};

use crate::semantics::merged::shown;
use crate::walk;

/// The name of what has none.
const UNNAMED: &str = "?column?";

/// What the columns of an answer are to be called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headings(Vec<Heading>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Heading {
    Named(String),
    /// As many columns as a table has, by their names.
    Many,
}

/// The names of an answer's columns.
pub(crate) type Names = Arc<[String]>;

/// Reads the headings of a query as it was written, and gives names to the columns of the queries inside it.
pub(crate) fn take(statement: &mut ast::Statement) -> Headings {
    let mut headings = Headings::default();
    if let ast::Statement::Query(query) = statement
        && let Some(select) = first_select(&mut query.body)
    {
        headings.0 = match select.flavor {
            SelectFlavor::FromFirstNoSelect => vec![Heading::Many],
            _ => select.projection.iter().map(heading).collect(),
        };
    }
    walk::visit_mut(statement, &mut Inside);
    if let ast::Statement::Query(query) = statement {
        name_what_is_used(query);
    }
    headings
}

impl Headings {
    /// The names of an answer of these columns; `None` = as they are.
    pub(crate) fn of(&self, columns: &DFSchema) -> Option<Names> {
        let old: Vec<&str> = columns
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let mut names: Vec<String> = old.iter().map(|&name| shown(name).to_owned()).collect();
        let is_many = |heading: &&Heading| **heading == Heading::Many;
        let many = self.0.iter().filter(is_many).count();
        if many > 0 || self.0.len() == names.len() {
            let give = |(name, heading): (&mut String, &Heading)| {
                if let Heading::Named(given) = heading {
                    name.clone_from(given);
                }
            };
            let first = self.0.iter().take_while(|it| **it != Heading::Many);
            names.iter_mut().zip(first).for_each(give);
            if many > 0 {
                let last = self.0.iter().rev().take_while(|it| **it != Heading::Many);
                names.iter_mut().rev().zip(last).for_each(give);
            }
        }
        number(&mut names);
        (names != old).then(|| names.into())
    }
}

/// Adds `_1`, `_2` and so on to names that others have before them. A number that makes another column's name is passed over.
fn number(names: &mut [String]) {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    if taken.len() == names.len() {
        return;
    }
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            let free = (1..).map(|number| format!("{name}_{number}"));
            if let Some(free) = free.into_iter().find(|it| taken.insert(it.clone())) {
                name.clone_from(&free);
                seen.insert(free);
            }
        }
    }
}

fn heading(item: &SelectItem) -> Heading {
    match item {
        SelectItem::UnnamedExpr(expr) => Heading::Named(name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Heading::Named(folded(alias)),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => Heading::Many,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

pub(crate) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The SELECT that says what the columns of a query are called.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&mut query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// Names columns of what stands in FROM and in WITH, and makes `FROM t` a query of all columns.
struct Inside;

impl VisitorMut for Inside {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            name_all(&mut table.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            let all = WildcardAdditionalOptions::default();
            select.projection = vec![SelectItem::Wildcard(all)];
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = table {
            name_all(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// Gives columns that are written alike names of their own: the planner refuses two of one name, which is nothing to who
/// only reads them. To be called when values stand where they stood for.
pub(super) fn distinguish(statement: &mut ast::Statement) {
    if let ast::Statement::Query(query) = statement {
        set_apart(query);
    }
    walk::visit_mut(statement, &mut Distinct);
}

/// Gives columns beside `*` names of their own, as `*` may have columns of the same name. They are shown as they are called.
fn set_apart(query: &mut Query) {
    let mut used = HashSet::new();
    if let Some(order) = &query.order_by
        && let OrderByKind::Expressions(exprs) = &order.kind
    {
        for expr in exprs {
            add_name(&expr.expr, &mut used);
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let is_many = |item: &SelectItem| heading(item) == Heading::Many;
    let first = select.projection.iter().position(is_many);
    let last = select.projection.iter().rposition(is_many);
    let (Some(first), Some(last)) = (first, last) else {
        return;
    };
    used.extend(names_of_conditions(select));
    if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
        for expr in exprs {
            add_name(expr, &mut used);
        }
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        if (first..=last).contains(&at) {
            continue;
        }
        let name = match item {
            SelectItem::UnnamedExpr(expr) if is_column(expr) => name(expr),
            SelectItem::ExprWithAlias { alias, .. } if !used.contains(&folded(alias)) => {
                folded(alias)
            }
            _ => continue,
        };
        alias(item, &format!("{name} {at}"));
    }
}

struct Distinct;

impl VisitorMut for Distinct {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        distinguish_columns(select);
        ControlFlow::Continue(())
    }
}

fn distinguish_columns(select: &mut Select) {
    let mut seen = HashSet::new();
    let mut last_names = HashSet::new();
    let mut names: Vec<Option<String>> = Vec::new();
    let mut repeats = false;
    for item in &select.projection {
        let text = match item {
            SelectItem::UnnamedExpr(expr) if is_column(without_casts(expr)) => {
                without_casts(expr).to_string().to_lowercase()
            }
            SelectItem::UnnamedExpr(expr) => loosely(expr),
            SelectItem::ExprWithAlias { alias, .. } => alias.to_string().to_lowercase(),
            _ => {
                names.push(None);
                continue;
            }
        };
        let mut repeated = seen.contains(&text);
        if let SelectItem::UnnamedExpr(expr) = item {
            // `t.v` is one column with `v`, but need not be one with `u.v`.
            match without_casts(expr) {
                Expr::Identifier(_) => repeated |= last_names.contains(&text),
                Expr::CompoundIdentifier(parts) => {
                    let last = parts.last().map(|part| part.to_string().to_lowercase());
                    repeated |= last.as_ref().is_some_and(|last| seen.contains(last));
                    last_names.extend(last);
                }
                _ => {}
            }
        }
        seen.insert(text);
        repeats |= repeated;
        names.push(repeated.then(|| match item {
            SelectItem::UnnamedExpr(expr) => name(expr),
            SelectItem::ExprWithAlias { alias, .. } => folded(alias),
            _ => String::new(),
        }));
    }
    if !repeats {
        return;
    }
    for (at, (item, repeated)) in select.projection.iter_mut().zip(names).enumerate() {
        if let Some(name) = repeated {
            alias(item, &format!("{name} {at}"));
        }
    }
}

/// What two expressions have in common that the planner may call the same: it leaves casts and subqueries out of names, and
/// adds tables. More may be alike than need to; they get names that nobody sees.
fn loosely(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _: ControlFlow<()> = walk::expressions_mut(&mut expr, &mut |part| {
        let word = |word: &str| Some(Expr::Identifier(Ident::new(word)));
        let loose = match part {
            Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => Some(inner.as_ref().clone()),
            Expr::Identifier(name) => word(&name.value),
            Expr::CompoundIdentifier(names) => {
                word(names.last().map_or("", |name| name.value.as_str()))
            }
            Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::Subquery(_)
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. } => word("subquery"),
            _ => None,
        };
        if let Some(loose) = loose {
            *part = loose;
        }
        ControlFlow::Continue(())
    });
    expr.to_string().to_lowercase()
}

/// The planner calls a cast as what is in it.
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => without_casts(inner),
        expr => expr,
    }
}

/// Whether columns of tables are among those of a query, which could have any names.
fn has_many(select: &Select) -> bool {
    let is_many = |item: &SelectItem| heading(item) == Heading::Many;
    select.projection.iter().any(is_many)
}

fn alias(item: &mut SelectItem, name: &str) {
    let alias = Ident::with_quote('"', name);
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return;
    };
    let expr = std::mem::replace(expr, Expr::value(Value::Null));
    *item = SelectItem::ExprWithAlias { expr, alias };
}

/// Gives every column of a query that has no name the one that `PostgreSQL` gives it, so that others can read it by that.
fn name_all(query: &mut Query) {
    let Some(select) = first_select(&mut query.body) else {
        return;
    };
    if has_many(select) {
        return;
    }
    let not_here = names_of_conditions(select);
    let mut names: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match heading(item) {
            Heading::Named(name) => Some(name),
            Heading::Many => None,
        })
        .collect();
    let plain = names.clone();
    number(&mut names);
    for ((item, name), plain) in select.projection.iter_mut().zip(&names).zip(&plain) {
        let is_unnamed = matches!(item, SelectItem::UnnamedExpr(expr) if !is_column(expr));
        if is_unnamed && !not_here.contains(plain) {
            alias(item, name);
        }
    }
}

/// Names a query's own columns where its ORDER BY or GROUP BY asks for them by the names that they are answered under.
fn name_what_is_used(query: &mut Query) {
    name_what_is_numbered(query);
    let mut used = HashSet::new();
    if let Some(order) = &query.order_by
        && let OrderByKind::Expressions(exprs) = &order.kind
    {
        for expr in exprs {
            add_name(&expr.expr, &mut used);
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
        for expr in exprs {
            add_name(expr, &mut used);
        }
    }
    if used.is_empty() || has_many(select) {
        return;
    }
    let mut given: HashSet<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) if is_column(expr) => Some(name(expr)),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        })
        .collect();
    given.extend(names_of_conditions(select));
    for item in &mut select.projection {
        if let Heading::Named(name) = heading(item)
            && used.contains(&name)
            && given.insert(name.clone())
        {
            alias(item, &name);
        }
    }
}

/// Gives a name of its own to a calculation that ORDER BY has by its number: the planner puts the calculation in the place of the
/// number, and takes one of an aggregate for one of its rows.
fn name_what_is_numbered(query: &mut Query) {
    let Some(order) = &query.order_by else {
        return;
    };
    let (OrderByKind::Expressions(exprs), SetExpr::Select(select)) =
        (&order.kind, query.body.as_mut())
    else {
        return;
    };
    if has_many(select) {
        return;
    }
    for expr in exprs {
        let number = match &expr.expr {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => number.parse::<usize>().ok(),
                _ => None,
            },
            _ => None,
        };
        let item = number.and_then(|number| select.projection.get_mut(number.checked_sub(1)?));
        if let (Some(number), Some(item)) = (number, item)
            && let SelectItem::UnnamedExpr(calculated) = &*item
            && !is_column(calculated)
            && !matches!(calculated, Expr::Value(_))
        {
            alias(item, &format!("{UNNAMED} {number}"));
        }
    }
}

fn add_name(expr: &Expr, names: &mut HashSet<String>) {
    if let Expr::Identifier(name) = expr {
        names.insert(folded(name));
    }
}

/// Names in the conditions on groups, which must go on meaning what they mean.
fn names_of_conditions(select: &Select) -> HashSet<String> {
    let mut names = HashSet::new();
    let conditions = select.having.iter().chain(&select.qualify);
    for condition in conditions {
        let _: ControlFlow<()> = walk::expressions(condition, &mut |expr| {
            add_name(expr, &mut names);
            ControlFlow::Continue(())
        });
    }
    if let Some(ast::Distinct::On(exprs)) = &select.distinct {
        for expr in exprs {
            add_name(expr, &mut names);
        }
    }
    names
}

/// The name that `PostgreSQL` gives to a column of this expression.
fn name(expr: &Expr) -> String {
    match figured(expr) {
        Some((name, _)) => name,
        None => UNNAMED.to_owned(),
    }
}

/// A name, and whether it is better than that of a type around it.
fn figured(expr: &Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    let weak = |name: &str| Some((name.to_owned(), false));
    match expr {
        Expr::Identifier(name) => Some((folded(name), true)),
        Expr::CompoundIdentifier(names) => Some((folded(names.last()?), true)),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(AccessExpr::Dot(field)) => figured(field),
            _ => figured(root),
        },
        Expr::Function(function) => Some((function_name(function)?, true)),
        Expr::Cast {
            expr,
            data_type,
            kind: CastKind::Cast | CastKind::DoubleColon,
            ..
        } => Some(around(expr, || type_name(data_type))),
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } | Expr::Nested(expr) => figured(expr),
        Expr::TypedString(typed) => weak(&type_name(&typed.data_type)),
        Expr::Interval(_) => weak("interval"),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => weak("bool"),
        Expr::Case { else_result, .. } => match else_result {
            Some(result) => Some(around(result, || "case".to_owned())),
            None => weak("case"),
        },
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Subquery(query) => subquery(&query.body),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        _ => None,
    }
}

/// The name of what is inside, if it has a good one; else that of what is around it.
fn around(inside: &Expr, name: impl FnOnce() -> String) -> (String, bool) {
    match figured(inside) {
        Some((inside, true)) => (inside, true),
        _ => (name(), false),
    }
}

fn function_name(function: &Function) -> Option<String> {
    function.name.0.last()?.as_ident().map(folded)
}

fn subquery(body: &SetExpr) -> Option<(String, bool)> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => figured(expr).map(|(name, _)| (name, true)),
            SelectItem::ExprWithAlias { alias, .. } => Some((folded(alias), true)),
            _ => None,
        },
        SetExpr::Query(query) => subquery(&query.body),
        SetExpr::SetOperation { left, .. } => subquery(left),
        _ => None,
    }
}

/// What `PostgreSQL` calls a type inside.
fn type_name(kind: &DataType) -> String {
    use DataType as T;
    let name = match kind {
        T::TinyInt(_) | T::SmallInt(_) | T::Int2(_) | T::Int16 => "int2",
        T::Int(_) | T::Integer(_) | T::Int4(_) | T::Int32 => "int4",
        T::BigInt(_) | T::Int8(_) | T::Int64 => "int8",
        T::Real | T::Float4 | T::Float32 => "float4",
        T::DoublePrecision | T::Double(_) | T::Float(_) | T::Float8 | T::Float64 => "float8",
        T::Numeric(_) | T::Decimal(_) | T::Dec(_) => "numeric",
        T::Bool | T::Boolean => "bool",
        T::Text | T::String(_) => "text",
        T::Varchar(_) | T::CharacterVarying(_) | T::CharVarying(_) => "varchar",
        T::Char(_) | T::Character(_) => "bpchar",
        T::Timestamp(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => "timestamptz",
        T::Timestamp(..) => "timestamp",
        T::Time(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => "timetz",
        T::Time(..) => "time",
        T::Date => "date",
        T::Interval { .. } => "interval",
        T::Bytea => "bytea",
        other => {
            let text = other.to_string().to_lowercase();
            return text.split(['(', ' ']).next().unwrap_or_default().to_owned();
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// Expected names are those of `PostgreSQL` 17's `\gdesc`.
    #[test]
    fn a_column_without_as_has_the_name_that_postgresql_gives_it() {
        for (sql, expected) in [
            ("1", "?column?"),
            ("'a'", "?column?"),
            ("v + 1", "?column?"),
            ("-v", "?column?"),
            ("v", "v"),
            ("t.v", "v"),
            ("(v)", "v"),
            ("count(*)", "count"),
            ("COUNT(DISTINCT v)", "count"),
            ("avg(v) FILTER (WHERE v > 1)", "avg"),
            ("row_number() OVER (ORDER BY v)", "row_number"),
            ("max(v) + 1", "?column?"),
            ("v::bigint", "v"),
            ("1::bigint", "int8"),
            ("cast('1' AS double precision)", "float8"),
            ("'1'::int::text", "text"),
            ("max(v)::text", "max"),
            ("TIMESTAMP '2024-01-01'", "timestamp"),
            ("'2024-01-01'::timestamptz", "timestamptz"),
            ("DATE '2024-01-01'", "date"),
            ("INTERVAL '1 day'", "interval"),
            ("true", "bool"),
            ("v IS NULL", "?column?"),
            ("NOT true", "?column?"),
            ("CASE WHEN v > 1 THEN 2 END", "case"),
            ("CASE WHEN v > 1 THEN 2 ELSE 3 END", "case"),
            ("CASE WHEN v > 1 THEN 2 ELSE v END", "v"),
            ("coalesce(v, 1)", "coalesce"),
            ("nullif(v, 1)", "nullif"),
            ("greatest(v, 1)", "greatest"),
            ("extract(hour FROM v)", "extract"),
            ("substring(v FROM 1)", "substring"),
            ("trim(v)", "btrim"),
            ("ARRAY[1, 2]", "array"),
            ("(ARRAY[1, 2])[1]", "array"),
            ("(SELECT max(v) FROM t)", "max"),
            ("(SELECT 1)", "?column?"),
            ("EXISTS (SELECT 1)", "exists"),
            ("v AT TIME ZONE 'UTC'", "timezone"),
        ] {
            let query = format!("SELECT {sql} FROM t");
            let parsed = Parser::parse_sql(&GenericDialect {}, &query).unwrap().pop();
            let Some(ast::Statement::Query(query)) = parsed else {
                panic!("{sql}");
            };
            let mut body = *query.body;
            let select = first_select(&mut body).unwrap();
            let SelectItem::UnnamedExpr(expr) = &select.projection[0] else {
                panic!("{sql}");
            };
            assert_eq!(name(expr), expected, "{sql}");
        }
    }

    #[test]
    fn names_that_others_have_get_a_number_that_is_free() {
        for (names, expected) in [
            (vec!["a", "b"], vec!["a", "b"]),
            (vec!["a", "a", "a"], vec!["a", "a_1", "a_2"]),
            (vec!["a", "a", "a_1", "a"], vec!["a", "a_2", "a_1", "a_3"]),
            (
                vec!["a_1", "a_1", "a", "a"],
                vec!["a_1", "a_1_1", "a", "a_2"],
            ),
        ] {
            let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            number(&mut names);
            assert_eq!(names, expected);
        }
    }
}
