//! Users, their passwords, and what each may do.
//!
//! Does: keep users and grants as rows of two relations (in the log, the backups and the simulation like everything else),
//! find out who somebody is by what they show ([`Access::login`]), say whether they may ([`Principal::check`]). Does not: find
//! what a request shows (each surface has places of its own for that), or read a statement about users; a language makes a
//! [`UserChange`] of it.
//!
//! Next: `store.rs` for the rows, `password.rs` for verifiers, `privilege.rs` for privileges.

mod change;
mod device_secret;
mod follow;
mod jwt;
mod owned;
mod password;
mod principal;
mod privilege;
mod role;
mod scram;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod verified;
mod verifier;

use std::sync::Arc;

use nilometer_engine::{Engine, Snapshot};

use crate::error::Error;
use crate::executor::Executor;
use crate::language::LanguageContext;

pub use change::UserChange;
pub use device_secret::{DeviceKey, DeviceSecret, RevokedKeys};
pub(crate) use follow::Followed;
pub use jwt::JwtSecret;
pub use principal::Principal;
pub use privilege::{Place, Privilege, Privileges};
pub use role::{NewPassword, RoleError, RoleOptions};
pub use scram::Scram;
pub use store::{Grant, INTERNAL_DATABASE, User};
#[cfg(test)]
pub(crate) use store::{grants, put_grant};
pub(crate) use store::{internal, internal_relation, rows as internal_rows};
pub use token::Token;

use jwt::is_like_jwt;
use password::Verifiers;
use verified::Verified;

/// Checks of passwords that run at one time: each takes 19 MiB and some ten milliseconds.
const CHECKS_MAX: usize = 2;

/// What somebody shows to be let in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// The name of a user, and the password. The access token is a password of any name.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// The access token, or a signed one that names a user.
    Token(Vec<u8>),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Password { user, .. } => f.debug_struct("Password").field("user", user).finish(),
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

/// Who may enter a store, and what they may do there.
#[derive(Debug)]
pub struct Access {
    engine: Arc<Engine>,
    token: Option<Token>,
    jwt: Option<JwtSecret>,
    asks: bool,
    verified: Verified,
    nobody: scram::Nobody,
    checks: tokio::sync::Semaphore,
    executor: Arc<dyn Executor>,
}

