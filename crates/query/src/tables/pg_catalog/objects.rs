//! The objects of one database with their numbers, as one snapshot has them and as one reader may see them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Field, SchemaRef};
use nilometer_engine::{
    Check, ColumnSource, Declared, DeclaredTable, Duplicates, RelationSchema, Snapshot,
    TableSchema, enum_of_check,
};
use nilometer_service::define::{
    self, Counting, INFORMATION_SCHEMA, Numbered, NumberedBy, Owner, PG_CATALOG, SYSTEM_SCHEMA,
    Sequence, TIMESCALEDB_INFORMATION,
};
use nilometer_service::{
    Client, ForeignKey, INTERNAL_DATABASE, Place, Principal, Privilege, users_of,
};

use super::oids;
use super::relations::{self, CatalogTable};
use crate::tables::{sequence, system};

/// Who asks, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) principal: Principal,
    pub(crate) client: Option<Arc<Client>>,
    /// Where names without a schema are looked up.
    pub(crate) schema: String,
}

impl Reader {
    /// The name that they have here.
    pub(super) fn name(&self) -> &str {
        let given = || self.client.as_ref().map(|client| client.user.as_str());
        self.principal.name().or_else(given).unwrap_or("nilometer")
    }

    /// A setting of the session.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let client = self.client.as_ref()?;
        client.settings.get(&name.to_lowercase()).cloned()
    }
}

/// Whom everything belongs to, where users log in.
const OWNER: &str = "nilometer";

/// A role.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) oid: i64,
    pub(super) name: String,
    pub(super) is_admin: bool,
    pub(super) can_login: bool,
    pub(super) is_user: bool,
}

/// A schema.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) oid: i64,
    pub(super) name: String,
}

/// A table, a view or an index.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) oid: i64,
    /// Its place in [`Catalogue::schemas`].
    pub(super) schema: usize,
    pub(super) name: String,
    pub(super) of: Of,
}

/// What an object is.
#[derive(Debug)]
pub(super) enum Of {
    /// A table over time.
    Series(Arc<TableSchema>),
    /// A table without time.
    Relation(Arc<RelationSchema>),
    /// A view, with its query.
    View(String),
    /// One of ours, such as `system.tables`.
    System(SchemaRef),
    /// One of the catalogue's own.
    Catalog(&'static CatalogTable),
    Index(Index),
    Sequence(Sequence),
}

/// An index.
#[derive(Debug)]
pub(super) struct Index {
    /// The place of its table in [`Catalogue::objects`].
    pub(super) table: usize,
    /// Numbers of its columns, from 1.
    pub(super) columns: Vec<i64>,
    pub(super) is_primary: bool,
    /// The constraint that it is for; 0 = none.
    pub(super) constraint: i64,
    /// What follows its table's name, of one that is kept as it was written and is no key.
    pub(super) definition: Option<String>,
}

impl Object {
    /// `relkind`.
    pub(super) fn kind(&self) -> &'static str {
        match &self.of {
            Of::Series(_) | Of::Relation(_) => "r",
            Of::View(_) | Of::System(_) => "v",
            Of::Catalog(table) => table.kind,
            Of::Index(_) => "i",
            Of::Sequence(_) => "S",
        }
    }

    /// Its columns as they leave a query; `None` = those of a view, which has to be planned, or of an index.
    pub(super) fn columns(&self) -> Option<SchemaRef> {
        match &self.of {
            Of::Series(table) => Some(Arc::clone(&table.shown_columns().schema)),
            Of::Relation(relation) => Some(relation.shown_columns().schema),
            Of::System(schema) => Some(Arc::clone(schema)),
            Of::Catalog(table) => Some(Arc::clone(&table.arrow)),
            Of::Sequence(_) => Some(sequence::columns()),
            Of::View(_) | Of::Index(_) => None,
        }
    }

