//! Damaged files: a store in which one file was changed is refused, or says what it put aside, or answers as before.
//!
//! Does: make a store with every kind of file, keep its answers, change one file of a copy, and ask again; the same for
//! backups that are restored.
//! Does not: accept a wrong answer, a panic or a hang, ever, or an end of the log that is missing without a word: the mark
//! beside it says how far it went (docs/format/log.md), and one file is damaged at a time.

mod files;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

pub(super) use self::files::copy_folder;
use self::files::{apply, files_by_kind, notes};
use super::{Context, Outcome};
use crate::batch::{Content, Table};
use crate::influx;
use crate::ledger::When;
use crate::life::{Expect, Life, Outcome as Sent, WRITERS};
use crate::mutate::mutate;
use crate::random::Random;
use crate::read_back::{Found, statements};
use crate::server::{DB, Launch, Start};
use crate::tally::Tally;

const ROWS_MEAN: u64 = 12;
/// Scripted parts of the life whose store is damaged.
const PARTS: u64 = 8;
/// Batches that are in the log only.
const LOG_BATCHES: usize = 12;
/// A process that takes longer hangs.
const PROCESS_MAX: Duration = Duration::from_mins(1);
/// What stands between two answers of one run of the program.
const MARK: &str = "between_two_answers";
/// Mutations of one base; then another store is made, with other flags.
const BASE_MUTATIONS: u64 = 1000;
/// One mutation in so many is checked with `nilometer check` too.
const CHECK_ONE_IN: u64 = 8;
/// One damaged store in so many is served; the others are asked by `nilometer sql`, which starts sooner.
const SERVE_ONE_IN: u64 = 6;
/// One refused copy in so many is repaired, and asked again.
const REPAIR_ONE_IN: u64 = 3;
/// One mutation in so many is of a backup.
const BACKUP_ONE_IN: u64 = 10;

/// A store and what it answers.
struct Base {
    program: PathBuf,
    data: PathBuf,
    backup: PathBuf,
    content: Content,
    found: Found,
    /// Files by kind, relative to the data directory.
    files: BTreeMap<String, Vec<PathBuf>>,
    backup_files: BTreeMap<String, Vec<PathBuf>>,
    /// Taken by who runs a server: there is one at a time.
    server: Mutex<()>,
}

/// What became of one damaged copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It was refused, or a query was, with the file named.
    Refused,
    /// The file was put aside and the rest answered.
    PutAside,
    /// It answered as before.
    Same,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::PutAside => "put_aside",
            Self::Same => "same",
        }
    }
}

/// Damages files.
pub fn mutations(context: &Context) -> Result<Outcome> {
    let mut tally = Tally::default();
    let mut fates: BTreeMap<Fate, u64> = BTreeMap::new();
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let folder = memory_folder(context)?;
        let base = base(context, number, folder.path(), &mut tally)?;
        let left = (context.faults - tally.faults).min(BASE_MUTATIONS);
        let (part, part_fates) = of_base(context, &base, number, left, folder.path())?;
        tally.add(part);
        for (fate, n) in part_fates {
            *fates.entry(fate).or_default() += n;
        }
    }
    for (fate, n) in fates {
        write!(tally.notes, " {}={n}", fate.name()).expect("a string takes all");
    }
    Ok(Outcome::Ran(tally))
}

/// In memory where the machine has such a folder: nothing here is about what a sync does, and there are thousands.
fn memory_folder(context: &Context) -> Result<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    let in_memory = tempfile::Builder::new()
        .prefix("nilometer-ledger-")
        .tempdir_in(shared);
    match in_memory {
        Ok(folder) => Ok(folder),
        Err(_) => context.folder(),
    }
}

