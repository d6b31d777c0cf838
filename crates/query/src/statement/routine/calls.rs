//! Calls of functions of the store in the tokens of a statement.
//!
//! Does: find them, with their arguments and with what stands around them. Does not: know which functions there are.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// An argument: its name, where it is said, and its tokens.
type Argument = (Option<String>, Range<usize>);

/// What may be the call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    /// Its tokens.
    pub(crate) tokens: Range<usize>,
    /// A schema, if one is said.
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    /// It is a whole column of a SELECT, without a name of its own.
    pub(crate) is_column: bool,
    /// A table is expected where it stands.
    pub(crate) is_table: bool,
}

/// The words that statements begin with in which functions are called.
const CALLING: [&str; 7] = [
    "select", "with", "insert", "update", "delete", "explain", "values",
];

/// Words behind which a list of columns ends.
const ENDS_LIST: [&str; 14] = [
    "from",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "except",
    "intersect",
    "window",
    "values",
    "set",
];

/// The outermost calls of a statement, or of a part of one where `is_part`; those in their arguments are not among them.
pub(crate) fn calls(
    tokens: &[TokenWithSpan],
    is_part: bool,
    is_own: &dyn Fn(Option<&str>, &str) -> bool,
) -> Vec<Call> {
    let own: Vec<usize> = (0..tokens.len())
        .filter(|at| {
            !matches!(
                tokens.get(*at).map(|it| &it.token),
                Some(Token::Whitespace(_) | Token::EOF) | None
            )
        })
        .collect();
    let reader = Reader { tokens, own: &own };
    let begins = (0..own.len()).find_map(|nth| reader.word(nth));
    if !is_part && !begins.is_some_and(|word| CALLING.contains(&word.as_str())) {
        return Vec::new();
    }
    let mut found = Vec::new();
    // Of each pair of parentheses whether columns of a SELECT are listed there now.
    let mut lists = vec![false];
    let mut nth = 0;
    while nth < own.len() {
        match reader.token(nth) {
            Some(Token::LParen) => lists.push(false),
            Some(Token::RParen) if lists.len() > 1 => drop(lists.pop()),
            _ => {}
        }
        if let (Some(word), Some(list)) = (reader.word(nth), lists.last_mut()) {
            if word == "select" || word == "returning" {
                *list = true;
            } else if ENDS_LIST.contains(&word.as_str()) {
                *list = false;
            }
        }
        let call = reader.call(nth, is_own);
        let Some((mut call, end)) = call else {
            nth += 1;
            continue;
        };
        call.is_column = lists.last() == Some(&true) && reader.is_column(nth, end);
        found.push(call);
        nth = end;
    }
    found
}

struct Reader<'a> {
    tokens: &'a [TokenWithSpan],
    /// Those that are no space.
    own: &'a [usize],
}

