//! The text of a query: cut into statements, and what of it is the session's own business.
//!
//! Does: find the ends of statements (quotes, comments and dollar quotes are passed over) and read the few statements that
//! the language never sees. Does not: parse SQL; the language does.

pub(crate) mod tokens;

use crate::sqlstate::{Refused, SYNTAX_ERROR};
use tokens::{Reader, Token};

/// A statement of a query's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a str,
    /// Characters of the text before it.
    pub(crate) characters_before: usize,
}

/// The statements of a text, without those that are empty.
pub(crate) fn split(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut add = |from: usize, to: usize| {
        let part = text.get(from..to).unwrap_or_default();
        if tokens::tokens(part).next().is_some() {
            let before = text.get(..from).unwrap_or_default();
            parts.push(Part {
                text: part,
                characters_before: before.chars().count(),
            });
        }
    };
    for token in tokens::tokens(text) {
        if token.token == Token::Symbol(';') {
            add(start, token.start);
            start = token.end;
        }
    }
    add(start, text.len());
    parts
}

/// What a statement is, as far as a session has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    /// For the language; it answers rows.
    Query,
    /// For the language; it changes something. The words that its completion is told by.
    Change(String),
    Begin(Mode),
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set(Set),
    Show(String),
    /// `SELECT set_config('name', 'value', false)`, which answers the value.
    SetConfig {
        name: String,
        value: String,
    },
    Discard,
    Prepare {
        name: String,
        types: Vec<String>,
        /// The rest of the text.
        text: String,
    },
    Execute {
        name: String,
        values: Vec<Option<String>>,
    },
    /// `None` = all.
    Deallocate(Option<String>),
    Declare {
        name: String,
        text: String,
    },
    Fetch {
        name: String,
        /// `None` = all.
        rows: Option<usize>,
        is_move: bool,
    },
    /// `None` = all.
    Close(Option<String>),
    Copy,
    /// What does nothing here because nothing is left to do.
    Done(&'static str),
    Unsupported(&'static str),
}

/// What a transaction is to be like; `None` = as it is otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// It asks for more than that each statement sees what is committed by then.
    pub(crate) is_strict: Option<bool>,
    pub(crate) is_read_only: Option<bool>,
}

impl Mode {
    /// This, and what it does not say from another.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            is_strict: self.is_strict.or(other.is_strict),
            is_read_only: self.is_read_only.or(other.is_read_only),
        }
    }
}

/// SET and RESET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Set {
    /// `None` = its default.
    To(String, Option<String>),
    All,
    /// The language knows what this one sets.
    Language,
    /// Of the transaction that is open.
    Transaction(Mode),
    /// Of all that begin.
    Characteristics(Mode),
}

impl Statement {
    /// Whether it changes names, settings or users, and not rows.
    pub(crate) fn defines(&self) -> bool {
        match self {
            Self::Change(tag) => {
                let of_rows = ["INSERT 0", "UPDATE", "DELETE", "MERGE", "TRUNCATE TABLE"];
                !of_rows.contains(&tag.as_str())
            }
            _ => false,
        }
    }

    /// Whether it calls something, of which the language knows whether it can be part of a transaction.
    pub(crate) fn calls(&self) -> bool {
        matches!(self, Self::Change(tag) if tag == "CALL")
    }

    /// Whether it may change the store.
    pub(crate) fn changes(&self, text: &str) -> bool {
        match self {
            Self::Change(_) => true,
            Self::Copy => tokens::tokens(text).any(|token| token.token.is_word("stdin")),
            _ => false,
        }
    }
}

