//! Faults at the n-th system call: a kill just before it, or an error in its place.
//!
//! Does: count the calls that a scripted part of a life makes, thread by thread, and then let each of them be the one,
//! through strace, on the unmodified program.
//! Does not: reach calls that the script does not cause; the load of `kills.rs` is wilder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Context, Outcome, busy_flags};
use crate::disk::run;
use crate::ledger::When;
use crate::life::{Expect, Life};
use crate::random::Random;
use crate::server::Start;
use crate::tally::Tally;

/// Faults in one life.
const LIFE_FAULTS: usize = 25;
const ROWS_MEAN: u64 = 15;
/// Calls that change what is on the disk: between two of them a kill finds the same state.
const KILLED_AT: [&str; 6] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "unlink",
    "mkdir",
];
/// Calls that a disk may fail.
const FAILED_AT: [&str; 8] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "unlink",
    "openat",
    "pread64",
    "ftruncate",
];
/// Opening the program's own libraries comes first and is not the store's.
const OPENED_BY_THE_LOADER: u64 = 12;

/// The n-th call of a kind, counted in each thread.
#[derive(Debug, Clone, Copy)]
struct Point {
    call: &'static str,
    n: u64,
}

/// Kills the server at system calls.
pub fn kills(context: &Context) -> Result<Outcome> {
    trial(context, &KILLED_AT, killed_at)
}

/// Lets system calls fail, once or from then on.
pub fn errors(context: &Context) -> Result<Outcome> {
    trial(context, &FAILED_AT, failed_at)
}

fn trial(
    context: &Context,
    calls: &[&'static str],
    fault: fn(&mut Life, Point, &mut Tally, &str, &mut Random) -> Result<bool>,
) -> Result<Outcome> {
    if let Err(why) =
        run(Command::new("strace").args(["-f", "--seccomp-bpf", "-o", "/dev/null", "true"]))
    {
        return Ok(Outcome::Skipped(format!(
            "strace does not work here: {why}"
        )));
    }
    let mut tally = Tally::default();
    let mut by_call: BTreeMap<&str, u64> = BTreeMap::new();
    let mut unmet = 0;
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let folder = context.folder()?;
        let seed = Random::of(&[context.seed, 0x5ca1, number]).draw();
        let mut random = Random::of(&[seed]);
        let flags = busy_flags(&mut random);
        let data = folder.path().join("data");
        let mut life = Life::create(
            &context.program,
            folder.path(),
            data,
            seed,
            ROWS_MEAN,
            flags,
        )?;
        if number == 0 && calls == KILLED_AT {
            tally.faults += kill_while_made(context, &life, &mut tally)?;
        }
        let server = life.launch.start_up()?;
        life.prepare(&server)?;
        Life::look_at(&server.kill()?, &mut tally, "the first server");
        let mut points = profile(&mut life, calls, &mut tally, &mut random)?;
        random.shuffle(&mut points);
        take_turns(&mut points);
        for point in points.into_iter().take(LIFE_FAULTS) {
            if !context.goes_on(tally.faults) {
                break;
            }
            let label = format!(
                "seed {} life {number} at {} number {}",
                context.seed, point.call, point.n
            );
            if fault(&mut life, point, &mut tally, &label, &mut random)? {
                tally.faults += 1;
                *by_call.entry(point.call).or_default() += 1;
            } else {
                unmet += 1;
            }
        }
        let label = format!("seed {} life {number} at its end", context.seed);
        match life.launch.start_up() {
            Ok(server) => {
                life.check(&server, When::Settled, &mut tally, &label)?;
                Life::look_at(&server.stop()?, &mut tally, &label);
            }
            Err(e) => tally.broke(format!("{label}: {e:#}")),
        }
        life.finish(&mut tally)?;
    }
    let by_call: Vec<String> = by_call
        .iter()
        .map(|(call, n)| format!("{call}:{n}"))
        .collect();
    tally.notes = format!(" at={} unmet={unmet}", by_call.join(","));
    Ok(Outcome::Ran(tally))
}

/// Kills a server at each call that makes a new store: what is left must open, or be made anew.
fn kill_while_made(context: &Context, life: &Life, tally: &mut Tally) -> Result<u64> {
    let trace = life.launch.output.join("trace");
    let mut kills = 0;
    for call in KILLED_AT {
        for n in 1.. {
            if life.launch.data.exists() {
                fs::remove_dir_all(&life.launch.data)?;
            }
            let inject = format!("{call}:signal=SIGKILL:when={n}");
            let launch = life
                .launch
                .under_strace(&strace(&trace, &[call], Some(inject)));
            // A server that comes up makes no more calls of this kind.
            if let Start::Up(server) = launch.start()? {
                server.kill()?;
                break;
            }
            kills += 1;
            match life.launch.start_up() {
                Ok(server) => Life::look_at(&server.kill()?, tally, call),
                Err(e) => tally.broke(format!(
                    "seed {} at {call} number {n} of a new store: {e:#}",
                    context.seed
                )),
            }
        }
    }
    Ok(kills)
}

/// Orders points so that each kind of call has its turn, however many there are of another.
fn take_turns(points: &mut [Point]) {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    points.sort_by_cached_key(|point| {
        let turn = seen.entry(point.call).or_default();
        *turn += 1;
        *turn
    });
}

