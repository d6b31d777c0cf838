//! JSON: whether a text is some, its tree, and its one form as PostgreSQL's `jsonb` prints it.
//!
//! Does: read RFC 8259. Does not: keep trees, or calculate with numbers.

use std::fmt::{self, Write};

use super::decimal::Decimal;

/// Objects and arrays inside each other: less than the stack of a thread has room for.
const DEPTH_MAX: usize = 256;

/// Whether the text is JSON; the error is the byte at which it is not.
pub(super) fn check(text: &str) -> Result<(), usize> {
    parse(text).map(drop)
}

/// The text without spaces that mean nothing, keys in order of length and bytes, the last of equal ones.
pub(super) fn canonical(text: &str) -> Result<String, usize> {
    let mut out = String::with_capacity(text.len());
    parse(text)?.print(&mut out);
    Ok(out)
}

/// A value of JSON. Its text is that of PostgreSQL's `jsonb`: keys in order of length and bytes, the last of equal ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// null, true, false or a number, as it is printed.
    Word(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, its entries in the order in which they were written; of equal keys the last one counts.
    Object(Vec<(String, Json)>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

fn parse(text: &str) -> Result<Json, usize> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.spaces();
    if parser.at == text.len() {
        Ok(value)
    } else {
        Err(parser.at)
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), usize> {
        self.spaces();
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.at)
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, usize> {
        if depth > DEPTH_MAX {
            return Err(self.at);
        }
        self.spaces();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let words = ["null", "true", "false"];
                let word = words.iter().find(|word| rest.starts_with(**word));
                let word = word.ok_or(self.at)?;
                self.at += word.len();
                Ok(Json::Word((*word).to_owned()))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, usize> {
        self.at += 1;
        let mut entries: Vec<(String, Json)> = Vec::new();
        self.spaces();
        if self.take(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.spaces();
            if self.peek() != Some(b'"') {
                return Err(self.at);
            }
            let key = self.string()?;
            self.expect(b':')?;
            entries.push((key, self.value(depth + 1)?));
            self.spaces();
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        Ok(Json::Object(entries))
    }

    fn array(&mut self, depth: usize) -> Result<Json, usize> {
        self.at += 1;
        let mut items = Vec::new();
        self.spaces();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.spaces();
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Json::Array(items))
    }

    fn digits(&mut self) -> Result<usize, usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.at);
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Result<Json, usize> {
        let start = self.at;
        self.take(b'-');
        let is_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && is_zero {
            return Err(start);
        }
        let mut is_plain = true;
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            is_plain = false;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let printed = if is_plain {
            None
        } else {
            Decimal::parse(text).map(|number| number.to_string())
        };
        let mut text = printed.unwrap_or_else(|| text.to_owned());
        // A numeric has one zero, with the digits that were written behind the point.
        if text.starts_with('-') && text.bytes().all(|it| matches!(it, b'-' | b'0' | b'.')) {
            text.remove(0);
        }
        Ok(Json::Word(text))
    }

    fn string(&mut self) -> Result<String, usize> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            let rest = self.text.get(start..).ok_or(start)?;
            let letter = rest.chars().next().ok_or(start)?;
            self.at += letter.len_utf8();
            match letter {
                '"' => return Ok(out),
                '\\' => out.push(self.escape(start)?),
                '\0'..='\u{1f}' => return Err(start),
                letter => out.push(letter),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Result<char, usize> {
        let letter = self.peek().ok_or(start)?;
        self.at += 1;
        Ok(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit().ok_or(start)?;
                let code = if (0xD800..0xDC00).contains(&first) {
                    if !(self.take(b'\\') && self.take(b'u')) {
                        return Err(start);
                    }
                    let second = self.unit().ok_or(start)?;
                    if !(0xDC00..0xE000).contains(&second) {
                        return Err(start);
                    }
                    0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                } else {
                    first
                };
                // A text of PostgreSQL has no letter 0.
                char::from_u32(code).filter(|it| *it != '\0').ok_or(start)?
            }
            _ => return Err(start),
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        self.at += 4;
        is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

impl Json {
    /// Reads a text; the error is the byte at which it is no JSON.
    pub fn parse(text: &str) -> Result<Self, usize> {
        parse(text)
    }

    /// The entries of an object as they count: in order of length and bytes of their keys, the last of equal ones; nothing of
    /// another value.
    pub fn entries(&self) -> Vec<(&str, &Self)> {
        let Self::Object(entries) = self else {
            return Vec::new();
        };
        let mut sorted: Vec<(&str, &Self)> = entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        // A stable sort, so that of equal keys the last one is the last written.
        sorted.sort_by(|(a, _), (b, _)| (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes())));
        let mut counted: Vec<(&str, &Self)> = Vec::with_capacity(sorted.len());
        for entry in sorted {
            match counted.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => counted.push(entry),
            }
        }
        counted
    }

    fn print(&self, out: &mut String) {
        match self {
            Self::Word(word) => out.push_str(word),
            Self::Text(text) => print_text(text, out),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    item.print(out);
                }
                out.push(']');
            }
            Self::Object(_) => {
                out.push('{');
                for (at, (key, value)) in self.entries().into_iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    print_text(key, out);
                    out.push_str(": ");
                    value.print(out);
                }
                out.push('}');
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.print(&mut out);
        f.write_str(&out)
    }
}

fn print_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by PostgreSQL 15: `select '...'::jsonb`.
    #[test]
    fn jsonb_is_the_text_of_postgresql() {
        let cases = [
            (
                r#"{"bb":1.0, "a":[1,2e2,null,"\u00e9\n"],"a":{}, "c":1e-3,"d":-0.0}"#,
                r#"{"a": {}, "c": 0.001, "d": 0.0, "bb": 1.0}"#,
            ),
            ("  [ ] ", "[]"),
            (
                r#"["\ud83d\ude00", true , false]"#,
                "[\"\u{1f600}\", true, false]",
            ),
            ("1.50", "1.50"),
            (r#"{"a":{"b":[{"c":1}]}}"#, r#"{"a": {"b": [{"c": 1}]}}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    /// An exponent lost its zeros: `2e3` was stored as 2. Found by an attack that wrote `1e22` with a driver. The texts are
    /// PostgreSQL 15's.
    #[test]
    fn exponents_are_written_out() {
        for (text, expected) in [
            ("2e3", "2000"),
            ("1.5e3", "1500"),
            ("-3E2", "-300"),
            ("1e+3", "1000"),
            ("1.25e1", "12.5"),
            ("1.10e2", "110"),
            ("1e-3", "0.001"),
            ("15e-1", "1.5"),
            ("0e5", "0"),
            ("1e22", "10000000000000000000000"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_says_where() {
        let deep = "[".repeat(100_000);
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("01", 0),
            ("1.", 2),
            ("\"a", 2),
            ("\"\\x\"", 1),
            ("\"\\ud800\"", 1),
            ("nul", 0),
            ("1 2", 2),
            ("\"\u{1}\"", 1),
            (deep.as_str(), 257),
        ] {
            assert_eq!(
                check(text),
                Err(at),
                "{}",
                text.get(..4.min(text.len())).unwrap()
            );
        }
    }
}
