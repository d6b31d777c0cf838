//! A byte that changes while nobody looks.
//!
//! Does: build a store by a plan without faults, stop it, flip bits of one byte in one file, and see whether the store
//! notices or answers as before. Does not: damage two places at once, or repair.
//!
//! One loss is allowed, because no checksum can tell it from a write that a crash tore: the newest batch, when the
//! byte is in the log. Everything older is either right or refused, and the refusal names the file. A store that may put
//! damaged files aside then either refuses as well, or opens, lists that file, and shows no row that was not there.

use std::path::{Path, PathBuf};

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::{OnDamage, Options};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::model::{self, Model, Moment, Op};
use crate::plan::{Act, PlaceChange, Plan, Restart, spell};
use crate::world::{DIR, World, delete_request, read_all};

/// What the store made of the damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Opening was refused, and the error named the file.
    pub refused: u64,
    /// Of these, those in which the file could be put aside and the rest was served.
    pub put_aside: u64,
    /// Opening went well, reading was refused, and the error named the file.
    pub refused_at_read: u64,
    /// Every row was as before.
    pub same: u64,
    /// The byte was in the log and the newest batch is gone.
    pub tail_cut: u64,
}

/// A stopped store and what it holds.
struct Stopped {
    disk: FaultyDisk,
    model: Model,
    without_last: Moment,
}

/// Builds the plan's store once and flips one byte of a copy of it, `flips` times.
pub fn flip_bytes(plan: &Plan, flips: u32) -> Result<Outcomes, String> {
    let stopped = build(plan)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed ^ 0xF11B);
    let mut outcomes = Outcomes::default();
    for _ in 0..flips {
        let copy = stopped.disk.after_kill(CrashPlan::default());
        let files = files(&copy);
        let Some(path) = files.get(random.random_range(0..files.len().max(1))) else {
            return Err("the store has no files".to_owned());
        };
        let Some(at) = flip(&copy, path, &mut random)? else {
            continue;
        };
        judge(plan, &stopped, copy, path, &mut outcomes)
            .map_err(|what| format!("byte {at} of {}: {what}", path.display()))?;
    }
    Ok(outcomes)
}

fn build(plan: &Plan) -> Result<Stopped, String> {
    let mut world = World::new(plan.seed, plan.limits.options());
    let mut model = Model::default();
    let mut without_last = Moment::default();
    for step in &plan.steps {
        let text = |error: nilometer_engine::Error| error.to_string();
        if let Act::Restart(how) = step.act {
            world.restart(how, CrashPlan::default()).map_err(text)?;
            continue;
        }
        match (&step.act, world.engine().cloned()) {
            (Act::Place(change @ PlaceChange::Create(name)), Some(engine))
                if !name.contains('/') =>
            {
                if engine.create_database(name).map_err(text)? {
                    without_last = model.moment();
                }
                model.acknowledge(&Op::Place(change.clone()));
            }
            (
                Act::Write {
                    database, lines, ..
                },
                _,
            ) if model.state().places().contains(database) => {
                let types = world.types(database);
                let prediction = model::predict(database, lines, types, world.now_ns());
                let rows = prediction.batch.rows();
                if rows > 0 && rows <= plan.limits.batch_rows_max {
                    model.mention(database, lines);
                    world.write(database, &spell(lines), None).map_err(text)?;
                    without_last = model.moment();
                    model.acknowledge(&Op::Write(prediction.batch));
                }
            }
            (Act::Delete { database, delete }, Some(engine)) => {
                if let Some(request) = delete_request(&engine.snapshot(), database, delete)
                    && engine.delete(&request).map_err(text)?.is_some()
                {
                    without_last = model.moment();
                    model.acknowledge(&Op::Delete {
                        database: database.clone(),
                        delete: delete.clone(),
                    });
                }
            }
            (Act::Flush, Some(engine)) => engine.flush().map_err(text)?,
            (Act::MaintainAll | Act::Settle, Some(engine)) => engine.settle().map_err(text)?,
            (Act::SettleFor(tier), Some(engine)) => {
                engine.settle_for(Some(*tier)).map_err(text)?;
            }
            (Act::Maintain, Some(engine)) => {
                engine.maintain().map_err(text)?;
            }
            _ => {}
        }
    }
    world.close();
    Ok(Stopped {
        disk: world.disk().clone(),
        model,
        without_last,
    })
}

