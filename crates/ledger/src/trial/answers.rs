//! Answers: a long mixed life of a server, its settings changed on the way, beside a model in plain maps.
//!
//! Does: write on every route, overwrite, delete, update, change the partitions of several tables, let rows grow too old,
//! stop in order, kill, compact offline, start with other settings; after each step counts, sums, ranges and all rows must
//! be the model's.
//! Does not: share the rows of the other kinds, whose batches never meet: here most writes meet what is there.

mod acts;
mod age;
mod compare;
mod draw;
mod model;
mod policy;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};

use super::{Context, Outcome};
use crate::disk::run;
use crate::http::{Answer, Client};
use crate::life::Life;
use crate::random::Random;
use crate::server::{DB, Launch, Server};
use crate::tally::Tally;
use draw::Content;
use model::{Kind, Row, Table};

/// Steps of one life. Then another begins, so that reading everything back stays quick.
const STEPS: u64 = 60;
/// Rows of all tables, above which a life only overwrites and deletes.
const ROWS_MAX: u64 = 150_000;
const KILL_US_MAX: u64 = 30_000;
/// Before one step in so many a table says when it is cold.
const COOL_ONE_IN: u64 = 6;

/// Lives until there were as many ends of a process as are asked for.
pub fn answers(context: &Context) -> Result<Outcome> {
    let mut tally = Tally::default();
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let seed = context.seed.wrapping_add(number);
        let folder = context.folder()?;
        let begun = Instant::now();
        let mut life = OneLife::begin(context, folder.path(), seed)?;
        life.steps(context, tally.faults)?;
        let mut part = life.tally;
        part.load = begun.elapsed();
        if !part.is_clean() {
            part.stories.push(format!(
                "to repeat this life: nilometer-ledger answers --seed {seed} --faults {}",
                part.faults.max(1)
            ));
        }
        let is_clean = part.is_clean();
        tally.add(part);
        if !is_clean {
            break;
        }
    }
    Ok(Outcome::Ran(tally))
}

/// Whether a step may be followed by another.
enum Then {
    GoOn,
    End,
}

struct OneLife {
    seed: u64,
    random: Random,
    /// What is said in InfluxQL, by dice of its own: what happens follows from the others.
    tongue: Random,
    /// What is done to [`policy::TABLE`], by dice of its own.
    policies: Random,
    side: Table,
    /// When tables are cold, and what stores are settled for: by dice of its own as well.
    tiers: Random,
    content: Content,
    tables: Vec<Table>,
    launch: Launch,
    server: Option<Server>,
    tally: Tally,
    /// What was done, for the story of a finding.
    done: Vec<String>,
}

impl OneLife {
    fn begin(context: &Context, folder: &Path, seed: u64) -> Result<Self> {
        let mut random = Random::of(&[seed, 0xa_5e5]);
        let drawn = Content::draw(&mut random);
        let launch = Launch {
            program: context.program.clone(),
            data: folder.join("data"),
            output: folder.to_owned(),
            flags: flags(&mut random),
            strace: None,
        };
        let tables = vec![
            Table::new("la", Kind::Last),
            Table::new("lb", Kind::Last),
            Table::new("ke", Kind::Keep),
            Table::new("un", Kind::Unique),
        ];
        let mut life = Self {
            seed,
            random,
            tongue: Random::of(&[seed, 0x1f]),
            policies: Random::of(&[seed, 0x9_011]),
            side: policy::table(),
            tiers: Random::of(&[seed, 0xc0_1d]),
            content: drawn,
            tables,
            launch,
            server: None,
            tally: Tally::default(),
            done: Vec::new(),
        };
        life.start()?;
        let mut client = life.client()?;
        demand(client.sql(DB, &format!("CREATE DATABASE {DB}")))?;
        let mut tables = std::mem::take(&mut life.tables);
        for table in &mut tables {
            let interval = life.random.index(draw::INTERVALS.len());
            life.create(table, interval)?;
        }
        life.tables = tables;
        life.make_policy()?;
        Ok(life)
    }

    /// Makes a table on the server, with one of the widths of partitions.
    fn create(&self, table: &mut Table, interval: usize) -> Result<()> {
        let kind = match table.kind {
            Kind::Last => "last",
            Kind::Keep => "keep",
            Kind::Unique => "unique",
        };
        let (interval, interval_ns) = draw::INTERVALS.get(interval).context("no such interval")?;
        table.partitions_are(*interval_ns);
        let statement = format!(
            "CREATE TABLE {} (time TIMESTAMPTZ NOT NULL, h TEXT TAG, g TEXT TAG, c BIGINT, n BIGINT, v DOUBLE PRECISION, \
             s TEXT, b BOOLEAN) WITH (duplicates = '{kind}', partition_interval = '{interval}')",
            table.name
        );
        demand(self.client()?.sql(DB, &statement))
    }

    fn client(&self) -> Result<Client> {
        let server = self.server.as_ref().context("no server runs")?;
        Ok(server.client())
    }

