//! Relations of a store as plain maps, and rows of plans as the store takes them.
//!
//! Does: read each relation whole, and each of its rows again by every key. Does not: know what should be there.

use std::sync::Arc;

use nilometer_engine::{RelationChange, RelationReader, RelationSchema, Snapshot, Value as Stored};

use crate::model::Relation;
use crate::plan::places::split;
use crate::plan::{COLUMNS, RelationRow, RelationStep, SHAPES, Shape, Value};
use crate::read::values;

/// A step as the store takes it.
pub(crate) fn change_of(
    schema: &Arc<RelationSchema>,
    shape: Shape,
    step: &RelationStep,
) -> RelationChange {
    let whole = |rows: &[RelationRow]| rows.iter().map(stored).collect();
    let keys = |rows: &[RelationRow]| {
        let key = |row: &RelationRow| {
            let columns = shape.primary_key().iter();
            columns
                .map(|at| stored_value(row.get(*at).and_then(Option::as_ref)))
                .collect()
        };
        rows.iter().map(key).collect()
    };
    let schema = Arc::clone(schema);
    match step {
        RelationStep::Insert(rows) => RelationChange::Insert(schema, whole(rows)),
        RelationStep::Replace(rows) => RelationChange::Replace(schema, whole(rows)),
        RelationStep::Delete(rows) => RelationChange::Delete(schema, keys(rows)),
    }
}

fn stored(row: &RelationRow) -> Vec<Stored> {
    row.iter()
        .map(|value| stored_value(value.as_ref()))
        .collect()
}

fn stored_value(value: Option<&Value>) -> Stored {
    match value {
        None => Stored::Null,
        Some(Value::Float(bits)) => Stored::F64(f64::from_bits(*bits)),
        Some(Value::Integer(value)) => Stored::I64(*value),
        Some(Value::Unsigned(value)) => Stored::U64(*value),
        Some(Value::Boolean(value)) => Stored::Bool(*value),
        Some(Value::Text(text)) => Stored::from(text.as_str()),
    }
}

/// All relations of a place, by name.
pub(super) fn read_relations(
    snapshot: &Snapshot,
    place: &str,
) -> Result<Vec<(String, Relation)>, String> {
    let (database, schema) = split(place);
    let names = snapshot.relations(database, schema).unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        let reader = snapshot
            .relation(database, schema, &name)
            .ok_or_else(|| format!("relation {place}.{name} is listed and not there"))?;
        let read = read_one(&reader).map_err(|what| format!("relation {place}.{name}: {what}"))?;
        all.push((name, read));
    }
    Ok(all)
}

fn shape_of(schema: &RelationSchema) -> Option<Shape> {
    (0..SHAPES).map(Shape).find(|shape| {
        let definition = shape.definition();
        let names = |key: &[u32]| -> Vec<String> {
            let columns = key.iter().filter_map(|at| schema.columns.get(*at as usize));
            columns.map(|column| column.name.clone()).collect()
        };
        let unique: Vec<Vec<String>> = schema.unique.iter().map(|key| names(key)).collect();
        definition.columns == schema.columns
            && definition.primary_key == names(&schema.primary_key)
            && definition.unique == unique
    })
}

pub(crate) fn read_one(reader: &RelationReader) -> Result<Relation, String> {
    let shape = shape_of(reader.schema()).ok_or("it has a shape that nobody asked for")?;
    let mut relation = Relation::new(shape);
    let projection: Vec<usize> = (0..COLUMNS.len()).collect();
    for batch in reader.read(&projection) {
        let columns: Vec<Vec<Option<Value>>> = batch
            .columns()
            .iter()
            .map(|column| values(column.as_ref()))
            .collect::<Result<_, _>>()?;
        for at in 0..batch.num_rows() {
            let values = columns
                .iter()
                .map(|column| column.get(at).cloned().flatten());
            let row: RelationRow = values.collect();
            let key = Relation::key(shape.primary_key(), &row).ok_or("a row has no key")?;
            by_every_key(reader, shape, &row)?;
            if relation.rows.insert(key, row).is_some() {
                return Err("two rows have one primary key".to_owned());
            }
        }
    }
    Ok(relation)
}

/// Whether each key of a row leads to it.
fn by_every_key(reader: &RelationReader, shape: Shape, row: &RelationRow) -> Result<(), String> {
    let wanted = stored(row);
    let is_it = |found: Option<Arc<[Stored]>>| {
        found.is_some_and(|found| {
            let mut both = found.iter().zip(&wanted);
            both.all(|pair| match pair {
                (Stored::F64(a), Stored::F64(b)) => a.to_bits() == b.to_bits(),
                (a, b) => a == b,
            })
        })
    };
    let key = |columns: &[usize]| -> Option<Vec<Stored>> {
        Relation::key(columns, row).map(|_| {
            let values = columns.iter();
            values
                .map(|at| stored_value(row.get(*at).and_then(Option::as_ref)))
                .collect()
        })
    };
    let primary = key(shape.primary_key()).unwrap_or_default();
    if !is_it(reader.get(&primary)) {
        return Err(format!("its primary key does not lead to the row {row:?}"));
    }
    for (at, columns) in shape.unique().iter().enumerate() {
        if let Some(key) = key(columns)
            && !is_it(reader.get_unique(at, &key))
        {
            return Err(format!(
                "its unique key {at} does not lead to the row {row:?}"
            ));
        }
    }
    Ok(())
}
