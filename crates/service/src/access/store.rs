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
    /// Whether they may log in.
    pub can_login: bool,
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
        can_login: verifiers_of(row).can_login(),
    }
}

fn verifiers_of(row: &[Value]) -> Verifiers {
    Verifiers {
        argon2: text(row, 2),
        scram: text(row, 3),
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
    row(snapshot, USERS, &[Value::from(name)]).map(|row| verifiers_of(&row))
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
    let users = relation(engine, USERS)?;
    let row = user_row(user, verifiers);
    engine.write_relations(&[RelationChange::Replace(users, vec![row])])?;
    Ok(())
}

fn user_row(user: &User, verifiers: &Verifiers) -> Vec<Value> {
    let verifiers = verifiers.with_login(user.can_login);
    vec![
        Value::from(user.name.as_str()),
        Value::Bool(user.is_admin),
        Value::from(verifiers.argon2.as_str()),
        Value::from(verifiers.scram.as_str()),
    ]
}

/// Forgets users and what was granted to them, in one batch.
pub(super) fn remove_users(engine: &Arc<Engine>, names: &[String]) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let keys = keys_of(&snapshot, |row| names.contains(&text(row, 0)));
    let (users, grants) = (relation(engine, USERS)?, relation(engine, GRANTS)?);
    let names = names.iter().map(|name| vec![Value::from(name.as_str())]);
    write(
        engine,
        vec![
            RelationChange::Delete(users, names.collect()),
            RelationChange::Delete(grants, keys),
        ],
    )
}

/// Gives a user another name, with what was granted and with `owned`, what keeps the name elsewhere, in one batch.
pub(super) fn rename_user(
    engine: &Arc<Engine>,
    user: &User,
    to: &str,
    owned: Vec<RelationChange>,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let verifiers = verifiers(&snapshot, &user.name).unwrap_or_default();
    let renamed = User {
        name: to.to_owned(),
        ..user.clone()
    };
    let all = rows(&snapshot, GRANTS);
    let own = all.iter().filter(|row| text(row, 0) == user.name);
    let granted = own.map(|row| {
        let rest = row.iter().skip(1).cloned();
        std::iter::once(Value::from(to)).chain(rest).collect()
    });
    let granted: Vec<Vec<Value>> = granted.collect();
    let keys = keys_of(&snapshot, |row| text(row, 0) == user.name);
    let (users, grants) = (relation(engine, USERS)?, relation(engine, GRANTS)?);
    let mut changes = vec![
        RelationChange::Insert(Arc::clone(&users), vec![user_row(&renamed, &verifiers)]),
        RelationChange::Delete(users, vec![vec![Value::from(user.name.as_str())]]),
        RelationChange::Replace(Arc::clone(&grants), granted),
        RelationChange::Delete(grants, keys),
    ];
    changes.extend(owned);
    write(engine, changes)
}

/// What a user may do in exactly a place from now on; nothing = the grant goes.
pub(super) type Granted<'a> = (&'a str, Place<'a>, Privileges);

/// Keeps what a user may do in exactly this place.
pub(crate) fn put_grant(
    engine: &Arc<Engine>,
    user: &str,
    place: Place<'_>,
    privileges: Privileges,
) -> Result<(), EngineError> {
    put_grants(engine, &[(user, place, privileges)])
}

/// Keeps several of them in one batch.
pub(super) fn put_grants(engine: &Arc<Engine>, all: &[Granted<'_>]) -> Result<(), EngineError> {
    let grants = relation(engine, GRANTS)?;
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for (user, place, privileges) in all {
        let mut key = grant_key(user, *place);
        if privileges.is_empty() {
            gone.push(key);
        } else {
            key.push(Value::I64(privileges.bits()));
            kept.push(key);
        }
    }
    write(
        engine,
        vec![
            RelationChange::Replace(Arc::clone(&grants), kept),
            RelationChange::Delete(grants, gone),
        ],
    )
}

/// Writes those that have rows, in one batch.
fn write(engine: &Arc<Engine>, mut changes: Vec<RelationChange>) -> Result<(), EngineError> {
    changes.retain(|change| match change {
        RelationChange::Insert(_, rows)
        | RelationChange::Replace(_, rows)
        | RelationChange::Delete(_, rows) => !rows.is_empty(),
    });
    if !changes.is_empty() {
        engine.write_relations(&changes)?;
    }
    Ok(())
}

/// Forgets what was granted for a place and for what is in it.
pub(super) fn forget_grants(engine: &Arc<Engine>, place: Place<'_>) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let keys = keys_of(&snapshot, |row| is_within(row, place));
    if keys.is_empty() {
        return Ok(());
    }
    let grants = relation(engine, GRANTS)?;
    write(engine, vec![RelationChange::Delete(grants, keys)])
}

/// Gives what was granted for a place, and for what is in it, to the place of another name (`to`, in the same database or
/// schema), and to nobody what was granted there before.
pub(super) fn move_grants(
    engine: &Arc<Engine>,
    place: Place<'_>,
    to: &str,
) -> Result<(), EngineError> {
    let snapshot = engine.snapshot();
    let (column, taken) = match place.table {
        Some(_) => (
            3,
            Place {
                table: Some(to),
                ..place
            },
        ),
        None => (
            2,
            Place {
                schema: Some(to),
                ..place
            },
        ),
    };
    let all = rows(&snapshot, GRANTS);
    let own = all.iter().filter(|row| is_within(row, place));
    let moved = own.map(|row| {
        let mut row = row.to_vec();
        if let Some(name) = row.get_mut(column) {
            *name = Value::from(to);
        }
        row
    });
    let moved: Vec<Vec<Value>> = moved.collect();
    let mut keys = keys_of(&snapshot, |row| {
        is_within(row, place) || is_within(row, taken)
    });
    // A batch has each key once.
    keys.retain(|key| moved.iter().all(|row| row.get(..4) != Some(key.as_slice())));
    if moved.is_empty() && keys.is_empty() {
        return Ok(());
    }
    let grants = relation(engine, GRANTS)?;
    write(
        engine,
        vec![
            RelationChange::Replace(Arc::clone(&grants), moved),
            RelationChange::Delete(grants, keys),
        ],
    )
}

/// Whether a row is about a place, or about what is in it.
fn is_within(row: &[Value], place: Place<'_>) -> bool {
    let is = |column, name: Option<&str>| name.is_none_or(|name| text(row, column) == name);
    text(row, 1) == place.database && is(2, place.schema) && is(3, place.table)
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
