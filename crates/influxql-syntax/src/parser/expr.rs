//! Expressions.

use super::{Parsed, Parser, unexpected};
use crate::ast::{Call, Cast, Expr, Operator, Reference, WildcardKind};
use crate::token::{Kind, Token};
use crate::{Error, HEIGHT_MAX, parse_duration};

impl Parser<'_> {
    pub(crate) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|parser| parser.operation(1))
    }

    /// Operands and operators of at least this precedence.
    fn operation(&mut self, lowest: u8) -> Parsed<Expr> {
        let mut left = self.operand()?;
        let mut height = self.height;
        // Operands of AND or OR that stand in a row, whose order does not matter.
        let mut row: Option<(Operator, Vec<Expr>)> = None;
        loop {
            let token = self.next();
            let operator = token.kind.operator().filter(|op| op.precedence() >= lowest);
            let Some(operator) = operator else {
                self.back();
                self.height = height + row.as_ref().map_or(0, |(_, operands)| added(operands));
                return Ok(closed(row, left));
            };
            let right = if operator.takes_regex() {
                self.height = 1;
                Expr::Regex(self.required_regex()?)
            } else if operator.precedence() < 5 {
                self.operation(operator.precedence() + 1)?
            } else {
                self.operand()?
            };
            height = height.max(self.height);
            match &mut row {
                Some((last, operands)) if *last == operator => {
                    operands.push(std::mem::replace(&mut left, right));
                }
                _ if matches!(operator, Operator::And | Operator::Or) => {
                    height += row.as_ref().map_or(0, |(_, operands)| added(operands));
                    let first = closed(row.take(), left);
                    row = Some((operator, vec![first]));
                    left = right;
                }
                _ => {
                    left = Expr::Binary(operator, Box::new(left), Box::new(right));
                    height += 1;
                }
            }
            // The first operand is a level, too.
            if height > HEIGHT_MAX + 1 {
                return Err(Error::TooDeep {
                    limit: HEIGHT_MAX,
                    at: token.at,
                });
            }
        }
    }

    fn operand(&mut self) -> Parsed<Expr> {
        self.height = 1;
        let token = self.next();
        match token.kind {
            Kind::LeftParen => {
                let inner = self.expr()?;
                self.height += 1;
                let token = self.next();
                if token.kind != Kind::RightParen {
                    return Err(unexpected(&token, &[")"]));
                }
                Ok(Expr::Paren(Box::new(inner)))
            }
            Kind::Ident => {
                if self.scan().kind == Kind::LeftParen {
                    return self.call(&token.text);
                }
                self.back();
                self.back();
                self.reference()
            }
            Kind::Distinct => self.distinct(),
            Kind::Text => Ok(Expr::Text(token.text.into_owned())),
            Kind::Number => match token.text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Expr::Float(value)),
                _ => Err(invalid("unable to parse number", &token)),
            },
            Kind::Integer => match (token.text.parse(), token.text.parse()) {
                (Ok(value), _) => Ok(Expr::Integer(value)),
                (_, Ok(value)) => Ok(Expr::Unsigned(value)),
                _ => Err(invalid("unable to parse integer", &token)),
            },
            Kind::True => Ok(Expr::Boolean(true)),
            Kind::False => Ok(Expr::Boolean(false)),
            Kind::Duration => parse_duration(&token.text).map(Expr::Duration),
            Kind::Mul => self.wildcard(),
            Kind::Regex => match crate::Pattern::new(&token.text) {
                Ok(pattern) => Ok(Expr::Regex(pattern)),
                Err(reason) => Err(Error::Invalid {
                    reason,
                    at: token.at,
                }),
            },
            Kind::BoundParam => Err(Self::unbound(&token)),
            Kind::Add => self.signed(false),
            Kind::Sub => self.signed(true),
            _ => Err(unexpected(
                &token,
                &["identifier", "string", "number", "bool"],
            )),
        }
    }

    fn unbound(token: &Token<'_>) -> Error {
        // A value that is an error has its text in place of the name.
        let Some(name) = token.text.strip_prefix('$') else {
            return Error::refused(token.text.as_ref());
        };
        if name.is_empty() {
            return Error::refused("empty bound parameter");
        }
        Error::refused(format!("missing parameter: {name}"))
    }

    fn distinct(&mut self) -> Parsed<Expr> {
        let token = self.scan();
        match token.kind {
            Kind::LeftParen => self.call("distinct"),
            Kind::Space => self.ident().map(Expr::Distinct),
            _ => Err(unexpected(&token, &["(", "identifier"])),
        }
    }

    fn wildcard(&mut self) -> Parsed<Expr> {
        if self.scan().kind != Kind::DoubleColon {
            self.back();
            return Ok(Expr::Wildcard(None));
        }
        let token = self.scan();
        match token.kind {
            Kind::Field => Ok(Expr::Wildcard(Some(WildcardKind::Field))),
            Kind::Tag => Ok(Expr::Wildcard(Some(WildcardKind::Tag))),
            _ => Err(unexpected(&token, &["field", "tag"])),
        }
    }

    /// What stands behind a sign.
    fn signed(&mut self, negative: bool) -> Parsed<Expr> {
        let token = self.next();
        if !matches!(
            token.kind,
            Kind::Number | Kind::Integer | Kind::Duration | Kind::LeftParen | Kind::Ident
        ) {
            return Err(unexpected(
                &token,
                &["identifier", "number", "duration", "("],
            ));
        }
        self.back();
        let operand = self.operand()?;
        let sign = if negative { -1 } else { 1 };
        Ok(match operand {
            Expr::Float(value) => Expr::Float(value * sign as f64),
            Expr::Integer(value) => Expr::Integer(value.wrapping_mul(sign)),
            Expr::Duration(value) => Expr::Duration(value.wrapping_mul(sign)),
            Expr::Unsigned(value) if negative => {
                if value != i64::MIN.unsigned_abs() {
                    return Err(Error::refused(format!(
                        "constant -{value} underflows int64"
                    )));
                }
                Expr::Integer(i64::MIN)
            }
            literal @ Expr::Unsigned(_) => literal,
            other => {
                self.height += 1;
                Expr::Binary(
                    Operator::Mul,
                    Box::new(Expr::Integer(sign)),
                    Box::new(other),
                )
            }
        })
    }

    fn reference(&mut self) -> Parsed<Expr> {
        const CASTS: [&str; 7] = [
            "float", "integer", "unsigned", "string", "boolean", "field", "tag",
        ];
        let name = self.segments()?.join(".");
        if self.scan().kind != Kind::DoubleColon {
            self.back();
            return Ok(Expr::Reference(Reference { name, cast: None }));
        }
        let token = self.scan();
        let cast = match token.kind {
            Kind::Field => Cast::Field,
            Kind::Tag => Cast::Tag,
            Kind::Ident => match token.text.to_ascii_lowercase().as_str() {
                "float" => Cast::Float,
                "integer" => Cast::Integer,
                "unsigned" => Cast::Unsigned,
                "string" => Cast::Text,
                "boolean" => Cast::Boolean,
                _ => return Err(unexpected(&token, &CASTS)),
            },
            _ => {
                let names = ["float", "integer", "string", "boolean", "field", "tag"];
                return Err(unexpected(&token, &names));
            }
        };
        Ok(Expr::Reference(Reference {
            name,
            cast: Some(cast),
        }))
    }

    /// The arguments of a call, after its parenthesis.
    fn call(&mut self, name: &str) -> Parsed<Expr> {
        let name = name.to_lowercase();
        let mut arguments = Vec::new();
        let mut height = 1;
        if let Some(pattern) = self.regex()? {
            arguments.push(Expr::Regex(pattern));
        } else {
            if self.scan().kind == Kind::RightParen {
                return Ok(Expr::Call(Call { name, arguments }));
            }
            self.back();
            arguments.push(self.expr()?);
            height = self.height;
        }
        while self.accept(Kind::Comma) {
            let argument = match self.regex()? {
                Some(pattern) => Expr::Regex(pattern),
                None => self.expr()?,
            };
            height = height.max(self.height);
            arguments.push(argument);
        }
        let token = self.scan();
        if token.kind != Kind::RightParen {
            return Err(unexpected(&token, &[")"]));
        }
        self.height = height + 1;
        Ok(Expr::Call(Call { name, arguments }))
    }
}

fn invalid(reason: &str, token: &Token<'_>) -> Error {
    Error::Invalid {
        reason: reason.to_owned(),
        at: token.at,
    }
}

fn closed(row: Option<(Operator, Vec<Expr>)>, last: Expr) -> Expr {
    match row {
        None => last,
        Some((operator, mut operands)) => {
            operands.push(last);
            balanced(operator, operands)
        }
    }
}

/// A row of at most so many operands is a tree to the left, as elsewhere.
const LEFT_MAX: usize = 16;

/// Levels that `balanced` adds, at most.
fn added(operands: &[Expr]) -> usize {
    LEFT_MAX + operands.len().max(1).ilog2() as usize
}

/// The operands under a tree of small height: ten thousand of them would else nest ten thousand deep.
fn balanced(operator: Operator, mut operands: Vec<Expr>) -> Expr {
    while operands.len() > LEFT_MAX {
        let mut halved = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            halved.push(match rest.next() {
                Some(right) => Expr::Binary(operator, Box::new(left), Box::new(right)),
                None => left,
            });
        }
        operands = halved;
    }
    operands
        .into_iter()
        .reduce(|left, right| Expr::Binary(operator, Box::new(left), Box::new(right)))
        .unwrap_or(Expr::Boolean(true))
}
