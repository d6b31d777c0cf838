//! Numbers of sequences: `nextval`, `currval`, `lastval`, `setval`.

use nilometer_service::define;
use nilometer_service::{Place, Privilege};

use super::call::{Answer, Asked, Call, number, text};
use super::names::names_of;
use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::values::Returns::Int;

pub(super) const CALLS: &[Call] = &[
    Call::new("nextval", (1, 1), Int, next).volatile(),
    Call::new("currval", (1, 1), Int, current).volatile(),
    Call::new("lastval", (0, 0), Int, last).volatile(),
    Call::new("setval", (2, 3), Int, set).volatile(),
];

/// Calls whose first argument is a sequence by its name.
pub(crate) const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// The sequence that a name means, which the asker may use so.
fn sequence(
    asked: &Asked,
    cells: &[Cell],
    privilege: Privilege,
) -> Result<define::TableName, Error> {
    let reader = asked.reading.reader();
    let written = text(cells, 0).unwrap_or_default();
    let mut names = names_of(written).unwrap_or_default().into_iter().rev();
    let name = define::TableName {
        table: names.next().unwrap_or_default(),
        schema: names.next().unwrap_or(reader.schema),
        database: names.next().unwrap_or_else(|| asked.database.clone()),
    };
    let snapshot = asked.reading.snapshot();
    let known = define::sequences(snapshot, &name.database, &name.schema);
    if known.iter().all(|it| it.name != name.table) {
        let unknown = define::DefineError::Unknown {
            what: define::Object::Sequence,
            name: written.to_owned(),
            nearest: None,
        };
        return Err(Error::of_name(unknown, None));
    }
    let place = Place::table(&name.database, &name.schema, &name.table);
    let allowed = reader.principal.check(privilege, place);
    allowed.map_err(|source| Error::Denied(Box::new(source)))?;
    Ok(name)
}

fn next(asked: &Asked, cells: &[Cell]) -> Answer {
    let sequence = sequence(asked, cells, Privilege::Write)?;
    Ok(asked.reading.next_number(&sequence)?.into())
}

fn current(asked: &Asked, cells: &[Cell]) -> Answer {
    let sequence = sequence(asked, cells, Privilege::Read)?;
    let given = asked.reading.numbers().current(&sequence);
    match given {
        Some(number) => Ok(number.into()),
        None => Err(nothing(format!(
            "currval of sequence \"{}\"",
            sequence.table
        ))),
    }
}

fn last(asked: &Asked, _: &[Cell]) -> Answer {
    let given = asked.reading.numbers().last();
    given.map_or_else(|| Err(nothing("lastval".to_owned())), |it| Ok(it.into()))
}

fn set(asked: &Asked, cells: &[Cell]) -> Answer {
    let sequence = sequence(asked, cells, Privilege::Write)?;
    let Some(value) = number(cells, 1) else {
        return Ok(Cell::Null);
    };
    let is_called = !matches!(cells.get(2), Some(Cell::Bool(false)));
    asked.reading.set_number(&sequence, (value, is_called))?;
    Ok(value.into())
}

fn nothing(asked: String) -> Error {
    Error::of_name(define::DefineError::NothingGiven { asked }, None)
}
