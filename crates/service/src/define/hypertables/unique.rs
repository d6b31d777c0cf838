//! Unique keys of tables over time.
//!
//! Does: make the rows of a table without rows unique, by its time and by tags. Does not: know keys of relations, which the engine has.

use std::sync::Arc;

use nilometer_engine::{Duplicates, Engine, Error as EngineError, TableSchema};

use super::super::change::name::TableName;
use super::super::error::{DefineError, Part};
use crate::error::Error;

/// Makes the rows of a table over time, which has none yet, unique by its time and the other columns, which become tags.
pub(in crate::define) fn make_unique(
    engine: &Arc<Engine>,
    name: &TableName,
    table: &TableSchema,
    key: &str,
    columns: &[String],
) -> Result<(), Error> {
    let time = table.time().0;
    let tags = table.tags.iter().map(|tag| tag.name.as_str());
    let wanted: Vec<&str> = std::iter::once(time).chain(tags).collect();
    let has = |wanted: &&str| columns.iter().any(|column| column == wanted);
    if !wanted.iter().all(has) {
        let table = name.table.clone();
        let wanted = wanted.join(", ");
        return Err(DefineError::UniqueLeavesOut { table, wanted }.about(Part::Start));
    }
    let (database, schema, of) = (&name.database, &name.schema, &name.table);
    if engine.has_rows(database, schema, of)? {
        let table = of.clone();
        return Err(EngineError::HasRows { table }.into());
    }
    let fields: Vec<String> = columns
        .iter()
        .filter(|column| !wanted.contains(&column.as_str()))
        .cloned()
        .collect();
    engine.make_tags(database, schema, of, &fields)?;
    let mut settings = table.settings;
    settings.duplicates = Duplicates::Unique;
    engine.set_table(database, schema, of, settings)?;
    Ok(engine.declare_table(database, schema, of, |declared| {
        declared.keys = vec![(0, key.to_owned())];
    })?)
}
