//! Tokens of SQL, as far as it takes to find the end of a statement and to read the few that are the session's.

use std::borrow::Cow;

use crate::sqlstate::Refused;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// In lower case.
    Word(Cow<'a, str>),
    /// A name in double quotes.
    Quoted(String),
    /// A text in single quotes or between dollars.
    Text(String),
    Number(&'a str),
    /// `$1`.
    Placeholder(&'a str),
    Symbol(char),
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }
}

/// A token and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed<'a> {
    pub(crate) token: Token<'a>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The tokens of a text, without blanks and comments. What is not closed goes to the end.
pub(crate) fn tokens(text: &str) -> Tokens<'_> {
    Tokens { text, at: 0 }
}

#[derive(Debug, Clone)]
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Passes blanks and comments.
    fn pass(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                let length = trimmed.find('\n').map_or(trimmed.len(), |end| end + 1);
                self.at += length;
            } else if trimmed.starts_with("/*") {
                self.at += comment(trimmed);
            } else {
                return;
            }
        }
    }

    /// To behind the closing quote, with what is between.
    fn quoted(&mut self, quote: char, has_escapes: bool) -> String {
        let rest = self.rest();
        let mut letters = rest.char_indices().skip(1).peekable();
        let mut inner = String::new();
        while let Some((at, letter)) = letters.next() {
            if letter == quote {
                if letters.next_if(|(_, next)| *next == quote).is_some() {
                    inner.push(quote);
                    continue;
                }
                self.at += at + quote.len_utf8();
                return inner;
            }
            if letter == '\\' && has_escapes {
                if let Some((_, escaped)) = letters.next() {
                    inner.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                continue;
            }
            inner.push(letter);
        }
        self.at = self.text.len();
        inner
    }

    /// A text between `$tag$`; `None` = it is none.
    fn dollars(&mut self) -> Option<String> {
        let rest = self.rest();
        let tag = rest.get(1..)?;
        let length = tag.find('$')?;
        let tag = tag.get(..length)?;
        let is_tag = tag
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_')
            && !tag.starts_with(|letter: char| letter.is_ascii_digit());
        if !is_tag {
            return None;
        }
        let mark = rest.get(..length + 2)?;
        let inner = rest.get(length + 2..)?;
        let (inner, length) = match inner.find(mark) {
            Some(end) => (inner.get(..end)?, end + 2 * mark.len()),
            None => (inner, rest.len()),
        };
        self.at += length;
        Some(inner.to_owned())
    }
}

/// Bytes of a comment, which may hold others.
fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(two) = bytes.get(at..at + 2) {
        match two {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Placed<'a>;

    fn next(&mut self) -> Option<Placed<'a>> {
        self.pass();
        let start = self.at;
        let rest = self.rest();
        let first = rest.chars().next()?;
        let is_escaped = matches!(first, 'e' | 'E') && rest.get(1..2) == Some("'");
        let token = if is_escaped {
            self.at += 1;
            Token::Text(self.quoted('\'', true))
        } else if first == '\'' {
            Token::Text(self.quoted('\'', false))
        } else if first == '"' {
            Token::Quoted(self.quoted('"', false))
        } else if first == '$' {
            if let Some(inner) = self.dollars() {
                Token::Text(inner)
            } else {
                let length = rest
                    .char_indices()
                    .skip(1)
                    .find(|(_, letter)| !is_name(*letter))
                    .map_or(rest.len(), |(at, _)| at);
                self.at += length;
                Token::Placeholder(rest.get(..length).unwrap_or_default())
            }
        } else if first.is_ascii_digit() {
            let length = rest
                .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '.'))
                .unwrap_or(rest.len());
            self.at += length;
            Token::Number(rest.get(..length).unwrap_or_default())
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|letter: char| !is_name(letter))
                .unwrap_or(rest.len());
            self.at += length;
            let word = rest.get(..length).unwrap_or_default();
            Token::Word(if word.chars().any(char::is_uppercase) {
                Cow::Owned(word.to_lowercase())
            } else {
                Cow::Borrowed(word)
            })
        } else {
            self.at += first.len_utf8();
            Token::Symbol(first)
        };
        Some(Placed {
            token,
            start,
            end: self.at,
        })
    }
}

