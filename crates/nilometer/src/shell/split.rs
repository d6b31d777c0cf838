//! Text to statements and commands.
//!
//! Does: find where a statement ends, minding quotes and comments; find commands, which begin with a backslash and take a
//! line, and the words `exit`, `quit` and `help`, which need none. Does not: understand SQL.

/// Commands that need no backslash.
const WORDS: [&str; 3] = ["exit", "quit", "help"];

/// Something to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// Without its semicolon.
    Statement(String),
    /// Without its backslash.
    Command(String),
}

/// Items from the start of a text, and what is left because its end has not come yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) items: Vec<Item>,
    /// Blank if everything ended.
    pub(crate) rest: String,
}

/// Takes a text apart.
pub(crate) fn split(text: &str) -> Split {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        let trimmed = skip_blank(rest);
        if let Some(command) = trimmed.strip_prefix('\\') {
            let end = command.find('\n').unwrap_or(command.len());
            let (line, after) = command.split_at(end);
            items.push(Item::Command(line.trim().to_owned()));
            rest = after;
            continue;
        }
        let line = trimmed.lines().next().unwrap_or_default();
        if is_word(line) {
            items.push(item(line));
            rest = trimmed.get(line.len()..).unwrap_or_default();
            continue;
        }
        match statement_end(trimmed) {
            Some(end) => {
                let (statement, after) = trimmed.split_at(end);
                if !statement.is_empty() {
                    items.push(item(statement));
                }
                // A backslash ends a statement too, and begins a command: `SELECT 1 \watch`.
                rest = after.strip_prefix(';').unwrap_or(after);
            }
            None => {
                return Split {
                    items,
                    rest: trimmed.to_owned(),
                };
            }
        }
    }
}

/// A statement, or one of the words that are commands without a backslash. None of them begins a statement.
fn item(text: &str) -> Item {
    let text = text.trim();
    if is_word(text) {
        Item::Command(text.to_lowercase())
    } else {
        Item::Statement(text.to_owned())
    }
}

fn is_word(text: &str) -> bool {
    let text = text.trim();
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// All items of a text whose last statement need not have a semicolon.
pub(crate) fn split_all(text: &str) -> Vec<Item> {
    let Split { mut items, rest } = split(text);
    if !rest.trim().is_empty() {
        items.push(item(&rest));
    }
    items
}

/// Whether what was typed can be carried out as it is.
pub(crate) fn is_complete(text: &str) -> bool {
    split(text).rest.trim().is_empty()
}

/// The text without blanks and comments at its start. A comment that does not end hides the rest.
pub(super) fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let after = if rest.starts_with("--") {
            rest.find('\n').map(|end| rest.split_at(end).1)
        } else if rest.starts_with("/*") {
            comment_end(rest).map(|end| rest.split_at(end).1)
        } else {
            return rest;
        };
        match after {
            Some(after) => rest = after.trim_start(),
            // A line comment ends with the text; another one waits for its end.
            None if rest.starts_with("--") => return "",
            None => return rest,
        }
    }
}

/// Where the first semicolon or backslash stands that ends a statement.
fn statement_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        at += match byte {
            b';' | b'\\' => return Some(at),
            b'\'' | b'"' => quoted_end(rest, byte)?,
            b'-' if rest.starts_with("--") => rest.find('\n')?,
            b'/' if rest.starts_with("/*") => comment_end(rest)?,
            b'$' => dollar_end(rest)?,
            _ => 1,
        };
    }
    None
}

/// Bytes of a text in quotes; a doubled quote is one in it.
fn quoted_end(text: &str, quote: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// Bytes of a comment, which may have others in it.
fn comment_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    loop {
        match bytes.get(at..at + 2)? {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Bytes of `$tag$ ... $tag$`, or of a lone dollar sign.
fn dollar_end(text: &str) -> Option<usize> {
    let after = text.get(1..).unwrap_or_default();
    let Some(close) = after.find('$') else {
        return Some(1);
    };
    let tag = text.get(..close + 2).unwrap_or_default();
    let inner = tag.trim_matches('$');
    if !inner.chars().all(|c| c.is_alphanumeric() || c == '_')
        || inner.starts_with(|c: char| c.is_ascii_digit())
    {
        return Some(1);
    }
    let body = text.get(tag.len()..)?;
    Some(tag.len() + body.find(tag)? + tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Item {
        Item::Statement(text.to_owned())
    }

    fn command(text: &str) -> Item {
        Item::Command(text.to_owned())
    }

    #[test]
    fn semicolons_end_statements_except_where_they_are_text() {
        for whole in [
            "select ';'",
            "select \"a;b\"",
            "select 'it''s; fine'",
            "select 1 -- no; end\n + 1",
            "select /* ; /* ; */ ; */ 1",
            "select $$ ; $$",
            "select $x$ ; $$ ; $x$",
            "select $1",
        ] {
            assert_eq!(
                split(&format!("{whole};  select 2 ;rest")),
                Split {
                    items: vec![statement(whole), statement("select 2")],
                    rest: "rest".to_owned()
                }
            );
        }
    }

    #[test]
    fn what_has_not_ended_waits() {
        for text in [
            "select 1",
            "select 'a;",
            "select \"a;",
            "select /* ;",
            "/* ;",
            "select $$ ;",
            "select 1 -- ;",
        ] {
            assert!(!is_complete(text), "{text}");
            assert_eq!(split(text).items, []);
        }
        for text in [
            "",
            "  \n",
            "select 1;",
            "\\d",
            "-- note",
            "select 1; -- note",
            ";;",
        ] {
            assert!(is_complete(text), "{text}");
        }
    }

    #[test]
    fn commands_take_a_line_between_statements() {
        let text = "\\timing\nselect '\\d';\n  \\format csv  \n-- note\nselect 2";
        assert_eq!(
            split_all(text),
            [
                command("timing"),
                statement("select '\\d'"),
                command("format csv"),
                statement("select 2"),
            ]
        );
        assert_eq!(split_all("\\chart select 1"), [command("chart select 1")]);
    }

    #[test]
    fn a_backslash_after_a_statement_ends_it() {
        assert_eq!(
            split("select 1 \\watch 2\nselect '\\'"),
            Split {
                items: vec![statement("select 1"), command("watch 2")],
                rest: "select '\\'".to_owned()
            }
        );
    }

    #[test]
    fn exit_quit_and_help_need_neither_backslash_nor_semicolon() {
        for (text, word) in [
            ("exit", "exit"),
            (" QUIT ;", "quit"),
            ("help\n", "help"),
            ("-- done\nexit", "exit"),
        ] {
            assert!(is_complete(text), "{text}");
            assert_eq!(split_all(text), [command(word)], "{text}");
        }
        assert_eq!(
            split_all("exit\nselect 1"),
            [command("exit"), statement("select 1")]
        );
        for text in ["exit 1", "select\nexit", "helper"] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn any_text_is_taken_apart_without_a_panic() {
        let parts = [
            "'", "\"", "--", "/*", "*/", "$$", "$a$", ";", "\n", "\\", "x", "\u{e9}", " ",
        ];
        for a in parts {
            for b in parts {
                for c in parts {
                    for d in parts {
                        split_all(&format!("{a}{b}{c}{d}"));
                    }
                }
            }
        }
    }
}
