//! Privilege functions: `has_table_privilege` and its kin.

#![expect(clippy::unnecessary_wraps, reason = "calls have one signature")]

use nilometer_service::{Place, Privilege, privileges_of};

use super::call::{Answer, Asked, Call, text};
use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::objects::Catalogue;
use crate::tables::pg_catalog::values::Returns::{Bool, Texts};

pub(super) const CALLS: &[Call] = &[
    Call::new("has_table_privilege", (2, 3), Bool, |asked, cells| {
        of_table(asked, split(cells, 2))
    }),
    Call::new("has_any_column_privilege", (2, 3), Bool, |asked, cells| {
        of_table(asked, split(cells, 2))
    }),
    Call::new("has_column_privilege", (3, 4), Bool, |asked, cells| {
        let (user, rest) = split(cells, 3);
        match rest {
            [table, _, privilege] => of_table(asked, (user, &[table.clone(), privilege.clone()])),
            _ => Ok(Cell::Null),
        }
    }),
    Call::new("has_sequence_privilege", (2, 3), Bool, |asked, cells| {
        of_table(asked, split(cells, 2))
    }),
    Call::new("has_schema_privilege", (2, 3), Bool, of_schema),
    Call::new("has_database_privilege", (2, 3), Bool, of_database),
    Call::new("has_function_privilege", (2, 3), Bool, everybody),
    Call::new("has_language_privilege", (2, 3), Bool, everybody),
    Call::new("has_type_privilege", (2, 3), Bool, everybody),
    Call::new("has_tablespace_privilege", (2, 3), Bool, everybody),
    Call::new("has_server_privilege", (2, 3), Bool, |_, _| Ok(Cell::Null)),
    Call::new(
        "has_foreign_data_wrapper_privilege",
        (2, 3),
        Bool,
        |_, _| Ok(Cell::Null),
    ),
    // Nobody has privileges by default.
    Call::new("acldefault", (2, 2), Texts, |_, _| Ok(Cell::Null)),
    Call::new("pg_has_role", (2, 3), Bool, |asked, cells| {
        let (_, rest) = split(cells, 2);
        let reader = asked.reading.reader();
        let is_own = rest.first() == Some(&Cell::from(reader.name()));
        Ok((reader.principal.is_admin() || is_own).into())
    }),
];

fn everybody(_: &Asked, _: &[Cell]) -> Answer {
    Ok(true.into())
}

/// The user, if one is named, and the other arguments.
fn split(cells: &[Cell], others: usize) -> (Option<&Cell>, &[Cell]) {
    match cells.split_first() {
        Some((user, rest)) if rest.len() == others => (Some(user), rest),
        _ => (None, cells),
    }
}

/// Whether the question is about who asks; what others may do is an administrator's to know.
fn is_own(asked: &Asked, catalogue: &Catalogue, user: Option<&Cell>) -> bool {
    let own = asked.reading.reader();
    match user {
        None => true,
        Some(Cell::Text(name)) => name == own.name(),
        Some(Cell::Int(oid)) => {
            let mut roles = catalogue.roles.iter();
            roles.any(|role| role.oid == *oid && role.name == own.name())
        }
        Some(_) => false,
    }
}

/// Privileges of PostgreSQL as ours; a list is held if one of it is.
fn privileges(text: &str) -> Result<Vec<Privilege>, Error> {
    text.split(',')
        .map(|one| {
            let one = one.trim().to_uppercase();
            let one = one.trim_end_matches(" WITH GRANT OPTION");
            Ok(match one {
                "SELECT" | "USAGE" | "CONNECT" => Privilege::Read,
                "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE" => Privilege::Write,
                "CREATE" | "REFERENCES" | "TRIGGER" | "TEMPORARY" | "TEMP" => Privilege::Define,
                _ => {
                    return Err(Error::Plan {
                        message: format!("unrecognized privilege type: \"{one}\""),
                        position: None,
                    });
                }
            })
        })
        .collect()
}

