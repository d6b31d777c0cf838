//! Roles as `PostgreSQL` has them: users with options, and errors that name what a role has here.
//!
//! Does: hold the options of a role, read a verifier that a client made. Does not: keep roles (`store.rs` does), or read a
//! statement (a language does).
//!
//! Next: docs/decisions/0037-roles-in-sql.md.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Class, Fault};

/// Rounds of a verifier that a client made. More would let one login with a sent password take a thread for seconds.
const ROUNDS_MAX: u32 = 1_000_000;

/// Bytes of a key of SCRAM-SHA-256.
const KEY_BYTES: usize = 32;

/// What is said of a role; `None` = it stays as it is, or as it is without being said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// How it is known.
    pub password: Option<NewPassword>,
    /// Whether everything is allowed.
    pub is_admin: Option<bool>,
    /// Whether it may log in.
    pub can_login: Option<bool>,
}

impl RoleOptions {
    /// Whether they are about the password alone, which users change of themselves.
    pub(super) fn are_password_only(&self) -> bool {
        self.password.is_some() && self.is_admin.is_none() && self.can_login.is_none()
    }
}

/// A new password.
#[derive(Clone, PartialEq, Eq)]
pub enum NewPassword {
    /// As it is typed.
    Text(String),
    /// Its verifier of SCRAM-SHA-256, which a client made so that the password never leaves it.
    Scram(String),
    /// None: nobody logs in with one.
    Nothing,
}

// By hand: neither a password nor its verifier is to stand in a log.
impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Scram(_) => "Scram",
            Self::Nothing => "Nothing",
        })
    }
}

impl NewPassword {
    /// Of the text behind `PASSWORD`, which is a verifier if it looks like one. `PostgreSQL` takes an empty text for none.
    pub fn of(text: &str) -> Result<Self, RoleError> {
        let is_md5 = text.strip_prefix("md5").is_some_and(|digits| {
            digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit())
        });
        if is_md5 {
            return Err(RoleError::Md5);
        }
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        if text.starts_with("SCRAM-SHA-256$") {
            check_verifier(text)?;
            return Ok(Self::Scram(text.to_owned()));
        }
        Ok(Self::Text(text.to_owned()))
    }
}

/// Refuses a verifier by which nobody could be known.
fn check_verifier(text: &str) -> Result<(), RoleError> {
    let read = || {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (rounds_salt, keys) = rest.split_once('$')?;
        let (rounds, salt) = rounds_salt.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let rounds: u32 = rounds.parse().ok()?;
        let is_right = !STANDARD.decode(salt).ok()?.is_empty()
            && STANDARD.decode(stored_key).ok()?.len() == KEY_BYTES
            && STANDARD.decode(server_key).ok()?.len() == KEY_BYTES
            && rounds > 0;
        is_right.then_some(rounds)
    };
    match read() {
        None => Err(RoleError::Verifier),
        Some(rounds) if rounds > ROUNDS_MAX => Err(RoleError::Rounds { rounds }),
        Some(_) => Ok(()),
    }
}

/// What cannot be done with a role.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoleError {
    /// A verifier of a kind that no login here uses.
    #[error(
        "a password of the form md5... is not kept: send the password itself, or its verifier SCRAM-SHA-256$..., which psql's \\password makes"
    )]
    Md5,
    /// A text that begins as a verifier and is none.
    #[error(
        "this is no verifier of a password: it is SCRAM-SHA-256$ROUNDS:SALT$STORED_KEY:SERVER_KEY, with salt and keys in base64"
    )]
    Verifier,
    /// A verifier that costs too much.
    #[error(
        "a verifier has at most {ROUNDS_MAX} rounds, and this one {rounds}: let the client make it with fewer"
    )]
    Rounds {
        /// As many as it has.
        rounds: u32,
    },
    /// The role is there already.
    #[error("role \"{name}\" already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// A name with a meaning of its own.
    #[error(
        "role name \"{name}\" is reserved: public, none, nilometer and names that begin with pg_ have a meaning of their own"
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// Whoever asks would not be there any more.
    #[error("the current user \"{name}\" cannot be {what}; log in as another administrator")]
    Own {
        /// The name.
        name: String,
        /// What was to be done.
        what: &'static str,
    },
    /// What the role has made runs with its privileges.
    #[error(
        "role \"{name}\" cannot be dropped: it owns {owned}; drop these first, or make them again as another role"
    )]
    Owns {
        /// The name.
        name: String,
        /// What it has made.
        owned: String,
    },
    /// A privilege that is held in a wider place too.
    #[error(
        "role \"{name}\" has this privilege for {place} as a whole, so that it cannot be taken away here alone; revoke it there and grant what is to stay"
    )]
    GrantedWider {
        /// The role.
        name: String,
        /// Where it has it.
        place: String,
    },
}

impl RoleError {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Exists { .. } | Self::Owns { .. } | Self::GrantedWider { .. } => Class::Conflict,
            _ => Class::BadRequest,
        }
    }

    /// What is wrong.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Md5 | Self::GrantedWider { .. } => Fault::Unsupported,
            Self::Verifier | Self::Rounds { .. } => Fault::InvalidParameter,
            Self::Exists { .. } => Fault::ObjectExists,
            Self::Reserved { .. } => Fault::InvalidName,
            Self::Own { .. } | Self::Owns { .. } => Fault::InUse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of RFC 7677's example: user `user`, password `pencil`.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn a_verifier_is_told_from_a_password() {
        assert_eq!(
            NewPassword::of(PENCIL).unwrap(),
            NewPassword::Scram(PENCIL.to_owned())
        );
        assert_eq!(NewPassword::of("").unwrap(), NewPassword::Nothing);
        for password in ["pencil", "md5", "md5x", "scram-sha-256$"] {
            let text = NewPassword::Text(password.to_owned());
            assert_eq!(NewPassword::of(password).unwrap(), text);
        }
        let md5 = format!("md5{}", "0a".repeat(16));
        assert!(matches!(NewPassword::of(&md5), Err(RoleError::Md5)));
    }

    #[test]
    fn a_verifier_that_lets_nobody_in_is_refused() {
        for (from, to) in [
            ("4096", "0"),
            ("4096", "-1"),
            ("4096", "x"),
            ("W22Z", "?22Z"),
            ("W22ZaJ0SNY7soEsUEjb6gQ==", ""),
            ("WG5d8oPm", ""),
            (":wfPL", ""),
        ] {
            let wrong = NewPassword::of(&PENCIL.replace(from, to));
            assert!(matches!(wrong, Err(RoleError::Verifier)), "{to}");
        }
        let slow = NewPassword::of(&PENCIL.replace("4096", "1000001"));
        assert!(matches!(slow, Err(RoleError::Rounds { rounds: 1_000_001 })));
        assert!(NewPassword::of(&PENCIL.replace("4096", "1000000")).is_ok());
    }

    #[test]
    fn passwords_are_in_no_debug_text() {
        let options = RoleOptions {
            password: Some(NewPassword::Text("pencil".to_owned())),
            ..RoleOptions::default()
        };
        assert!(!format!("{options:?}").contains("pencil"));
    }
}
