//! Statements about roles: CREATE, ALTER and DROP ROLE or USER, and ALTER ... OWNER TO.
//!
//! Does: read them, and refuse options that this store does not keep by what is there instead. Does not: carry them out
//! (`sql/role.rs` does), or read GRANT (`role/grant.rs` does). No error and no text for others has a password in it.
//!
//! Next: docs/decisions/0037-roles-in-sql.md.

pub(crate) mod grant;

use datafusion::sql::sqlparser::ast::DollarQuotedString;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use nilometer_service::{NewPassword, RoleError, RoleOptions};

use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;
use crate::statement::name::{Name, Path};
use crate::statement::session::words;
use grant::WrittenGrant;

/// A statement about roles.
#[derive(Debug, Clone)]
pub(crate) enum RoleStatement {
    Create {
        name: Name,
        options: WrittenOptions,
    },
    Alter {
        role: RoleName,
        options: WrittenOptions,
    },
    Rename {
        role: RoleName,
        to: Name,
    },
    Drop {
        roles: Vec<RoleName>,
        if_exists: bool,
    },
    Grant(Box<WrittenGrant>),
    /// The role that something is to belong to.
    Owner(RoleName),
}

/// A role as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleName {
    Named(Name),
    /// Whoever asks: `CURRENT_USER` and its kin.
    Current(Option<Position>),
    /// Everybody. GRANT alone knows it.
    Public(Option<Position>),
}

/// Options as they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct WrittenOptions {
    pub(crate) options: RoleOptions,
    /// An option that only administrators have here, and where it stands.
    pub(crate) of_admins: Option<(&'static str, Option<Position>)>,
}

impl RoleStatement {
    /// What others are shown of it while it runs; `None` = the statement as it was written.
    pub(crate) fn shown(&self) -> Option<String> {
        let (what, name, options) = match self {
            Self::Create { name, options } => ("CREATE", name.text.as_str(), options),
            Self::Alter { role, options } => match role {
                RoleName::Named(name) => ("ALTER", name.text.as_str(), options),
                _ => ("ALTER", "CURRENT_USER", options),
            },
            _ => return None,
        };
        let has_password = options.options.password.is_some();
        has_password.then(|| format!("{what} ROLE {name} PASSWORD [REDACTED]"))
    }
}

/// Whether a statement of these first words is about roles.
pub(crate) fn is_asked(tokens: &[TokenWithSpan]) -> bool {
    let words: Vec<String> = words(tokens).take(3).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["create" | "alter" | "drop", "role" | "user" | "group", ..]
        | ["grant" | "revoke", ..]
        | ["reassign" | "drop", "owned", ..]
        | ["alter", "default", "privileges"] => true,
        ["alter", ..] => owner_at(tokens).is_some(),
        _ => false,
    }
}

/// The statement of these tokens.
pub(crate) fn read(tokens: &[TokenWithSpan]) -> Result<RoleStatement, Error> {
    read_tokens(tokens).map_err(without_values)
}

/// An error without what the parser has found, which may be a password.
fn without_values(error: Error) -> Error {
    match error {
        Error::Syntax {
            mut message,
            position,
        } => {
            if let Some(at) = message.find(", found: ") {
                message.truncate(at);
            }
            Error::Syntax { message, position }
        }
        other => other,
    }
}

/// Tokens in which the word is looked for: a statement of a role is short, and an INSERT may be long.
const PASSWORD_WITHIN: usize = 64;

/// Whether a text of a statement that is not understood may be a password.
pub(crate) fn may_show_password(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().take(PASSWORD_WITHIN).any(
        |it| matches!(&it.token, Token::Word(word) if word.value.eq_ignore_ascii_case("password")),
    )
}

/// Its error without the text that the parser has found.
pub(crate) fn without_texts(error: Error) -> Error {
    let shows_text = |message: &str| {
        let found = message.find(", found: ").and_then(|at| message.get(at..));
        found.is_some_and(|found| found.contains(['\'', '$']))
    };
    match &error {
        Error::Syntax { message, .. } if shows_text(message) => without_values(error),
        _ => error,
    }
}

fn read_tokens(tokens: &[TokenWithSpan]) -> Result<RoleStatement, Error> {
    let dialect = GenericDialect {};
    let mut grammar = Grammar::new(tokens.to_vec(), &dialect);
    let found = statement(&mut grammar, tokens)?;
    grammar.end()?;
    Ok(found)
}

