//! Verifiers of passwords: what is stored of a password, and no password.
//!
//! Argon2id for whoever sends the password itself, SCRAM-SHA-256 for protocols in which it never leaves the client.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use ring::rand::{SecureRandom, SystemRandom};

use super::role::NewPassword;
use super::verifier::{knows, scram};
use crate::error::Error;

/// A longer one is some file, and would be hashed for long.
const BYTES_MAX: usize = 1024;

const SALT_BYTES: usize = 16;

/// Stands before the verifiers of a user who may not log in, as in `/etc/shadow`: nothing is equal to what they are then.
const LOCK: char = '!';

/// What is stored of a password.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verifiers {
    /// A PHC text of Argon2id; empty = the password itself was never here.
    pub(super) argon2: String,
    /// As `PostgreSQL` stores it: `SCRAM-SHA-256$ROUNDS:SALT$STORED_KEY:SERVER_KEY`; empty = there is no password.
    pub(super) scram: String,
}

impl Verifiers {
    /// Of a password as it is given. May take some ten milliseconds.
    pub(super) fn of_new(password: &NewPassword) -> Result<Self, Error> {
        match password {
            NewPassword::Text(text) => Self::of(text),
            NewPassword::Scram(verifier) => Ok(Self {
                argon2: String::new(),
                scram: verifier.clone(),
            }),
            NewPassword::Nothing => Ok(Self::default()),
        }
    }

    /// Whether their user may log in, if the password is right.
    pub(super) fn can_login(&self) -> bool {
        !self.scram.starts_with(LOCK)
    }

    /// The same, of a user who may log in or who may not.
    pub(super) fn with_login(&self, can_login: bool) -> Self {
        let set = |verifier: &str| {
            let bare = verifier.trim_start_matches(LOCK);
            if can_login {
                bare.to_owned()
            } else {
                format!("{LOCK}{bare}")
            }
        };
        Self {
            argon2: set(&self.argon2),
            scram: set(&self.scram),
        }
    }

    /// The verifier of SCRAM, if somebody can be known by it.
    pub(super) fn usable_scram(&self) -> Option<&str> {
        let is_usable = self.scram.starts_with("SCRAM-SHA-256$");
        is_usable.then_some(self.scram.as_str())
    }

    /// Of a password. Takes some ten milliseconds.
    pub(super) fn of(password: &str) -> Result<Self, Error> {
        if password.is_empty() {
            return Err(Error::Password { reason: "is empty" });
        }
        if password.len() > BYTES_MAX {
            return Err(Error::Password {
                reason: "has more than 1024 bytes",
            });
        }
        let no_random = || Error::Password {
            reason: "cannot be stored: the system gives no random numbers",
        };
        let mut salts = [0; 2 * SALT_BYTES];
        let random = SystemRandom::new();
        random.fill(&mut salts).map_err(|_| no_random())?;
        let (salt, scram_salt) = salts.split_at(SALT_BYTES);
        let argon2 = Argon2::default()
            .hash_password_with_salt(password.as_bytes(), salt)
            .map_err(|_| Error::Password {
                reason: "cannot be hashed",
            })?;
        Ok(Self {
            argon2: argon2.to_string(),
            scram: scram(password, scram_salt),
        })
    }

    /// Whether a password is the one. Takes some ten milliseconds.
    pub(super) fn check(&self, password: &str) -> bool {
        if password.len() > BYTES_MAX {
            return Self::check_nobody(password);
        }
        let Ok(hash) = PasswordHash::new(&self.argon2) else {
            // Both, so that it takes no less than for others.
            let _ = Self::check_nobody(password);
            return self.argon2.is_empty() && knows(&self.scram, password);
        };
        #[cfg(test)]
        runs::add(password);
        Argon2::default()
            .verify_password(password.as_bytes(), &hash)
            .is_ok()
    }

    /// Takes as long as [`Self::check`], so that the time does not tell who is there.
    pub(super) fn check_nobody(password: &str) -> bool {
        #[cfg(test)]
        runs::add(password);
        let mut unused = [0; 32];
        let password = password
            .as_bytes()
            .get(..BYTES_MAX)
            .unwrap_or(password.as_bytes());
        let _ = Argon2::default().hash_password_into(password, &[0; SALT_BYTES], &mut unused);
        false
    }
}

/// How often each password was hashed to be checked.
#[cfg(test)]
pub(super) mod runs {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    static RUNS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

    pub(super) fn add(password: &str) {
        *RUNS.lock().unwrap().entry(password.to_owned()).or_default() += 1;
    }

    pub(crate) fn of(password: &str) -> u32 {
        RUNS.lock().unwrap().get(password).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_right_and_nothing_else_is() {
        let verifiers = Verifiers::of("p\u{e4}ssword 1").unwrap();
        assert!(verifiers.argon2.starts_with("$argon2id$"));
        assert!(verifiers.check("p\u{e4}ssword 1"));
        for wrong in [
            "",
            "password 1",
            "p\u{e4}ssword 1 ",
            "p\u{e4}ssword",
            &"x".repeat(5000),
        ] {
            assert!(!verifiers.check(wrong), "{wrong}");
            assert!(!Verifiers::check_nobody(wrong));
        }
        assert_ne!(Verifiers::of("p\u{e4}ssword 1").unwrap(), verifiers);
        assert!(Verifiers::of("").is_err());
        assert!(Verifiers::of(&"x".repeat(1025)).is_err());
    }
}
