//! Changes of names, columns, types and settings, each one log record.
//!
//! Does: check a change against the catalogue, log it, sync it, and only then let it hold: nobody ever sees a drop or a
//! rename that a power cut could take back, so flush and compaction may leave out at once what is gone. Does not: read
//! SQL, remove rows, or apply definitions (`catalogue.rs` does).
//!
//! A change holds the sequencer from its check to its end. Writers wait for that one sync; changes are rare.

use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::catalogue::Catalogue;
use crate::declared::{Declarations, Declared};
use crate::definition::Definition;
use crate::engine::sequencer::Order;
use crate::engine::{Engine, check_name};
use crate::error::Error;
use crate::moment::Moment;
use crate::scan::{first_loss, has_unmerged};
use crate::schema::{
    ColumnDef, ColumnKind, DEFAULT_SCHEMA, DatabaseId, Duplicates, SchemaId, TIME_COLUMN, TableId,
    TableSchema, TableSettings, type_name,
};

/// A column to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewColumn<'a> {
    /// Its name; a tag and a field may share one.
    pub name: &'a str,
    /// Tag or field.
    pub kind: ColumnKind,
}

/// Names that a hint shows.
const HINT_NAMES_MAX: usize = 5;

/// Everything here is durable on return and visible to every snapshot taken afterwards. A column is named as
/// [`TableSchema::arrow_schema`] shows it, so a field that shares its name with a tag is `name_1`.
impl Engine {
    /// Makes a database with its default schema. Returns whether it is new.
    pub fn create_database(&self, name: &str) -> Result<bool, Error> {
        check_name("database", name)?;
        self.alter(|catalogue| Ok(catalogue.plan_database(name, DEFAULT_SCHEMA)))
    }

    /// Gives a database another name. Sessions of the old name no longer find it.
    pub fn rename_database(&self, name: &str, to: &str) -> Result<(), Error> {
        check_name("database", to)?;
        self.change(|catalogue| {
            let id = find_database(catalogue, name)?;
            if catalogue.database(to).is_some() {
                return Err(exists("database", to, "this store".to_owned()));
            }
            let name = to.to_owned();
            Ok(Definition::RenameDatabase { id, name })
        })
    }

    /// Drops a database with all that is in it.
    pub fn drop_database(&self, name: &str) -> Result<(), Error> {
        self.change(|catalogue| {
            let id = find_database(catalogue, name)?;
            Ok(Definition::DropDatabase { id })
        })
    }

    /// Says which schema of a database a name without one means, and line protocol writes to.
    pub fn set_default_schema(&self, database: &str, schema: &str) -> Result<(), Error> {
        self.change(|catalogue| {
            let (database, schema) = find_schema(catalogue, database, schema)?;
            Ok(Definition::DefaultSchema { database, schema })
        })
    }

    /// Makes a schema. Returns whether it is new.
    pub fn create_schema(&self, database: &str, schema: &str) -> Result<bool, Error> {
        check_name("schema", schema)?;
        self.alter(|catalogue| {
            let database = find_database(catalogue, database)?;
            Ok(match catalogue.schema(database, schema) {
                Some(_) => Vec::new(),
                None => vec![catalogue.plan_schema(database, schema)],
            })
        })
    }

    /// Says how long the rows of the schema's tables are kept, in nanoseconds, for those that do not say it themselves;
    /// `None` = for ever.
    pub fn set_schema_retention(
        &self,
        database: &str,
        schema: &str,
        retention_ns: Option<i64>,
    ) -> Result<(), Error> {
        check_retention(retention_ns)?;
        self.change(|catalogue| {
            let (_, id) = find_schema(catalogue, database, schema)?;
            Ok(Definition::SetSchema { id, retention_ns })
        })
    }

    /// Gives a schema another name. If it was the default one it still is.
    pub fn rename_schema(&self, database: &str, schema: &str, to: &str) -> Result<(), Error> {
        check_name("schema", to)?;
        self.change(|catalogue| {
            let (owner, id) = find_schema(catalogue, database, schema)?;
            if catalogue.schema(owner, to).is_some() {
                return Err(exists("schema", to, in_database(database)));
            }
            let name = to.to_owned();
            Ok(Definition::RenameSchema { id, name })
        })
    }

    /// Drops a schema with all its tables. The default one stays until another is.
    pub fn drop_schema(&self, database: &str, schema: &str) -> Result<(), Error> {
        self.change(|catalogue| {
            let (owner, id) = find_schema(catalogue, database, schema)?;
            if catalogue.default_schema(owner) == Some(id) {
                return Err(Error::DefaultSchemaInUse {
                    database: database.to_owned(),
                    schema: schema.to_owned(),
                });
            }
            Ok(Definition::DropSchema { id })
        })
    }

