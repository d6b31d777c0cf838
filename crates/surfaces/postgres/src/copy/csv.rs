//! COPY as CSV.

use std::borrow::Cow;

use super::format::CsvFormat;
use super::rows_in::{Record, Records};

impl Records for CsvFormat {
    /// The next record, which quotes may spread over several lines; `None` = it has not come whole.
    fn cut<'a>(&self, bytes: &'a [u8], is_last: bool) -> Option<(&'a [u8], usize)> {
        let mut is_quoted = false;
        let mut at = 0;
        while let Some(found) = memchr::memchr3(b'\n', self.quote, self.escape, bytes.get(at..)?) {
            let here = at + found;
            let byte = bytes.get(here).copied()?;
            at = here + 1;
            if byte == b'\n' && !is_quoted {
                let line = bytes.get(..here)?;
                return Some((line.strip_suffix(b"\r").unwrap_or(line), here + 1));
            }
            if byte == self.escape && self.escape != self.quote {
                // Within quotes it takes the next byte along.
                at += usize::from(is_quoted);
            } else if byte == self.quote {
                is_quoted = !is_quoted;
            }
        }
        let line = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        (is_last && !bytes.is_empty()).then_some((line, bytes.len()))
    }

    fn values<'a>(&self, line: &'a [u8], record: &mut Record<'a>) -> Result<(), &'static str> {
        let mut rest = line;
        loop {
            let end = memchr::memchr2(self.delimiter, self.quote, rest);
            let is_quoted = end.is_some_and(|end| rest.get(end) == Some(&self.quote));
            if !is_quoted {
                let raw = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                let is_null = raw == self.null.as_bytes();
                record.push((!is_null).then_some(Cow::Borrowed(raw)));
                match end {
                    Some(end) => rest = rest.get(end + 1..).unwrap_or_default(),
                    None => return Ok(()),
                }
                continue;
            }
            let (value, after) = self.quoted(rest)?;
            record.push(Some(Cow::Owned(value)));
            match after {
                Some(after) => rest = after,
                None => return Ok(()),
            }
        }
    }

    fn is_end(&self, line: &[u8]) -> bool {
        line == b"\\."
    }

    fn has_header(&self) -> bool {
        self.has_header
    }
}

impl CsvFormat {
    /// A value with quotes somewhere in it, and what comes after its delimiter; `None` = nothing does.
    fn quoted<'a>(&self, bytes: &'a [u8]) -> Result<(Vec<u8>, Option<&'a [u8]>), &'static str> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            let next = bytes.get(at + 1).copied();
            at += 1;
            if !is_quoted {
                if byte == self.delimiter {
                    return Ok((value, bytes.get(at..)));
                }
                if byte == self.quote {
                    is_quoted = true;
                } else {
                    value.push(byte);
                }
            } else if byte == self.escape && (next == Some(self.quote) || next == Some(self.escape))
            {
                value.extend(next);
                at += 1;
            } else if byte == self.quote {
                is_quoted = false;
            } else {
                value.push(byte);
            }
        }
        if is_quoted {
            return Err("unterminated CSV quoted field");
        }
        Ok((value, None))
    }
}