    /// Whether a column is never NULL.
    pub(super) fn is_not_null(&self, at: usize, field: &Field) -> bool {
        match &self.of {
            Of::Series(table) => {
                let position = table.shown_columns().position(at);
                position.is_some_and(|position| table.is_not_null(position))
            }
            Of::Relation(_) => !field.is_nullable(),
            Of::Catalog(table) => table.columns.get(at).is_some_and(|it| it.not_null),
            Of::Sequence(_) => true,
            Of::View(_) | Of::System(_) | Of::Index(_) => false,
        }
    }

    /// What was said of the table beside its columns.
    fn declared(&self) -> Option<&DeclaredTable> {
        match &self.of {
            Of::Series(table) => table.declared.as_deref(),
            Of::Relation(relation) => Some(&relation.declared.as_ref()?.table),
            _ => None,
        }
    }

    /// What was said of a column.
    fn declared_column(&self, at: usize) -> Option<&Declared> {
        match &self.of {
            Of::Series(table) => match table.source(table.shown_columns().position(at)?)? {
                ColumnSource::Time => Some(&table.declared.as_ref()?.time.as_ref()?.column),
                ColumnSource::Tag(at) => table.tags.get(at)?.declared.as_deref(),
                ColumnSource::Field(at) => table.fields.get(at)?.declared.as_deref(),
            },
            Of::Relation(relation) => relation.declared_column(at),
            _ => None,
        }
    }

    /// The conditions that its rows meet, foreign keys among them. That a value is one of an enumeration is said by its type.
    pub(super) fn checks(&self) -> impl Iterator<Item = &Check> {
        let checks = self.declared().into_iter().flat_map(|it| &it.checks);
        checks.filter(|check| enum_of_check(check).is_none())
    }

    /// The default of a column, as SQL; an identity is none.
    pub(super) fn default(&self, at: usize) -> Option<&str> {
        let default = self.declared_column(at)?.default.as_deref()?;
        self.identity(at).is_none().then_some(default)
    }

    /// How a column is numbered that is an identity.
    pub(super) fn identity(&self, at: usize) -> Option<NumberedBy> {
        let default = self.declared_column(at)?.default.as_deref()?;
        let how = Numbered::of(default)?.how;
        (how != NumberedBy::Default).then_some(how)
    }

    /// What was said of it in words, or of one of its columns.
    pub(super) fn comment(&self, column: Option<usize>) -> Option<&str> {
        match column {
            None => self.declared()?.comment.as_deref(),
            Some(at) => self.declared_column(at)?.comment.as_deref(),
        }
    }
}

/// All of one database that somebody may see.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(super) reader: Reader,
    pub(super) database: String,
    /// Names and numbers of all databases that the reader sees.
    pub(super) databases: Vec<(String, i64)>,
    pub(super) schemas: Vec<Schema>,
    pub(super) roles: Vec<Role>,
    /// Tables and views, by schema and name; then their indexes.
    pub(super) objects: Vec<Object>,
    by_oid: OnceLock<HashMap<i64, usize>>,
    by_name: OnceLock<HashMap<(usize, String), usize>>,
    /// Tables that have an index.
    indexed: OnceLock<HashSet<i64>>,
    /// Tables that have a foreign key, or that one points to.
    linked: OnceLock<HashSet<i64>>,
}

impl Catalogue {
    /// The names of a database, without those of the catalogue itself.
    pub(crate) fn of(snapshot: &Snapshot, database: &str, reader: Reader) -> Self {
        let mut catalogue = Self {
            databases: databases(snapshot, &reader.principal),
            roles: roles(snapshot, &reader),
            reader,
            database: database.to_owned(),
            schemas: schemas(snapshot, database),
            objects: Vec::new(),
            by_oid: OnceLock::new(),
            by_name: OnceLock::new(),
            indexed: OnceLock::new(),
            linked: OnceLock::new(),
        };
        catalogue.find_objects(snapshot);
        catalogue
    }

    /// Whether it has the names of this database.
    pub(crate) fn is_of(&self, database: &str) -> bool {
        self.database == database
    }