/// Reads what a statement is.
pub(crate) fn classify(text: &str) -> Result<Statement, Refused> {
    let mut reader = Reader::new(text);
    let first = reader.word().unwrap_or_default();
    Ok(match first.as_str() {
        "begin" => {
            let _ = reader.take("work") || reader.take("transaction");
            Statement::Begin(mode(&mut reader)?)
        }
        "start" if reader.take("transaction") => Statement::Begin(mode(&mut reader)?),
        "commit" | "end" => end(&mut reader, Statement::Commit)?,
        "rollback" | "abort" => end(&mut reader, Statement::Rollback)?,
        "savepoint" => {
            let name = reader.name()?;
            reader.end()?;
            Statement::Savepoint(name)
        }
        "release" => {
            reader.take("savepoint");
            let name = reader.name()?;
            reader.end()?;
            Statement::Release(name)
        }
        "set" => Statement::Set(set(&mut reader)?),
        "reset" => {
            if reader.take("all") {
                Statement::Set(Set::All)
            } else if reader.take("session") {
                reader.take("authorization");
                Statement::Set(Set::To("session_authorization".to_owned(), None))
            } else if reader.take("time") {
                Statement::Set(Set::To("timezone".to_owned(), None))
            } else {
                Statement::Set(Set::To(reader.setting()?, None))
            }
        }
        "show" => {
            let name = if reader.take("time") {
                reader.take("zone");
                "timezone".to_owned()
            } else if reader.take("transaction") {
                reader.take("isolation");
                reader.take("level");
                "transaction_isolation".to_owned()
            } else if reader.take("session") {
                reader.take("authorization");
                "session_authorization".to_owned()
            } else {
                reader.setting().unwrap_or_default()
            };
            // What has more words is the language's: SHOW TABLES FROM d.
            if reader.at_end() {
                Statement::Show(name)
            } else {
                Statement::Query
            }
        }
        "select" => set_config(&mut reader).unwrap_or(Statement::Query),
        "discard" => Statement::Discard,
        "prepare" => prepare(&mut reader)?,
        "execute" => execute(&mut reader)?,
        "deallocate" => {
            reader.take("prepare");
            if reader.take("all") {
                Statement::Deallocate(None)
            } else {
                Statement::Deallocate(Some(reader.name()?))
            }
        }
        "declare" => declare(&mut reader)?,
        "fetch" => fetch(&mut reader, false)?,
        "move" => fetch(&mut reader, true)?,
        "close" => {
            if reader.take("all") {
                Statement::Close(None)
            } else {
                Statement::Close(Some(reader.name()?))
            }
        }
        "copy" => Statement::Copy,
        "unlisten" => Statement::Done("UNLISTEN"),
        "vacuum" => Statement::Done("VACUUM"),
        "analyze" => Statement::Done("ANALYZE"),
        "checkpoint" => Statement::Done("CHECKPOINT"),
        "listen" => Statement::Unsupported("LISTEN"),
        "notify" => Statement::Unsupported("NOTIFY"),
        "lock" if is_lock_of_readers(&mut reader) => Statement::Done("LOCK TABLE"),
        "lock" => Statement::Unsupported("LOCK"),
        "call" => Statement::Change("CALL".to_owned()),
        "do" => Statement::Unsupported("DO"),
        "insert" => Statement::Change("INSERT 0".to_owned()),
        "update" | "delete" | "merge" => Statement::Change(first.to_uppercase()),
        "truncate" => Statement::Change("TRUNCATE TABLE".to_owned()),
        "create" | "drop" | "alter" | "grant" | "revoke" | "comment" | "kill" | "refresh"
        | "reindex" => Statement::Change(tag(&first, &mut reader)),
        _ => Statement::Query,
    })
}

/// The words of a completed definition: `CREATE TABLE`.
fn tag(first: &str, reader: &mut Reader<'_>) -> String {
    let mut words = vec![first.to_uppercase()];
    if matches!(first, "create" | "drop" | "alter") {
        while let Some(word) = reader.word() {
            // `CREATE OR REPLACE VIEW` and `CREATE UNIQUE INDEX` are told by what is made.
            if !matches!(
                word.as_str(),
                "or" | "replace" | "unique" | "temporary" | "temp" | "unlogged" | "recursive"
            ) {
                words.push(match word.as_str() {
                    // As PostgreSQL calls them all.
                    "user" | "group" => "ROLE".to_owned(),
                    "default" => "DEFAULT PRIVILEGES".to_owned(),
                    word => word.to_uppercase(),
                });
                if word != "materialized" {
                    break;
                }
            }
        }
    }
    words.join(" ")
}

