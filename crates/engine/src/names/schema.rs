//! Table schemas: names, ids and types, as one snapshot sees them.
//!
//! Does: map names to ids and to the columns that leave the engine. Does not: hold rows or series.

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nilometer_codec::PhysicalType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::declared::{Declared, DeclaredTable, TimeKind};
use crate::logical::LogicalType;
use crate::shown::{ShownColumn, ShownColumns};

/// Number of a batch in the one order of the data directory; 0 = before every batch.
pub type Lsn = u64;

/// The schema that every database has.
pub const DEFAULT_SCHEMA: &str = "public";

/// The name of the time column.
pub const TIME_COLUMN: &str = "time";

/// Widest window of a partition unless the table says otherwise: one day in nanoseconds.
pub(crate) const PARTITION_INTERVAL_NS: i64 = 86_400_000_000_000;

/// What two rows of one series and time mean in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Duplicates {
    /// They are one row: per field the newest value, and null never overwrites. InfluxDB's way.
    #[default]
    Last,
    /// They are two rows.
    Keep,
    /// The second is refused, skipped or replaces the first as a whole, as its writer says.
    Unique,
}

/// What can be set of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSettings {
    /// Rows of one series and time.
    pub duplicates: Duplicates,
    /// Width of new partitions in nanoseconds, at least 1.
    pub partition_interval_ns: i64,
    /// Rows older than this many nanoseconds may be dropped, `i64::MAX` = kept for ever; `None` = as its schema says,
    /// which is for ever unless that was set.
    pub retention_ns: Option<i64>,
    /// Partitions older than this many nanoseconds are written for few bytes, `i64::MAX` = none is, and those that were are
    /// written for reading again; `None` = they stay as they are.
    pub cold_after_ns: Option<i64>,
}

impl Default for TableSettings {
    fn default() -> Self {
        Self {
            duplicates: Duplicates::Last,
            partition_interval_ns: PARTITION_INTERVAL_NS,
            retention_ns: None,
            cold_after_ns: None,
        }
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id!(
    /// A database; never reused.
    DatabaseId
);
id!(
    /// A schema of a database; never reused.
    SchemaId
);
id!(
    /// A table; never reused.
    TableId
);
id!(
    /// A tag or a field of a table; never reused, unique in the data directory.
    ColumnId
);
id!(
    /// A series; never reused, unique in the data directory.
    SeriesId
);

/// What a column is for. With the name it makes a column's key, so a tag and a field may share a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Identifies the series; text.
    Tag,
    /// A measured value of this type.
    Field(PhysicalType),
}

/// A tag or a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its id.
    pub id: ColumnId,
    /// Its name as the writer gave it.
    pub name: String,
    /// Tag or field.
    pub kind: ColumnKind,
    /// What was said of it beside that; `None` = nothing.
    pub declared: Option<Arc<Declared>>,
}

impl ColumnDef {
    /// The logical type; `None` = the stored one.
    pub fn of(&self) -> Option<LogicalType> {
        self.declared.as_ref()?.of
    }

    /// Whether every row has a value.
    pub fn is_not_null(&self) -> bool {
        self.declared.as_ref().is_some_and(|it| it.not_null)
    }

    pub(crate) fn declare(&mut self, declared: Declared) {
        self.declared = (!declared.is_empty()).then(|| Arc::new(declared));
    }
}

/// A table as of one moment; a new value replaces it when a column appears.
#[derive(Debug)]
pub struct TableSchema {
    /// The table's id.
    pub id: TableId,
    /// The schema it is in.
    pub schema: SchemaId,
    /// Its name.
    pub name: String,
    /// What can be set of it.
    pub settings: TableSettings,
    /// Tags in the order of their appearance.
    pub tags: Vec<ColumnDef>,
    /// Fields in the order of their appearance.
    pub fields: Vec<ColumnDef>,
    /// What was said of it beside names and types; `None` = nothing.
    pub declared: Option<Arc<DeclaredTable>>,
    arrow: OnceLock<SchemaRef>,
    shown: OnceLock<Arc<ShownColumns>>,
    /// Made when a name is first asked for in a table with many columns.
    by_name: OnceLock<ByName>,
}