    fn find_objects(&mut self, snapshot: &Snapshot) {
        let database = self.database.clone();
        let principal = self.reader.principal.clone();
        let reads = |place: Place<'_>| principal.check(Privilege::Read, place).is_ok();
        let reads_all = reads(Place::database(&database));
        for at in 0..self.schemas.len() {
            let (schema, oid) = (self.schemas[at].name.clone(), self.schemas[at].oid);
            let mut found: Vec<Object> = Vec::new();
            let mut add = |oid: i64, name: String, of: Of| {
                if reads_all || reads(Place::table(&database, &schema, &name)) {
                    let schema = at;
                    found.push(Object {
                        oid,
                        schema,
                        name,
                        of,
                    });
                }
            };
            match schema.as_str() {
                SYSTEM_SCHEMA if reads_all => {
                    for name in system::TABLES {
                        if let Some(schema) = system::schema(name) {
                            add(oids::view(oid, name), name.to_owned(), Of::System(schema));
                        }
                    }
                }
                SYSTEM_SCHEMA => {}
                PG_CATALOG | INFORMATION_SCHEMA | TIMESCALEDB_INFORMATION => {
                    let tables = relations::all().iter();
                    for table in tables.filter(|table| table.schema == schema) {
                        found.push(Object {
                            oid: table.oid,
                            schema: at,
                            name: table.name.to_owned(),
                            of: Of::Catalog(table),
                        });
                    }
                }
                _ => {
                    for name in snapshot.tables(&database, &schema).unwrap_or_default() {
                        if let Some(table) = snapshot.table(&database, &schema, &name) {
                            add(oids::table(table.kept_id()), name, Of::Series(table));
                        }
                    }
                    for name in define::relations(snapshot, &database, &schema) {
                        let found = define::find_relation(snapshot, &database, &schema, &name);
                        if let Some(reader) = found {
                            let relation = Arc::clone(reader.schema());
                            add(oids::relation(relation.id), name, Of::Relation(relation));
                        }
                    }
                    for name in define::views(snapshot, &database, &schema) {
                        let query = define::view(snapshot, &database, &schema, &name);
                        let query = query.unwrap_or_default();
                        add(oids::view(oid, &name), name, Of::View(query));
                    }
                    for of in define::sequences(snapshot, &database, &schema) {
                        let name = of.name.clone();
                        add(oids::sequence(oid, &name), name, Of::Sequence(of));
                    }
                    found.sort_by(|one, other| one.name.cmp(&other.name));
                }
            }
            self.objects.append(&mut found);
        }
        let mut indexes = Vec::new();
        for (at, object) in self.objects.iter().enumerate() {
            indexes.extend(indexes_of(at, object));
        }
        for at in 0..self.schemas.len() {
            self.find_kept_indexes(snapshot, at, &mut indexes);
        }
        self.objects.append(&mut indexes);
    }

    /// The indexes of a schema that are kept as they were written.
    fn find_kept_indexes(&self, snapshot: &Snapshot, schema: usize, found: &mut Vec<Object>) {
        let Some(of) = self.schemas.get(schema) else {
            return;
        };
        let kept = define::indexes(snapshot, (&self.database, &of.name));
        if kept.is_empty() {
            return;
        }
        let tables = self.objects.iter().enumerate();
        let tables = tables.filter_map(|(at, object)| match &object.of {
            Of::Series(table) => Some((Owner::Table(table.kept_id()), at)),
            Of::Relation(relation) => Some((Owner::Relation(relation.id), at)),
            _ => None,
        });
        let tables: HashMap<Owner, usize> = tables.collect();
        for (owner, index) in kept {
            // One of a table that is gone, or that the reader does not see.
            let Some(&table) = tables.get(&owner) else {
                continue;
            };
            let columns = self.objects.get(table).and_then(Object::columns);
            let number = |name: &Option<String>| {
                let at = columns.as_ref()?.index_of(name.as_ref()?).ok()?;
                i64::try_from(at + 1).ok()
            };
            found.push(Object {
                oid: oids::kept_index(of.oid, &index.name),
                schema,
                name: index.name,
                of: Of::Index(Index {
                    table,
                    columns: index
                        .columns
                        .iter()
                        .map(|it| number(it).unwrap_or(0))
                        .collect(),
                    is_primary: false,
                    constraint: 0,
                    definition: Some(index.definition),
                }),
            });
        }
    }

