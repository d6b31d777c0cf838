//! What somebody sees who took a snapshot some time ago.

use super::{Found, Model, Moment, Name, Table, same_rows};
use crate::plan::Fields;

impl Model {
    /// Compares what a snapshot of an earlier moment shows: the rows of then, of tables and relations that go by the same
    /// names now. A table that was dropped since is gone, and one that took its name has no rows of then.
    pub fn check_held(&self, moment: &Moment, found: &Found) -> Result<(), String> {
        let told = |name: &Name, what: &str| Err(format!("{}.{}: {what}", name.0, name.1));
        let number = |name: &Name| self.state.kept(name).map(|kept| kept.number);
        for (name, table) in &found.tables {
            let then = moment.state.kept(name);
            let same = then.filter(|then| number(name) == Some(then.number));
            let want = same.map_or_else(Table::new, |_| moment.state.shown(name));
            if want != table.rows && !same_rows(&want, &table.rows) {
                return Err(super::difference(name, &want, &table.rows));
            }
        }
        for name in moment.state.names() {
            let then = moment.state.kept(name).map(|kept| kept.number);
            if number(name) == then && !found.tables.contains_key(name) {
                return told(name, "it is missing");
            }
        }
        moment.state.check_relations(found)
    }
}

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