impl Reader<'_> {
    fn token(&self, nth: usize) -> Option<&Token> {
        Some(&self.tokens.get(*self.own.get(nth)?)?.token)
    }

    /// A word that is not quoted, in small letters.
    fn word(&self, nth: usize) -> Option<String> {
        match self.token(nth)? {
            Token::Word(word) if word.quote_style.is_none() => {
                Some(word.value.to_ascii_lowercase())
            }
            _ => None,
        }
    }

    fn name(&self, nth: usize) -> Option<String> {
        match self.token(nth)? {
            Token::Word(word) => Some(match word.quote_style {
                None => word.value.to_ascii_lowercase(),
                Some(_) => word.value.clone(),
            }),
            _ => None,
        }
    }

    /// The call that begins at a word, and what comes behind it.
    fn call(
        &self,
        nth: usize,
        is_own: &dyn Fn(Option<&str>, &str) -> bool,
    ) -> Option<(Call, usize)> {
        let before = |back: usize| nth.checked_sub(back).and_then(|at| self.token(at));
        if matches!(before(1), Some(Token::Period)) {
            return None;
        }
        let mut name = self.name(nth)?;
        let mut schema = None;
        let mut open = nth + 1;
        if matches!(self.token(open), Some(Token::Period)) {
            schema = Some(std::mem::replace(&mut name, self.name(nth + 2)?));
            open = nth + 3;
        }
        if !matches!(self.token(open), Some(Token::LParen)) || !is_own(schema.as_deref(), &name) {
            return None;
        }
        let (arguments, end) = self.arguments(open)?;
        let last_word = nth.checked_sub(1).and_then(|at| self.word(at));
        let is_table =
            last_word.is_some_and(|it| ["from", "join", "lateral"].contains(&it.as_str()));
        let call = Call {
            tokens: *self.own.get(nth)?..*self.own.get(end - 1)? + 1,
            schema,
            name,
            arguments,
            is_column: false,
            is_table,
        };
        Some((call, end))
    }

    /// What stands between parentheses, by its commas, and what comes behind them.
    fn arguments(&self, open: usize) -> Option<(Vec<Argument>, usize)> {
        let (mut depth, mut start, mut at) = (0_usize, open + 1, open);
        let mut found = Vec::new();
        loop {
            let is_end = match self.token(at)? {
                Token::LParen | Token::LBracket | Token::LBrace => {
                    depth += 1;
                    false
                }
                Token::RParen | Token::RBracket | Token::RBrace => {
                    depth = depth.checked_sub(1)?;
                    depth == 0
                }
                Token::Comma if depth == 1 => {
                    found.push(self.argument(start, at)?);
                    start = at + 1;
                    false
                }
                _ => false,
            };
            at += 1;
            if is_end {
                break;
            }
        }
        if start < at - 1 || !found.is_empty() {
            found.push(self.argument(start, at - 1)?);
        }
        Some((found, at))
    }

    fn argument(&self, start: usize, end: usize) -> Option<Argument> {
        let is_named = matches!(
            self.token(start + 1),
            Some(Token::RArrow | Token::Assignment)
        );
        let name = if is_named { self.name(start) } else { None };
        let start = if name.is_some() { start + 2 } else { start };
        if start >= end {
            // Two commas, which the statement is refused for.
            return None;
        }
        Some((name, *self.own.get(start)?..*self.own.get(end - 1)? + 1))
    }

    /// Whether what stands from one token up to another is alone between the commas of a list.
    fn is_column(&self, from: usize, end: usize) -> bool {
        let before = from.checked_sub(1);
        let begins = before.is_some_and(|at| {
            matches!(self.token(at), Some(Token::Comma))
                || self.word(at).is_some_and(|it| {
                    ["select", "all", "distinct", "returning"].contains(&it.as_str())
                })
        });
        let ends = match self.token(end) {
            None | Some(Token::Comma | Token::RParen | Token::SemiColon) => true,
            _ => self
                .word(end)
                .is_some_and(|it| ENDS_LIST.contains(&it.as_str())),
        };
        begins && ends
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    /// Calls as their names, their arguments, and `c` or `t` where they are a column or a table.
    fn told(sql: &str) -> Vec<String> {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap();
        let is_own = |_: Option<&str>, name: &str| ["f", "f2"].contains(&name);
        let text = |range: &Range<usize>| -> String {
            let own = tokens.get(range.clone()).unwrap();
            own.iter().map(|it| it.token.to_string()).collect()
        };
        calls(&tokens, false, &is_own)
            .iter()
            .map(|call| {
                let arguments = call.arguments.iter().map(|(name, tokens)| match name {
                    Some(name) => format!("{name}:{}", text(tokens)),
                    None => text(tokens),
                });
                let arguments: Vec<String> = arguments.collect();
                let kind = match (call.is_column, call.is_table) {
                    (true, _) => " c",
                    (_, true) => " t",
                    _ => "",
                };
                format!("{}({}){kind}", call.name, arguments.join("|"))
            })
            .collect()
    }

    #[test]
    fn calls_are_found_with_their_arguments_and_where_they_stand() {
        assert_eq!(told("SELECT f()"), ["f() c"]);
        assert_eq!(told("SELECT f(1, g(2, 3)), a FROM t"), ["f(1|g(2, 3)) c"]);
        assert_eq!(told("SELECT f(f(1)) + 1 FROM t"), ["f(f(1))"]);
        assert_eq!(
            told("SELECT a, F(x => 1, y := 'a,b') AS n FROM t WHERE s.f2(ARRAY[1, 2]) > 0"),
            ["f(x:1|y:'a,b')", "f2(ARRAY[1, 2])"]
        );
        assert_eq!(told("SELECT * FROM f(1)"), ["f(1) t"]);
        assert_eq!(
            told("SELECT n FROM (SELECT f(n), 1 FROM t) q ORDER BY f(n)"),
            ["f(n) c", "f(n)"]
        );
        assert_eq!(told("SELECT g(1, f(2), 3)"), ["f(2)"]);
        assert_eq!(told("CREATE VIEW v AS SELECT f(1)"), [""; 0]);
        assert_eq!(told("SELECT f(1"), [""; 0]);
    }
}
