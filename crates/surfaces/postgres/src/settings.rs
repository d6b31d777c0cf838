//! Settings of a session, as clients of PostgreSQL set and show them.
//!
//! Does: keep what was set, refuse what would change the answers and cannot, say which of them clients are told. Does not:
//! know the time zone; the session of the service has that.

mod inert;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nilometer_service::{Client, SessionLocks, SessionNotices, SessionNumbers};

use crate::sqlstate::{INVALID_PARAMETER_VALUE, Refused, UNKNOWN_SETTING};
use crate::statement::Mode;
use inert::INERT;

/// The level of each transaction that writes.
const READ_COMMITTED: &str = "read committed";
/// What is shown of one that asked for more.
const STRICT: &str = "serializable";

/// The version of PostgreSQL whose clients feel at home.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Nilometer ", env!("CARGO_PKG_VERSION"), ")");
const SERVER_VERSION_NUM: &str = "150000";

/// What is allowed to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Any value; nothing depends on it.
    Any,
    /// On or off.
    Switch,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// UTF-8 under one of its names, whatever stands between their letters.
    Encoding,
    /// Nobody sets it.
    Fixed,
    /// A length of time in milliseconds, or with a unit; 0 = none.
    Time,
}

/// Name, default, rule, and whether clients are told of each change.
const SETTINGS: [(&str, &str, Rule, bool); 40] = [
    ("application_name", "", Rule::Any, true),
    ("backslash_quote", "safe_encoding", Rule::Any, false),
    ("bytea_output", "hex", Rule::OneOf(&["hex"]), false),
    ("client_encoding", "UTF8", Rule::Encoding, true),
    ("client_min_messages", "notice", Rule::Any, false),
    ("check_function_bodies", "on", Rule::Any, false),
    (
        "datestyle",
        "ISO, MDY",
        Rule::OneOf(&["iso", "iso, mdy", "iso,mdy"]),
        true,
    ),
    ("default_table_access_method", "heap", Rule::Any, false),
    ("default_tablespace", "", Rule::Any, false),
    (
        "default_transaction_isolation",
        "read committed",
        Rule::Any,
        false,
    ),
    (
        "default_transaction_read_only",
        "off",
        Rule::OneOf(&["off", "false", "0", "no", "on", "true", "1", "yes"]),
        true,
    ),
    (
        "extra_float_digits",
        "1",
        Rule::OneOf(&["1", "2", "3"]),
        false,
    ),
    (
        "idle_in_transaction_session_timeout",
        "0",
        Rule::Time,
        false,
    ),
    ("in_hot_standby", "off", Rule::Fixed, true),
    ("integer_datetimes", "on", Rule::Fixed, true),
    (
        "intervalstyle",
        "postgres",
        Rule::OneOf(&["postgres"]),
        true,
    ),
    ("is_superuser", "on", Rule::Fixed, true),
    ("jit", "off", Rule::Any, false),
    ("lock_timeout", "0", Rule::Time, false),
    ("max_identifier_length", "63", Rule::Fixed, false),
    ("max_index_keys", "32", Rule::Fixed, false),
    ("plan_cache_mode", "auto", Rule::Any, false),
    ("role", "none", Rule::Fixed, false),
    ("row_security", "on", Rule::Any, false),
    ("search_path", "\"$user\", public", Rule::Any, false),
    ("server_encoding", "UTF8", Rule::Fixed, true),
    ("server_version", SERVER_VERSION, Rule::Fixed, true),
    ("server_version_num", SERVER_VERSION_NUM, Rule::Fixed, false),
    ("session_authorization", "", Rule::Fixed, true),
    ("session_replication_role", "origin", Rule::Any, false),
    (
        "standard_conforming_strings",
        "on",
        Rule::OneOf(&["on", "true", "1", "yes"]),
        true,
    ),
    ("statement_timeout", "0", Rule::Time, false),
    ("synchronize_seqscans", "on", Rule::Any, false),
    ("synchronous_commit", "on", Rule::Any, false),
    ("tcp_keepalives_idle", "0", Rule::Any, false),
    ("transaction_isolation", "read committed", Rule::Any, false),
    ("transaction_read_only", "off", Rule::Any, false),
    ("work_mem", "4MB", Rule::Any, false),
    ("xmlbinary", "base64", Rule::Any, false),
    ("xmloption", "content", Rule::Any, false),
];

/// Settings whose names have a point belong to who uses them; so many are kept.
const OWN_MAX: usize = 256;

