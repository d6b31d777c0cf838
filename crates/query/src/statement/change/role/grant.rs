//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.
//!
//! Does: read them, and say which of the privileges that are here they mean. Does not: look a name up, or carry them out
//! (`sql/role.rs` does).
//!
//! Next: the table in docs/decisions/0037-roles-in-sql.md.

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::{Fault, Privileges};

use super::{RoleName, RoleStatement, membership, paths, role, unsupported};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Name, Path};

/// GRANT or REVOKE.
#[derive(Debug, Clone)]
pub(crate) struct WrittenGrant {
    pub(crate) is_revoke: bool,
    /// Whether it is said of what is made later (ALTER DEFAULT PRIVILEGES), and nothing is to change now.
    pub(crate) is_default: bool,
    pub(crate) target: Target,
    pub(crate) roles: Vec<RoleName>,
    pub(crate) meant: Meant,
}

/// What privileges are about.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Databases(Vec<Name>),
    Schemas(Vec<Path>),
    /// Tables and views.
    Tables(Vec<Path>),
    TablesIn(Vec<Path>),
    Sequences(Vec<Path>),
    SequencesIn(Vec<Path>),
    /// Functions, types and languages, which everybody uses.
    Everybodys,
    /// What ALTER DEFAULT PRIVILEGES says of all schemas.
    AllTables,
}

/// The privileges that a list of `PostgreSQL`'s means here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Meant {
    /// Those that are granted here.
    pub(crate) privileges: Privileges,
    /// One that everybody has here: CONNECT, USAGE or EXECUTE.
    pub(crate) everybodys: Option<&'static str>,
    /// Whether it was ALL of a database or a schema, which is more here than in `PostgreSQL`.
    pub(crate) is_all: bool,
}

/// A privilege as it is written.
type Word = (String, Option<Position>);

/// Reads what follows GRANT or REVOKE.
pub(super) fn read(grammar: &mut Grammar<'_>, is_revoke: bool) -> Result<RoleStatement, Error> {
    if is_revoke && grammar.words(&["grant", "option", "for"]) {
        return Err(grant_option());
    }
    let words = privileges(grammar)?;
    let names_role = grammar.word(if is_revoke { "from" } else { "to" });
    if names_role || grammar.peek() == &Token::EOF {
        return Err(membership());
    }
    grammar.expect_word("ON")?;
    let target = target(grammar)?;
    rest(grammar, is_revoke, (words, target, false))
}

/// Reads what follows ALTER DEFAULT PRIVILEGES.
pub(super) fn read_default(grammar: &mut Grammar<'_>) -> Result<RoleStatement, Error> {
    if grammar.words(&["for", "role"]) || grammar.words(&["for", "user"]) {
        // Tables belong to no role, so that it does not matter who makes them.
        role(grammar)?;
        while grammar.token(&Token::Comma) {
            role(grammar)?;
        }
    }
    let schemas = if grammar.words(&["in", "schema"]) {
        Some(paths(grammar)?)
    } else {
        None
    };
    let is_revoke = grammar.word("revoke");
    if !is_revoke {
        grammar.expect_word("GRANT")?;
    }
    if is_revoke && grammar.words(&["grant", "option", "for"]) {
        return Err(grant_option());
    }
    let words = privileges(grammar)?;
    grammar.expect_word("ON")?;
    let target = if grammar.word("tables") {
        schemas.map_or(Target::AllTables, Target::TablesIn)
    } else if ["functions", "routines", "types"]
        .iter()
        .any(|word| grammar.word(word))
    {
        Target::Everybodys
    } else if grammar.word("sequences") || grammar.word("schemas") {
        return Err(unsupported(
            "ALTER DEFAULT PRIVILEGES of sequences and schemas",
            "GRANT ALL ON SCHEMA s TO role holds for all that is made in it later, and for more",
        ));
    } else {
        return grammar.expected("TABLES, SEQUENCES, FUNCTIONS, TYPES or SCHEMAS");
    };
    rest(grammar, is_revoke, (words, target, true))
}