fn statement(grammar: &mut Grammar<'_>, tokens: &[TokenWithSpan]) -> Result<RoleStatement, Error> {
    if grammar.word("grant") {
        return grant::read(grammar, false);
    }
    if grammar.word("revoke") {
        return grant::read(grammar, true);
    }
    if grammar.words(&["alter", "default", "privileges"]) {
        return grant::read_default(grammar);
    }
    if grammar.word("reassign") || grammar.words(&["drop", "owned"]) {
        return Err(unsupported(
            "REASSIGN OWNED and DROP OWNED",
            "tables belong to no role; REVOKE takes privileges away, and DROP ROLE names the routines and jobs of a role",
        ));
    }
    if let Some(at) = owner_at(tokens) {
        let rest = tokens.get(at..).unwrap_or_default().to_vec();
        *grammar = Grammar::new(rest, &GenericDialect {});
        return Ok(RoleStatement::Owner(role(grammar)?));
    }
    if grammar.word("create") {
        let is_user = of_kind(grammar);
        let name = grammar.name()?;
        let options = options(grammar, Some(is_user))?;
        return Ok(RoleStatement::Create { name, options });
    }
    if grammar.word("drop") {
        of_kind(grammar);
        let if_exists = grammar.if_exists();
        let mut roles = vec![role(grammar)?];
        while grammar.token(&Token::Comma) {
            roles.push(role(grammar)?);
        }
        return Ok(RoleStatement::Drop { roles, if_exists });
    }
    grammar.word("alter");
    of_kind(grammar);
    if grammar.word("all") {
        return Err(settings());
    }
    let role = role(grammar)?;
    if grammar.words(&["rename", "to"]) {
        let to = grammar.name()?;
        return Ok(RoleStatement::Rename { role, to });
    }
    if grammar.word("set") || grammar.word("reset") || grammar.words(&["in", "database"]) {
        return Err(settings());
    }
    if grammar.word("add") || grammar.words(&["drop", "user"]) {
        return Err(membership());
    }
    let options = options(grammar, None)?;
    Ok(RoleStatement::Alter { role, options })
}

/// ROLE, USER or GROUP; whether it is a user, who may log in.
fn of_kind(grammar: &mut Grammar<'_>) -> bool {
    if grammar.word("user") {
        return true;
    }
    let _ = grammar.word("role") || grammar.word("group");
    false
}

fn settings() -> Error {
    unsupported(
        "ALTER ROLE ... SET",
        "a role keeps no settings; SET them in the session, or send them when you connect (PGOPTIONS)",
    )
}

pub(super) fn membership() -> Error {
    unsupported(
        "a role that is a member of another one",
        "grant the privileges to each role: GRANT SELECT ON ALL TABLES IN SCHEMA public TO a, b",
    )
}

pub(super) fn unsupported(statement: &str, instead: &'static str) -> Error {
    Error::Unsupported {
        statement: statement.to_owned(),
        instead,
    }
}

/// A role as ALTER, DROP and GRANT name it.
pub(super) fn role(grammar: &mut Grammar<'_>) -> Result<RoleName, Error> {
    let at = grammar.position();
    for word in ["current_user", "current_role", "session_user"] {
        if grammar.word(word) {
            return Ok(RoleName::Current(at));
        }
    }
    if grammar.word("public") {
        return Ok(RoleName::Public(at));
    }
    grammar.name().map(RoleName::Named)
}

/// Options behind WITH, which may be left out. `Some` = of a new role, and whether it is a user.
fn options(grammar: &mut Grammar<'_>, is_user: Option<bool>) -> Result<WrittenOptions, Error> {
    grammar.word("with");
    let mut written = WrittenOptions::default();
    written.options.can_login = is_user;
    written.options.is_admin = is_user.map(|_| false);
    let mut is_first = true;
    while !matches!(grammar.peek(), Token::SemiColon | Token::EOF) {
        is_first = false;
        option(grammar, &mut written)?;
    }
    if is_first && is_user.is_none() {
        return grammar.expected("PASSWORD, LOGIN, SUPERUSER or RENAME TO");
    }
    Ok(written)
}