/// Positions of columns by name. Looking through a hundred thousand of them for each that comes would take minutes.
#[derive(Debug)]
struct ByName {
    tags: FxHashMap<String, usize>,
    fields: FxHashMap<String, usize>,
}

/// Memory of a table without columns, about, with the places where it is found by name and by id.
pub(crate) fn table_bytes(name: &str) -> usize {
    size_of::<TableSchema>() + 160 + 2 * name.len()
}

/// Memory of a column, about. Where there are many, each is found by its name in one more place, and Arrow has one too.
pub(crate) fn column_bytes(name: &str) -> usize {
    size_of::<ColumnDef>() + 160 + 3 * name.len()
}

/// So few columns are looked through as fast as they are looked up.
const SCANNED_COLUMNS_MAX: usize = 64;

/// Where a position of [`TableSchema::arrow_schema`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSource {
    /// The time column.
    Time,
    /// The n-th tag.
    Tag(usize),
    /// The n-th field.
    Field(usize),
}

impl TableSchema {
    pub(crate) fn new(id: TableId, schema: SchemaId, name: String) -> Self {
        Self {
            id,
            schema,
            name,
            settings: TableSettings::default(),
            tags: Vec::new(),
            fields: Vec::new(),
            declared: None,
            arrow: OnceLock::new(),
            shown: OnceLock::new(),
            by_name: OnceLock::new(),
        }
    }

