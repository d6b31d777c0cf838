//! Regular expressions: Go's syntax, checked, and the same in the syntax of Rust's library.

use std::fmt;

use regex_syntax::ast::{self, ErrorKind};

/// A regular expression as it was written, without its slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    source: String,
}

impl Pattern {
    /// Checks the expression. The error is worded as Go's.
    pub fn new(source: &str) -> Result<Self, String> {
        let translated = translate(source);
        let parsed = regex_syntax::ParserBuilder::new()
            .nest_limit(250)
            .build()
            .parse(&translated);
        match parsed {
            Ok(_) => Ok(Self {
                source: source.to_owned(),
            }),
            Err(regex_syntax::Error::Parse(error)) => Err(worded(&error, source)),
            Err(other) => {
                let text = other.to_string();
                let reason = text.rsplit("error: ").next().unwrap_or_default().trim_end();
                Err(format!("error parsing regexp: {reason}: `{source}`"))
            }
        }
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The same expression in the syntax of Rust's `regex`.
    pub fn translated(&self) -> String {
        translate(&self.source)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "/{}/", self.source.replace('/', "\\/"))
    }
}

fn worded(error: &ast::Error, source: &str) -> String {
    let span = error.span();
    let piece = error
        .pattern()
        .get(span.start.offset..span.end.offset)
        .unwrap_or_default();
    let from = error.pattern().get(span.start.offset..).unwrap_or_default();
    let (reason, shown) = match error.kind() {
        ErrorKind::GroupUnclosed => ("missing closing )", source),
        ErrorKind::GroupUnopened => ("unexpected )", source),
        ErrorKind::ClassUnclosed => ("missing closing ]", from),
        ErrorKind::ClassRangeInvalid => ("invalid character class range", piece),
        ErrorKind::RepetitionMissing => (
            "missing argument to repetition operator",
            from.get(..1).unwrap_or_default(),
        ),
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized | ErrorKind::UnsupportedBackreference => {
            ("invalid escape sequence", piece)
        }
        ErrorKind::FlagUnrecognized
        | ErrorKind::UnsupportedLookAround
        | ErrorKind::FlagUnexpectedEof => ("invalid or unsupported Perl syntax", piece),
        ErrorKind::NestLimitExceeded(_) => ("expression nests too deeply", source),
        ErrorKind::RepetitionCountInvalid => ("invalid repeat count", piece),
        _ => return format!("error parsing regexp: {}: `{source}`", error.kind()),
    };
    format!("error parsing regexp: {reason}: `{shown}`")
}

/// The expression in the syntax of Rust's `regex`: classes of letters are those of ASCII, brackets and operators of sets
/// inside a class mean themselves, braces that are no repetition do, `\Q...\E` is a text.
#[must_use]
pub fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source;
    let mut class = Class::Outside;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match (c, class) {
            ('\\', _) => taken = escape(rest, class, &mut out),
            ('[', Class::Outside) => {
                out.push('[');
                class = Class::Start;
            }
            ('^', Class::Start) => {
                out.push('^');
                class = Class::AfterCaret;
            }
            (']', Class::Start | Class::AfterCaret) => {
                out.push_str("\\]");
                class = Class::Inside;
            }
            (']', Class::Inside) => {
                out.push(']');
                class = Class::Outside;
            }
            ('[', _) => {
                class = Class::Inside;
                let named = rest.starts_with("[:").then(|| rest.find(":]")).flatten();
                if let Some(end) = named {
                    taken = end + 2;
                    out.push_str(rest.get(..taken).unwrap_or_default());
                } else {
                    out.push_str("\\[");
                }
            }
            ('{', Class::Outside) => {
                if let Some(repetition) = repetition(rest) {
                    out.push_str(repetition);
                    taken = repetition.len();
                } else {
                    out.push_str("\\{");
                }
            }
            ('}', Class::Outside) => out.push_str("\\}"),
            (c, Class::Outside) => out.push(c),
            (c, _) => {
                class = Class::Inside;
                // Twice the same of these is an operator of sets.
                if matches!(c, '&' | '~') {
                    out.push('\\');
                }
                out.push(c);
            }
        }
        rest = rest.get(taken..).unwrap_or_default();
        if class == Class::Start && c != '[' {
            class = Class::Inside;
        }
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    Outside,
    Start,
    AfterCaret,
    Inside,
}

