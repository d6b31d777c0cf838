//! Command tags in PostgreSQL's words: `CREATE TABLE`, `INSERT 0 3`.

use super::split::skip_blank;

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    /// It writes rows, and their number follows.
    Rows(&'static str),
    /// It does one thing.
    Done(String),
}

/// The tag of a statement by its first words; `None` = it answers rows.
pub(crate) fn tag(statement: &str) -> Option<Tag> {
    let (first, rest) = word(statement);
    match first.as_str() {
        // The number before that of the rows is what PostgreSQL keeps for row identifiers.
        "INSERT" => Some(Tag::Rows("INSERT 0")),
        "UPDATE" => Some(Tag::Rows("UPDATE")),
        "DELETE" => Some(Tag::Rows("DELETE")),
        "SET" | "RESET" => Some(Tag::Done(first)),
        "TRUNCATE" => Some(Tag::Done("TRUNCATE TABLE".to_owned())),
        "CREATE" | "ALTER" | "DROP" | "KILL" => {
            let (mut second, mut rest) = word(rest);
            while matches!(second.as_str(), "OR" | "REPLACE") {
                (second, rest) = word(rest);
            }
            Some(Tag::Done(format!("{first} {second}").trim_end().to_owned()))
        }
        _ => None,
    }
}

impl Tag {
    /// The line that is shown.
    pub(crate) fn text(&self, rows: i64) -> String {
        match self {
            Self::Rows(what) => format!("{what} {rows}"),
            Self::Done(what) => what.clone(),
        }
    }
}

/// The next word in upper case, and what follows it.
fn word(text: &str) -> (String, &str) {
    let text = skip_blank(text);
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word.to_ascii_uppercase(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_write_say_what_postgresql_says() {
        for (statement, rows, want) in [
            ("insert into t values (1)", 3, "INSERT 0 3"),
            ("-- note\n/* more */ Update t SET v = 1", 0, "UPDATE 0"),
            ("DELETE FROM t", 7, "DELETE 7"),
            ("create table if not exists t (v int)", 0, "CREATE TABLE"),
            ("create or replace view v as select 1", 0, "CREATE VIEW"),
            ("CREATE\nDATABASE d", 0, "CREATE DATABASE"),
            ("drop schema s cascade", 0, "DROP SCHEMA"),
            ("alter table t add column c real", 0, "ALTER TABLE"),
            ("kill query 7", 0, "KILL QUERY"),
        ] {
            let text = tag(statement).map(|tag| tag.text(rows));
            assert_eq!(text.as_deref(), Some(want), "{statement}");
        }
        for statement in [
            "select 1 as rows",
            "show tables",
            "with t as (select 1) table t",
            "",
        ] {
            assert_eq!(tag(statement), None, "{statement}");
        }
    }
}