fn set(reader: &mut Reader<'_>) -> Result<Set, Refused> {
    let _ = reader.take("session") || reader.take("local");
    if reader.take("time") {
        return Ok(Set::Language);
    }
    if reader.take("characteristics") {
        let _ = reader.take("as") && reader.take("transaction");
        return Ok(Set::Characteristics(mode(reader)?));
    }
    if reader.take("transaction") {
        if reader.take("snapshot") {
            return Err(Refused::unsupported(
                "SET TRANSACTION SNAPSHOT is not supported",
            ));
        }
        return Ok(Set::Transaction(mode(reader)?));
    }
    if reader.take("names") {
        return Ok(Set::To("client_encoding".to_owned(), reader.value()?));
    }
    if reader.take("authorization") {
        return Ok(Set::To("session_authorization".to_owned(), reader.value()?));
    }
    let name = reader.setting()?;
    if name == "timezone" {
        return Ok(Set::Language);
    }
    if name == "role" {
        let _ = reader.symbol('=') || reader.take("to");
        let role = reader.value()?;
        reader.end()?;
        return Ok(Set::To(name, role));
    }
    if !reader.symbol('=') && !reader.take("to") {
        return Err(reader.expected("= or TO"));
    }
    let value = reader.values()?;
    reader.end()?;
    Ok(Set::To(name, value))
}

/// Whether what follows LOCK asks for what every reader has: a snapshot, which no definition takes away. `pg_dump` does.
fn is_lock_of_readers(reader: &mut Reader<'_>) -> bool {
    reader.take("table");
    loop {
        reader.take("only");
        if reader.setting().is_err() {
            return false;
        }
        if !reader.symbol(',') {
            break;
        }
    }
    let words = ["in", "access", "share", "mode"];
    words.into_iter().all(|word| reader.take(word)) && reader.at_end()
}

/// The setting that a SELECT of nothing but `set_config` sets; `None` = it is another query.
fn set_config(reader: &mut Reader<'_>) -> Option<Statement> {
    if reader.take("pg_catalog") && !reader.symbol('.') {
        return None;
    }
    if !reader.take("set_config") || !reader.symbol('(') {
        return None;
    }
    let name = reader.value().ok()??.to_lowercase();
    if !reader.symbol(',') {
        return None;
    }
    let value = reader.value().ok()?.unwrap_or_default();
    let is_whole = reader.symbol(',')
        && (reader.take("false") || reader.take("true") || reader.take("off"))
        && reader.symbol(')')
        && reader.at_end();
    is_whole.then_some(Statement::SetConfig { name, value })
}

/// The rest of BEGIN and SET TRANSACTION.
fn mode(reader: &mut Reader<'_>) -> Result<Mode, Refused> {
    let mut mode = Mode::default();
    while !reader.at_end() {
        if reader.take("isolation") {
            reader.take("level");
            if reader.take("serializable") || (reader.take("repeatable") && reader.take("read")) {
                mode.is_strict = Some(true);
            } else if reader.take("read")
                && (reader.take("committed") || reader.take("uncommitted"))
            {
                mode.is_strict = Some(false);
            } else {
                return Err(reader.expected("an isolation level"));
            }
        } else if reader.take("read") {
            if reader.take("only") {
                mode.is_read_only = Some(true);
            } else if reader.take("write") {
                mode.is_read_only = Some(false);
            } else {
                return Err(reader.expected("ONLY or WRITE"));
            }
        } else if !(reader.take("deferrable") || reader.take("not") && reader.take("deferrable")) {
            return Err(reader.expected("ISOLATION LEVEL, READ ONLY or READ WRITE"));
        }
        reader.symbol(',');
    }
    Ok(mode)
}

