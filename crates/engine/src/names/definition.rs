//! Definitions: log entries that give a name its id before the first use of the id.
//!
//! The same bytes stand in the log's definition records and in definition files; see `docs/format/definitions.md`.

use nilometer_codec::{PhysicalType, varint};

pub(crate) use crate::parts::{put_text, take_byte, take_bytes, take_text, take_u32};

use crate::declared::{Declared, DeclaredTable};
use crate::error::Malformed;
use crate::schema::{
    ColumnId, ColumnKind, DatabaseId, Duplicates, SchemaId, SeriesId, TableId, TableSettings,
};

/// One thing that came to exist, changed or was dropped. Entries of the past are never rewritten: what is dropped keeps
/// its entry and its drop, so that its id stays taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Definition {
    Database {
        id: DatabaseId,
        name: String,
    },
    Schema {
        id: SchemaId,
        database: DatabaseId,
        name: String,
    },
    Table {
        id: TableId,
        schema: SchemaId,
        name: String,
    },
    Column {
        id: ColumnId,
        table: TableId,
        kind: ColumnKind,
        name: String,
    },
    /// The next code of a tag in this log record; codes count from 0 in the order in which the record lists them.
    TagValue {
        tag: ColumnId,
        value: String,
    },
    Series {
        id: SeriesId,
        table: TableId,
        /// Tag and code of its value in this record, in the order of tag ids; absent tags are not listed.
        tags: Vec<(ColumnId, u32)>,
    },
    /// A table's settings from here on; until the first, they are the default ones.
    SetTable {
        id: TableId,
        settings: TableSettings,
    },
    /// What a schema gives the tables that do not say otherwise.
    SetSchema {
        id: SchemaId,
        retention_ns: Option<i64>,
    },
    /// Which schema a name without one means; until the first, it is the database's first schema.
    DefaultSchema {
        database: DatabaseId,
        schema: SchemaId,
    },
    RenameDatabase {
        id: DatabaseId,
        name: String,
    },
    RenameSchema {
        id: SchemaId,
        name: String,
    },
    RenameTable {
        id: TableId,
        name: String,
    },
    RenameColumn {
        id: ColumnId,
        table: TableId,
        name: String,
    },
    /// A field has another type from here on; what is stored as the old one is converted when read.
    ChangeType {
        id: ColumnId,
        table: TableId,
        to: PhysicalType,
    },
    /// What a column is declared as from here on, instead of what it was.
    DeclareColumn {
        id: ColumnId,
        table: TableId,
        declared: Box<Declared>,
    },
    /// What a table is declared as from here on, instead of what it was.
    DeclareTable {
        id: TableId,
        declared: Box<DeclaredTable>,
    },
    /// Drops all that is in it too.
    DropDatabase {
        id: DatabaseId,
    },
    /// Drops all that is in it too.
    DropSchema {
        id: SchemaId,
    },
    DropTable {
        id: TableId,
    },
    DropColumn {
        id: ColumnId,
        table: TableId,
    },
}

const DATABASE: u8 = 1;
const SCHEMA: u8 = 2;
const TABLE: u8 = 3;
const COLUMN: u8 = 4;
/// Of drafts whose codes counted from the first record on.
const DRAFTS: [u8; 2] = [5, 6];
const SET_TABLE: u8 = 7;
const SET_SCHEMA: u8 = 8;
const DEFAULT_SCHEMA: u8 = 9;
const RENAME_DATABASE: u8 = 10;
const RENAME_SCHEMA: u8 = 11;
const RENAME_TABLE: u8 = 12;
const RENAME_COLUMN: u8 = 13;
const CHANGE_TYPE: u8 = 14;
const DROP_DATABASE: u8 = 15;
const DROP_SCHEMA: u8 = 16;
const DROP_TABLE: u8 = 17;
const DROP_COLUMN: u8 = 18;
const TAG_VALUE: u8 = 19;
const SERIES: u8 = 20;
const DECLARE_COLUMN: u8 = 21;
const DECLARE_TABLE: u8 = 22;
/// Settings of a table with an age after which its partitions are cold.
const SET_COLD_TABLE: u8 = 23;

/// Column kind on disk of a tag; a field is its physical type's number.
const KIND_TAG: u8 = 0xFF;

