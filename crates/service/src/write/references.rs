//! Foreign keys among the relations of a schema: what a statement writes points to rows that are there, and rows that others point to
//! stay, or take those along.
//!
//! Does: keep a foreign key as a CHECK of its relation, whose expression calls [`REFERENCES`]; look for the rows at the end of a
//! statement, in a transaction, so that what was looked at stays as it is until its end: the row that is pointed to is locked by both
//! sides. Does not: defer anything to the end of a transaction, or look at tables over time.

mod altered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_engine::{
    Check, ConstraintKind, Declarations, Engine, Error as EngineError, NewRelation, PhysicalType,
    RelationChange, RelationReader, RelationSchema, Snapshot, Transaction, Value,
};

use crate::define::{DefineError, Object, Part, TableName, relations};
use crate::error::Error;
pub(crate) use altered::{check_altered, followed, look_up, refuse_new_values};

/// What the CHECK of a foreign key calls: its columns, the relation, the columns there, what becomes of DELETE and of UPDATE.
pub const REFERENCES: &str = "pg_references";

/// How often rows that go take others along in one statement.
const STEPS_MAX: usize = 1000;

/// What becomes of rows that point to one that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChange {
    /// They are in the way.
    NoAction,
    /// They go too, or point to the new key.
    Cascade,
    /// They point to nothing.
    SetNull,
}

impl OnChange {
    const ALL: [(Self, &'static str); 3] = [
        (Self::NoAction, "NO ACTION"),
        (Self::Cascade, "CASCADE"),
        (Self::SetNull, "SET NULL"),
    ];

    /// In SQL.
    pub fn text(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(of, _)| *of == self).map_or("", |(_, text)| text)
    }

    fn of(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, name)| *name == text).map(|(of, _)| of)
    }
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its columns.
    pub columns: Vec<String>,
    /// The relation that it points to, in the same schema.
    pub to: String,
    /// The columns there; empty = the primary key.
    pub to_columns: Vec<String>,
    /// When a row there is deleted.
    pub on_delete: OnChange,
    /// When the key of a row there changes.
    pub on_update: OnChange,
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Names as one text: a comma behind each, and a backslash before commas and backslashes in them.
fn joined(names: &[String]) -> String {
    let mut all = String::new();
    for name in names {
        for letter in name.chars() {
            if matches!(letter, ',' | '\\') {
                all.push('\\');
            }
            all.push(letter);
        }
        all.push(',');
    }
    all
}

fn split(all: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let mut letters = all.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next()),
            ',' => names.push(std::mem::take(&mut name)),
            other => name.push(other),
        }
    }
    names
}

impl ForeignKey {
    /// The expression of the CHECK that keeps it. To whoever evaluates it, it is true.
    pub fn expression(&self) -> String {
        let parts = [
            joined(&self.columns),
            self.to.clone(),
            joined(&self.to_columns),
            self.on_delete.text().to_owned(),
            self.on_update.text().to_owned(),
        ];
        let parts = parts.map(|part| quoted(&part));
        format!("{REFERENCES}({})", parts.join(", "))
    }

    /// The foreign key of a CHECK; `None` = it is another condition.
    pub fn of(check: &Check) -> Option<Self> {
        let rest = check.expression.strip_prefix(REFERENCES)?;
        let rest = rest.strip_prefix("('")?.strip_suffix("')")?;
        let parts: Vec<String> = rest
            .split("', '")
            .map(|part| part.replace("''", "'"))
            .collect();
        let [columns, to, to_columns, on_delete, on_update] = parts.as_slice() else {
            return None;
        };
        Some(Self {
            columns: split(columns),
            to: to.clone(),
            to_columns: split(to_columns),
            on_delete: OnChange::of(on_delete)?,
            on_update: OnChange::of(on_update)?,
        })
    }

    /// The columns that it points to.
    fn targets(&self, to: &RelationSchema) -> Vec<u32> {
        if self.to_columns.is_empty() {
            return to.primary_key.clone();
        }
        places(to, &self.to_columns).unwrap_or_default()
    }

