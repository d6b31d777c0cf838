//! Users and what each may do.
//!
//! Does: turn statements about users into changes of the service, show users and grants. Does not: keep users (the service
//! does).

use nilometer_engine::Error as EngineError;
use nilometer_influxql_syntax::ast::{self, Statement};
use nilometer_service::{
    Error as ServiceError, Grant, Privilege, Privileges, Set, UserChange, change_users, grants_of,
    users_of,
};

use super::context::Context;
use super::error::Error;
use super::sets::Table;

/// What is granted: this language grants whole databases only.
fn whole(grant: &ast::Grant) -> Grant {
    Grant {
        database: grant.database.clone(),
        schema: None,
        table: None,
        privileges: match grant.privilege {
            ast::Privilege::Read => Privileges::READ,
            ast::Privilege::Write => Privileges::WRITE,
            ast::Privilege::All => Privileges::ALL,
        },
    }
}

/// The change that a statement is; `None` = it is not about users.
fn change_of(statement: &Statement) -> Option<UserChange> {
    Some(match statement {
        Statement::CreateUser(create) => UserChange::Create {
            name: create.name.clone(),
            password: create.password.clone(),
            is_admin: create.admin,
        },
        Statement::DropUser(name) => UserChange::Drop { name: name.clone() },
        Statement::SetPassword(set) => UserChange::SetPassword {
            name: set.user.clone(),
            password: set.password.clone(),
        },
        Statement::GrantAdmin(name) => UserChange::SetAdmin {
            name: name.clone(),
            is_admin: true,
        },
        Statement::RevokeAdmin(name) => UserChange::SetAdmin {
            name: name.clone(),
            is_admin: false,
        },
        Statement::Grant(grant) => UserChange::Grant {
            user: grant.user.clone(),
            grant: whole(grant),
        },
        Statement::Revoke(grant) => UserChange::Revoke {
            user: grant.user.clone(),
            grant: whole(grant),
        },
        _ => return None,
    })
}

/// Carries a statement about users out; false = it is none.
pub(super) fn run(context: &Context, statement: &Statement) -> Result<bool, ServiceError> {
    let Some(change) = change_of(statement) else {
        return Ok(false);
    };
    let database = match &change {
        UserChange::Grant { grant, .. } | UserChange::Revoke { grant, .. } => {
            grant.database.clone()
        }
        _ => String::new(),
    };
    let done = change_users(&context.engine, &context.principal, change);
    // As clients know it.
    done.map_err(|error| match error {
        ServiceError::UnknownUser { .. } => Error::UnknownUser.into(),
        ServiceError::Engine(EngineError::ExistsAlready { .. }) => Error::UserExists.into(),
        ServiceError::Define { .. } => Error::UnknownDatabase(database).into(),
        other => other,
    })?;
    Ok(true)
}

/// `SHOW USERS`
pub(super) fn users(context: &Context) -> Vec<Set> {
    let users = users_of(&context.engine.snapshot());
    let table = Table::default().texts("user", users.iter().map(|user| &user.name));
    let admin = users.iter().map(|user| user.is_admin).collect();
    vec![table.flags("admin", admin).set()]
}

/// `SHOW GRANTS FOR user`: those of whole databases, which are all that this language grants.
pub(super) fn grants(context: &Context, user: &str) -> Result<Vec<Set>, Error> {
    let grants = grants_of(&context.engine.snapshot(), user).ok_or(Error::UnknownUser)?;
    let whole = grants.iter().filter(|grant| grant.schema.is_none());
    let names = |privileges: Privileges| {
        let has = |privilege| privileges.has(privilege);
        match (has(Privilege::Read), has(Privilege::Write)) {
            (true, true) => "ALL PRIVILEGES",
            (true, false) => "READ",
            (false, true) => "WRITE",
            (false, false) => "NO PRIVILEGES",
        }
    };
    let table = Table::default()
        .texts("database", whole.clone().map(|grant| &grant.database))
        .texts("privilege", whole.map(|grant| names(grant.privileges)));
    Ok(vec![table.set()])
}
