//! Users and grants as rows of two relations.

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange, RelationColumn,
    RelationReader, RelationSchema, Snapshot, Value,
};

use super::password::Verifiers;
use super::privilege::{Place, Privileges};
use crate::define::own_relations::{GRANTS, USERS};

/// The database of what the store keeps for itself. Nobody else has a place there.
pub const INTERNAL_DATABASE: &str = "_internal";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Whether everything is allowed.
    pub is_admin: bool,
}

/// What was granted to a user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// Of which database.
    pub database: String,
    /// `None` = of all its schemas.
    pub schema: Option<String>,
    /// `None` = of all tables.
    pub table: Option<String>,
    /// What.
    pub privileges: Privileges,
}

impl Grant {
    /// What it is about.
    pub fn place(&self) -> Place<'_> {
        Place {
            database: &self.database,
            schema: self.schema.as_deref(),
            table: self.table.as_deref(),
        }
    }
}

/// A relation of the store's own; `None` = nothing has made it yet.
pub(crate) fn internal(snapshot: &Snapshot, relation: &str) -> Option<RelationReader> {
    let schema = snapshot.default_schema(INTERNAL_DATABASE)?;
    snapshot.relation(INTERNAL_DATABASE, &schema, relation)
}

/// Its rows.
pub(crate) fn rows(snapshot: &Snapshot, relation: &str) -> Vec<Arc<[Value]>> {
    let relation = internal(snapshot, relation);
    relation.map(|relation| relation.rows()).unwrap_or_default()
}

fn row(snapshot: &Snapshot, relation: &str, key: &[Value]) -> Option<Arc<[Value]>> {
    internal(snapshot, relation)?.get(key)
}

fn text(row: &[Value], column: usize) -> String {
    match row.get(column) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn user_of(row: &[Value]) -> User {
    User {
        name: text(row, 0),
        is_admin: matches!(row.get(1), Some(Value::Bool(true))),
    }
}

pub(super) fn users(snapshot: &Snapshot) -> Vec<User> {
    let mut users: Vec<User> = rows(snapshot, USERS)
        .iter()
        .map(|row| user_of(row))
        .collect();
    users.sort_by(|one, other| one.name.cmp(&other.name));
    users
}

pub(super) fn user(snapshot: &Snapshot, name: &str) -> Option<User> {
    row(snapshot, USERS, &[Value::from(name)]).map(|row| user_of(&row))
}

pub(super) fn verifiers(snapshot: &Snapshot, name: &str) -> Option<Verifiers> {
    let row = row(snapshot, USERS, &[Value::from(name)])?;
    Some(Verifiers {
        argon2: text(&row, 2),
        scram: text(&row, 3),
    })
}

/// What a user may do, in databases that are there.
pub(crate) fn grants(snapshot: &Snapshot, user: &str) -> Vec<Grant> {
    let all = rows(snapshot, GRANTS);
    let own = all.iter().filter(|row| text(row, 0) == user);
    let mut grants: Vec<Grant> = own.map(|row| grant_of(row)).collect();
    // A stop in the middle of a drop or a rename may have left some of a name that no database has.
    grants.retain(|grant| snapshot.default_schema(&grant.database).is_some());
    grants.sort();
    grants
}

fn grant_of(row: &[Value]) -> Grant {
    let named = |column| Some(text(row, column)).filter(|name| !name.is_empty());
    Grant {
        database: text(row, 1),
        schema: named(2),
        table: named(3),
        privileges: match row.get(4) {
            Some(Value::I64(bits)) => Privileges::of_bits(*bits),
            _ => Privileges::default(),
        },
    }
}

fn grant_key(user: &str, place: Place<'_>) -> Vec<Value> {
    let (schema, table) = (place.schema.unwrap_or(""), place.table.unwrap_or(""));
    vec![
        Value::from(user),
        Value::from(place.database),
        Value::from(schema),
        Value::from(table),
    ]
}

/// What was granted for exactly this place.
pub(super) fn granted_at(snapshot: &Snapshot, user: &str, place: Place<'_>) -> Privileges {
    let row = row(snapshot, GRANTS, &grant_key(user, place));
    row.map_or(Privileges::default(), |row| grant_of(&row).privileges)
}

/// What a user may do in a place: what was granted for it and for what it is in.
pub(super) fn granted(snapshot: &Snapshot, user: &str, place: Place<'_>) -> Privileges {
    let around = [
        Place::database(place.database),
        Place {
            table: None,
            ..place
        },
        place,
    ];
    let all = around.map(|place| granted_at(snapshot, user, place));
    all.into_iter()
        .fold(Privileges::default(), Privileges::with)
}

/// Keeps a user; one of the name is replaced.
pub(super) fn put_user(
    engine: &Arc<Engine>,
    user: &User,
    verifiers: &Verifiers,
) -> Result<(), EngineError> {
    let row = vec![
        Value::from(user.name.as_str()),
        Value::Bool(user.is_admin),
        Value::from(verifiers.argon2.as_str()),
        Value::from(verifiers.scram.as_str()),
    ];
    let users = relation(engine, USERS)?;
    engine.write_relations(&[RelationChange::Replace(users, vec![row])])?;
    Ok(())
}

/// Forgets a user and what was granted, in one batch.
pub(super) fn remove_user(engine: &Arc<Engine>, name: &str) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let keys = keys_of(&snapshot, |row| text(row, 0) == name);
    let (users, grants) = (relation(engine, USERS)?, relation(engine, GRANTS)?);
    engine.write_relations(&[
        RelationChange::Delete(users, vec![vec![Value::from(name)]]),
        RelationChange::Delete(grants, keys),
    ])?;
    Ok(())
}

