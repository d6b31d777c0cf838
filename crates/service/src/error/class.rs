//! Error classes, for surfaces to map to the codes of their protocols.
//!
//! Does: name what an error means for whoever asked, and say it of the engine's. Does not: know a status of HTTP or an
//! SQLSTATE; each surface has one table from classes to its own codes.

use std::io::{Error as IoError, ErrorKind};

use nilometer_engine::Error as EngineError;

/// What an error means for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// What was asked is wrong as it stands.
    BadRequest,
    /// Something that it names is not there.
    NotFound,
    /// It contradicts what is there, or what somebody else did meanwhile.
    Conflict,
    /// It is more than a limit allows, and will be tomorrow.
    TooLarge,
    /// Too many ask at once.
    TooMany,
    /// The server has no room for it now, or none until somebody has looked after it; the request is right.
    Busy,
    /// It took longer than it may.
    Time,
    /// Nobody is known to have asked.
    Unauthorized,
    /// Whoever asked may not.
    Forbidden,
    /// There is no room on the disk.
    Storage,
    /// This program cannot do it, however it is asked.
    Unsupported,
    /// Something in here broke.
    Internal,
}

/// What the engine calls its limits that are settings.
const BATCH_LIMITS: [(&str, &str); 5] = [
    ("the bytes of one value", "value-bytes-max"),
    ("the rows of one batch", "batch-rows-max"),
    ("the columns of one batch", "batch-columns-max"),
    ("the new series of one batch", "batch-series-max"),
    ("the number of tags of one table", "table-tags-max"),
];

impl Class {
    /// What an engine's error means.
    pub fn of(error: &EngineError) -> Self {
        match error {
            EngineError::UnknownDatabase { .. }
            | EngineError::NotFound { .. }
            | EngineError::TableDropped { .. }
            | EngineError::RelationDropped { .. } => Self::NotFound,
            EngineError::ExistsAlready { .. }
            | EngineError::DefaultSchemaInUse { .. }
            | EngineError::RelationKey { .. }
            | EngineError::RelationChanged { .. }
            | EngineError::RefreshRunning
            | EngineError::RowConflict { .. }
            | EngineError::ChangedMeanwhile { .. }
            | EngineError::RowLocked { .. }
            | EngineError::Deadlock
            | EngineError::TransactionOvertaken { .. }
            | EngineError::TransactionEnded
            | EngineError::Lossy { .. }
            | EngineError::HasRows { .. }
            | EngineError::HiddenTag { .. }
            | EngineError::TableRewritten { .. }
            | EngineError::RewriteRunning { .. }
            | EngineError::RewriteStopped { .. }
            | EngineError::RewriteOvertaken { .. }
            | EngineError::NoTagValue { .. }
            | EngineError::Unmerged { .. } => Self::Conflict,
            EngineError::InvalidName { .. }
            | EngineError::InvalidSetting { .. }
            | EngineError::RelationDefinition { .. }
            | EngineError::RelationRow { .. }
            | EngineError::TypedColumn { .. }
            | EngineError::TypedRow { .. }
            | EngineError::Constraint { .. }
            | EngineError::NoConflicts { .. }
            | EngineError::NotAField { .. } => Self::BadRequest,
            EngineError::Limit { .. } => Self::TooLarge,
            // What a later attempt may find otherwise; a poisoned store is another one after its next start.
            EngineError::Poisoned { .. }
            | EngineError::Memory { .. }
            | EngineError::TransactionMemory { .. } => Self::Busy,
            EngineError::DiskFull { .. } => Self::Storage,
            EngineError::Io { source, .. } if is_disk_full(source) => Self::Storage,
            _ => Self::Internal,
        }
    }
}

/// The setting whose limit an engine's error is about; `engine` = one that is no setting.
pub(crate) fn setting_of_engine(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::Limit { what, .. } => Some(batch_setting(what).unwrap_or("engine")),
        EngineError::Memory { .. } | EngineError::TransactionMemory { .. } => {
            Some("memory-bytes-max")
        }
        EngineError::DiskFull { .. } => Some("disk-reserve-bytes"),
        _ => None,
    }
}

/// An engine's error in words; the engine does not know what its limits of a batch are called as settings.
pub(crate) fn text_of_engine(error: &EngineError) -> String {
    let setting = match error {
        EngineError::Limit { what, .. } => batch_setting(what),
        _ => None,
    };
    match setting {
        Some(setting) => format!("{error} (setting {setting})"),
        None => error.to_string(),
    }
}

fn batch_setting(what: &str) -> Option<&'static str> {
    let known = BATCH_LIMITS.iter().find(|(known, _)| *known == what);
    known.map(|(_, setting)| *setting)
}

fn is_disk_full(error: &IoError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}