/// Plays a part under strace without a fault, and lists the calls that it makes.
fn profile(
    life: &mut Life,
    calls: &[&'static str],
    tally: &mut Tally,
    random: &mut Random,
) -> Result<Vec<Point>> {
    let trace = life.launch.output.join("trace");
    let arguments = strace(&trace, calls, None);
    let launch = life.launch.under_strace(&arguments);
    let server = launch.start_up().context("under strace")?;
    life.check(&server, When::Settled, tally, "under strace")?;
    life.play(&server, Expect::Death, tally, random)?;
    Life::look_at(&server.stop()?, tally, "under strace");
    let text = fs::read_to_string(&trace).with_context(|| trace.display().to_string())?;
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(thread), Some(call)) = (words.next(), words.next()) else {
            continue;
        };
        if let Some((name, _)) = call.split_once('(') {
            *counts.entry((name, thread)).or_default() += 1;
        }
    }
    let mut points = Vec::new();
    for &call in calls {
        let of_threads = counts.iter().filter(|((name, _), _)| *name == call);
        let most = of_threads.map(|(_, n)| *n).max().unwrap_or(0);
        let first = if call == "openat" {
            OPENED_BY_THE_LOADER
        } else {
            1
        };
        points.extend((first..=most).map(|n| Point { call, n }));
    }
    Ok(points)
}

fn strace(trace: &Path, calls: &[&str], inject: Option<String>) -> Vec<String> {
    let mut arguments = vec![
        "-o".to_owned(),
        trace.display().to_string(),
        "-e".to_owned(),
        format!("trace={}", calls.join(",")),
    ];
    // The filter that spares the other calls a stop takes signals away from most threads.
    if !inject
        .as_ref()
        .is_some_and(|inject| inject.contains("signal="))
    {
        arguments.push("--seccomp-bpf".to_owned());
    }
    if let Some(inject) = inject {
        arguments.extend(["-e".to_owned(), format!("inject={inject}")]);
    }
    arguments
}

/// Whether the kill came about.
fn killed_at(
    life: &mut Life,
    point: Point,
    tally: &mut Tally,
    label: &str,
    random: &mut Random,
) -> Result<bool> {
    let trace = life.launch.output.join("trace");
    let inject = format!("{}:signal=SIGKILL:when={}", point.call, point.n);
    let launch = life
        .launch
        .under_strace(&strace(&trace, &[point.call], Some(inject)));
    let server = match launch.start()? {
        Start::Up(server) => server,
        Start::Ended(ended) => {
            Life::look_at(&ended, tally, label);
            if ended.status.signal().is_none() {
                tally.broke(format!("{label}: {}: {:.500}", ended.status, ended.stderr));
            }
            // What the store says of the state that this kill left is seen at the next start, without a fault.
            let server = match life.launch.start_up() {
                Ok(server) => server,
                Err(e) => {
                    tally.broke(format!("{label}: {e:#}"));
                    return Ok(true);
                }
            };
            life.check(&server, When::Settled, tally, label)?;
            life.send_again(&mut server.client(), tally, random)?;
            Life::look_at(&server.kill()?, tally, label);
            return Ok(true);
        }
    };
    if life.check_expecting(&server, When::Settled, Expect::Death, tally, label)? {
        life.send_again(&mut server.client(), tally, random)?;
        life.play(&server, Expect::Death, tally, random)?;
    }
    // A stop makes calls, too.
    let ended = server.stop()?;
    Life::look_at(&ended, tally, label);
    Ok(ended.status.signal().is_some())
}

/// Whether the error came about.
fn failed_at(
    life: &mut Life,
    point: Point,
    tally: &mut Tally,
    label: &str,
    random: &mut Random,
) -> Result<bool> {
    let trace = life.launch.output.join("trace");
    let error = *random.pick(&["EIO", "ENOSPC"]);
    // A disk fails once, or from then on.
    let lasts = if random.one_in(2) { "" } else { "+" };
    let (error, expect) = match point.call {
        "pread64" => ("EIO", Expect::ReadErrors),
        "openat" => (error, Expect::ReadErrors),
        _ => (error, Expect::DiskErrors),
    };
    let label = format!("{label}{lasts} {error}");
    let inject = format!("{}:error={error}:when={}{lasts}", point.call, point.n);
    let launch = life
        .launch
        .under_strace(&strace(&trace, &[point.call], Some(inject)));
    match launch.start()? {
        // The call was one of those that load the program.
        Start::Ended(ended) if ended.stderr.contains("loading shared libraries") => {
            return Ok(false);
        }
        // A store that cannot be opened is not opened; that it is whole is seen at the next start.
        Start::Ended(ended) => {
            Life::look_at(&ended, tally, &label);
            if ended.status.code() != Some(1) || !ended.stderr.contains("rror") {
                tally.broke(format!(
                    "{label}: the start failed with {} and no reason: {:.300}",
                    ended.status, ended.stderr
                ));
            }
        }
        Start::Up(mut server) => {
            life.check_expecting(&server, When::Settled, expect, tally, &label)?;
            life.play(&server, expect, tally, random)?;
            life.check_expecting(&server, When::Running, expect, tally, &label)?;
            if server.has_ended()? {
                tally.broke(format!("{label}: the server ended by itself"));
            }
            let ended = if random.one_in(2) {
                server.kill()?
            } else {
                server.stop()?
            };
            Life::look_at(&ended, tally, &label);
        }
    }
    let said = fs::read_to_string(&trace).unwrap_or_default();
    Ok(said.contains("(INJECTED)"))
}
