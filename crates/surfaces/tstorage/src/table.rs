//! The table of the records: an ordinary one, whose columns have the names that the protocol gives to the parts of a key.
//!
//! Does: find in one that is there what stands for each part: `cid`, `mid` and `moid` are integer tags, or
//! integer fields where their values do not repeat; `cap` is the time; `acq` and `payload` are fields. Does not: read or write rows, or say how it is made
//! (`nilometer_service::define` does).

use std::sync::Arc;

use nilometer_engine::{ColumnKind, LogicalType, Snapshot, TIME_COLUMN, TableSchema};
pub(crate) use nilometer_service::define::{
    ACQUIRED as ACQ, PAYLOAD, RECORD_IDS as IDS, new_records as new,
};
use nilometer_service::define::{PayloadColumn, lack_of_records, payload_schema};

use crate::config::TableName;
use crate::error::Error;

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
        if let Some(lack) = lack_of_records(table) {
            return Err(refused(lack));
        }
        let arrow = table.arrow_schema();
        let position = |name: &str| {
            let missing = || refused(format!("it has no column {name}"));
            arrow.index_of(name).map_err(|_| missing())
        };
        let id = |(name, _): (&str, LogicalType)| -> Result<Part, Error> {
            Ok(Part {
                at: position(name)?,
                is_tag: table.tag(name).is_some(),
            })
        };
        let [cid, mid, moid] = IDS;
        Ok(Self {
            ids: [id(cid)?, id(mid)?, id(moid)?],
            time: position(TIME_COLUMN)?,
            acq: position(ACQ)?,
            acq_is_time: table.field(ACQ).is_some_and(|acq| {
                matches!(
                    acq.of(),
                    Some(LogicalType::TimestampTz | LogicalType::Timestamp)
                )
            }),
            payload: position(PAYLOAD)?,
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
