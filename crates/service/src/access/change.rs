//! Changes of users and of what they may do.
//!
//! Does: carry them out one after the other, so that none is lost to another that read the same row. Does not: read a
//! statement. Next: `store.rs` for the rows, `owned.rs` for what else has a user's name.

use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::{Engine, Error as EngineError, nearest};

use super::owned;
use super::password::Verifiers;
use super::principal::Principal;
use super::privilege::{Place, Privilege, Privileges};
use super::role::{NewPassword, RoleError, RoleOptions};
use super::store::{self, Grant, Granted, User};
use crate::define::{Part, find_database};
use crate::error::Error;

/// Bytes of a user's name.
const NAME_BYTES_MAX: usize = 255;

/// Held while a change reads what there is and writes what there is to be.
static CHANGES: Mutex<()> = Mutex::new(());

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
    /// A new role; one of the name is an error.
    CreateRole {
        /// The name.
        name: String,
        /// What it is like. What is not said is not so.
        options: RoleOptions,
    },
    /// Other options of a role.
    AlterRole {
        /// The name.
        name: String,
        /// Those that change.
        options: RoleOptions,
    },
    /// Another name, with all that the role has.
    RenameRole {
        /// The name.
        name: String,
        /// The new one.
        to: String,
    },
    /// None of these roles any more.
    DropRoles {
        /// Their names.
        names: Vec<String>,
        /// Whether they may be missing.
        if_exists: bool,
    },
    /// More privileges for several roles in several places, or for none of them.
    GrantAll {
        /// The roles.
        users: Vec<String>,
        /// What, and where.
        grants: Vec<Grant>,
    },
    /// Fewer privileges of several roles in several places; one that stays because it was granted for more is an error.
    RevokeAll {
        /// The roles.
        users: Vec<String>,
        /// What, and where.
        grants: Vec<Grant>,
        /// Whether it is taken away for what is in these places too.
        with_parts: bool,
    },
}

fn first(names: &[String]) -> &str {
    names.first().map_or("", String::as_str)
}

// By hand: passwords are not to stand in a log.
impl std::fmt::Debug for UserChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, name) = match self {
            Self::Create { name, .. } => ("Create", name.as_str()),
            Self::SetPassword { name, .. } => ("SetPassword", name.as_str()),
            Self::SetAdmin { name, .. } => ("SetAdmin", name.as_str()),
            Self::Drop { name } => ("Drop", name.as_str()),
            Self::Grant { user, .. } => ("Grant", user.as_str()),
            Self::GrantOnly { user, .. } => ("GrantOnly", user.as_str()),
            Self::Revoke { user, .. } => ("Revoke", user.as_str()),
            Self::CreateRole { name, .. } => ("CreateRole", name.as_str()),
            Self::AlterRole { name, .. } => ("AlterRole", name.as_str()),
            Self::RenameRole { name, .. } => ("RenameRole", name.as_str()),
            Self::DropRoles { names, .. } => ("DropRoles", first(names)),
            Self::GrantAll { users, .. } => ("GrantAll", first(users)),
            Self::RevokeAll { users, .. } => ("RevokeAll", first(users)),
        };
        f.debug_struct(what)
            .field("name", &name)
            .finish_non_exhaustive()
    }
}

pub(super) fn run(
    engine: &Arc<Engine>,
    principal: &Principal,
    change: UserChange,
) -> Result<(), Error> {
    check(principal, &change)?;
    let _alone = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
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
            Ok(store::remove_users(engine, &[name])?)
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
        UserChange::CreateRole { name, options } => create_role(engine, name, &options),
        UserChange::AlterRole { name, options } => alter_role(engine, principal, &name, &options),
        UserChange::RenameRole { name, to } => rename_role(engine, principal, &name, &to),
        UserChange::DropRoles { names, if_exists } => {
            drop_roles(engine, principal, names, if_exists)
        }
        UserChange::GrantAll { users, grants } => grant_all(engine, &users, &grants),
        UserChange::RevokeAll {
            users,
            grants,
            with_parts,
        } => revoke_all(engine, &users, &grants, with_parts),
    }
}

/// Administrators change everything, users their own password, and whoever founds a store makes its first administrator.
fn check(principal: &Principal, change: &UserChange) -> Result<(), Error> {
    match change {
        UserChange::Create { is_admin: true, .. } if principal.is_founder() => Ok(()),
        UserChange::CreateRole { options, .. } if principal.is_founder() && founds(options) => {
            Ok(())
        }
        UserChange::SetPassword { name, .. } if principal.name() == Some(name) => Ok(()),
        UserChange::AlterRole { name, options }
            if principal.name() == Some(name) && options.are_password_only() =>
        {
            Ok(())
        }
        UserChange::Grant { grant, .. }
        | UserChange::GrantOnly { grant, .. }
        | UserChange::Revoke { grant, .. } => {
            principal.check(Privilege::Administer, Place::database(&grant.database))
        }
        _ => principal.check_admin(),
    }
}

/// Whether these are an administrator who can log in afterwards: nobody else can make another one.
fn founds(options: &RoleOptions) -> bool {
    let has_password = matches!(
        options.password,
        Some(NewPassword::Text(_) | NewPassword::Scram(_))
    );
    options.is_admin == Some(true) && options.can_login == Some(true) && has_password
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(':') {
        let name = name.to_owned();
        return Err(Error::UserName { name });
    }
    Ok(())
}