    /// What is wrong with it, of a relation with these columns (name and stored type).
    pub fn refused(
        &self,
        columns: &[(String, PhysicalType)],
        to: &RelationSchema,
    ) -> Option<DefineError> {
        let targets = self.targets(to);
        let refuse = |reason: String| Some(DefineError::ForeignKey { reason });
        if self.to_columns.is_empty() && (to.row_number().is_some() || targets.is_empty()) {
            return refuse(format!(
                "there is no primary key for referenced table \"{}\"",
                self.to
            ));
        }
        let is_key = to.keys().any(|(_, key)| same(key, &targets));
        if !is_key {
            return refuse(format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                self.to
            ));
        }
        if targets.len() != self.columns.len() {
            return refuse(
                "number of referencing and referenced columns for foreign key disagree".to_owned(),
            );
        }
        for (name, at) in self.columns.iter().zip(&targets) {
            let own = columns.iter().find(|(column, _)| column == name);
            let other = to.columns.get(*at as usize);
            let (Some((_, own)), Some(other)) = (own, other) else {
                return refuse(format!(
                    "column \"{name}\" referenced in foreign key constraint does not exist"
                ));
            };
            if *own != other.kind {
                return refuse(format!(
                    "key columns \"{name}\" and \"{}\" are of incompatible types",
                    other.name
                ));
            }
        }
        None
    }
}

impl ForeignKey {
    /// What is wrong with one that points to its own relation.
    fn refused_in(&self, new: &NewRelation) -> Option<DefineError> {
        let to: BTreeSet<&String> = if self.to_columns.is_empty() {
            new.primary_key.iter().collect()
        } else {
            self.to_columns.iter().collect()
        };
        let mut keys = std::iter::once(&new.primary_key).chain(&new.unique);
        let is_key = keys.any(|key| key.iter().collect::<BTreeSet<_>>() == to);
        let kind = |name: &String| {
            let mut columns = new.columns.iter();
            columns.find(|it| it.name == *name).map(|it| it.kind)
        };
        let targets = if self.to_columns.is_empty() {
            &new.primary_key
        } else {
            &self.to_columns
        };
        let mut pairs = self.columns.iter().zip(targets);
        let is_fit = self.columns.len() == targets.len()
            && pairs.all(|(one, other)| kind(one).is_some() && kind(one) == kind(other));
        (!is_key || !is_fit).then(|| DefineError::ForeignKey {
            reason: format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                self.to
            ),
        })
    }
}

fn same(one: &[u32], other: &[u32]) -> bool {
    let sorted = |of: &[u32]| of.iter().copied().collect::<BTreeSet<u32>>();
    sorted(one) == sorted(other)
}

fn places(schema: &RelationSchema, names: &[String]) -> Option<Vec<u32>> {
    let place = |name: &String| {
        let mut columns = schema.columns.iter();
        let at = columns.position(|column| column.name == *name)?;
        u32::try_from(at).ok()
    };
    names.iter().map(place).collect()
}

/// The foreign keys of a relation, with their names.
pub fn foreign_keys(schema: &RelationSchema) -> Vec<(String, ForeignKey)> {
    let declared = schema.declared.iter();
    let checks = declared.flat_map(|declared| &declared.table.checks);
    let keys = checks.filter_map(|check| Some((check.name.clone(), ForeignKey::of(check)?)));
    keys.collect()
}

/// A foreign key that points to a relation.
struct Pointing {
    from: Arc<RelationSchema>,
    name: String,
    key: ForeignKey,
    /// Its columns, and those that it points to.
    columns: Vec<u32>,
    targets: Vec<u32>,
}

/// Foreign keys of a schema that point to a relation.
fn pointing(snapshot: &Snapshot, within: (&str, &str), to: &RelationSchema) -> Vec<Pointing> {
    let mut found = Vec::new();
    for name in relations(snapshot, within.0, within.1) {
        let Some(reader) = snapshot.relation(within.0, within.1, &name) else {
            continue;
        };
        for (name, key) in foreign_keys(reader.schema()) {
            if key.to != to.name {
                continue;
            }
            let Some(columns) = places(reader.schema(), &key.columns) else {
                continue;
            };
            found.push(Pointing {
                from: Arc::clone(reader.schema()),
                targets: key.targets(to),
                name,
                key,
                columns,
            });
        }
    }
    found
}

/// A relation of the schema that points to one, other than itself; `None` = none does.
fn pointed_by(
    snapshot: &Snapshot,
    within: (&str, &str),
    to: &RelationSchema,
) -> Option<(String, String)> {
    let all = pointing(snapshot, within, to).into_iter();
    let mut others = all.filter(|it| it.from.id != to.id);
    others.next().map(|it| (it.from.name.clone(), it.name))
}

/// Refuses to drop a relation that others point to.
pub(crate) fn refuse_pointed_to(
    snapshot: &Snapshot,
    name: &TableName,
    relation: &RelationSchema,
) -> Result<(), Error> {
    let within = (name.database.as_str(), name.schema.as_str());
    let Some((from, constraint)) = pointed_by(snapshot, within, relation) else {
        return Ok(());
    };
    let table = name.table.clone();
    let pointed_to = DefineError::PointedTo {
        table,
        from,
        constraint,
    };
    Err(pointed_to.about(Part::Name))
}

