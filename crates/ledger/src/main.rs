//! `nilometer-ledger`: the trials by hand, from `make ledger`, and a short form of them from `make test`.
//!
//! Does: read the command line, run the kinds of trial one after the other, print a line for each and one for all.
//! Does not: pass silently over what cannot be done on this machine; that has a line, too.
#![expect(
    clippy::print_stdout,
    reason = "a program for people at a terminal; the library prints nothing"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use nilometer_ledger::server;
use nilometer_ledger::tally::Tally;
use nilometer_ledger::trial::{
    Context, Outcome, answers, full_disk, hostile, kills, mutations, syscalls,
};

mod peers_command;

const USAGE: &str = "usage: nilometer-ledger [KIND...] [OPTION...]
       nilometer-ledger peers ... (other databases under the same faults)

Kinds, all of them without a name:
  answers    a long mixed life, settings changed on the way, every answer compared with a model
  kills      SIGKILL of a server under load
  power      power cuts of its disk under load (needs root and a loop device)
  syscalls   SIGKILL at the n-th system call (needs strace)
  errors     EIO and ENOSPC at the n-th system call (needs strace)
  full-disk  a disk that fills and is freed (needs root and a loop device)
  mutations  files of a store or a backup damaged
  hostile    requests that want the server dead, in 512 MiB (needs root and control groups)

Options:
  --seed N        what everything random follows from; without it another one each time, and always the same with --quick
  --minutes M     begin no new fault of a kind after so long
  --faults N      faults of each kind, instead of as many as the release page states
  --quick         a short run of each kind, for tests
  --program FILE  the program under trial; without it, the nilometer beside this program
  --scratch DIR   where data directories are made; without it, the folder for temporary files
  --table         end with the figures as a table in Markdown
  --keep DIR      write what was found, with the command that repeats it, into a file there for each kind";

/// A kind of trial.
struct TrialKind {
    name: &'static str,
    what: &'static str,
    run: fn(&Context) -> Result<Outcome>,
    /// Faults for the release page, and in a quick run.
    faults: u64,
    quick: u64,
}

const KINDS: [TrialKind; 8] = [
    TrialKind {
        name: "answers",
        what: "ends of a process in a long mixed life",
        run: answers::answers,
        faults: 400,
        quick: 25,
    },
    TrialKind {
        name: "kills",
        what: "SIGKILL under load",
        run: kills::kills,
        faults: 100,
        quick: 20,
    },
    TrialKind {
        name: "power",
        what: "power cuts under load",
        run: kills::power_cuts,
        faults: 150,
        quick: 15,
    },
    TrialKind {
        name: "syscalls",
        what: "kills at the n-th system call",
        run: syscalls::kills,
        faults: 600,
        quick: 40,
    },
    TrialKind {
        name: "errors",
        what: "EIO and ENOSPC at the n-th system call",
        run: syscalls::errors,
        faults: 200,
        quick: 30,
    },
    TrialKind {
        name: "full-disk",
        what: "disks filled and freed",
        run: full_disk::fills,
        faults: 10,
        quick: 3,
    },
    TrialKind {
        name: "mutations",
        what: "files damaged",
        run: mutations::mutations,
        faults: 5000,
        quick: 400,
    },
    TrialKind {
        name: "hostile",
        what: "hostile requests",
        run: hostile::hostile,
        faults: 10_000,
        quick: 1,
    },
];
/// A kind has so long where nobody says how long.
const MINUTES: u64 = 20;
const QUICK_SECONDS: u64 = 40;
/// Under it the two losses of rows of 2026-11-22 were met at once; see docs/guide/reliability.md.
pub(crate) const QUICK_SEED: u64 = 4;

