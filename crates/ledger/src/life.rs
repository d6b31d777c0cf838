//! One data directory over several starts of the server, with its client and its ledger.
//!
//! Does: make the tables, send batches, deletes and definitions, send again what was not answered, read everything back.
//! Does not: decide when a fault comes; the trials do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bad_input;
use crate::batch::{Content, FIRST_NS, LATEST, Table};
use crate::http::{self, Answer, Client};
use crate::influx;
use crate::journal::Name;
use crate::ledger::{Fate, Ledger, When};
use crate::random::Random;
use crate::read_back::{Found, MADE};
use crate::server::{DB, Ended, Launch, Server};
use crate::tally::Tally;

/// Writers of a life, each with batches of its own.
pub const WRITERS: usize = 3;
/// Batches of one scripted part of a life.
const PART_BATCHES: usize = 9;
/// Longest wait for maintenance after a scripted part.
const COMPACTION: Duration = Duration::from_millis(15);
const QUIET_MAX: Duration = Duration::from_millis(400);
/// Ages after which partitions are cold: all of them, none, and as they are.
const AGES: [&str; 3] = ["1 second", "never", "default"];

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Done, and promised.
    Done,
    /// The server says that it was not done.
    Refused(String),
    /// The server says that it cannot at the moment, or not any more. Whether it was done is unknown.
    Unavailable(String),
    /// No answer came.
    Silent(io::Error),
}

impl Outcome {
    /// What is wrong with it while no fault is under way.
    pub fn complaint(&self, what: &str) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Refused(why) => Some(format!("{what} was refused: {why}")),
            Self::Unavailable(why) => Some(format!("{what} was answered with {why}")),
            Self::Silent(e) if http::is_silence(e) => Some(format!(
                "{what} was not answered within {:?}",
                http::SILENCE_MAX
            )),
            Self::Silent(e) => Some(format!("{what}: the connection broke: {e}")),
        }
    }
}

fn outcome(answer: io::Result<Answer>) -> Outcome {
    match answer {
        Ok(answer) => match answer.status {
            200 | 204 => Outcome::Done,
            status @ 400..500 => Outcome::Refused(format!("{status}: {:.300}", answer.text())),
            status => Outcome::Unavailable(format!("{status}: {:.300}", answer.text())),
        },
        Err(e) => Outcome::Silent(e),
    }
}

/// How much may go wrong meanwhile without a promise being broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The server may be killed at any moment; until then everything works.
    Death,
    /// The disk fails: writes may be refused as unavailable, reads go on.
    DiskErrors,
    /// The disk fails on reads too: queries may fail, but never answer wrongly.
    ReadErrors,
}

/// One data directory and what was sent to it.
#[derive(Debug)]
pub struct Life {
    /// How its servers are started.
    pub launch: Launch,
    ledger: Mutex<Ledger>,
    journal: PathBuf,
    seed: u64,
    /// Bad inputs sent so far.
    bad: u64,
    /// The machine has no power any more, so nothing that it says counts.
    is_powerless: AtomicBool,
    /// Times that everything was read back.
    checks: AtomicUsize,
}

impl Life {
    /// A new life: its data in `data`, its journal and the server's output in `folder`.
    pub fn create(
        program: &Path,
        folder: &Path,
        data: PathBuf,
        seed: u64,
        rows_mean: u64,
        flags: Vec<String>,
    ) -> Result<Self> {
        let journal = folder.join("journal");
        let ledger = Ledger::create(Content { seed, rows_mean }, &journal)
            .with_context(|| journal.display().to_string())?;
        Ok(Self {
            launch: Launch {
                program: program.to_owned(),
                data,
                output: folder.to_owned(),
                flags,
                strace: None,
            },
            ledger: Mutex::new(ledger),
            journal,
            seed,
            is_powerless: AtomicBool::new(false),
            checks: AtomicUsize::new(0),
            bad: Random::of(&[seed, 0xbad]).below(1000),
        })
    }

    /// The ledger, also after a panic elsewhere: what it holds is still true.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the machine under the server has power.
    pub fn set_power(&self, is_on: bool) {
        self.is_powerless.store(!is_on, Ordering::SeqCst);
    }