/// Refuses a new relation whose foreign keys point nowhere.
pub(crate) fn check_new(
    snapshot: &Snapshot,
    name: &TableName,
    new: &NewRelation,
    declared: &Declarations,
) -> Result<(), Error> {
    let columns = new.columns.iter();
    let columns: Vec<(String, PhysicalType)> =
        columns.map(|it| (it.name.clone(), it.kind)).collect();
    for key in declared.table.checks.iter().filter_map(ForeignKey::of) {
        let refused = if key.to == name.table {
            key.refused_in(new)
        } else {
            let to = snapshot.relation(&name.database, &name.schema, &key.to);
            let to = to.ok_or_else(|| unknown_table(&key.to).about(Part::Name))?;
            key.refused(&columns, to.schema())
        };
        if let Some(refused) = refused {
            return Err(refused.about(Part::Name));
        }
    }
    Ok(())
}

fn unknown_table(name: &str) -> DefineError {
    DefineError::Unknown {
        what: Object::Table,
        name: name.to_owned(),
        nearest: None,
    }
}

fn values(row: &[Value], places: &[u32]) -> Vec<Value> {
    let values = places
        .iter()
        .filter_map(|at| row.get(*at as usize).cloned());
    values.collect()
}

fn text_of(key: &[Value]) -> String {
    let texts = key.iter().map(|value| format!("{value:?}"));
    texts.collect::<Vec<_>>().join("\u{1f}")
}

/// The row of a key, by the primary or another one.
fn row_of(reader: &RelationReader, places: &[u32], key: &[Value]) -> Option<Arc<[Value]>> {
    let schema = reader.schema();
    let ordered = |of: &[u32]| -> Vec<Value> {
        let place = |at: &u32| places.iter().position(|place| place == at);
        let values = of.iter().filter_map(|at| key.get(place(at)?).cloned());
        values.collect()
    };
    if same(&schema.primary_key, places) {
        return reader.get(&ordered(&schema.primary_key));
    }
    let nth = schema
        .unique
        .iter()
        .position(|unique| same(unique, places))?;
    reader.get_unique(nth, &ordered(schema.unique.get(nth)?))
}

/// A row before a statement, and after it; `None` = it is gone.
type Moved = (Vec<Value>, Option<Vec<Value>>);

/// Writes changes of relations of a schema, as [`Engine::write_relations`] does, with what their foreign keys ask for.
pub fn write_relations(
    engine: &Arc<Engine>,
    transaction: Option<&Arc<Transaction>>,
    snapshot: Option<&Snapshot>,
    within: (&str, &str),
    changes: &[RelationChange],
) -> Result<(), EngineError> {
    engine.check_relation_values(changes)?;
    if !are_concerned(engine, transaction, within, changes) {
        return match (transaction, snapshot) {
            (Some(transaction), snapshot) => transaction.write_relations(snapshot, changes),
            (None, Some(snapshot)) => engine.write_relations_as_seen(snapshot, changes).map(drop),
            (None, None) => engine.write_relations(changes).map(drop),
        };
    }
    let own = match transaction {
        Some(transaction) => Arc::clone(transaction),
        None => engine.begin()?,
    };
    let place = own.savepoint()?;
    let statement = Statement { own: &own, within };
    if let Err(error) = statement.write(snapshot, changes) {
        // Rows are written before it is known that another's transaction has to be waited for, and the statement begins again then.
        own.rollback_to(&place)?;
        return Err(error);
    }
    drop(place);
    if transaction.is_none() {
        own.commit()?;
    }
    Ok(())
}

/// Whether relations that changes are of point to others, or others to them. The snapshot that it takes is gone on return: while
/// there is one, a transaction would copy all that it has written before it writes more.
pub(super) fn are_concerned(
    engine: &Arc<Engine>,
    transaction: Option<&Arc<Transaction>>,
    within: (&str, &str),
    changes: &[RelationChange],
) -> bool {
    let now = match transaction {
        Some(transaction) => transaction.snapshot(),
        None => engine.snapshot(),
    };
    changes.iter().any(|change| {
        let schema = change.schema();
        let points =
            !matches!(change, RelationChange::Delete(..)) && !foreign_keys(schema).is_empty();
        let is_pointed_to = !matches!(change, RelationChange::Insert(..))
            && !pointing(&now, within, schema).is_empty();
        points || is_pointed_to
    })
}