impl Definition {
    /// Appends the entry.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, id) = self.head();
        out.push(kind);
        varint::put_u64(u64::from(id), out);
        match self {
            Self::Database { name, .. }
            | Self::RenameDatabase { name, .. }
            | Self::RenameSchema { name, .. }
            | Self::RenameTable { name, .. } => put_text(name, out),
            Self::Schema { database, name, .. } => {
                varint::put_u64(u64::from(database.0), out);
                put_text(name, out);
            }
            Self::Table { schema, name, .. } => {
                varint::put_u64(u64::from(schema.0), out);
                put_text(name, out);
            }
            Self::Column {
                table, kind, name, ..
            } => {
                varint::put_u64(u64::from(table.0), out);
                out.push(match kind {
                    ColumnKind::Tag => KIND_TAG,
                    ColumnKind::Field(kind) => *kind as u8,
                });
                put_text(name, out);
            }
            Self::TagValue { value, .. } => put_text(value, out),
            Self::Series { table, tags, .. } => {
                put_series(*table, tags, out);
            }
            Self::SetTable { settings, .. } => {
                put_settings(settings, out);
                if let Some(cold_after_ns) = settings.cold_after_ns {
                    varint::put_u64(cold_after_ns.unsigned_abs(), out);
                }
            }
            Self::SetSchema { retention_ns, .. } => put_retention(*retention_ns, out),
            Self::DefaultSchema { schema, .. } => varint::put_u64(u64::from(schema.0), out),
            Self::RenameColumn { table, name, .. } => {
                varint::put_u64(u64::from(table.0), out);
                put_text(name, out);
            }
            Self::ChangeType { table, to, .. } => {
                varint::put_u64(u64::from(table.0), out);
                out.push(*to as u8);
            }
            Self::DeclareColumn {
                table, declared, ..
            } => {
                varint::put_u64(u64::from(table.0), out);
                declared.encode(out);
            }
            Self::DeclareTable { declared, .. } => declared.encode(out),
            Self::DropColumn { table, .. } => varint::put_u64(u64::from(table.0), out),
            Self::DropDatabase { .. } | Self::DropSchema { .. } | Self::DropTable { .. } => {}
        }
    }

    /// What every entry starts with: its kind, and the id of what it is about.
    fn head(&self) -> (u8, u32) {
        match self {
            Self::Database { id, .. } => (DATABASE, id.0),
            Self::Schema { id, .. } => (SCHEMA, id.0),
            Self::Table { id, .. } => (TABLE, id.0),
            Self::Column { id, .. } => (COLUMN, id.0),
            Self::TagValue { tag, .. } => (TAG_VALUE, tag.0),
            Self::Series { id, .. } => (SERIES, id.0),
            Self::SetTable { id, settings } if settings.cold_after_ns.is_some() => {
                (SET_COLD_TABLE, id.0)
            }
            Self::SetTable { id, .. } => (SET_TABLE, id.0),
            Self::SetSchema { id, .. } => (SET_SCHEMA, id.0),
            Self::DefaultSchema { database, .. } => (DEFAULT_SCHEMA, database.0),
            Self::RenameDatabase { id, .. } => (RENAME_DATABASE, id.0),
            Self::RenameSchema { id, .. } => (RENAME_SCHEMA, id.0),
            Self::RenameTable { id, .. } => (RENAME_TABLE, id.0),
            Self::RenameColumn { id, .. } => (RENAME_COLUMN, id.0),
            Self::ChangeType { id, .. } => (CHANGE_TYPE, id.0),
            Self::DeclareColumn { id, .. } => (DECLARE_COLUMN, id.0),
            Self::DeclareTable { id, .. } => (DECLARE_TABLE, id.0),
            Self::DropDatabase { id } => (DROP_DATABASE, id.0),
            Self::DropSchema { id } => (DROP_SCHEMA, id.0),
            Self::DropTable { id } => (DROP_TABLE, id.0),
            Self::DropColumn { id, .. } => (DROP_COLUMN, id.0),
        }
    }

    /// Reads one entry and moves `input` past it.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let kind = take_byte(input)?;
        let id = take_u32(input)?;
        Ok(match kind {
            DATABASE => Self::Database {
                id: DatabaseId(id),
                name: take_text(input)?,
            },
            SCHEMA => Self::Schema {
                id: SchemaId(id),
                database: DatabaseId(take_u32(input)?),
                name: take_text(input)?,
            },
            TABLE => Self::Table {
                id: TableId(id),
                schema: SchemaId(take_u32(input)?),
                name: take_text(input)?,
            },
            COLUMN => Self::Column {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
                kind: match take_byte(input)? {
                    KIND_TAG => ColumnKind::Tag,
                    number => ColumnKind::Field(PhysicalType::try_from(number)?),
                },
                name: take_text(input)?,
            },
            TAG_VALUE => Self::TagValue {
                tag: ColumnId(id),
                value: take_text(input)?,
            },
            SERIES => {
                let table = TableId(take_u32(input)?);
                let n = take_u32(input)?;
                let mut tags = Vec::new();
                for _ in 0..n {
                    tags.push((ColumnId(take_u32(input)?), take_u32(input)?));
                }
                Self::Series {
                    id: SeriesId(id),
                    table,
                    tags,
                }
            }
            other => return Self::decode_change(other, id, input),
        })
    }

    /// The rest of an entry that makes nothing new.
    fn decode_change(kind: u8, id: u32, input: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(match kind {
            SET_TABLE => Self::SetTable {
                id: TableId(id),
                settings: take_settings(input)?,
            },
            SET_COLD_TABLE => {
                let mut settings = take_settings(input)?;
                settings.cold_after_ns = take_positive(input)?;
                if settings.cold_after_ns.is_none() {
                    return Err(Malformed::new("cold after 0"));
                }
                Self::SetTable {
                    id: TableId(id),
                    settings,
                }
            }
            SET_SCHEMA => Self::SetSchema {
                id: SchemaId(id),
                retention_ns: take_retention(input)?,
            },
            DEFAULT_SCHEMA => Self::DefaultSchema {
                database: DatabaseId(id),
                schema: SchemaId(take_u32(input)?),
            },
            RENAME_DATABASE => Self::RenameDatabase {
                id: DatabaseId(id),
                name: take_text(input)?,
            },
            RENAME_SCHEMA => Self::RenameSchema {
                id: SchemaId(id),
                name: take_text(input)?,
            },
            RENAME_TABLE => Self::RenameTable {
                id: TableId(id),
                name: take_text(input)?,
            },
            RENAME_COLUMN => Self::RenameColumn {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
                name: take_text(input)?,
            },
            CHANGE_TYPE => Self::ChangeType {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
                to: PhysicalType::try_from(take_byte(input)?)?,
            },
            DECLARE_COLUMN => Self::DeclareColumn {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
                declared: Box::new(Declared::decode(input)?),
            },
            DECLARE_TABLE => {
                let declared = Box::new(DeclaredTable::decode(input)?);
                if declared.row_number.is_some() {
                    return Err(Malformed::new("a table over time numbers its rows"));
                }
                let id = TableId(id);
                Self::DeclareTable { id, declared }
            }
            DROP_DATABASE => Self::DropDatabase { id: DatabaseId(id) },
            DROP_SCHEMA => Self::DropSchema { id: SchemaId(id) },
            DROP_TABLE => Self::DropTable { id: TableId(id) },
            DROP_COLUMN => Self::DropColumn {
                id: ColumnId(id),
                table: TableId(take_u32(input)?),
            },
            draft if DRAFTS.contains(&draft) => {
                return Err(Malformed::new(
                    "an earlier draft of format 0 kept its series here; write the data again, or read it with the \
                     version that wrote it",
                ));
            }
            other => return Err(Malformed::new(format!("unknown definition kind {other}"))),
        })
    }

    /// Reads entries until the input ends.
    pub(crate) fn decode_all(mut input: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(Self::decode(&mut input)?);
        }
        Ok(all)
    }
}

