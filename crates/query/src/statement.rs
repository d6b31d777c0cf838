//! From text to one statement that may run: its size and depth are bounded before anything recurses over it.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{self, TableFactor, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{Error, Position, syntax};
use crate::spelling;

/// Parentheses, sub-selects and the like inside each other.
const NESTING_MAX: usize = 50;

/// The one statement in `sql`, if it only reads.
pub(crate) fn parse(
    sql: &str,
    bytes_max: usize,
    operators_max: usize,
) -> Result<DfStatement, Error> {
    if sql.len() > bytes_max {
        return Err(Error::TooLong {
            limit: bytes_max,
            bytes: sql.len(),
        });
    }
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|error| syntax(&error.to_string()))?;
    let tokens = spelling::asof_joins(tokens);
    bound_chains(&tokens, operators_max)?;
    let mut statements = DFParserBuilder::new(tokens)
        .with_dialect(&dialect)
        .with_recursion_limit(NESTING_MAX)
        .build()?
        .parse_statements()?;
    let Some(statement) = statements.pop_front() else {
        return Err(Error::Syntax {
            message: "the statement is empty".to_owned(),
            position: None,
        });
    };
    if !statements.is_empty() {
        let message =
            "only one statement at a time; send the others in requests of their own".to_owned();
        return Err(Error::Syntax {
            message,
            position: None,
        });
    }
    let statement = only_reading(statement)?;
    bound_tables(&statement, operators_max)?;
    Ok(statement)
}

/// Refuses more tables than the planner's recursion can join; commas join too.
fn bound_tables(statement: &DfStatement, tables_max: usize) -> Result<(), Error> {
    let mut tables = Tables(0);
    let mut inner = statement;
    while let DfStatement::Explain(explain) = inner {
        inner = &explain.statement;
    }
    if let DfStatement::Statement(statement) = inner {
        let _: ControlFlow<()> = statement.visit(&mut tables);
    }
    if tables.0 > tables_max {
        return Err(Error::TooDeep {
            limit: tables_max,
            position: None,
        });
    }
    Ok(())
}

/// Counts what stands in FROM.
struct Tables(usize);

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, _table: &TableFactor) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

fn only_reading(statement: DfStatement) -> Result<DfStatement, Error> {
    match statement {
        DfStatement::Statement(mut inner) if reads(&inner) => {
            spelling::rewrite(&mut inner);
            Ok(DfStatement::Statement(inner))
        }
        DfStatement::Explain(mut explain) => {
            *explain.statement = only_reading(*explain.statement)?;
            Ok(DfStatement::Explain(explain))
        }
        other => Err(Error::Unsupported {
            statement: first_word(&other.to_string()),
        }),
    }
}

fn reads(statement: &ast::Statement) -> bool {
    use ast::Statement::{
        Explain, ExplainTable, Query, ShowColumns, ShowFunctions, ShowTables, ShowVariable,
    };
    match statement {
        Explain { statement, .. } => reads(statement),
        Query(_)
        | ExplainTable { .. }
        | ShowColumns { .. }
        | ShowFunctions { .. }
        | ShowTables { .. }
        | ShowVariable { .. } => true,
        _ => false,
    }
}

pub(crate) fn first_word(sql: &str) -> String {
    sql.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_uppercase()
}

/// Refuses chains of operators that the planner's recursion could not walk. A chain cannot pass a comma or leave its
/// parentheses, so what is counted is operators between commas, by depth; depth has its own limit in the parser.
fn bound_chains(tokens: &[TokenWithSpan], operators_max: usize) -> Result<(), Error> {
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
            other => operators += usize::from(chains(other)),
        }
        if operators > operators_max {
            let start = token.span.start;
            let position = Some(Position {
                line: start.line,
                column: start.column,
            });
            return Err(Error::TooDeep {
                limit: operators_max,
                position,
            });
        }
    }
    Ok(())
}

fn chains(token: &Token) -> bool {
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
        | Token::Period
        | Token::EOF
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_) => false,
        _ => true,
    }
}