/// The settings of a session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    set: BTreeMap<String, String>,
    user: String,
    /// What the connection was given of sequences, which no rollback takes back.
    numbers: Arc<SessionNumbers>,
    locks: Arc<SessionLocks>,
    notices: Arc<SessionNotices>,
}

/// The name as clients have always been told it.
fn told_as(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

impl Settings {
    pub(crate) fn new(user: &str) -> Self {
        Self {
            set: BTreeMap::new(),
            user: user.to_owned(),
            numbers: Arc::default(),
            locks: Arc::default(),
            notices: Arc::default(),
        }
    }

    /// The advisory locks of the connection.
    pub(crate) fn locks(&self) -> &Arc<SessionLocks> {
        &self.locks
    }

    /// What the connection is to be told.
    pub(crate) fn notices(&self) -> &SessionNotices {
        &self.notices
    }

    fn known(name: &str) -> Option<(&'static str, &'static str, Rule, bool)> {
        let inert = || INERT.iter().find(|(known, ..)| *known == name);
        let known = SETTINGS.iter().find(|(known, ..)| *known == name);
        let known = known.copied();
        known.or_else(|| inert().map(|(name, default, rule)| (*name, *default, *rule, false)))
    }

    /// The value of a setting; `None` = there is none of this name here.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        if let Some(value) = self.set.get(&name) {
            return Some(value.clone());
        }
        if name == "session_authorization" {
            return Some(self.user.clone());
        }
        Self::known(&name).map(|(_, default, ..)| default.to_owned())
    }

    /// All settings with their values.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let inert = INERT.iter().map(|(name, ..)| (*name).to_owned());
        let known = SETTINGS.iter().map(|(name, ..)| (*name).to_owned());
        let known = known.chain(inert);
        let own = self.set.keys().filter(|name| name.contains('.')).cloned();
        let names = known.chain(own);
        names
            .map(|name| {
                let value = self.get(&name).unwrap_or_default();
                (name, value)
            })
            .collect()
    }

    /// Sets one, or gives it its default again. Returns what clients are to be told.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<Option<(String, String)>, Refused> {
        let name = name.to_lowercase();
        let Some((_, _, rule, is_told)) = Self::known(&name) else {
            if !name.contains('.') {
                return Err(Refused::new(
                    UNKNOWN_SETTING,
                    format!("unrecognized configuration parameter \"{name}\""),
                ));
            }
            match value {
                Some(_) if self.set.len() >= OWN_MAX => {
                    return Err(Refused::new(
                        crate::sqlstate::LIMIT,
                        format!("a session has at most {OWN_MAX} settings of its own"),
                    ));
                }
                Some(value) => self.set.insert(name, value.to_owned()),
                None => self.set.remove(&name),
            };
            return Ok(None);
        };
        let Some(value) = value else {
            self.set.remove(&name);
            let value = self.get(&name).unwrap_or_default();
            return Ok(is_told.then(|| (told_as(&name).to_owned(), value)));
        };
        if matches!(name.as_str(), "role" | "session_authorization") {
            return self.keep_role(&name, value);
        }
        let wrong = || {
            Refused::new(
                INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{name}\": \"{value}\""),
            )
        };
        let kept = match rule {
            Rule::Any => value.to_owned(),
            Rule::Switch => match value.trim().to_lowercase().as_str() {
                "on" | "true" | "yes" | "1" | "t" | "y" => "on".to_owned(),
                "off" | "false" | "no" | "0" | "f" | "n" | "of" => "off".to_owned(),
                _ => {
                    let message = format!("parameter \"{name}\" requires a Boolean value");
                    return Err(Refused::new(INVALID_PARAMETER_VALUE, message));
                }
            },
            Rule::OneOf(values) => {
                if !values
                    .iter()
                    .any(|known| value.trim().eq_ignore_ascii_case(known))
                {
                    let known = values.first().copied().unwrap_or_default();
                    let mut refused = wrong();
                    refused.message = format!("{}; it is always {known}", refused.message);
                    return Err(refused);
                }
                match name.as_str() {
                    "datestyle" => Self::known(&name).map_or("", |known| known.1).to_owned(),
                    _ => value.to_lowercase(),
                }
            }
            Rule::Encoding => {
                let letters = value.chars().filter(char::is_ascii_alphanumeric);
                let name: String = letters.collect::<String>().to_lowercase();
                if !matches!(name.as_str(), "utf8" | "unicode") {
                    let mut refused = wrong();
                    refused.message = format!("{}; it is always UTF8", refused.message);
                    return Err(refused);
                }
                "UTF8".to_owned()
            }
            Rule::Fixed => {
                return Err(Refused::new(
                    "55P02",
                    format!("parameter \"{name}\" cannot be changed"),
                ));
            }
            Rule::Time => {
                let ms = milliseconds(value).ok_or_else(wrong)?;
                if ms == 0 {
                    "0".to_owned()
                } else {
                    format!("{ms}ms")
                }
            }
        };
        let told = is_told.then(|| (told_as(&name).to_owned(), kept.clone()));
        self.set.insert(name, kept);
        Ok(told)
    }

    /// A session is that of whoever has logged in; to say so again changes nothing.
    fn keep_role(&self, name: &str, role: &str) -> Result<Option<(String, String)>, Refused> {
        let is_none = name == "role" && role.eq_ignore_ascii_case("none");
        if is_none || role.eq_ignore_ascii_case("default") || role == self.user {
            return Ok(None);
        }
        let what = match name {
            "role" => "SET ROLE",
            _ => "SET SESSION AUTHORIZATION",
        };
        let message = format!(
            "{what} to another role than \"{}\" is not supported",
            self.user
        );
        Err(Refused::unsupported(message)
            .hint("A session is that of the role that has logged in: connect as the other one."))
    }

    /// Gives all their defaults again.
    pub(crate) fn reset(&mut self) {
        self.set.clear();
    }

    /// Keeps what the server knows of a session and nobody sets.
    pub(crate) fn note(&mut self, name: &str, value: &str) {
        self.set.insert(name.to_owned(), value.to_owned());
    }

    /// What a client is told when it connects.
    pub(crate) fn told(&self) -> Vec<(String, String)> {
        let told = SETTINGS.iter().filter(|(_, _, _, is_told)| *is_told);
        told.map(|(name, ..)| {
            let value = self.get(name).unwrap_or_default();
            (told_as(name).to_owned(), value)
        })
        .collect()
    }

    /// The connection, as statements ask for it.
    pub(crate) fn client(&self, process: i32, zone: Option<&str>) -> Client {
        let mut settings: BTreeMap<String, String> = self.all().into_iter().collect();
        settings.insert("timezone".to_owned(), zone.unwrap_or("UTC").to_owned());
        Client {
            user: self.user.clone(),
            process,
            settings,
            numbers: Arc::clone(&self.numbers),
            notices: Arc::clone(&self.notices),
            locks: Arc::clone(&self.locks),
        }
    }

    /// How long a statement may take; `None` = as long as any.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        let ms = milliseconds(self.set.get("statement_timeout")?)?;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Whether the session only reads.
    pub(crate) fn is_read_only(&self) -> bool {
        let value = self.set.get("default_transaction_read_only");
        value.is_some_and(|value| matches!(value.as_str(), "on" | "true" | "1" | "yes"))
    }

    /// What transactions are like that do not say it.
    pub(crate) fn transaction_mode(&self) -> Mode {
        let level = self.set.get("default_transaction_isolation");
        Mode {
            is_strict: level.map(|level| {
                let level = level.to_lowercase();
                level.contains("serializable") || level.contains("repeatable")
            }),
            is_read_only: self.is_read_only().then_some(true),
        }
    }

    /// SET SESSION CHARACTERISTICS.
    pub(crate) fn set_mode(&mut self, mode: Mode) -> Result<(), Refused> {
        if let Some(is_strict) = mode.is_strict {
            let level = if is_strict { STRICT } else { READ_COMMITTED };
            self.set("default_transaction_isolation", Some(level))?;
        }
        if let Some(is_read_only) = mode.is_read_only {
            let value = if is_read_only { "on" } else { "off" };
            self.set("default_transaction_read_only", Some(value))?;
        }
        Ok(())
    }

    /// Shows what the transaction at hand is like; `None` = there is none.
    pub(crate) fn note_level(&mut self, mode: Option<Mode>) {
        let mode = mode.unwrap_or_default();
        for (name, value) in [
            (
                "transaction_isolation",
                mode.is_strict.unwrap_or(false).then_some(STRICT),
            ),
            (
                "transaction_read_only",
                mode.is_read_only.unwrap_or(false).then_some("on"),
            ),
        ] {
            match value {
                Some(value) => drop(self.set.insert(name.to_owned(), value.to_owned())),
                None => drop(self.set.remove(name)),
            }
        }
    }

    /// The first schema of the search path that is not the user's own; `None` = the default one.
    pub(crate) fn schema(&self) -> Option<String> {
        let path = self.set.get("search_path")?;
        let first = path.split(',').map(str::trim).find_map(|name| {
            let bare = name
                .strip_prefix('"')
                .and_then(|name| name.strip_suffix('"'));
            let name = bare.map_or_else(|| name.to_lowercase(), |bare| bare.replace("\"\"", "\""));
            let is_own = matches!(name.as_str(), "" | "$user" | "pg_catalog");
            (!is_own).then_some(name)
        })?;
        (first != "public").then_some(first)
    }
}

