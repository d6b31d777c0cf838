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

/// `SELECT columns FROM table WHERE condition`, with the places that its parts have in the statement.
pub(crate) fn select(
    columns: Vec<ast::SelectItem>,
    table: ast::TableWithJoins,
    condition: Option<ast::Expr>,
) -> Result<ast::Query, Error> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM t");
    let parsed = parsed.map_err(|error| Error::internal(error.to_string()))?;
    if let Some(ast::Statement::Query(mut query)) = parsed.into_iter().next()
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = columns;
        select.from = vec![table];
        select.selection = condition;
        return Ok(*query);
    }
    Err(Error::internal("a SELECT that is none"))
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
