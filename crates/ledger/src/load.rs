//! Clients of a server that a fault is about to meet: writers, a reader that trusts nothing, and a client that is wrong.
//!
//! Does: load a server from several threads until it is struck, and check meanwhile that nothing is shown in part and
//! that everything acknowledged is shown.
//! Does not: strike; the trial does, in the middle of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bad_input;
use crate::batch::{Table, read_csv};
use crate::http::is_silence;
use crate::journal::Name;
use crate::life::{Life, Outcome, WRITERS};
use crate::random::Random;
use crate::server::{DB, Server};
use crate::tally::Tally;

/// Longest load before a strike, whatever was acknowledged meanwhile.
const ROUND_MAX: Duration = Duration::from_secs(20);
/// One batch in so many is followed by a delete.
const ERASE_ONE_IN: u64 = 12;
/// One batch in so many is followed by a table that is made, and one by the drop of one.
const DEFINE_ONE_IN: u64 = 25;
/// Questions whose answers only have to come: they keep scans under way.
const QUESTIONS: [&str; 3] = [
    "SELECT time_bucket('1 hour', time) AS hour, writer, count(*), max(value) FROM points GROUP BY hour, writer ORDER BY hour, writer",
    "SELECT * FROM kept WHERE writer = 'w1' ORDER BY time DESC LIMIT 50",
    "SELECT host, first(batch, time), last(batch, time), avg(slot) FROM once GROUP BY host",
];

/// How long a load lasts.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Seed of this round.
    pub seed: u64,
    /// Acknowledged batches after which it is struck.
    pub batches: u64,
    /// Longest pause between the last of them and the strike, so that it does not always come right after one.
    pub pause_us: u64,
}

struct Shared<'a> {
    life: &'a Life,
    server: &'a Server,
    /// The strike was announced: from now on everything may fail.
    is_struck: AtomicBool,
    /// The strike is over: nothing more is to be sent.
    is_over: AtomicBool,
    round: Round,
}

/// Loads a server, strikes, and waits for the clients to notice. The strike calls what it is given just before it comes
/// down.
pub fn until_struck(
    life: &Life,
    server: &Server,
    round: Round,
    strike: impl FnOnce(&dyn Fn()) -> Result<()>,
) -> Result<Tally> {
    let begun = Instant::now();
    let shared = Shared {
        life,
        server,
        is_struck: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        round,
    };
    let before = life.ledger().acknowledged().1;
    let first = (0..WRITERS)
        .map(|writer| life.ledger().next(writer))
        .min()
        .unwrap_or(0);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let shared = &shared;
            threads.push(scope.spawn(move || write(shared, writer)));
        }
        threads.push(scope.spawn(|| read(&shared, first)));
        threads.push(scope.spawn(|| Ok(err(&shared))));
        while life.ledger().acknowledged().1 < before + round.batches
            && begun.elapsed() < ROUND_MAX
            && !threads.iter().any(thread::ScopedJoinHandle::is_finished)
        {
            thread::sleep(Duration::from_micros(200));
        }
        let pause = Random::of(&[round.seed, 1]).below(round.pause_us + 1);
        thread::sleep(Duration::from_micros(pause));
        let struck = strike(&|| shared.is_struck.store(true, Ordering::SeqCst));
        // A strike that failed is no reason to wait for its effect.
        shared.is_struck.store(true, Ordering::SeqCst);
        let load = begun.elapsed();
        shared.is_over.store(true, Ordering::SeqCst);
        let mut tally = Tally {
            load,
            ..Tally::default()
        };
        for thread in threads {
            tally.add(thread.join().expect("a client does not panic")?);
        }
        struck?;
        Ok(tally)
    })
}

