//! Completion: tables, columns, functions, keywords, commands.
//!
//! Does: find the word before the cursor and what fits there, from names that were asked for before. Does not: ask for
//! names, or touch the terminal.

use std::collections::BTreeMap;

use super::command::COMMANDS;
use crate::sql_text::typed;

/// Suggestions beyond this number help nobody.
const SUGGESTIONS_MAX: usize = 100;

const KEYWORDS: &[&str] = &[
    "ALTER",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "RIGHT",
    "SCHEMA",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Words after which a table comes.
const BEFORE_TABLES: &[&str] = &[
    "FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "DESC",
];

/// The names of one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) databases: Vec<String>,
    /// Columns by table.
    pub(crate) tables: BTreeMap<String, Vec<String>>,
    pub(crate) functions: Vec<String>,
}

/// Something that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    pub(crate) text: String,
    pub(crate) what: &'static str,
}

/// Where the word before the cursor begins, and what may stand in its place.
pub(crate) fn complete(names: &Names, text: &str, cursor: usize) -> (usize, Vec<Suggestion>) {
    let before = text.get(..cursor).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    if line.trim_start().starts_with('\\') {
        return command(names, before, line.trim_start());
    }
    let begin = before
        .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '"' | '.')))
        .map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
    let word = before.get(begin..).unwrap_or_default();
    if let Some((table, start)) = word.rsplit_once('.') {
        let columns = columns_of(names, text, table.trim_matches('"'));
        let from = begin + table.len() + 1;
        return (from, fitting(columns, "column", start));
    }
    let previous = before
        .get(..begin)
        .unwrap_or_default()
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ','))
        .rfind(|word| !word.is_empty())
        .unwrap_or_default()
        .to_ascii_uppercase();
    let tables = names.tables.keys().map(String::as_str);
    if BEFORE_TABLES.contains(&previous.as_str()) {
        return (begin, fitting(tables, "table", word));
    }
    if word.is_empty() {
        return (begin, Vec::new());
    }
    let mentioned = names
        .tables
        .iter()
        .filter(|(table, _)| mentions(text, table));
    let columns = mentioned.flat_map(|(_, columns)| columns.iter().map(String::as_str));
    let mut found = fitting(columns, "column", word);
    if !names.tables.keys().any(|table| mentions(text, table)) {
        // The tables come later in the line, so it may be a column of any.
        let columns = names.tables.values().flatten().map(String::as_str);
        found = fitting(columns, "column", word);
    }
    found.extend(fitting(tables, "table", word));
    let functions = names.functions.iter().map(String::as_str);
    for mut function in fitting(functions, "function", word) {
        function.text.push('(');
        found.push(function);
    }
    for keyword in KEYWORDS.iter().filter(|keyword| has_start(keyword, word)) {
        let is_upper = word.chars().all(|c| !c.is_lowercase());
        found.push(Suggestion {
            text: if is_upper {
                (*keyword).to_owned()
            } else {
                keyword.to_lowercase()
            },
            what: "keyword",
        });
    }
    found.truncate(SUGGESTIONS_MAX);
    (begin, found)
}

fn command(names: &Names, before: &str, line: &str) -> (usize, Vec<Suggestion>) {
    let Some((name, rest)) = line.split_once(' ') else {
        let commands = COMMANDS
            .iter()
            .map(|(name, _)| name.split(' ').next().unwrap_or_default());
        let mut seen: Vec<&str> = Vec::new();
        for command in commands.filter(|command| command.starts_with(line)) {
            if !seen.contains(&command) {
                seen.push(command);
            }
        }
        let found = seen.into_iter().map(|text| Suggestion {
            text: text.to_owned(),
            what: "command",
        });
        return (before.len() - line.len(), found.collect());
    };
    let begin = before.len() - rest.len();
    let found = match name {
        "\\d" => fitting(names.tables.keys().map(String::as_str), "table", rest),
        "\\c" => fitting(names.databases.iter().map(String::as_str), "database", rest),
        "\\format" => fitting(
            ["table", "expanded", "csv", "json", "jsonl", "markdown"].into_iter(),
            "format",
            rest,
        ),
        "\\timing" | "\\x" | "\\pager" => fitting(["on", "off"].into_iter(), "", rest),
        "\\chart" => {
            let (at, found) = complete(names, rest, rest.len());
            return (begin + at, found);
        }
        _ => Vec::new(),
    };
    (begin, found)
}

