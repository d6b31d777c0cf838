//! A disk that fills up and is freed again.
//!
//! Does: let another file take the room down to the store's reserve, or to the last byte; see that writes are refused,
//! that reads and deletes work, and that writes go on by themselves once there is room.
//! Does not: fill any disk but its own.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Context, Outcome, busy_flags};
use crate::disk::Disk;
use crate::ledger::When;
use crate::life::{self, Life, WRITERS};
use crate::random::Random;
use crate::server::Server;
use crate::tally::Tally;

const DISK_MIB: u64 = 128;
const RESERVE_BYTES: u64 = 16 << 20;
const ROWS_MEAN: u64 = 300;
/// Fills in one life.
const LIFE_FILLS: u64 = 5;
/// Batches in which the room above the reserve must be used up. They are some 100 KB each.
const BATCHES_MAX: usize = 400;
/// Longest wait for writes to go on after room was made.
const RESUME_MAX: Duration = Duration::from_secs(20);
const BALLAST: &str = "ballast";
const REST: &str = "rest";

/// Fills the disk.
pub fn fills(context: &Context) -> Result<Outcome> {
    let mut tally = Tally::default();
    let mut sights = Seen::default();
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let folder = context.folder()?;
        let disk = match Disk::make(folder.path(), DISK_MIB)? {
            Ok(disk) => disk,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let seed = Random::of(&[context.seed, 0xf111, number]).draw();
        let mut random = Random::of(&[seed]);
        let mut flags = busy_flags(&mut random);
        flags.extend(["--disk-reserve-bytes".to_owned(), RESERVE_BYTES.to_string()]);
        let data = disk.path().join("data");
        let mut life = Life::create(
            &context.program,
            folder.path(),
            data,
            seed,
            ROWS_MEAN,
            flags,
        )?;
        let mut server = life.launch.start_up()?;
        life.prepare(&server)?;
        for _ in 0..LIFE_FILLS {
            if !context.goes_on(tally.faults) {
                break;
            }
            tally.faults += 1;
            let label = format!("seed {} life {number} fill {}", context.seed, tally.faults);
            server = fill(
                &mut life,
                &disk,
                server,
                &mut tally,
                &mut random,
                &mut sights,
                &label,
            )?;
        }
        life.check(&server, When::Running, &mut tally, "at the end of a life")?;
        Life::look_at(&server.stop()?, &mut tally, "at the end of a life");
        let server = life.launch.start_up()?;
        life.check(&server, When::Settled, &mut tally, "after a life")?;
        Life::look_at(&server.kill()?, &mut tally, "after a life");
        life.finish(&mut tally)?;
    }
    tally.notes = format!(
        " refusals={} to_the_last_byte={} restarts_while_full={} stopped_by_it={}",
        sights.refusals, sights.last_bytes, sights.restarts, sights.stops
    );
    Ok(Outcome::Ran(tally))
}

#[derive(Debug, Default)]
struct Seen {
    refusals: u64,
    last_bytes: u64,
    restarts: u64,
    stops: u64,
}

fn fill(
    life: &mut Life,
    disk: &Disk,
    mut server: Server,
    tally: &mut Tally,
    random: &mut Random,
    sights: &mut Seen,
    label: &str,
) -> Result<Server> {
    disk.fill(
        BALLAST,
        RESERVE_BYTES + (256 << 10) + random.below(768 << 10),
    )?;
    let begun = Instant::now();
    let refused = write_until_refused(life, &server, sights)?;
    tally.load += begun.elapsed();
    match refused {
        Some(why) if why.contains("507") && why.contains("disk_reserve_bytes") => {}
        Some(why) => tally.broke(format!("{label}: a full disk was answered with {why}")),
        None => tally.broke(format!("{label}: writes were taken below the reserve")),
    }
    life.check(&server, When::Running, tally, label)?;
    let writer = random.index(WRITERS);
    let erased = life.erase(&mut server.client(), writer, random)?;
    if let Some(story) = erased.complaint("a delete on a full disk") {
        tally.broke(format!("{label}: {story}"));
    }
    if random.one_in(3) {
        // The store must open with what it keeps in reserve.
        sights.restarts += 1;
        Life::look_at(&server.kill()?, tally, label);
        server = life.launch.start_up()?;
        life.check(&server, When::Settled, tally, label)?;
    }
    if tally.faults.is_multiple_of(2) {
        sights.last_bytes += 1;
        disk.fill(REST, 0)?;
        for writer in 0..WRITERS {
            let name = life.ledger().begin(writer)?;
            let outcome = life.send(&mut server.client(), name)?;
            if matches!(
                outcome,
                life::Outcome::Refused(_) | life::Outcome::Silent(_)
            ) {
                tally.broke(format!("{label}: without a byte free: {outcome:?}"));
            }
        }
        life.check(&server, When::Running, tally, label)?;
        disk.release(REST)?;
    }
    disk.release(BALLAST)?;
    if server.metric("nilometer_poisoned")? > 0.0 {
        // The log or the manifest could not be written: the store has stopped, and says so until it is started again.
        sights.stops += 1;
        Life::look_at(&server.kill()?, tally, label);
        server = life.launch.start_up()?;
        life.check(&server, When::Settled, tally, label)?;
    }
    resume(life, &server, tally, label)?;
    Ok(server)
}

/// Writes until the store refuses, and says how it did.
fn write_until_refused(life: &Life, server: &Server, sights: &mut Seen) -> Result<Option<String>> {
    let mut client = server.client();
    for n in 0..BATCHES_MAX {
        let name = life.ledger().begin(n % WRITERS)?;
        match life.send(&mut client, name)? {
            life::Outcome::Done => {}
            life::Outcome::Unavailable(why) => {
                sights.refusals += 1;
                // The reserve is looked at before anything is written, so nothing of this batch may ever appear.
                if why.contains("disk_reserve_bytes") {
                    life.ledger().refuse(name)?;
                }
                return Ok(Some(why));
            }
            other => return Ok(Some(format!("{other:?}"))),
        }
    }
    Ok(None)
}

/// Writes go on without anybody's doing.
fn resume(life: &Life, server: &Server, tally: &mut Tally, label: &str) -> Result<()> {
    let begun = Instant::now();
    let mut client = server.client();
    for n in 0.. {
        let name = life.ledger().begin(n % WRITERS)?;
        match life.send(&mut client, name)? {
            life::Outcome::Done => return Ok(()),
            life::Outcome::Unavailable(why) if begun.elapsed() < RESUME_MAX => {
                if why.contains("disk_reserve_bytes") {
                    life.ledger().refuse(name)?;
                }
                thread::sleep(Duration::from_millis(20));
            }
            other => {
                tally.broke(format!("{label}: there is room again, and: {other:?}"));
                return Ok(());
            }
        }
    }
    Ok(())
}
