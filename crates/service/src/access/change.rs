//! Changes of users and of what they may do.

use std::sync::Arc;

use nilometer_engine::{Engine, Error as EngineError, nearest};

use super::password::Verifiers;
use super::principal::Principal;
use super::privilege::{Place, Privilege, Privileges};
use super::store::{self, Grant, User};
use crate::define::{Part, find_database};
use crate::error::Error;

/// Bytes of a user's name.
const NAME_BYTES_MAX: usize = 255;

/// A change of users or grants.
#[derive(Clone)]
pub enum UserChange {
    /// A new user.
    Create {
        /// The name.
        name: String,
        /// The password.
        password: String,
        /// Whether everything is allowed.
        is_admin: bool,
    },
    /// Another password. A user may change their own.
    SetPassword {
        /// The name.
        name: String,
        /// The new password.
        password: String,
    },
    /// Everything is allowed from now on, or no more.
    SetAdmin {
        /// The name.
        name: String,
        /// Which.
        is_admin: bool,
    },
    /// No user any more.
    Drop {
        /// The name.
        name: String,
    },
    /// More privileges.
    Grant {
        /// The name.
        user: String,
        /// What, and where.
        grant: Grant,
    },
    /// These privileges and no others in that place.
    GrantOnly {
        /// The name.
        user: String,
        /// What, and where.
        grant: Grant,
    },
    /// Fewer privileges.
    Revoke {
        /// The name.
        user: String,
        /// What, and where.
        grant: Grant,
    },
}

// By hand: passwords are not to stand in a log.
impl std::fmt::Debug for UserChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, name) = match self {
            Self::Create { name, .. } => ("Create", name),
            Self::SetPassword { name, .. } => ("SetPassword", name),
            Self::SetAdmin { name, .. } => ("SetAdmin", name),
            Self::Drop { name } => ("Drop", name),
            Self::Grant { user, .. } => ("Grant", user),
            Self::GrantOnly { user, .. } => ("GrantOnly", user),
            Self::Revoke { user, .. } => ("Revoke", user),
        };
        f.debug_struct(what)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

pub(super) fn run(
    engine: &Arc<Engine>,
    principal: &Principal,
    change: UserChange,
) -> Result<(), Error> {
    check(principal, &change)?;
    match change {
        UserChange::Create {
            name,
            password,
            is_admin,
        } => create(engine, name, &password, is_admin),
        UserChange::SetPassword { name, password } => {
            let user = existing(engine, &name)?;
            Ok(store::put_user(engine, &user, &Verifiers::of(&password)?)?)
        }
        UserChange::SetAdmin { name, is_admin } => {
            let user = existing(engine, &name)?;
            let verifiers = store::verifiers(&engine.snapshot(), &name);
            let verifiers = verifiers.ok_or_else(|| unknown(engine, &name))?;
            Ok(store::put_user(
                engine,
                &User { is_admin, ..user },
                &verifiers,
            )?)
        }
        UserChange::Drop { name } => {
            existing(engine, &name)?;
            Ok(store::remove_user(engine, &name)?)
        }
        UserChange::Grant { user, grant } => {
            let before = granted(engine, &user, grant.place())?;
            let after = before.with(grant.privileges);
            Ok(store::put_grant(engine, &user, grant.place(), after)?)
        }
        UserChange::GrantOnly { user, grant } => {
            granted(engine, &user, grant.place())?;
            let only = grant.privileges;
            Ok(store::put_grant(engine, &user, grant.place(), only)?)
        }
        UserChange::Revoke { user, grant } => {
            let before = granted(engine, &user, grant.place())?;
            let after = before.without(grant.privileges);
            Ok(store::put_grant(engine, &user, grant.place(), after)?)
        }
    }
}

/// Administrators change everything, users their own password, and whoever founds a store makes its first administrator.
fn check(principal: &Principal, change: &UserChange) -> Result<(), Error> {
    match change {
        UserChange::Create { is_admin: true, .. } if principal.is_founder() => Ok(()),
        UserChange::SetPassword { name, .. } if principal.name() == Some(name) => Ok(()),
        UserChange::Grant { grant, .. }
        | UserChange::GrantOnly { grant, .. }
        | UserChange::Revoke { grant, .. } => {
            principal.check(Privilege::Administer, Place::database(&grant.database))
        }
        _ => principal.check_admin(),
    }
}

fn create(engine: &Arc<Engine>, name: String, password: &str, is_admin: bool) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(':') {
        return Err(Error::UserName { name });
    }
    if let Some(user) = store::user(&engine.snapshot(), &name) {
        // As InfluxDB has it, so that scripts may run twice: the same user again is no error.
        let verifiers = store::verifiers(&engine.snapshot(), &name);
        let is_same = user.is_admin == is_admin
            && verifiers.is_some_and(|verifiers| verifiers.check(password));
        if is_same {
            return Ok(());
        }
        return Err(EngineError::ExistsAlready {
            what: "user",
            name,
            place: "this store".to_owned(),
        }
        .into());
    }
    let verifiers = Verifiers::of(password)?;
    Ok(store::put_user(
        engine,
        &User { name, is_admin },
        &verifiers,
    )?)
}

fn existing(engine: &Arc<Engine>, name: &str) -> Result<User, Error> {
    store::user(&engine.snapshot(), name).ok_or_else(|| unknown(engine, name))
}

fn unknown(engine: &Arc<Engine>, name: &str) -> Error {
    let known = store::users(&engine.snapshot()).into_iter();
    Error::UnknownUser {
        name: name.to_owned(),
        nearest: nearest(name, known.map(|user| user.name)),
    }
}

fn granted(engine: &Arc<Engine>, user: &str, place: Place<'_>) -> Result<Privileges, Error> {
    existing(engine, user)?;
    let snapshot = engine.snapshot();
    find_database(&snapshot, place.database).map_err(|source| Error::Define {
        part: Part::Name,
        source,
    })?;
    Ok(store::granted_at(&snapshot, user, place))
}
