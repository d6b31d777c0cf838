//! Statements about roles, carried out.
//!
//! Does: find the roles and the places that they name, and hand the change to the store of users. Does not: know what a
//! statement means (`statement/change/role.rs` does), or decide who may (`nilometer_service::change_users` does).

use std::sync::Arc;

use nilometer_engine::{Snapshot, nearest};
use nilometer_service::define::{self, DefineError};
use nilometer_service::{
    Class, Error as ServiceError, Fault, Grant, Privileges, RoleOptions, UserChange, change_users,
    privileges_of, users_of,
};

use super::Sql;
use crate::error::{Error, Position};
use crate::execution::blocking;
use crate::statement::name::{NameScope, Path, TableName};
use crate::statement::{RoleName, RoleStatement, Target, WrittenGrant, WrittenOptions};
use crate::tables::catalogue::ReadContext;

/// The role that tables belong to in the catalogue, where users log in.
const OWNER: &str = "nilometer";

impl Sql {
    pub(super) async fn change_role(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        statement: RoleStatement,
    ) -> Result<(), Error> {
        let snapshot = &reading.snapshot;
        let (change, at) = match statement {
            RoleStatement::Create { name, options } => {
                let at = name.position;
                let options = checked(options, false)?;
                let name = name.text;
                (UserChange::CreateRole { name, options }, at)
            }
            RoleStatement::Alter { role, options } => {
                let (name, at) = self.named(role)?;
                // What others are is not told to who may not change them.
                if self.asker().name() != Some(name.as_str()) {
                    self.check_admin()?;
                }
                let mut all = users_of(snapshot).into_iter();
                let is_admin = all.any(|user| user.name == name && user.is_admin);
                let options = checked(options, is_admin)?;
                (UserChange::AlterRole { name, options }, at)
            }
            RoleStatement::Rename { role, to } => {
                let (name, at) = self.named(role)?;
                (UserChange::RenameRole { name, to: to.text }, at)
            }
            RoleStatement::Drop { roles, if_exists } => {
                let mut names = Vec::new();
                let mut start = None;
                for role in roles {
                    let (name, at) = self.named(role)?;
                    start = start.or(at);
                    names.push(name);
                }
                (UserChange::DropRoles { names, if_exists }, start)
            }
            RoleStatement::Grant(grant) => {
                self.check_admin()?;
                match self.grant(snapshot, place, &grant)? {
                    Some(change) => (change, None),
                    None => return Ok(()),
                }
            }
            RoleStatement::Owner(role) => return self.check_owner(snapshot, role),
        };
        let engine = Arc::clone(&self.shared().engine);
        let principal = self.asker().clone();
        blocking(&self.shared().executor, move || {
            change_users(&engine, &principal, change).map_err(|error| placed(error, at))
        })
        .await
    }

    fn check_admin(&self) -> Result<(), Error> {
        let checked = self.asker().check_admin();
        checked.map_err(|denied| Error::Denied(Box::new(denied)))
    }

    /// A role's name, and where it stands.
    fn named(&self, role: RoleName) -> Result<(String, Option<Position>), Error> {
        match role {
            RoleName::Named(name) => Ok((name.text, name.position)),
            RoleName::Current(at) => match self.asker().name() {
                Some(name) => Ok((name.to_owned(), at)),
                None => Err(Error::Definition {
                    message:
                        "nobody has logged in, so that there is no current user; name the role"
                            .to_owned(),
                    fault: Fault::UnknownName,
                    position: at,
                }),
            },
            RoleName::Public(at) => Err(Error::Definition {
                message: "role name \"public\" is reserved: everybody is no role".to_owned(),
                fault: Fault::InvalidName,
                position: at,
            }),
        }
    }

    /// The change that GRANT and REVOKE are; `None` = it is as they say already.
    fn grant(
        &self,
        snapshot: &Snapshot,
        scope: &NameScope,
        written: &WrittenGrant,
    ) -> Result<Option<UserChange>, Error> {
        let mut users = Vec::new();
        let mut is_public = false;
        for role in written.roles.clone() {
            if matches!(role, RoleName::Public(_)) {
                is_public = true;
                continue;
            }
            let (name, at) = self.named(role)?;
            check_role(snapshot, &name, at)?;
            users.push(name);
        }
        users.sort();
        users.dedup();
        let mut places = places(snapshot, scope, &written.target)?;
        places.sort();
        places.dedup();
        if is_public {
            check_public(written)?;
        }
        if written.is_revoke {
            check_revoke(snapshot, written, (&users, &places))?;
        }
        let privileges = written.meant.privileges;
        if written.is_default {
            check_default(snapshot, written, (&users, &places))?;
            return Ok(None);
        }
        if privileges.is_empty() || users.is_empty() || places.is_empty() {
            return Ok(None);
        }
        if written.meant.is_all && !written.is_revoke {
            self.notice(
                "ALL of a database or a schema is the privilege to read, write, create, change and drop everything in it",
            );
        }
        let to_define = Privileges::ALL.without(Privileges::READ.with(Privileges::WRITE));
        let grants = places.into_iter().map(|place| Grant {
            // Whoever may not read any more, or not write, has no ALL.
            privileges: if written.is_revoke {
                privileges.with(to_define)
            } else {
                privileges
            },
            ..place
        });
        let grants: Vec<Grant> = grants.collect();
        Ok(Some(if written.is_revoke {
            let with_parts = !matches!(written.target, Target::Tables(_) | Target::Sequences(_));
            UserChange::RevokeAll {
                users,
                grants,
                with_parts,
            }
        } else {
            UserChange::GrantAll { users, grants }
        }))
    }

