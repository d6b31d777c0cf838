//! Bounds of a statement (length, depth), checked before anything recurses over it or copies it.
//!
//! The parser holds itself to a depth, but tries some things twice and twice again; the planner copies what a name stands
//! for at each place where the name is. Both can take for ever over a few thousand bytes. Does not: look at columns or types.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, TableFactor, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::grammar::ONE_STATEMENT;
use crate::error::{Error, Position};
use crate::walk;

/// Calls of CAST, EXTRACT and the like inside each other. If what is inside such a call is wrong the parser reads it a
/// second time, as the arguments of a function: twice for each level.
const TRIED_TWICE_MAX: usize = 10;

/// Each set is planned as a grouping of its own, and CUBE stands for as many as its columns have subsets.
pub(super) const GROUPING_SETS_MAX: usize = 4096;

/// Entries of a list of columns, of what is sorted or grouped by, of a function's arguments. The planner compares each with
/// each, and every batch of rows has a column for each. `PostgreSQL` answers with no more columns than this.
const LIST_MAX: usize = 1664;

/// What can be told from the tokens.
pub(super) fn check_tokens(tokens: &[TokenWithSpan], operators_max: usize) -> Result<(), Error> {
    one_statement(tokens)?;
    one_explain(tokens)?;
    calls_tried_twice(tokens)?;
    lists(tokens)?;
    chains(tokens, operators_max)
}

fn position(token: &TokenWithSpan) -> Position {
    let start = token.span.start;
    Position {
        line: start.line,
        column: start.column,
    }
}

/// Refuses a second statement before a thousand of them are parsed to be thrown away.
fn one_statement(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let is_filling = |token: &&TokenWithSpan| {
        matches!(
            token.token,
            Token::Whitespace(_) | Token::SemiColon | Token::EOF
        )
    };
    let mut rest = tokens
        .iter()
        .skip_while(|token| token.token != Token::SemiColon);
    match rest.find(|token| !is_filling(token)) {
        None => Ok(()),
        // An empty statement before it does not count.
        Some(_)
            if tokens
                .iter()
                .take_while(|token| token.token != Token::SemiColon)
                .all(|token| is_filling(&token)) =>
        {
            let from = tokens
                .iter()
                .position(|token| !is_filling(&token))
                .unwrap_or(0);
            one_statement(tokens.get(from..).unwrap_or_default())
        }
        Some(second) => Err(Error::Syntax {
            message: ONE_STATEMENT.to_owned(),
            position: Some(position(second)),
        }),
    }
}

/// Refuses EXPLAIN of EXPLAIN, which the planner's parser follows as deep as it goes.
fn one_explain(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let mut explains = 0;
    let mut words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        Token::Whitespace(_) | Token::SemiColon => None,
        _ => Some(Keyword::NoKeyword),
    });
    while let Some(word) = words.next() {
        match word {
            Keyword::EXPLAIN => explains += 1,
            Keyword::ANALYZE | Keyword::VERBOSE => {}
            Keyword::FORMAT => drop(words.next()),
            _ => break,
        }
        if explains > 1 {
            return Err(unsupported("EXPLAIN EXPLAIN"));
        }
    }
    Ok(())
}

fn calls_tried_twice(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let mut open = Vec::new();
    let mut depth = 0usize;
    let mut last = Keyword::NoKeyword;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                let is_tried_twice = matches!(
                    last,
                    Keyword::CAST
                        | Keyword::TRY_CAST
                        | Keyword::SAFE_CAST
                        | Keyword::CONVERT
                        | Keyword::TRY_CONVERT
                        | Keyword::EXTRACT
                        | Keyword::CEIL
                        | Keyword::FLOOR
                        | Keyword::POSITION
                        | Keyword::SUBSTR
                        | Keyword::SUBSTRING
                        | Keyword::OVERLAY
                        | Keyword::EXISTS
                        | Keyword::TRIM
                        | Keyword::CASE
                        | Keyword::NOT
                        | Keyword::INTERVAL
                );
                open.push(is_tried_twice);
                depth += usize::from(is_tried_twice);
                if depth > TRIED_TWICE_MAX {
                    return Err(Error::Syntax {
                        message: format!(
                            "calls of CAST, EXTRACT, FLOOR and the like are limited to {TRIED_TWICE_MAX} inside each other; write value::type, or compute a part in a subquery"
                        ),
                        position: Some(position(token)),
                    });
                }
            }
            Token::RParen => depth -= usize::from(open.pop().unwrap_or(false)),
            _ => {}
        }
        last = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
    }
    Ok(())
}