/// Makes a store with files of every kind, some of it in the log only, one file put aside, and a backup.
fn base(context: &Context, number: u64, folder: &Path, tally: &mut Tally) -> Result<Base> {
    let seed = Random::of(&[context.seed, 0xba5e, number]).draw();
    let mut random = Random::of(&[seed]);
    let mut flags: Vec<String> = Vec::new();
    let busy = [
        ("--flush-rows", 150),
        ("--flush-idle-ms", 5),
        ("--flush-idle-rows-min", 1),
        ("--compaction-fan-in", 3),
        ("--partition-rows-min", 60),
        ("--settle-ms", *random.pick(&[0, 5])),
        ("--log-bytes-max", *random.pick(&[64 << 10, 256 << 20])),
        ("--body-bytes-max", 1 << 20),
    ];
    for (flag, value) in busy {
        flags.extend([flag.to_owned(), value.to_string()]);
    }
    let data = folder.join("base");
    let mut life = Life::create(
        &context.program,
        folder,
        data.clone(),
        seed,
        ROWS_MEAN,
        flags,
    )?;
    let server = life.launch.start_up()?;
    life.prepare(&server)?;
    for _ in 0..PARTS {
        life.play(&server, Expect::Death, tally, &mut random)?;
    }
    Life::look_at(&server.stop()?, tally, "making the base");
    put_one_aside(&context.program, &data)?;
    // From here on nothing is flushed, so that the log is needed.
    life.launch.flags = vec!["--flush-idle-ms".to_owned(), "0".to_owned()];
    let server = life.launch.start_up()?;
    let backup = folder.join("backup");
    fill_log(&mut life, &server)?;
    life.check(&server, When::Settled, tally, "the base")?;
    Life::look_at(&server.kill()?, tally, "the base");
    // Backing up needs the store, and opening it settles the log; so the copy that is backed up is another.
    let copy = folder.join("to_back_up");
    copy_folder(&data, &copy)?;
    let backed_up = Command::new(&context.program)
        .arg("backup")
        .arg("--data")
        .arg(&copy)
        .arg("--to")
        .arg(&backup)
        .output()?;
    if !backed_up.status.success() {
        bail!("the backup: {}", String::from_utf8_lossy(&backed_up.stderr));
    }
    fs::remove_dir_all(&copy)?;
    life.finish(tally)?;
    let files = files_by_kind(&data)?;
    let mut base = Base {
        program: context.program.clone(),
        content: life.ledger().content,
        found: Found::default(),
        backup_files: files_by_kind(&backup)?,
        server: Mutex::new(()),
        files,
        data,
        backup,
    };
    let copy = folder.join("untouched");
    copy_folder(&base.data, &copy)?;
    match answers(&base, &copy)? {
        Answers::Found(found) => base.found = found,
        Answers::Refused(why) => bail!("the base does not answer: {why}"),
        Answers::Broken(why) => bail!("the base: {why}"),
    }
    if base.found.rows.is_empty() || !base.found.strange.is_empty() {
        bail!(
            "the base answers {} rows, and {:?}",
            base.found.rows.len(),
            base.found.strange
        );
    }
    Ok(base)
}

/// Damages a file of keys, which holds no row, and lets the store put it aside.
fn put_one_aside(program: &Path, data: &Path) -> Result<()> {
    let keys = files_by_kind(data)?
        .remove("key")
        .context("the base has no file of keys")?;
    // Older ones may be left from before the last flush, and mean nothing.
    let path = data.join(keys.last().context("a kind has a file")?);
    let mut bytes = fs::read(&path)?;
    if let Some(byte) = bytes.get_mut(20) {
        *byte ^= 1;
    }
    fs::write(&path, bytes)?;
    let mut repair = Command::new(program);
    repair.args(["check", "--repair", "--data"]).arg(data);
    let repaired = run_within(&mut repair, "")?;
    if !repaired.status.success() || notes(data) != 1 {
        bail!(
            "{} is not put aside: {}",
            path.display(),
            String::from_utf8_lossy(&repaired.stderr)
        );
    }
    Ok(())
}

fn fill_log(life: &mut Life, server: &crate::server::Server) -> Result<()> {
    let mut client = server.client();
    for n in 0..LOG_BATCHES {
        let name = life.ledger().begin(n % WRITERS)?;
        match life.send(&mut client, name)? {
            Sent::Done => {}
            other => bail!("a batch for the log: {other:?}"),
        }
    }
    Ok(())
}