/// Appends the entry of a tag's value. A value apart from [`Definition`], because a write may bring a million.
pub(crate) fn encode_tag_value(tag: ColumnId, value: &str, out: &mut Vec<u8>) {
    out.push(TAG_VALUE);
    varint::put_u64(u64::from(tag.0), out);
    put_text(value, out);
}

/// Appends the entry of a series.
pub(crate) fn encode_series(
    id: SeriesId,
    table: TableId,
    tags: &[(ColumnId, u32)],
    out: &mut Vec<u8>,
) {
    out.push(SERIES);
    varint::put_u64(u64::from(id.0), out);
    put_series(table, tags, out);
}

fn put_series(table: TableId, tags: &[(ColumnId, u32)], out: &mut Vec<u8>) {
    varint::put_u64(u64::from(table.0), out);
    varint::put_u64(tags.len() as u64, out);
    for (tag, code) in tags {
        varint::put_u64(u64::from(tag.0), out);
        varint::put_u64(u64::from(*code), out);
    }
}

fn put_settings(settings: &TableSettings, out: &mut Vec<u8>) {
    out.push(match settings.duplicates {
        Duplicates::Last => 0,
        Duplicates::Keep => 1,
        Duplicates::Unique => 2,
    });
    varint::put_u64(settings.partition_interval_ns.unsigned_abs(), out);
    put_retention(settings.retention_ns, out);
}