    /// The same table after a change.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = Self {
            id: self.id,
            schema: self.schema,
            name: self.name.clone(),
            settings: self.settings,
            tags: self.tags.clone(),
            fields: self.fields.clone(),
            declared: self.declared.clone(),
            arrow: OnceLock::new(),
            shown: OnceLock::new(),
            by_name: OnceLock::new(),
        };
        change(&mut changed);
        changed
    }

    /// What it costs in memory, about, with the places where it is found by name and by id.
    pub(crate) fn name_bytes(&self) -> usize {
        let columns = self.tags.iter().chain(&self.fields);
        let columns = columns.map(|column| {
            let declared = column.declared.as_ref().map_or(0, |it| it.bytes());
            column_bytes(&column.name) + declared
        });
        let declared = self.declared.as_ref().map_or(0, |it| it.bytes());
        table_bytes(&self.name) + declared + columns.sum::<usize>()
    }

    /// The same table with one column more.
    pub(crate) fn with_column(&self, column: ColumnDef) -> Self {
        self.changed(|table| table.push_column(column))
    }

    /// Adds a column, in place: for a table that nobody else sees yet.
    pub(crate) fn push_column(&mut self, column: ColumnDef) {
        self.arrow = OnceLock::new();
        self.shown = OnceLock::new();
        let is_tag = column.kind == ColumnKind::Tag;
        let list = if is_tag {
            &mut self.tags
        } else {
            &mut self.fields
        };
        if let Some(names) = self.by_name.get_mut() {
            let names = if is_tag {
                &mut names.tags
            } else {
                &mut names.fields
            };
            names.insert(column.name.clone(), list.len());
        }
        if list.is_empty() {
            // There may be very many tables of one field.
            list.reserve_exact(1);
        }
        list.push(column);
    }

    /// The same table without a column.
    pub(crate) fn without_column(&self, id: ColumnId) -> Self {
        self.changed(|table| {
            table.tags.retain(|tag| tag.id != id);
            table.fields.retain(|field| field.id != id);
        })
    }

    /// The same table with something of a column changed.
    pub(crate) fn with_changed_column(
        &self,
        id: ColumnId,
        change: impl FnOnce(&mut ColumnDef),
    ) -> Self {
        self.changed(|table| {
            let mut columns = table.tags.iter_mut().chain(&mut table.fields);
            if let Some(column) = columns.find(|column| column.id == id) {
                change(column);
            }
        })
    }

    /// The column of this id.
    pub(crate) fn column(&self, id: ColumnId) -> Option<&ColumnDef> {
        let mut columns = self.tags.iter().chain(&self.fields);
        columns.find(|column| column.id == id)
    }

    /// The column of this name among those of its kind: a tag and a field may share one.
    pub(crate) fn column_like(&self, kind: ColumnKind, name: &str) -> Option<&ColumnDef> {
        match kind {
            ColumnKind::Tag => self.tag(name),
            ColumnKind::Field(_) => self.field(name),
        }
    }

    /// The tag or field that [`Self::arrow_schema`] shows under this name; the time column is neither.
    pub fn shown(&self, name: &str) -> Option<&ColumnDef> {
        match self.source(self.arrow_schema().index_of(name).ok()?)? {
            ColumnSource::Time => None,
            ColumnSource::Tag(at) => self.tags.get(at),
            ColumnSource::Field(at) => self.fields.get(at),
        }
    }

    /// The tag of this name.
    pub fn tag(&self, name: &str) -> Option<&ColumnDef> {
        if self.tags.len() <= SCANNED_COLUMNS_MAX {
            return self.tags.iter().find(|tag| tag.name == name);
        }
        self.tags.get(*self.names().tags.get(name)?)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&ColumnDef> {
        if self.fields.len() <= SCANNED_COLUMNS_MAX {
            return self.fields.iter().find(|field| field.name == name);
        }
        self.fields.get(*self.names().fields.get(name)?)
    }

    fn names(&self) -> &ByName {
        let of = |columns: &[ColumnDef]| {
            let columns = columns.iter().enumerate();
            columns.map(|(at, it)| (it.name.clone(), at)).collect()
        };
        self.by_name.get_or_init(|| ByName {
            tags: of(&self.tags),
            fields: of(&self.fields),
        })
    }

    /// The columns that leave the engine: `time`, then tags as dictionary-encoded text, then fields. A field named
    /// like a tag or like `time` is shown as `name_1`, because SQL knows one name once.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::clone(self.arrow.get_or_init(|| Arc::new(self.build_arrow())))
    }

    /// The columns as SQL shows them. Without declarations they are those of [`Self::arrow_schema`].
    pub fn shown_columns(&self) -> &Arc<ShownColumns> {
        self.shown.get_or_init(|| Arc::new(self.build_shown()))
    }

    /// The id under which others keep what belongs to the table: it stays when the rows are written anew in another form.
    pub fn kept_id(&self) -> TableId {
        let declared = self.declared.as_ref();
        declared.and_then(|it| it.kept_as).unwrap_or(self.id)
    }

    /// The name and kind of the time column.
    pub fn time(&self) -> (&str, TimeKind) {
        match self.declared.as_ref().and_then(|it| it.time.as_ref()) {
            Some(time) => (&time.name, time.kind),
            None => (TIME_COLUMN, TimeKind::TimestampTz),
        }
    }

    /// The smaller type that a time has which is an integer; `None` = it is of 64 bits, or no integer.
    pub fn time_type(&self) -> Option<LogicalType> {
        self.declared.as_ref()?.time.as_ref()?.column.of
    }

    fn build_shown(&self) -> ShownColumns {
        let arrow = self.arrow_schema();
        let time = self.declared.as_ref().and_then(|it| it.time.as_ref());
        let mut shown: Vec<(Option<u32>, (Field, ShownColumn))> = Vec::new();
        for (position, field) in arrow.fields().iter().enumerate() {
            let field = field.as_ref().clone();
            let said = match self.source(position) {
                Some(ColumnSource::Time) | None => {
                    shown.push(match time {
                        None => (Some(0), ShownColumn::as_stored(position, field)),
                        Some(time) => (
                            time.column.position.or(Some(0)),
                            ShownColumn::time(position, field, time),
                        ),
                    });
                    continue;
                }
                Some(ColumnSource::Tag(at)) => self.tags.get(at),
                Some(ColumnSource::Field(at)) => self.fields.get(at),
            };
            let declared = said.and_then(|it| it.declared.as_deref());
            let column = match declared.and_then(|it| it.of) {
                None => ShownColumn::as_stored(position, field),
                Some(of) => ShownColumn::of(position, field, of, self.is_tag(position)),
            };
            shown.push((declared.and_then(|it| it.position), column));
        }
        // A stable sort: what says no place keeps its order, behind the others.
        shown.sort_by_key(|(place, _)| place.unwrap_or(u32::MAX));
        let columns = ShownColumns::of(shown.into_iter().map(|(_, column)| column));
        let declared = self.declared.as_ref();
        columns.with_enumerations(declared.map_or(&[], |it| &it.checks))
    }

    fn build_arrow(&self) -> Schema {
        let mut columns = vec![Field::new(TIME_COLUMN, time_type(), false)];
        let mut taken = FxHashSet::default();
        taken.insert(TIME_COLUMN.to_owned());
        // SQL may call the time otherwise, and knows one name once.
        taken.insert(self.time().0.to_owned());
        for tag in &self.tags {
            let name = unique(&tag.name, &mut taken);
            columns.push(Field::new(name, tag_type(), true));
        }
        for field in &self.fields {
            let ColumnKind::Field(kind) = field.kind else {
                continue;
            };
            let name = unique(&field.name, &mut taken);
            columns.push(Field::new(name, field_type(kind), true));
        }
        Schema::new(columns)
    }

    /// What stands at a position of [`Self::arrow_schema`].
    pub fn source(&self, position: usize) -> Option<ColumnSource> {
        match position {
            0 => Some(ColumnSource::Time),
            n if n <= self.tags.len() => Some(ColumnSource::Tag(n - 1)),
            n if n <= self.tags.len() + self.fields.len() => {
                Some(ColumnSource::Field(n - 1 - self.tags.len()))
            }
            _ => None,
        }
    }

    /// Whether a position of [`Self::arrow_schema`] is a tag.
    pub fn is_tag(&self, position: usize) -> bool {
        matches!(self.source(position), Some(ColumnSource::Tag(_)))
    }

    /// Whether every row has a value of the column at a position of [`Self::arrow_schema`].
    pub fn is_not_null(&self, position: usize) -> bool {
        let column = match self.source(position) {
            Some(ColumnSource::Time) => return true,
            Some(ColumnSource::Tag(at)) => self.tags.get(at),
            Some(ColumnSource::Field(at)) => self.fields.get(at),
            None => None,
        };
        column.is_some_and(ColumnDef::is_not_null)
    }
}

