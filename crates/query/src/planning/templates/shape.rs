//! The shape of a statement: its tokens, without the texts that its WHERE compares with.
//!
//! What a text is compared with is told from the tokens around it alone, so that finding out takes no parser: it stands behind
//! a comparison, in BETWEEN or in a list of IN that has nothing but texts. Whether that is so decides who makes the template.
//! Two statements of one shape are parsed into trees that differ in these texts only. A text that comes beside a statement
//! ($1) is one like others; any other parameter is part of the shape with its value. A whole number behind `=` may be a value too,
//! such as a row's key; whether the plan stays the same is seen when the template is made, and if it does not, the shape is the
//! one that has the number (`as_written`). Does not: look at names or types.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::{Param, Params};

use crate::statement::params;

/// Longer statements are written by programs, each another one.
const BYTES_MAX: usize = 8192;

/// Lists of up to so many values are planned as comparisons, and each number of them has a plan of its own.
const LIST_SPELLED_OUT_MAX: usize = 3;

/// In the place of a text, and of a time that came beside the statement.
const VALUE: &str = "? ";
const TIME: &str = "?time ";
const NUMBER: &str = "?n ";

/// In the place of the text that `now()` is not.
pub(super) const NOW: &str = "now()";

/// A statement without the texts that it compares with, and these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    text: String,
    values: Vec<Vec<String>>,
    has_now: bool,
    /// Whether numbers are among the values.
    has_numbers: bool,
    /// The same with its numbers as they are, if it has some among its values.
    as_written: Option<Box<Shape>>,
}

impl Shape {
    /// The shape of a query; `None` = no template is worth looking for.
    pub(crate) fn of(tokens: &[TokenWithSpan], params: &Params) -> Option<Self> {
        let mut shape = Self::read(tokens, params, true)?;
        if shape.has_numbers {
            shape.as_written = Self::read(tokens, params, false).map(Box::new);
        }
        Some(shape)
    }

    fn read(tokens: &[TokenWithSpan], params: &Params, takes_numbers: bool) -> Option<Self> {
        let mut tokens = Significant(tokens);
        if !matches!(tokens.keyword(), Some(Keyword::SELECT | Keyword::WITH)) {
            return None;
        }
        let mut shape = Self {
            text: String::with_capacity(512),
            values: Vec::new(),
            has_now: false,
            has_numbers: false,
            as_written: None,
        };
        let mut depth = 0usize;
        // How deep the WHEREs stand that have not ended, the innermost last.
        let mut wheres: Vec<usize> = Vec::new();
        // Whether a parenthesis has opened just before.
        let mut opened = false;
        // Where a BETWEEN waits for its AND.
        let mut between = None;
        while let Some(token) = tokens.first() {
            let mut follows = false;
            let is_where = !wheres.is_empty();
            let opens = std::mem::replace(&mut opened, *token == Token::LParen);
            match token {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth = depth.checked_sub(1)?;
                    wheres.retain(|at| *at <= depth);
                }
                Token::Eq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => follows = is_where,
                Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                    // That of FILTER (WHERE ...) says nothing of rows that are read.
                    Keyword::WHERE if !opens => wheres.push(depth),
                    Keyword::GROUP | Keyword::ORDER | Keyword::LIMIT | Keyword::HAVING => {
                        wheres.retain(|at| *at < depth);
                    }
                    Keyword::BETWEEN if is_where => {
                        between = Some(depth);
                        follows = true;
                    }
                    Keyword::AND if between == Some(depth) => {
                        between = None;
                        follows = is_where;
                    }
                    _ => {}
                },
                _ => {}
            }
            shape.push(token, params);
            let is_in = !wheres.is_empty() && tokens.keyword() == Some(Keyword::IN);
            let equals = *token == Token::Eq;
            tokens.advance();
            if follows {
                if takes_numbers && equals {
                    shape.take_number(&mut tokens, params);
                }
                shape.take_value(&mut tokens, params);
                shape.take_now(&mut tokens, params);
            } else if is_in {
                shape.take_list(&mut tokens, params)?;
            }
            if shape.text.len() > BYTES_MAX {
                return None;
            }
        }
        Some(shape)
    }

    /// The tokens; equal for two statements that differ in values only.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The texts that are compared with, in the order of the statement; several for a list.
    pub(crate) fn values(&self) -> &[Vec<String>] {
        &self.values
    }

    /// Whether numbers are among the values.
    pub(super) fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// The same with its numbers as they are, if it has some among its values.
    pub(super) fn as_written(&self) -> Option<&Self> {
        self.as_written.as_deref()
    }

    /// What `now()` says in a statement that begins now, if it is asked.
    pub(super) fn now_ns(&self) -> i64 {
        if !self.has_now {
            return 0;
        }
        this_moment()
    }

    /// Adds a token as it is. Each says its length, so that nothing in it is taken for the next one.
    fn push(&mut self, token: &Token, params: &Params) {
        // Writing to a string cannot fail.
        let _ = match token {
            Token::Word(word) => write!(
                self.text,
                "{}{}:{} ",
                word.quote_style.unwrap_or('w'),
                word.value.len(),
                word.value
            ),
            Token::SingleQuotedString(text) => write!(self.text, "s{}:{text} ", text.len()),
            // With its value, which may be a number, of which the plan may depend.
            Token::Placeholder(name) => {
                let shown = format!("{name}={:?}", value_of(name, params));
                write!(self.text, "p{}:{shown} ", shown.len())
            }
            other => {
                let shown = format!("{other:?}");
                write!(self.text, "o{}:{shown} ", shown.len())
            }
        };
    }

    /// Takes the text that is compared with, if one follows.
    fn take_value(&mut self, tokens: &mut Significant<'_>, params: &Params) {
        let mut next = tokens.clone();
        let is_typed = next.keyword() == Some(Keyword::TIMESTAMP);
        let word = next.first();
        if is_typed {
            next.advance();
        }
        if let Some((text, mark)) = next.first().and_then(|token| text_of(token, params)) {
            if let Some(word) = word.filter(|_| is_typed) {
                self.push(word, params);
            }
            self.values.push(vec![text]);
            self.text.push_str(mark);
            next.advance();
            *tokens = next;
        }
    }

    /// Takes the whole number that is compared with, if one follows.
    fn take_number(&mut self, tokens: &mut Significant<'_>, params: &Params) {
        let mut next = tokens.clone();
        let number = next.first().and_then(|token| match token {
            Token::Number(digits, _) => digits.parse().ok(),
            Token::Placeholder(name) => match value_of(name, params)? {
                Param::I64(number) => Some(*number),
                _ => None,
            },
            _ => None,
        });
        // A sign is another token.
        if let Some(number @ 0..) = number {
            self.values.push(vec![number.to_string()]);
            self.text.push_str(NUMBER);
            self.has_numbers = true;
            next.advance();
            *tokens = next;
        }
    }

    /// Notes that `now()` is compared with, if it follows. What is added to it is part of the shape.
    fn take_now(&mut self, tokens: &mut Significant<'_>, params: &Params) {
        let mut next = tokens.clone();
        let Some(word @ Token::Word(_)) = next.first() else {
            return;
        };
        let Token::Word(name) = word else { return };
        if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("now") {
            return;
        }
        next.advance();
        for wanted in [Token::LParen, Token::RParen] {
            if next.first() != Some(&wanted) {
                return;
            }
            next.advance();
        }
        for token in [word, &Token::LParen, &Token::RParen] {
            self.push(token, params);
        }
        self.values.push(vec![NOW.to_owned()]);
        self.has_now = true;
        *tokens = next;
    }

    /// Takes a list of texts, if one follows; `None` = it has a text twice, which the planner may notice.
    fn take_list(&mut self, tokens: &mut Significant<'_>, params: &Params) -> Option<()> {
        let mut rest = tokens.clone();
        if rest.first() != Some(&Token::LParen) {
            return Some(());
        }
        let mut values: Vec<String> = Vec::new();
        loop {
            rest.advance();
            match rest.first().and_then(|token| text_of(token, params)) {
                Some((text, VALUE)) => values.push(text),
                _ => return Some(()),
            }
            rest.advance();
            match rest.first() {
                Some(Token::Comma) => {}
                Some(Token::RParen) => break,
                _ => return Some(()),
            }
        }
        rest.advance();
        *tokens = rest;
        let mut sorted: Vec<&String> = values.iter().collect();
        sorted.sort_unstable();
        if sorted.array_windows().any(|[one, next]| one == next) {
            return None;
        }
        // Writing to a string cannot fail.
        let _ = match values.len() {
            few @ ..=LIST_SPELLED_OUT_MAX => write!(self.text, "?{few} "),
            _ => write!(self.text, "?+ "),
        };
        self.values.push(values);
        Some(())
    }
}