fn grant_option() -> Error {
    unsupported(
        "WITH GRANT OPTION",
        "only administrators grant (ALTER ROLE ... SUPERUSER); leave it out",
    )
}

/// The roles, and what may follow them.
fn rest(
    grammar: &mut Grammar<'_>,
    is_revoke: bool,
    (words, target, is_default): (Vec<Word>, Target, bool),
) -> Result<RoleStatement, Error> {
    grammar.expect_word(if is_revoke { "FROM" } else { "TO" })?;
    let mut roles = Vec::new();
    loop {
        grammar.word("group");
        roles.push(role(grammar)?);
        if !grammar.token(&Token::Comma) {
            break;
        }
    }
    if grammar.words(&["with", "grant", "option"]) {
        return Err(grant_option());
    }
    if grammar.words(&["granted", "by"]) {
        // Whoever may grant here may do it as anybody.
        role(grammar)?;
    }
    if is_revoke {
        let _ = grammar.word("cascade") || grammar.word("restrict");
    }
    let meant = meant(&words, &target)?;
    Ok(RoleStatement::Grant(Box::new(WrittenGrant {
        is_revoke,
        is_default,
        target,
        roles,
        meant,
    })))
}

/// Privileges between commas; `ALL` is one.
fn privileges(grammar: &mut Grammar<'_>) -> Result<Vec<Word>, Error> {
    let mut words = Vec::new();
    loop {
        let at = grammar.position();
        if grammar.word("all") {
            grammar.word("privileges");
            words.push(("ALL".to_owned(), at));
        } else {
            words.push((grammar.name()?.text.to_uppercase(), at));
        }
        if grammar.peek() == &Token::LParen {
            return Err(unsupported(
                "a privilege of single columns",
                "make a view of these columns and GRANT SELECT ON it",
            ));
        }
        if !grammar.token(&Token::Comma) {
            return Ok(words);
        }
    }
}

fn target(grammar: &mut Grammar<'_>) -> Result<Target, Error> {
    if grammar.words(&["all", "tables", "in", "schema"]) {
        return paths(grammar).map(Target::TablesIn);
    }
    if grammar.words(&["all", "sequences", "in", "schema"]) {
        return paths(grammar).map(Target::SequencesIn);
    }
    if grammar.word("all") {
        let is_known = ["functions", "procedures", "routines"]
            .iter()
            .any(|word| grammar.word(word));
        if !is_known || !grammar.words(&["in", "schema"]) {
            return grammar.expected("TABLES, SEQUENCES, FUNCTIONS or PROCEDURES IN SCHEMA");
        }
        paths(grammar)?;
        return Ok(Target::Everybodys);
    }
    if grammar.word("database") {
        let mut names = vec![grammar.path()?.database()?];
        while grammar.token(&Token::Comma) {
            names.push(grammar.path()?.database()?);
        }
        return Ok(Target::Databases(names));
    }
    if grammar.word("schema") {
        return paths(grammar).map(Target::Schemas);
    }
    if grammar.word("sequence") {
        return paths(grammar).map(Target::Sequences);
    }
    for word in ["function", "procedure", "routine"] {
        if grammar.word(word) {
            routines(grammar)?;
            return Ok(Target::Everybodys);
        }
    }
    if ["type", "domain", "language"]
        .iter()
        .any(|word| grammar.word(word))
    {
        paths(grammar)?;
        return Ok(Target::Everybodys);
    }
    let others: [&[&str]; 5] = [
        &["foreign", "data", "wrapper"],
        &["foreign", "server"],
        &["large", "object"],
        &["tablespace"],
        &["parameter"],
    ];
    for words in others {
        if grammar.words(words) {
            let what = words.join(" ").to_uppercase();
            return Err(unsupported(
                &format!("a privilege ON {what}"),
                "there is none of these; privileges are granted ON DATABASE, SCHEMA, ALL TABLES IN SCHEMA, TABLE and SEQUENCE",
            ));
        }
    }
    grammar.word("table");
    paths(grammar).map(Target::Tables)
}

