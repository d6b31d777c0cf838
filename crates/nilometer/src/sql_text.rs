//! Names and texts as SQL spells them.

/// A name in double quotes, so that it is taken as it is.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as it must be typed: quoted only if it would otherwise be taken for another.
pub(crate) fn typed(name: &str) -> String {
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if is_plain {
        name.to_owned()
    } else {
        identifier(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted_so_that_they_mean_themselves() {
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
        for (name, want) in [
            ("cpu", "cpu"),
            ("Cpu", "\"Cpu\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
        ] {
            assert_eq!(typed(name), want);
        }
    }
}