fn held(
    asked: &Asked,
    user: Option<&Cell>,
    catalogue: &Catalogue,
    place: Place<'_>,
    wanted: &str,
) -> Answer {
    let wanted = privileges(wanted)?;
    if !is_own(asked, catalogue, user) {
        return of_other(asked, user, catalogue, |held| {
            wanted.iter().any(|privilege| held(place, *privilege))
        });
    }
    let principal = asked.reading.reader().principal;
    let mut wanted = wanted.into_iter();
    Ok(wanted
        .any(|privilege| principal.check(privilege, place).is_ok())
        .into())
}

/// What an administrator is told of another role; others are told nothing.
fn of_other(
    asked: &Asked,
    user: Option<&Cell>,
    catalogue: &Catalogue,
    answer: impl FnOnce(&dyn Fn(Place<'_>, Privilege) -> bool) -> bool,
) -> Answer {
    if !asked.reading.reader().principal.is_admin() {
        return Ok(Cell::Null);
    }
    let mut roles = catalogue.roles.iter();
    let role = roles.find(|role| match user {
        Some(Cell::Text(name)) => role.name == *name,
        Some(Cell::Int(oid)) => role.oid == *oid,
        _ => false,
    });
    let Some(role) = role else {
        return match user {
            Some(Cell::Text(name)) => Err(Error::UnknownName {
                what: "role",
                name: name.clone(),
                nearest: None,
                position: None,
            }),
            _ => Ok(Cell::Null),
        };
    };
    let snapshot = asked.reading.snapshot();
    let held = |place: Place<'_>, privilege| {
        role.is_admin
            || privileges_of(snapshot, &role.name, place).is_some_and(|held| held.has(privilege))
    };
    Ok(answer(&held).into())
}

fn of_table(asked: &Asked, (user, rest): (Option<&Cell>, &[Cell])) -> Answer {
    let catalogue = asked.catalogue();
    let Some(object) = super::names::relation(&catalogue, rest.first()) else {
        return match rest.first() {
            Some(Cell::Text(name)) => Err(Error::UnknownTable {
                name: name.clone(),
                nearest: None,
                position: None,
            }),
            _ => Ok(Cell::Null),
        };
    };
    let schema = catalogue.schema_of(object);
    let place = Place::table(&catalogue.database, schema, &object.name);
    held(
        asked,
        user,
        &catalogue,
        place,
        text(rest, 1).unwrap_or_default(),
    )
}

fn of_schema(asked: &Asked, cells: &[Cell]) -> Answer {
    let (user, rest) = split(cells, 2);
    let catalogue = asked.catalogue();
    let wanted = text(rest, 1).unwrap_or_default();
    let mut schemas = catalogue.schemas.iter();
    let schema = schemas.find(|schema| match rest.first() {
        Some(Cell::Text(name)) => schema.name == *name,
        Some(Cell::Int(oid)) => schema.oid == *oid,
        _ => false,
    });
    let Some(schema) = schema else {
        return Ok(Cell::Null);
    };
    if super::super::names::is_catalogue(&schema.name) {
        return Ok(privileges(wanted)?.contains(&Privilege::Read).into());
    }
    let place = Place {
        database: &catalogue.database,
        schema: Some(&schema.name),
        table: None,
    };
    held(asked, user, &catalogue, place, wanted)
}

fn of_database(asked: &Asked, cells: &[Cell]) -> Answer {
    let (user, rest) = split(cells, 2);
    let catalogue = asked.catalogue();
    let mut databases = catalogue.databases.iter();
    let database = databases.find(|(name, oid)| match rest.first() {
        Some(Cell::Text(given)) => name == given,
        Some(Cell::Int(given)) => oid == given,
        _ => false,
    });
    let Some((database, _)) = database else {
        return Ok(Cell::Null);
    };
    let wanted = text(rest, 1).unwrap_or_default();
    if wanted.trim().eq_ignore_ascii_case("connect") {
        return if is_own(asked, &catalogue, user) {
            Ok(true.into())
        } else {
            of_other(asked, user, &catalogue, |_| true)
        };
    }
    held(asked, user, &catalogue, Place::database(database), wanted)
}