struct Statement<'a> {
    own: &'a Arc<Transaction>,
    within: (&'a str, &'a str),
}

impl Statement<'_> {
    fn reader(&self, snapshot: &Snapshot, name: &str) -> Option<RelationReader> {
        snapshot.relation(self.within.0, self.within.1, name)
    }

    fn write(
        &self,
        snapshot: Option<&Snapshot>,
        changes: &[RelationChange],
    ) -> Result<(), EngineError> {
        let before = self.own.snapshot();
        self.own.write_relations(snapshot, changes)?;
        let mut written: Vec<RelationChange> = changes.to_vec();
        let mut waiting = self.moved(&before, changes);
        let mut steps = 0;
        while let Some((schema, moved)) = waiting.pop() {
            steps += 1;
            if steps > STEPS_MAX {
                return Err(EngineError::Deadlock);
            }
            let before = self.own.snapshot();
            let taken = self.taken_along(&before, &schema, &moved)?;
            if taken.is_empty() {
                continue;
            }
            self.own.write_relations(None, &taken)?;
            waiting.extend(self.moved(&before, &taken));
            written.extend(taken);
        }
        self.check(&written)
    }

    /// The rows that changes delete or replace, by relation.
    fn moved(
        &self,
        before: &Snapshot,
        changes: &[RelationChange],
    ) -> Vec<(Arc<RelationSchema>, Vec<Moved>)> {
        let mut all = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            let Some(reader) = self.reader(before, &change.schema().name) else {
                continue;
            };
            let moved: Vec<Moved> = match change {
                RelationChange::Insert(..) => continue,
                RelationChange::Replace(schema, rows) => {
                    let moved = rows.iter().filter_map(|row| {
                        let old = reader.get(&values(row, &schema.primary_key))?;
                        Some((old.to_vec(), Some(row.clone())))
                    });
                    moved.collect()
                }
                RelationChange::Delete(schema, keys) => {
                    // An UPDATE of a key deletes rows and inserts them with their new ones, in the same order.
                    let next = match changes.get(at + 1) {
                        Some(RelationChange::Insert(of, rows))
                            if of.id == schema.id && rows.len() == keys.len() =>
                        {
                            Some(rows)
                        }
                        _ => None,
                    };
                    let moved = keys.iter().enumerate().filter_map(|(nth, key)| {
                        let new = next.and_then(|rows| rows.get(nth).cloned());
                        Some((reader.get(key)?.to_vec(), new))
                    });
                    moved.collect()
                }
            };
            all.push((Arc::clone(change.schema()), moved));
        }
        all
    }

    /// What becomes of the rows that point to rows that have moved.
    fn taken_along(
        &self,
        now: &Snapshot,
        to: &Arc<RelationSchema>,
        moved: &[Moved],
    ) -> Result<Vec<RelationChange>, EngineError> {
        let mut changes = Vec::new();
        let Some(there) = self.reader(now, &to.name) else {
            return Ok(changes);
        };
        for pointing in pointing(now, self.within, to) {
            let targets = &pointing.targets;
            let mut gone: BTreeMap<String, Option<Vec<Value>>> = BTreeMap::new();
            for (old, new) in moved {
                let key = values(old, targets);
                if key.contains(&Value::Null) || row_of(&there, targets, &key).is_some() {
                    continue;
                }
                gone.insert(text_of(&key), new.as_ref().map(|new| values(new, targets)));
            }
            if gone.is_empty() {
                continue;
            }
            let Some(reader) = self.reader(now, &pointing.from.name) else {
                continue;
            };
            let (mut deleted, mut replaced) = (Vec::new(), Vec::new());
            for row in reader.rows() {
                let key = values(&row, &pointing.columns);
                let Some(new) = gone.get(&text_of(&key)) else {
                    continue;
                };
                let action = match new {
                    Some(_) => pointing.key.on_update,
                    None => pointing.key.on_delete,
                };
                let set = |to: &dyn Fn(usize) -> Value| {
                    let mut row = row.to_vec();
                    for (nth, at) in pointing.columns.iter().enumerate() {
                        if let Some(cell) = row.get_mut(*at as usize) {
                            *cell = to(nth);
                        }
                    }
                    row
                };
                match (action, new) {
                    (OnChange::NoAction, _) => return Err(in_the_way(to, &pointing, &key)),
                    (OnChange::Cascade, None) => {
                        deleted.push(values(&row, &pointing.from.primary_key));
                    }
                    (OnChange::Cascade, Some(new)) => {
                        let new = set(&|nth| new.get(nth).cloned().unwrap_or(Value::Null));
                        let old = values(&row, &pointing.from.primary_key);
                        if values(&new, &pointing.from.primary_key) == old {
                            replaced.push(new);
                        } else {
                            return Err(in_the_way(to, &pointing, &key));
                        }
                    }
                    (OnChange::SetNull, _) => replaced.push(set(&|_| Value::Null)),
                }
            }
            if !deleted.is_empty() {
                changes.push(RelationChange::Delete(Arc::clone(&pointing.from), deleted));
            }
            if !replaced.is_empty() {
                changes.push(RelationChange::Replace(
                    Arc::clone(&pointing.from),
                    replaced,
                ));
            }
        }
        Ok(changes)
    }

    /// Refuses rows that point to none. The rows that they point to are locked first, so that they are there until the end.
    fn check(&self, written: &[RelationChange]) -> Result<(), EngineError> {
        for change in written {
            let (RelationChange::Insert(schema, rows) | RelationChange::Replace(schema, rows)) =
                change
            else {
                continue;
            };
            for (name, key) in foreign_keys(schema) {
                let now = self.own.snapshot();
                let Some(columns) = places(schema, &key.columns) else {
                    continue;
                };
                let there = self.reader(&now, &key.to);
                let targets = there.as_ref().map(|it| key.targets(it.schema()));
                let targets = targets.unwrap_or_default();
                let mut wanted: BTreeMap<String, (usize, Vec<Value>)> = BTreeMap::new();
                for (nth, row) in rows.iter().enumerate() {
                    let key = values(row, &columns);
                    if !key.contains(&Value::Null) {
                        wanted.entry(text_of(&key)).or_insert((nth, key));
                    }
                }
                let found = |reader: Option<&RelationReader>| {
                    let missing = wanted.values().find(|(_, key)| {
                        reader.is_none_or(|reader| row_of(reader, &targets, key).is_none())
                    });
                    match missing {
                        Some((nth, values)) => {
                            Err(missing_row(schema, (&name, &key), *nth, values))
                        }
                        None => Ok(()),
                    }
                };
                found(there.as_ref())?;
                let Some(there) = there else { continue };
                let rows = wanted.values();
                let rows = rows.filter_map(|(_, key)| row_of(&there, &targets, key));
                let keys: Vec<Vec<Value>> = rows
                    .map(|row| values(&row, &there.schema().primary_key))
                    .collect();
                if keys.is_empty() {
                    continue;
                }
                let to = Arc::clone(there.schema());
                self.own.lock_rows(&[RelationChange::Delete(to, keys)])?;
                // Somebody may have been faster.
                let now = self.own.snapshot();
                found(self.reader(&now, &key.to).as_ref())?;
            }
        }
        Ok(())
    }
}