    /// Makes a table. Returns whether it is new; one that is there stays as it is.
    pub fn create_table(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        columns: &[NewColumn<'_>],
        settings: TableSettings,
    ) -> Result<bool, Error> {
        let nothing = Declarations::default();
        self.create_declared_table(database, schema, table, columns, settings, &nothing)
    }

    /// Whether there may be a table of this name with these columns, wherever it is to be.
    pub(crate) fn check_new_table(
        &self,
        table: &str,
        columns: &[NewColumn<'_>],
    ) -> Result<(), Error> {
        check_name("table", table)?;
        let tags = columns.iter().filter(|it| it.kind == ColumnKind::Tag);
        self.site.check_table_tags(tags.count() as u64)?;
        for (at, column) in columns.iter().enumerate() {
            check_column_name(column.name)?;
            let before = columns.get(..at).unwrap_or_default();
            if before.iter().any(|other| same_key(other, column)) {
                return Err(exists("column", column.name, in_table(table)));
            }
        }
        Ok(())
    }

    /// Changes what can be set of a table. The partitions that there are keep their width. Another kind of duplicates is
    /// refused while files hold rows that the old kind merges: what they are must not depend on which of them a compaction
    /// had come to when the kind changed. Rows in memory are merged by a flush. Writers
    /// wait while the times of the table are read.
    pub fn set_table(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        settings: TableSettings,
    ) -> Result<(), Error> {
        check_settings(&settings)?;
        loop {
            let found = find_table(&self.sequencer.catalogue(), database, schema, table)?;
            let merges = found.settings.duplicates != Duplicates::Keep
                && found.settings.duplicates != settings.duplicates;
            if merges {
                self.jobs.flush()?;
            }
            let mut sequencer = self.sequencer.lock();
            if self
                .sequencer
                .catalogue()
                .table(found.id)
                .is_none_or(|now| now.settings.duplicates != found.settings.duplicates)
            {
                continue;
            }
            if merges {
                let (now, ()) = self.sequencer.moment(|| (sequencer.next_lsn - 1, ()));
                if has_unmerged(&now, &found)? {
                    return Err(Error::Unmerged {
                        table: found.name.clone(),
                    });
                }
            }
            let id = found.id;
            return self.commit(&mut sequencer, &[Definition::SetTable { id, settings }]);
        }
    }

    /// Gives a table another name.
    pub fn rename_table(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        to: &str,
    ) -> Result<(), Error> {
        check_name("table", to)?;
        self.change(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            if catalogue.table_id(found.schema, to).is_some() {
                return Err(exists("table", to, in_schema(database, schema)));
            }
            if self.sequencer.is_relation(found.schema, to) {
                return Err(exists("relation", to, in_schema(database, schema)));
            }
            Ok(Definition::RenameTable {
                id: found.id,
                name: to.to_owned(),
            })
        })
    }

    /// Drops a table. Its rows are gone at once; maintenance frees their space later.
    pub fn drop_table(&self, database: &str, schema: &str, table: &str) -> Result<(), Error> {
        self.change(|catalogue| {
            let id = find_table(catalogue, database, schema, table)?.id;
            Ok(Definition::DropTable { id })
        })
    }

    /// Adds a tag or a field; rows that are there have none. Returns whether it is new.
    pub fn add_column(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: NewColumn<'_>,
    ) -> Result<bool, Error> {
        self.add_declared_column(database, schema, table, column, &Declared::default())
    }

    /// Drops a column. A field's values are gone. A dropped tag is hidden: series that only it told apart stay apart,
    /// each with its own rows, and a point without the tag belongs to none of them.
    pub fn drop_column(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: &str,
    ) -> Result<(), Error> {
        self.change(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            Ok(Definition::DropColumn {
                id: find_column(&found, column)?.id,
                table: found.id,
            })
        })
    }

    /// Gives a tag or a field another name.
    pub fn rename_column(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        column: &str,
        to: &str,
    ) -> Result<(), Error> {
        check_column_name(to)?;
        self.change(|catalogue| {
            let found = find_table(catalogue, database, schema, table)?;
            let column = find_column(&found, column)?;
            if found.column_like(column.kind, to).is_some() {
                return Err(exists("column", to, in_table(table)));
            }
            Ok(Definition::RenameColumn {
                id: column.id,
                table: found.id,
                name: to.to_owned(),
            })
        })
    }

