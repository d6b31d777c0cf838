//! Hostile input: requests that want the server dead, one after the other, while it may have 512 MiB of memory.
//!
//! Does: run scripted cases in families. Each must be answered in time with an error or the right answer; after each
//! the same process says that it is well, takes another batch, and has every batch that was acknowledged.
//! Does not: break the machine or the disk; other trials do. Does not pass silently where no group can be made.

mod bodies;
mod case;
mod edges;
mod floods;
mod functions;
mod group;
mod lines;
mod pack;
mod pages;
mod statements;
mod streams;
mod tokens;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Context, Outcome};
use crate::ledger::When;
use crate::life::{self, Life, WRITERS};
use crate::random::Random;
use crate::server::Server;
use crate::tally::Tally;
use case::{Case, DB, Seen, Stage};
use group::Group;

/// What the server may have, and what a small machine or container has.
const MEMORY_BYTES: u64 = 512 << 20;
/// No answer may take longer, whatever was asked; of a case with several requests, all of them together no longer than each of
/// them so long: on a machine with ten times as much to do a flood of fifty bodies took four minutes. The limits of time below are far less; what is between is for a
/// machine that is busy with other things.
const CASE_MAX: Duration = Duration::from_secs(30);
/// Rows of the large table, in a run for the release page and in a short one.
const ROWS: u64 = 3_000_000;
const ROWS_SHORT: u64 = 300_000;
const BODY_ROWS: usize = 50_000;
const ROWS_MEAN: u64 = 5;
/// Longest wait until a batch is taken again after a flood.
const RESUME_MAX: Duration = Duration::from_secs(20);
/// So that what runs into a limit of time does so soon. All other limits are the server's own.
const FLAGS: [&str; 6] = [
    "--query-ms-max",
    "4000",
    "--header-read-ms-max",
    "2000",
    "--body-read-ms-max",
    "8000",
];

/// Runs the cases; where fewer are asked for than there are, some of each family.
pub fn hostile(context: &Context) -> Result<Outcome> {
    let group = match Group::new(MEMORY_BYTES) {
        Ok(group) => group,
        Err(e) => {
            return Ok(Outcome::Skipped(format!(
                "no control group with a limit of memory can be made here: {e}"
            )));
        }
    };
    let folder = context.folder()?;
    let script = folder.path().join("limited");
    group.wrap(&context.program, &script)?;
    let seed = Random::of(&[context.seed, 0x40571]).draw();
    let is_short = context.faults < 200;
    let rows = if is_short { ROWS_SHORT } else { ROWS };
    let data = folder.path().join("data");
    let flags = FLAGS.map(str::to_owned).to_vec();
    let mut life = Life::create(&script, folder.path(), data, seed, ROWS_MEAN, flags)?;
    let mut trial = Trial {
        context,
        group: &group,
        tally: Tally::default(),
        run: BTreeMap::new(),
        slowest: (Duration::ZERO, String::new()),
        restarts: 0,
        peak_kib: 0,
    };

    let server = life.launch.start_up()?;
    life.prepare(&server)?;
    fill(&server, rows)?;
    let mut all = wire::cases(rows);
    all.extend(bodies::cases());
    all.extend(lines::cases());
    all.extend(statements::cases(rows));
    all.extend(edges::cases(rows));
    all.extend(streams::cases(seed));
    all.extend(pages::cases(seed));
    all.extend(functions::cases(seed));
    all.extend(floods::cases());
    let known = all.len() + tokens::cases().len();
    let mut cases = choose(all, context.faults, seed);
    if is_short {
        // Time may be over before the last, which shall be others each time.
        Random::of(&[seed, 0x0bde7]).shuffle(&mut cases);
    }
    let server = trial.play(&life, server, &cases)?;
    trial.leave(&life, server, "after the cases")?;

    let token = folder.path().join("token");
    std::fs::write(&token, tokens::TOKEN)?;
    let plain = life.launch.flags.clone();
    life.launch
        .flags
        .extend(["--token-file".to_owned(), token.display().to_string()]);
    let server = life.launch.start_up()?;
    for case in choose(tokens::cases(), context.faults, seed) {
        trial.act(&case, &server);
    }
    trial.look_at_memory(&server);
    Life::look_at(&server.stop()?, &mut trial.tally, "after the tokens");
    life.launch.flags = plain;

    let server = life.launch.start_up()?;
    life.check(&server, When::Settled, &mut trial.tally, "after a restart")?;
    trial.leave(&life, server, "after a restart")?;
    life.finish(&mut trial.tally)?;
    trial.notes(known);
    Ok(Outcome::Ran(trial.tally))
}