fn shown(columns: &[String], key: &[Value]) -> String {
    let values: Vec<String> = key.iter().map(ToString::to_string).collect();
    format!("({})=({})", columns.join(", "), values.join(", "))
}

fn missing_row(
    schema: &RelationSchema,
    (name, of): (&str, &ForeignKey),
    row: usize,
    key: &[Value],
) -> EngineError {
    EngineError::Constraint {
        kind: ConstraintKind::ForeignKey,
        table: schema.name.clone(),
        column: None,
        constraint: Some(name.to_owned()),
        row: row + 1,
        reason: format!(
            "the key {} is not present in table \"{}\"",
            shown(&of.columns, key),
            of.to
        ),
    }
}

fn in_the_way(to: &RelationSchema, pointing: &Pointing, key: &[Value]) -> EngineError {
    let names = pointing.targets.iter();
    let names = names.filter_map(|at| Some(to.columns.get(*at as usize)?.name.clone()));
    EngineError::Constraint {
        kind: ConstraintKind::ForeignKey,
        table: to.name.clone(),
        column: None,
        constraint: Some(pointing.name.clone()),
        row: 1,
        reason: format!(
            "the key {} is still referenced from table \"{}\"",
            shown(&names.collect::<Vec<_>>(), key),
            pointing.from.name
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_a_foreign_key_is() {
        let key = ForeignKey {
            columns: vec!["a,b".to_owned(), "it's".to_owned()],
            to: "other 'one'".to_owned(),
            to_columns: Vec::new(),
            on_delete: OnChange::Cascade,
            on_update: OnChange::NoAction,
        };
        let check = Check {
            name: "t_a_fkey".to_owned(),
            expression: key.expression(),
        };
        assert_eq!(ForeignKey::of(&check), Some(key));
        let other = Check {
            expression: "a > 1".to_owned(),
            ..check
        };
        assert_eq!(ForeignKey::of(&other), None);
    }
}
