//! Principals, and the check of their privileges.

use std::sync::Arc;

use nilometer_engine::Engine;

use super::privilege::{Place, Privilege};
use super::store;
use crate::error::Error;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Principal(Who);

#[derive(Debug, Clone)]
enum Who {
    /// Nobody was asked who they are.
    Anyone,
    /// It was not found out who it is.
    Nobody,
    /// Whoever has the token.
    Token,
    /// Whoever comes first to a store that has no administrator yet.
    Founder,
    User {
        name: Arc<str>,
        engine: Arc<Engine>,
    },
}

impl Principal {
    /// For a program that embeds the store, and where nobody is asked who they are: everything is allowed.
    pub fn anyone() -> Self {
        Self(Who::Anyone)
    }

    /// For whom nobody has asked who they are, though they should have been: nothing is allowed.
    pub fn nobody() -> Self {
        Self(Who::Nobody)
    }

    pub(super) fn of_token() -> Self {
        Self(Who::Token)
    }

    pub(super) fn founder() -> Self {
        Self(Who::Founder)
    }

    pub(super) fn of_user(engine: &Arc<Engine>, name: &str) -> Self {
        Self(Who::User {
            name: Arc::from(name),
            engine: Arc::clone(engine),
        })
    }

    /// Who made something that is kept, as it is kept; an empty name is that of whom nobody asked who they were. One who is no
    /// user any more is an error.
    pub fn of_owner(engine: &Arc<Engine>, name: &str) -> Result<Self, Error> {
        if name.is_empty() {
            return Ok(Self::anyone());
        }
        if store::user(&engine.snapshot(), name).is_none() {
            return Err(Error::UnknownUser {
                name: name.to_owned(),
                nearest: None,
            });
        }
        Ok(Self::of_user(engine, name))
    }

    /// The name of the user; `None` = it is none.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Who::User { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether everything is allowed. Asked of the store each time, so that what was taken away is gone at once.
    pub fn is_admin(&self) -> bool {
        match &self.0 {
            Who::Anyone | Who::Token => true,
            Who::Nobody | Who::Founder => false,
            Who::User { name, engine } => {
                store::user(&engine.snapshot(), name).is_some_and(|user| user.is_admin)
            }
        }
    }

    /// Whether there is no administrator yet, so that all this one may do is to make the first.
    pub fn is_founder(&self) -> bool {
        matches!(self.0, Who::Founder)
    }

    /// Refuses what somebody may not do.
    pub fn check(&self, privilege: Privilege, place: Place<'_>) -> Result<(), Error> {
        if self.is_admin() {
            return Ok(());
        }
        match &self.0 {
            Who::User { name, engine }
                if store::granted(&engine.snapshot(), name, place).has(privilege) =>
            {
                Ok(())
            }
            Who::User { name, .. } => Err(Error::NotAllowed {
                user: name.to_string(),
                action: match privilege {
                    Privilege::Read => "read from",
                    Privilege::Write => "write to",
                    Privilege::Define => "change",
                    Privilege::Administer => "administer",
                },
                database: place.database.to_owned(),
            }),
            Who::Nobody => Err(Error::NoCredentials),
            _ => Err(Error::NoAdministrator),
        }
    }

    /// Refuses whoever is no administrator.
    pub fn check_admin(&self) -> Result<(), Error> {
        if self.is_admin() {
            return Ok(());
        }
        Err(match &self.0 {
            Who::User { name, .. } => Error::NotAdministrator {
                user: name.to_string(),
            },
            Who::Nobody => Error::NoCredentials,
            _ => Error::NoAdministrator,
        })
    }

    /// Refuses whoever may do nothing yet: what is shown to all users is not shown to them.
    pub fn check_known(&self) -> Result<(), Error> {
        match &self.0 {
            Who::Nobody => Err(Error::NoCredentials),
            Who::Founder => Err(Error::NoAdministrator),
            Who::Anyone | Who::Token | Who::User { .. } => Ok(()),
        }
    }

    /// Whether anything of a database may be read or written.
    pub fn sees(&self, database: &str) -> bool {
        match &self.0 {
            _ if self.is_admin() => true,
            Who::User { name, engine } => {
                let grants = store::grants(&engine.snapshot(), name);
                grants.iter().any(|grant| grant.database == database)
            }
            _ => false,
        }
    }
}
