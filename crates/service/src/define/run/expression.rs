//! Names in the texts of conditions, found without a parser: conditions are kept in SQL, and this crate knows no language.
//!
//! Does: find a column's name in a condition, and put another in its place. Does not: look into texts in single quotes, or take the
//! name of a function for one of a column.

/// A part of a condition.
enum Part<'a> {
    /// A name of a column, as it is kept, with how it is written.
    Name(String, &'a str),
    /// Everything else.
    Other(&'a str),
}

/// Whether a condition names a column.
pub fn mentions(expression: &str, column: &str) -> bool {
    let parts = parts(expression);
    let mut names = parts.iter();
    names.any(|part| matches!(part, Part::Name(name, _) if name == column))
}

/// The condition with another name of a column or a table.
pub(in crate::define) fn renamed(expression: &str, from: &str, to: &str) -> String {
    let quoted = format!("\"{}\"", to.replace('"', "\"\""));
    let texts = parts(expression).into_iter().map(|part| match part {
        Part::Name(name, _) if name == from => quoted.clone(),
        Part::Name(_, written) | Part::Other(written) => written.to_owned(),
    });
    texts.collect()
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn parts(expression: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let (part, after) = if first == '\'' || first == '"' {
            rest.split_at(end_of_quoted(rest, first))
        } else if is_letter(first) {
            let end = rest.find(|letter| !is_letter(letter));
            rest.split_at(end.unwrap_or(rest.len()))
        } else {
            rest.split_at(first.len_utf8())
        };
        let is_name = first == '"' || first == '_' || first.is_alphabetic();
        let is_called = after.trim_start().starts_with('(');
        parts.push(if is_name && !is_called {
            let bare = part.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let name = match bare {
                Some(bare) => bare.replace("\"\"", "\""),
                None => part.to_ascii_lowercase(),
            };
            Part::Name(name, part)
        } else {
            Part::Other(part)
        });
        rest = after;
    }
    parts
}

/// Where what opens with a quote ends; two quotes are one of the text.
fn end_of_quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != quote {
            continue;
        }
        match letters.peek() {
            Some((_, next)) if *next == quote => {
                letters.next();
            }
            _ => return at + quote.len_utf8(),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_outside_of_texts_and_calls() {
        assert!(mentions("n > 0 AND length(t) < 5", "n"));
        assert!(mentions("\"Big\" = 'x'", "Big"));
        assert!(!mentions("big = 'Big'", "Big"));
        assert!(!mentions("t = 'it''s n'", "n"));
        assert!(!mentions("length(t) < 5", "length"));
        assert!(!mentions("n1 > 0", "n"));
    }

    #[test]
    fn a_name_is_put_in_the_place_of_another() {
        let text = renamed("n > 0 AND t <> 'n' AND N < \"n\"", "n", "a b");
        assert_eq!(text, "\"a b\" > 0 AND t <> 'n' AND \"a b\" < \"a b\"");
    }
}
