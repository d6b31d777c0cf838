//! COPY as text: a line a row, with backslashes before what would be read as something else.

use std::borrow::Cow;

use super::format::TextFormat;
use super::rows_in::{Record, Records};

impl Records for TextFormat {
    /// The next line; `None` = it has not come whole.
    fn cut<'a>(&self, bytes: &'a [u8], is_last: bool) -> Option<(&'a [u8], usize)> {
        let mut from = 0;
        loop {
            let Some(found) = memchr::memchr(b'\n', bytes.get(from..)?) else {
                return (is_last && !bytes.is_empty()).then(|| (without_cr(bytes), bytes.len()));
            };
            let end = from + found;
            let line = bytes.get(..end)?;
            let slashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
            // A backslash before it makes the end of the line a part of a value.
            if slashes % 2 == 0 {
                return Some((without_cr(line), end + 1));
            }
            from = end + 1;
        }
    }

    /// Values are a few bytes long as a rule, so that looking at each byte is faster than a search that begins anew for each.
    fn values<'a>(&self, line: &'a [u8], record: &mut Record<'a>) -> Result<(), &'static str> {
        let null = self.null.as_bytes();
        let mut value = |raw: &'a [u8], has_escapes: bool| {
            // Numbers of two digits are as long as the usual NULL: the first byte spares the comparison.
            record.push(if raw.first() == null.first() && raw == null {
                None
            } else if has_escapes {
                Some(Cow::Owned(unescaped(raw)))
            } else {
                Some(Cow::Borrowed(raw))
            });
        };
        let (mut from, mut has_escapes) = (0, false);
        let mut bytes = line.iter().enumerate();
        while let Some((at, byte)) = bytes.next() {
            if *byte == self.delimiter {
                value(line.get(from..at).unwrap_or_default(), has_escapes);
                (from, has_escapes) = (at + 1, false);
            } else if *byte == b'\\' {
                has_escapes = true;
                // The byte after it is part of the value, whatever it is.
                bytes.next();
            }
        }
        value(line.get(from..).unwrap_or_default(), has_escapes);
        Ok(())
    }

    fn is_end(&self, line: &[u8]) -> bool {
        line == b"\\."
    }

    fn has_header(&self) -> bool {
        self.has_header
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        value.push(match bytes.next() {
            None => b'\\',
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(b'x') => {
                let mut code = None;
                for _ in 0..2 {
                    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
                    let Some(digit) = bytes.next_if(is_digit) else {
                        break;
                    };
                    let digit = char::from(digit).to_digit(16).unwrap_or(0);
                    code = Some(code.unwrap_or(0) * 16 + digit);
                }
                code.map_or(b'x', |code| u8::try_from(code).unwrap_or(0))
            }
            Some(digit @ b'0'..=b'7') => {
                let mut code = u32::from(digit - b'0');
                for _ in 0..2 {
                    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'7');
                    let Some(digit) = bytes.next_if(is_digit) else {
                        break;
                    };
                    code = code * 8 + u32::from(digit - b'0');
                }
                // As PostgreSQL: what is more than a byte loses its first bit.
                u8::try_from(code & 0xff).unwrap_or(0)
            }
            Some(other) => other,
        });
    }
    value
}
