//! Foreign keys of a relation that ALTER TABLE changes, and those of others that point to it.
//!
//! Does: refuse new ones that point nowhere, have those of others follow its names, say which are in the way, look up what rows that
//! are there point to. Does not: change the relation (`define/run/relation.rs` does).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use nilometer_engine::{
    Check, Declarations, Declared, Error as EngineError, LogicalType, PhysicalType, RelationChange,
    RelationId, RelationReader, RelationSchema, Snapshot, Swapped, Transaction, Value,
};

use super::{
    ForeignKey, Statement, foreign_keys, missing_row, places, pointing, same, text_of,
    unknown_table, values,
};
use crate::define::{DefineError, Part, TableName};
use crate::error::Error;

/// Refuses foreign keys of a relation that is changed: new ones that point nowhere, and those to itself whose key is gone.
pub(crate) fn check_altered(
    snapshot: &Snapshot,
    name: &TableName,
    known: &RelationSchema,
    made: &Swapped,
) -> Result<(), Error> {
    let columns = made.schema.columns.iter();
    let columns: Vec<(String, PhysicalType)> =
        columns.map(|it| (it.name.clone(), it.kind)).collect();
    let had = foreign_keys(known);
    for check in &made.declared.table.checks {
        let Some(key) = ForeignKey::of(check) else {
            continue;
        };
        let is_new = had.iter().all(|(name, _)| *name != check.name);
        if key.to == made.schema.name {
            match key.refused(&columns, &made.schema) {
                Some(refused) if is_new => return Err(refused.about(Part::Other)),
                Some(_) => {
                    let own = name.table.clone();
                    return Err(counted_on(name, "the key", own, &check.name));
                }
                None => {}
            }
            let own: Vec<Typed<'_>> = typed(&made.schema, &made.declared.columns);
            refuse_types(&check.name, &key, &own, &own, &key.targets(&made.schema))?;
            continue;
        }
        let to = relation_of(snapshot, name, &key.to)?;
        let to = to.schema();
        if is_new && let Some(refused) = key.refused(&columns, to) {
            return Err(refused.about(Part::Other));
        }
        let own = typed(&made.schema, &made.declared.columns);
        let said = to.declared.as_ref().map_or(&[][..], |it| &it.columns);
        refuse_types(&check.name, &key, &own, &typed(to, said), &key.targets(to))?;
    }
    Ok(())
}

/// Refuses a statement that says what columns become which foreign keys count on: their rows would point nowhere.
pub(crate) fn refuse_new_values(
    snapshot: &Snapshot,
    name: &TableName,
    known: &RelationSchema,
    columns: &[&str],
) -> Result<(), Error> {
    let within = (name.database.as_str(), name.schema.as_str());
    let own = foreign_keys(known).into_iter();
    let own = own.map(|(constraint, key)| (constraint, key.columns));
    let others = pointing(snapshot, within, known).into_iter();
    let others = others.map(|pointing| {
        let targets = pointing.targets.iter();
        let targets = targets.filter_map(|at| known.columns.get(*at as usize));
        let names = targets.map(|column| column.name.clone()).collect();
        (pointing.name, names)
    });
    for (constraint, of) in own.chain(others) {
        let of: Vec<String> = of;
        if let Some(column) = of.iter().find(|column| columns.contains(&column.as_str())) {
            let refused = DefineError::NotCast {
                reason: format!(
                    "USING says other values of column \"{column}\", which the foreign key \"{constraint}\" counts on; drop that constraint first, and add it again afterwards"
                ),
            };
            return Err(refused.about(Part::Other));
        }
    }
    Ok(())
}

fn relation_of(snapshot: &Snapshot, name: &TableName, to: &str) -> Result<RelationReader, Error> {
    let found = snapshot.relation(&name.database, &name.schema, to);
    found.ok_or_else(|| unknown_table(to).about(Part::Other))
}

/// A column's name and type.
type Typed<'a> = (&'a str, PhysicalType, Option<LogicalType>);

fn typed<'a>(schema: &'a RelationSchema, said: &[Declared]) -> Vec<Typed<'a>> {
    let columns = schema.columns.iter().enumerate();
    let columns = columns.map(|(at, it)| {
        let of = said.get(at).and_then(|said| said.of);
        (it.name.as_str(), it.kind, of)
    });
    columns.collect()
}