/// Reads tokens one after the other.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    tokens: std::iter::Peekable<Tokens<'a>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            tokens: tokens(text).peekable(),
        }
    }

    /// The next token, if it is a word that is not in quotes.
    pub(crate) fn word(&mut self) -> Option<String> {
        let is_word = |placed: &Placed<'a>| matches!(placed.token, Token::Word(_));
        match self.tokens.next_if(is_word)?.token {
            Token::Word(word) => Some(word.into_owned()),
            _ => None,
        }
    }

    /// Whether this word is next; then it is passed.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.tokens
            .next_if(|placed| placed.token.is_word(word))
            .is_some()
    }

    pub(crate) fn symbol(&mut self, symbol: char) -> bool {
        self.tokens
            .next_if(|placed| placed.token == Token::Symbol(symbol))
            .is_some()
    }

    /// A name.
    pub(crate) fn name(&mut self) -> Result<String, Refused> {
        let is_name =
            |placed: &Placed<'a>| matches!(placed.token, Token::Word(_) | Token::Quoted(_));
        match self.tokens.next_if(is_name).map(|placed| placed.token) {
            Some(Token::Word(word)) => Ok(word.into_owned()),
            Some(Token::Quoted(name)) => Ok(name),
            _ => Err(self.expected("a name")),
        }
    }

    /// The name of a setting, which may have a point in it.
    pub(crate) fn setting(&mut self) -> Result<String, Refused> {
        let mut name = self.name()?.to_lowercase();
        while self.symbol('.') {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    /// The name of a type: words, a length between parentheses, brackets.
    pub(crate) fn type_name(&mut self) -> Result<String, Refused> {
        let mut name = self.name()?;
        // The schema that types are in.
        if self.symbol('.') {
            name = self.name()?;
        }
        while let Some(word) = self.word() {
            name = format!("{name} {word}");
        }
        if self.symbol('(') {
            while !self.symbol(')') {
                if self.tokens.next().is_none() {
                    return Err(self.expected(")"));
                }
            }
        }
        while self.symbol('[') {
            let _ = self.number()?;
            if !self.symbol(']') {
                return Err(self.expected("]"));
            }
            name.push_str("[]");
        }
        Ok(name)
    }

    /// A whole number that is not negative, if one is next.
    pub(crate) fn number(&mut self) -> Result<Option<usize>, Refused> {
        let Some(Token::Number(digits)) = self.tokens.peek().map(|placed| &placed.token) else {
            return Ok(None);
        };
        let Ok(number) = digits.parse() else {
            return Err(self.expected("a whole number"));
        };
        self.tokens.next();
        Ok(Some(number))
    }

    /// A literal as text; `None` = NULL or DEFAULT.
    pub(crate) fn value(&mut self) -> Result<Option<String>, Refused> {
        let is_negative = self.symbol('-');
        let Some(placed) = self.tokens.peek().cloned() else {
            return Err(self.expected("a value"));
        };
        let text = match placed.token {
            Token::Number(digits) if is_negative => Some(format!("-{digits}")),
            Token::Number(digits) => Some(digits.to_owned()),
            Token::Text(text) if !is_negative => Some(text),
            Token::Word(word) if !is_negative => {
                (word != "null" && word != "default").then(|| word.into_owned())
            }
            Token::Quoted(name) if !is_negative => Some(name),
            _ => return Err(self.expected("a value")),
        };
        self.tokens.next();
        Ok(text)
    }

    /// One or more literals, as they are written if there are several.
    pub(crate) fn values(&mut self) -> Result<Option<String>, Refused> {
        let start = self.start();
        let first = self.value()?;
        if !matches!(
            self.tokens.peek().map(|placed| &placed.token),
            Some(Token::Symbol(','))
        ) {
            return Ok(first);
        }
        while self.symbol(',') {
            self.value()?;
        }
        let all = self.text.get(start..self.start()).unwrap_or_default();
        Ok(Some(all.trim().to_owned()))
    }

    /// What is left of the text; `None` = nothing.
    pub(crate) fn rest(&mut self) -> Option<String> {
        let start = self.start();
        let rest = self.text.get(start..).unwrap_or_default().trim();
        self.tokens = tokens("").peekable();
        (!rest.is_empty()).then(|| rest.to_owned())
    }

    /// What the next token begins at.
    pub(crate) fn start(&mut self) -> usize {
        let length = self.text.len();
        self.tokens.peek().map_or(length, |placed| placed.start)
    }

    /// The bytes of what comes until the parenthesis that closes the one before; that one is passed.
    pub(crate) fn until_closed(&mut self) -> Result<&'a str, Refused> {
        let start = self.start();
        let mut depth = 1;
        for placed in self.tokens.by_ref() {
            match placed.token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(self.text.get(start..placed.start).unwrap_or_default());
            }
        }
        Err(self.expected(")"))
    }

    pub(crate) fn at_end(&mut self) -> bool {
        self.tokens.peek().is_none()
    }

    pub(crate) fn end(&mut self) -> Result<(), Refused> {
        if self.at_end() {
            Ok(())
        } else {
            Err(self.expected("the end of the statement"))
        }
    }

    /// The character that the next token begins at, from 1.
    pub(crate) fn position(&self) -> usize {
        let next = self.tokens.clone().peek().map(|placed| placed.start);
        let before = self.text.get(..next.unwrap_or(self.text.len()));
        before.unwrap_or_default().chars().count() + 1
    }

    /// The next token, for an error.
    pub(crate) fn shown(&self) -> String {
        match self.tokens.clone().peek() {
            None => "the end of the statement".to_owned(),
            Some(placed) => {
                let text = self.text.get(placed.start..placed.end).unwrap_or_default();
                let shown: String = text.chars().take(100).collect();
                format!("\"{shown}\"")
            }
        }
    }
}