/// The rest of COMMIT and ROLLBACK.
fn end(reader: &mut Reader<'_>, statement: Statement) -> Result<Statement, Refused> {
    if reader.take("prepared") {
        return Ok(Statement::Unsupported("two-phase commit"));
    }
    let _ = reader.take("work") || reader.take("transaction");
    if statement == Statement::Rollback && reader.take("to") {
        reader.take("savepoint");
        let name = reader.name()?;
        reader.end()?;
        return Ok(Statement::RollbackTo(name));
    }
    if reader.take("and") {
        let stays = reader.take("no");
        if !reader.take("chain") {
            return Err(reader.expected("CHAIN"));
        }
        if !stays {
            return Ok(Statement::Unsupported("AND CHAIN"));
        }
    }
    reader.end()?;
    Ok(statement)
}

fn prepare(reader: &mut Reader<'_>) -> Result<Statement, Refused> {
    if reader.take("transaction") {
        return Ok(Statement::Unsupported("PREPARE TRANSACTION"));
    }
    let name = reader.name()?;
    let mut types = Vec::new();
    if reader.symbol('(') {
        loop {
            types.push(reader.type_name()?);
            if !reader.symbol(',') {
                break;
            }
        }
        if !reader.symbol(')') {
            return Err(reader.expected(")"));
        }
    }
    if !reader.take("as") {
        return Err(reader.expected("AS"));
    }
    let text = reader.rest().unwrap_or_default();
    Ok(Statement::Prepare { name, types, text })
}

fn execute(reader: &mut Reader<'_>) -> Result<Statement, Refused> {
    let name = reader.name()?;
    let mut values = Vec::new();
    if reader.symbol('(') {
        loop {
            values.push(reader.value()?);
            if !reader.symbol(',') {
                break;
            }
        }
        if !reader.symbol(')') {
            return Err(reader
                .expected("a literal")
                .hint("Values of EXECUTE are literals here."));
        }
    }
    reader.end()?;
    Ok(Statement::Execute { name, values })
}

fn declare(reader: &mut Reader<'_>) -> Result<Statement, Refused> {
    let name = reader.name()?;
    while !reader.take("cursor") {
        if reader.take("scroll") {
            return Ok(Statement::Unsupported("DECLARE ... SCROLL CURSOR"));
        }
        if !(reader.take("binary")
            || reader.take("insensitive")
            || reader.take("asensitive")
            || reader.take("no") && reader.take("scroll"))
        {
            return Err(reader.expected("CURSOR"));
        }
    }
    if reader.take("with") {
        return Ok(Statement::Unsupported("DECLARE ... CURSOR WITH HOLD"));
    }
    if reader.take("without") {
        reader.take("hold");
    }
    if !reader.take("for") {
        return Err(reader.expected("FOR"));
    }
    let text = reader.rest().unwrap_or_default();
    Ok(Statement::Declare { name, text })
}

fn fetch(reader: &mut Reader<'_>, is_move: bool) -> Result<Statement, Refused> {
    let what = if is_move {
        "MOVE backward"
    } else {
        "FETCH backward"
    };
    let mut rows = Some(1);
    if reader.take("all") {
        rows = None;
    } else if reader.take("next") {
    } else if let Some(count) = reader.number()? {
        rows = Some(count);
    } else if reader.take("forward") {
        if reader.take("all") {
            rows = None;
        } else if let Some(count) = reader.number()? {
            rows = Some(count);
        }
    } else if ["prior", "backward", "first", "last", "absolute", "relative"]
        .iter()
        .any(|word| reader.take(word))
    {
        return Ok(Statement::Unsupported(what));
    }
    let _ = reader.take("from") || reader.take("in");
    let name = reader.name()?;
    reader.end()?;
    Ok(Statement::Fetch {
        name,
        rows,
        is_move,
    })
}

