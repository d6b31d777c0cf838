//! Indexes that are no keys: kept, shown and dropped, and nothing else. The store orders and skips by tags, time and statistics.
//!
//! Does: keep what was said of each as a row in the schema it is in. Does not: speed anything up; say which column of a
//! hypertable becomes a tag (`hypertables.rs` reads them for that).

use std::sync::Arc;

use nilometer_engine::{
    Engine, Error as EngineError, PhysicalType, RelationChange, Snapshot, Value,
};

use super::kept::{Kept, Within, integer, text};
use super::own_relations::INDEXES;
use super::run::expression::{mentions, renamed};

/// Names that are tried for an index without one.
const NAMES_MAX: usize = 1000;

const KEPT: Kept = Kept {
    relation: INDEXES,
    columns: &[
        ("name", PhysicalType::Text),
        ("owner", PhysicalType::Text),
        ("columns", PhysicalType::Text),
        ("definition", PhysicalType::Text),
        ("nth", PhysicalType::I64),
    ],
};

/// An index as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIndex {
    /// Its name; `None` = the one that PostgreSQL would give it.
    pub name: Option<String>,
    /// One of the name is no error.
    pub if_not_exists: bool,
    /// No two rows have the same values.
    pub is_unique: bool,
    /// Its columns; `None` = an expression.
    pub columns: Vec<Option<String>>,
    /// What follows the table's name, from USING on.
    pub definition: String,
}

/// An index that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its columns; `None` = an expression.
    pub columns: Vec<Option<String>>,
    /// What follows the table's name, from USING on.
    pub definition: String,
}

/// Whose an index is: a table or a relation by its id, which another of its name does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A table.
    Table(nilometer_engine::TableId),
    /// A relation.
    Relation(nilometer_engine::RelationId),
}

impl Owner {
    fn text(self) -> String {
        match self {
            Self::Table(id) => format!("t{}", id.0),
            Self::Relation(id) => format!("r{}", id.0),
        }
    }

    fn of(text: &str) -> Option<Self> {
        let (kind, id) = text.split_at_checked(1)?;
        match kind {
            "t" => Some(Self::Table(nilometer_engine::TableId(id.parse().ok()?))),
            "r" => Some(Self::Relation(nilometer_engine::RelationId(
                id.parse().ok()?,
            ))),
            _ => None,
        }
    }
}

fn read(row: &[Value]) -> Index {
    let columns = text(row, 2);
    let columns = columns.split('\n').filter(|_| !columns.is_empty());
    let column = |name: &str| name.strip_prefix('c').map(str::to_owned);
    Index {
        name: text(row, 0).to_owned(),
        columns: columns.map(column).collect(),
        definition: text(row, 3).to_owned(),
    }
}

/// All indexes of a schema, in the order in which they were made.
pub fn indexes(snapshot: &Snapshot, (database, schema): (&str, &str)) -> Vec<(Owner, Index)> {
    let mut rows = KEPT.rows(snapshot, (database, schema));
    rows.sort_by_key(|row| integer(row, 4));
    let each = rows.iter();
    each.filter_map(|row| Some((Owner::of(text(row, 1))?, read(row))))
        .collect()
}

/// The indexes of a table or relation, in the order in which they were made.
pub fn indexes_of(
    snapshot: &Snapshot,
    (database, schema): (&str, &str),
    owner: Owner,
) -> Vec<Index> {
    let owner = owner.text();
    let mut rows = KEPT.rows(snapshot, (database, schema));
    rows.retain(|row| text(row, 1) == owner);
    rows.sort_by_key(|row| integer(row, 4));
    rows.iter().map(|row| read(row)).collect()
}

/// Whose an index is that has this name; `None` = there is none.
pub(super) fn owner_text(snapshot: &Snapshot, within: Within<'_>, name: &str) -> Option<String> {
    Some(text(&KEPT.row(snapshot, within, name)?, 1).to_owned())
}

/// Whether the text of an owner is of this one.
pub(super) fn is_of(text: &str, owner: Owner) -> bool {
    text == owner.text()
}