    /// Dice of what is said in InfluxQL beside the rest, so that the rest is what its seed makes it.
    fn tongue(&self) -> Random {
        Random::of(&[self.seed, 0x1f_d0, self.ledger().batches() as u64])
    }

    /// Whether what was just heard came from a machine that has power. What comes later is no promise.
    pub fn counts(&self) -> bool {
        !self.is_powerless.load(Ordering::SeqCst)
    }

    /// Makes the tables and writes one batch of each writer, so that every later question has an answer.
    pub fn prepare(&self, server: &Server) -> Result<()> {
        let mut client = server.client();
        let mut statements = vec![format!("CREATE DATABASE IF NOT EXISTS {DB}")];
        statements.extend(Table::ALL.map(Table::create));
        for statement in &statements {
            demand(client.sql(DB, statement), statement)?;
        }
        for writer in 0..WRITERS {
            let name = self.ledger().begin(writer)?;
            match self.send(&mut client, name)? {
                Outcome::Done => {}
                other => bail!("the first batch: {other:?}"),
            }
        }
        // A view is a row of a relation.
        let view = format!("CREATE VIEW newest AS SELECT max(batch) AS batch FROM {LATEST}");
        demand(client.sql(DB, &view), &view)?;
        let mut random = Random::of(&[self.seed, 0xc0_1d]);
        for table in Table::ALL.into_iter().filter(|_| random.one_in(2)) {
            Self::set_age(&mut client, table, AGES[0])?;
        }
        Ok(())
    }

    /// Says from which age on a table's partitions are cold; the server writes them so when it comes by.
    pub fn cool(&self, client: &mut Client, random: &mut Random) -> Result<()> {
        let table = *random.pick(&Table::ALL);
        let age = *random.pick(&AGES);
        Self::set_age(client, table, age)
    }

    fn set_age(client: &mut Client, table: Table, age: &str) -> Result<()> {
        let statement = format!("ALTER TABLE {} SET (cold_after = '{age}')", table.name());
        demand(client.sql(DB, &statement), &statement)
    }

    /// Sends a batch that the ledger has noted, and notes what came of it.
    pub fn send(&self, client: &mut Client, name: Name) -> Result<Outcome> {
        let content = self.ledger().content;
        let lines = content.lines(name.0, name.1);
        let key = content.key(name.0, name.1);
        let answer = if content.is_influx(name.0, name.1) {
            client.write_influx(DB, key.as_deref(), &lines)
        } else {
            client.write(DB, key.as_deref(), &lines)
        };
        let outcome = outcome(answer);
        match &outcome {
            _ if !self.counts() => {}
            Outcome::Done => self.ledger().acknowledge(name)?,
            Outcome::Refused(_) => self.ledger().refuse(name)?,
            Outcome::Unavailable(_) | Outcome::Silent(_) => {}
        }
        Ok(outcome)
    }

    /// Deletes an older batch of a writer from one table, and notes what came of it.
    pub fn erase(
        &self,
        client: &mut Client,
        writer: usize,
        random: &mut Random,
    ) -> Result<Outcome> {
        let Some((writer, batch)) = self.ledger().begin_erase(writer, random)? else {
            return Ok(Outcome::Done);
        };
        let content = self.ledger().content;
        let points = Table::Points.name();
        let answer = match content.span(writer, batch) {
            // InfluxQL deletes by time and tags only.
            Some((first, last)) if content.is_influx(writer, batch) => {
                let statement = format!(
                    "DELETE FROM {points} WHERE writer = 'w{writer}' AND time >= {first} AND time <= {last}"
                );
                client.influxql(DB, &statement).map(influx::as_ours)
            }
            _ => {
                let statement =
                    format!("DELETE FROM {points} WHERE writer = 'w{writer}' AND batch = {batch}");
                client.sql(DB, &statement)
            }
        };
        let outcome = outcome(answer);
        match &outcome {
            _ if !self.counts() => {}
            Outcome::Done => self.ledger().end_erase((writer, batch), true)?,
            Outcome::Refused(_) => self.ledger().end_erase((writer, batch), false)?,
            Outcome::Unavailable(_) | Outcome::Silent(_) => {}
        }
        Ok(outcome)
    }