/// Refuses a foreign key whose columns are not of the types that they point to: the same value is not the same bytes then.
fn refuse_types(
    name: &str,
    key: &ForeignKey,
    from: &[Typed<'_>],
    to: &[Typed<'_>],
    targets: &[u32],
) -> Result<(), Error> {
    for (column, at) in key.columns.iter().zip(targets) {
        let own = from.iter().find(|(known, ..)| known == column);
        let (Some(own), Some(other)) = (own, to.get(*at as usize)) else {
            continue;
        };
        if is_kept_alike((own.1, own.2), (other.1, other.2)) {
            continue;
        }
        let refused = DefineError::NotCast {
            reason: format!(
                "foreign key constraint \"{name}\" cannot be implemented: the key columns \"{column}\" and \"{}\" are of incompatible types; drop the constraint first",
                other.0
            ),
        };
        return Err(refused.about(Part::Other));
    }
    Ok(())
}

/// Whether values of two types are equal where their stored values are.
fn is_kept_alike(
    one: (PhysicalType, Option<LogicalType>),
    other: (PhysicalType, Option<LogicalType>),
) -> bool {
    use LogicalType as L;
    if one.0 != other.0 {
        return false;
    }
    let plain = |of: Option<LogicalType>| match of {
        Some(L::SmallInt | L::Integer | L::BigInt | L::Real | L::Varchar(_) | L::Char(_)) => None,
        Some(L::Numeric { scale: 0, .. }) if one.0 == PhysicalType::I64 => None,
        Some(L::Numeric { scale, .. }) => Some(L::Numeric {
            precision: 0,
            scale,
        }),
        of => of,
    };
    plain(one.1) == plain(other.1)
}

fn counted_on(name: &TableName, what: &str, from: String, constraint: &str) -> Error {
    let counted_on = DefineError::CountedOn {
        what: what.to_owned(),
        table: name.table.clone(),
        from,
        constraint: constraint.to_owned(),
    };
    counted_on.about(Part::Other)
}

/// What becomes of the foreign keys of others that point to a relation that is changed: they follow its names, and are in the way
/// where the key is gone that they point to, or go with it.
pub(crate) fn followed(
    snapshot: &Snapshot,
    name: &TableName,
    known: &Arc<RelationSchema>,
    (swapped, origin): (&Swapped, &[Option<usize>]),
    cascades: bool,
) -> Result<Vec<(RelationId, Declarations)>, Error> {
    let within = (name.database.as_str(), name.schema.as_str());
    let made = &swapped.schema;
    let mut all: BTreeMap<RelationId, Declarations> = BTreeMap::new();
    for pointing in pointing(snapshot, within, known) {
        if pointing.from.id == known.id {
            continue;
        }
        let place = |at: &u32| {
            let place = origin.iter().position(|from| *from == Some(*at as usize));
            place.and_then(|place| u32::try_from(place).ok())
        };
        let now: Option<Vec<u32>> = pointing.targets.iter().map(place).collect();
        let is_key = |now: &Vec<u32>| {
            if pointing.key.to_columns.is_empty() {
                return same(&made.primary_key, now);
            }
            let mut keys = std::iter::once(&made.primary_key).chain(&made.unique);
            keys.any(|key| same(key, now))
        };
        let now = now.filter(is_key);
        if let Some(now) = &now {
            let from = &pointing.from;
            let said = from.declared.as_ref().map_or(&[][..], |it| &it.columns);
            let to = typed(made, &swapped.declared.columns);
            refuse_types(&pointing.name, &pointing.key, &typed(from, said), &to, now)?;
        }
        let key = now.map(|now| {
            let names = now.iter().filter_map(|at| made.columns.get(*at as usize));
            let is_primary = pointing.key.to_columns.is_empty() && made.primary_key == now;
            let names = names.map(|column| column.name.clone());
            ForeignKey {
                to: made.name.clone(),
                to_columns: if is_primary {
                    Vec::new()
                } else {
                    names.collect()
                },
                ..pointing.key.clone()
            }
        });
        if key.as_ref() == Some(&pointing.key) {
            continue;
        }
        if key.is_none() && !cascades {
            let from = pointing.from.name.clone();
            return Err(counted_on(name, "a key", from, &pointing.name));
        }
        let of = &pointing.from;
        let said = all
            .entry(of.id)
            .or_insert_with(|| of.declared.as_deref().cloned().unwrap_or_default());
        said.columns.resize(of.columns.len(), Declared::default());
        let checks = &mut said.table.checks;
        match key {
            None => checks.retain(|check| check.name != pointing.name),
            Some(key) => {
                for check in checks.iter_mut().filter(|it| it.name == pointing.name) {
                    check.expression = key.expression();
                }
            }
        }
    }
    Ok(all.into_iter().collect())
}

/// Looks up what rows of a relation point to, and locks it until the transaction ends. Those that point to rows of the relation itself
/// are looked for among the rows, as it may get the key that they point to in the same statement.
pub(crate) fn look_up(
    own: &Arc<Transaction>,
    within: (&str, &str),
    schema: &RelationSchema,
    rows: Vec<Vec<Value>>,
) -> Result<(), EngineError> {
    for (name, key) in foreign_keys(schema) {
        if key.to == schema.name {
            look_up_own(schema, (&name, &key), &rows)?;
        }
    }
    let mut others = schema.clone();
    let mut declared = others.declared.as_deref().cloned().unwrap_or_default();
    let is_own = |check: &Check| ForeignKey::of(check).is_some_and(|key| key.to == schema.name);
    declared.table.checks.retain(|check| !is_own(check));
    others.declared = Some(Arc::new(declared));
    let statement = Statement { own, within };
    statement.check(&[RelationChange::Insert(Arc::new(others), rows)])
}

fn look_up_own(
    schema: &RelationSchema,
    (name, key): (&str, &ForeignKey),
    rows: &[Vec<Value>],
) -> Result<(), EngineError> {
    let targets = key.targets(schema);
    let columns = places(schema, &key.columns).unwrap_or_default();
    let there: HashSet<String> = rows
        .iter()
        .map(|row| text_of(&values(row, &targets)))
        .collect();
    for (nth, row) in rows.iter().enumerate() {
        let wanted = values(row, &columns);
        if !wanted.contains(&Value::Null) && !there.contains(&text_of(&wanted)) {
            return Err(missing_row(schema, (name, key), nth, &wanted));
        }
    }
    Ok(())
}