impl Access {
    /// `asks` = everybody has to say who they are; with a token they have to anyway. A service makes its own.
    #[doc(hidden)]
    pub fn new(
        context: &LanguageContext,
        (token, jwt): (Option<Token>, Option<JwtSecret>),
        asks: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(&context.engine),
            executor: Arc::clone(&context.executor),
            asks: asks || token.is_some(),
            token,
            jwt,
            verified: Verified::default(),
            nobody: scram::Nobody::default(),
            checks: tokio::sync::Semaphore::new(CHECKS_MAX),
        })
    }

    /// Whether everybody has to say who they are.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The user of this name, for who has no means to show a password: a protocol without a login, whose clients are all one
    /// user. `None` = whoever comes where nobody is asked, and nobody where everybody is.
    pub fn standing_for(&self, user: Option<&str>) -> Result<Principal, Error> {
        let Some(user) = user else {
            return Ok(if self.asks {
                Principal::nobody()
            } else {
                Principal::anyone()
            });
        };
        if !users_of(&self.engine.snapshot())
            .iter()
            .any(|known| known.name == user)
        {
            return Err(Error::UnknownUser {
                name: user.to_owned(),
                nearest: None,
            });
        }
        Ok(Principal::of_user(&self.engine, user))
    }

    /// Whether nobody gets in without being known; a store without an administrator is open to whoever comes first.
    pub fn is_guarded(&self) -> bool {
        self.token.is_some() || (self.asks && self.has_admin())
    }

    /// Finds out who shows these. Several are looked at because a request has several places for them; the first that is
    /// right counts. Nothing shown is let in only where nobody is asked, or where nobody could be: a store without a token
    /// and without an administrator lets its first one be made.
    pub async fn login(self: &Arc<Self>, shown: &[Credentials]) -> Result<Principal, Error> {
        if !self.asks {
            return Ok(Principal::anyone());
        }
        let secrets: Vec<&[u8]> = shown.iter().map(secret).collect();
        if let Some(token) = &self.token
            && token.check(&secrets).is_ok()
        {
            return Ok(Principal::of_token());
        }
        for credentials in shown {
            let Credentials::Password { user, password } = credentials else {
                continue;
            };
            if self.is_right(user, password).await? {
                return Ok(Principal::of_user(&self.engine, user));
            }
        }
        let signed = self.signed(shown);
        if let Some(Ok(user)) = signed {
            return Ok(Principal::of_user(&self.engine, &user));
        }
        if shown.is_empty() && self.token.is_none() && !self.has_admin() {
            return Ok(Principal::founder());
        }
        for credentials in shown {
            if let Credentials::Password { user, .. } = credentials {
                tracing::warn!(user, "a login failed: no such user, or another password");
            }
        }
        if let Some(Err(error)) = signed {
            tracing::warn!(%error, "a login by a signed token failed");
            return Err(error);
        }
        Err(match (shown.is_empty(), &self.token) {
            (true, _) => Error::NoCredentials,
            (false, Some(_)) if users_of(&self.engine.snapshot()).is_empty() => Error::WrongToken,
            (false, _) => Error::WrongPassword,
        })
    }

    /// Begins to find out whether somebody knows the password of a user, for protocols in which it never leaves the client.
    /// The access token is the password of every name that is no user.
    pub fn scram(self: &Arc<Self>, user: &str) -> Scram {
        let (verifier, is_user) = match store::verifiers(&self.engine.snapshot(), user) {
            Some(verifiers) => (verifiers.usable_scram().map(str::to_owned), true),
            None => (self.token.as_ref().map(|it| it.scram().to_owned()), false),
        };
        let verifier = verifier.unwrap_or_else(|| self.nobody.verifier(user));
        let lets_in = if is_user {
            Principal::of_user(&self.engine, user)
        } else {
            Principal::of_token()
        };
        Scram::new(&verifier, user, lets_in)
    }

    /// The user of the first signed token among these, who must be there; `None` = nobody shows one.
    fn signed(&self, shown: &[Credentials]) -> Option<Result<String, Error>> {
        let secret = self.jwt.as_ref()?;
        let token = shown.iter().find_map(|credentials| match credentials {
            Credentials::Token(token) if is_like_jwt(token) => Some(token),
            _ => None,
        })?;
        let user = secret.user(token, self.engine.wall_ns());
        Some(
            user.and_then(|user| match store::user(&self.engine.snapshot(), &user) {
                Some(known) if known.can_login => Ok(user),
                Some(_) => Err(Error::BearerToken {
                    reason: "the user may not log in",
                }),
                None => Err(Error::BearerToken {
                    reason: "user not found",
                }),
            }),
        )
    }

    /// Whether a password is that of a user. The first right one costs some ten milliseconds, as every wrong one does,
    /// whether the user is there or not.
    async fn is_right(self: &Arc<Self>, user: &str, password: &str) -> Result<bool, Error> {
        let found = store::verifiers(&self.engine.snapshot(), user);
        if let Some(verifiers) = &found
            && self.verified.knows(user, password, verifiers)
        {
            return Ok(true);
        }
        // It is never closed.
        let _turn = self.checks.acquire().await;
        let (verifiers, typed) = (found.clone(), password.to_owned());
        let check = move || match verifiers {
            Some(verifiers) => verifiers.check(&typed),
            None => Verifiers::check_nobody(&typed),
        };
        let checked = self.executor.block(check).await;
        let is_right = checked.map_err(|_| Error::Panicked {
            what: "check of a password",
        })?;
        if is_right && let Some(verifiers) = &found {
            self.verified.remember(user, password, verifiers);
        }
        Ok(is_right)
    }

    fn has_admin(&self) -> bool {
        let users = users_of(&self.engine.snapshot());
        users.iter().any(|user| user.is_admin)
    }
}

/// Carries a change of users and grants out; durable when this returns. Blocks.
pub fn change_users(
    engine: &Arc<Engine>,
    principal: &Principal,
    change: UserChange,
) -> Result<(), Error> {
    change::run(engine, principal, change)
}

/// All users, by name.
pub fn users_of(snapshot: &Snapshot) -> Vec<User> {
    store::users(snapshot)
}

/// What a user may do in a place; `None` = there is no such user.
pub fn privileges_of(snapshot: &Snapshot, user: &str, place: Place<'_>) -> Option<Privileges> {
    let user = store::user(snapshot, user)?;
    Some(if user.is_admin {
        Privileges::ALL
    } else {
        store::granted(snapshot, &user.name, place)
    })
}

/// What was granted to a user, by place; `None` = there is no such user.
pub fn grants_of(snapshot: &Snapshot, user: &str) -> Option<Vec<Grant>> {
    store::user(snapshot, user)?;
    Some(store::grants(snapshot, user))
}

fn secret(credentials: &Credentials) -> &[u8] {
    match credentials {
        Credentials::Password { password, .. } => password.as_bytes(),
        Credentials::Token(token) => token,
    }
}