/// Names of routines, with or without their arguments.
fn routines(grammar: &mut Grammar<'_>) -> Result<(), Error> {
    loop {
        grammar.path()?;
        if grammar.token(&Token::LParen) {
            let mut depth = 1usize;
            while depth > 0 {
                match grammar.next() {
                    Token::LParen => depth += 1,
                    Token::RParen => depth -= 1,
                    Token::EOF => return grammar.expected(")"),
                    _ => {}
                }
            }
        }
        if !grammar.token(&Token::Comma) {
            return Ok(());
        }
    }
}

/// What the words mean of such a target.
fn meant(words: &[Word], target: &Target) -> Result<Meant, Error> {
    let mut meant = Meant::default();
    let mut writes = Vec::new();
    for (word, at) in words {
        match (word.as_str(), target) {
            ("ALL", Target::Databases(_) | Target::Schemas(_)) => {
                meant.privileges = Privileges::ALL;
                meant.is_all = true;
            }
            ("ALL" | "EXECUTE" | "USAGE", Target::Everybodys) => {
                meant.everybodys = Some("EXECUTE and USAGE");
            }
            ("ALL", _) => {
                let both = Privileges::READ.with(Privileges::WRITE);
                meant.privileges = meant.privileges.with(both);
            }
            ("CONNECT", Target::Databases(_)) => meant.everybodys = Some("CONNECT"),
            ("USAGE", Target::Schemas(_)) => meant.everybodys = Some("USAGE"),
            ("USAGE" | "UPDATE", Target::Sequences(_) | Target::SequencesIn(_)) => {
                meant.privileges = meant.privileges.with(Privileges::WRITE);
            }
            ("CREATE", Target::Databases(_) | Target::Schemas(_)) => {
                return Err(unsupported(
                    "CREATE as a privilege of its own",
                    "who may create tables may read, write, change and drop those of the place: GRANT ALL ON SCHEMA s, or ON DATABASE d",
                ));
            }
            ("TEMPORARY" | "TEMP", Target::Databases(_)) => {
                return Err(unsupported(
                    "TEMPORARY as a privilege",
                    "there are no temporary tables; leave it out",
                ));
            }
            (
                "SELECT",
                Target::Databases(_)
                | Target::Tables(_)
                | Target::TablesIn(_)
                | Target::AllTables
                | Target::Sequences(_)
                | Target::SequencesIn(_),
            ) => meant.privileges = meant.privileges.with(Privileges::READ),
            (
                "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE",
                Target::Databases(_) | Target::Tables(_) | Target::TablesIn(_) | Target::AllTables,
            ) => writes.push(word.as_str()),
            (
                "REFERENCES" | "TRIGGER",
                Target::Tables(_) | Target::TablesIn(_) | Target::AllTables,
            ) => {
                return Err(unsupported(
                    "REFERENCES or TRIGGER as a privilege of its own",
                    "who may change a schema may point to its tables, and there are no triggers; leave it out",
                ));
            }
            _ => return Err(no_such(word, *at)),
        }
    }
    if !writes.is_empty() {
        check_writes(&writes)?;
        meant.privileges = meant.privileges.with(Privileges::WRITE);
    }
    Ok(meant)
}

/// Refuses a part of what writing is.
fn check_writes(writes: &[&str]) -> Result<(), Error> {
    if ["INSERT", "UPDATE", "DELETE"]
        .iter()
        .all(|word| writes.contains(word))
    {
        return Ok(());
    }
    Err(unsupported(
        "INSERT, UPDATE, DELETE or TRUNCATE as a privilege of its own",
        "to write is one privilege here: name INSERT, UPDATE, DELETE together",
    ))
}

