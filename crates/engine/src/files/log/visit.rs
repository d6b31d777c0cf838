//! The visitor of log records and their positions.
//!
//! Does: name the place of a record for errors about what it says. Does not: read or decode.

use std::path::Path;
use std::sync::Arc;

use super::replay::Found;
use crate::error::{Error, Malformed};
use crate::file_header::Format;
use crate::schema::Lsn;

/// Gets records in LSN order. A closure is one, which says what is wrong with a payload, if anything.
pub(crate) trait Visit {
    /// The payload of a whole batch. What is wrong with it may be told later, before or at [`Self::end`].
    fn record(&mut self, lsn: Lsn, payload: &[u8], place: &RecordPlace) -> Result<(), Error>;

    /// No record follows, because there is none or because what follows does not read.
    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl<F> Visit for F
where
    F: FnMut(Lsn, &[u8]) -> Result<(), Malformed>,
{
    fn record(&mut self, lsn: Lsn, payload: &[u8], place: &RecordPlace) -> Result<(), Error> {
        self(lsn, payload).map_err(|what| place.refuse(what))
    }
}

/// Where a record stands.
#[derive(Debug, Clone)]
pub(crate) struct RecordPlace {
    path: Arc<Path>,
    format: Option<Format>,
    /// Where it ends.
    pub(super) end: u64,
}

impl RecordPlace {
    /// The start of a file.
    pub(super) fn new(file: &Found) -> Self {
        Self {
            path: file.path.as_path().into(),
            format: file.format,
            end: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.into(),
            format: None,
            end: 0,
        }
    }

    /// A record here passes its checksum and does not decode.
    pub(crate) fn refuse(&self, what: Malformed) -> Error {
        match self.format {
            Some(format) => format.refuse(what, &self.path, self.end),
            None => what.at(&self.path, self.end),
        }
    }
}
