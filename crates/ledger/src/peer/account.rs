//! Account of promises and of what is there: the judge of all peers.
//!
//! Does: keep the fate of each batch, in the same journal as the ledger of our own server; compare with what is shown.
//! Does not: expect more than any peer promises. A batch without an answer may be there as a whole, not at all, or, and
//! that is counted apart, in part; the client cannot know, and sends it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Cells;
use super::content::Content;
use crate::journal::{Entry, Journal, Name};
use crate::ledger::{Fate, Verdict};

/// What is known of a batch.
#[derive(Debug, Clone, Copy)]
struct Known {
    fate: Fate,
    acknowledged: Option<Instant>,
    /// Rows that were promised and have been counted as missing already.
    counted: u64,
}

/// Everything that one life was told.
#[derive(Debug)]
pub struct Account {
    /// What the batches say.
    pub content: Content,
    journal: Journal,
    path: PathBuf,
    batches: BTreeMap<Name, Known>,
    acknowledged: u64,
    /// Rows there more than once, and how often beyond that: each is counted when it is new.
    doubled: BTreeMap<(Name, u64), u64>,
    /// Strange rows are told once.
    told: BTreeSet<String>,
}

/// What a peer shows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Found {
    /// How often each row is there as it was written.
    pub rows: BTreeMap<(Name, u64), u64>,
    /// A sentence for each row that nobody wrote like this.
    pub strange: Vec<String>,
}

/// A verdict, and what is worth knowing beside it.
#[derive(Debug, Default)]
pub struct Opinion {
    /// Points that are not as they must be.
    pub verdict: Verdict,
    /// Batches without an answer that are there in part. No promise is broken by that unless batches are atomic.
    pub in_part: u64,
    /// The longest time by which the acknowledgement of a batch that is missing came before the fault.
    pub oldest_lost: Duration,
}

/// Rows that were acknowledged and are not there.
#[derive(Debug, Default)]
struct Gone {
    batches: u64,
    rows: u64,
    /// How long before the fault the oldest of them was acknowledged.
    oldest: Duration,
}

impl Gone {
    fn add(&mut self, rows: u64, age: Duration) {
        self.batches += 1;
        self.rows += rows;
        self.oldest = self.oldest.max(age);
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            batches,
            rows,
            oldest,
        } = self;
        write!(
            f,
            "{rows} rows of {batches} batches are gone, the first of them acknowledged {} ms before the fault",
            oldest.as_millis()
        )
    }
}

impl Found {
    /// Compares each row with what its batch says.
    pub fn of(content: Content, rows: &[Cells]) -> Self {
        let mut found = Self::default();
        for cells in rows {
            let [time, writer, host, value, number] = cells;
            let place = || {
                let writer = writer.strip_prefix('w')?.parse().ok()?;
                content.place(writer, time.parse().ok()?)
            };
            let same =
                place().and_then(|(name, slot)| Some((name, slot, content.row(name, slot)?)));
            let Some((name, slot, row)) = same.filter(|(_, _, row)| row.host == host) else {
                found
                    .strange
                    .push(format!("a row that nobody wrote: {cells:?}"));
                continue;
            };
            // Peers that store each field by itself may lose one; then the row is not there.
            if value.is_empty() || number.is_empty() {
                continue;
            }
            let value = value.parse::<f64>().map(f64::to_bits);
            // One peer has no integers, and shows them in the notation of floats.
            let number = number.parse::<f64>().map(f64::to_bits);
            if value == Ok(row.value.to_bits()) && number == Ok((row.number as f64).to_bits()) {
                *found.rows.entry((name, slot)).or_default() += 1;
            } else {
                found
                    .strange
                    .push(format!("{name:?}: {cells:?} instead of {row:?}"));
            }
        }
        found
    }
}

impl Account {
    /// An empty account with a new journal.
    pub fn create(content: Content, path: &Path) -> io::Result<Self> {
        Ok(Self {
            content,
            journal: Journal::create(path)?,
            path: path.to_owned(),
            batches: BTreeMap::new(),
            acknowledged: 0,
            doubled: BTreeMap::new(),
            told: BTreeSet::new(),
        })
    }

    /// Notes the next batch of a writer before it is sent.
    pub fn begin(&mut self, writer: usize) -> io::Result<Name> {
        let last = self
            .batches
            .range((writer, 0)..=(writer, u64::MAX))
            .next_back();
        let name = (writer, last.map_or(0, |((_, batch), _)| batch + 1));
        self.begin_again(name)?;
        Ok(name)
    }

    /// Notes that a batch that was not answered is sent again.
    pub fn begin_again(&mut self, name: Name) -> io::Result<()> {
        self.journal.append(Entry::Send(name))?;
        let known = Known {
            fate: Fate::Sent,
            acknowledged: None,
            counted: 0,
        };
        self.batches.insert(name, known);
        Ok(())
    }