fn no_such(word: &str, position: Option<Position>) -> Error {
    Error::Definition {
        message: format!(
            "there is no privilege {word} of this kind of object; those of tables are SELECT and INSERT, UPDATE, DELETE together, and ALL"
        ),
        fault: Fault::Syntax,
        position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlOptions;
    use crate::statement::{Bounds, tokens};

    fn read_sql(sql: &str) -> Result<WrittenGrant, Error> {
        let tokens = tokens(sql, Bounds::of(&SqlOptions::default())).unwrap();
        assert!(super::super::is_asked(&tokens), "{sql}");
        match super::super::read(&tokens)? {
            RoleStatement::Grant(grant) => Ok(*grant),
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// The table of decision 37.
    #[test]
    fn privileges_mean_what_the_decision_says() {
        let none = Privileges::default();
        let both = Privileges::READ.with(Privileges::WRITE);
        for (sql, expected, everybodys) in [
            ("GRANT SELECT ON t TO a", Privileges::READ, None),
            (
                "GRANT SELECT ON TABLE s.t, u TO a, b",
                Privileges::READ,
                None,
            ),
            (
                "GRANT INSERT, UPDATE, DELETE ON t TO a",
                Privileges::WRITE,
                None,
            ),
            (
                "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA s TO a",
                both,
                None,
            ),
            ("GRANT ALL ON t TO a", both, None),
            (
                "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA s TO a",
                both,
                None,
            ),
            ("GRANT ALL ON SCHEMA s TO a", Privileges::ALL, None),
            (
                "GRANT ALL PRIVILEGES ON DATABASE d TO a",
                Privileges::ALL,
                None,
            ),
            ("GRANT SELECT ON DATABASE d TO a", Privileges::READ, None),
            (
                "GRANT CONNECT ON DATABASE d TO PUBLIC",
                none,
                Some("CONNECT"),
            ),
            ("GRANT USAGE ON SCHEMA s TO a", none, Some("USAGE")),
            (
                "GRANT EXECUTE ON FUNCTION f(int, numeric(3,1)), g TO a",
                none,
                Some("EXECUTE and USAGE"),
            ),
            ("GRANT USAGE, SELECT ON SEQUENCE q TO a", both, None),
            (
                "REVOKE ALL ON ALL SEQUENCES IN SCHEMA s FROM a CASCADE",
                both,
                None,
            ),
        ] {
            let meant = read_sql(sql).unwrap().meant;
            assert_eq!(
                (meant.privileges, meant.everybodys),
                (expected, everybodys),
                "{sql}"
            );
        }
    }

    #[test]
    fn what_is_finer_than_what_is_here_is_refused() {
        for (sql, part) in [
            ("GRANT INSERT ON t TO a", "together"),
            ("REVOKE DELETE ON t FROM a", "together"),
            ("GRANT TRUNCATE ON t TO a", "together"),
            ("GRANT SELECT (x) ON t TO a", "view"),
            ("GRANT CREATE ON SCHEMA s TO a", "GRANT ALL ON SCHEMA"),
            ("GRANT TEMP ON DATABASE d TO a", "no temporary tables"),
            ("GRANT SELECT ON t TO a WITH GRANT OPTION", "administrators"),
            (
                "REVOKE GRANT OPTION FOR SELECT ON t FROM a",
                "administrators",
            ),
            ("GRANT a TO b", "each role"),
            ("REVOKE a FROM b", "each role"),
            ("GRANT USAGE ON FOREIGN SERVER x TO a", "none of these"),
            (
                "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO a",
                "SCHEMA",
            ),
        ] {
            let error = read_sql(sql).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{sql}: {error}");
            assert!(error.to_string().contains(part), "{sql}: {error}");
        }
        let wrong = read_sql("GRANT SELECT ON SCHEMA s TO a").unwrap_err();
        assert_eq!(wrong.fault(), Some(Fault::Syntax));
    }
}