/// Writes the escape that `rest` starts with; how many bytes it takes.
fn escape(rest: &str, class: Class, out: &mut String) -> usize {
    let Some(c) = rest.chars().nth(1) else {
        out.push('\\');
        return 1;
    };
    let taken = 1 + c.len_utf8();
    let text = match (c, class) {
        ('d', Class::Outside) => "[0-9]",
        ('w', Class::Outside) => "[0-9A-Za-z_]",
        ('s', Class::Outside) => "[\\t\\n\\x0C\\r ]",
        ('d', _) => "0-9",
        ('w', _) => "0-9A-Za-z_",
        ('s', _) => "\\t\\n\\x0C\\r ",
        ('D', _) => "[^0-9]",
        ('W', _) => "[^0-9A-Za-z_]",
        ('S', _) => "[^\\t\\n\\x0C\\r ]",
        ('b', Class::Outside) => "(?-u:\\b)",
        ('x' | 'p' | 'P', _) if rest.get(taken..).is_some_and(|tail| tail.starts_with('{')) => {
            let end = rest.find('}').map_or(rest.len(), |at| at + 1);
            out.push_str(rest.get(..end).unwrap_or_default());
            return end;
        }
        ('Q', Class::Outside) => {
            let body = rest.get(2..).unwrap_or_default();
            let (literal, end) = match body.find("\\E") {
                Some(at) => (body.get(..at).unwrap_or_default(), at + 4),
                None => (body, rest.len()),
            };
            out.push_str(&regex_syntax::escape(literal));
            return end;
        }
        _ => {
            out.push('\\');
            out.push(c);
            return taken;
        }
    };
    out.push_str(text);
    taken
}

/// The `{...}` that the text starts with, if it is a number of repetitions: `{2}`, `{2,}`, `{2,3}`.
fn repetition(rest: &str) -> Option<&str> {
    let (whole, _) = rest.split_at_checked(rest.find('}')? + 1)?;
    let body = whole.strip_prefix('{')?.strip_suffix('}')?;
    let (low, high) = body.split_once(',').unwrap_or((body, ""));
    let is_number = !low.is_empty()
        && low
            .bytes()
            .chain(high.bytes())
            .all(|byte| byte.is_ascii_digit());
    is_number.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::{Pattern, translate};

    #[test]
    fn go_syntax_means_the_same_in_rust() {
        for (go, rust) in [
            (r"^host_\d+$", "^host_[0-9]+$"),
            (r"[\d.]", "[0-9.]"),
            (r"a{2,3}", "a{2,3}"),
            (r"a{,3}", r"a\{,3\}"),
            (r"{x}", r"\{x\}"),
            (r"[[:alpha:]]", "[[:alpha:]]"),
            (r"[a[b]", r"[a\[b]"),
            (r"[a&&b]", r"[a\&\&b]"),
            (r"[]a]", r"[\]a]"),
            (r"[^]a]", r"[^\]a]"),
            (r"\Qa.b\Ec", r"a\.bc"),
            (r"\x{e9}", r"\x{e9}"),
            (r"\bx", r"(?-u:\b)x"),
        ] {
            assert_eq!(translate(go), rust, "{go}");
            assert!(Pattern::new(go).is_ok(), "{go}: {:?}", Pattern::new(go));
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        for (go, text) in [
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            (
                "*",
                "error parsing regexp: missing argument to repetition operator: `*`",
            ),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            (
                "\\y",
                "error parsing regexp: invalid escape sequence: `\\y`",
            ),
        ] {
            assert_eq!(Pattern::new(go), Err(text.to_owned()));
        }
    }
}
