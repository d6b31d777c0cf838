//! The account of every batch, and its comparison with the server's rows.
//!
//! Does: keep the fate of every batch, delete and table, in memory as in the journal; count what is missing, doubled or
//! altered; settle the fate of what was never answered.
//! Does not: talk to a server (`read_back.rs` does), or stop at the first broken promise.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io;
use std::path::Path;

use crate::batch::{Content, Table};
use crate::journal::{Entry, Journal, Name};
use crate::random::Random;
use crate::read_back::Found;

/// What is known of a batch, a delete or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Sent; nobody answered. It may be there as a whole, or not at all.
    Sent,
    /// Promised, or shown: it must be there for ever.
    Kept,
    /// Refused, or not found after a restart: it must never appear.
    Lost,
}

/// What is known of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    fate: Fate,
    /// Of the delete of its rows in [`Table::Points`], if there was one.
    erased: Option<Fate>,
}

/// Points that are not as they must be, and what there is to say about them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Points that were promised and are not there.
    pub missing: u64,
    /// Points that are there more often than they were written.
    pub duplicated: u64,
    /// Points with other values, parts of batches that nobody promised, points that were deleted, lost or never written.
    pub altered: u64,
    /// A sentence each.
    pub stories: Vec<String>,
}

impl Verdict {
    fn missing(&mut self, points: u64, story: String) {
        self.missing += points;
        self.stories.push(story);
    }

    fn duplicated(&mut self, points: u64, story: String) {
        self.duplicated += points;
        self.stories.push(story);
    }

    fn altered(&mut self, points: u64, story: String) {
        self.altered += points;
        self.stories.push(story);
    }
}

/// When a comparison takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// After a restart: what is not there then must never appear.
    Settled,
    /// While a server runs that has failed to answer: what is not there yet may be after a restart.
    Running,
}

/// The fates of everything that one run sends to one data directory.
#[derive(Debug)]
pub struct Ledger {
    /// What the batches say.
    pub content: Content,
    journal: Journal,
    batches: BTreeMap<Name, Known>,
    tables: BTreeMap<u64, Fate>,
    acknowledged_points: u64,
    acknowledged_batches: u64,
}

impl Ledger {
    /// An empty ledger with a new journal.
    pub fn create(content: Content, journal: &Path) -> io::Result<Self> {
        Ok(Self {
            content,
            journal: Journal::create(journal)?,
            batches: BTreeMap::new(),
            tables: BTreeMap::new(),
            acknowledged_points: 0,
            acknowledged_batches: 0,
        })
    }

    /// Whether a journal says the same as this ledger: the check at the end of a run relies on the file.
    pub fn agrees_with(&self, journal: &Path) -> io::Result<bool> {
        let mut batches: BTreeMap<Name, Known> = BTreeMap::new();
        let mut tables = BTreeMap::new();
        for entry in Journal::read(journal)? {
            apply(&mut batches, &mut tables, entry);
        }
        Ok(batches == self.batches && tables == self.tables)
    }

    fn note(&mut self, entry: Entry) -> io::Result<()> {
        self.journal.append(entry)?;
        apply(&mut self.batches, &mut self.tables, entry);
        Ok(())
    }

    /// Notes a new batch of a writer before it is sent.
    pub fn begin(&mut self, writer: usize) -> io::Result<Name> {
        let name = (writer, self.next(writer));
        self.note(Entry::Send(name))?;
        Ok(name)
    }

    /// Notes that a batch that was found lost is sent again.
    pub fn begin_again(&mut self, name: Name) -> io::Result<()> {
        self.note(Entry::Send(name))
    }

    /// Notes the answer 204.
    pub fn acknowledge(&mut self, name: Name) -> io::Result<()> {
        self.acknowledged_batches += 1;
        self.acknowledged_points += self.points_of(name);
        self.note(Entry::Ack(name))
    }

    /// Notes that a batch was refused as a whole.
    pub fn refuse(&mut self, name: Name) -> io::Result<()> {
        self.note(Entry::Refused(name))
    }

    /// Notes that a query has shown a batch; it may have no answer yet.
    pub fn show(&mut self, name: Name) -> io::Result<()> {
        match self.batches.get(&name).map(|known| known.fate) {
            Some(Fate::Sent) => self.note(Entry::Found(name)),
            _ => Ok(()),
        }
    }

    /// Notes the delete of a batch of a writer before it is sent; `None` if there is none to delete.
    pub fn begin_erase(&mut self, writer: usize, random: &mut Random) -> io::Result<Option<Name>> {
        let kept = self
            .of_writer(writer)
            .filter(|(_, known)| known.fate == Fate::Kept && known.erased.is_none());
        let names: Vec<Name> = kept.map(|(name, _)| name).collect();
        let name = names.get(random.index(names.len())).copied();
        if let Some(name) = name {
            self.note(Entry::Erase(name))?;
        }
        Ok(name)
    }