    fn start(&mut self) -> Result<()> {
        self.server = Some(self.launch.start_up()?);
        Ok(())
    }

    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    fn label(&self) -> String {
        let from = self.done.len().saturating_sub(12);
        let done = self.done.get(from..).unwrap_or_default().join("; ");
        format!(
            "seed {} after {} steps ({done})",
            self.seed,
            self.done.len()
        )
    }

    fn steps(&mut self, context: &Context, faults_before: u64) -> Result<()> {
        if self.seed.is_multiple_of(2) {
            let then = self.thin_out().with_context(|| self.label())?;
            if then.is_end() {
                return Ok(());
            }
        }
        for _ in 0..STEPS {
            if !context.goes_on(faults_before + self.tally.faults) {
                break;
            }
            let then = self.step().with_context(|| self.label())?;
            if matches!(then, Then::End) {
                return Ok(());
            }
        }
        if self.restart(End::Stop)?.is_end() || self.compare_all()?.is_end() {
            return Ok(());
        }
        let old = self.all_grow_old();
        if old.with_context(|| self.label())?.is_end() {
            return Ok(());
        }
        if let Some(server) = self.server.take() {
            Life::look_at(&server.stop()?, &mut self.tally, "the last stop");
        }
        let checked = run(Command::new(&self.launch.program)
            .arg("check")
            .arg("--data")
            .arg(&self.launch.data));
        if let Err(why) = checked {
            let story = format!("{}: nilometer check: {why}", self.label());
            self.tally.broke(story);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Then> {
        // Lives that thin out one generation of rows after the other keep all of it.
        if !self.seed.is_multiple_of(2) && self.tongue.one_in(15) {
            self.drop_in_influxql()?;
        }
        if self.tiers.one_in(COOL_ONE_IN) {
            self.cool()?;
        }
        self.change_side()?;
        let is_full = self.tables.iter().map(Table::len).sum::<u64>() > ROWS_MAX;
        // Of the other half one generation of rows after the other is thinned out.
        let acts = if self.seed.is_multiple_of(2) { 24 } else { 26 };
        match self.random.below(acts) {
            0..=4 if !is_full => self.bodies()?,
            5..=6 if !is_full => self.block()?,
            0..=9 => self.overwrite()?,
            10 => self.insert()?,
            11 => self.copy()?,
            12..=14 => self.change_interval()?,
            15 => self.delete()?,
            16 => self.update()?,
            17..=19 => return self.restart_and_compare(End::Stop),
            20 => return self.restart_and_compare(End::Kill),
            21 => return self.restart_and_compare(End::KillAmidWrite),
            24.. => return self.grow_old(),
            _ => return self.restart_and_compare(End::Settle),
        }
        if self.random.one_in(3) {
            self.compare_all()
        } else {
            self.compare_sums()
        }
    }

    // Ends of the process.

    fn restart_and_compare(&mut self, end: End) -> Result<Then> {
        if self.restart(end)?.is_end() {
            return Ok(Then::End);
        }
        self.compare_all()
    }

    fn restart(&mut self, end: End) -> Result<Then> {
        let mut unknown = None;
        if matches!(end, End::KillAmidWrite) {
            unknown = self.kill_amid_write()?;
        }
        let Some(server) = self.server.take() else {
            return Ok(Then::End);
        };
        let ended = match end {
            End::Stop | End::StopUnder | End::Settle | End::SettleUnder => server.stop()?,
            End::Kill | End::KillUnder | End::KillAmidWrite => server.kill()?,
        };
        let is_killed = matches!(end, End::Kill | End::KillUnder | End::KillAmidWrite);
        let label = self.label();
        if !is_killed && !ended.status.success() {
            self.tally
                .broke(format!("{label}: a stop ended with {}", ended.status));
        }
        Life::look_at(&ended, &mut self.tally, &label);
        self.tally.faults += 1;
        if matches!(end, End::Settle | End::SettleUnder) {
            let tier: &[&str] = match self.tiers.below(4) {
                0 => &["--tier", "hot"],
                1 => &["--tier", "cold"],
                _ => &[],
            };
            let settled = run(Command::new(&self.launch.program)
                .arg("settle")
                .arg("--data")
                .arg(&self.launch.data)
                .args(tier)
                .args(settle_flags(&self.launch.flags)));
            if let Err(why) = settled {
                self.tally
                    .broke(format!("{label}: nilometer settle: {why}"));
                return Ok(Then::End);
            }
        }
        let is_under = matches!(end, End::StopUnder | End::KillUnder | End::SettleUnder);
        if !is_under && self.random.one_in(3) {
            self.launch.flags = flags(&mut self.random);
        }
        self.note(format!("{end:?}, then {}", self.launch.flags.join(" ")));
        if let Err(e) = self.start() {
            self.tally.broke(format!("{}: {e:#}", self.label()));
            return Ok(Then::End);
        }
        if let Some((to, rows)) = unknown {
            self.settle_unknown(&to, &rows)?;
        }
        Ok(Then::GoOn)
    }

    /// Sends a body and kills the server meanwhile. If nobody answered, what was sent.
    fn kill_amid_write(&mut self) -> Result<Option<(Vec<usize>, Vec<Row>)>> {
        let to = vec![self.pick_table()];
        let rows = self.content.spread(700, &mut self.random);
        let body = self.body(&to, &rows);
        let target = self.target();
        let pause = Duration::from_micros(self.random.below(KILL_US_MAX));
        let server = self.server.as_ref().context("no server runs")?;
        let pid = server.pid();
        let mut client = server.client();
        let answer = thread::scope(|scope| {
            let sent = scope.spawn(move || client.post(&target, "", body.as_bytes()));
            thread::sleep(pause);
            let killed = kill_process(pid, Signal::KILL);
            let answer = sent.join().expect("a client does not panic");
            killed.map(|()| answer)
        })?;
        match answer {
            Ok(answer) if answer.status == 204 => {
                self.apply(&to, &rows);
                Ok(None)
            }
            Ok(answer) => bail!("a body: {}: {:.300}", answer.status, answer.text()),
            Err(_) => Ok(Some((to, rows))),
        }
    }

    /// What nobody answered is there as a whole or not at all: the count says which, and the comparison whether it is.
    fn settle_unknown(&mut self, to: &[usize], rows: &[Row]) -> Result<()> {
        let mut client = self.client()?;
        let Some(table) = to.first().and_then(|at| self.tables.get(*at)) else {
            return Ok(());
        };
        let is_without = compare::rows(&mut client, table)?.stories.is_empty();
        if !is_without {
            self.apply(to, rows);
        }
        Ok(())
    }

    // Comparisons.

    fn compare_all(&mut self) -> Result<Then> {
        let mut client = self.client()?;
        let label = self.label();
        for table in &self.tables {
            let verdict = compare::rows(&mut client, table)?;
            self.tally.take(verdict, &label);
            let verdict = compare::rows_in_influxql(&mut client, table)?;
            self.tally.take(verdict, &label);
        }
        self.compare_side()?;
        self.compare_sums()
    }

    fn compare_sums(&mut self) -> Result<Then> {
        let mut client = self.client()?;
        let label = self.label();
        for table in &self.tables {
            let verdict = compare::sums(&mut client, table, None)?;
            self.tally.take(verdict, &label);
            let which = if self.random.one_in(2) {
                self.content.some(table, &mut self.random)
            } else {
                self.content.some_by_field(table, &mut self.random)
            };
            let verdict = compare::sums(&mut client, table, Some(&which))?;
            self.tally.take(verdict, &label);
        }
        if self.tally.is_clean() {
            return Ok(Then::GoOn);
        }
        // An aggregate says that something is wrong, the rows say what.
        for table in &self.tables {
            let verdict = compare::rows(&mut client, table)?;
            self.tally
                .take(verdict, &format!("seed {}, asked again", self.seed));
        }
        Ok(Then::End)
    }
}

impl Then {
    fn is_end(&self) -> bool {
        matches!(self, Self::End)
    }
}

/// How a process ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Stop,
    Kill,
    /// The same two, and a start with the same settings.
    StopUnder,
    KillUnder,
    KillAmidWrite,
    /// A stop, then `nilometer settle` on what it left.
    Settle,
    /// The same, and a start with the same settings.
    SettleUnder,
}

/// Settings of one start: the default ones, one that is small, or several.
fn flags(random: &mut Random) -> Vec<String> {
    let mut flags = String::new();
    match random.below(6) {
        0 => {}
        1 => {
            let _ = write!(flags, "--flush-rows {}", random.pick(&[100, 3000]));
        }
        2 => flags.push_str("--log-bytes-max 65536"),
        _ => {
            let _ = write!(
                flags,
                "--flush-rows {} --compaction-fan-in {} --partition-rows-min {} --widen-rows-max {} --settle-ms {} --log-bytes-max {}",
                random.pick(&[100, 400, 2000, 100_000]),
                random.pick(&[2, 3, 8]),
                random.pick(&[100, 1000, 10_000]),
                random.pick(&[1000, 20_000, 100_000]),
                random.pick(&[1, 1000]),
                random.pick(&[256 << 10, 2 << 20, 256 << 20]),
            );
        }
    }
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Those of a server's settings that an offline compaction takes, too.
fn settle_flags(flags: &[String]) -> Vec<String> {
    flags
        .chunks(2)
        .filter(|pair| {
            pair.first().is_some_and(|name| {
                name.starts_with("--compaction")
                    || name.ends_with("rows-min")
                    || name.ends_with("widen-rows-max")
            })
        })
        .flatten()
        .cloned()
        .collect()
}

fn demand(answer: std::io::Result<Answer>) -> Result<()> {
    let answer = answer?;
    match answer.status {
        200 | 204 => Ok(()),
        status => bail!("{status}: {:.500}", answer.text()),
    }
}

/// The number of rows that a statement answers.
fn counted(answer: std::io::Result<Answer>) -> Result<u64> {
    let answer = answer?;
    let text = answer.text();
    if answer.status != 200 {
        bail!("{}: {text:.500}", answer.status);
    }
    let count = text.lines().nth(1).and_then(|line| line.parse().ok());
    count.with_context(|| format!("no count: {text:.100}"))
}