/// `1000`, `1500ms`, `30s`, `5min`.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits);
    let number: u64 = digits.parse().ok()?;
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "us" => return Some(number / 1000),
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number
        .checked_mul(factor)
        .filter(|ms| i32::try_from(*ms).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_answers_is_refused_and_the_rest_is_kept() {
        let mut settings = Settings::new("ada");
        let told = settings.set("Application_Name", Some("x")).unwrap();
        assert_eq!(told, Some(("application_name".to_owned(), "x".to_owned())));
        assert_eq!(settings.set("work_mem", Some("64MB")).unwrap(), None);
        assert_eq!(settings.get("WORK_MEM").as_deref(), Some("64MB"));
        assert_eq!(
            settings
                .set("client_encoding", Some("'UTF-8'".trim_matches('\'')))
                .unwrap()
                .unwrap()
                .1,
            "UTF8"
        );
        for (name, value, code) in [
            ("client_encoding", "LATIN1", "22023"),
            ("datestyle", "German", "22023"),
            ("server_version", "16", "55P02"),
            ("statement_timeout", "soon", "22023"),
            ("no_such_setting", "1", "42704"),
        ] {
            assert_eq!(
                settings.set(name, Some(value)).unwrap_err().code,
                code,
                "{name}"
            );
        }
        // A script for PostgreSQL ended at `SET enable_seqscan = off`.
        assert_eq!(settings.get("enable_seqscan").as_deref(), Some("on"));
        settings.set("enable_seqscan", Some("FALSE")).unwrap();
        assert_eq!(settings.get("enable_seqscan").as_deref(), Some("off"));
        let refused = settings.set("enable_seqscan", Some("maybe")).unwrap_err();
        assert_eq!(refused.code, "22023");
        settings
            .set("max_parallel_workers_per_gather", Some("0"))
            .unwrap();
        settings.set("my.own", Some("1")).unwrap();
        assert_eq!(settings.get("my.own").as_deref(), Some("1"));
        assert_eq!(
            settings.get("session_authorization").as_deref(),
            Some("ada")
        );
        settings.reset();
        assert_eq!(settings.get("my.own"), None);
    }

    /// Scripts of `pg_dump` say who they are.
    #[test]
    fn a_session_stays_that_of_who_has_logged_in() {
        let mut settings = Settings::new("ada");
        for (name, value) in [
            ("role", Some("none")),
            ("role", Some("ada")),
            ("role", None),
            ("session_authorization", Some("ada")),
            ("session_authorization", Some("default")),
            ("session_authorization", None),
        ] {
            settings.set(name, value).unwrap();
        }
        for name in ["role", "session_authorization"] {
            let refused = settings.set(name, Some("bob")).unwrap_err();
            assert_eq!(refused.code, "0A000", "{name}");
        }
        assert_eq!(settings.get("role").as_deref(), Some("none"));
    }

    #[test]
    fn times_and_paths_are_read() {
        let mut settings = Settings::new("ada");
        for (value, ms) in [
            ("0", None),
            ("1500", Some(1500)),
            ("2s", Some(2000)),
            ("1min", Some(60_000)),
        ] {
            settings.set("statement_timeout", Some(value)).unwrap();
            assert_eq!(
                settings.statement_timeout(),
                ms.map(Duration::from_millis),
                "{value}"
            );
        }
        for (path, schema) in [
            ("public", None),
            ("\"$user\", public", None),
            ("Raw, public", Some("raw")),
            ("\"Raw\"", Some("Raw")),
            ("", None),
        ] {
            settings.set("search_path", Some(path)).unwrap();
            assert_eq!(settings.schema().as_deref(), schema, "{path}");
        }
    }
}