fn take_settings(input: &mut &[u8]) -> Result<TableSettings, Malformed> {
    let duplicates = match take_byte(input)? {
        0 => Duplicates::Last,
        1 => Duplicates::Keep,
        2 => Duplicates::Unique,
        other => {
            return Err(Malformed::new(format!(
                "unknown kind of duplicates {other}"
            )));
        }
    };
    let interval = take_positive(input)?;
    Ok(TableSettings {
        duplicates,
        partition_interval_ns: interval
            .ok_or_else(|| Malformed::new("a partition interval of 0"))?,
        retention_ns: take_retention(input)?,
        cold_after_ns: None,
    })
}

fn put_retention(retention_ns: Option<i64>, out: &mut Vec<u8>) {
    varint::put_u64(retention_ns.map_or(0, i64::unsigned_abs), out);
}

fn take_retention(input: &mut &[u8]) -> Result<Option<i64>, Malformed> {
    take_positive(input)
}

/// A number of nanoseconds; `None` = 0.
fn take_positive(input: &mut &[u8]) -> Result<Option<i64>, Malformed> {
    let value = varint::get_u64(input)?;
    let value = i64::try_from(value)
        .map_err(|_| Malformed::new(format!("{value} nanoseconds exceed 63 bits")))?;
    Ok((value > 0).then_some(value))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id() -> impl Strategy<Value = u32> {
        prop_oneof![0..5u32, any::<u32>()]
    }

    fn kind() -> impl Strategy<Value = PhysicalType> {
        use PhysicalType::{Bool, Bytes, F64, I64, Text, U64};
        proptest::sample::select(vec![I64, U64, F64, Bool, Text, Bytes])
    }

    fn retention() -> impl Strategy<Value = Option<i64>> {
        proptest::option::of(1..=i64::MAX)
    }

    fn settings() -> impl Strategy<Value = TableSettings> {
        let duplicates = prop_oneof![
            Just(Duplicates::Last),
            Just(Duplicates::Keep),
            Just(Duplicates::Unique)
        ];
        (duplicates, 1..=i64::MAX, retention(), retention()).prop_map(
            |(duplicates, partition_interval_ns, retention_ns, cold_after_ns)| TableSettings {
                duplicates,
                partition_interval_ns,
                retention_ns,
                cold_after_ns,
            },
        )
    }

    fn declared() -> impl Strategy<Value = Definition> {
        use crate::declared::tests::{any_column, any_table};
        prop_oneof![
            (id(), id(), any_column()).prop_map(|(id, of, declared)| Definition::DeclareColumn {
                id: ColumnId(id),
                table: TableId(of),
                declared: Box::new(declared)
            }),
            (id(), any_table()).prop_map(|(id, declared)| Definition::DeclareTable {
                id: TableId(id),
                declared: Box::new(declared)
            }),
        ]
    }

    /// Any entry; ids below 5 are frequent, so that some name the same thing.
    pub(crate) fn entry() -> impl Strategy<Value = Definition> {
        use Definition as D;
        let number = || (id(), id());
        let named = || (id(), id(), ".{0,9}");
        let column_kind = prop_oneof![Just(ColumnKind::Tag), kind().prop_map(ColumnKind::Field)];
        let tags = proptest::collection::vec((id().prop_map(ColumnId), id()), 0..4);
        let made = prop_oneof![
            named().prop_map(|(id, _, name)| D::Database {
                id: DatabaseId(id),
                name
            }),
            named().prop_map(|(id, of, name)| D::Schema {
                id: SchemaId(id),
                database: DatabaseId(of),
                name
            }),
            named().prop_map(|(id, of, name)| D::Table {
                id: TableId(id),
                schema: SchemaId(of),
                name
            }),
            (named(), column_kind).prop_map(|((id, of, name), kind)| D::Column {
                id: ColumnId(id),
                table: TableId(of),
                kind,
                name
            }),
            named().prop_map(|(id, _, value)| D::TagValue {
                tag: ColumnId(id),
                value
            }),
            (number(), tags).prop_map(|((id, of), tags)| D::Series {
                id: SeriesId(id),
                table: TableId(of),
                tags
            }),
        ];
        let changed = prop_oneof![
            (id(), settings()).prop_map(|(id, settings)| D::SetTable {
                id: TableId(id),
                settings
            }),
            (id(), retention()).prop_map(|(id, retention_ns)| D::SetSchema {
                id: SchemaId(id),
                retention_ns
            }),
            number().prop_map(|(id, of)| D::DefaultSchema {
                database: DatabaseId(id),
                schema: SchemaId(of)
            }),
            named().prop_map(|(id, _, name)| D::RenameDatabase {
                id: DatabaseId(id),
                name
            }),
            named().prop_map(|(id, _, name)| D::RenameSchema {
                id: SchemaId(id),
                name
            }),
            named().prop_map(|(id, _, name)| D::RenameTable {
                id: TableId(id),
                name
            }),
            named().prop_map(|(id, of, name)| D::RenameColumn {
                id: ColumnId(id),
                table: TableId(of),
                name
            }),
            (number(), kind()).prop_map(|((id, of), to)| D::ChangeType {
                id: ColumnId(id),
                table: TableId(of),
                to
            }),
        ];
        let dropped = prop_oneof![
            id().prop_map(|id| D::DropDatabase { id: DatabaseId(id) }),
            id().prop_map(|id| D::DropSchema { id: SchemaId(id) }),
            id().prop_map(|id| D::DropTable { id: TableId(id) }),
            number().prop_map(|(id, of)| D::DropColumn {
                id: ColumnId(id),
                table: TableId(of)
            }),
        ];
        prop_oneof![made, changed, declared(), dropped]
    }

    fn encode(entries: &[Definition]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in entries {
            entry.encode(&mut bytes);
        }
        bytes
    }

    proptest! {
        #[test]
        fn entries_read_back_as_written(entries in proptest::collection::vec(entry(), 0..20)) {
            prop_assert_eq!(Definition::decode_all(&encode(&entries)), Ok(entries));
        }

        #[test]
        fn every_truncation_is_an_error_or_fewer_entries(
            entries in proptest::collection::vec(entry(), 1..8),
        ) {
            let bytes = encode(&entries);
            for n in 0..bytes.len() {
                if let Ok(read) = Definition::decode_all(bytes.get(..n).unwrap_or_default()) {
                    prop_assert!(read.len() < entries.len(), "{} bytes gave everything", n);
                }
            }
        }

        #[test]
        fn any_bytes_are_entries_or_an_error(
            kind in 0..24u8,
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut input = vec![kind];
            input.extend(bytes);
            if let Ok(entries) = Definition::decode_all(&input) {
                // Whatever was read means the same when it is written again.
                prop_assert_eq!(Definition::decode_all(&encode(&entries)), Ok(entries));
            }
        }
    }

    /// The bytes of `docs/format/definitions.md`, put together by hand.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let cases: [(Definition, &[u8]); 6] = [
            (
                Definition::SetTable {
                    id: TableId(3),
                    settings: TableSettings {
                        duplicates: Duplicates::Keep,
                        partition_interval_ns: 1,
                        retention_ns: Some(2),
                        cold_after_ns: Some(300),
                    },
                },
                &[23, 3, 1, 1, 2, 0xAC, 0x02],
            ),
            (
                Definition::SetTable {
                    id: TableId(3),
                    settings: TableSettings {
                        duplicates: Duplicates::Unique,
                        partition_interval_ns: 300,
                        retention_ns: None,
                        cold_after_ns: None,
                    },
                },
                &[7, 3, 2, 0xAC, 0x02, 0],
            ),
            (
                Definition::SetSchema {
                    id: SchemaId(2),
                    retention_ns: Some(1),
                },
                &[8, 2, 1],
            ),
            (
                Definition::RenameColumn {
                    id: ColumnId(5),
                    table: TableId(3),
                    name: "v".into(),
                },
                &[13, 5, 3, 1, b'v'],
            ),
            (
                Definition::ChangeType {
                    id: ColumnId(5),
                    table: TableId(3),
                    to: PhysicalType::F64,
                },
                &[14, 5, 3, PhysicalType::F64 as u8],
            ),
            (
                Definition::DropTable { id: TableId(300) },
                &[17, 0xAC, 0x02],
            ),
        ];
        for (entry, bytes) in cases {
            assert_eq!(encode(std::slice::from_ref(&entry)), bytes);
        }
    }
}