    /// Notes what became of a delete.
    pub fn end_erase(&mut self, name: Name, is_done: bool) -> io::Result<()> {
        self.note(if is_done {
            Entry::Erased(name)
        } else {
            Entry::Whole(name)
        })
    }

    /// Notes a table before it is made, and returns its number.
    pub fn begin_table(&mut self) -> io::Result<u64> {
        let n = self.tables.len() as u64;
        self.note(Entry::Make(n))?;
        Ok(n)
    }

    /// Notes that a table that is there is to be dropped, and returns its number; `None` if there is none.
    pub fn begin_drop(&mut self, random: &mut Random) -> io::Result<Option<u64>> {
        let there = self.tables.iter().filter(|(_, fate)| **fate == Fate::Kept);
        let there: Vec<u64> = there.map(|(n, _)| *n).collect();
        let n = there.get(random.index(there.len())).copied();
        if let Some(n) = n {
            self.note(Entry::Drop(n))?;
        }
        Ok(n)
    }

    /// Notes what became of the drop of a table.
    pub fn end_drop(&mut self, n: u64, is_done: bool) -> io::Result<()> {
        self.note(if is_done {
            Entry::Absent(n)
        } else {
            Entry::Made(n)
        })
    }

    /// Notes that a table was made.
    pub fn end_table(&mut self, n: u64) -> io::Result<()> {
        self.note(Entry::Made(n))
    }

    /// The number that the next batch of a writer will have.
    pub fn next(&self, writer: usize) -> u64 {
        self.of_writer(writer)
            .next_back()
            .map_or(0, |((_, batch), _)| batch + 1)
    }

    /// Batches that must be visible now, from a number on.
    pub fn kept_from(&self, first: u64) -> Vec<Name> {
        let kept = self.batches.iter();
        kept.filter(|((_, batch), known)| *batch >= first && known.fate == Fate::Kept)
            .map(|(name, _)| *name)
            .collect()
    }

    /// The newest batch of each writer if it is one that was not found, so that it may be sent again without overtaking
    /// another; and those that were found without an answer.
    pub fn last_of(&self, writer: usize) -> Option<(Name, Fate)> {
        self.of_writer(writer)
            .next_back()
            .map(|(name, known)| (name, known.fate))
    }

    /// Points in all tables that a batch makes when nothing of it is deleted.
    pub fn points_of(&self, name: Name) -> u64 {
        let rows = self.content.rows(name.0, name.1);
        Table::ALL.iter().map(|table| table.rows_of(rows)).sum()
    }

    /// Points in batches that were answered with 204, and those batches.
    pub fn acknowledged(&self) -> (u64, u64) {
        (self.acknowledged_points, self.acknowledged_batches)
    }