impl Reader<'_> {
    /// What is told where something else is expected.
    pub(crate) fn expected(&self, what: &str) -> Refused {
        let mut refused = Refused::new(
            SYNTAX_ERROR,
            format!("syntax error: expected {what}, found {}", self.shown()),
        );
        refused.position = Some(self.position());
        refused
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text)
            .into_iter()
            .map(|part| part.text.trim())
            .collect()
    }

    #[test]
    fn a_semicolon_in_quotes_or_comments_ends_nothing() {
        for (text, parts) in [
            ("", vec![]),
            (" ; -- nothing;\n; ", vec![]),
            ("SELECT 1", vec!["SELECT 1"]),
            ("SELECT 1; SELECT 2;", vec!["SELECT 1", "SELECT 2"]),
            ("SELECT ';''' ; x", vec!["SELECT ';'''", "x"]),
            ("SELECT E'\\';' ; x", vec!["SELECT E'\\';'", "x"]),
            ("SELECT \";\"\";\" ; x", vec!["SELECT \";\"\";\"", "x"]),
            ("SELECT $a$;$b$;$a$ ; x", vec!["SELECT $a$;$b$;$a$", "x"]),
            (
                "SELECT /* ; /* ; */ ; */ 1 ; x",
                vec!["SELECT /* ; /* ; */ ; */ 1", "x"],
            ),
            ("SELECT 'open ; x", vec!["SELECT 'open ; x"]),
            ("SELECT $1;x", vec!["SELECT $1", "x"]),
        ] {
            assert_eq!(texts(text), parts, "{text}");
        }
        let parts = split("\u{e4};\u{e4}b");
        assert_eq!(parts.last().map(|part| part.characters_before), Some(2));
    }

    #[expect(clippy::too_many_lines, reason = "a flat list of statements")]
    #[test]
    fn statements_are_told_apart() {
        let to = |name: &str, value: &str| {
            Statement::Set(Set::To(name.to_owned(), Some(value.to_owned())))
        };
        for (text, expected) in [
            (
                "/* a */ begin isolation level serializable",
                Statement::Begin(Mode {
                    is_strict: Some(true),
                    is_read_only: None,
                }),
            ),
            (
                "START TRANSACTION READ ONLY, ISOLATION LEVEL READ COMMITTED",
                Statement::Begin(Mode {
                    is_strict: Some(false),
                    is_read_only: Some(true),
                }),
            ),
            ("begin work", Statement::Begin(Mode::default())),
            ("COMMIT AND NO CHAIN", Statement::Commit),
            ("commit and chain", Statement::Unsupported("AND CHAIN")),
            ("RELEASE s", Statement::Release("s".to_owned())),
            ("END", Statement::Commit),
            ("ROLLBACK TO x", Statement::RollbackTo("x".to_owned())),
            ("ROLLBACK", Statement::Rollback),
            ("SET search_path TO a, \"B\"", to("search_path", "a, \"B\"")),
            (
                "set application_name = 'x;y'",
                to("application_name", "x;y"),
            ),
            (
                "SET statement_timeout=1000",
                to("statement_timeout", "1000"),
            ),
            ("SET SESSION x.y = on", to("x.y", "on")),
            (
                "SET a TO DEFAULT",
                Statement::Set(Set::To("a".to_owned(), None)),
            ),
            ("SET TIME ZONE 'UTC'", Statement::Set(Set::Language)),
            ("SET timezone = 'UTC'", Statement::Set(Set::Language)),
            ("RESET ALL", Statement::Set(Set::All)),
            ("SET ROLE Joe", to("role", "joe")),
            ("set session role = 'Joe'", to("role", "Joe")),
            (
                "SET SESSION AUTHORIZATION \"Joe\"",
                to("session_authorization", "Joe"),
            ),
            (
                "RESET SESSION AUTHORIZATION",
                Statement::Set(Set::To("session_authorization".to_owned(), None)),
            ),
            (
                "RESET ROLE",
                Statement::Set(Set::To("role".to_owned(), None)),
            ),
            (
                "SHOW server_version",
                Statement::Show("server_version".to_owned()),
            ),
            (
                "SHOW TRANSACTION ISOLATION LEVEL",
                Statement::Show("transaction_isolation".to_owned()),
            ),
            ("SHOW TABLES FROM d", Statement::Query),
            (
                "INSERT INTO t VALUES (1)",
                Statement::Change("INSERT 0".to_owned()),
            ),
            (
                "create or replace view v as select 1",
                Statement::Change("CREATE VIEW".to_owned()),
            ),
            ("DROP TABLE t", Statement::Change("DROP TABLE".to_owned())),
            // As PostgreSQL 15 answers them.
            ("CREATE USER u", Statement::Change("CREATE ROLE".to_owned())),
            (
                "alter group g add user u",
                Statement::Change("ALTER ROLE".to_owned()),
            ),
            (
                "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO u",
                Statement::Change("ALTER DEFAULT PRIVILEGES".to_owned()),
            ),
            (
                "GRANT SELECT ON t TO u",
                Statement::Change("GRANT".to_owned()),
            ),
            (
                "DROP MATERIALIZED VIEW v",
                Statement::Change("DROP MATERIALIZED VIEW".to_owned()),
            ),
            (
                "CALL refresh_continuous_aggregate('v', NULL, NULL)",
                Statement::Change("CALL".to_owned()),
            ),
            ("CALL f()", Statement::Change("CALL".to_owned())),
            ("WITH x AS (SELECT 1) SELECT * FROM x", Statement::Query),
            ("UNLISTEN *", Statement::Done("UNLISTEN")),
            (
                "LOCK TABLE public.a, b IN ACCESS SHARE MODE",
                Statement::Done("LOCK TABLE"),
            ),
            ("LOCK TABLE a", Statement::Unsupported("LOCK")),
            ("LOCK TABLE a IN SHARE MODE", Statement::Unsupported("LOCK")),
            ("DEALLOCATE ALL", Statement::Deallocate(None)),
            ("close \"C\"", Statement::Close(Some("C".to_owned()))),
            (
                "PREPARE p (int, double precision) AS SELECT $1, $2",
                Statement::Prepare {
                    name: "p".to_owned(),
                    types: vec!["int".to_owned(), "double precision".to_owned()],
                    text: "SELECT $1, $2".to_owned(),
                },
            ),
            (
                "EXECUTE p (-1.5, 'a''b', NULL, true)",
                Statement::Execute {
                    name: "p".to_owned(),
                    values: vec![
                        Some("-1.5".to_owned()),
                        Some("a'b".to_owned()),
                        None,
                        Some("true".to_owned()),
                    ],
                },
            ),
            (
                "DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1",
                Statement::Declare {
                    name: "c".to_owned(),
                    text: "SELECT 1".to_owned(),
                },
            ),
            (
                "FETCH FORWARD 10 FROM c",
                Statement::Fetch {
                    name: "c".to_owned(),
                    rows: Some(10),
                    is_move: false,
                },
            ),
            (
                "move all in c",
                Statement::Fetch {
                    name: "c".to_owned(),
                    rows: None,
                    is_move: true,
                },
            ),
        ] {
            assert_eq!(classify(text), Ok(expected), "{text}");
        }
        for (text, position) in [("PREPARE", 8), ("SET x 1", 7), ("FETCH 1 FROM", 13)] {
            let refused = classify(text).unwrap_err();
            assert_eq!(
                (refused.code, refused.position),
                ("42601", Some(position)),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,60}") {
            for part in split(&text) {
                let _ = classify(part.text);
            }
        }

        #[test]
        fn what_is_cut_is_the_text(text in "[a-z'\";$/*\\- \n]{0,60}") {
            let cut: usize = split(&text).iter().map(|part| part.text.len()).sum();
            prop_assert!(cut <= text.len());
        }
    }
}