/// Keeps what a user may do in exactly this place; nothing = the grant goes.
pub(crate) fn put_grant(
    engine: &Arc<Engine>,
    user: &str,
    place: Place<'_>,
    privileges: Privileges,
) -> Result<(), EngineError> {
    let grants = relation(engine, GRANTS)?;
    let mut key = grant_key(user, place);
    let change = if privileges.is_empty() {
        RelationChange::Delete(grants, vec![key])
    } else {
        key.push(Value::I64(privileges.bits()));
        RelationChange::Replace(grants, vec![key])
    };
    engine.write_relations(&[change])?;
    Ok(())
}

fn keys_of(snapshot: &Snapshot, is_meant: impl Fn(&[Value]) -> bool) -> Vec<Vec<Value>> {
    let all = rows(snapshot, GRANTS);
    let meant = all.iter().filter(|row| is_meant(row));
    meant
        .map(|row| row.iter().take(4).cloned().collect())
        .collect()
}

/// A relation of ours, made if it is not there.
fn relation(engine: &Arc<Engine>, name: &str) -> Result<Arc<RelationSchema>, EngineError> {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let named = |name: &str| column(name, PhysicalType::Text);
    let (columns, key): (Vec<RelationColumn>, &[&str]) = if name == USERS {
        let columns = vec![
            named("name"),
            column("admin", PhysicalType::Bool),
            named("argon2"),
            named("scram"),
        ];
        (columns, &["name"])
    } else {
        let columns = vec![
            named("user"),
            named("database"),
            named("schema"),
            named("table"),
            column("privileges", PhysicalType::I64),
        ];
        (columns, &["user", "database", "schema", "table"])
    };
    let new = NewRelation {
        columns,
        primary_key: key.iter().map(|name| (*name).to_owned()).collect(),
        unique: Vec::new(),
    };
    internal_relation(engine, name, &new)
}

/// A relation of the store's own, made if it is not there.
pub(crate) fn internal_relation(
    engine: &Arc<Engine>,
    name: &str,
    new: &NewRelation,
) -> Result<Arc<RelationSchema>, EngineError> {
    engine.create_database(INTERNAL_DATABASE)?;
    let missing = || EngineError::NotFound {
        what: "database",
        name: INTERNAL_DATABASE.to_owned(),
        place: "this store".to_owned(),
        hint: "it was dropped meanwhile".to_owned(),
    };
    let snapshot = engine.snapshot();
    let schema = snapshot
        .default_schema(INTERNAL_DATABASE)
        .ok_or_else(missing)?;
    engine.create_relation(INTERNAL_DATABASE, &schema, name, new)?;
    let snapshot = engine.snapshot();
    let relation = snapshot.relation(INTERNAL_DATABASE, &schema, name);
    Ok(Arc::clone(relation.ok_or_else(missing)?.schema()))
}