/// Refuses lists that are longer than any client's, but for those of values: what follows IN or VALUES, and arrays.
fn lists(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    // Of each open parenthesis the entries before it; `None` = nobody counts them.
    let mut around = Vec::new();
    let mut entries = None;
    let mut keyword = Keyword::NoKeyword;
    let mut is_name = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => {
                is_name = word.quote_style.is_some() || word.keyword == Keyword::NoKeyword;
                if !is_name {
                    keyword = word.keyword;
                }
                match keyword {
                    _ if is_name => {}
                    Keyword::SELECT | Keyword::BY => entries = Some(1),
                    Keyword::FROM | Keyword::VALUES | Keyword::WHERE | Keyword::SET => {
                        entries = None;
                    }
                    _ => {}
                }
                continue;
            }
            Token::LParen => {
                around.push(entries);
                entries = match keyword {
                    Keyword::IN | Keyword::VALUES | Keyword::INTO | Keyword::TABLE => None,
                    _ if is_name => Some(1),
                    _ => entries.map(|_| 1),
                };
                keyword = Keyword::NoKeyword;
            }
            Token::LBracket => {
                around.push(entries);
                entries = None;
            }
            Token::RParen | Token::RBracket => {
                entries = around.pop().unwrap_or_default();
                // What comes behind IN (...) is no value any more.
                keyword = Keyword::NoKeyword;
            }
            Token::Comma => entries = entries.map(|entries| entries + 1),
            _ => {}
        }
        is_name = false;
        if entries.is_some_and(|entries| entries > LIST_MAX) {
            return Err(Error::Plan {
                message: format!(
                    "lists of columns, of what is sorted or grouped by, and of arguments are limited to {LIST_MAX} entries; ask for them in several statements"
                ),
                position: Some(position(token)),
            });
        }
    }
    Ok(())
}

/// Refuses chains of operators that the planner's recursion could not walk. A chain cannot pass a comma or leave its
/// parentheses, so what is counted is operators between commas, by depth; depth has its own limit in the parser.
fn chains(tokens: &[TokenWithSpan], operators_max: usize) -> Result<(), Error> {
    let mut depths = Vec::new();
    let mut operators = 0usize;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                depths.push(operators);
                operators = 0;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                operators = depths.pop().unwrap_or(operators);
            }
            Token::Comma | Token::SemiColon => operators = 0,
            other => operators += usize::from(is_link(other)),
        }
        if operators > operators_max {
            return Err(Error::TooDeep {
                limit: operators_max,
                position: Some(position(token)),
            });
        }
    }
    Ok(())
}

fn is_link(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::AT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::BETWEEN
                | Keyword::COLLATE
        ),
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::Placeholder(_)
        | Token::Period
        | Token::EOF
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_) => false,
        _ => true,
    }
}

/// Refuses more tables than the planner's recursion can join; commas join too. A name of a WITH counts as all the tables
/// that its query has, since the planner puts a copy of that in its place.
pub(super) fn check_tables(statement: &ast::Statement, tables_max: usize) -> Result<(), Error> {
    let mut tables = Tables::default();
    walk::visit(statement, &mut tables);
    if tables.most > tables_max {
        return Err(Error::TooDeep {
            limit: tables_max,
            position: None,
        });
    }
    if tables.grouping_sets > GROUPING_SETS_MAX {
        return Err(too_many_sets());
    }
    Ok(())
}

