//! Changes to the catalogue: settings, names, types, drops.
//!
//! Does: apply the definitions that make nothing new. Does not: decide whether they may be (`engine/change/ddl.rs` does), or
//! remove rows (compaction does, once [`Catalogue::is_dropped`] says so).
//!
//! A dropped thing is gone at once with everything in it, its series included; its ids stay taken, because the next ids
//! never go back. A dropped tag is hidden only: the series that it told apart stay apart.

use std::sync::Arc;

use nilometer_codec::PhysicalType;
use rustc_hash::FxHashSet;

use super::{Catalogue, take_name, taken, unknown};
use crate::declared::{Declared, DeclaredTable};
use crate::definition::Definition;
use crate::error::Malformed;
use crate::schema::{ColumnId, ColumnKind, DatabaseId, SchemaId, TableId, TableSchema};

impl Catalogue {
    pub(super) fn apply_change(&mut self, definition: &Definition) -> Result<(), Malformed> {
        use Definition as D;
        match definition {
            // Nobody remembers settings, so they leave the epoch alone.
            D::SetTable { id, settings } => {
                self.change_table(*id, |table| {
                    table.changed(|table| table.settings = *settings)
                })?;
                return Ok(());
            }
            D::SetSchema { id, retention_ns } => return self.set_schema(*id, *retention_ns),
            D::DefaultSchema { database, schema } => self.point_default(*database, *schema)?,
            D::RenameDatabase { id, name } => self.rename_database(*id, name)?,
            D::RenameSchema { id, name } => self.rename_schema(*id, name)?,
            D::RenameTable { id, name } => self.rename_table(*id, name)?,
            D::RenameColumn { id, table, name } => self.rename_column(*id, *table, name)?,
            D::ChangeType { id, table, to } => self.change_type(*id, *table, *to)?,
            D::DeclareColumn {
                id,
                table,
                declared,
            } => self.declare_column(*id, *table, declared)?,
            D::DeclareTable { id, declared } => self.declare_table(*id, declared)?,
            D::DropDatabase { id } => self.drop_database(*id)?,
            D::DropSchema { id } => self.drop_schema(*id)?,
            D::DropTable { id } => self.drop_tables(&[*id])?,
            D::DropColumn { id, table } => self.drop_column(*id, *table)?,
            // The others make something new and were applied as such.
            _ => return Ok(()),
        }
        self.epoch += 1;
        Ok(())
    }

    fn set_schema(&mut self, id: SchemaId, retention_ns: Option<i64>) -> Result<(), Malformed> {
        match self.names.by_schema.get_mut(&id) {
            Some(schema) => schema.retention_ns = retention_ns,
            None if self.dropped.schemas.contains(&id) => {}
            None => return Err(unknown("settings of", "schema", id.0)),
        }
        Ok(())
    }

    fn point_default(&mut self, database: DatabaseId, schema: SchemaId) -> Result<(), Malformed> {
        if self.dropped.databases.contains(&database) || self.dropped.schemas.contains(&schema) {
            return Ok(());
        }
        let owner = self
            .names
            .by_schema
            .get(&schema)
            .map(|schema| schema.database);
        match self.names.by_database.get_mut(&database) {
            Some(entry) if owner == Some(database) => entry.default_schema = Some(schema),
            _ => return Err(unknown("default schema of", "database", database.0)),
        }
        Ok(())
    }

    fn rename_database(&mut self, id: DatabaseId, name: &str) -> Result<(), Malformed> {
        let Some(entry) = self.names.by_database.get_mut(&id) else {
            let known = self.dropped.databases.contains(&id);
            return known_or(known, "name of", "database", id.0);
        };
        if entry.name != name {
            take_name(&mut self.names.databases, name.to_owned(), id, name)?;
            self.names.databases.remove(&entry.name);
            name.clone_into(&mut entry.name);
        }
        Ok(())
    }

    fn rename_schema(&mut self, id: SchemaId, name: &str) -> Result<(), Malformed> {
        let Some(entry) = self.names.by_schema.get_mut(&id) else {
            let known = self.dropped.schemas.contains(&id);
            return known_or(known, "name of", "schema", id.0);
        };
        if entry.name != name {
            let key = (entry.database, name.to_owned());
            take_name(&mut self.names.schemas, key, id, name)?;
            let old = std::mem::replace(&mut entry.name, name.to_owned());
            self.names.schemas.remove(&(entry.database, old));
        }
        Ok(())
    }