    /// Changes the type of a field, in place: stored values are converted when they are read, and written as the new
    /// type when compaction rewrites them. Reads all of them first, and refuses if one would not stay what it is.
    pub fn change_type(
        &self,
        database: &str,
        schema: &str,
        table: &str,
        field: &str,
        to: PhysicalType,
    ) -> Result<(), Error> {
        loop {
            let found = find_table(&self.sequencer.catalogue(), database, schema, table)?;
            let column = find_column(&found, field)?;
            if column.kind == ColumnKind::Field(to) {
                return self.alter(|_| Ok(Vec::new())).map(drop);
            }
            // First what is there now, while writers go on; then, while they wait, what they wrote meanwhile.
            let (before, ()) = self
                .sequencer
                .moment(|| (self.sequencer.log().durable(), ()));
            check_converts(&found, column, to, &before)?;
            let mut sequencer = self.sequencer.lock();
            if self
                .sequencer
                .catalogue()
                .table(found.id)
                .is_none_or(|now| {
                    let column_now = now.column(column.id);
                    column_now.is_none_or(|now| now.kind != column.kind)
                })
            {
                continue;
            }
            let (mut newer, ()) = self.sequencer.moment(|| (sequencer.next_lsn - 1, ()));
            newer.state.version = Arc::new(newer.state.version.since(before.visible));
            check_converts(&found, column, to, &newer)?;
            let change = Definition::ChangeType {
                id: column.id,
                table: found.id,
                to,
            };
            return self.commit(&mut sequencer, &[change]);
        }
    }

    /// One change of something that is there.
    fn change(
        &self,
        plan: impl FnOnce(&Catalogue) -> Result<Definition, Error>,
    ) -> Result<(), Error> {
        self.alter(|catalogue| plan(catalogue).map(|change| vec![change]))
            .map(drop)
    }

    /// Plans and commits a change; false = there was nothing to do.
    pub(super) fn alter(
        &self,
        plan: impl FnOnce(&Catalogue) -> Result<Vec<Definition>, Error>,
    ) -> Result<bool, Error> {
        let mut sequencer = self.sequencer.lock();
        let planned = plan(&self.sequencer.catalogue());
        let planned = match planned {
            Ok(planned) => planned,
            Err(refused) => {
                let lsn = sequencer.next_lsn - 1;
                drop(sequencer);
                // A relation may be in the way that is not durable yet: what a change is refused for must not be lost
                // after the refusal was heard.
                self.sequencer.log().sync(lsn)?;
                return Err(refused);
            }
        };
        if !planned.is_empty() {
            self.commit(&mut sequencer, &planned)?;
            return Ok(true);
        }
        // What is there already may be in nobody's log yet, or another thread may not have synced it.
        if !sequencer.unlogged.bytes.is_empty() {
            self.sequencer.log_definitions(&mut sequencer)?;
        }
        let lsn = sequencer.next_lsn - 1;
        drop(sequencer);
        self.sequencer.log().sync(lsn)?;
        Ok(false)
    }

    /// Makes definitions durable, as one record, and then lets them hold.
    pub(super) fn commit(
        &self,
        sequencer: &mut Order,
        planned: &[Definition],
    ) -> Result<(), Error> {
        self.sequencer.check_poisoned()?;
        for definition in planned {
            definition.encode(&mut sequencer.unlogged.bytes);
            definition.encode(&mut sequencer.unfiled);
        }
        self.sequencer.log_definitions(sequencer)?;
        self.sequencer.log().sync(sequencer.next_lsn - 1)?;
        let mut catalogue = self.sequencer.catalogue_mut();
        for definition in planned {
            catalogue
                .apply(definition)
                .expect("a definition planned from the catalogue fits it");
        }
        self.sequencer
            .relations_mut()
            .drop_displaced(sequencer.next_lsn - 1, |relation| {
                catalogue.schema_name(relation.schema).is_some()
                    && catalogue
                        .table_id(relation.schema, &relation.name)
                        .is_none()
            });
        Ok(())
    }
}

/// Refuses a change of type that would lose a value.
fn check_converts(
    table: &Arc<TableSchema>,
    column: &ColumnDef,
    to: PhysicalType,
    moment: &Moment,
) -> Result<(), Error> {
    let at = table.fields.iter().position(|field| field.id == column.id);
    let (Some(at), ColumnKind::Field(from)) = (at, column.kind) else {
        return Err(Error::NotAField {
            table: table.name.clone(),
            column: column.name.clone(),
        });
    };
    match first_loss(moment, table, at, to)? {
        None => Ok(()),
        Some(loss) => Err(Error::Lossy {
            table: table.name.clone(),
            column: column.name.clone(),
            from: type_name(from),
            to: type_name(to),
            value: loss.value,
            time: loss.time,
        }),
    }
}

