//! Model of a snapshot that was taken some time ago.

use super::Moment;
use super::names::{Name, Table};
use crate::plan::Fields;

impl Moment {
    /// The rows of a table then; `None` = there was none, as far as anybody knows.
    pub fn rows(&self, name: &Name) -> Option<Table> {
        self.state.kept(name).map(|_| self.state.shown(name))
    }
}

/// Whether `rows` are some of `of`, in any order.
pub(super) fn are_some_of(rows: &[Fields], of: &[Fields]) -> bool {
    let mut left = of.to_vec();
    rows.iter().all(|row| {
        let at = left.iter().position(|other| other == row);
        at.is_some_and(|at| {
            left.swap_remove(at);
            true
        })
    })
}
