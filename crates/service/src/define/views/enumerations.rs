//! Enumerations: types of a few texts in an order, as `CREATE TYPE ... AS ENUM` makes them.
//!
//! Does: keep the labels of a type as a row in the schema it is in, durably, and say which columns are of it. A column of such a type
//! is text with a CHECK that calls `pg_enum_label`. Does not: evaluate that, or order values (the language does both).

use std::sync::Arc;

use nilometer_engine::{Check, Engine, PhysicalType, Snapshot, Value, enum_of_check};

use super::super::change::EnumChange;
use super::super::change::name::TableName;
use super::super::error::{DefineError, Object, Part};
use super::super::kept::{Kept, Within, text};
use super::super::lookup;
use super::super::own_relations::ENUMERATIONS;
use super::super::place::must_be_new;
use crate::error::Error;

const KEPT: Kept = Kept {
    relation: ENUMERATIONS,
    columns: &[("name", PhysicalType::Text), ("labels", PhysicalType::Text)],
};

/// The longest label, in bytes, as in PostgreSQL.
const LABEL_BYTES_MAX: usize = 63;
/// Labels of a type. Each row that is written is compared with them.
const LABELS_MAX: usize = 4096;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumeration {
    /// Its name.
    pub name: String,
    /// Its labels in their order.
    pub labels: Vec<String>,
}

impl Enumeration {
    fn of(row: &[Value]) -> Self {
        Self {
            name: text(row, 0).to_owned(),
            labels: split(text(row, 1)),
        }
    }

    /// The place of a label; `None` = it is none of the type's.
    pub fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }
}

/// Labels as one text: a comma behind each, and a backslash before commas and backslashes in them.
fn joined(labels: &[String]) -> String {
    let mut all = String::new();
    for letter in labels
        .iter()
        .flat_map(|label| label.chars().map(Some).chain([None]))
    {
        match letter {
            Some(letter) => {
                if matches!(letter, ',' | '\\') {
                    all.push('\\');
                }
                all.push(letter);
            }
            None => all.push(','),
        }
    }
    all
}

fn split(all: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut label = String::new();
    let mut letters = all.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => label.extend(letters.next()),
            ',' => labels.push(std::mem::take(&mut label)),
            other => label.push(other),
        }
    }
    labels
}

/// The type of a name; `None` = there is none.
pub fn enumeration(
    snapshot: &Snapshot,
    database: &str,
    schema: &str,
    name: &str,
) -> Option<Enumeration> {
    let row = KEPT.row(snapshot, (database, schema), name)?;
    Some(Enumeration::of(&row))
}

