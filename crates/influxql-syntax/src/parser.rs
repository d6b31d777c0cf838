//! Parser: tokens to statements.
//!
//! Does: decide by keywords which statement it is; steps, expectations and errors that all statements share.
//! Does not: know names or types.
//! Next: `select.rs`, `expr.rs`, `show.rs`, `define.rs`.

mod access;
mod define;
mod expr;
mod select;
mod show;

use std::borrow::Cow;

use crate::ast::Statement;
use crate::quote::quote_segments;
use crate::scan::{Scanner, is_space};
use crate::token::{Kind, Token};
use crate::{Error, NESTING_MAX, Params, Pattern, Position, parse_duration};

/// How many tokens the parser can step back.
const KEPT: usize = 3;

type Parsed<T> = Result<T, Error>;

#[derive(Debug)]
pub(crate) struct Parser<'a> {
    scanner: Scanner<'a>,
    params: &'a Params,
    kept: [Token<'a>; KEPT],
    newest: usize,
    stepped_back: usize,
    depth: usize,
    /// Height of the expression that was parsed last.
    height: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, params: &'a Params) -> Self {
        let none = || Token {
            kind: Kind::Eof,
            at: Position::default(),
            text: Cow::Borrowed(""),
        };
        Self {
            scanner: Scanner::new(text),
            params,
            kept: [none(), none(), none()],
            newest: 0,
            stepped_back: 0,
            depth: 0,
            height: 0,
        }
    }

    pub(crate) fn statements(&mut self) -> Parsed<Vec<Statement>> {
        let mut statements = Vec::new();
        let mut separated = true;
        loop {
            let token = self.next();
            match token.kind {
                Kind::Eof => return Ok(statements),
                Kind::Semicolon => separated = true,
                _ if !separated => return Err(unexpected(&token, &[";"])),
                _ => {
                    self.back();
                    statements.push(self.statement()?);
                    separated = false;
                }
            }
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Select => self
                .select(true)
                .map(|select| Statement::Select(Box::new(select))),
            Kind::Delete => self.delete().map(Statement::Delete),
            Kind::Show => self.show().map(Statement::Show),
            Kind::Create => self.create(),
            Kind::Drop => self.drop(),
            Kind::Explain => self.explain(),
            Kind::Grant => self.grant(),
            Kind::Revoke => self.revoke(),
            Kind::Alter => {
                self.expect(Kind::Retention)?;
                self.expect(Kind::Policy)?;
                self.alter_policy().map(Statement::AlterRetentionPolicy)
            }
            Kind::Set => {
                self.expect(Kind::Password)?;
                self.expect(Kind::For)?;
                self.set_password().map(Statement::SetPassword)
            }
            Kind::Kill => {
                self.expect(Kind::Query)?;
                self.kill()
            }
            _ => Err(unexpected(
                &token,
                &[
                    "SELECT", "DELETE", "SHOW", "CREATE", "DROP", "EXPLAIN", "GRANT", "REVOKE",
                    "ALTER", "SET", "KILL",
                ],
            )),
        }
    }

    /// The next token, spaces and comments too.
    fn scan(&mut self) -> Token<'a> {
        self.token(Scanner::scan)
    }

    fn token(&mut self, scan: fn(&mut Scanner<'a>) -> Token<'a>) -> Token<'a> {
        if self.stepped_back > 0 {
            self.stepped_back -= 1;
        } else {
            self.newest = (self.newest + 1) % KEPT;
            let token = scan(&mut self.scanner);
            if let Some(place) = self.kept.get_mut(self.newest) {
                *place = token;
            }
        }
        let place = (self.newest + KEPT - self.stepped_back % KEPT) % KEPT;
        let token = self
            .kept
            .get(place)
            .expect("the place is below the size of the ring")
            .clone();
        self.bound(token)
    }

    /// The value in place of a parameter that has one.
    fn bound(&self, token: Token<'a>) -> Token<'a> {
        if token.kind != Kind::BoundParam {
            return token;
        }
        match self.params.get(token.text.trim_start_matches('$')) {
            Some(value) => {
                let (kind, text) = value.token();
                Token {
                    kind,
                    at: token.at,
                    text: Cow::Owned(text),
                }
            }
            None => token,
        }
    }

    /// The next token that is neither space nor comment.
    fn next(&mut self) -> Token<'a> {
        loop {
            let token = self.scan();
            if !matches!(token.kind, Kind::Space | Kind::Comment) {
                return token;
            }
        }
    }

    fn back(&mut self) {
        self.stepped_back += 1;
    }

    /// Whether the next token is of this kind; it is left if not.
    fn accept(&mut self, kind: Kind) -> bool {
        let found = self.next().kind == kind;
        if !found {
            self.back();
        }
        found
    }

    fn expect(&mut self, kind: Kind) -> Parsed<()> {
        let token = self.next();
        if token.kind == kind {
            Ok(())
        } else {
            Err(unexpected(&token, &[kind.name()]))
        }
    }

    fn skip_space(&mut self) {
        if self.scan().kind != Kind::Space {
            self.back();
        }
    }

    fn ident(&mut self) -> Parsed<String> {
        let token = self.next();
        match token.kind {
            Kind::Ident => Ok(token.text.into_owned()),
            _ => Err(unexpected(&token, &["identifier"])),
        }
    }

    fn idents(&mut self) -> Parsed<Vec<String>> {
        let mut idents = vec![self.ident()?];
        while self.accept(Kind::Comma) {
            idents.push(self.ident()?);
        }
        Ok(idents)
    }

    fn text(&mut self) -> Parsed<String> {
        let token = self.next();
        match token.kind {
            Kind::Text => Ok(token.text.into_owned()),
            _ => Err(unexpected(&token, &["string"])),
        }
    }

    fn texts(&mut self) -> Parsed<Vec<String>> {
        let mut texts = vec![self.text()?];
        while self.accept(Kind::Comma) {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    /// Up to three identifiers with dots between them; one in the middle may be empty, and the last may be left to the caller.
    fn segments(&mut self) -> Parsed<Vec<String>> {
        let mut segments = vec![self.ident()?];
        loop {
            if self.scan().kind != Kind::Dot {
                self.back();
                break;
            }
            match self.scanner.look() {
                '/' | ':' => break,
                '.' => segments.push(String::new()),
                _ => segments.push(self.ident()?),
            }
        }
        if segments.len() > 3 {
            let reason = format!("too many segments in {}", quote_segments(&segments));
            return Err(Error::Invalid {
                reason,
                at: Position::default(),
            });
        }
        Ok(segments)
    }

    /// A regular expression, if one stands here.
    fn regex(&mut self) -> Parsed<Option<Pattern>> {
        if is_space(self.scanner.look()) {
            self.skip_space();
        }
        match self.scanner.look() {
            '$' => {
                let kind = self.scan().kind;
                self.back();
                if kind != Kind::Regex {
                    return Ok(None);
                }
            }
            '/' => {}
            _ => return Ok(None),
        }
        let token = self.token(Scanner::scan_regex);
        let invalid = |reason| Error::Invalid {
            reason,
            at: token.at,
        };
        match token.kind {
            Kind::Regex => Pattern::new(&token.text).map(Some).map_err(invalid),
            Kind::BadRegex => Err(invalid(format!("bad regex: {}", token.text))),
            _ => Err(unexpected(&token, &["regex"])),
        }
    }

    fn required_regex(&mut self) -> Parsed<Pattern> {
        match self.regex()? {
            Some(pattern) => Ok(pattern),
            None => Err(unexpected(&self.next(), &["regex"])),
        }
    }

    fn duration_token(token: &Token<'_>) -> Parsed<i64> {
        if token.kind != Kind::Duration {
            return Err(unexpected(token, &["duration"]));
        }
        parse_duration(&token.text).map_err(|error| Error::Invalid {
            reason: error.to_string(),
            at: token.at,
        })
    }

    /// A duration, or `INF`, which is 0.
    fn duration(&mut self) -> Parsed<i64> {
        let token = self.next();
        if token.kind == Kind::Inf {
            Ok(0)
        } else {
            Self::duration_token(&token)
        }
    }

    /// An integer of a range that starts at 1.
    fn count(&mut self) -> Parsed<u32> {
        const MAX: i64 = i32::MAX as i64;
        let token = self.next();
        if token.kind != Kind::Integer {
            return Err(unexpected(&token, &["integer"]));
        }
        let invalid = |reason| Error::Invalid {
            reason,
            at: token.at,
        };
        let Ok(value) = token.text.parse::<i64>() else {
            return Err(invalid(out_of_range("Atoi", &token.text)));
        };
        match u32::try_from(value) {
            Ok(count) if (1..=MAX).contains(&value) => Ok(count),
            _ => Err(invalid(format!(
                "invalid value {value}: must be 1 <= n <= {MAX}"
            ))),
        }
    }

    fn id(&mut self) -> Parsed<u64> {
        let token = self.next();
        if token.kind != Kind::Integer {
            return Err(unexpected(&token, &["integer"]));
        }
        token.text.parse().map_err(|_| Error::Invalid {
            reason: out_of_range("ParseUint", &token.text),
            at: token.at,
        })
    }

    /// `LIMIT n`, if it stands here; 0 if not.
    fn limit(&mut self, kind: Kind) -> Parsed<u64> {
        if !self.accept(kind) {
            return Ok(0);
        }
        let token = self.next();
        if token.kind != Kind::Integer {
            return Err(unexpected(&token, &["integer"]));
        }
        // What does not fit is the largest number, as there. A parameter may be negative.
        match token.text.parse::<i64>() {
            Ok(n) => u64::try_from(n).map_err(|_| Error::Invalid {
                reason: format!("{} must be >= 0", kind.name()),
                at: token.at,
            }),
            Err(_) => Ok(i64::MAX as u64),
        }
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= NESTING_MAX {
            let at = self.next().at;
            return Err(Error::TooDeep {
                limit: NESTING_MAX,
                at,
            });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }
}

fn out_of_range(function: &str, digits: &str) -> String {
    format!("strconv.{function}: parsing \"{digits}\": value out of range")
}

fn unexpected(found: &Token<'_>, expected: &[&'static str]) -> Error {
    Error::Unexpected {
        found: found.shown(),
        expected: expected.iter().map(|name| Cow::Borrowed(*name)).collect(),
        at: found.at,
    }
}