/// The error of a statement that groups by too many sets of columns.
pub(super) fn too_many_sets() -> Error {
    Error::Plan {
        message: format!(
            "CUBE, ROLLUP and GROUPING SETS may stand for {GROUPING_SETS_MAX} sets of columns together; group by fewer columns"
        ),
        position: None,
    }
}

/// Counts what stands in FROM.
#[derive(Default)]
struct Tables {
    /// The queries around the place that is looked at.
    around: Vec<Around>,
    most: usize,
    /// All that the statement stands for, multiplied; 0 = none.
    grouping_sets: usize,
}

#[derive(Default)]
struct Around {
    tables: usize,
    /// Queries of its WITH that were not there yet: where they are, and the names that they get.
    coming: HashMap<*const ast::Query, String>,
    /// What those that were count as.
    named: HashMap<String, usize>,
}

impl Tables {
    fn of_name(&self, name: &str) -> usize {
        let named = self
            .around
            .iter()
            .rev()
            .find_map(|around| around.named.get(name));
        named.copied().unwrap_or(1)
    }
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.around.push(Around {
            coming: ctes
                .map(|cte| (&raw const *cte.query, cte.alias.name.value.to_lowercase()))
                .collect(),
            ..Around::default()
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let Some(Around { tables, .. }) = self.around.pop() else {
            return ControlFlow::Continue(());
        };
        self.most = self.most.max(tables);
        if let Some(parent) = self.around.last_mut() {
            match parent.coming.remove(&(&raw const *query)) {
                // One more for the name: names of names make a plan as deep as they are many.
                Some(name) => drop(parent.named.insert(name, tables.saturating_add(1))),
                None => parent.tables = parent.tables.saturating_add(tables),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let sets = match expr {
            ast::Expr::Cube(columns) => {
                let columns = u32::try_from(columns.len()).unwrap_or(u32::MAX);
                2usize.checked_pow(columns).unwrap_or(usize::MAX)
            }
            ast::Expr::Rollup(columns) => columns.len() + 1,
            ast::Expr::GroupingSets(sets) => sets.len(),
            _ => return ControlFlow::Continue(()),
        };
        self.grouping_sets = self.grouping_sets.max(1).saturating_mul(sets);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let tables = match table {
            TableFactor::Table { name, .. } => match name.0.as_slice() {
                [ast::ObjectNamePart::Identifier(name)] => self.of_name(&name.value.to_lowercase()),
                _ => 1,
            },
            _ => 1,
        };
        match self.around.last_mut() {
            Some(around) => around.tables = around.tables.saturating_add(tables),
            None => self.most = self.most.saturating_add(tables),
        }
        ControlFlow::Continue(())
    }
}

/// The error for a statement of a kind that does not run here.
pub(super) fn unsupported(statement: &str) -> Error {
    let instead = match statement.split(' ').next_back().unwrap_or_default() {
        "INDEX" => "tags are indexed and times are sorted as they are; leave it out",
        "EXTENSION" => "there is nothing to install; leave it out",
        "COPY" | "EXTERNAL" => "queries read and write no files; see nilometer import and export",
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" => {
            "each statement is a transaction of its own; leave it out"
        }
        "SET" | "RESET" => {
            "settings are the server's, see SHOW SETTINGS; those of a table are ALTER TABLE ... SET (...); a time zone is the parameter timezone of a request"
        }
        "EXPLAIN" => "explain the statement itself",
        "POLICY" => "there are no policies of rows: make a view of the rows and GRANT SELECT ON it",
        _ => {
            "what runs is SELECT, EXPLAIN, SHOW, DESCRIBE, INSERT, UPDATE, DELETE, and CREATE, ALTER and DROP of databases, schemas, tables and views"
        }
    };
    Error::Unsupported {
        statement: statement.to_owned(),
        instead,
    }
}