    /// Makes a table, by SQL or by its first point, and notes what came of it.
    pub fn make_table(&self, client: &mut Client) -> Result<Outcome> {
        let n = self.ledger().begin_table()?;
        let answer = if n.is_multiple_of(2) {
            let columns = "(time TIMESTAMPTZ NOT NULL, a TEXT TAG, b BIGINT)";
            client.sql(DB, &format!("CREATE TABLE {MADE}{n} {columns}"))
        } else {
            client.write_influx(DB, None, &format!("{MADE}{n},a=x b={n}i {FIRST_NS}\n"))
        };
        let outcome = outcome(answer);
        if matches!(outcome, Outcome::Done) && self.counts() {
            self.ledger().end_table(n)?;
        }
        Ok(outcome)
    }

    /// Drops a table that was made, in InfluxQL, and notes what came of it.
    pub fn drop_table(&self, client: &mut Client, random: &mut Random) -> Result<Outcome> {
        let Some(n) = self.ledger().begin_drop(random)? else {
            return Ok(Outcome::Done);
        };
        let statement = format!("DROP MEASUREMENT {MADE}{n}");
        let outcome = outcome(client.influxql(DB, &statement).map(influx::as_ours));
        match &outcome {
            _ if !self.counts() => {}
            Outcome::Done => self.ledger().end_drop(n, true)?,
            Outcome::Refused(_) => self.ledger().end_drop(n, false)?,
            Outcome::Unavailable(_) | Outcome::Silent(_) => {}
        }
        Ok(outcome)
    }

    /// Reads everything back and compares. Whether it could be read at all.
    pub fn check(
        &self,
        server: &Server,
        when: When,
        tally: &mut Tally,
        label: &str,
    ) -> Result<bool> {
        self.check_expecting(server, when, Expect::DiskErrors, tally, label)
    }

    /// The same where reading may fail, too.
    pub fn check_expecting(
        &self,
        server: &Server,
        when: When,
        expect: Expect,
        tally: &mut Tally,
        label: &str,
    ) -> Result<bool> {
        let mut client = server.client();
        let content = self.ledger().content;
        let mut silent = false;
        let mut found = Found::read(content, |statement| {
            let answer = client.sql(DB, statement).inspect_err(|_| silent = true)?;
            if answer.status != 200 {
                bail!("{}: {:.500}", answer.status, answer.text());
            }
            Ok(answer.text())
        });
        if let Ok(shown) = &mut found {
            // A table at a time, so that reading everything back does not take twice as long.
            let turn = self.checks.fetch_add(1, Ordering::Relaxed);
            let table = *Table::ALL
                .get(turn % Table::ALL.len())
                .unwrap_or(&Table::Points);
            let same = influx::compare(content, table, shown, |statement| {
                let answer = client.influxql(DB, statement);
                Ok(answer.inspect_err(|_| silent = true)?)
            });
            if let Err(e) = same {
                found = Err(e.context(format!("{} in InfluxQL", table.name())));
            }
        }
        match found {
            Ok(found) => {
                let verdict = self.ledger().compare(&found, when)?;
                tally.take(verdict, label);
                Ok(true)
            }
            Err(_) if silent && expect == Expect::Death => Ok(false),
            Err(_) if expect == Expect::ReadErrors => Ok(false),
            Err(e) => {
                tally.broke(format!("{label}: reading back: {e:#}"));
                Ok(false)
            }
        }
    }

