//! Everything that a store shows, read back row by row.
//!
//! Does: ask for all rows of all tables, compare each with what its batch says, and count; ask the same of aggregates,
//! which may be answered from statistics instead of rows.
//! Does not: know what was promised; the ledger does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::batch::{COLUMNS, Content, LATEST, Row, Table, read_csv};
use crate::journal::Name;

/// What a store shows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Found {
    /// How often each row is there; only rows that are exactly as they were written.
    pub rows: BTreeMap<(Table, Name, u64), u64>,
    /// A sentence for each row that nobody wrote like this.
    pub strange: Vec<String>,
    /// The batch that each writer wrote last.
    pub latest: BTreeMap<usize, u64>,
    /// Numbers of the tables that were made.
    pub tables: BTreeSet<u64>,
    /// By table: rows and the sum of their slots, as aggregates have it.
    pub totals: BTreeMap<Table, (u64, u64)>,
}

/// The beginning of the name of a table that is made for the sake of it.
pub const MADE: &str = "made_";

/// The statements whose answers, in CSV, [`Found::read`] takes, in this order.
pub fn statements() -> Vec<String> {
    let mut statements = Vec::new();
    for table in Table::ALL {
        statements.push(format!("SELECT {COLUMNS} FROM {}", table.name()));
        // Aliased, so that an empty table gives zeros and not nulls.
        statements.push(format!(
            "SELECT count(*) AS n, coalesce(sum(slot), 0) AS slots FROM {}",
            table.name()
        ));
    }
    statements.push(format!("SELECT writer, batch FROM {LATEST}"));
    statements.push(
        "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'made_%'"
            .to_owned(),
    );
    statements
}

impl Found {
    /// Asks everything; `ask` answers a statement in CSV.
    pub fn read(content: Content, mut ask: impl FnMut(&str) -> Result<String>) -> Result<Self> {
        let mut answers = Vec::new();
        for statement in statements() {
            answers.push(ask(&statement).with_context(|| statement)?);
        }
        Self::of_answers(content, &answers)
    }

    /// The same of answers that are there already.
    pub fn of_answers(content: Content, answers: &[String]) -> Result<Self> {
        let mut found = Self::default();
        let mut answers = answers.iter();
        let mut next = || answers.next().context("an answer is missing");
        for table in Table::ALL {
            found.take_rows(content, table, next()?);
            let totals = records(next()?, &["n", "slots"])?;
            let [cells] = totals.as_slice() else {
                bail!("an aggregate has one row, not {}", totals.len());
            };
            let numbers: Vec<u64> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
            let [rows, slots] = *numbers.as_slice() else {
                bail!("an aggregate has two numbers, not {cells:?}");
            };
            found.totals.insert(table, (rows, slots));
        }
        for cells in records(next()?, &["writer", "batch"])? {
            let name = match cells.as_slice() {
                [writer, batch] => writer
                    .strip_prefix('w')
                    .and_then(|w| Some((w.parse().ok()?, batch.parse().ok()?))),
                _ => None,
            };
            let twice = name.and_then(|(writer, batch)| found.latest.insert(writer, batch));
            if name.is_none() || twice.is_some() {
                found.strange.push(format!("{LATEST} has {cells:?}"));
            }
        }
        for cells in records(next()?, &["table_name"])? {
            let n: Option<u64> = cells
                .first()
                .and_then(|name| name.strip_prefix(MADE)?.parse().ok());
            found.tables.extend(n);
        }
        Ok(found)
    }

    fn take_rows(&mut self, content: Content, table: Table, answer: &str) {
        for cells in read_csv(answer).into_iter().skip(1) {
            let row = Row::read(&cells);
            let same = row.as_ref().filter(|row| {
                content
                    .row(row.writer, row.batch, row.slot)
                    .is_some_and(|sent| sent.is_same(row))
            });
            match same {
                Some(row) => {
                    let key = (table, (row.writer, row.batch), row.slot);
                    *self.rows.entry(key).or_default() += 1;
                }
                None => self.strange.push(format!(
                    "{} has a row that nobody wrote: {cells:?}",
                    table.name()
                )),
            }
        }
    }

    /// What aggregates must say if these are the rows.
    pub fn totals_of_rows(&self) -> BTreeMap<Table, (u64, u64)> {
        let mut totals: BTreeMap<Table, (u64, u64)> = Table::ALL
            .map(|table| (table, (0, 0)))
            .into_iter()
            .collect();
        for (&(table, _, slot), times) in &self.rows {
            let total = totals.entry(table).or_default();
            total.0 += times;
            total.1 += times * slot;
        }
        totals
    }
}

/// The records below a header line, which must be this one.
fn records(answer: &str, header: &[&str]) -> Result<Vec<Vec<String>>> {
    let mut records = read_csv(answer);
    if records.is_empty() || records.remove(0) != header {
        bail!("the answer does not begin with {header:?}: {answer:.200}");
    }
    Ok(records)
}