/// The types of a schema, by name.
pub fn enumerations(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<Enumeration> {
    let rows = KEPT.rows(snapshot, (database, schema));
    let mut all: Vec<Enumeration> = rows.iter().map(|row| Enumeration::of(row)).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn refused(reason: String) -> Error {
    DefineError::Enumeration { reason }.about(Part::Name)
}

fn check_label(label: &str) -> Result<(), Error> {
    if label.is_empty() || label.len() > LABEL_BYTES_MAX {
        return Err(refused(format!(
            "the label \"{label}\" has {} bytes; a label has 1 to {LABEL_BYTES_MAX}",
            label.len()
        )));
    }
    Ok(())
}

fn store(engine: &Arc<Engine>, name: &TableName, labels: &[String]) -> Result<(), Error> {
    if labels.len() > LABELS_MAX {
        return Err(refused(format!("a type has at most {LABELS_MAX} labels")));
    }
    let within = (name.database.as_str(), name.schema.as_str());
    let row = vec![
        Value::from(name.table.as_str()),
        Value::from(joined(labels).as_str()),
    ];
    Ok(KEPT.put(engine, within, row)?)
}

/// Makes a type.
pub(in crate::define) fn create(
    engine: &Arc<Engine>,
    name: &TableName,
    labels: &[String],
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let (database, schema) = (name.database.as_str(), name.schema.as_str());
    let is_new = enumeration(&snapshot, database, schema, &name.table).is_none();
    must_be_new(is_new, "type", &name.table, &format!("schema \"{schema}\""))?;
    for (at, label) in labels.iter().enumerate() {
        check_label(label)?;
        if labels.iter().take(at).any(|other| other == label) {
            return Err(refused(format!("the label \"{label}\" is there twice")));
        }
    }
    store(engine, name, labels)
}

fn unknown(name: &TableName) -> Error {
    let unknown = DefineError::Unknown {
        what: Object::Type,
        name: name.table.clone(),
        nearest: None,
    };
    unknown.about(Part::Name)
}

/// Changes a type.
pub(in crate::define) fn alter(
    engine: &Arc<Engine>,
    name: &TableName,
    change: EnumChange,
) -> Result<(), Error> {
    let (database, schema) = (name.database.as_str(), name.schema.as_str());
    let known = enumeration(&engine.snapshot(), database, schema, &name.table);
    let mut known = known.ok_or_else(|| unknown(name))?;
    let EnumChange::Add {
        label,
        if_not_exists,
        beside,
    } = change
    else {
        return Ok(());
    };
    check_label(&label)?;
    if known.place(&label).is_some() {
        if if_not_exists {
            return Ok(());
        }
        let table = name.table.as_str();
        must_be_new(false, "label", &label, &format!("type \"{table}\""))?;
    }
    let place = match beside {
        None => known.labels.len(),
        Some((other, is_before)) => {
            let at = known.place(&other);
            let at =
                at.ok_or_else(|| refused(format!("\"{other}\" is not an existing enum label")))?;
            at + usize::from(!is_before)
        }
    };
    known.labels.insert(place, label);
    store(engine, name, &known.labels)
}

/// Drops types, once all are known to be there and no column is of one of them.
pub(in crate::define) fn drop(
    engine: &Arc<Engine>,
    names: &[TableName],
    if_exists: bool,
) -> Result<(), Error> {
    let snapshot = engine.snapshot();
    let mut known = Vec::new();
    for name in names {
        let (database, schema) = (name.database.as_str(), name.schema.as_str());
        if enumeration(&snapshot, database, schema, &name.table).is_none() {
            if if_exists {
                continue;
            }
            return Err(unknown(name));
        }
        if let Some((table, column)) = column_of(&snapshot, (database, schema), &name.table) {
            let of = DefineError::TypeInUse {
                name: name.table.clone(),
                table,
                column,
            };
            return Err(of.about(Part::Name));
        }
        known.push(name);
    }
    for name in known {
        let within = (name.database.as_str(), name.schema.as_str());
        KEPT.forget(engine, within, vec![Value::from(name.table.as_str())])?;
    }
    Ok(())
}

/// A table of the schema, and a column of it, of a type.
fn column_of(snapshot: &Snapshot, within: Within<'_>, name: &str) -> Option<(String, String)> {
    let of = |table: &str, checks: &[Check]| {
        let mut enums = checks.iter().filter_map(enum_of_check);
        let found = enums.find(|(of, _)| of == name);
        found.map(|(_, column)| (table.to_owned(), column))
    };
    let tables = snapshot.tables(within.0, within.1).unwrap_or_default();
    let in_tables = tables.iter().find_map(|name| {
        let table = snapshot.table(within.0, within.1, name)?;
        of(name, &table.declared.as_ref()?.checks)
    });
    in_tables.or_else(|| {
        let relations = lookup::relations(snapshot, within.0, within.1);
        relations.iter().find_map(|name| {
            let relation = snapshot.relation(within.0, within.1, name)?;
            let declared = relation.schema().declared.as_ref()?;
            of(name, &declared.table.checks)
        })
    })
}

/// The types that the CHECKs of a definition name, of which one is not there.
pub fn missing_enumeration(
    snapshot: &Snapshot,
    within: (&str, &str),
    checks: &[Check],
) -> Option<String> {
    let named = checks.iter().filter_map(enum_of_check).map(|(of, _)| of);
    let mut missing =
        named.filter(|name| enumeration(snapshot, within.0, within.1, name).is_none());
    missing.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back_from_one_text() {
        let labels = ["a,b", "c\\", "", "d e", "\\,"].map(str::to_owned);
        assert_eq!(split(&joined(&labels)), labels);
        assert!(split(&joined(&[])).is_empty());
    }
}
