//! Line boundaries.

use memchr::memchr;

use crate::escape::first_unescaped;

/// The lines of an input that hold points, good or bad: blank lines and comments are left out. This is the definition of
/// a line; [`crate::Reader`] finds the same ones.
///
/// An item is the number of the line of the input, from 1, on which the line starts, and the line without the white space
/// before it and the line ending.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    input: &'a [u8],
    line_number: usize,
}

impl<'a> Lines<'a> {
    /// Starts at the first line of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            line_number: 1,
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.input.is_empty() {
            let end = line_end(self.input);
            let line = trim(&self.input[..end]);
            let line_number = self.line_number;
            // The line feed that ends the line, unless the input ends it, and those in its strings.
            let next = (end + 1).min(self.input.len());
            self.line_number += memchr::memchr_iter(b'\n', &self.input[..next]).count();
            self.input = &self.input[next..];
            if !matches!(line.first(), None | Some(b'#')) {
                return Some((line_number, line));
            }
        }
        None
    }
}

/// How many bytes from the start of `text` belong to its first line, without the line feed. All of them = no line ends in
/// `text`, or one does with its last byte.
pub fn line_end(text: &[u8]) -> usize {
    let blanks = blanks(text);
    let line_feed = memchr(b'\n', text).unwrap_or(text.len());
    if text.get(blanks) == Some(&b'#') {
        return line_feed;
    }
    // From the second byte: the first is no space, and the one before it belongs to another line.
    let Some(mut at) = first_unescaped(&text[..line_feed], blanks + 1, b" ") else {
        return line_feed;
    };
    while at < text.len() && text[at] != b'\n' {
        // A string begins only where a value does.
        let opens = text[at] == b'"' && text[at - 1] == b'=' && text[at - 2] != b'\\';
        at += if opens { string_bytes(&text[at..]) } else { 1 };
    }
    at
}

/// Length of the string that `text` starts with, its quotes included, or of `text` if the string does not end.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// `line` without the white space before it and the line ending.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    let mut end = line.len();
    while end > 0 && matches!(line[end - 1], b'\r' | b'\n') {
        end -= 1;
    }
    let line = &line[..end];
    &line[blanks(line)..]
}

/// How many bytes of white space `text` starts with.
pub(crate) fn blanks(text: &[u8]) -> usize {
    text.iter()
        .position(|byte| !matches!(byte, b' ' | b'\t' | 0))
        .unwrap_or(text.len())
}