    /// Whether a table has an index.
    pub(super) fn is_indexed(&self, oid: i64) -> bool {
        let indexed = self.indexed.get_or_init(|| {
            let indexes = self.objects.iter().filter_map(|object| match &object.of {
                Of::Index(index) => Some(self.objects.get(index.table)?.oid),
                _ => None,
            });
            indexes.collect()
        });
        indexed.contains(&oid)
    }

    /// Whether a foreign key is of a table, or points to it.
    pub(super) fn is_linked(&self, oid: i64) -> bool {
        let linked = self.linked.get_or_init(|| {
            let mut linked = HashSet::new();
            for object in &self.objects {
                for key in object.checks().filter_map(ForeignKey::of) {
                    let schema = self.schemas.get(object.schema);
                    let to = schema.and_then(|it| self.by_name(Some(&it.name), &key.to));
                    linked.insert(object.oid);
                    linked.extend(to.map(|to| to.oid));
                }
            }
            linked
        });
        linked.contains(&oid)
    }

    /// The table and the number of the column, from 1, that a sequence is of, and how that is numbered.
    pub(super) fn owner_of(&self, object: &Object) -> Option<(&Object, usize, Numbered)> {
        let Of::Sequence(sequence) = &object.of else {
            return None;
        };
        let (table, column) = &sequence.of;
        let schema = self.schemas.get(object.schema)?;
        let table = self.by_name(Some(&schema.name), table)?;
        let at = table.columns()?.index_of(column).ok()?;
        let default = table.declared_column(at)?.default.as_deref()?;
        Some((table, at + 1, Numbered::of(default)?))
    }

    /// How a sequence counts; its column knows with which number it began.
    pub(super) fn counting_of(&self, object: &Object, snapshot: &Snapshot) -> Option<Counting> {
        let Of::Sequence(sequence) = &object.of else {
            return None;
        };
        let within = (self.database.as_str(), self.schema_of(object));
        let mut counting = sequence.counting(snapshot, within);
        if let Some((_, _, numbered)) = self.owner_of(object) {
            counting.start = numbered.start;
        }
        Some(counting)
    }

    /// An object by its number.
    pub(super) fn by_oid(&self, oid: i64) -> Option<&Object> {
        let places = self.by_oid.get_or_init(|| {
            let objects = self.objects.iter().enumerate();
            objects.map(|(at, object)| (object.oid, at)).collect()
        });
        self.objects.get(*places.get(&oid)?)
    }

    /// An object by its name, in a schema or where names without one are looked up.
    pub(super) fn by_name(&self, schema: Option<&str>, name: &str) -> Option<&Object> {
        let places = self.by_name.get_or_init(|| {
            let objects = self.objects.iter().enumerate();
            let named = objects.map(|(at, object)| ((object.schema, object.name.clone()), at));
            named.collect()
        });
        let within = |schema: &str| {
            let at = self.schemas.iter().position(|it| it.name == schema)?;
            self.objects.get(*places.get(&(at, name.to_owned()))?)
        };
        match schema {
            Some(schema) => within(schema),
            None => within(PG_CATALOG).or_else(|| within(&self.reader.schema)),
        }
    }

    /// A CHECK by its number, with its table.
    pub(super) fn check(&self, oid: i64) -> Option<(&Object, &Check)> {
        let all = self.objects.iter();
        let mut all = all.flat_map(|object| object.checks().map(move |it| (object, it)));
        all.find(|(object, check)| oids::check(object.oid, &check.name) == oid)
    }

    /// Whether an object is found by its name alone.
    pub(super) fn is_visible(&self, object: &Object) -> bool {
        let schema = self.schemas.get(object.schema);
        schema.is_some_and(|it| it.name == PG_CATALOG || it.name == self.reader.schema)
    }