fn files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let root = Path::new(DIR);
    let mut files = Vec::new();
    for dir in [root.to_owned(), root.join("log"), root.join("segments")] {
        let names = disk.list(&dir).unwrap_or_default();
        files.extend(names.iter().map(|name| dir.join(name)));
    }
    files
}

/// Flips bits of one byte and says which; `None` = the file is empty.
fn flip(
    disk: &FaultyDisk,
    path: &Path,
    random: &mut Xoshiro256PlusPlus,
) -> Result<Option<u64>, String> {
    let text = |error: std::io::Error| error.to_string();
    let file = disk.open(path).map_err(text)?;
    let size = file.size().map_err(text)?;
    if size == 0 {
        return Ok(None);
    }
    let at = random.random_range(0..size);
    let mut byte = [0];
    file.read_at(&mut byte, at).map_err(text)?;
    let damaged = byte.map(|byte| byte ^ random.random_range(1..=u8::MAX));
    file.write_at(&damaged, at).map_err(text)?;
    Ok(Some(at))
}

fn judge(
    plan: &Plan,
    stopped: &Stopped,
    disk: FaultyDisk,
    path: &Path,
    outcomes: &mut Outcomes,
) -> Result<(), String> {
    let refusing = Options {
        on_damage: OnDamage::Refuse,
        ..plan.limits.options()
    };
    let mut world = World::on(disk, refusing);
    let names_the_file = |error: &str| error.contains(&path.display().to_string());
    if let Err(error) = world.restart(Restart::Clean, CrashPlan::default()) {
        let error = error.to_string();
        if !names_the_file(&error) {
            return Err(format!("the refusal does not name the file: {error}"));
        }
        outcomes.refused += 1;
        return judge_the_rest(plan, stopped, world.disk(), path, outcomes);
    }
    let engine = world.engine().ok_or("the store is closed")?;
    match read_all(&engine.snapshot()) {
        Err(error) if names_the_file(&error) => outcomes.refused_at_read += 1,
        Err(error) => return Err(format!("the refusal does not name the file: {error}")),
        Ok(found) => match stopped.model.check(&found) {
            Ok(()) => outcomes.same += 1,
            Err(what) => {
                let without_last = stopped.without_last.check(&found);
                if !in_log(path) || without_last.is_err() {
                    return Err(what);
                }
                outcomes.tail_cut += 1;
            }
        },
    }
    Ok(())
}

fn judge_the_rest(
    plan: &Plan,
    stopped: &Stopped,
    disk: &FaultyDisk,
    path: &Path,
    outcomes: &mut Outcomes,
) -> Result<(), String> {
    let mut world = World::on(disk.clone(), plan.limits.options());
    if world.restart(Restart::Kill, CrashPlan::default()).is_err() {
        return Ok(());
    }
    let engine = world.engine().ok_or("the store is closed")?;
    let aside: Vec<&Path> = engine
        .quarantined()
        .iter()
        .map(|it| it.file.as_path())
        .collect();
    if aside != [path] {
        return Err(format!("{aside:?} were put aside"));
    }
    let found = read_all(&engine.snapshot())?;
    for (name, table) in &found.tables {
        let known = stopped.model.state().shown(name);
        if let Some((key, _)) = table.rows.iter().find(|(key, _)| !known.contains_key(key)) {
            return Err(format!("{}.{}: {key:?} came back", name.0, name.1));
        }
    }
    outcomes.put_aside += 1;
    Ok(())
}

fn in_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}