/// Changes one file of a copy at a time, on as many threads as the machine has cores.
fn of_base(
    context: &Context,
    base: &Base,
    number: u64,
    count: u64,
    folder: &Path,
) -> Result<(Tally, BTreeMap<Fate, u64>)> {
    let next = AtomicU64::new(0);
    let sum = Mutex::new((Tally::default(), BTreeMap::new()));
    let workers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(4);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for worker in 0..workers {
            let (next, sum) = (&next, &sum);
            let place = folder.join(format!("copy{worker}"));
            threads.push(scope.spawn(move || -> Result<()> {
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n >= count || Instant::now() >= context.until {
                        return Ok(());
                    }
                    let mut random = Random::of(&[context.seed, number, n]);
                    let (part, fate) = one(base, &mut random, &place, n).with_context(|| {
                        format!("seed {} base {number} mutation {n}", context.seed)
                    })?;
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.0.add(part);
                    if let Some(fate) = fate {
                        *sum.1.entry(fate).or_default() += 1;
                    }
                }
            }));
        }
        for thread in threads {
            thread.join().expect("a worker does not panic")?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One mutation: what it did, and what became of it.
fn one(base: &Base, random: &mut Random, place: &Path, n: u64) -> Result<(Tally, Option<Fate>)> {
    let is_backup = random.one_in(BACKUP_ONE_IN);
    let (root, kinds) = if is_backup {
        (&base.backup, &base.backup_files)
    } else {
        (&base.data, &base.files)
    };
    let names: Vec<&String> = kinds.keys().collect();
    let (file, mutation) = loop {
        // Kinds in turn, so that the few small files get as many as the many large ones.
        let kind = *random.pick(&names);
        let files = kinds.get(kind).map_or(&[][..], Vec::as_slice);
        let file = random.pick(files);
        let sibling = random.pick(files);
        let sibling = fs::read(root.join(sibling))
            .ok()
            .filter(|_| sibling != file);
        let bytes = fs::read(root.join(file))?;
        if let Some(mutation) = mutate(random, &bytes, sibling.as_deref()) {
            break (file, mutation);
        }
    };
    let mut tally = Tally {
        faults: 1,
        ..Tally::default()
    };
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    copy_folder(root, place)?;
    apply(&place.join(file), &mutation)?;
    let label = format!(
        "mutation {n}{}: {}: {}",
        if is_backup { " of a backup" } else { "" },
        file.display(),
        mutation.what
    );
    if !is_backup && random.one_in(CHECK_ONE_IN) {
        check(base, place, &label, &mut tally)?;
    }
    let data = if is_backup {
        match restore(base, place, &label, &mut tally)? {
            Some(restored) => restored,
            None => return Ok((tally, Some(Fate::Refused))),
        }
    } else {
        place.to_owned()
    };
    let notes_before = notes(&base.data);
    let answered = if !is_backup && random.one_in(SERVE_ONE_IN) {
        serve(base, &data, place, &label, &mut tally)?
    } else {
        answers(base, &data)?
    };
    let fate = match answered {
        Answers::Broken(why) => {
            tally.broke(format!("{label}: {why}"));
            None
        }
        Answers::Refused(why) => {
            // Without its manifest a folder is no store, and the folder is what can be named.
            let is_removed = mutation.bytes.is_none() && why.contains(&*data.to_string_lossy());
            if !names_a_file(&why) && !is_removed {
                tally.broke(format!("{label}: refused without a file's name: {why}"));
            }
            if random.one_in(REPAIR_ONE_IN) {
                repair(base, &data, &label, &mut tally)?;
            }
            Some(Fate::Refused)
        }
        Answers::Found(found) => {
            let is_put_aside = notes(&data) > notes_before;
            judge(base, &found, is_put_aside, &label, &mut tally)
        }
    };
    Ok((tally, fate))
}

fn judge(
    base: &Base,
    found: &Found,
    is_put_aside: bool,
    label: &str,
    tally: &mut Tally,
) -> Option<Fate> {
    tally.checks += 1;
    if *found == base.found {
        return Some(if is_put_aside {
            Fate::PutAside
        } else {
            Fate::Same
        });
    }
    let added = added(base, found);
    if !added.is_empty() || found.totals != found.totals_of_rows() {
        tally.altered += added.len().max(1) as u64;
        tally.broke(format!(
            "{label}: a wrong answer: {} rows that were not there, such as {:.300}; totals {:?}",
            added.len(),
            added.first().cloned().unwrap_or_default(),
            found.totals
        ));
        return None;
    }
    if is_put_aside {
        return Some(Fate::PutAside);
    }
    let lost: u64 = base
        .found
        .rows
        .iter()
        .map(|(row, times)| times - found.rows.get(row).copied().unwrap_or(0))
        .sum();
    tally.missing += lost;
    tally.broke(format!(
        "{label}: {lost} points are missing and nobody said so (latest {:?} and not {:?}, {} tables and not {})",
        found.latest,
        base.found.latest,
        found.tables.len(),
        base.found.tables.len()
    ));
    None
}

enum Answers {
    Found(Found),
    Refused(String),
    Broken(String),
}

/// Asks everything of a directory.
fn answers(base: &Base, data: &Path) -> Result<Answers> {
    let script: Vec<String> = statements()
        .into_iter()
        .map(|statement| format!("{statement};\nSELECT 1 AS {MARK};\n"))
        .collect();
    let output = run_sql(&base.program, data, &script.concat())?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some(story) = crash(&output, &stderr) {
        return Ok(Answers::Broken(story));
    }
    if !output.status.success() {
        return Ok(Answers::Refused(stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let marks = format!("{MARK}\n1\n");
    let parts: Vec<String> = text.split(&marks).map(str::to_owned).collect();
    match Found::of_answers(base.content, &parts) {
        Ok(found) => Ok(Answers::Found(found)),
        Err(e) => Ok(Answers::Broken(format!("an answer of another form: {e:#}"))),
    }
}

fn crash(output: &Output, stderr: &str) -> Option<String> {
    let is_over = matches!(output.status.code(), Some(0 | 1));
    if is_over && !stderr.contains("panicked at") {
        return None;
    }
    Some(format!("{}: {stderr:.500}", output.status))
}

fn run_sql(program: &Path, data: &Path, script: &str) -> Result<Output> {
    let mut command = Command::new(program);
    command
        .args(["sql", "--format", "csv", "-d", DB, "--data"])
        .arg(data);
    run_within(&mut command, script)
}

/// Runs a program to its end, or kills it when it takes too long.
fn run_within(command: &mut Command, stdin: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdin.take().context("standard input was piped")?;
    let pid = rustix::process::Pid::from_child(&child);
    thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::sync_channel::<()>(1);
        scope.spawn(move || {
            // The process is waited for below only after this thread was told, so its number is still its own.
            if is_done.recv_timeout(PROCESS_MAX).is_err() {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        // A program that refuses its store does not read its input.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        let output = child.wait_with_output();
        let _ = done.send(());
        Ok(output?)
    })
}

/// `nilometer check` says something and does not break.
fn check(base: &Base, data: &Path, label: &str, tally: &mut Tally) -> Result<()> {
    let output = run_within(
        Command::new(&base.program)
            .arg("check")
            .arg("--data")
            .arg(data),
        "",
    )?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some(story) = crash(&output, &stderr) {
        tally.broke(format!("{label}: nilometer check: {story}"));
    }
    Ok(())
}

/// Restores a damaged backup; `None` if it was refused by name.
fn restore(base: &Base, backup: &Path, label: &str, tally: &mut Tally) -> Result<Option<PathBuf>> {
    let to = backup.with_extension("restored");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    let mut command = Command::new(&base.program);
    command
        .arg("restore")
        .arg("--from")
        .arg(backup)
        .arg("--data")
        .arg(&to);
    let output = run_within(&mut command, "")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some(story) = crash(&output, &stderr) {
        tally.broke(format!("{label}: nilometer restore: {story}"));
    }
    if output.status.success() {
        return Ok(Some(to));
    }
    if !names_a_file(&stderr) {
        tally.broke(format!(
            "{label}: not restored, without a file's name: {stderr}"
        ));
    }
    Ok(None)
}

/// Asks a server, which puts damaged files aside by itself, instead of the program that refuses them.
fn serve(
    base: &Base,
    data: &Path,
    place: &Path,
    label: &str,
    tally: &mut Tally,
) -> Result<Answers> {
    let _one_at_a_time = base.server.lock().unwrap_or_else(PoisonError::into_inner);
    let output = place.with_extension("output");
    fs::create_dir_all(&output)?;
    let launch = Launch {
        program: base.program.clone(),
        data: data.to_owned(),
        output,
        flags: Vec::new(),
        strace: None,
    };
    let server = match launch.start()? {
        Start::Up(server) => server,
        Start::Ended(ended) => {
            Life::look_at(&ended, tally, label);
            let is_error = ended.status.code() == Some(1);
            return Ok(if is_error {
                Answers::Refused(ended.stderr)
            } else {
                Answers::Broken(format!("{}: {}", ended.status, ended.stderr))
            });
        }
    };
    let mut client = server.client();
    let mut refused = None;
    let mut found = Found::read(base.content, |statement| {
        let answer = client.sql(DB, statement)?;
        if answer.status != 200 {
            refused = Some(answer.text());
            bail!("refused");
        }
        Ok(answer.text())
    });
    if let Ok(shown) = &mut found {
        // Clients of InfluxDB are shown the same, of a table in turn.
        let turn = label.len() % Table::ALL.len();
        let table = Table::ALL.get(turn).copied().unwrap_or(Table::Points);
        let same = influx::compare(base.content, table, shown, |statement| {
            let answer = client.influxql(DB, statement)?;
            refused = influx::error_of(&answer);
            if refused.is_some() {
                bail!("refused");
            }
            Ok(answer)
        });
        if let Err(e) = same {
            found = Err(e);
        }
    }
    Life::look_at(&server.kill()?, tally, label);
    Ok(match (found, refused) {
        (Ok(found), _) => Answers::Found(found),
        (Err(_), Some(why)) => Answers::Refused(why),
        (Err(e), None) => Answers::Broken(format!("{e:#}")),
    })
}

/// What is put aside on demand leaves the rest, and nothing else.
fn repair(base: &Base, data: &Path, label: &str, tally: &mut Tally) -> Result<()> {
    let mut command = Command::new(&base.program);
    command.args(["check", "--repair", "--data"]).arg(data);
    let output = run_within(&mut command, "")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some(story) = crash(&output, &stderr) {
        tally.broke(format!("{label}: nilometer check --repair: {story}"));
    }
    let label = format!("{label}: after check --repair");
    match answers(base, data)? {
        Answers::Broken(why) => tally.broke(format!("{label}: {why}")),
        Answers::Refused(why) if output.status.success() => {
            tally.broke(format!("{label} said that all is in order: {why}"));
        }
        Answers::Refused(_) => {}
        Answers::Found(found) => {
            tally.checks += 1;
            let added = added(base, &found);
            if !added.is_empty() || found.totals != found.totals_of_rows() {
                tally.altered += added.len().max(1) as u64;
                tally.broke(format!("{label}: a wrong answer: {added:.300?}"));
            }
        }
    }
    Ok(())
}

/// Rows of an answer that were not there before the damage.
fn added(base: &Base, found: &Found) -> Vec<String> {
    let before = &base.found.rows;
    let rows = found.rows.iter();
    let added = rows.filter(|(row, times)| before.get(row).is_none_or(|before| before < times));
    added
        .map(|(row, _)| format!("{row:?}"))
        .chain(found.strange.iter().cloned())
        .collect()
}

fn names_a_file(text: &str) -> bool {
    ["segments", "log", "manifest", "quarantine", "backup"]
        .iter()
        .any(|name| text.contains(name))
}