/// Names that begin like the word, each once, as they must be typed.
fn fitting<'a>(
    names: impl Iterator<Item = &'a str>,
    what: &'static str,
    word: &str,
) -> Vec<Suggestion> {
    let bare = word.trim_start_matches('"');
    let mut found: Vec<Suggestion> = Vec::new();
    for name in names.filter(|name| has_start(name, bare)) {
        let text = typed(name);
        if found.len() < SUGGESTIONS_MAX && !found.iter().any(|known| known.text == text) {
            found.push(Suggestion { text, what });
        }
    }
    found
}

fn has_start(name: &str, word: &str) -> bool {
    let mut name = name.chars().flat_map(char::to_lowercase);
    word.chars()
        .flat_map(char::to_lowercase)
        .all(|c| name.next() == Some(c))
}

/// Columns of a table, or of the table that has this alias in the text.
fn columns_of<'a>(names: &'a Names, text: &str, table: &str) -> impl Iterator<Item = &'a str> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | ';'))
        .filter(|word| !word.is_empty())
        .collect();
    let aliased = words.windows(3).find_map(|three| match three {
        [name, link, alias] if link.eq_ignore_ascii_case("as") && *alias == table => Some(*name),
        [name, alias, _] if *alias == table => Some(*name),
        [_, name, alias] if *alias == table => Some(*name),
        _ => None,
    });
    let known = names.tables.get(table);
    let known = known.or_else(|| names.tables.get(aliased?.trim_matches('"')));
    known.into_iter().flatten().map(String::as_str)
}

/// Whether the name stands in the text as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text
            .get(at + name.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let table = |name: &str, columns: &[&str]| {
            let columns = columns.iter().map(|&name| name.to_owned()).collect();
            (name.to_owned(), columns)
        };
        Names {
            databases: vec!["d".to_owned(), "demo".to_owned()],
            tables: BTreeMap::from([
                table("cpu", &["time", "hostname", "usage_user", "usage_system"]),
                table("Disk Use", &["time", "Path", "free"]),
            ]),
            functions: vec!["time_bucket".to_owned(), "avg".to_owned()],
        }
    }

    /// Completes where the bar stands.
    fn texts(line: &str) -> Vec<String> {
        let cursor = line.find('|').unwrap();
        let line = line.replace('|', "");
        let (begin, found) = complete(&names(), &line, cursor);
        assert!(begin <= cursor && line.is_char_boundary(begin));
        found.into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn tables_come_where_tables_stand() {
        assert_eq!(texts("select * from |"), ["\"Disk Use\"", "cpu"]);
        assert_eq!(texts("select * from c|"), ["cpu"]);
        assert_eq!(texts("select * from di|"), ["\"Disk Use\""]);
        assert_eq!(texts("select * from \"Di|"), ["\"Disk Use\""]);
    }

    #[test]
    fn columns_come_from_the_tables_in_the_statement() {
        assert_eq!(
            texts("select usage_| from cpu"),
            ["usage_user", "usage_system"]
        );
        assert_eq!(
            texts("select c.us| from cpu c"),
            ["usage_user", "usage_system"]
        );
        assert_eq!(
            texts("select c.us| from cpu as c"),
            ["usage_user", "usage_system"]
        );
        assert_eq!(texts("select \"P| from \"Disk Use\""), ["\"Path\""]);
        assert_eq!(texts("select usage_|"), ["usage_user", "usage_system"]);
        assert!(
            texts("select fr| from cpu")
                .iter()
                .all(|text| text != "free")
        );
    }

    #[test]
    fn functions_and_keywords_follow_the_case_of_the_word() {
        assert_eq!(texts("select time_b|"), ["time_bucket("]);
        assert_eq!(texts("sel|"), ["select"]);
        assert_eq!(texts("SEL|"), ["SELECT"]);
        assert!(texts("select |").is_empty());
        assert!(texts("select 'caf\u{e9}|").is_empty());
    }

    #[test]
    fn commands_complete_with_what_they_take() {
        assert_eq!(texts("\\ti|"), ["\\timing"]);
        assert_eq!(texts("\\d|"), ["\\dn", "\\d", "\\df"]);
        assert_eq!(texts("\\d c|"), ["cpu"]);
        assert_eq!(texts("\\w|"), ["\\watch"]);
        assert_eq!(texts("\\x of|"), ["off"]);
        assert_eq!(texts("\\c de|"), ["demo"]);
        assert_eq!(texts("\\format j|"), ["json", "jsonl"]);
        assert_eq!(texts("\\chart select * from c|"), ["cpu"]);
    }
}
