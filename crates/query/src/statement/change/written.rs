//! A change as it is written: what it says, and where its names stand.
//!
//! Does: hold it. Does not: read it (`change.rs` and its parts do).

use nilometer_service::define::{Change, Part};

use crate::error::{Error, Position};
use crate::statement::name::{Name, Path};
use crate::statement::settings::Setting;

/// A change as it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenChange {
    pub(crate) change: Change,
    /// What ALTER TABLE ... SET says, which is not part of the change yet: a table that is not there is said before a
    /// setting that is wrong.
    pub(crate) settings: Vec<Setting>,
    start: Option<Position>,
    name: Option<Position>,
    other: Option<Position>,
}

impl WrittenChange {
    /// Of what a name alone says.
    pub(super) fn of_name(name: Name, change: impl FnOnce(String) -> Change) -> Self {
        Self {
            change: change(name.text),
            settings: Vec::new(),
            start: name.position,
            name: name.position,
            other: None,
        }
    }

    /// Of what a path says.
    pub(super) fn of_path(
        path: &Path,
        change: impl FnOnce(nilometer_service::define::Path) -> Change,
    ) -> Self {
        Self {
            change: change(path.names()),
            settings: Vec::new(),
            start: path.start(),
            name: path.last.position,
            other: None,
        }
    }

    /// One of ours, which stands nowhere.
    pub(crate) fn of_change(change: Change) -> Self {
        Self {
            change,
            settings: Vec::new(),
            start: None,
            name: None,
            other: None,
        }
    }

    /// With the place of its other name.
    pub(super) fn and(mut self, other: Option<Position>) -> Self {
        self.other = other;
        self
    }

    /// With what ALTER TABLE ... SET says.
    pub(super) fn with(self, settings: Vec<Setting>) -> Self {
        Self { settings, ..self }
    }

    /// Where one of its names stands.
    pub(crate) fn position(&self, part: Part) -> Option<Position> {
        match part {
            Part::Start => self.start,
            Part::Name => self.name,
            Part::Other => self.other,
        }
    }
}

pub(super) fn refused(message: &str, position: Option<Position>) -> Error {
    Error::Plan {
        message: message.to_owned(),
        position,
    }
}
