//! The table of the records: an ordinary one, whose columns have the names that the protocol gives to the parts of a key.
//!
//! Does: say how it is made, and find in one that is there what stands for each part: `cid`, `mid` and `moid` are integer tags, or
//! integer fields where their values do not repeat; `cap` is the time; `acq` and `payload` are fields. Does not: read or write rows.

use std::sync::Arc;

use nilometer_engine::{
    ColumnKind, Declared, DeclaredTable, DeclaredTime, Duplicates, LogicalType, PhysicalType,
    Snapshot, TIME_COLUMN, TableSchema, TableSettings, TimeKind,
};
use nilometer_service::NewTable;
use nilometer_service::define::{Column, PayloadColumn, payload_schema};

use crate::config::TableName;
use crate::error::Error;

/// The parts of a key that say whose a record is, with the types that they have on the wire.
pub(crate) const IDS: [(&str, LogicalType); 3] = [
    ("cid", LogicalType::Integer),
    ("mid", LogicalType::BigInt),
    ("moid", LogicalType::Integer),
];
/// The time of a record.
const CAP: &str = "cap";
/// When the store took it.
pub(crate) const ACQ: &str = "acq";
pub(crate) const PAYLOAD: &str = "payload";

/// What stands for a part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its position in [`TableSchema::arrow_schema`].
    pub(crate) at: usize,
    pub(crate) is_tag: bool,
}

/// Where the parts of a record are in a table.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// As [`IDS`] has them.
    pub(crate) ids: [Part; 3],
    pub(crate) time: usize,
    pub(crate) acq: usize,
    /// Times are declared as times, or are integers.
    pub(crate) acq_is_time: bool,
    pub(crate) payload: usize,
    /// Numbers of payloads that have columns; nothing to who reads records.
    pub(crate) numbers: Vec<PayloadColumn>,
}

impl Shape {
    pub(crate) fn of(table: &TableSchema) -> Result<Self, Error> {
        let refused = |what: String| {
            Error::Refused(format!(
                "the table \"{}\" is not one of records: {what}; name another table (setting tstorage-table), or let the first PUT make it",
                table.name
            ))
        };
        if table.settings.duplicates != Duplicates::Keep {
            return Err(refused("it does not keep duplicates".to_owned()));
        }
        let arrow = table.arrow_schema();
        let position = |name: &str| {
            let missing = || refused(format!("it has no column {name}"));
            arrow.index_of(name).map_err(|_| missing())
        };
        let field = |name: &str, kind: PhysicalType| match table.field(name) {
            Some(field) if field.kind == ColumnKind::Field(kind) => position(name),
            _ => Err(refused(format!("it has no field {name} of its type"))),
        };
        let id = |(name, _): (&str, LogicalType)| -> Result<Part, Error> {
            if table.tag(name).is_some() {
                let at = position(name)?;
                return Ok(Part { at, is_tag: true });
            }
            let at = field(name, PhysicalType::I64)?;
            Ok(Part { at, is_tag: false })
        };
        let [cid, mid, moid] = IDS;
        Ok(Self {
            ids: [id(cid)?, id(mid)?, id(moid)?],
            time: position(TIME_COLUMN)?,
            acq: field(ACQ, PhysicalType::I64)?,
            acq_is_time: table.field(ACQ).is_some_and(|acq| {
                matches!(
                    acq.of(),
                    Some(LogicalType::TimestampTz | LogicalType::Timestamp)
                )
            }),
            payload: field(PAYLOAD, PhysicalType::Bytes)?,
            numbers: Vec::new(),
        })
    }
}

/// The table as it is now; `None` = nobody has made it.
pub(crate) fn find(snapshot: &Snapshot, name: &TableName) -> Option<Arc<TableSchema>> {
    snapshot.table(&name.database, &schema(snapshot, name), &name.table)
}

fn schema(snapshot: &Snapshot, name: &TableName) -> String {
    let default = || snapshot.default_schema(&name.database).unwrap_or_default();
    name.schema.clone().unwrap_or_else(default)
}

/// The numbers of payloads that have columns of their type: one may have been dropped, or changed, since the schema was set.
pub(crate) fn numbers(
    snapshot: &Snapshot,
    name: &TableName,
    table: &TableSchema,
) -> Vec<PayloadColumn> {
    let schema = schema(snapshot, name);
    let place = (name.database.as_str(), schema.as_str());
    let Some(payload) = payload_schema(snapshot, place, table) else {
        return Vec::new();
    };
    let has_column = |number: &PayloadColumn| {
        let field = table.field(&number.name);
        field.is_some_and(|field| {
            field.kind == ColumnKind::Field(number.kind())
                && field.of().is_none_or(LogicalType::is_plain)
        })
    };
    payload.columns.into_iter().filter(has_column).collect()
}

/// The table as the first PUT makes it.
pub(crate) fn new() -> NewTable {
    let declared = |of: Option<LogicalType>, position: u32| Declared {
        of,
        position: Some(position),
        ..Declared::default()
    };
    let tag = |(position, (name, of)): (u32, (&str, LogicalType))| Column {
        name: name.to_owned(),
        kind: ColumnKind::Tag,
        declared: declared(Some(of), position),
    };
    let mut columns: Vec<Column> = (0..).zip(IDS).map(tag).collect();
    let mut field = |name: &str, kind, declared| {
        columns.push(Column {
            name: name.to_owned(),
            kind: ColumnKind::Field(kind),
            declared,
        });
    };
    let acq = declared(Some(LogicalType::TimestampTz), 4);
    field(ACQ, PhysicalType::I64, acq);
    field(PAYLOAD, PhysicalType::Bytes, declared(None, 5));
    NewTable {
        columns,
        settings: TableSettings {
            duplicates: Duplicates::Keep,
            ..TableSettings::default()
        },
        declared: DeclaredTable {
            time: Some(DeclaredTime {
                name: CAP.to_owned(),
                kind: TimeKind::TimestampTz,
                column: declared(None, 3),
            }),
            comment: Some("records of the TStorage protocol".to_owned()),
            ..DeclaredTable::default()
        },
    }
}
