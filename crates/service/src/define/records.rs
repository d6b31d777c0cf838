//! Tables of TStorage's records: ordinary ones, whose columns have the names that the protocol gives to the parts of a key.
//!
//! Does: say how such a table is made, and what another one lacks to be one. Does not: read or write records (the surface does).

use nilometer_engine::{
    ColumnKind, Declared, DeclaredTable, DeclaredTime, Duplicates, LogicalType, PhysicalType,
    TableSchema, TableSettings, TimeKind,
};

use super::change::Column;
use crate::write::made::NewTable;

/// The parts of a key that say whose a record is, with the types that they have on the wire.
pub const RECORD_IDS: [(&str, LogicalType); 3] = [
    ("cid", LogicalType::Integer),
    ("mid", LogicalType::BigInt),
    ("moid", LogicalType::Integer),
];
/// The time of a record.
const CAP: &str = "cap";
/// When the store took it.
pub const ACQUIRED: &str = "acq";
/// Its bytes.
pub const PAYLOAD: &str = "payload";

/// What a table lacks to be one of records; `None` = it is one.
pub fn lack_of_records(table: &TableSchema) -> Option<String> {
    if table.settings.duplicates != Duplicates::Keep {
        return Some("it does not keep duplicates".to_owned());
    }
    let has_field = |name: &str, kind: PhysicalType| {
        let field = table.field(name);
        field.is_some_and(|field| field.kind == ColumnKind::Field(kind))
    };
    let lacks = |name: &str| Some(format!("it has no field {name} of its type"));
    for (name, _) in RECORD_IDS {
        if table.tag(name).is_none() && !has_field(name, PhysicalType::I64) {
            return lacks(name);
        }
    }
    if !has_field(ACQUIRED, PhysicalType::I64) {
        return lacks(ACQUIRED);
    }
    if !has_field(PAYLOAD, PhysicalType::Bytes) {
        return lacks(PAYLOAD);
    }
    None
}

/// A table of records as the first PUT makes it, and `CREATE TSTORAGE TABLE`.
pub fn new_records() -> NewTable {
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
    let mut columns: Vec<Column> = (0..).zip(RECORD_IDS).map(tag).collect();
    let mut field = |name: &str, kind, declared| {
        columns.push(Column {
            name: name.to_owned(),
            kind: ColumnKind::Field(kind),
            declared,
        });
    };
    let acq = declared(Some(LogicalType::TimestampTz), 4);
    field(ACQUIRED, PhysicalType::I64, acq);
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