    fn notice(&self, text: &str) {
        if let Some(client) = &self.client {
            client.notices.add(text.to_owned());
        }
    }

    /// Refuses an owner who is not the one that everything has, or has all privileges anyway.
    fn check_owner(&self, snapshot: &Snapshot, role: RoleName) -> Result<(), Error> {
        self.check_admin()?;
        let users = users_of(snapshot);
        if users.is_empty() {
            // Where nobody is known everything belongs to whoever asks.
            return Ok(());
        }
        if matches!(role, RoleName::Current(_)) && self.asker().name().is_none() {
            return Ok(());
        }
        let (name, at) = self.named(role)?;
        if name == OWNER {
            return Ok(());
        }
        check_role(snapshot, &name, at)?;
        if users.iter().any(|user| user.name == name && user.is_admin) {
            return Ok(());
        }
        Err(Error::Definition {
            message: format!(
                "tables, schemas and databases belong to no role, and \"{name}\" would have no privilege by owning one: GRANT ALL ON DATABASE, SCHEMA or TABLE to it"
            ),
            fault: Fault::Unsupported,
            position: at,
        })
    }
}

/// The options, unless they promise one that only administrators have here.
fn checked(written: WrittenOptions, is_admin: bool) -> Result<RoleOptions, Error> {
    let is_admin = written.options.is_admin.unwrap_or(is_admin);
    match written.of_admins {
        Some((option, position)) if !is_admin => Err(Error::Definition {
            message: format!(
                "{option} without SUPERUSER is not supported: administrators create databases and roles; write SUPERUSER, or leave it out"
            ),
            fault: Fault::Unsupported,
            position,
        }),
        _ => Ok(written.options),
    }
}

fn check_role(snapshot: &Snapshot, name: &str, position: Option<Position>) -> Result<(), Error> {
    let users = users_of(snapshot);
    if users.iter().any(|user| user.name == name) {
        return Ok(());
    }
    let nearest = nearest(name, users.into_iter().map(|user| user.name));
    Err(unknown(name.to_owned(), nearest, position))
}

fn unknown(name: String, nearest: Option<String>, position: Option<Position>) -> Error {
    Error::UnknownName {
        what: "role",
        name,
        nearest,
        position,
    }
}

/// The places that a target is, with no privileges yet.
fn places(snapshot: &Snapshot, scope: &NameScope, target: &Target) -> Result<Vec<Grant>, Error> {
    let grant = |database: String, schema, table| Grant {
        database,
        schema,
        table,
        privileges: Privileges::default(),
    };
    let schema = |path: &Path| {
        let at = path.start();
        let (database, name) = path.clone().schema(scope)?;
        let found = define::find_schema(snapshot, &database, &name.text);
        found.map_err(|missing| Error::of_name(missing, at))?;
        Ok::<_, Error>((database, name.text))
    };
    let mut places = Vec::new();
    match target {
        Target::Databases(names) => {
            for name in names {
                let found = define::find_database(snapshot, &name.text);
                found.map_err(|missing| Error::of_name(missing, name.position))?;
                places.push(grant(name.text.clone(), None, None));
            }
        }
        Target::Schemas(paths) | Target::TablesIn(paths) => {
            for path in paths {
                let (database, name) = schema(path)?;
                places.push(grant(database, Some(name), None));
            }
        }
        Target::Tables(paths) | Target::Sequences(paths) => {
            let is_sequence = matches!(target, Target::Sequences(_));
            for path in paths {
                let name = path.clone().table(scope)?;
                check_there(snapshot, &name, is_sequence)?;
                places.push(grant(name.database, Some(name.schema), Some(name.table)));
            }
        }
        Target::SequencesIn(paths) => {
            for path in paths {
                let (database, name) = schema(path)?;
                for sequence in define::sequences(snapshot, &database, &name) {
                    let schema = Some(name.clone());
                    places.push(grant(database.clone(), schema, Some(sequence.name)));
                }
            }
        }
        Target::AllTables => places.push(grant(scope.database.clone(), None, None)),
        Target::Everybodys => {}
    }
    Ok(places)
}