    /// Notes that a batch was acknowledged.
    pub fn acknowledge(&mut self, name: Name) -> io::Result<()> {
        self.acknowledged += self.content.rows(name);
        self.end(Entry::Ack(name), name, Fate::Kept)
    }

    /// Notes that a batch was refused.
    pub fn refuse(&mut self, name: Name) -> io::Result<()> {
        self.end(Entry::Refused(name), name, Fate::Lost)
    }

    fn end(&mut self, entry: Entry, name: Name, fate: Fate) -> io::Result<()> {
        self.journal.append(entry)?;
        if let Some(known) = self.batches.get_mut(&name) {
            known.fate = fate;
            known.acknowledged = (fate == Fate::Kept).then(Instant::now);
        }
        Ok(())
    }

    /// Batches without an answer.
    pub fn unanswered(&self) -> Vec<Name> {
        let sent = self
            .batches
            .iter()
            .filter(|(_, known)| known.fate == Fate::Sent);
        sent.map(|(name, _)| *name).collect()
    }

    /// Rows in batches that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether the journal says the same as this account.
    pub fn agrees_with_journal(&self) -> io::Result<bool> {
        let mut fates = BTreeMap::new();
        for entry in Journal::read(&self.path)? {
            match entry {
                Entry::Send(name) => fates.insert(name, Fate::Sent),
                Entry::Ack(name) => fates.insert(name, Fate::Kept),
                Entry::Refused(name) => fates.insert(name, Fate::Lost),
                _ => return Ok(false),
            };
        }
        Ok(self
            .batches
            .iter()
            .map(|(name, known)| (*name, known.fate))
            .eq(fates))
    }

    /// Compares with what a peer shows. Whatever is wrong is counted once.
    pub fn compare(&mut self, found: &Found, struck: Instant) -> Opinion {
        let mut opinion = Opinion::default();
        let verdict = &mut opinion.verdict;
        for story in &found.strange {
            if self.told.insert(story.clone()) {
                verdict.altered += 1;
                verdict.stories.push(story.clone());
            }
        }
        let mut counts: BTreeMap<Name, u64> = BTreeMap::new();
        for (&(name, slot), &times) in &found.rows {
            *counts.entry(name).or_default() += 1;
            let before = self.doubled.get(&(name, slot)).copied().unwrap_or(0);
            if times > before + 1 {
                self.doubled.insert((name, slot), times - 1);
                verdict.duplicated += times - 1 - before;
                verdict
                    .stories
                    .push(format!("{name:?}: row {slot} is there {times} times"));
            }
        }
        for (name, got) in &counts {
            if !self.batches.contains_key(name) && self.told.insert(format!("{name:?}")) {
                verdict.altered += got;
                verdict
                    .stories
                    .push(format!("{name:?} is there, and nobody sent it"));
            }
        }
        let mut gone = Gone::default();
        for (&name, known) in &mut self.batches {
            let whole = self.content.rows(name);
            let got = counts.get(&name).copied().unwrap_or(0);
            match known.fate {
                Fate::Kept => {
                    let lost = whole - got;
                    if lost > known.counted {
                        let age = known
                            .acknowledged
                            .map(|at| struck.saturating_duration_since(at));
                        gone.add(lost - known.counted, age.unwrap_or_default());
                    } else if lost < known.counted {
                        verdict.altered += known.counted - lost;
                        verdict
                            .stories
                            .push(format!("{name:?}: rows that were missing are back"));
                    }
                    known.counted = lost;
                }
                Fate::Sent => opinion.in_part += u64::from(got > 0 && got < whole),
                Fate::Lost => {
                    if got > 0 && self.told.insert(format!("{name:?}")) {
                        verdict.altered += got;
                        verdict
                            .stories
                            .push(format!("{name:?} was refused, and is there"));
                    }
                }
            }
        }
        if gone.batches > 0 {
            verdict.missing += gone.rows;
            verdict.stories.push(gone.to_string());
            opinion.oldest_lost = gone.oldest;
        }
        opinion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content = Content {
        seed: 8,
        first_ms: 1_700_000_000_000,
    };

    struct Bench {
        account: Account,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let account = Account::create(CONTENT, &folder.path().join("journal")).unwrap();
            Self {
                account,
                _folder: folder,
            }
        }

        fn acknowledged(&mut self, writer: usize) -> Name {
            let name = self.account.begin(writer).unwrap();
            self.account.acknowledge(name).unwrap();
            name
        }

        /// Missing, duplicated, altered, in part.
        fn judge(&mut self, rows: &[Cells]) -> [u64; 4] {
            let found = Found::of(CONTENT, rows);
            let opinion = self.account.compare(&found, Instant::now());
            assert!(self.account.agrees_with_journal().unwrap());
            let verdict = opinion.verdict;
            [
                verdict.missing,
                verdict.duplicated,
                verdict.altered,
                opinion.in_part,
            ]
        }
    }

