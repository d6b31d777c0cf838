//! SELECT, EXPLAIN and DELETE, and the clauses that SHOW shares with them.

use std::str::FromStr;

use super::{Parsed, Parser, unexpected};
use crate::ast::{
    Delete, Expr, Field, Fill, Measurement, Operator, Select, SortField, Source, Statement,
};
use crate::token::Kind;
use crate::{Error, Position};

const ONLY_TIME: &str = "only ORDER BY time supported at this time";

impl Parser<'_> {
    pub(super) fn explain(&mut self) -> Parsed<Statement> {
        let analyze = self.accept(Kind::Analyze);
        let verbose = self.accept(Kind::Verbose);
        self.expect(Kind::Select)?;
        let select = Box::new(self.select(true)?);
        Ok(Statement::Explain {
            analyze,
            verbose,
            select,
        })
    }

    /// A SELECT after its first word. Without `target_optional` it needs an INTO.
    pub(super) fn select(&mut self, target_optional: bool) -> Parsed<Select> {
        let fields = self.fields()?;
        let target = self.target(target_optional)?;
        self.expect(Kind::From)?;
        Ok(Select {
            fields,
            target,
            sources: self.sources(true)?,
            condition: self.condition()?,
            dimensions: self.dimensions()?,
            fill: self.fill()?,
            order: self.order()?,
            limit: self.limit(Kind::Limit)?,
            offset: self.limit(Kind::Offset)?,
            slimit: self.limit(Kind::SLimit)?,
            soffset: self.limit(Kind::SOffset)?,
            zone: self.zone()?,
        })
    }

    fn fields(&mut self) -> Parsed<Vec<Field>> {
        let mut fields = vec![self.field()?];
        while self.scan().kind == Kind::Comma {
            fields.push(self.field()?);
        }
        self.back();
        Ok(fields)
    }

    fn field(&mut self) -> Parsed<Field> {
        let expr = if let Some(pattern) = self.regex()? {
            Expr::Regex(pattern)
        } else {
            let at = self.next().at;
            self.back();
            let expr = self.expr()?;
            if let Some(operator) = condition_in(&expr) {
                return Err(Error::refused(format!(
                    "invalid operator {} in SELECT clause at {at}; operator is intended for WHERE clause",
                    operator.symbol()
                )));
            }
            expr
        };
        let alias = if self.accept(Kind::As) {
            Some(self.ident()?)
        } else {
            None
        };
        self.skip_space();
        Ok(Field { expr, alias })
    }

    fn target(&mut self, optional: bool) -> Parsed<Option<Measurement>> {
        let token = self.next();
        if token.kind != Kind::Into {
            if !optional {
                return Err(unexpected(&token, &["INTO"]));
            }
            self.back();
            return Ok(None);
        }
        let mut segments = self.segments()?;
        if segments.len() < 3 && self.scanner.look() == ':' {
            self.expect(Kind::Colon)?;
            self.expect(Kind::Measurement)?;
            segments.push(String::new());
        }
        Ok(Some(measurement(segments)))
    }

    pub(super) fn sources(&mut self, subqueries: bool) -> Parsed<Vec<Source>> {
        let mut sources = vec![self.source(subqueries)?];
        while self.accept(Kind::Comma) {
            sources.push(self.source(subqueries)?);
        }
        Ok(sources)
    }

    pub(super) fn source(&mut self, subqueries: bool) -> Parsed<Source> {
        if let Some(pattern) = self.regex()? {
            let measurement = Measurement {
                pattern: Some(pattern),
                ..Measurement::default()
            };
            return Ok(Source::Measurement(measurement));
        }
        if subqueries && self.accept(Kind::LeftParen) {
            self.expect(Kind::Select)?;
            // Nothing may be written from inside a query, so INTO is not expected there.
            let select = self.nested(|parser| parser.select(true))?;
            self.expect(Kind::RightParen)?;
            return Ok(Source::Subquery(Box::new(select)));
        }
        let segments = self.segments()?;
        if segments.len() == 3 {
            return Ok(Source::Measurement(measurement(segments)));
        }
        let Some(pattern) = self.regex()? else {
            return Ok(Source::Measurement(measurement(segments)));
        };
        let mut segments = segments;
        segments.push(String::new());
        Ok(Source::Measurement(Measurement {
            pattern: Some(pattern),
            ..measurement(segments)
        }))
    }

    pub(super) fn condition(&mut self) -> Parsed<Option<Expr>> {
        if self.accept(Kind::Where) {
            self.expr().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn dimensions(&mut self) -> Parsed<Vec<Expr>> {
        if !self.accept(Kind::Group) {
            return Ok(Vec::new());
        }
        self.expect(Kind::By)?;
        let mut dimensions = Vec::new();
        loop {
            let dimension = if let Some(pattern) = self.regex()? {
                Expr::Regex(pattern)
            } else {
                let expr = self.expr()?;
                self.skip_space();
                expr
            };
            dimensions.push(dimension);
            if self.scan().kind != Kind::Comma {
                self.back();
                return Ok(dimensions);
            }
        }
    }

    /// Whether the next token is this word, which is no keyword. It is left.
    fn at_word(&mut self, word: &str) -> bool {
        let token = self.next();
        self.back();
        token.kind == Kind::Ident && token.text.eq_ignore_ascii_case(word)
    }

    fn fill(&mut self) -> Parsed<Fill> {
        if !self.at_word("fill") {
            return Ok(Fill::Null);
        }
        let Expr::Call(call) = self.expr()? else {
            return Err(Error::refused("fill must be a function call"));
        };
        let [argument] = call.arguments.as_slice() else {
            return Err(Error::refused(
                "fill requires an argument, e.g.: 0, null, none, previous, linear",
            ));
        };
        match (argument.to_string().as_str(), argument) {
            ("null", _) => Ok(Fill::Null),
            ("none", _) => Ok(Fill::None),
            ("previous", _) => Ok(Fill::Previous),
            ("linear", _) => Ok(Fill::Linear),
            (_, Expr::Integer(value)) => Ok(Fill::Integer(*value)),
            (_, Expr::Float(value)) => Ok(Fill::Float(*value)),
            _ => Err(Error::refused("expected number argument in fill()")),
        }
    }

    fn zone(&mut self) -> Parsed<Option<String>> {
        if !self.at_word("tz") {
            return Ok(None);
        }
        let Expr::Call(call) = self.expr()? else {
            return Err(Error::refused("tz must be a function call"));
        };
        let [argument] = call.arguments.as_slice() else {
            return Err(Error::refused("tz requires exactly one argument"));
        };
        let Expr::Text(name) = argument else {
            return Err(Error::refused("expected string argument in tz()"));
        };
        // An empty name is UTC there.
        let name = if name.is_empty() { "UTC" } else { name };
        if name != "Local" && chrono_tz::Tz::from_str(name).is_err() {
            return Err(Error::refused(format!("unable to find time zone {name}")));
        }
        Ok(Some(name.to_owned()))
    }

    pub(super) fn order(&mut self) -> Parsed<Vec<SortField>> {
        if !self.accept(Kind::Order) {
            return Ok(Vec::new());
        }
        self.expect(Kind::By)?;
        let token = self.next();
        let field = match token.kind {
            Kind::Asc | Kind::Desc => SortField {
                name: None,
                ascending: token.kind == Kind::Asc,
            },
            Kind::Ident => {
                self.back();
                let field = self.sort_field()?;
                if token.text != "time" {
                    return Err(Error::refused(ONLY_TIME));
                }
                field
            }
            _ => return Err(unexpected(&token, &["identifier", "ASC", "DESC"])),
        };
        let mut fields = 1;
        while self.accept(Kind::Comma) {
            self.sort_field()?;
            fields += 1;
        }
        if fields > 1 {
            return Err(Error::refused(ONLY_TIME));
        }
        Ok(vec![field])
    }

    fn sort_field(&mut self) -> Parsed<SortField> {
        let name = self.ident()?;
        let token = self.next();
        if !matches!(token.kind, Kind::Asc | Kind::Desc) {
            self.back();
        }
        Ok(SortField {
            name: Some(name),
            ascending: token.kind != Kind::Desc,
        })
    }

    /// DELETE or DROP SERIES, after its words. Both are about all retention policies of the session's database.
    pub(super) fn delete(&mut self) -> Parsed<Delete> {
        let token = self.next();
        let mut sources = Vec::new();
        if token.kind == Kind::From {
            sources = self.sources(false)?;
            for source in &sources {
                let Source::Measurement(measurement) = source else {
                    continue;
                };
                let part = match (&*measurement.policy, &*measurement.database) {
                    ("", "") => continue,
                    ("", _) => "database",
                    _ => "retention policy",
                };
                let reason = format!("{part} not supported");
                return Err(Error::Invalid {
                    reason,
                    at: Position::default(),
                });
            }
        } else {
            self.back();
        }
        let condition = self.condition()?;
        if condition.is_none() && sources.is_empty() {
            return Err(unexpected(&token, &["FROM", "WHERE"]));
        }
        Ok(Delete { sources, condition })
    }
}

/// The last segment is the name, before it stand the policy and the database.
fn measurement(mut segments: Vec<String>) -> Measurement {
    let name = segments.pop().unwrap_or_default();
    let policy = segments.pop().unwrap_or_default();
    let database = segments.pop().unwrap_or_default();
    Measurement {
        database,
        policy,
        name,
        pattern: None,
    }
}

/// The first operator of a condition, from outside to inside.
fn condition_in(expr: &Expr) -> Option<Operator> {
    let mut found = None;
    expr.walk(&mut |expr| {
        if let Expr::Binary(operator, ..) = expr
            && operator.is_condition()
        {
            found.get_or_insert(*operator);
        }
    });
    found
}
