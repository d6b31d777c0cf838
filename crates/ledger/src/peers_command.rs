//! `nilometer-ledger peers`: kills and power cuts of other databases, by hand.
//!
//! Does: read its part of the command line, run one peer, print a line and a row of a table.
//! Does not: fail because another database keeps less than it was told to, or than ours does; it counts.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use nilometer_ledger::peer;
use nilometer_ledger::server;
use nilometer_ledger::trial::Context;
use nilometer_ledger::trial::peers::{Fault, Trial, run};

use crate::number;

pub(crate) const USAGE: &str =
    "usage: nilometer-ledger peers [kills] [power] --peer NAME [--program FILE] [OPTION...]

Peers, and the program of each:
  nilometer        nilometer; without --program the one beside this program
  influxdb         influxd of InfluxDB 1
  victoriametrics  victoria-metrics, the single server
  postgresql       postgres, with initdb and psql beside it

Options:
  --flag F  one more argument for the server, to see what a setting changes; may be given again
  --load-seconds N  the longest load between two faults
  --young  the first power cut comes before anything has made the new, empty store durable
  --seed N, --minutes M, --faults N, --quick, --scratch DIR as for the kinds";

/// Of each kind, where nobody says how many or how long.
const FAULTS: u64 = 50;
const MINUTES: u64 = 8;
const QUICK_FAULTS: u64 = 6;
/// A load lasts so long at least and at most. Some databases write what they have acknowledged some seconds later.
const LOAD_MS: [u64; 2] = [200, 12_000];
const QUICK_LOAD_MS: [u64; 2] = [50, 400];

/// Whether everything that was asked for could be tried, and for our own server whether every promise held.
pub(crate) fn peers(words: &[String]) -> Result<bool> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let (mut faults, mut flags) = (Vec::new(), Vec::new());
    let (mut name, mut program) = (String::new(), PathBuf::new());
    let mut scratch = std::env::temp_dir();
    let mut seed = None;
    let (mut time, mut most) = (Duration::from_secs(60 * MINUTES), None);
    let (mut is_quick, mut is_young, mut load_ms) = (false, false, LOAD_MS);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "kills" => faults.push(Fault::Kill),
            "power" => faults.push(Fault::PowerCut),
            "--peer" => name.clone_from(value()?),
            "--program" => program = PathBuf::from(value()?),
            "--scratch" => scratch = PathBuf::from(value()?),
            "--seed" => seed = Some(number(value()?)?),
            "--minutes" => time = Duration::from_secs(60 * number(value()?)?),
            "--faults" => most = Some(number(value()?)?),
            "--flag" => flags.push(value()?.clone()),
            "--load-seconds" => load_ms = [LOAD_MS[0], 1000 * number(value()?)?],
            "--quick" => (is_quick, load_ms) = (true, QUICK_LOAD_MS),
            "--young" => is_young = true,
            other => bail!("there is no {other}"),
        }
    }
    let peer = peer::named(&name)?;
    if program.as_os_str().is_empty() && name == "nilometer" {
        program = server::program_beside()?;
    }
    server::is_program(&program)?;
    if faults.is_empty() {
        faults = vec![Fault::Kill, Fault::PowerCut];
    }
    let seed = match seed {
        Some(seed) => seed,
        None if is_quick => crate::QUICK_SEED,
        None => since.as_secs(),
    };
    println!("seed {seed}");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for fault in faults {
        let begun = Instant::now();
        let trial = Trial {
            context: Context {
                program: program.canonicalize()?,
                scratch: scratch.clone(),
                seed,
                until: begun + time,
                faults: most.unwrap_or(if is_quick { QUICK_FAULTS } else { FAULTS }),
            },
            peer,
            fault,
            flags: flags.clone(),
            load_ms,
            is_young,
        };
        let what = match fault {
            Fault::Kill => "SIGKILL",
            Fault::PowerCut => "power cut",
        };
        let count = match run(&trial).with_context(|| format!("{name}: {what}"))? {
            Ok(count) => count,
            Err(why) => {
                skipped += 1;
                println!("{name}: {what}: skipped: {why}");
                continue;
            }
        };
        let tally = &count.tally;
        println!(
            "{name}: {what}: {tally} ({:.0} s)",
            begun.elapsed().as_secs_f64()
        );
        for story in &tally.stories {
            println!("  ! {story}");
        }
        println!(
            "| {name} | {what} | {} | {} | {} | {} | {} | {} |",
            tally.faults,
            tally.acked,
            tally.missing,
            tally.duplicated,
            tally.altered,
            count.unopened
        );
        if name != "nilometer" || (tally.is_clean() && count.in_part == 0) {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    println!("test result: {passed} passed; {failed} failed; {skipped} skipped");
    Ok(failed == 0)
}
