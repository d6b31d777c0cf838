//! Suite `hypertable`: single-row inserts and one-minute queries on a plain table, a hypertable and a compressed hypertable.
//!
//! Does: start Nilometer and PostgreSQL with their own defaults (or find them by connection strings, TimescaleDB too), load the same
//! rows into each, ask each the same requests in turn over one connection, count their rows, and set the reference's figures beside.
//! Does not: tune a database, or make a request again.
//! Next: `hypertable/tables.rs` for what is loaded and asked, `hypertable/report.rs` for the figures.

mod address;
mod client;
mod login;
mod report;
mod servers;
mod tables;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::calendar::format_rfc3339;
use crate::{Error, Result};
use report::tests_of;
pub use report::{Asked, HypertableReport, Loaded, Peaks, Test, Timed};
use servers::Server;
pub use servers::{Peer, Place, find_postgresql};
pub use tables::{Days, Kind};
use tables::{Rows, draw_row, rows_in};

const MINUTE_US: i64 = 60_000_000;
/// Requests of a test before those that are timed.
const WARM_UP: usize = 20;
/// Pause between two looks at a size.
const POLL: Duration = Duration::from_millis(200);
/// A size that does not change for so long is taken.
const SETTLED: Duration = Duration::from_secs(3);

/// What to run.
#[derive(Debug, Clone)]
pub struct HypertableOptions {
    /// The databases, the first first.
    pub databases: Vec<(Peer, Place)>,
    /// Databases that are not asked, and why.
    pub left_out: Vec<String>,
    /// A folder for their files and logs.
    pub folder: PathBuf,
    /// Rows of each table.
    pub rows: u64,
    /// Requests of each test.
    pub requests: usize,
    /// A test ends earlier after so long.
    pub test_time_max: Duration,
    /// Longest wait for sizes to settle after the load.
    pub settle_wait: Duration,
    /// Of rows and requests.
    pub seed: u64,
}

/// Runs the suite; `progress` hears what is being done.
pub fn hypertable(
    options: &HypertableOptions,
    progress: impl Fn(&str),
) -> Result<HypertableReport> {
    if options.rows == 0 || options.requests == 0 {
        return Err(Error::Spec {
            what: "it has no rows, or no requests; give at least one of each".to_owned(),
        });
    }
    let mut servers = Vec::new();
    for (peer, place) in &options.databases {
        progress(&format!("{}: start", peer.name()));
        servers.push(Server::open(*peer, place, &options.folder)?);
    }
    let asked = servers.iter_mut().map(asked).collect::<Result<_>>()?;
    let mut loaded = Vec::new();
    for server in &mut servers {
        for kind in Kind::of(server.peer) {
            progress(&format!("{}: load {}", server.peer.name(), kind.name()));
            loaded.push(load(server, kind, options)?);
        }
    }
    for server in &mut servers {
        progress(&format!("{}: sizes", server.peer.name()));
        sizes(server, &mut loaded, options)?;
    }
    let mut timed = Vec::new();
    for server in &mut servers {
        timed.push(time(server, None, Test::One, options)?);
    }
    for kind in Kind::ALL {
        for test in tests_of(kind) {
            // One after the other, so that all are asked in the same minute.
            for server in servers.iter_mut().filter(|it| kind.is_of(it.peer)) {
                progress(&format!(
                    "{}: {} of {}",
                    server.peer.name(),
                    test.name(),
                    kind.name()
                ));
                timed.push(time(server, Some(kind), test, options)?);
            }
        }
    }
    for server in &mut servers {
        check_inserts(server, &timed, options)?;
    }
    Ok(HypertableReport {
        rows: options.rows,
        asked,
        loaded,
        timed,
        left_out: options.left_out.clone(),
    })
}

/// Version and settings of a server, which is made ready.
fn asked(server: &mut Server) -> Result<Asked> {
    let origin = if server.is_own() {
        "started for this run with its defaults"
    } else {
        "found by its connection string"
    };
    if server.peer == Peer::Timescaledb {
        server
            .client
            .run("CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE")?;
    }
    let settings = if server.peer == Peer::Nilometer {
        format!("{origin}; every row is synced before it is acknowledged")
    } else {
        let mut shown = vec![origin.to_owned()];
        for setting in [
            "fsync",
            "synchronous_commit",
            "wal_sync_method",
            "shared_buffers",
            "max_wal_size",
        ] {
            let value = server.client.value(&format!("SHOW {setting}"))?;
            shown.push(format!("{setting} {value}"));
        }
        if server.peer == Peer::Timescaledb {
            let version = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'";
            shown.push(format!("timescaledb {}", server.client.value(version)?));
        }
        shown.join(", ")
    };
    let version = match server.peer {
        // It calls itself the PostgreSQL whose protocol it speaks.
        Peer::Nilometer if server.is_own() => env!("CARGO_PKG_VERSION").to_owned(),
        _ => server.client.version.clone(),
    };
    Ok(Asked {
        peer: server.peer,
        version,
        settings,
    })
}