struct Arguments {
    kinds: Vec<String>,
    seed: u64,
    time: Option<Duration>,
    faults: Option<u64>,
    is_quick: bool,
    program: PathBuf,
    scratch: PathBuf,
    is_table: bool,
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("peers", rest)) = words
        .split_first()
        .map(|(word, rest)| (word.as_str(), rest))
    {
        return match peers_command::peers(rest) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(e) => {
                println!("{e:#}\n{}", peers_command::USAGE);
                ExitCode::from(2)
            }
        };
    }
    let arguments = match read(&words) {
        Ok(arguments) => arguments,
        Err(e) => {
            println!("{e:#}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if all(&arguments) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn read(words: &[String]) -> Result<Arguments> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut arguments = Arguments {
        kinds: Vec::new(),
        seed: 0,
        time: None,
        faults: None,
        is_quick: false,
        program: PathBuf::new(),
        scratch: std::env::temp_dir(),
        is_table: false,
        keep: None,
    };
    let mut seed = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--seed" => seed = Some(number(value()?)?),
            "--keep" => arguments.keep = Some(PathBuf::from(value()?)),
            "--minutes" => arguments.time = Some(Duration::from_secs(60 * number(value()?)?)),
            "--faults" => arguments.faults = Some(number(value()?)?),
            "--program" => arguments.program = PathBuf::from(value()?),
            "--scratch" => arguments.scratch = PathBuf::from(value()?),
            "--quick" => arguments.is_quick = true,
            "--table" => arguments.is_table = true,
            "all" => {}
            kind if KINDS.iter().any(|known| known.name == kind) => {
                arguments.kinds.push(kind.to_owned());
            }
            other => bail!("there is no {other}"),
        }
    }
    arguments.seed = match seed {
        Some(seed) => seed,
        // Tests are the same on every run.
        None if arguments.is_quick => QUICK_SEED,
        None => since.map_or(0, |since| since.as_secs()),
    };
    if arguments.program.as_os_str().is_empty() {
        arguments.program = server::program_beside()?;
    }
    server::is_program(&arguments.program)?;
    // The server is started from other folders.
    arguments.program = arguments.program.canonicalize()?;
    Ok(arguments)
}

fn number(word: &str) -> Result<u64> {
    word.parse()
        .with_context(|| format!("{word} is no whole number"))
}

/// Whether every promise held.
fn all(arguments: &Arguments) -> bool {
    println!("seed {}", arguments.seed);
    let mut total = Tally::default();
    let mut table = vec![
        "| faults | | acknowledged points | read back | missing | duplicated | altered |"
            .to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for kind in &KINDS {
        if !arguments.kinds.is_empty() && !arguments.kinds.iter().any(|name| name == kind.name) {
            continue;
        }
        let begun = Instant::now();
        let (time, faults) = if arguments.is_quick {
            (Duration::from_secs(QUICK_SECONDS), kind.quick)
        } else {
            (Duration::from_secs(60 * MINUTES), kind.faults)
        };
        let context = Context {
            program: arguments.program.clone(),
            scratch: arguments.scratch.clone(),
            seed: arguments.seed,
            until: begun + arguments.time.unwrap_or(time),
            faults: arguments.faults.unwrap_or(faults),
        };
        let outcome = (kind.run)(&context).with_context(|| kind.name.to_owned());
        match outcome {
            Ok(Outcome::Skipped(why)) => {
                skipped += 1;
                println!("{}: skipped: {why}", kind.name);
                table.push(format!("| {} | skipped: {why} | | | | | |", kind.what));
            }
            Ok(Outcome::Ran(tally)) => {
                println!(
                    "{}: {tally} ({:.0} s)",
                    kind.name,
                    begun.elapsed().as_secs_f64()
                );
                for story in &tally.stories {
                    println!("  ! {story}");
                }
                keep(arguments, kind.name, &tally.stories);
                table.push(row(kind.what, &tally));
                if tally.is_clean() {
                    passed += 1;
                } else {
                    failed += 1;
                }
                total.add(tally);
            }
            Err(e) => {
                failed += 1;
                total.broken += 1;
                println!("{}: error: {e:#}", kind.name);
                keep(arguments, kind.name, &[format!("{e:#}")]);
            }
        }
    }
    println!("ledger: {total}");
    if arguments.is_table {
        table.push(row("all", &total));
        println!("\n{}\n", table.join("\n"));
    }
    println!("test result: {passed} passed; {failed} failed; {skipped} skipped");
    failed == 0
}

/// Keeps what a kind has found, so that it can be repeated when the screen is gone.
fn keep(arguments: &Arguments, kind: &str, stories: &[String]) {
    let (Some(folder), false) = (&arguments.keep, stories.is_empty()) else {
        return;
    };
    let seed = arguments.seed;
    let path = folder.join(format!("{kind}-{seed}.txt"));
    let text = format!(
        "nilometer-ledger {kind} --seed {seed}\n\n{}\n",
        stories.join("\n")
    );
    match std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)) {
        Ok(()) => println!("  kept in {}", path.display()),
        Err(e) => println!("  {}: {e}", path.display()),
    }
}

fn row(what: &str, tally: &Tally) -> String {
    let Tally {
        faults,
        acked,
        checks,
        missing,
        duplicated,
        altered,
        ..
    } = tally;
    format!(
        "| {what} | {faults} | {acked} | {checks} times | {missing} | {duplicated} | {altered} |"
    )
}