/// The name, or the first of `name_1`, `name_2` and so on that is free; it is taken from then on.
fn unique(name: &str, taken: &mut FxHashSet<String>) -> String {
    let mut shown = name.to_owned();
    let mut n = 0;
    while !taken.insert(shown.clone()) {
        n += 1;
        shown = format!("{name}_{n}");
    }
    shown
}

/// Arrow's type of the time column.
pub(crate) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Arrow's type of a tag.
pub(crate) fn tag_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Arrow's type of a field.
pub(crate) fn field_type(kind: PhysicalType) -> DataType {
    match kind {
        PhysicalType::I64 => DataType::Int64,
        PhysicalType::U64 => DataType::UInt64,
        PhysicalType::F64 => DataType::Float64,
        PhysicalType::Bool => DataType::Boolean,
        PhysicalType::Text => DataType::Utf8,
        PhysicalType::Bytes => DataType::Binary,
    }
}

/// InfluxDB's name of a field type, as its conflict errors print it.
pub(crate) fn type_name(kind: PhysicalType) -> &'static str {
    match kind {
        PhysicalType::I64 => "integer",
        PhysicalType::U64 => "unsigned",
        PhysicalType::F64 => "float",
        PhysicalType::Bool => "boolean",
        PhysicalType::Text => "string",
        PhysicalType::Bytes => "bytes",
    }
}
