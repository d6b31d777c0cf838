//! Copies of errors that several consumers of one stream share.
//!
//! Does: copy those that are about what a statement says. Does not: copy those of the engine and the service.

use super::Error;

impl Error {
    /// The same error once more, of those that are about what a statement says.
    pub(super) fn copied(&self) -> Option<Self> {
        Some(match self {
            Self::UnknownName {
                what,
                name,
                nearest,
                position,
            } => Self::UnknownName {
                what,
                name: name.clone(),
                nearest: nearest.clone(),
                position: *position,
            },
            Self::UnknownTable {
                name,
                nearest,
                position,
            } => Self::UnknownTable {
                name: name.clone(),
                nearest: nearest.clone(),
                position: *position,
            },
            Self::UnknownColumn {
                name,
                nearest,
                position,
            } => Self::UnknownColumn {
                name: name.clone(),
                nearest: nearest.clone(),
                position: *position,
            },
            Self::Plan { message, position } => Self::Plan {
                message: message.clone(),
                position: *position,
            },
            Self::Execution { message } => Self::Execution {
                message: message.clone(),
            },
            _ => return None,
        })
    }
}