    /// How many batches were ever sent.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    fn of_writer(&self, writer: usize) -> impl DoubleEndedIterator<Item = (Name, &Known)> {
        let range: btree_map::Range<'_, Name, Known> =
            self.batches.range((writer, 0)..=(writer, u64::MAX));
        range.map(|(name, known)| (*name, known))
    }

    /// Compares with what a server shows. What was found broken is counted once: from then on it is as it was found.
    pub fn compare(&mut self, found: &Found, when: When) -> io::Result<Verdict> {
        let mut verdict = Verdict {
            altered: found.strange.len() as u64,
            stories: found.strange.clone(),
            ..Verdict::default()
        };
        for (&(table, name, slot), &times) in &found.rows {
            if times > 1 {
                verdict.duplicated(
                    times - 1,
                    format!(
                        "{} {name:?}: row {slot} is there {times} times",
                        table.name()
                    ),
                );
            }
        }
        let mut counts: BTreeMap<(Name, Table), u64> = BTreeMap::new();
        for &(table, name, _) in found.rows.keys() {
            *counts.entry((name, table)).or_default() += 1;
        }
        for &(name, table) in counts.keys() {
            if !self.batches.contains_key(&name) {
                verdict.altered(
                    1,
                    format!("{} has {name:?}, which nobody sent", table.name()),
                );
            }
        }
        let names: Vec<Name> = self.batches.keys().copied().collect();
        for name in names {
            let got = Table::ALL.map(|table| counts.get(&(name, table)).copied().unwrap_or(0));
            for entry in self.judge(name, got, when, &mut verdict) {
                self.note(entry)?;
            }
        }
        self.compare_latest(found, when, &mut verdict);
        self.compare_tables(found, when, &mut verdict)?;
        if found.totals != found.totals_of_rows() {
            verdict.altered(
                1,
                format!(
                    "aggregates say {:?} (rows, sum of slots), the rows {:?}",
                    found.totals,
                    found.totals_of_rows()
                ),
            );
        }
        Ok(verdict)
    }

    /// What one batch must be like, and what is noted of it because of what it is like.
    fn judge(&self, name: Name, got: [u64; 3], when: When, verdict: &mut Verdict) -> Vec<Entry> {
        let Some(&known) = self.batches.get(&name) else {
            return Vec::new();
        };
        let rows = self.content.rows(name.0, name.1);
        let whole = Table::ALL.map(|table| table.rows_of(rows));
        let all: u64 = got.iter().sum();
        let mut entries = Vec::new();
        match known.fate {
            Fate::Lost if all > 0 => {
                verdict.altered(
                    all,
                    format!("{name:?} was lost or refused, and has {got:?} rows"),
                );
            }
            Fate::Lost => {}
            Fate::Sent if got == whole => entries.push(Entry::Found(name)),
            Fate::Sent if all == 0 => {
                if when == When::Settled {
                    entries.push(Entry::Lost(name));
                }
            }
            Fate::Sent => verdict.altered(
                all,
                format!(
                    "{name:?} was never answered and is there in part: {got:?} rows of {whole:?}"
                ),
            ),
            Fate::Kept => {
                for (at, table) in Table::ALL.into_iter().enumerate() {
                    let (got, whole) = (got[at], whole[at]);
                    let erased = known.erased.filter(|_| table == Table::Points);
                    match erased {
                        None | Some(Fate::Lost) if got < whole => verdict.missing(
                            whole - got,
                            format!("{} {name:?}: {got} rows of {whole} promised", table.name()),
                        ),
                        Some(Fate::Kept) if got > 0 => verdict.altered(
                            got,
                            format!(
                                "{} {name:?}: {got} rows are back from a delete",
                                table.name()
                            ),
                        ),
                        None | Some(Fate::Lost | Fate::Kept) => {}
                        Some(Fate::Sent) if got == 0 => entries.push(Entry::Erased(name)),
                        Some(Fate::Sent) if got == whole => {
                            if when == When::Settled {
                                entries.push(Entry::Whole(name));
                            }
                        }
                        Some(Fate::Sent) => verdict.altered(
                            got,
                            format!("{} {name:?}: half deleted, {got} of {whole}", table.name()),
                        ),
                    }
                }
            }
        }
        entries
    }

    /// The row that every batch overwrites has the newest: the order of writes survives.
    fn compare_latest(&self, found: &Found, when: When, verdict: &mut Verdict) {
        let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
        for (&(writer, batch), known) in &self.batches {
            match known.fate {
                Fate::Kept => {
                    newest.insert(writer, batch);
                }
                // It may or may not be the newest.
                Fate::Sent if when == When::Running => return,
                _ => {}
            }
        }
        if newest != found.latest {
            verdict.altered(
                1,
                format!(
                    "the newest batch of each writer is {:?}, and {newest:?} was written last",
                    found.latest
                ),
            );
        }
    }

    fn compare_tables(
        &mut self,
        found: &Found,
        when: When,
        verdict: &mut Verdict,
    ) -> io::Result<()> {
        let mut entries = Vec::new();
        for (&n, &fate) in &self.tables {
            match (fate, found.tables.contains(&n)) {
                (Fate::Kept, false) => {
                    verdict.missing(1, format!("the table made_{n} was made and is gone"));
                }
                (Fate::Lost, true) => {
                    verdict.altered(
                        1,
                        format!(
                            "the table made_{n} was not there, or was dropped, and is there now"
                        ),
                    );
                }
                // A drop without an answer may yet be carried out; and a server whose disk failed shows names of tables that it
                // could not make durable, since a name is given before what is written under it.
                (Fate::Sent, true) if when == When::Running => {}
                (Fate::Sent, true) => entries.push(Entry::Made(n)),
                (Fate::Sent, false) if when == When::Settled => entries.push(Entry::Absent(n)),
                _ => {}
            }
        }
        entries.into_iter().try_for_each(|entry| self.note(entry))
    }
}

fn apply(batches: &mut BTreeMap<Name, Known>, tables: &mut BTreeMap<u64, Fate>, entry: Entry) {
    let mut table = |n, fate| {
        tables.insert(n, fate);
    };
    let mut fate = |name, fate| {
        let known = batches.entry(name).or_insert(Known { fate, erased: None });
        known.fate = fate;
    };
    match entry {
        Entry::Send(name) => fate(name, Fate::Sent),
        Entry::Ack(name) | Entry::Found(name) => fate(name, Fate::Kept),
        Entry::Refused(name) | Entry::Lost(name) => fate(name, Fate::Lost),
        Entry::Erase(name) | Entry::Erased(name) | Entry::Whole(name) => {
            if let Some(known) = batches.get_mut(&name) {
                known.erased = Some(match entry {
                    Entry::Erase(_) => Fate::Sent,
                    Entry::Erased(_) => Fate::Kept,
                    _ => Fate::Lost,
                });
            }
        }
        Entry::Made(n) => table(n, Fate::Kept),
        Entry::Make(n) | Entry::Drop(n) => table(n, Fate::Sent),
        Entry::Absent(n) => table(n, Fate::Lost),
    }
}

#[cfg(test)]
mod tests;