    fn rename_table(&mut self, id: TableId, name: &str) -> Result<(), Malformed> {
        let Some(table) = self.names.by_table.get_mut(&id) else {
            let known = self.dropped.tables.contains(&id);
            return known_or(known, "name of", "table", id.0);
        };
        let old = Arc::clone(table);
        if old.name != name {
            take_name(
                &mut self.names.tables,
                (old.schema, name.to_owned()),
                id,
                name,
            )?;
            self.names.tables.remove(&(old.schema, old.name.clone()));
            let renamed = old.changed(|table| name.clone_into(&mut table.name));
            let bytes = self.name_bytes.saturating_sub(old.name_bytes());
            self.name_bytes = bytes + renamed.name_bytes();
            *table = Arc::new(renamed);
        }
        Ok(())
    }

    fn rename_column(&mut self, id: ColumnId, table: TableId, name: &str) -> Result<(), Malformed> {
        let Some(kind) = self.column_kind(id, table)? else {
            return Ok(());
        };
        let like = self.table(table).and_then(|t| t.column_like(kind, name));
        if like.is_some_and(|other| other.id != id) {
            return Err(taken(name));
        }
        self.change_table(table, |table| {
            table.with_changed_column(id, |column| name.clone_into(&mut column.name))
        })
    }

    fn change_type(
        &mut self,
        id: ColumnId,
        table: TableId,
        to: PhysicalType,
    ) -> Result<(), Malformed> {
        match self.column_kind(id, table)? {
            None => Ok(()),
            Some(ColumnKind::Tag) => Err(Malformed::new(format!("type of the tag {}", id.0))),
            Some(ColumnKind::Field(_)) => self.change_table(table, |table| {
                table.with_changed_column(id, |column| {
                    column.kind = ColumnKind::Field(to);
                    // What is stored otherwise is not what it was declared as any more; a declaration may follow.
                    let declared = column.declared.as_deref();
                    let of = declared.and_then(|declared| declared.of);
                    if of.is_some_and(|of| of.physical() != to) {
                        let declared = declared.cloned().unwrap_or_default();
                        column.declare(Declared {
                            of: None,
                            ..declared
                        });
                    }
                })
            }),
        }
    }

    fn declare_column(
        &mut self,
        id: ColumnId,
        table: TableId,
        declared: &Declared,
    ) -> Result<(), Malformed> {
        let Some(kind) = self.column_kind(id, table)? else {
            return Ok(());
        };
        let fits = match (kind, declared.of) {
            (_, None) => true,
            (ColumnKind::Tag, Some(of)) => of.is_integer(),
            (ColumnKind::Field(kind), Some(of)) => of.physical() == kind,
        };
        if !fits {
            let reason = format!("column {} is declared as what it is not stored as", id.0);
            return Err(Malformed::new(reason));
        }
        self.change_table(table, |table| {
            table.with_changed_column(id, |column| column.declare(declared.clone()))
        })
    }

    fn declare_table(&mut self, id: TableId, declared: &DeclaredTable) -> Result<(), Malformed> {
        let declared = (!declared.is_empty()).then(|| Arc::new(declared.clone()));
        self.change_table(id, |table| table.changed(|table| table.declared = declared))
    }

    fn drop_database(&mut self, id: DatabaseId) -> Result<(), Malformed> {
        let Some(entry) = self.names.by_database.remove(&id) else {
            let known = self.dropped.databases.contains(&id);
            return known_or(known, "drop of", "database", id.0);
        };
        let inside: Vec<SchemaId> = self
            .names
            .by_schema
            .iter()
            .filter(|(_, schema)| schema.database == id)
            .map(|(&schema, _)| schema)
            .collect();
        for schema in inside {
            self.drop_schema(schema)?;
        }
        self.names.databases.remove(&entry.name);
        self.dropped.databases.insert(id);
        Ok(())
    }

    fn drop_schema(&mut self, id: SchemaId) -> Result<(), Malformed> {
        let Some(entry) = self.names.by_schema.remove(&id) else {
            let known = self.dropped.schemas.contains(&id);
            return known_or(known, "drop of", "schema", id.0);
        };
        let inside: Vec<TableId> = self
            .names
            .by_table
            .iter()
            .filter(|(_, table)| table.schema == id)
            .map(|(&table, _)| table)
            .collect();
        self.drop_tables(&inside)?;
        if let Some(database) = self.names.by_database.get_mut(&entry.database) {
            database.default_schema.take_if(|default| *default == id);
        }
        self.names.schemas.remove(&(entry.database, entry.name));
        self.dropped.schemas.insert(id);
        Ok(())
    }