fn check_there(snapshot: &Snapshot, name: &TableName, is_sequence: bool) -> Result<(), Error> {
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    let sequences = define::sequences(snapshot, database, schema);
    // PostgreSQL takes a sequence for a table too.
    let is_there = sequences.iter().any(|it| it.name == *table)
        || !is_sequence
            && (snapshot.table(database, schema, table).is_some()
                || define::find_relation(snapshot, database, schema, table).is_some()
                || define::view(snapshot, database, schema, table).is_some());
    if is_there {
        return Ok(());
    }
    let missing = if is_sequence {
        DefineError::Unknown {
            what: define::Object::Sequence,
            name: table.clone(),
            nearest: nearest(table, sequences.into_iter().map(|it| it.name)),
        }
    } else {
        let name = define::TableName {
            database: database.clone(),
            schema: schema.clone(),
            table: table.clone(),
        };
        define::unknown_table(snapshot, &name)
    };
    Err(Error::of_name(missing, name.position))
}

/// Everybody has no privileges here but those that nobody can lose.
fn check_public(written: &WrittenGrant) -> Result<(), Error> {
    let privileges = written.meant.privileges;
    if !written.is_revoke {
        return if privileges.is_empty() {
            Ok(())
        } else {
            Err(unsupported(
                "GRANT ... TO PUBLIC",
                "grant to each role that is to have it",
            ))
        };
    }
    let is_everybodys = written.meant.is_all || written.meant.everybodys.is_some();
    match &written.target {
        Target::Databases(_) if is_everybodys => Err(connect()),
        Target::Everybodys => Err(execute()),
        // Of a schema everybody's right alone lets nobody read or write anything.
        _ => Ok(()),
    }
}

fn connect() -> Error {
    unsupported(
        "REVOKE CONNECT",
        "whoever may log in may connect to every database, and reads and writes nothing there without a privilege; take the login away with ALTER ROLE ... NOLOGIN",
    )
}

fn execute() -> Error {
    unsupported(
        "REVOKE EXECUTE or USAGE of functions, types and languages",
        "everybody may use them; a function reads no more than who calls it may",
    )
}

/// Refuses to take from a role what everybody has, where the role would go on having it.
fn check_revoke(
    snapshot: &Snapshot,
    written: &WrittenGrant,
    (users, places): (&[String], &[Grant]),
) -> Result<(), Error> {
    if users.is_empty() || written.meant.everybodys.is_none() || written.meant.is_all {
        return Ok(());
    }
    match &written.target {
        Target::Databases(_) => Err(connect()),
        Target::Everybodys => Err(execute()),
        _ => {
            let holds = |user: &String, place: &Grant| {
                let held = privileges_of(snapshot, user, place.place());
                held.is_some_and(|held| !held.is_empty())
            };
            let held = users
                .iter()
                .any(|user| places.iter().any(|place| holds(user, place)));
            if held {
                return Err(unsupported(
                    "REVOKE USAGE ON SCHEMA from a role that has privileges in it",
                    "take these away: REVOKE ALL ON ALL TABLES IN SCHEMA s FROM role",
                ));
            }
            Ok(())
        }
    }
}

/// Refuses default privileges that are not so already: a grant of a schema holds for what is made in it later, and there is
/// no other way.
fn check_default(
    snapshot: &Snapshot,
    written: &WrittenGrant,
    (users, places): (&[String], &[Grant]),
) -> Result<(), Error> {
    let wanted = written.meant.privileges;
    for user in users {
        for place in places {
            let held = privileges_of(snapshot, user, place.place()).unwrap_or_default();
            let is_so = if written.is_revoke {
                !held.meet(wanted)
            } else {
                held.hold(wanted)
            };
            if !is_so {
                return Err(unsupported(
                    "ALTER DEFAULT PRIVILEGES that are not so already",
                    "a grant holds for the tables that are made later too: GRANT or REVOKE ... ON ALL TABLES IN SCHEMA s",
                ));
            }
        }
    }
    Ok(())
}

fn unsupported(statement: &str, instead: &'static str) -> Error {
    Error::Unsupported {
        statement: statement.to_owned(),
        instead,
    }
}

/// An error of the service, where it stands in the statement.
fn placed(error: ServiceError, position: Option<Position>) -> Error {
    match error {
        ServiceError::Engine(error) => error.into(),
        ServiceError::Define { source, .. } => Error::of_name(source, position),
        ServiceError::UnknownUser { name, nearest } => unknown(name, nearest, position),
        denied if denied.class() == Class::Forbidden => Error::Denied(Box::new(denied)),
        other => match other.fault() {
            Some(fault) => Error::Definition {
                message: other.to_string(),
                fault,
                position,
            },
            None => Error::internal(other.to_string()),
        },
    }
}