fn load(server: &mut Server, kind: Kind, options: &HypertableOptions) -> Result<Loaded> {
    for statement in kind.create(server.peer) {
        server.client.run(&statement)?;
    }
    let mut rows = Rows::new(options.rows, options.seed);
    let begun = Instant::now();
    server
        .client
        .copy(&kind.copy(), |to, bytes| rows.fill(to, bytes))?;
    let load_seconds = begun.elapsed().as_secs_f64();
    let found = count(server, kind)?;
    if found != options.rows {
        return Err(wrong(
            server,
            format!(
                "{} has {found} rows, and {} were copied",
                kind.table(),
                options.rows
            ),
        ));
    }
    let mut compress_seconds = None;
    if let Some(statement) = kind.compress() {
        let begun = Instant::now();
        server.client.run(&statement)?;
        compress_seconds = Some(begun.elapsed().as_secs_f64());
    }
    if server.peer != Peer::Nilometer {
        // What autovacuum would do some minutes later.
        server.client.run(&format!("ANALYZE {}", kind.table()))?;
    }
    Ok(Loaded {
        peer: server.peer,
        kind,
        load_seconds,
        compress_seconds,
        bytes: 0,
    })
}

fn count(server: &mut Server, kind: Kind) -> Result<u64> {
    let counted = server
        .client
        .value(&format!("SELECT count(*) FROM {}", kind.table()))?;
    let counted: Option<u64> = counted.parse().ok();
    counted.ok_or_else(|| wrong(server, "a count is no number".to_owned()))
}

/// Looks at the sizes of a server's tables until they do not change for a while.
fn sizes(server: &mut Server, loaded: &mut [Loaded], options: &HypertableOptions) -> Result<()> {
    let begun = Instant::now();
    let (mut before, mut changed) = (Vec::new(), begun);
    loop {
        let mut bytes = Vec::new();
        for kind in Kind::of(server.peer) {
            let size = server.client.value(&kind.size(server.peer))?;
            bytes.push(size.parse().unwrap_or(0));
        }
        if bytes != before {
            (before, changed) = (bytes, Instant::now());
        }
        let is_over = server.peer != Peer::Nilometer || changed.elapsed() >= SETTLED;
        if is_over || begun.elapsed() >= options.settle_wait {
            break;
        }
        thread::sleep(POLL);
    }
    let own = loaded.iter_mut().filter(|it| it.peer == server.peer);
    for (loaded, bytes) in own.zip(before) {
        loaded.bytes = bytes;
    }
    Ok(())
}

fn time(
    server: &mut Server,
    kind: Option<Kind>,
    test: Test,
    options: &HypertableOptions,
) -> Result<Timed> {
    let of = kind.unwrap_or(Kind::Plain);
    let (prefix, sql) = match test {
        Test::Insert(_) => ("insert", of.insert()),
        Test::Query(_) => ("query", of.select()),
        Test::One => ("one", "SELECT 1".to_owned()),
    };
    // A name for each test, since it is not prepared twice.
    let statement = format!("{prefix}_{}_{}", of.name(), days_name(test));
    server.client.prepare(&statement, &sql)?;
    // All databases are asked the same.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed ^ seed_of(test));
    let mut millis = Vec::with_capacity(options.requests);
    let begun = Instant::now();
    let warm_up = WARM_UP.min(options.requests);
    for at in 0..warm_up + options.requests {
        let (parameters, expected) = match test {
            Test::Insert(days) => (draw_row(days, &mut random), 0),
            Test::Query(days) => {
                let from = days.draw(&mut random, MINUTE_US);
                let until = from + MINUTE_US;
                let shown = |us: i64| format_rfc3339(us * 1000);
                let rows = rows_in(options.rows, from, until);
                (vec![shown(from), shown(until)], rows)
            }
            Test::One => (Vec::new(), 1),
        };
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let asked = Instant::now();
        let rows = server.client.execute(&statement, &parameters)?;
        let took = asked.elapsed();
        if rows != expected {
            return Err(wrong(
                server,
                format!("{sql} of {parameters:?} has {rows} rows, and {expected} are there"),
            ));
        }
        if at >= warm_up {
            millis.push(took.as_secs_f64() * 1000.0);
        }
        if begun.elapsed() > options.test_time_max && !millis.is_empty() {
            break;
        }
    }
    Ok(Timed {
        peer: server.peer,
        kind,
        test,
        requests: millis.len(),
        peaks: Peaks::of(millis),
    })
}

fn days_name(test: Test) -> &'static str {
    match test {
        Test::Insert(Days::Cold) | Test::Query(Days::Cold) => "cold",
        Test::Insert(Days::Recent) | Test::Query(Days::Recent) => "recent",
        _ => "random",
    }
}

fn seed_of(test: Test) -> u64 {
    let letters = days_name(test).bytes().map(u64::from);
    letters.fold(u64::from(matches!(test, Test::Insert(_))), |seed, it| {
        seed.wrapping_mul(131).wrapping_add(it)
    })
}

/// Fails if an INSERT that was acknowledged is not there.
fn check_inserts(server: &mut Server, timed: &[Timed], options: &HypertableOptions) -> Result<()> {
    for kind in Kind::of(server.peer) {
        let of = timed.iter().filter(|it| {
            it.peer == server.peer && it.kind == Some(kind) && matches!(it.test, Test::Insert(_))
        });
        let inserted: usize = of
            .map(|it| it.requests + WARM_UP.min(options.requests))
            .sum();
        let expected = options.rows + inserted as u64;
        let found = count(server, kind)?;
        if found != expected {
            return Err(wrong(
                server,
                format!(
                    "{} has {found} rows, and {expected} were acknowledged",
                    kind.table()
                ),
            ));
        }
    }
    Ok(())
}

fn wrong(server: &Server, what: String) -> Error {
    Error::Peer {
        server: server.peer.name().to_owned(),
        what,
    }
}
