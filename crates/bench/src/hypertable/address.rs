//! Connection strings of PostgreSQL: `host=... port=...` and `postgresql://user@host:port/database`.
//!
//! Does: read those parts that this program uses, refuse the others by name. Does not: look into the environment or a password file.

use crate::{Error, Result};

const PORT: u16 = 5432;

/// Where a server is, and as whom it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
}

impl Address {
    pub(super) fn new(host: &str, port: u16, database: &str) -> Self {
        Self {
            host: host.to_owned(),
            port,
            user: "postgres".to_owned(),
            password: String::new(),
            database: database.to_owned(),
        }
    }

    /// Reads a connection string.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &'static str| Error::Address {
            url: text.to_owned(),
            why,
        };
        let mut address = Self::new("127.0.0.1", PORT, "");
        let url = ["postgresql://", "postgres://"]
            .into_iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match url {
            Some(url) => address.read_url(url).map_err(wrong)?,
            None => address.read_words(text).map_err(wrong)?,
        }
        if address.database.is_empty() {
            address.database.clone_from(&address.user);
        }
        Ok(address)
    }

    fn read_words(&mut self, text: &str) -> std::result::Result<(), &'static str> {
        for word in text.split_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or("it is words such as host=127.0.0.1 port=5432 user=postgres dbname=bench")?;
            self.set(name, value.trim_matches('\'').to_owned())?;
        }
        Ok(())
    }

    fn read_url(&mut self, url: &str) -> std::result::Result<(), &'static str> {
        let (url, words) = url.split_once('?').unwrap_or((url, ""));
        let (place, database) = url.split_once('/').unwrap_or((url, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let port = place
            .rsplit_once(':')
            .filter(|(_, port)| !port.ends_with(']'));
        let (host, port) = port.unwrap_or((place, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for (name, value) in [
            ("user", user),
            ("password", password),
            ("host", host),
            ("port", port),
            ("dbname", database),
        ] {
            if !value.is_empty() {
                self.set(name, unescaped(value)?)?;
            }
        }
        for word in words.split('&').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            self.set(name, unescaped(value)?)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: String) -> std::result::Result<(), &'static str> {
        match name {
            "host" | "hostaddr" => self.host = value,
            "port" => self.port = value.parse().map_err(|_| "its port is no number")?,
            "user" => self.user = value,
            "password" => self.password = value,
            "dbname" => self.database = value,
            "sslmode" if ["disable", "allow", "prefer"].contains(&value.as_str()) => {}
            "sslmode" => return Err("connections of this suite have no TLS; say sslmode=disable"),
            _ => return Err("it has words beside host, port, user, password, dbname and sslmode"),
        }
        Ok(())
    }
}

/// Text with its `%20` resolved.
fn unescaped(text: &str) -> std::result::Result<String, &'static str> {
    const WRONG: &str = "a % in it is not followed by two digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digits = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
            let digits = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
            bytes.push(digits.ok_or(WRONG)?);
            rest = rest.get(2..).unwrap_or_default();
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let expected = Address {
            host: "db.example".to_owned(),
            port: 5433,
            user: "ann".to_owned(),
            password: "a b".to_owned(),
            database: "bench".to_owned(),
        };
        for text in [
            "postgres://ann:a%20b@db.example:5433/bench?sslmode=disable",
            "postgresql://db.example:5433/bench?user=ann&password=a%20b",
        ] {
            assert_eq!(Address::parse(text).unwrap(), expected, "{text}");
        }
        let words = Address::parse("host=::1 user=ann").unwrap();
        assert_eq!((words.host.as_str(), words.port), ("::1", 5432));
        assert_eq!(words.database, "ann");
        assert_eq!(Address::parse("postgres://[::1]:7/d").unwrap().port, 7);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (text, why) in [
            ("host", "it is words such as"),
            ("port=x", "its port is no number"),
            ("sslmode=require", "have no TLS"),
            ("target_session_attrs=any", "it has words beside"),
            ("postgres://a%2@b", "a % in it"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