impl Shared<'_> {
    fn is_struck(&self) -> bool {
        self.is_struck.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Writes one batch after the other until one is not answered.
fn write(shared: &Shared<'_>, writer: usize) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut random = Random::of(&[shared.round.seed, 2, writer as u64]);
    let mut tongue = Random::of(&[shared.round.seed, 0x1f, writer as u64]);
    let mut client = shared.server.client();
    while !shared.is_over() {
        let name = shared.life.ledger().begin(writer)?;
        let mut outcome = shared.life.send(&mut client, name)?;
        let mut what = "a batch";
        if matches!(outcome, Outcome::Done) && random.one_in(ERASE_ONE_IN) {
            outcome = shared.life.erase(&mut client, writer, &mut random)?;
            what = "a delete";
        }
        if matches!(outcome, Outcome::Done) {
            match tongue.below(DEFINE_ONE_IN) {
                0 => {
                    outcome = shared.life.make_table(&mut client)?;
                    what = "a table";
                }
                1 => {
                    outcome = shared.life.drop_table(&mut client, &mut tongue)?;
                    what = "a drop";
                }
                _ => {}
            }
        }
        match outcome {
            Outcome::Done => {}
            // Another statement was faster; nothing was done.
            Outcome::Refused(why) if what == "a delete" && why.starts_with("409") => {}
            Outcome::Silent(ref e) if shared.is_struck() && !is_silence(e) => break,
            Outcome::Unavailable(_) if shared.is_struck() => break,
            other => {
                tally.broke(other.complaint(what).unwrap_or_default());
                break;
            }
        }
    }
    Ok(tally)
}

/// Reads this round's batches until the connection breaks: none is there in part, none that was acknowledged before the
/// question is missing, and each that was shown must survive.
fn read(shared: &Shared<'_>, first: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut client = shared.server.client();
    let statement = format!(
        "SELECT writer, batch, count(*) AS n FROM {} WHERE batch >= {first} GROUP BY writer, batch",
        Table::Kept.name()
    );
    let mut turn = 0;
    while !shared.is_over() {
        turn += 1;
        if let Some(question) = QUESTIONS.get(turn % (2 * QUESTIONS.len())) {
            match client.sql(DB, question) {
                Ok(answer) if answer.status == 200 || shared.is_struck() => {}
                Ok(answer) => tally.broke(format!("{question}: {}", answer.text())),
                Err(_) if shared.is_struck() => break,
                Err(e) => tally.broke(format!("{question}: {e}")),
            }
            continue;
        }
        let due = shared.life.ledger().kept_from(first);
        let answer = match client.sql(DB, &statement) {
            Ok(answer) if answer.status == 200 => answer,
            _ if shared.is_struck() => break,
            Ok(answer) => {
                tally.broke(format!("a query was answered with {}", answer.text()));
                break;
            }
            Err(e) => {
                tally.broke(format!("a query: the connection broke: {e}"));
                break;
            }
        };
        let shown = shown(&answer.text());
        if !shared.life.counts() {
            break;
        }
        let mut ledger = shared.life.ledger();
        for &(name, rows) in &shown {
            let whole = Table::Kept.rows_of(ledger.content.rows(name.0, name.1));
            if rows != whole {
                tally.broke(format!("a query shows {rows} rows of {whole} of {name:?}"));
            }
            ledger.show(name)?;
        }
        for name in due {
            if !shown.iter().any(|(shown, _)| *shown == name) {
                tally.broke(format!(
                    "{name:?} was acknowledged before a query that does not show it"
                ));
            }
        }
    }
    Ok(tally)
}

fn shown(answer: &str) -> Vec<(Name, u64)> {
    let records = read_csv(answer);
    let rows = records
        .iter()
        .skip(1)
        .filter_map(|cells| match cells.as_slice() {
            [writer, batch, rows] => Some((
                (writer.strip_prefix('w')?.parse().ok()?, batch.parse().ok()?),
                rows.parse().ok()?,
            )),
            _ => None,
        });
    rows.collect()
}

/// Sends wrong requests until the connection breaks.
fn err(shared: &Shared<'_>) -> Tally {
    let mut tally = Tally::default();
    let mut client = shared.server.client();
    let mut number = Random::of(&[shared.round.seed, 3]).below(1 << 32);
    while !shared.is_over() {
        number += 1;
        match bad_input::send(&mut client, shared.round.seed, number) {
            Ok(None) => tally.bad_inputs += 1,
            Ok(Some(story)) => {
                tally.bad_inputs += 1;
                if !shared.is_struck() {
                    tally.broke(story);
                }
            }
            Err(_) if shared.is_struck() => break,
            Err(e) => {
                tally.broke(format!("bad input {number} was not answered: {e}"));
                break;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    tally
}
