//! JSON: whether a text is some, and its one form as PostgreSQL's `jsonb` prints it.
//!
//! Does: read RFC 8259. Does not: keep a tree longer than a call.

use std::fmt::Write;

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

enum Value {
    /// null, true, false or a number.
    Word(String),
    Text(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

fn parse(text: &str) -> Result<Value, usize> {
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

    fn value(&mut self, depth: usize) -> Result<Value, usize> {
        if depth > DEPTH_MAX {
            return Err(self.at);
        }
        self.spaces();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let words = ["null", "true", "false"];
                let word = words.iter().find(|word| rest.starts_with(**word));
                let word = word.ok_or(self.at)?;
                self.at += word.len();
                Ok(Value::Word((*word).to_owned()))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, usize> {
        self.at += 1;
        let mut entries: Vec<(String, Value)> = Vec::new();
        self.spaces();
        if self.take(b'}') {
            return Ok(Value::Object(entries));
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
        Ok(Value::Object(entries))
    }

    fn array(&mut self, depth: usize) -> Result<Value, usize> {
        self.at += 1;
        let mut items = Vec::new();
        self.spaces();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.spaces();
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Ok(Value::Array(items))
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

    fn number(&mut self) -> Result<Value, usize> {
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
        Ok(Value::Word(text))
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

impl Value {
    fn print(self, out: &mut String) {
        match self {
            Self::Word(word) => out.push_str(&word),
            Self::Text(text) => print_text(&text, out),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.into_iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    item.print(out);
                }
                out.push(']');
            }
            Self::Object(mut entries) => {
                // A stable sort, so that of equal keys the last one is the last written.
                entries.sort_by(|(a, _), (b, _)| {
                    (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes()))
                });
                out.push('{');
                let mut is_first = true;
                let mut rest = entries.into_iter().peekable();
                while let Some((key, value)) = rest.next() {
                    if rest.peek().is_some_and(|(next, _)| *next == key) {
                        continue;
                    }
                    if !is_first {
                        out.push_str(", ");
                    }
                    is_first = false;
                    print_text(&key, out);
                    out.push_str(": ");
                    value.print(out);
                }
                out.push('}');
            }
        }
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
