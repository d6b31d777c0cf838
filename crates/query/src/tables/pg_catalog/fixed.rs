//! Rows that never change: types, their functions, operator classes, access methods.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Parts that begin with `#table column ...` and have a row a line, as COPY writes them.
const TEXT: &str = include_str!("text/fixed.txt");

/// The rows of a table.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    pub(super) columns: Vec<&'static str>,
    /// `None` = NULL.
    pub(super) rows: Vec<Vec<Option<&'static str>>>,
}

static TABLES: LazyLock<HashMap<&'static str, Fixed>> = LazyLock::new(|| {
    let mut tables: HashMap<&str, Fixed> = HashMap::new();
    let mut name = "";
    for line in TEXT.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let mut words = heading.split(' ');
            name = words.next().unwrap_or_default();
            tables.entry(name).or_default().columns = words.collect();
        } else if let Some(table) = tables.get_mut(name) {
            let cells = line.split('\t').map(|cell| (cell != "\\N").then_some(cell));
            table.rows.push(cells.collect());
        }
    }
    tables
});

/// The rows of a table; `None` = it has none that are always the same.
pub(super) fn rows(table: &str) -> Option<&'static Fixed> {
    TABLES.get(table)
}

/// A type.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) oid: i64,
    pub(super) name: &'static str,
    /// Of its elements; 0 = it has none.
    pub(super) element: i64,
    pub(super) category: &'static str,
    pub(super) length: i64,
    pub(super) by_value: bool,
    pub(super) align: &'static str,
    pub(super) storage: &'static str,
    pub(super) collation: i64,
}

static TYPES: LazyLock<Vec<Type>> = LazyLock::new(|| {
    let Some(table) = rows("pg_type") else {
        return Vec::new();
    };
    let place = |name: &str| table.columns.iter().position(|column| *column == name);
    let read = |row: &Vec<Option<&'static str>>| {
        let text = |name: &str| place(name).and_then(|at| *row.get(at)?).unwrap_or_default();
        let number = |name: &str| text(name).parse().unwrap_or_default();
        Type {
            oid: number("oid"),
            name: text("typname"),
            element: number("typelem"),
            category: text("typcategory"),
            length: number("typlen"),
            by_value: text("typbyval") == "t",
            align: text("typalign"),
            storage: text("typstorage"),
            collation: number("typcollation"),
        }
    };
    table.rows.iter().map(read).collect()
});

/// A type by its number.
pub(super) fn type_of_oid(oid: i64) -> Option<&'static Type> {
    let at = TYPES.binary_search_by_key(&oid, |known| known.oid).ok()?;
    TYPES.get(at)
}

/// A type by its name in `pg_type`.
pub(super) fn type_named(name: &str) -> Option<&'static Type> {
    TYPES.iter().find(|known| known.name == name)
}

/// A number in a fixed table by a name in it, such as of a function in `pg_proc`.
pub(super) fn oid_of(table: &str, column: &str, name: &str) -> Option<i64> {
    let table = rows(table)?;
    let at = table.columns.iter().position(|known| *known == column)?;
    let mut found = table.rows.iter();
    let row = found.find(|row| row.get(at).copied().flatten() == Some(name))?;
    row.first().copied().flatten()?.parse().ok()
}

/// The name in a fixed table of a number.
pub(super) fn name_of(table: &str, column: &str, oid: i64) -> Option<&'static str> {
    let table = rows(table)?;
    let at = table.columns.iter().position(|known| *known == column)?;
    let oid = oid.to_string();
    let mut found = table.rows.iter();
    let row = found.find(|row| row.first().copied().flatten() == Some(oid.as_str()))?;
    row.get(at).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_that_clients_know() {
        for (name, oid) in [
            ("bool", 16),
            ("int4", 23),
            ("text", 25),
            ("timestamptz", 1184),
        ] {
            assert_eq!(type_named(name).unwrap().oid, oid);
            assert_eq!(type_of_oid(oid).unwrap().name, name);
        }
        assert_eq!(type_named("_int4").unwrap().element, 23);
        assert_eq!(oid_of("pg_proc", "proname", "array_in"), Some(750));
        assert_eq!(name_of("pg_am", "amname", 403), Some("btree"));
        for row in &rows("pg_type").unwrap().rows {
            assert_eq!(row.len(), rows("pg_type").unwrap().columns.len());
        }
    }
}