fn option(grammar: &mut Grammar<'_>, written: &mut WrittenOptions) -> Result<(), Error> {
    let at = grammar.position();
    let options = &mut written.options;
    if grammar.word("superuser") {
        options.is_admin = Some(true);
    } else if grammar.word("nosuperuser") {
        options.is_admin = Some(false);
    } else if grammar.word("login") {
        options.can_login = Some(true);
    } else if grammar.word("nologin") {
        options.can_login = Some(false);
    } else if grammar.word("password") || grammar.words(&["encrypted", "password"]) {
        options.password = Some(password(grammar, at)?);
    } else if grammar.word("createdb") {
        written.of_admins = Some(("CREATEDB", at));
    } else if grammar.word("createrole") || grammar.word("createuser") {
        written.of_admins = Some(("CREATEROLE", at));
    } else if grammar.words(&["connection", "limit"]) {
        let is_none = grammar.token(&Token::Minus);
        let limit = grammar.number()?;
        if !is_none || limit != 1 {
            return Err(unsupported(
                "CONNECTION LIMIT",
                "connections are limited for all together (--pg-connections-max); leave it out, or write -1",
            ));
        }
    } else if grammar.words(&["valid", "until"]) {
        let until = text(grammar)?;
        if !until.eq_ignore_ascii_case("infinity") {
            return Err(unsupported(
                "VALID UNTIL",
                "a password holds until it is changed; take the login away with ALTER ROLE ... NOLOGIN",
            ));
        }
    } else if grammar.word("sysid") {
        grammar.number()?;
    } else if !is_harmless(grammar) {
        return Err(refused(grammar));
    }
    Ok(())
}

/// Options that say what is so anyway.
fn is_harmless(grammar: &mut Grammar<'_>) -> bool {
    [
        "inherit",
        "noinherit",
        "nocreatedb",
        "nocreaterole",
        "nocreateuser",
        "noreplication",
        "nobypassrls",
    ]
    .iter()
    .any(|word| grammar.word(word))
}

/// The error for an option that promises what is not there.
fn refused(grammar: &mut Grammar<'_>) -> Error {
    let members: [&[&str]; 4] = [&["in"], &["role"], &["admin"], &["user"]];
    if members.iter().any(|words| grammar.words(words)) {
        return membership();
    }
    if grammar.word("replication") {
        return unsupported(
            "REPLICATION",
            "replicas do not log in as roles (docs/guide/operations.md); leave it out",
        );
    }
    if grammar.word("bypassrls") {
        return unsupported("BYPASSRLS", "there are no policies of rows; leave it out");
    }
    if grammar.word("unencrypted") {
        return unsupported(
            "UNENCRYPTED PASSWORD",
            "a password is kept as a verifier only; write PASSWORD",
        );
    }
    let expected: Result<(), Error> =
        grammar.expected("an option of a role, such as LOGIN, PASSWORD '...' or SUPERUSER");
    expected.err().unwrap_or_else(membership)
}

fn password(grammar: &mut Grammar<'_>, at: Option<Position>) -> Result<NewPassword, Error> {
    if grammar.word("null") {
        return Ok(NewPassword::Nothing);
    }
    NewPassword::of(&text(grammar)?).map_err(|wrong| of_role(&wrong, at))
}

/// A text between quotes or dollars.
fn text(grammar: &mut Grammar<'_>) -> Result<String, Error> {
    let text = match grammar.peek() {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
        Token::DollarQuotedString(DollarQuotedString { value, .. }) => value.clone(),
        _ => return grammar.expected("a text in single quotes"),
    };
    grammar.next();
    Ok(text)
}

/// What the service says of a role, where it stands in the statement.
pub(crate) fn of_role(wrong: &RoleError, position: Option<Position>) -> Error {
    Error::Definition {
        message: wrong.to_string(),
        fault: wrong.fault(),
        position,
    }
}

/// The place among the tokens of the role behind a last OWNER TO.
fn owner_at(tokens: &[TokenWithSpan]) -> Option<usize> {
    let written = tokens.iter().enumerate().filter(|(_, it)| {
        !matches!(
            it.token,
            Token::Whitespace(_) | Token::SemiColon | Token::EOF
        )
    });
    let mut last = written.rev();
    let (at, _) = last.next()?;
    let is = |found: Option<(usize, &TokenWithSpan)>, wanted: &str| {
        found.is_some_and(|(_, it)| matches!(&it.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)))
    };
    (is(last.next(), "to") && is(last.next(), "owner")).then_some(at)
}