    /// Sends again what was not answered and carries a key: once more what is there, which must change nothing, and what
    /// is not there.
    pub fn send_again(
        &self,
        client: &mut Client,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<()> {
        for writer in 0..WRITERS {
            let last = self.ledger().last_of(writer);
            let Some((name, fate)) = last else { continue };
            let Some(key) = self.ledger().content.key(name.0, name.1) else {
                continue;
            };
            if random.one_in(3) {
                continue;
            }
            match fate {
                Fate::Lost => {
                    self.ledger().begin_again(name)?;
                    self.send(client, name)?;
                }
                Fate::Kept => {
                    let lines = self.ledger().content.lines(name.0, name.1);
                    if let Ok(answer) = client.write(DB, Some(&key), &lines) {
                        let is_replayed = answer.header("idempotency-replayed") == Some("true");
                        if answer.status == 204 && !is_replayed {
                            tally.broke(format!(
                                "{name:?} was sent again with its key and taken as new"
                            ));
                        }
                    }
                }
                Fate::Sent => {}
            }
        }
        Ok(())
    }

    /// Sends the next wrong request. Whether an answer came.
    pub fn send_bad(&mut self, client: &mut Client, expect: Expect, tally: &mut Tally) -> bool {
        self.bad += 1;
        match bad_input::send(client, self.seed, self.bad) {
            Ok(story) => {
                tally.bad_inputs += 1;
                let is_expected = |story: &str| match expect {
                    Expect::Death => false,
                    Expect::DiskErrors => bad_input::is_unavailable(story),
                    Expect::ReadErrors => {
                        bad_input::is_unavailable(story) || bad_input::is_read_error(story)
                    }
                };
                if let Some(story) = story.filter(|story| !is_expected(story)) {
                    tally.broke(story);
                }
                true
            }
            Err(_) => false,
        }
    }

    /// A scripted part of a life: batches, a delete, a table, a wrong request, a question, and time for maintenance.
    /// Ends early when the server does. Returns whether it came to its end.
    pub fn play(
        &mut self,
        server: &Server,
        expect: Expect,
        tally: &mut Tally,
        random: &mut Random,
    ) -> Result<bool> {
        let begun = Instant::now();
        let mut client = server.client();
        for step in 0..PART_BATCHES {
            let writer = step % WRITERS;
            let (what, outcome) = match step {
                3 => ("a delete", self.erase(&mut client, writer, random)?),
                5 if random.one_in(3) => ("CREATE TABLE", self.make_table(&mut client)?),
                7 if self.tongue().one_in(4) => (
                    "DROP MEASUREMENT",
                    self.drop_table(&mut client, &mut self.tongue())?,
                ),
                6 => {
                    if !self.send_bad(&mut client, expect, tally) {
                        return Ok(false);
                    }
                    continue;
                }
                _ => {
                    // Behind a batch of unknown fate of the same writer nothing is sent: which is the newest could not
                    // be told.
                    if matches!(self.ledger().last_of(writer), Some((_, Fate::Sent))) {
                        continue;
                    }
                    let name = self.ledger().begin(writer)?;
                    ("a batch", self.send(&mut client, name)?)
                }
            };
            match (&outcome, expect) {
                // A statement that has to read may say so in its own words.
                (Outcome::Done, _)
                | (Outcome::Refused(_) | Outcome::Unavailable(_), Expect::ReadErrors) => {}
                (Outcome::Unavailable(why), Expect::DiskErrors)
                    if why.starts_with("503") || why.starts_with("507") => {}
                (Outcome::Silent(e), _) if !http::is_silence(e) => return Ok(false),
                _ => tally.broke(outcome.complaint(what).unwrap_or_default()),
            }
        }
        let is_quiet = wait_for_maintenance(server);
        tally.load += begun.elapsed();
        Ok(is_quiet)
    }

    /// Adds up what was acknowledged, and compares the ledger with its journal.
    pub fn finish(&self, tally: &mut Tally) -> Result<()> {
        let ledger = self.ledger();
        tally.acked += ledger.acknowledged().0;
        if !ledger.agrees_with(&self.journal)? {
            bail!("the ledger in memory and its journal do not say the same");
        }
        Ok(())
    }

    /// Notes that a process panicked, if it did.
    pub fn look_at(ended: &Ended, tally: &mut Tally, label: &str) {
        if let Some(panic) = ended.panic() {
            tally.broke(format!("{label}: {panic}"));
        }
    }
}

/// Whether the server still answers after it has had time to flush and to compact.
fn wait_for_maintenance(server: &Server) -> bool {
    let deadline = Instant::now() + QUIET_MAX;
    while Instant::now() < deadline {
        match server.metric("nilometer_head_rows") {
            Ok(0.0) => {
                // A compaction comes right after.
                std::thread::sleep(COMPACTION);
                return true;
            }
            Ok(_) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return false,
        }
    }
    true
}

fn demand(answer: io::Result<Answer>, what: &str) -> Result<()> {
    let answer = answer.with_context(|| what.to_owned())?;
    if answer.status != 200 {
        bail!("{what}: {}: {}", answer.status, answer.text());
    }
    Ok(())
}