    /// Drops tables together: whose a tag is, also a dropped one, is looked up once for all of them.
    fn drop_tables(&mut self, ids: &[TableId]) -> Result<(), Malformed> {
        let mut gone = FxHashSet::default();
        for &id in ids {
            let Some(table) = self.names.by_table.remove(&id) else {
                known_or(self.is_dropped(id), "drop of", "table", id.0)?;
                continue;
            };
            self.name_bytes = self.name_bytes.saturating_sub(table.name_bytes());
            self.names
                .tables
                .remove(&(table.schema, table.name.clone()));
            let fields = table.fields.iter().map(|field| field.id);
            self.dropped.columns.extend(fields);
            self.dropped.tables.insert(id);
            gone.insert(id);
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.tags.retain(|tag, owner| {
            let is_gone = gone.contains(owner);
            if is_gone {
                self.dropped.columns.insert(*tag);
            }
            !is_gone
        });
        if self.reuses_ids {
            for &id in ids {
                self.forget_ids_of(id);
            }
        }
        Ok(())
    }

    fn drop_column(&mut self, id: ColumnId, table: TableId) -> Result<(), Malformed> {
        if self.column_kind(id, table)?.is_none() {
            return Ok(());
        }
        self.dropped.columns.insert(id);
        self.change_table(table, |table| table.without_column(id))
    }

    /// What a column is; `None` = it or its table was dropped.
    fn column_kind(&self, id: ColumnId, table: TableId) -> Result<Option<ColumnKind>, Malformed> {
        if self.is_dropped(table) {
            return Ok(None);
        }
        let schema = self
            .table(table)
            .ok_or_else(|| unknown("column of", "table", table.0))?;
        match schema.column(id) {
            Some(column) => Ok(Some(column.kind)),
            None if self.dropped.columns.contains(&id) => Ok(None),
            None => Err(unknown("change of", "column", id.0)),
        }
    }

    fn change_table(
        &mut self,
        id: TableId,
        change: impl FnOnce(&TableSchema) -> TableSchema,
    ) -> Result<(), Malformed> {
        let Some(table) = self.names.by_table.get_mut(&id) else {
            return known_or(self.is_dropped(id), "change of", "table", id.0);
        };
        let changed = change(table);
        let (before, after) = (table.name_bytes(), changed.name_bytes());
        self.name_bytes = self.name_bytes.saturating_sub(before) + after;
        *table = Arc::new(changed);
        Ok(())
    }

    /// The planted bug: the next ids are taken from what is there now, as if nothing had ever been dropped.
    fn forget_ids_of(&mut self, table: TableId) {
        self.dropped.tables.remove(&table);
        let highest = self.names.by_table.keys().map(|id| id.0).max();
        self.next.table = highest.map_or(1, |id| id + 1);
        let tables = self.names.by_table.keys();
        let highest = tables.filter_map(|id| self.layers.last_id(*id)).max();
        self.next.series = highest.map_or(1, |id| id + 1);
    }
}

/// A change of what was dropped changes nothing; of what never was it is damage.
fn known_or(known: bool, role: &str, what: &str, id: u32) -> Result<(), Malformed> {
    if known {
        Ok(())
    } else {
        Err(unknown(role, what, id))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::definition::tests::entry;
    use crate::schema::SeriesId;

    /// Every name leads to the thing that has it, and nothing is both there and dropped.
    fn check(catalogue: &Catalogue) {
        assert_eq!(catalogue.databases.len(), catalogue.by_database.len());
        for (name, id) in catalogue.databases.iter() {
            let database = catalogue.by_database.get(id).unwrap();
            assert_eq!(&database.name, name);
            assert!(!catalogue.dropped.databases.contains(id));
            if let Some(schema) = database.default_schema {
                assert_eq!(catalogue.by_schema.get(&schema).unwrap().database, *id);
            }
        }
        assert_eq!(catalogue.schemas.len(), catalogue.by_schema.len());
        for ((database, name), id) in catalogue.schemas.iter() {
            assert_eq!(&catalogue.by_schema.get(id).unwrap().name, name);
            assert_eq!(&catalogue.by_schema.get(id).unwrap().database, database);
            assert!(catalogue.by_database.contains_key(database));
            assert!(!catalogue.dropped.schemas.contains(id));
        }
        assert_eq!(catalogue.tables.len(), catalogue.by_table.len());
        for ((schema, name), id) in catalogue.tables.iter() {
            let table = catalogue.table(*id).unwrap();
            assert_eq!((&table.schema, &table.name), (schema, name));
            assert!(catalogue.by_schema.contains_key(schema));
            assert!(!catalogue.is_dropped(*id));
            let columns = || table.tags.iter().chain(&table.fields);
            let keys: BTreeSet<_> = columns()
                .map(|column| (column.kind == ColumnKind::Tag, &column.name))
                .collect();
            assert_eq!(keys.len(), columns().count());
            for column in columns() {
                assert!(!catalogue.dropped.columns.contains(&column.id));
                assert!(column.id.0 < catalogue.next.column);
            }
        }
    }

    /// Ids of everything that is there: databases, schemas, tables, columns.
    fn ids(catalogue: &Catalogue) -> BTreeSet<(u8, u32)> {
        let columns = catalogue.by_table.values().flat_map(|table| {
            let columns = table.tags.iter().chain(&table.fields);
            columns.map(|column| (3, column.id.0)).collect::<Vec<_>>()
        });
        let databases = catalogue.by_database.keys().map(|id| (0, id.0));
        let schemas = catalogue.by_schema.keys().map(|id| (1, id.0));
        let tables = catalogue.by_table.keys().map(|id| (2, id.0));
        databases
            .chain(schemas)
            .chain(tables)
            .chain(columns)
            .collect()
    }

    proptest! {
        #[test]
        fn any_entries_are_applied_or_refused_and_nothing_comes_back(
            entries in proptest::collection::vec(entry(), 0..200),
        ) {
            let mut catalogue = Catalogue::default();
            let mut gone = BTreeSet::new();
            for entry in &entries {
                let before = ids(&catalogue);
                let outcome = catalogue.apply(entry);
                check(&catalogue);
                let after = ids(&catalogue);
                if outcome.is_err() {
                    prop_assert_eq!(&before, &after);
                }
                gone.extend(before.difference(&after).copied());
                prop_assert!(gone.is_disjoint(&after), "{:?} brought something back", entry);
            }
        }
    }

    fn story() -> Vec<Definition> {
        use Definition as D;
        let named = |name: &str| name.to_owned();
        vec![
            D::Database {
                id: DatabaseId(1),
                name: named("d"),
            },
            D::Schema {
                id: SchemaId(1),
                database: DatabaseId(1),
                name: named("public"),
            },
            D::Table {
                id: TableId(1),
                schema: SchemaId(1),
                name: named("m"),
            },
            D::Column {
                id: ColumnId(1),
                table: TableId(1),
                kind: ColumnKind::Tag,
                name: named("host"),
            },
            D::TagValue {
                tag: ColumnId(1),
                value: named("a"),
            },
            D::Series {
                id: SeriesId(1),
                table: TableId(1),
                tags: vec![(ColumnId(1), 0)],
            },
            D::DropTable { id: TableId(1) },
        ]
    }

    #[test]
    fn entries_about_a_dropped_table_change_nothing() {
        let mut catalogue = Catalogue::default();
        for entry in story() {
            catalogue.apply(&entry).unwrap();
        }
        assert!(catalogue.is_dropped(TableId(1)));
        let again = story();
        let late = [
            Definition::Column {
                id: ColumnId(2),
                table: TableId(1),
                kind: ColumnKind::Tag,
                name: "late".to_owned(),
            },
            Definition::TagValue {
                tag: ColumnId(2),
                value: "b".to_owned(),
            },
            Definition::Series {
                id: SeriesId(7),
                table: TableId(1),
                tags: vec![(ColumnId(2), 0)],
            },
            Definition::RenameTable {
                id: TableId(1),
                name: "n".to_owned(),
            },
            Definition::DropColumn {
                id: ColumnId(1),
                table: TableId(1),
            },
        ];
        for entry in again.iter().chain(&late) {
            catalogue.apply(entry).unwrap();
            assert!(catalogue.table(TableId(1)).is_none(), "{entry:?}");
            assert_eq!(catalogue.counts(), (1, 0, 0), "{entry:?}");
        }
        // Their ids are taken all the same.
        assert_eq!(catalogue.next.column, 3);
        assert_eq!(catalogue.next.series, 8);
        check(&catalogue);
    }

    #[test]
    fn entries_about_what_never_was_are_damage() {
        let mut catalogue = Catalogue::default();
        for entry in story() {
            catalogue.apply(&entry).unwrap();
        }
        let entries = [
            Definition::DropTable { id: TableId(2) },
            Definition::DropSchema { id: SchemaId(2) },
            Definition::DropDatabase { id: DatabaseId(2) },
            Definition::DropColumn {
                id: ColumnId(1),
                table: TableId(9),
            },
            Definition::DefaultSchema {
                database: DatabaseId(1),
                schema: SchemaId(2),
            },
            Definition::Database {
                id: DatabaseId(2),
                name: "d".to_owned(),
            },
        ];
        for entry in entries {
            assert!(catalogue.apply(&entry).is_err(), "{entry:?}");
        }
    }
}