/// What `now()` says in a statement that begins now.
pub(crate) fn this_moment() -> i64 {
    let mut properties = ExecutionProps::new();
    properties.mark_start_execution(Arc::default());
    now_of(&properties)
}

/// What `now()` says in a statement that has begun.
pub(crate) fn now_of(properties: &ExecutionProps) -> i64 {
    let begun = properties.query_execution_start_time;
    begun
        .and_then(|time| time.timestamp_nanos_opt())
        .unwrap_or(0)
}

/// What stands for a parameter.
fn value_of<'p>(placeholder: &str, params: &'p Params) -> Option<&'p Param> {
    let name = placeholder.strip_prefix('$')?;
    let number: Option<usize> = name.parse().ok();
    let numbered = number.and_then(|number| params.numbered(number));
    numbered.or_else(|| params.named(name))
}

/// The text that a token is, or stands for, and what stands for it in the shape.
fn text_of(token: &Token, params: &Params) -> Option<(String, &'static str)> {
    match token {
        Token::SingleQuotedString(text) => Some((text.clone(), VALUE)),
        Token::Placeholder(name) => match value_of(name, params)? {
            Param::Text(text) => Some((text.clone(), VALUE)),
            Param::Time(time) => Some((params::time_text(*time), TIME)),
            _ => None,
        },
        _ => None,
    }
}

/// Tokens without what lies between them.
#[derive(Clone)]
struct Significant<'a>(&'a [TokenWithSpan]);

impl<'a> Significant<'a> {
    fn first(&mut self) -> Option<&'a Token> {
        loop {
            let (first, rest) = self.0.split_first()?;
            match first.token {
                Token::Whitespace(_) => self.0 = rest,
                Token::EOF => return None,
                _ => return Some(&first.token),
            }
        }
    }

    fn keyword(&mut self) -> Option<Keyword> {
        match self.first()? {
            Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
            _ => None,
        }
    }

    /// Goes past the first token.
    fn advance(&mut self) {
        if self.first().is_some() {
            self.0 = self.0.get(1..).unwrap_or_default();
        }
    }
}