fn find_database(catalogue: &Catalogue, name: &str) -> Result<DatabaseId, Error> {
    let unknown = || Error::UnknownDatabase {
        name: name.to_owned(),
    };
    catalogue.database(name).ok_or_else(unknown)
}

pub(crate) fn find_schema(
    catalogue: &Catalogue,
    database: &str,
    name: &str,
) -> Result<(DatabaseId, SchemaId), Error> {
    let owner = find_database(catalogue, database)?;
    match catalogue.schema(owner, name) {
        Some(id) => Ok((owner, id)),
        None => Err(Error::NotFound {
            what: "schema",
            name: name.to_owned(),
            place: in_database(database),
            hint: hint(name, catalogue.schemas(owner)),
        }),
    }
}

pub(crate) fn find_table(
    catalogue: &Catalogue,
    database: &str,
    schema: &str,
    name: &str,
) -> Result<Arc<TableSchema>, Error> {
    let (_, owner) = find_schema(catalogue, database, schema)?;
    let id: Option<TableId> = catalogue.table_id(owner, name);
    let found = id.and_then(|id| catalogue.table(id)).cloned();
    found.ok_or_else(|| Error::NotFound {
        what: "table",
        name: name.to_owned(),
        place: in_schema(database, schema),
        hint: hint(name, catalogue.tables(owner)),
    })
}

pub(super) fn find_column<'a>(table: &'a TableSchema, shown: &str) -> Result<&'a ColumnDef, Error> {
    table.shown(shown).ok_or_else(|| {
        let arrow = table.arrow_schema();
        let names = arrow.fields().iter().skip(1);
        Error::NotFound {
            what: "column",
            name: shown.to_owned(),
            place: in_table(&table.name),
            hint: hint(shown, names.map(|field| field.name().as_str())),
        }
    })
}

/// What somebody who asked for a name may have meant.
fn hint<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let lower = wanted.to_lowercase();
    if let Some(like) = names.iter().find(|name| name.to_lowercase() == lower) {
        return format!("did you mean \"{like}\"? Upper and lower case are told apart");
    }
    let shown = names.get(..HINT_NAMES_MAX).unwrap_or(&names).join(", ");
    match names.len().saturating_sub(HINT_NAMES_MAX) {
        _ if names.is_empty() => "there is none yet".to_owned(),
        0 => format!("there are: {shown}"),
        more => format!("there are: {shown} and {more} more"),
    }
}

fn in_database(database: &str) -> String {
    format!("database \"{database}\"")
}

pub(in crate::engine) fn in_schema(database: &str, schema: &str) -> String {
    format!("\"{database}\".\"{schema}\"")
}

pub(super) fn in_table(table: &str) -> String {
    format!("table \"{table}\"")
}

pub(in crate::engine) fn exists(what: &'static str, name: &str, place: String) -> Error {
    Error::ExistsAlready {
        what,
        name: name.to_owned(),
        place,
    }
}

/// Whether two columns could not be in one table.
fn same_key(a: &NewColumn<'_>, b: &NewColumn<'_>) -> bool {
    a.name == b.name && (a.kind == ColumnKind::Tag) == (b.kind == ColumnKind::Tag)
}

pub(super) fn check_column_name(name: &str) -> Result<(), Error> {
    if name == TIME_COLUMN {
        return Err(Error::InvalidName {
            what: "column",
            name: name.to_owned(),
            reason: "it is the time column's",
        });
    }
    check_name("column", name)
}

pub(super) fn check_settings(settings: &TableSettings) -> Result<(), Error> {
    check_positive("the partition interval", settings.partition_interval_ns)?;
    check_positive("cold_after", settings.cold_after_ns.unwrap_or(1))?;
    check_retention(settings.retention_ns)
}

fn check_retention(retention_ns: Option<i64>) -> Result<(), Error> {
    check_positive("the retention", retention_ns.unwrap_or(1))
}

fn check_positive(what: &'static str, value: i64) -> Result<(), Error> {
    if value < 1 {
        return Err(Error::InvalidSetting {
            what,
            range: "1 nanosecond or more",
            value,
        });
    }
    Ok(())
}