/// Keeps an index. One without a name gets the first that is free after `base`.
pub(super) fn keep(
    engine: &Arc<Engine>,
    within: Within<'_>,
    owner: Owner,
    (name, base): (Option<&str>, &str),
    new: &NewIndex,
) -> Result<(), EngineError> {
    let columns: Vec<String> = new
        .columns
        .iter()
        .map(|column| {
            column
                .as_ref()
                .map_or_else(|| "x".to_owned(), |it| format!("c{it}"))
        })
        .collect();
    let nth = i64::try_from(engine.snapshot().lsn()).unwrap_or(i64::MAX);
    let row = |name: &str| {
        vec![
            Value::from(name),
            Value::from(owner.text().as_str()),
            Value::from(columns.join("\n").as_str()),
            Value::from(new.definition.as_str()),
            Value::from(nth),
        ]
    };
    if let Some(name) = name {
        return KEPT.add(engine, within, row(name));
    }
    for nth in 0..NAMES_MAX {
        let name = match nth {
            0 => base.to_owned(),
            nth => format!("{base}{nth}"),
        };
        match KEPT.add(engine, within, row(&name)) {
            Err(EngineError::RelationKey { .. }) => {}
            done => return done,
        }
    }
    Err(EngineError::ExistsAlready {
        what: "relation",
        name: base.to_owned(),
        place: format!("\"{}\".\"{}\"", within.0, within.1),
    })
}

/// What gives the indexes of one to another, which stands in its place; columns have other names there, or are gone, and so are
/// their indexes then.
pub(super) fn handed_over(
    snapshot: &Snapshot,
    within: Within<'_>,
    from: Owner,
    to: Owner,
    columns: &[(String, Option<String>)],
) -> Vec<RelationChange> {
    let Some(reader) = KEPT.reader(snapshot, within) else {
        return Vec::new();
    };
    let (from, to) = (from.text(), to.text());
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for row in reader.rows().iter().filter(|row| text(row, 1) == from) {
        let mut names = text(row, 2).to_owned();
        let mut definition = text(row, 3).to_owned();
        let index = read(row);
        let uses = |column: &str| {
            index.columns.iter().flatten().any(|name| name == column)
                || mentions(&index.definition, column)
        };
        let mut is_gone = false;
        for (column, now) in columns {
            match now {
                None => is_gone |= uses(column),
                Some(now) if now != column => {
                    let parts = names.split('\n').map(|name| match name.strip_prefix('c') {
                        Some(name) if name == column => format!("c{now}"),
                        _ => name.to_owned(),
                    });
                    names = parts.collect::<Vec<_>>().join("\n");
                    definition = renamed(&definition, column, now);
                }
                Some(_) => {}
            }
        }
        if is_gone {
            gone.push(vec![Value::from(index.name.as_str())]);
            continue;
        }
        let mut row = row.to_vec();
        for (at, value) in [(1, &to), (2, &names), (3, &definition)] {
            if let Some(cell) = row.get_mut(at) {
                *cell = Value::from(value.as_str());
            }
        }
        rows.push(row);
    }
    let schema = reader.schema();
    let mut changes = vec![RelationChange::Replace(Arc::clone(schema), rows)];
    if !gone.is_empty() {
        changes.push(RelationChange::Delete(Arc::clone(schema), gone));
    }
    changes
}

/// Forgets the indexes of a table or relation that is gone.
pub(super) fn forget_of(
    engine: &Arc<Engine>,
    within: Within<'_>,
    owner: Owner,
) -> Result<(), EngineError> {
    let owner = owner.text();
    let mut rows = KEPT.rows(&engine.snapshot(), within);
    rows.retain(|row| text(row, 1) == owner);
    let keys = rows.iter().map(|row| Value::from(text(row, 0)));
    KEPT.forget(engine, within, keys.collect())
}

/// Forgets one.
pub(super) fn forget(
    engine: &Arc<Engine>,
    within: Within<'_>,
    name: &str,
) -> Result<(), EngineError> {
    KEPT.forget(engine, within, vec![Value::from(name)])
}
