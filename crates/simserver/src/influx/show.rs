//! Lists of names: of what has points, and of retention policies.

use std::collections::BTreeSet;

use super::answer::{Cell, Set};
use super::names::{HOSTS, MEASUREMENTS, REGIONS};
use super::select::Field;
use super::store::{Refusal, State, Table, hours};

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// `SHOW MEASUREMENTS`
    Measurements,
    /// `SHOW SERIES` of a measurement.
    Series(usize),
    /// `SHOW TAG VALUES` of the hosts of a measurement.
    Hosts(usize),
    /// The same of its regions.
    Regions(usize),
    /// `SHOW TAG KEYS` of a measurement.
    TagKeys(usize),
    /// `SHOW FIELD KEYS` of a measurement.
    FieldKeys(usize),
    /// `SHOW RETENTION POLICIES`
    Policies,
}

fn name_of(names: &[&str], nth: usize) -> String {
    names.get(nth).copied().unwrap_or("").to_owned()
}

impl Show {
    /// Why the answer is not that of a state; `None` = it is.
    pub(crate) fn differs(self, state: &State, shown: &[Set]) -> Result<Option<String>, Refusal> {
        if !state.is_there() && self != Self::Policies && shown.is_empty() {
            // Lists of a database that is not there are empty, or say that it is not.
            return Ok(None);
        }
        state.policy(None)?;
        if let Self::Policies = self {
            return Ok(policies(state, shown));
        }
        let wanted = match self {
            Self::FieldKeys(of) => return Ok(fields(state, of, shown)),
            Self::Measurements => {
                let names: BTreeSet<String> = state
                    .tables
                    .keys()
                    .map(|(_, of)| name_of(&MEASUREMENTS, *of))
                    .collect();
                column("measurements", "name", names)
            }
            Self::Series(of) => {
                let keys = tables(state, of)
                    .flat_map(|table| table.keys().map(move |&series| key(of, series)));
                column("", "key", keys.collect())
            }
            Self::Hosts(of) => {
                let hosts = tables(state, of)
                    .flat_map(|it| it.keys().map(|(host, _)| name_of(&HOSTS, *host)));
                values(of, "host", hosts.collect())
            }
            Self::Regions(of) => {
                let regions = tables(state, of)
                    .flat_map(|it| it.keys().map(|(_, region)| name_of(&REGIONS, *region)));
                values(
                    of,
                    "region",
                    regions.filter(|name| !name.is_empty()).collect(),
                )
            }
            Self::TagKeys(of) => {
                let mut keys = BTreeSet::new();
                for (_, region) in tables(state, of).flat_map(Table::keys) {
                    keys.insert("host".to_owned());
                    keys.extend((*region > 0).then(|| "region".to_owned()));
                }
                column(&name_of(&MEASUREMENTS, of), "tagKey", keys)
            }
            Self::Policies => Vec::new(),
        };
        Ok((wanted != shown).then(|| format!("{self:?} must be {wanted:?} and is {shown:?}")))
    }
}

fn tables(state: &State, of: usize) -> impl Iterator<Item = &Table> {
    let tables = state.tables.iter();
    tables
        .filter(move |((_, nth), _)| *nth == of)
        .map(|(_, table)| table)
}

fn key(of: usize, (host, region): (usize, usize)) -> String {
    let region = match region {
        0 => String::new(),
        region => format!(",region={}", name_of(&REGIONS, region)),
    };
    format!(
        "{},host={}{region}",
        name_of(&MEASUREMENTS, of),
        name_of(&HOSTS, host)
    )
}

fn column(name: &str, column: &str, values: BTreeSet<String>) -> Vec<Set> {
    if values.is_empty() {
        return Vec::new();
    }
    vec![Set {
        name: name.to_owned(),
        tags: Vec::new(),
        columns: vec![column.to_owned()],
        rows: values.into_iter().map(|it| vec![Cell::Text(it)]).collect(),
    }]
}

fn values(of: usize, key: &str, values: BTreeSet<String>) -> Vec<Set> {
    if values.is_empty() {
        return Vec::new();
    }
    let row = |value: String| vec![Cell::Text(key.to_owned()), Cell::Text(value)];
    vec![Set {
        name: name_of(&MEASUREMENTS, of),
        tags: Vec::new(),
        columns: vec!["key".to_owned(), "value".to_owned()],
        rows: values.into_iter().map(row).collect(),
    }]
}

/// A measurement keeps the names of fields that have no value any more, so there are bounds.
fn fields(state: &State, of: usize, shown: &[Set]) -> Option<String> {
    let default = state.tables.get(&(state.default, of));
    let points = default.into_iter().flat_map(Table::values);
    let mut least = BTreeSet::new();
    for fields in points.flat_map(|points| points.values()) {
        least.extend(fields.i.map(|_| "i"));
        least.extend(fields.f.map(|_| "f"));
        least.extend(fields.s.map(|_| "s"));
        least.extend(fields.b.map(|_| "b"));
    }
    let rows = || shown.iter().flat_map(|set| &set.rows);
    let is_typed = |row: &Vec<Cell>| {
        let typed = Field::ALL
            .into_iter()
            .zip(["integer", "float", "string", "boolean"]);
        let mut rows = typed.map(|(field, kind)| {
            [
                Cell::Text(field.name().to_owned()),
                Cell::Text(kind.to_owned()),
            ]
        });
        rows.any(|wanted| *row == wanted)
    };
    let has = |name: &str| rows().any(|row| row.first() == Some(&Cell::Text(name.to_owned())));
    let is_fine = rows().all(is_typed)
        && least.iter().all(|name| has(name))
        && (tables(state, of).next().is_some() || shown.is_empty());
    (!is_fine).then(|| format!("fields must be {least:?} at least, and are {shown:?}"))
}

fn policies(state: &State, shown: &[Set]) -> Option<String> {
    let mut wanted: Vec<(String, String, bool)> = state
        .policies
        .iter()
        .map(|(policy, kept)| {
            (
                policy.name().to_owned(),
                hours(*kept),
                *policy == state.default,
            )
        })
        .collect();
    wanted.sort();
    let place = |set: &Set, name: &str| set.columns.iter().position(|it| it == name);
    let text = |cell: Option<&Cell>| match cell {
        Some(Cell::Text(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    let mut found = Vec::new();
    for set in shown {
        let places =
            ["name", "duration", "default"].map(|name| place(set, name).unwrap_or(usize::MAX));
        for row in &set.rows {
            let [name, duration, default] = places.map(|at| row.get(at));
            found.push((
                text(name),
                text(duration),
                default == Some(&Cell::Truth(true)),
            ));
        }
    }
    found.sort();
    (wanted != found).then(|| format!("policies must be {wanted:?} and are {found:?}"))
}
