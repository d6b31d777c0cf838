//! The parser of our own statements: words, names, error positions.
//!
//! Does: read one token after the other. Does not: know a statement; see `change.rs` and `show.rs`.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Query};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::name::{Name, Path, position};
use crate::error::{Error, Position, syntax};

/// Parentheses, sub-selects and the like inside each other.
pub(super) const NESTING_MAX: usize = 50;

pub(super) const ONE_STATEMENT: &str =
    "only one statement at a time; send the others in requests of their own";

/// Tokens of one statement, read from the front.
pub(crate) struct Grammar<'a> {
    parser: Parser<'a>,
    dialect: &'a GenericDialect,
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(tokens: Vec<TokenWithSpan>, dialect: &'a GenericDialect) -> Self {
        let parser = Parser::new(dialect)
            .with_recursion_limit(NESTING_MAX)
            .with_tokens_with_locations(tokens);
        Self { parser, dialect }
    }

    /// Whether the next word is this one; then it is taken.
    pub(crate) fn word(&mut self, wanted: &str) -> bool {
        let is_next = matches!(
            &self.parser.peek_token_ref().token,
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
        );
        if is_next {
            self.parser.advance_token();
        }
        is_next
    }

    /// Whether the next words are these; then they are taken.
    pub(crate) fn words(&mut self, wanted: &[&str]) -> bool {
        let all = wanted.iter().enumerate().all(|(at, wanted)| {
            matches!(
                &self.parser.peek_nth_token_ref(at).token,
                Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
            )
        });
        if all {
            for _ in wanted {
                self.parser.advance_token();
            }
        }
        all
    }

    pub(crate) fn expect_word(&mut self, wanted: &str) -> Result<(), Error> {
        if self.word(wanted) {
            return Ok(());
        }
        self.expected(wanted)
    }

    /// Whether the next token is this one; then it is taken.
    pub(crate) fn token(&mut self, wanted: &Token) -> bool {
        self.parser.consume_token(wanted)
    }

    pub(crate) fn expect(&mut self, wanted: &Token) -> Result<(), Error> {
        self.parser
            .expect_token(wanted)
            .map(drop)
            .map_err(|error| place(&error))
    }

    /// The error that something else should stand here.
    pub(crate) fn expected<T>(&self, wanted: &str) -> Result<T, Error> {
        let next = self.parser.peek_token();
        self.parser
            .expected(wanted, next)
            .map_err(|error| place(&error))
    }

    /// Where the next token stands.
    pub(crate) fn position(&self) -> Option<Position> {
        position(self.parser.peek_token_ref().span)
    }

    /// The next token as it is written.
    pub(crate) fn next_shown(&self) -> String {
        self.parser.peek_token_ref().token.to_string()
    }

    /// The next token.
    pub(crate) fn peek(&self) -> &Token {
        &self.parser.peek_token_ref().token
    }

    /// Takes the next token.
    pub(crate) fn next(&mut self) -> Token {
        self.parser.next_token().token
    }

    pub(crate) fn name(&mut self) -> Result<Name, Error> {
        if !matches!(self.parser.peek_token_ref().token, Token::Word(_)) {
            return self.expected("a name");
        }
        let ident = self
            .parser
            .parse_identifier()
            .map_err(|error| place(&error))?;
        Ok(Name::from(&ident))
    }

    pub(crate) fn path(&mut self) -> Result<Path, Error> {
        if !matches!(self.parser.peek_token_ref().token, Token::Word(_)) {
            return self.expected("a name");
        }
        let name = self
            .parser
            .parse_object_name(false)
            .map_err(|error| place(&error))?;
        Path::of(&name)
    }

    /// A type, and where it stands.
    pub(crate) fn data_type(&mut self) -> Result<(DataType, Option<Position>), Error> {
        let at = self.position();
        let kind = self
            .parser
            .parse_data_type()
            .map_err(|error| place(&error))?;
        Ok((kind, at))
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(text) => {
                let text = text.clone();
                self.parser.advance_token();
                Ok(text)
            }
            _ => self.expected("a text in single quotes"),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        self.parser
            .parse_literal_uint()
            .map_err(|error| place(&error))
    }

    /// An expression.
    pub(crate) fn expression(&mut self) -> Result<Expr, Error> {
        self.parser.parse_expr().map_err(|error| place(&error))
    }

    /// An expression that something else follows, such as NOT NULL: operators stand in parentheses.
    pub(crate) fn operand(&mut self) -> Result<Expr, Error> {
        let precedence = self.dialect.prec_value(Precedence::PlusMinus);
        let parsed = self.parser.parse_subexpr(precedence.saturating_sub(1));
        parsed.map_err(|error| place(&error))
    }

    pub(crate) fn query(&mut self) -> Result<Box<Query>, Error> {
        self.parser.parse_query().map_err(|error| place(&error))
    }

    /// `IF EXISTS`.
    pub(crate) fn if_exists(&mut self) -> bool {
        self.words(&["if", "exists"])
    }

    /// `IF NOT EXISTS`.
    pub(crate) fn if_not_exists(&mut self) -> bool {
        self.words(&["if", "not", "exists"])
    }

    /// Names between parentheses.
    pub(crate) fn names(&mut self) -> Result<Vec<Name>, Error> {
        self.expect(&Token::LParen)?;
        let mut names = vec![self.name()?];
        while self.token(&Token::Comma) {
            names.push(self.name()?);
        }
        self.expect(&Token::RParen)?;
        Ok(names)
    }

    /// The end of the statement, with or without its semicolon.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        let semicolon = self.token(&Token::SemiColon);
        if self.parser.peek_token_ref().token == Token::EOF {
            return Ok(());
        }
        if semicolon {
            return Err(Error::Syntax {
                message: ONE_STATEMENT.to_owned(),
                position: self.position(),
            });
        }
        self.expected("the end of the statement")
    }
}

fn place(error: &ParserError) -> Error {
    syntax(&error.to_string())
}
