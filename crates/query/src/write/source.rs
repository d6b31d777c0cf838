//! Parts of a statement that writes, as the query that finds its rows.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::Error;
use crate::statement::name::{NameScope, Path, TableName};

/// The one table of a statement, by its name and as the statement has it.
pub(crate) fn only_table(
    tables: &[ast::TableWithJoins],
    statement: &str,
    place: &NameScope,
) -> Result<(TableName, ast::TableWithJoins), Error> {
    let refused = || Error::Unsupported {
        statement: format!("{statement} of more than one table"),
        instead: "name one table, and find its rows with WHERE and sub-selects",
    };
    let [table] = tables else {
        return Err(refused());
    };
    let ast::TableFactor::Table { name, .. } = &table.relation else {
        return Err(refused());
    };
    if !table.joins.is_empty() {
        return Err(refused());
    }
    let name = Path::of(name)?.table(place)?;
    Ok((name, table.clone()))
}

/// The table that an INSERT names, and what it is called in the statement.
pub(crate) fn table_of_insert(insert: &ast::Insert) -> Option<(ast::ObjectName, ast::Ident)> {
    let ast::TableObject::TableName(name) = &insert.table else {
        return None;
    };
    let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
    Some((name.clone(), alias.or_else(|| last_of(name))?))
}

/// The same of the tables that are changed.
pub(crate) fn table_of(tables: &[ast::TableWithJoins]) -> Option<(ast::ObjectName, ast::Ident)> {
    match &tables.first()?.relation {
        ast::TableFactor::Table { name, alias, .. } => {
            let alias = alias.as_ref().map(|alias| alias.name.clone());
            Some((name.clone(), alias.or_else(|| last_of(name))?))
        }
        _ => None,
    }
}

/// The same of a DELETE.
pub(crate) fn table_of_delete(delete: &ast::Delete) -> Option<(ast::ObjectName, ast::Ident)> {
    let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
        &delete.from;
    table_of(tables)
}

fn last_of(name: &ast::ObjectName) -> Option<ast::Ident> {
    name.0.last()?.as_ident().cloned()
}

/// What the table that is changed is called in its statement.
pub(crate) fn alias_of(from: &ast::TableWithJoins) -> ast::Ident {
    let table = table_of(std::slice::from_ref(from));
    table.map_or_else(|| ast::Ident::new("excluded"), |(_, alias)| alias)
}

/// Tables, of which the first is the one that is changed, and how its columns are written: beside others with its name.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    tables: Vec<ast::TableWithJoins>,
}

impl Sources {
    pub(crate) fn new(
        changed: ast::TableWithJoins,
        others: impl IntoIterator<Item = ast::TableWithJoins>,
    ) -> Self {
        Self {
            tables: std::iter::once(changed).chain(others).collect(),
        }
    }

    /// Whether there are others, so that a row that is changed may be found more than once.
    pub(crate) fn are_several(&self) -> bool {
        self.tables.len() > 1
    }

    /// What the one that is changed is called.
    pub(crate) fn alias(&self) -> ast::Ident {
        self.tables
            .first()
            .map_or_else(|| ast::Ident::new("excluded"), alias_of)
    }

    pub(crate) fn column(&self, name: &str) -> ast::Expr {
        if self.are_several() {
            let name = ast::Ident::with_quote('"', name);
            return ast::Expr::CompoundIdentifier(vec![self.alias(), name]);
        }
        column(name)
    }

    /// The query for columns of the rows that a condition finds.
    pub(crate) fn select(
        &self,
        columns: Vec<ast::SelectItem>,
        condition: Option<ast::Expr>,
    ) -> Result<ast::Query, Error> {
        select(columns, self.tables.clone(), condition)
    }
}

/// `SELECT columns FROM tables WHERE condition`, with the places that its parts have in the statement.
pub(crate) fn select(
    columns: Vec<ast::SelectItem>,
    tables: Vec<ast::TableWithJoins>,
    condition: Option<ast::Expr>,
) -> Result<ast::Query, Error> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM t");
    let parsed = parsed.map_err(|error| Error::internal(error.to_string()))?;
    if let Some(ast::Statement::Query(mut query)) = parsed.into_iter().next()
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = columns;
        select.from = tables;
        select.selection = condition;
        return Ok(*query);
    }
    Err(Error::internal("a SELECT that is none"))
}

/// The row of an INSERT that says no value of so many columns: `VALUES (DEFAULT, DEFAULT)`.
pub(crate) fn row_of_defaults(columns: usize) -> Result<ast::Query, Error> {
    let text = format!("VALUES ({})", vec!["DEFAULT"; columns].join(", "));
    let parsed = Parser::parse_sql(&GenericDialect {}, &text);
    let parsed = parsed.map_err(|error| Error::internal(error.to_string()))?;
    match parsed.into_iter().next() {
        Some(ast::Statement::Query(query)) => Ok(*query),
        _ => Err(Error::internal("VALUES that are none")),
    }
}

/// A column of a table by its name as it is.
pub(crate) fn column(name: &str) -> ast::Expr {
    ast::Expr::Identifier(ast::Ident::with_quote('"', name))
}

pub(crate) fn item(expr: ast::Expr, name: &str) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr,
        alias: ast::Ident::with_quote('"', name),
    }
}
