//! Scanner: characters to tokens, with InfluxDB's positions.
//!
//! Does: keep the last three tokens, so that the parser can step back.
//! Does not: know grammar, except that the parser asks for a regular expression where one may stand.
//!
//! Positions are those of InfluxDB's scanner, quirks included: a text in quotes starts at the character before it, and the
//! end of the text lies one further once it was read.

use std::borrow::Cow;

use crate::Position;
use crate::token::{Kind, Token};

/// The end of the text.
const END: char = '\0';

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    next: Position,
    /// Where the character that was read last stands.
    last: Position,
    end_read: bool,
}

/// Why a text in quotes or a regular expression ended early.
enum Broken {
    Unfinished,
    Escape(String),
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        // A NUL ends the text, as it does there.
        let text = text.split(END).next().unwrap_or_default();
        Self {
            text,
            offset: 0,
            next: Position::default(),
            last: Position::default(),
            end_read: false,
        }
    }

    /// The next character, without reading it.
    pub(crate) fn peek(&self) -> char {
        match self.rest().chars().next() {
            Some('\r') => '\n',
            Some(c) => c,
            None => END,
        }
    }

    /// The next character for a look ahead that counts the end of the text as read.
    pub(crate) fn look(&mut self) -> char {
        let c = self.peek();
        if c == END {
            self.read();
        }
        c
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn read(&mut self) -> char {
        let mut chars = self.rest().chars();
        let Some(first) = chars.next() else {
            self.last = self.next;
            if !self.end_read {
                self.next.char += 1;
                self.end_read = true;
            }
            return END;
        };
        self.last = self.next;
        self.offset += first.len_utf8();
        let c = if first == '\r' {
            if chars.next() == Some('\n') {
                self.offset += 1;
            }
            '\n'
        } else {
            first
        };
        if c == '\n' {
            self.next = Position {
                line: self.next.line + 1,
                char: 0,
            };
        } else {
            self.next.char += 1;
        }
        c
    }

    fn read_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.offset;
        while wanted(self.peek()) {
            self.read();
        }
        self.text.get(start..self.offset).unwrap_or_default()
    }

    fn read_if(&mut self, wanted: char) -> bool {
        let found = self.peek() == wanted;
        if found {
            self.read();
        }
        found
    }

    pub(crate) fn scan(&mut self) -> Token<'a> {
        let before = self.last;
        let at = self.next;
        let c = self.peek();
        if is_space(c) {
            return Token {
                kind: Kind::Space,
                at,
                text: self.spaces(),
            };
        }
        if is_ident(c) && !c.is_ascii_digit() || c == '"' {
            return self.ident(true);
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        if c == '.'
            && self
                .rest()
                .as_bytes()
                .get(1)
                .is_some_and(u8::is_ascii_digit)
        {
            return self.number();
        }
        self.read();
        let kind = match c {
            END => Kind::Eof,
            '\'' => return self.quoted(c, before),
            '.' => Kind::Dot,
            '$' => return self.bound_param(at),
            '-' if self.read_if('-') => {
                while !matches!(self.read(), '\n' | END) {}
                Kind::Comment
            }
            '/' if self.read_if('*') => self.block_comment(),
            '=' if self.read_if('~') => Kind::Match,
            '!' if self.read_if('=') => Kind::NotEq,
            '!' if self.read_if('~') => Kind::NotMatch,
            '>' if self.read_if('=') => Kind::GtEq,
            '<' if self.read_if('=') => Kind::LtEq,
            '<' if self.read_if('>') => Kind::NotEq,
            ':' if self.read_if(':') => Kind::DoubleColon,
            '+' => Kind::Add,
            '-' => Kind::Sub,
            '*' => Kind::Mul,
            '/' => Kind::Div,
            '%' => Kind::Mod,
            '&' => Kind::BitAnd,
            '|' => Kind::BitOr,
            '^' => Kind::BitXor,
            '=' => Kind::Eq,
            '>' => Kind::Gt,
            '<' => Kind::Lt,
            '(' => Kind::LeftParen,
            ')' => Kind::RightParen,
            ',' => Kind::Comma,
            ';' => Kind::Semicolon,
            ':' => Kind::Colon,
            other => {
                return Token {
                    kind: Kind::Illegal,
                    at,
                    text: Cow::Owned(other.to_string()),
                };
            }
        };
        Token {
            kind,
            at,
            text: Cow::Borrowed(""),
        }
    }

    fn spaces(&mut self) -> Cow<'a, str> {
        let text = self.read_while(is_space);
        if self.peek() == END {
            self.read();
        }
        if text.contains('\r') {
            Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
        } else {
            Cow::Borrowed(text)
        }
    }

    fn block_comment(&mut self) -> Kind {
        loop {
            match self.read() {
                END => return Kind::Illegal,
                '*' => {
                    while self.read_if('*') {}
                    match self.read() {
                        '/' => return Kind::Comment,
                        END => return Kind::Illegal,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn bound_param(&mut self, at: Position) -> Token<'a> {
        let name = self.ident(false);
        let kind = if name.kind == Kind::Ident {
            Kind::BoundParam
        } else {
            name.kind
        };
        Token {
            kind,
            at,
            text: Cow::Owned(format!("${}", name.text)),
        }
    }

    /// An identifier, bare or in double quotes. What stands bare before a quote is lost, as there.
    fn ident(&mut self, keywords: bool) -> Token<'a> {
        let at = self.next;
        let bare = self.read_while(is_ident);
        if self.peek() == '"' {
            let before = self.last;
            self.read();
            let token = self.quoted('"', before);
            return match token.kind {
                Kind::Text => Token {
                    kind: Kind::Ident,
                    at,
                    text: token.text,
                },
                _ => token,
            };
        }
        if self.peek() == END {
            self.read();
        }
        let kind = if keywords {
            Kind::of_word(bare)
        } else {
            Kind::Ident
        };
        let text = if kind == Kind::Ident { bare } else { "" };
        Token {
            kind,
            at,
            text: Cow::Borrowed(text),
        }
    }

    /// A text after its opening quote; `start` is where the character before that stands.
    fn quoted(&mut self, quote: char, start: Position) -> Token<'a> {
        let simple = self.rest().find(['\\', '\n', '\r', quote]);
        if let Some(bytes) = simple
            && self
                .rest()
                .get(bytes..)
                .is_some_and(|rest| rest.starts_with(quote))
        {
            let text = self.rest().get(..bytes).unwrap_or_default();
            while self.read() != quote {}
            return Token {
                kind: Kind::Text,
                at: start,
                text: Cow::Borrowed(text),
            };
        }
        let mut out = String::new();
        match self.unescape(quote, &mut out) {
            Ok(()) => Token {
                kind: Kind::Text,
                at: start,
                text: Cow::Owned(out),
            },
            Err(Broken::Unfinished) => Token {
                kind: Kind::BadText,
                at: start,
                text: Cow::Owned(out),
            },
            Err(Broken::Escape(text)) => Token {
                kind: Kind::BadEscape,
                at: self.last,
                text: Cow::Owned(text),
            },
        }
    }

    fn unescape(&mut self, quote: char, out: &mut String) -> Result<(), Broken> {
        loop {
            match self.read() {
                c if c == quote => return Ok(()),
                END | '\n' => return Err(Broken::Unfinished),
                '\\' => match self.read() {
                    'n' => out.push('\n'),
                    c @ ('\\' | '"' | '\'') => out.push(c),
                    other => return Err(Broken::Escape(format!("\\{other}"))),
                },
                c => out.push(c),
            }
        }
    }

    /// A regular expression between slashes. Only `\/` is an escape of ours.
    pub(crate) fn scan_regex(&mut self) -> Token<'a> {
        let at = self.last;
        let bad = Token {
            kind: Kind::BadRegex,
            at,
            text: Cow::Borrowed(""),
        };
        if self.read() != '/' {
            return bad;
        }
        let mut out = String::new();
        loop {
            match self.read() {
                '/' => {
                    return Token {
                        kind: Kind::Regex,
                        at,
                        text: Cow::Owned(out),
                    };
                }
                END | '\n' => return bad,
                '\\' if self.peek() == '/' => {
                    self.read();
                    out.push('/');
                }
                // The text ends behind the backslash.
                '\\' if self.peek() == END => return bad,
                c => out.push(c),
            }
        }
    }

    fn number(&mut self) -> Token<'a> {
        let at = self.next;
        let start = self.offset;
        self.read_while(|c| c.is_ascii_digit());
        let mut end = self.offset;
        let mut kind = Kind::Integer;
        if self.peek() == '.' {
            kind = Kind::Number;
            self.read();
            if self.peek().is_ascii_digit() {
                self.read_while(|c| c.is_ascii_digit());
                end = self.offset;
            }
        } else if self.peek().is_ascii_alphabetic() || self.peek() == '\u{b5}' {
            kind = Kind::Duration;
            self.read_while(|c| c.is_ascii_alphanumeric() || c == '\u{b5}');
            end = self.offset;
        }
        Token {
            kind,
            at,
            text: Cow::Borrowed(self.text.get(start..end).unwrap_or_default()),
        }
    }
}

pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_ident(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
