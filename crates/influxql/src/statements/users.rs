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

/// What is revoked. To change the database is a part of `ALL` alone: whoever may not read any more, or not write, has no `ALL`.
fn revoked(grant: &ast::Grant) -> Grant {
    let whole = whole(grant);
    let changes = Privileges::ALL.without(Privileges::READ.with(Privileges::WRITE));
    Grant {
        privileges: whole.privileges.with(changes),
        ..whole
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
        // A user has one privilege in a database there: the one that was granted last.
        Statement::Grant(grant) => UserChange::GrantOnly {
            user: grant.user.clone(),
            grant: whole(grant),
        },
        Statement::Revoke(grant) => UserChange::Revoke {
            user: grant.user.clone(),
            grant: revoked(grant),
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
        UserChange::GrantOnly { grant, .. } | UserChange::Revoke { grant, .. } => {
            grant.database.clone()
        }
        _ => String::new(),
    };
    let done = change_users(&context.engine, &context.principal, change);
    // As clients know it.
    done.map_err(|error| match error {
        ServiceError::UnknownUser { .. } => Error::UnknownUser.into(),
        ServiceError::UserName { name } if name.is_empty() => Error::NoUserName.into(),
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
    // Other languages grant more than one of them, and less than all.
    let names = |privileges: Privileges| {
        let has = |privilege| privileges.has(privilege);
        match (has(Privilege::Read), has(Privilege::Write)) {
            _ if privileges == Privileges::ALL => vec!["ALL PRIVILEGES"],
            (true, true) => vec!["READ", "WRITE"],
            (true, false) => vec!["READ"],
            (false, true) => vec!["WRITE"],
            (false, false) => vec!["NO PRIVILEGES"],
        }
    };
    let rows = whole.flat_map(|grant| {
        let names = names(grant.privileges).into_iter();
        names.map(|name| (&grant.database, name))
    });
    let rows: Vec<(&String, &str)> = rows.collect();
    let table = Table::default()
        .texts("database", rows.iter().map(|(database, _)| database))
        .texts("privilege", rows.iter().map(|(_, name)| name));
    Ok(vec![table.set()])
}
