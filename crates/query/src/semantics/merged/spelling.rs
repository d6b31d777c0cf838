//! Names of columns that have become part of a merged one: `a.k` by the name that it has behind the join, `a.*` as a list,
//! and `*` without what is hidden.
//!
//! A name belongs to the innermost query that has a table of its qualifier. In the ON of a join only those merged columns
//! count that are on one of its sides.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, VisitorMut,
    WildcardAdditionalOptions,
};

use super::runs::Mark;
use super::{Output, Runs};
use crate::statement::headings::folded;
use crate::walk;

/// Spells the names of a marked statement as far as its runs are known.
pub(super) fn spell(statement: &mut ast::Statement, runs: &Runs) {
    let mut spelling = Spelling {
        runs,
        scopes: Vec::new(),
        queries: Vec::new(),
        is_value: false,
        from: Vec::new(),
    };
    walk::visit_mut(statement, &mut spelling);
}

/// The tables that names may be of.
#[derive(Debug, Clone, Default)]
struct Scope {
    tables: Vec<String>,
    /// Runs that no other run of the scope has in it.
    runs: Vec<usize>,
}

impl Scope {
    fn extend(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.runs.extend(other.runs);
    }
}

/// A query that is being visited.
struct Inside {
    /// It is visited last.
    order_by: Option<OrderBy>,
    /// That of its SELECT.
    scope: Scope,
    /// Whether somebody reads its columns by their names.
    is_named: bool,
}

struct Spelling<'a> {
    runs: &'a Runs,
    /// Those of the queries around, the innermost last.
    scopes: Vec<Scope>,
    queries: Vec<Inside>,
    /// Whether the next query stands in an expression.
    is_value: bool,
    /// The FROM of each SELECT, which is visited first.
    from: Vec<Vec<TableWithJoins>>,
}