    /// The schema of an object.
    pub(super) fn schema_of(&self, object: &Object) -> &str {
        let schema = self.schemas.get(object.schema);
        schema.map_or("", |schema| schema.name.as_str())
    }
}

fn databases(snapshot: &Snapshot, principal: &Principal) -> Vec<(String, i64)> {
    let names = snapshot.databases().into_iter();
    names
        .filter(|name| name != INTERNAL_DATABASE && principal.sees(name))
        .filter_map(|name| {
            let id = snapshot.database_id(&name)?;
            Some((name, oids::database(id.0)))
        })
        .collect()
}

fn schemas(snapshot: &Snapshot, database: &str) -> Vec<Schema> {
    let named = |name: &str, oid| Schema {
        oid,
        name: name.to_owned(),
    };
    let mut schemas = vec![
        named(PG_CATALOG, oids::PG_CATALOG_OID),
        named(INFORMATION_SCHEMA, oids::INFORMATION_SCHEMA_OID),
        named(SYSTEM_SCHEMA, oids::SYSTEM_SCHEMA_OID),
        named(TIMESCALEDB_INFORMATION, oids::TIMESCALEDB_INFORMATION_OID),
    ];
    for name in snapshot.schemas(database).unwrap_or_default() {
        if let Some(id) = snapshot.schema_id(database, &name)
            && !define::is_reserved(&name)
        {
            schemas.push(named(&name, oids::schema(id, &name)));
        }
    }
    schemas
}

/// The owner of everything, and all users for an administrator, oneself for others.
fn roles(snapshot: &Snapshot, reader: &Reader) -> Vec<Role> {
    let own = reader.name();
    let users = users_of(snapshot);
    let is_known = reader.principal.name().is_some() || users.iter().any(|user| user.name == own);
    // Nobody logs in as the owner of all tables, where users do.
    let mut roles = vec![Role {
        oid: oids::OWNER,
        name: if is_known { OWNER } else { own }.to_owned(),
        is_admin: true,
        can_login: !is_known,
        is_user: false,
    }];
    let sees_all = reader.principal.is_admin();
    for user in users {
        if sees_all || user.name == own {
            roles.push(Role {
                oid: oids::user(&user.name),
                is_admin: user.is_admin,
                can_login: user.can_login,
                is_user: true,
                name: user.name,
            });
        }
    }
    roles
}

/// The indexes of a table that stands in this place.
fn indexes_of(table: usize, object: &Object) -> Vec<Object> {
    let index = |oid, name, columns, is_primary, constraint| Object {
        oid,
        schema: object.schema,
        name,
        of: Of::Index(Index {
            table,
            columns,
            is_primary,
            constraint,
            definition: None,
        }),
    };
    match &object.of {
        Of::Relation(relation) => {
            let keys = relation.keys().map(|(key, positions)| {
                let name = relation.key_name(key);
                let columns = positions.iter().map(|&at| i64::from(at) + 1).collect();
                let constraint = oids::constraint(relation.id, key);
                let oid = oids::index(relation.id, key);
                index(oid, name, columns, key == 0, constraint)
            });
            keys.collect()
        }
        Of::Series(series) if series.settings.duplicates == Duplicates::Unique => {
            // Tags may be NULL, so the key is no primary one.
            let shown = series.shown_columns();
            let positions = (1..=series.tags.len()).chain([0]);
            let columns = positions.filter_map(|position| shown.shown_at(position));
            let columns = columns.map(|at| i64::try_from(at + 1).unwrap_or_default());
            let columns: Vec<i64> = columns.collect();
            let mut given = object.declared().into_iter().flat_map(|it| &it.keys);
            let given = given.next().map(|(_, name)| name.clone());
            let name = given.unwrap_or_else(|| format!("{}_key", object.name));
            vec![index(
                oids::table_index(series.kept_id()),
                name,
                columns,
                false,
                0,
            )]
        }
        _ => Vec::new(),
    }
}