/// Rows that follow from their numbers, so that their count and sums are known.
fn fill(server: &Server, rows: u64) -> Result<()> {
    let mut client = server.client();
    for name in [DB, "junk", "floods"] {
        client.sql(DB, &format!("CREATE DATABASE {name}"))?;
    }
    for first in (0..rows).step_by(BODY_ROWS) {
        let mut text = String::new();
        for n in first..rows.min(first + BODY_ROWS as u64) {
            let _ = writeln!(
                text,
                "big,host=host_{} v={}.5,n={n}i {}",
                n % 1000,
                n / 3,
                (n + 1) * 1_000_000_000
            );
        }
        let answer = client.write(DB, None, &text)?;
        if answer.status != 204 {
            bail!("the large table: {}: {}", answer.status, answer.text());
        }
    }
    Ok(())
}

/// As many cases as are asked for: of every family some, in the order of the list.
fn choose(cases: Vec<Case>, count: u64, seed: u64) -> Vec<Case> {
    if count >= cases.len() as u64 {
        return cases;
    }
    let mut random = Random::of(&[seed, 0xca5e]);
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        families.entry(case.family).or_default().push(at);
    }
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for places in families.values_mut() {
        random.shuffle(places);
    }
    // One of each family, whatever the count; then another of each, until it is reached.
    for round in 0.. {
        let before = chosen.len();
        for places in families.values() {
            if round == 0 || (chosen.len() as u64) < count {
                chosen.extend(places.get(round));
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    let mut at = 0..;
    cases
        .into_iter()
        .filter(|_| at.next().is_some_and(|at| chosen.contains(&at)))
        .collect()
}

struct Trial<'a> {
    context: &'a Context,
    group: &'a Group,
    tally: Tally,
    /// Cases that ran, by family.
    run: BTreeMap<&'static str, u64>,
    slowest: (Duration, String),
    /// How often the server had to be started again; each is a broken promise that was told.
    restarts: u64,
    /// The most memory of a server's own.
    peak_kib: u64,
}

impl Trial<'_> {
    fn play(&mut self, life: &Life, mut server: Server, cases: &[Case]) -> Result<Server> {
        for (number, case) in cases.iter().enumerate() {
            if Instant::now() >= self.context.until {
                break;
            }
            let label = format!("seed {}: {case:?}", self.context.seed);
            let begun = Instant::now();
            self.act(case, &server);
            let is_well = self.is_well(&mut server, &label)?;
            if !is_well || !self.goes_on(life, &server, number % WRITERS, &label)? {
                // What was acknowledged is looked at by its successor.
                self.restarts += 1;
                self.look_at_memory(&server);
                Life::look_at(&server.kill()?, &mut self.tally, &label);
                server = life.launch.start_up()?;
            }
            life.check(&server, When::Running, &mut self.tally, &label)?;
            self.tally.load += begun.elapsed();
        }
        Ok(server)
    }

    /// One case, whatever becomes of the server.
    fn act(&mut self, case: &Case, server: &Server) {
        let stage = Stage {
            address: server.address,
        };
        let begun = Instant::now();
        let complaint = case.run(&stage);
        let took = begun.elapsed();
        self.tally.bad_inputs += 1;
        *self.run.entry(case.family).or_default() += 1;
        let label = format!("seed {}: {case:?}", self.context.seed);
        if let Some(complaint) = complaint {
            self.tally.broke(format!("{label:.300}: {complaint}"));
        }
        if took > CASE_MAX * case.requests {
            self.tally.broke(format!("{label:.300}: took {took:.1?}"));
        }
        if took > self.slowest.0 {
            self.slowest = (took, format!("{case:?}").chars().take(60).collect());
        }
    }

    /// Whether the same process says that it is well, and knows what one and one is.
    fn is_well(&mut self, server: &mut Server, label: &str) -> Result<bool> {
        if server.has_ended()? {
            let kills = self
                .group
                .kills()
                .map_or(String::new(), |n| format!(", {n} for want of memory"));
            self.tally
                .broke(format!("{label:.300}: the server is gone{kills}"));
            return Ok(false);
        }
        let stage = Stage {
            address: server.address,
        };
        let questions = [
            (
                "/health",
                stage.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                200,
                "\"pass\"",
            ),
            (
                "/ping",
                stage.raw(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                204,
                "",
            ),
            (
                "a small query",
                stage.sql("SELECT max(n) - 41 AS n FROM big WHERE n IN (82, 83)"),
                200,
                "n\n42",
            ),
        ];
        for (what, seen, status, right) in questions {
            match seen {
                Ok(Seen::Answer(answer))
                    if answer.status == status && answer.text().contains(right) => {}
                other => {
                    let other = format!("{other:?}");
                    self.tally
                        .broke(format!("{label:.300}: {what} afterwards: {other:.300}"));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether another batch is taken, at once or when the store has made room.
    fn goes_on(
        &mut self,
        life: &Life,
        server: &Server,
        writer: usize,
        label: &str,
    ) -> Result<bool> {
        let begun = Instant::now();
        let mut client = server.client();
        let name = life.ledger().begin(writer)?;
        loop {
            match life.send(&mut client, name)? {
                life::Outcome::Done => return Ok(true),
                life::Outcome::Unavailable(_) if begun.elapsed() < RESUME_MAX => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                other => {
                    self.tally.broke(format!(
                        "{label:.300}: no batch is taken afterwards: {other:.300?}"
                    ));
                    return Ok(false);
                }
            }
        }
    }

    fn leave(&mut self, life: &Life, server: Server, label: &str) -> Result<()> {
        life.check(&server, When::Running, &mut self.tally, label)?;
        self.look_at_memory(&server);
        Life::look_at(&server.stop()?, &mut self.tally, label);
        Ok(())
    }

    /// What the process had of its own at most; files that the kernel keeps for it count in the group only.
    fn look_at_memory(&mut self, server: &Server) {
        let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        self.peak_kib = self.peak_kib.max(kib.unwrap_or(0));
    }

    fn notes(&mut self, known: usize) {
        let families: Vec<String> = self
            .run
            .iter()
            .map(|(family, n)| format!("{}:{n}", family.replace(' ', "_")))
            .collect();
        let group = self.group.peak_bytes().unwrap_or(0) >> 20;
        self.tally.notes = format!(
            " cases={known} restarts={} peak={}MiB group_peak={group}MiB of={}MiB slowest={:.1?}({}) families={}",
            self.restarts,
            self.peak_kib >> 10,
            MEMORY_BYTES >> 20,
            self.slowest.0,
            self.slowest.1,
            families.join(",")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_a_case_of_every_family_and_no_case_is_there_twice() {
        let all = || {
            let mut all = wire::cases(9);
            all.extend(bodies::cases());
            all.extend(lines::cases());
            all.extend(statements::cases(9));
            all.extend(edges::cases(9));
            all.extend(streams::cases(9));
            all.extend(pages::cases(9));
            all.extend(functions::cases(9));
            all.extend(floods::cases());
            all
        };
        let families: BTreeSet<&str> = all().iter().map(|case| case.family).collect();
        let names: BTreeSet<String> = all().iter().map(|case| format!("{case:?}")).collect();
        assert_eq!(names.len(), all().len());
        for seed in 0..20 {
            let short = choose(all(), 1, seed);
            let found: BTreeSet<&str> = short.iter().map(|case| case.family).collect();
            assert_eq!((&found, short.len()), (&families, families.len()));
            assert_eq!(choose(all(), 60, seed).len(), 60);
        }
        assert_eq!(choose(all(), 100_000, 1).len(), names.len());
    }
}