impl VisitorMut for Spelling<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_value = std::mem::take(&mut self.is_value);
        self.queries.push(Inside {
            is_named: !is_value || query.order_by.is_some(),
            order_by: query.order_by.take(),
            scope: Scope::default(),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(inside) = self.queries.pop() {
            query.order_by = inside.order_by;
            if matches!(query.body.as_ref(), SetExpr::Select(_)) {
                self.scopes.push(inside.scope);
                walk::visit_mut(&mut query.order_by, self);
                self.scopes.pop();
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut from = std::mem::take(&mut select.from);
        let mut scope = Scope::default();
        for tree in &mut from {
            let tables = self.tree(tree, &scope);
            scope.extend(tables);
        }
        self.from.push(from);
        self.scopes.push(scope);
        self.items(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from = self.from.pop().unwrap_or_default();
        let scope = self.scopes.pop().unwrap_or_default();
        if let Some(inside) = self.queries.last_mut() {
            inside.scope = scope;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.is_value |= matches!(
            expr,
            Expr::Exists { .. } | Expr::Subquery(_) | Expr::InSubquery { .. }
        );
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(hidden) = self.hidden(parts)
            && let Some(last) = parts.last_mut()
        {
            last.value = hidden;
            last.quote_style = Some('"');
        }
        ControlFlow::Continue(())
    }
}

impl Spelling<'_> {
    /// Spells what stands in FROM, and says which tables it has.
    fn tree(&mut self, tree: &mut TableWithJoins, beside: &Scope) -> Scope {
        let mut scope = self.table(&mut tree.relation, beside);
        for join in &mut tree.joins {
            let mut beside = beside.clone();
            beside.extend(scope.clone());
            let right = self.table(&mut join.relation, &beside);
            scope.extend(right);
            self.scopes.push(scope.clone());
            walk::visit_mut(&mut join.join_operator, self);
            self.scopes.pop();
        }
        scope
    }

    fn table(&mut self, table: &mut TableFactor, beside: &Scope) -> Scope {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias,
        } = table
        {
            let scope = self.tree(table_with_joins, beside);
            return match alias {
                None => scope,
                Some(alias) => match Mark::of(alias) {
                    Some(Mark::Run(number)) => Scope {
                        runs: vec![number],
                        ..scope
                    },
                    Some(Mark::Whole) => scope,
                    None => Scope {
                        tables: vec![folded(&alias.name)],
                        runs: Vec::new(),
                    },
                },
            };
        }
        self.scopes.push(beside.clone());
        walk::visit_mut(table, self);
        self.scopes.pop();
        Scope {
            tables: name_of(table).into_iter().collect(),
            runs: Vec::new(),
        }
    }

    /// The name behind its join of a column that is named with its table.
    fn hidden(&self, parts: &[Ident]) -> Option<String> {
        let [.., table, column] = parts else {
            return None;
        };
        let name = folded(column);
        let tables = parts.get(..parts.len() - 1)?;
        for scope in self.scopes.iter().rev() {
            let mut found = self.outputs(scope).filter(|it| it.is_of(tables));
            if let Some(output) = found.find(|it| it.name == name) {
                return output.hidden.clone();
            }
            if scope.tables.contains(&folded(table)) {
                return None;
            }
        }
        None
    }

    fn outputs(&self, scope: &Scope) -> impl Iterator<Item = &Output> {
        let runs = scope.runs.clone().into_iter();
        runs.filter_map(|run| self.runs.get(&run)).flatten()
    }

    /// Spells the items of a SELECT list whose names others may read.
    fn items(&self, items: &mut Vec<SelectItem>) {
        let Some(scope) = self.scopes.last() else {
            return;
        };
        if self.outputs(scope).all(|output| output.hidden.is_none()) {
            return;
        }
        let listed = std::mem::take(items).into_iter();
        *items = listed.flat_map(|item| self.listed(item, scope)).collect();
        // What a subquery in an expression calls its column is seen by nobody, and a name would be one more that the planner has
        // to tell from the merged column's when it takes the subquery apart.
        let is_named = self.queries.last().is_some_and(|inside| inside.is_named);
        let named: Vec<Option<String>> = items.iter().map(named).collect();
        for (at, item) in items.iter_mut().enumerate() {
            let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else {
                continue;
            };
            let (Some(column), Some(hidden)) = (parts.last(), self.hidden(parts)) else {
                continue;
            };
            let name = folded(column);
            let mut others = named.iter().enumerate().filter(|(other, _)| *other != at);
            // A name that two columns have is nobody's; it is put right in what is answered.
            let is_alone =
                is_named && others.all(|(_, other)| other.as_ref().is_some_and(|it| *it != name));
            let mut parts = parts.clone();
            parts.pop();
            parts.push(Ident::with_quote('"', hidden));
            let expr = Expr::CompoundIdentifier(parts);
            *item = if is_alone {
                let alias = Ident::with_quote('"', name);
                SelectItem::ExprWithAlias { expr, alias }
            } else {
                SelectItem::UnnamedExpr(expr)
            };
        }
    }

    /// What a wildcard stands for; any other item as it is.
    fn listed(&self, item: SelectItem, scope: &Scope) -> Vec<SelectItem> {
        match item {
            SelectItem::Wildcard(mut options) => {
                let hidden = self.outputs(scope).filter_map(|it| it.hidden.clone());
                exclude(&mut options, hidden);
                vec![SelectItem::Wildcard(options)]
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                options,
            ) => self.columns_of(&table, &options, scope).unwrap_or_else(|| {
                let kind = SelectItemQualifiedWildcardKind::ObjectName(table);
                vec![SelectItem::QualifiedWildcard(kind, options)]
            }),
            item => vec![item],
        }
    }

    /// The columns of one table, if some of them are hidden.
    fn columns_of(
        &self,
        table: &ObjectName,
        options: &WildcardAdditionalOptions,
        scope: &Scope,
    ) -> Option<Vec<SelectItem>> {
        let parts = table.0.iter().map(|part| part.as_ident().cloned());
        let parts: Vec<Ident> = parts.collect::<Option<_>>()?;
        let outputs: Vec<&Output> = self.outputs(scope).filter(|it| it.is_of(&parts)).collect();
        if outputs.iter().all(|output| output.hidden.is_none()) {
            return None;
        }
        if options.opt_replace.is_some() || options.opt_rename.is_some() {
            return None;
        }
        let left_out = left_out(options);
        let columns = outputs
            .into_iter()
            .filter(|output| !left_out.contains(&output.name));
        let items = columns.map(|output| {
            let mut parts = parts.clone();
            parts.push(Ident::with_quote('"', output.name.clone()));
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts))
        });
        Some(items.collect())
    }
}

impl Output {
    /// Whether it is a column of the table that is named so.
    fn is_of(&self, table: &[Ident]) -> bool {
        let mut parts = table.iter().rev();
        let schema = self.table.schema();
        parts
            .next()
            .is_some_and(|it| folded(it) == self.table.table())
            && parts
                .next()
                .is_none_or(|it| schema.is_none_or(|schema| folded(it) == schema))
    }
}

/// What a table is called where its columns are named.
fn name_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            match alias {
                Some(alias) => Some(folded(&alias.name)),
                None => Some(folded(name.0.last()?.as_ident()?)),
            }
        }
        TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
            alias.as_ref().map(|alias| folded(&alias.name))
        }
        _ => None,
    }
}

/// The name that an item of a SELECT list gives to its one column; `None` = it may have any, and any number of them.
fn named(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        // No name that a column of a table has.
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

fn exclude(options: &mut WildcardAdditionalOptions, hidden: impl Iterator<Item = String>) {
    let hidden: Vec<ObjectName> = hidden
        .map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]))
        .collect();
    if hidden.is_empty() {
        return;
    }
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    names.extend(hidden);
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
}

/// Names behind EXCLUDE and EXCEPT.
fn left_out(options: &WildcardAdditionalOptions) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(except) = &options.opt_except {
        names.push(folded(&except.first_element));
        names.extend(except.additional_elements.iter().map(folded));
    }
    let excluded = match &options.opt_exclude {
        None => &[],
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
    };
    let last = excluded.iter().filter_map(|name| name.0.last()?.as_ident());
    names.extend(last.map(folded));
    names
}
