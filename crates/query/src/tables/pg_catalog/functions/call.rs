//! A function, who asks it, and what its arguments are in a row.

use std::sync::Arc;

use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::objects::Catalogue;
use crate::tables::pg_catalog::reading::Reading;
use crate::tables::pg_catalog::values::Returns;

/// Who asks, in which database.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reading: Arc<dyn Reading>,
    pub(super) database: String,
}

impl Asked {
    pub(super) fn catalogue(&self) -> Arc<Catalogue> {
        self.reading.names_of_database(&self.database)
    }
}

/// What a call answers in a row.
pub(super) type Answer = std::result::Result<Cell, Error>;

/// A function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Least and most arguments.
    pub(super) takes: (usize, usize),
    pub(super) returns: Returns,
    pub(super) run: fn(&Asked, &[Cell]) -> Answer,
    /// A NULL among the arguments is one as the answer.
    pub(super) is_strict: bool,
    /// Each row asks anew.
    pub(super) is_volatile: bool,
}

impl Call {
    pub(super) const fn new(
        name: &'static str,
        takes: (usize, usize),
        returns: Returns,
        run: fn(&Asked, &[Cell]) -> Answer,
    ) -> Self {
        Self {
            name,
            takes,
            returns,
            run,
            is_strict: true,
            is_volatile: false,
        }
    }

    pub(super) const fn volatile(mut self) -> Self {
        self.is_volatile = true;
        self
    }

    pub(super) const fn lenient(mut self) -> Self {
        self.is_strict = false;
        self
    }
}

/// A number among the arguments, or as text.
pub(super) fn number(cells: &[Cell], at: usize) -> Option<i64> {
    match cells.get(at)? {
        Cell::Int(number) => Some(*number),
        Cell::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A text among the arguments.
pub(super) fn text(cells: &[Cell], at: usize) -> Option<&str> {
    match cells.get(at)? {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}
