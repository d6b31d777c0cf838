//! The duplicates policy of an import: rows with one time and the same tags.
//!
//! Does: know what each table does with them, refuse an import that would merge many of them unasked, and say at the end
//! what was done. A table that an import makes keeps them, until all rows are in and there are none: then it becomes
//! one that merges, as tables are by default, so that an import which is repeated changes nothing. Does not: count
//! (`keys.rs` does).

use std::collections::BTreeMap;

use anyhow::bail;
use clap::ValueEnum;
use nilometer_engine::Duplicates;

use super::keys::Keys;
use crate::print::{self, thousands};
use crate::source::Source;
use crate::sql_text::identifier;

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicatesArg {
    /// They merge: per column the last value counts.
    Last,
    /// They stay beside each other.
    Keep,
    /// The last one takes the place of the others, as a whole.
    Unique,
}

impl DuplicatesArg {
    fn kind(self) -> Duplicates {
        match self {
            Self::Last => Duplicates::Last,
            Self::Keep => Duplicates::Keep,
            Self::Unique => Duplicates::Unique,
        }
    }
}

pub(crate) fn name(kind: Duplicates) -> &'static str {
    match kind {
        Duplicates::Last => "last",
        Duplicates::Keep => "keep",
        Duplicates::Unique => "unique",
    }
}

/// The tables of an import whose rows have columns; those of line protocol say themselves what their rows are.
#[derive(Debug, Default)]
pub(super) struct Tables {
    wish: Option<DuplicatesArg>,
    /// What they did with duplicates before the import; `None` = they were not there.
    there: BTreeMap<String, Option<Duplicates>>,
}

impl Tables {
    pub(super) fn new(wish: Option<DuplicatesArg>) -> Self {
        Self {
            wish,
            there: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, table: &str, there: Option<Duplicates>) -> anyhow::Result<()> {
        if let (Some(there), Some(wish)) = (there, self.wish)
            && there != wish.kind()
        {
            let (there, wish) = (name(there), name(wish.kind()));
            bail!(
                "table {table} is there with duplicates = '{there}', and the command line says --duplicates {wish}; leave that out, import into another --table, or change the table first: ALTER TABLE {} SET (duplicates = '{wish}')",
                identifier(table)
            );
        }
        self.there.insert(table.to_owned(), there);
        Ok(())
    }

    /// What a table will do that the import makes; `None` = it is there.
    pub(super) fn made_as(&self, table: &str) -> Option<Duplicates> {
        let is_there = self.there.get(table).is_some_and(Option::is_some);
        let kind = self.wish.map_or(Duplicates::Keep, DuplicatesArg::kind);
        (!is_there).then_some(kind)
    }

    /// The tables that merge rows without anybody having said so, each with what to say of it.
    pub(super) fn unasked(&self) -> BTreeMap<String, String> {
        let mut unasked = BTreeMap::new();
        for (table, there) in &self.there {
            if let (None, Some(kind @ (Duplicates::Last | Duplicates::Unique))) = (self.wish, there)
            {
                let kind = name(*kind);
                unasked.insert(
                    table.clone(),
                    format!(
                        "table {table} is there with duplicates = '{kind}'; name more columns that tell rows apart with --tags, import into another --table, which keeps all rows, or say --duplicates {kind} if they are to merge"
                    ),
                );
            }
        }
        unasked
    }

    /// What is there to say of duplicates when all is in.
    pub(super) fn report(&self, keys: &Keys) -> Vec<String> {
        let mut lines = Vec::new();
        for (table, there) in &self.there {
            let Some(of) = keys.of(table).filter(|of| of.again > 0) else {
                continue;
            };
            let kind = there.or_else(|| self.made_as(table)).unwrap_or_default();
            let shared = format!(
                "{} {} the time and the tags of an earlier one",
                thousands(of.again),
                if of.again == 1 {
                    "row has"
                } else {
                    "rows have"
                }
            );
            let done = match kind {
                Duplicates::Keep => "all are kept",
                Duplicates::Last => "merged with it",
                Duplicates::Unique => "put in its place",
            };
            lines.push(format!(
                "{shared}: {done} (table {table} has duplicates = '{}')",
                name(kind)
            ));
        }
        if let Some(of) = keys.of_points().filter(|of| of.again > 0) {
            lines.push(format!(
                "{} {} the series, the time and the first field of an earlier one: merged with it, unless the table keeps duplicates",
                thousands(of.again),
                if of.again == 1 { "line has" } else { "lines have" }
            ));
        }
        lines
    }

    /// Lets tables that the import has made, and whose rows are told apart by time and tags, merge from now on.
    pub(super) fn settle(&self, source: &Source, database: &str, keys: &Keys) {
        if self.wish.is_some() {
            return;
        }
        for (table, there) in &self.there {
            let is_unique = keys
                .of(table)
                .is_some_and(|of| of.rows > 0 && of.again == 0 && of.unknown == 0);
            if there.is_some() || !is_unique {
                continue;
            }
            let statement = format!(
                "ALTER TABLE {} SET (duplicates = 'last')",
                identifier(table)
            );
            let done = source
                .query(database, &statement)
                .and_then(|answer| answer.into_iter().try_for_each(|batch| batch.map(drop)));
            let done: anyhow::Result<()> = done;
            if let Err(error) = done {
                print::note(format!(
                    "table {table} keeps duplicates, because it could not be changed: {}; an import that is repeated doubles its rows until you run {statement}\n",
                    print::told(&error)
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_table_keeps_rows_and_one_that_merges_unasked_is_named() {
        let mut tables = Tables::new(None);
        tables.add("new", None).unwrap();
        tables.add("old", Some(Duplicates::Last)).unwrap();
        tables.add("kept", Some(Duplicates::Keep)).unwrap();
        assert_eq!(tables.made_as("new"), Some(Duplicates::Keep));
        assert_eq!(tables.made_as("old"), None);
        let unasked: Vec<String> = tables.unasked().into_keys().collect();
        assert_eq!(unasked, ["old"]);
        let mut tables = Tables::new(Some(DuplicatesArg::Last));
        tables.add("new", None).unwrap();
        tables.add("old", Some(Duplicates::Last)).unwrap();
        assert_eq!(tables.made_as("new"), Some(Duplicates::Last));
        assert!(tables.unasked().is_empty());
        let error = tables.add("kept", Some(Duplicates::Keep)).unwrap_err();
        assert!(
            error.to_string().contains("ALTER TABLE \"kept\""),
            "{error}"
        );
    }
}