/// What SQL cannot call a role, because the name means something else there.
fn check_role_name(name: &str) -> Result<(), Error> {
    check_name(name)?;
    // `nilometer` is the owner of all tables in the catalogue.
    if ["public", "none", "nilometer"].contains(&name) || name.starts_with("pg_") {
        let name = name.to_owned();
        return Err(RoleError::Reserved { name }.into());
    }
    Ok(())
}

fn create(engine: &Arc<Engine>, name: String, password: &str, is_admin: bool) -> Result<(), Error> {
    check_name(&name)?;
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
        &User {
            name,
            is_admin,
            can_login: true,
        },
        &verifiers,
    )?)
}

fn must_be_new(engine: &Arc<Engine>, name: &str) -> Result<(), Error> {
    match store::user(&engine.snapshot(), name) {
        None => Ok(()),
        Some(User { name, .. }) => Err(RoleError::Exists { name }.into()),
    }
}

fn create_role(engine: &Arc<Engine>, name: String, options: &RoleOptions) -> Result<(), Error> {
    check_role_name(&name)?;
    must_be_new(engine, &name)?;
    let password = options.password.as_ref().unwrap_or(&NewPassword::Nothing);
    let verifiers = Verifiers::of_new(password)?;
    let user = User {
        name,
        is_admin: options.is_admin.unwrap_or(false),
        can_login: options.can_login.unwrap_or(false),
    };
    Ok(store::put_user(engine, &user, &verifiers)?)
}

fn alter_role(
    engine: &Arc<Engine>,
    principal: &Principal,
    name: &str,
    options: &RoleOptions,
) -> Result<(), Error> {
    let before = existing(engine, name)?;
    // So that there always is an administrator: without one, whoever comes first makes themselves the next.
    if principal.name() == Some(name) && before.is_admin {
        let what = match (options.is_admin, options.can_login) {
            (Some(false), _) => Some("made no administrator"),
            (_, Some(false)) => Some("kept from logging in"),
            _ => None,
        };
        if let Some(what) = what {
            let name = name.to_owned();
            return Err(RoleError::Own { name, what }.into());
        }
    }
    let verifiers = match &options.password {
        Some(password) => Verifiers::of_new(password)?,
        None => store::verifiers(&engine.snapshot(), name).ok_or_else(|| unknown(engine, name))?,
    };
    let user = User {
        is_admin: options.is_admin.unwrap_or(before.is_admin),
        can_login: options.can_login.unwrap_or(before.can_login),
        ..before
    };
    Ok(store::put_user(engine, &user, &verifiers)?)
}

fn rename_role(
    engine: &Arc<Engine>,
    principal: &Principal,
    name: &str,
    to: &str,
) -> Result<(), Error> {
    let user = existing(engine, name)?;
    check_role_name(to)?;
    must_be_new(engine, to)?;
    refuse_own(principal, name, "renamed")?;
    let owned = owned::renamed(&engine.snapshot(), name, to);
    Ok(store::rename_user(engine, &user, to, owned)?)
}

fn refuse_own(principal: &Principal, name: &str, what: &'static str) -> Result<(), Error> {
    if principal.name() != Some(name) {
        return Ok(());
    }
    let name = name.to_owned();
    Err(RoleError::Own { name, what }.into())
}

fn drop_roles(
    engine: &Arc<Engine>,
    principal: &Principal,
    mut names: Vec<String>,
    if_exists: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    if if_exists {
        names.retain(|name| store::user(&snapshot, name).is_some());
    }
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    for name in &names {
        existing(engine, name)?;
        refuse_own(principal, name, "dropped")?;
        if let Some(owned) = owned::named(&snapshot, name) {
            let name = name.clone();
            return Err(RoleError::Owns { name, owned }.into());
        }
    }
    Ok(store::remove_users(engine, &names)?)
}

fn grant_all(engine: &Arc<Engine>, users: &[String], grants: &[Grant]) -> Result<(), Error> {
    let mut all: Vec<Granted<'_>> = Vec::new();
    for user in users {
        for grant in grants {
            let before = granted(engine, user, grant.place())?;
            all.push((user, grant.place(), before.with(grant.privileges)));
        }
    }
    Ok(store::put_grants(engine, &all)?)
}

fn revoke_all(
    engine: &Arc<Engine>,
    users: &[String],
    grants: &[Grant],
    with_parts: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let mut all: Vec<(&str, Grant)> = Vec::new();
    for user in users {
        existing(engine, user)?;
        let own = store::grants(&snapshot, user);
        for revoked in grants {
            let place = revoked.place();
            granted(engine, user, place)?;
            for grant in &own {
                let is_part = with_parts && place.has(grant.place());
                if grant.place() == place || is_part {
                    let left = grant.privileges.without(revoked.privileges);
                    let grant = grant.clone();
                    all.push((
                        user,
                        Grant {
                            privileges: left,
                            ..grant
                        },
                    ));
                } else if grant.place().has(place) && grant.privileges.meet(revoked.privileges) {
                    return Err(RoleError::GrantedWider {
                        name: user.clone(),
                        place: grant.place().to_string(),
                    }
                    .into());
                }
            }
        }
    }
    let all: Vec<Granted<'_>> = all
        .iter()
        .map(|(user, grant)| (*user, grant.place(), grant.privileges))
        .collect();
    Ok(store::put_grants(engine, &all)?)
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
