//! Enumerations: whether a text is a label of a type, and its place among them.

use nilometer_service::define::{self, Enumeration};

use super::call::{Asked, Call, text};
use super::names::names_of;
use crate::error::Error;
use crate::statement::types::{ENUM_CAST, ENUM_PLACE};
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::values::Returns::{Bool, Int, Text, Texts};

pub(super) const CALLS: &[Call] = &[
    // What the CHECK of a column calls.
    Call::new(
        nilometer_engine::ENUM_LABEL,
        (2, 2),
        Bool,
        |asked, cells| Ok(label(asked, cells)?.map(|_| true).into()),
    ),
    Call::new(ENUM_CAST, (2, 2), Text, |asked, cells| {
        let label = label(asked, cells)?;
        Ok(label
            .map(|(of, at)| of.labels.get(at).cloned().unwrap_or_default())
            .into())
    }),
    Call::new(ENUM_PLACE, (2, 2), Int, |asked, cells| {
        Ok(label(asked, cells)?
            .and_then(|(_, at)| i64::try_from(at).ok())
            .into())
    }),
    Call::new("pg_enum_labels", (1, 1), Texts, |asked, cells| {
        Ok(Cell::Texts(of_name(asked, cells)?.labels))
    }),
];

/// The type that the first argument names.
fn of_name(asked: &Asked, cells: &[Cell]) -> Result<Enumeration, Error> {
    let written = text(cells, 0).unwrap_or_default();
    let mut names = names_of(written).unwrap_or_default().into_iter().rev();
    let name = names.next().unwrap_or_default();
    let schema = names.next().unwrap_or(asked.reading.reader().schema);
    let found = define::enumeration(asked.reading.snapshot(), &asked.database, &schema, &name);
    found.ok_or_else(|| {
        let unknown = define::DefineError::Unknown {
            what: define::Object::Type,
            name: written.to_owned(),
            nearest: None,
        };
        Error::of_name(unknown, None)
    })
}

/// The type, and the place of the second argument in it; `None` = it is NULL.
fn label(asked: &Asked, cells: &[Cell]) -> Result<Option<(Enumeration, usize)>, Error> {
    let of = of_name(asked, cells)?;
    let Some(label) = text(cells, 1) else {
        return Ok(None);
    };
    match of.place(label) {
        Some(at) => Ok(Some((of, at))),
        None => Err(Error::Execution {
            message: format!("invalid input value for enum {}: \"{label}\"", of.name),
        }),
    }
}
