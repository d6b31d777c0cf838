//! Columns that would tell rows apart, offered to the user before an import begins.
//!
//! Does: look at the first rows of a file for rows with one time and the same tags, and for the column that is missing
//! among the tags. Does not: decide.

use std::collections::HashSet;

use csv::StringRecord;
use nilometer_engine::ingest::is_likely_tag;

use super::columns::{Absent, Column};
use crate::lines::{FieldType, Role};
use crate::print::thousands;

/// Rows of a hundred that may share a key for a column to be offered as the one that tells them apart.
const SHARED_OF_100_MAX: usize = 1;

/// What to say of the first rows; `None` = nothing.
pub(super) fn advice(columns: &[Column], rows: &[StringRecord], absent: &Absent) -> Option<String> {
    let time = columns.iter().position(|it| it.role == Role::Time)?;
    let tags: Vec<usize> = (0..columns.len())
        .filter(|at| columns.get(*at).is_some_and(|it| it.role == Role::Tag))
        .collect();
    let shared = |more: Option<usize>| {
        let mut keys = HashSet::new();
        let cells = |row: &StringRecord| -> Vec<String> {
            let places = std::iter::once(time)
                .chain(tags.iter().copied())
                .chain(more);
            places
                .map(|at| row.get(at).unwrap_or_default().to_owned())
                .collect()
        };
        rows.iter().filter(|row| !keys.insert(cells(row))).count()
    };
    let now = shared(None);
    let values = |at: usize| {
        let cells = rows.iter().filter_map(move |row| row.get(at));
        cells.map(str::trim).filter(|cell| !absent.is(cell))
    };
    let could_be = |at: &usize| {
        let kind = columns.get(*at).map(|it| it.role);
        let fits = matches!(
            kind,
            Some(Role::Field(
                FieldType::Integer | FieldType::Unsigned | FieldType::Text
            ))
        );
        fits && is_likely_tag(values(*at))
    };
    let candidates: Vec<usize> = (0..columns.len()).filter(could_be).collect();
    let name_of = |at: usize| columns.get(at).map_or("", |it| it.name.as_str());
    let with = |at: usize| {
        let names: Vec<&str> = tags.iter().copied().chain([at]).map(name_of).collect();
        format!("--tags {}", names.join(","))
    };
    if now == 0 {
        let is_id = |at: &&usize| {
            let is_integer = columns.get(**at).is_some_and(|it| {
                matches!(
                    it.role,
                    Role::Field(FieldType::Integer | FieldType::Unsigned)
                )
            });
            is_integer && is_called_id(name_of(**at))
        };
        let id = candidates.iter().find(is_id)?;
        return Some(format!(
            "\"{}\" is a field; if it says whose values these are, make it a tag with {}",
            name_of(*id),
            with(*id)
        ));
    }
    let rated = candidates
        .iter()
        .map(|&at| (shared(Some(at)), !is_called_id(name_of(at)), at));
    let best = rated
        .min()
        .filter(|(left, ..)| left * 100 <= rows.len() * SHARED_OF_100_MAX);
    let said = format!(
        "{} of the first {} rows have the time and the tags of an earlier one",
        thousands(now as u64),
        thousands(rows.len() as u64)
    );
    Some(match best {
        Some((_, _, at)) => format!("{said}; {} tells them apart", with(at)),
        None => format!("{said}; no other column alone tells them apart"),
    })
}

/// What to say where texts begin or end with blanks, which are part of them.
pub(super) fn blanks(columns: &[Column], rows: &[StringRecord]) -> Option<String> {
    let has_blanks = |(at, column): &(usize, &Column)| {
        let is_text = matches!(column.role, Role::Tag | Role::Field(FieldType::Text));
        let mut cells = rows.iter().filter_map(|row| row.get(*at));
        is_text && cells.any(|cell| cell.trim() != cell)
    };
    let (_, column) = columns.iter().enumerate().find(has_blanks)?;
    let name = &column.name;
    Some(format!(
        "texts of \"{name}\" begin or end with blanks, which are imported with them; --trim leaves them out"
    ))
}

/// Whether a name is one of ids, as people give them.
fn is_called_id(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ends = [
        "id", "_no", "_nr", "number", "station", "sensor", "device", "host",
    ];
    ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::columns::{ColumnWishes, decide};

    fn advised(text: &str) -> Option<String> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names: Vec<String> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        let rows: Vec<StringRecord> = reader.records().map(Result::unwrap).collect();
        let columns = decide(&names, &rows, &ColumnWishes::default()).unwrap();
        advice(&columns.all, &rows, &Absent::default())
    }

    /// A file of twenty stations with integer ids became one series, and 1,900 of its 2,000 rows were gone.
    #[test]
    fn integer_ids_are_offered_as_tags() {
        let mut text = "time,station_id,temperature\n".to_owned();
        let rows: Vec<String> = (0..2000)
            .map(|n| format!("{},{},{}\n", 1_700_000_000 + n / 20, n % 20, n * 7 % 13))
            .collect();
        text += &rows.concat();
        let said = advised(&text).unwrap();
        let want = "1,900 of the first 2,000 rows have the time and the tags of an earlier one; --tags station_id tells them apart";
        assert_eq!(said, want);
        let one = "time,device_id,v\n1700000000,7,1.5\n1700000001,7,2.5\n";
        assert!(advised(one).unwrap().contains("--tags device_id"));
        let plain = "time,host,v\n1700000000,a,1.5\n1700000000,b,2.5\n";
        assert_eq!(advised(plain), None);
    }
}
