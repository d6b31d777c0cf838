//! Schema look-ups for `\d` and its like, and for completion.

use std::collections::BTreeMap;

use anyhow::bail;

use super::complete::Names;
use crate::print::Table;
use crate::source::Source;
use crate::sql_text::literal;

/// Schemas that have the same tables in every database.
const CATALOGUES: &str = "'information_schema', 'pg_catalog'";

/// Tables of a database, as text.
pub(crate) fn tables(source: &Source, database: &str) -> anyhow::Result<String> {
    let statement = format!(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables \
         WHERE table_catalog = {} AND table_schema NOT IN ({CATALOGUES}) ORDER BY 1, 2",
        literal(database)
    );
    let rows = rows(source, database, &statement)?;
    if rows.is_empty() {
        return Ok(format!(
            "there are no tables in {database} yet; write some rows, or see \\l for other databases\n"
        ));
    }
    let mut shown = Table::new(&["schema", "table", "kind"]);
    for row in rows {
        shown.row(row.into_iter().map(|cell| match cell.as_str() {
            "BASE TABLE" => "table".to_owned(),
            "VIEW" => "view".to_owned(),
            _ => cell,
        }));
    }
    Ok(shown.to_string())
}

/// Columns of a table, as text.
pub(crate) fn table(source: &Source, database: &str, name: &str) -> anyhow::Result<String> {
    let (schema, table) = name.rsplit_once('.').unwrap_or(("", name));
    let in_schema = match schema {
        "" => String::new(),
        schema => format!("AND table_schema = {} ", literal(schema)),
    };
    let in_system = in_schema.replace("table_schema", "schema_name");
    // What the store knows of its own tables; views and the catalogues are in the standard's schema only.
    let own = format!(
        "SELECT column_name, kind, lower(type) FROM system.columns \
         WHERE database_name = {} AND table_name = {} {in_system}ORDER BY position",
        literal(database),
        literal(table)
    );
    let of_all = format!(
        "SELECT column_name, 'column', data_type FROM information_schema.columns \
         WHERE table_catalog = {} AND table_name = {} {in_schema}ORDER BY ordinal_position",
        literal(database),
        literal(table)
    );
    // Who may read one table only may not read the system's.
    let mut found = rows(source, database, &own).unwrap_or_default();
    if found.is_empty() {
        found = rows(source, database, &of_all)?;
    }
    if found.is_empty() {
        bail!("there is no table {name} in {database}; \\d lists them all");
    }
    let mut shown = Table::new(&["column", "kind", "type"]);
    for row in found {
        shown.row(row);
    }
    Ok(shown.to_string())
}

/// Schemas of a database.
pub(crate) fn schemas(source: &Source, database: &str) -> anyhow::Result<String> {
    let statement = format!(
        "SELECT DISTINCT schema_name FROM information_schema.schemata \
         WHERE catalog_name = {} ORDER BY 1",
        literal(database)
    );
    let names = rows(source, database, &statement)?.concat();
    Ok(names.join("\n") + "\n")
}

/// Functions, or those with a word in their name.
pub(crate) fn functions(
    source: &Source,
    database: &str,
    word: Option<&str>,
) -> anyhow::Result<String> {
    let names = function_names(source, database)?;
    let word = word.unwrap_or_default().to_lowercase();
    let fitting: Vec<String> = names
        .into_iter()
        .filter(|name| name.contains(&word))
        .collect();
    if fitting.is_empty() {
        return Ok(format!(
            "no function has {word:?} in its name; \\df lists all\n"
        ));
    }
    Ok(fitting.join("\n") + "\n")
}

/// All names that a line may be completed with. What cannot be asked is left out.
pub(crate) fn names(source: &Source, database: &str) -> Names {
    let statement = format!(
        "SELECT table_name, column_name FROM information_schema.columns \
         WHERE table_catalog = {} AND table_schema NOT IN ({CATALOGUES}) \
         ORDER BY table_name, ordinal_position",
        literal(database)
    );
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(source, database, &statement).unwrap_or_default() {
        if let [table, column] = row.as_slice() {
            tables
                .entry(table.clone())
                .or_default()
                .push(column.clone());
        }
    }
    Names {
        databases: source.databases(database).unwrap_or_default(),
        tables,
        functions: function_names(source, database).unwrap_or_default(),
    }
}

fn function_names(source: &Source, database: &str) -> anyhow::Result<Vec<String>> {
    // Those with two underscores in front are what a statement becomes on its way.
    let statement = "SELECT DISTINCT routine_name FROM information_schema.routines \
                     WHERE left(routine_name, 2) <> '__' ORDER BY 1";
    source.query(database, statement)?.texts()
}

/// Rows of a small answer as text.
fn rows(source: &Source, database: &str, statement: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in source.query(database, statement)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter();
            let cells =
                cells.map(|column| arrow::util::display::array_value_to_string(column, row));
            rows.push(cells.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(rows)
}