    fn shown(names: &[Name]) -> Vec<Cells> {
        let rows = names.iter().flat_map(|name| CONTENT.batch(*name));
        rows.map(|row| {
            let writer = format!("w{}", row.writer);
            [
                row.time.to_string(),
                writer,
                row.host.to_owned(),
                row.value.to_string(),
                row.number.to_string(),
            ]
        })
        .collect()
    }

    /// A batch of several rows, so that it can be there in part.
    fn long(bench: &mut Bench) -> Name {
        loop {
            let name = bench.account.begin(2).unwrap();
            if CONTENT.rows(name) > 3 {
                return name;
            }
            bench.account.refuse(name).unwrap();
        }
    }

    #[test]
    fn what_was_acknowledged_and_is_there_is_right() {
        let mut bench = Bench::new();
        let names = [
            bench.acknowledged(0),
            bench.acknowledged(1),
            bench.acknowledged(0),
        ];
        assert_eq!(names, [(0, 0), (1, 0), (0, 1)]);
        assert_eq!(bench.judge(&shown(&names)), [0; 4]);
        assert_eq!(
            bench.account.acknowledged(),
            names.map(|name| CONTENT.rows(name)).iter().sum::<u64>()
        );
    }

    #[test]
    fn a_batch_that_is_gone_is_missing_once_and_altered_when_it_is_back() {
        let mut bench = Bench::new();
        let names = [bench.acknowledged(0), bench.acknowledged(1)];
        let rows = CONTENT.rows(names[1]);
        assert_eq!(bench.judge(&shown(&names[..1])), [rows, 0, 0, 0]);
        assert_eq!(bench.judge(&shown(&names[..1])), [0; 4]);
        assert_eq!(bench.judge(&shown(&names)), [0, 0, rows, 0]);
    }

    #[test]
    fn rows_that_come_twice_are_duplicated_once() {
        let mut bench = Bench::new();
        let name = bench.acknowledged(0);
        let twice = shown(&[name, name]);
        assert_eq!(bench.judge(&twice), [0, CONTENT.rows(name), 0, 0]);
        assert_eq!(bench.judge(&twice), [0; 4]);
    }

    #[test]
    fn an_unanswered_batch_may_be_there_or_not_and_is_counted_in_part() {
        let mut bench = Bench::new();
        let name = long(&mut bench);
        let all = shown(&[name]);
        assert_eq!(bench.judge(&[]), [0; 4]);
        assert_eq!(bench.judge(&all), [0; 4]);
        assert_eq!(bench.judge(&all[1..]), [0, 0, 0, 1]);
        assert_eq!(bench.account.unanswered(), [name]);
        bench.account.begin_again(name).unwrap();
        bench.account.acknowledge(name).unwrap();
        assert_eq!(bench.judge(&all[1..]), [1, 0, 0, 0]);
    }

    #[test]
    fn a_row_without_one_of_its_fields_is_not_there() {
        let mut bench = Bench::new();
        let name = bench.acknowledged(0);
        let mut rows = shown(&[name]);
        rows[0][4].clear();
        assert_eq!(bench.judge(&rows), [1, 0, 0, 0]);
    }

    #[test]
    fn other_values_unknown_rows_and_refused_batches_are_altered() {
        let mut bench = Bench::new();
        let name = bench.acknowledged(0);
        let mut rows = shown(&[name]);
        let value: f64 = rows[0][3].parse().unwrap();
        rows[0][3] = f64::from_bits(value.to_bits() ^ 1).to_string();
        assert_eq!(bench.judge(&rows), [1, 0, 1, 0]);
        let mut bench = Bench::new();
        assert_eq!(
            bench.judge(&shown(&[(0, 0)])),
            [0, 0, CONTENT.rows((0, 0)), 0]
        );
        let mut bench = Bench::new();
        let name = bench.account.begin(0).unwrap();
        bench.account.refuse(name).unwrap();
        assert_eq!(bench.judge(&shown(&[name])), [0, 0, CONTENT.rows(name), 0]);
        let nonsense = ["1", "w1", "a", "1", "1"].map(str::to_owned);
        assert_eq!(bench.judge(&[nonsense]), [0, 0, 1, 0]);
    }

    #[test]
    fn integers_may_come_back_in_the_notation_of_floats() {
        let mut bench = Bench::new();
        let name = bench.acknowledged(0);
        let mut rows = shown(&[name]);
        for row in &mut rows {
            row[4] = format!("{:e}", row[4].parse::<f64>().unwrap());
        }
        assert_eq!(bench.judge(&rows), [0; 4]);
    }
}