/// Paths between commas.
pub(super) fn paths(grammar: &mut Grammar<'_>) -> Result<Vec<Path>, Error> {
    let mut paths = vec![grammar.path()?];
    while grammar.token(&Token::Comma) {
        paths.push(grammar.path()?);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlOptions;
    use crate::statement::{Bounds, tokens};

    fn read_sql(sql: &str) -> Result<RoleStatement, Error> {
        let tokens = tokens(sql, Bounds::of(&SqlOptions::default())).unwrap();
        assert!(is_asked(&tokens), "{sql}");
        read(&tokens)
    }

    fn created(sql: &str) -> RoleOptions {
        match read_sql(sql).unwrap() {
            RoleStatement::Create { options, .. } | RoleStatement::Alter { options, .. } => {
                options.options
            }
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// As PostgreSQL 15's manual has it: CREATE USER is CREATE ROLE with LOGIN, and what is not said is not so.
    #[test]
    fn options_are_those_of_postgresql() {
        let options = |can_login, is_admin, password: Option<&str>| RoleOptions {
            password: password.map(|text| NewPassword::Text(text.to_owned())),
            is_admin,
            can_login,
        };
        for (sql, expected) in [
            ("CREATE ROLE a", options(Some(false), Some(false), None)),
            ("CREATE USER a", options(Some(true), Some(false), None)),
            (
                "create user a nologin;",
                options(Some(false), Some(false), None),
            ),
            (
                "CREATE ROLE a WITH LOGIN SUPERUSER PASSWORD 'p''q'",
                options(Some(true), Some(true), Some("p'q")),
            ),
            (
                "CREATE USER a ENCRYPTED PASSWORD $$p$$ INHERIT NOCREATEROLE CONNECTION LIMIT -1 VALID UNTIL 'infinity'",
                options(Some(true), Some(false), Some("p")),
            ),
            ("ALTER USER a NOSUPERUSER", options(None, Some(false), None)),
            (
                "ALTER ROLE a LOGIN PASSWORD 'p'",
                options(Some(true), None, Some("p")),
            ),
            (
                "ALTER ROLE a WITH NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN NOREPLICATION NOBYPASSRLS",
                options(Some(true), Some(false), None),
            ),
        ] {
            assert_eq!(created(sql), expected, "{sql}");
        }
        let none = created("ALTER ROLE a PASSWORD NULL").password;
        assert_eq!(none, Some(NewPassword::Nothing));
    }

    #[test]
    fn what_is_not_kept_is_refused_by_what_is_there() {
        for (sql, part) in [
            ("CREATE ROLE a VALID UNTIL '2030-01-01'", "NOLOGIN"),
            ("CREATE ROLE a CONNECTION LIMIT 3", "--pg-connections-max"),
            ("CREATE ROLE a IN ROLE b", "each role"),
            ("CREATE ROLE a ROLE b", "each role"),
            ("ALTER GROUP a ADD USER b", "each role"),
            ("CREATE ROLE a REPLICATION", "replicas"),
            ("CREATE ROLE a BYPASSRLS", "policies"),
            ("ALTER ROLE a SET work_mem = '1MB'", "PGOPTIONS"),
            ("ALTER ROLE ALL RESET ALL", "PGOPTIONS"),
            ("DROP OWNED BY a", "REVOKE"),
            ("REASSIGN OWNED BY a TO b", "REVOKE"),
        ] {
            let error = read_sql(sql).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{sql}: {error}");
            assert!(error.to_string().contains(part), "{sql}: {error}");
        }
    }

    #[test]
    fn no_error_and_no_shown_text_has_a_password() {
        for sql in [
            "CREATE ROLE a PASSWORD secret",
            "CREATE ROLE a 'secret'",
            "CREATE ROLE 'secret'",
            "CREATE USER a WITH PASSWORD 'x' 'secret'",
            "ALTER ROLE a PASSWORD = 'secret'",
            "ALTER ROLE a PASSWORD NULL $$secret$$",
            "CREATE ROLE a PASSWORD 'SCRAM-SHA-256$secret'",
        ] {
            let error = read_sql(sql).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{sql}: {error}");
        }
        for sql in [
            "EXPLAIN CREATE USER a PASSWORD 'secret'",
            "CREATE USR a PASSWORD 'secret' x",
        ] {
            let bounds = Bounds::of(&SqlOptions::default());
            let error = crate::statement::parse(sql, bounds, &crate::Params::new()).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{sql}: {error}");
        }
        let shown = read_sql("CREATE USER a PASSWORD 'secret'").unwrap().shown();
        assert_eq!(shown.as_deref(), Some("CREATE ROLE a PASSWORD [REDACTED]"));
        assert_eq!(read_sql("CREATE USER a").unwrap().shown(), None);
    }
}
