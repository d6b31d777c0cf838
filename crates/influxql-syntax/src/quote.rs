//! Quoting of identifiers and texts.

use crate::token::Kind;

/// `'text'`, with a backslash before quotes and backslashes.
pub fn quote_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    escape(text, '\'', &mut out);
    out.push('\'');
    out
}

/// An identifier, in double quotes if it is a keyword or has other characters than letters, digits and `_`.
pub fn quote_ident(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    let quoted = needs_quotes(name);
    if quoted {
        out.push('"');
    }
    escape(name, '"', &mut out);
    if quoted {
        out.push('"');
    }
    out
}

/// Several identifiers with dots between them, as an error shows them: all but the last are quoted.
pub(crate) fn quote_segments(segments: &[String]) -> String {
    let last = segments.len().saturating_sub(1);
    let mut out = String::new();
    for (place, segment) in segments.iter().enumerate() {
        let inner = place < last && !segment.is_empty();
        let empty_end = segment.is_empty() && (place == 0 || place == last);
        let quoted = inner || empty_end || (!segment.is_empty() && needs_quotes(segment));
        if quoted {
            out.push('"');
        }
        escape(segment, '"', &mut out);
        if quoted {
            out.push('"');
        }
        if place < last {
            out.push('.');
        }
    }
    out
}

fn needs_quotes(name: &str) -> bool {
    let mut chars = name.chars();
    let Some(first) = chars.next() else {
        return true;
    };
    !(first.is_ascii_alphabetic() || first == '_')
        || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        || Kind::of_word(name) != Kind::Ident
}

fn escape(text: &str, quote: char, out: &mut String) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
}
