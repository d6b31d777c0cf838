//! `nilometer bench hypertable`: which databases are asked, and what is printed of them.
//!
//! Does: find or leave out PostgreSQL, start this very program as the server. Does not: measure (`nilometer_bench::hypertable` does).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nilometer_bench::hypertable::{HypertableOptions, Peer, Place, find_postgresql, hypertable};
use nilometer_bench::report::Machine;
use serde_json::json;

use super::parse_span;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct HypertableBenchArgs {
    /// Number of rows of each table.
    #[arg(long, default_value_t = 1_010_000)]
    rows: u64,
    /// Number of requests of each test.
    #[arg(long, default_value_t = 10_000)]
    requests: usize,
    /// Time limit of a test; with fewer requests than asked, the table says how many there were.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    test_time_max: i64,
    /// Time limit for the sizes to settle after the load.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    settle_wait: i64,
    /// Nilometer to ask, as in 'host=127.0.0.1 port=5433 dbname=bench' or an address; by default one is started for the run.
    #[arg(long, value_name = "CONNECTION")]
    nilometer: Option<String>,
    /// PostgreSQL to ask, as in 'host=127.0.0.1 user=postgres dbname=bench', or off; by default one is started for the run.
    #[arg(long, value_name = "CONNECTION")]
    postgresql: Option<String>,
    /// Folder with initdb and postgres; by default the newest that is installed.
    #[arg(long, value_name = "DIR", conflicts_with = "postgresql")]
    postgresql_bin: Option<PathBuf>,
    /// PostgreSQL with TimescaleDB to ask; without it none is asked. Its tables `bench_*` are made anew.
    #[arg(long, value_name = "CONNECTION")]
    timescaledb: Option<String>,
    /// Random seed; the same seed gives the same rows and requests.
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Who is asked, and where.
type Databases = Vec<(Peer, Place)>;

impl HypertableBenchArgs {
    /// The databases to ask, and why others are not asked.
    fn databases(&self) -> anyhow::Result<(Databases, Vec<String>)> {
        let own = match &self.nilometer {
            Some(connection) => Place::At(connection.clone()),
            None => {
                Place::Start(std::env::current_exe().context("cannot tell where this program is")?)
            }
        };
        let mut databases = vec![(Peer::Nilometer, own)];
        let mut left_out = Vec::new();
        match (self.postgresql.as_deref(), &self.postgresql_bin) {
            (Some("off"), _) => left_out.push("PostgreSQL was not asked: --postgresql off".to_owned()),
            (Some(connection), _) => {
                databases.push((Peer::Postgresql, Place::At(connection.to_owned())));
            }
            (None, Some(folder)) => {
                databases.push((Peer::Postgresql, Place::Start(folder.clone())));
            }
            (None, None) => match find_postgresql() {
                Some(folder) => databases.push((Peer::Postgresql, Place::Start(folder))),
                None => left_out.push(
                    "PostgreSQL was not asked: no initdb and postgres were found; install them, or say where with --postgresql-bin"
                        .to_owned(),
                ),
            },
        }
        match &self.timescaledb {
            Some(connection) => {
                databases.push((Peer::Timescaledb, Place::At(connection.clone())));
            }
            None => left_out
                .push("TimescaleDB was not asked: say where it is with --timescaledb".to_owned()),
        }
        Ok((databases, left_out))
    }
}

pub(super) fn run(args: &HypertableBenchArgs) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let (databases, left_out) = args.databases()?;
    let span = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    let options = HypertableOptions {
        databases,
        left_out,
        folder: scratch.path().to_owned(),
        rows: args.rows,
        requests: args.requests,
        test_time_max: span(args.test_time_max),
        settle_wait: span(args.settle_wait),
        seed: args.seed,
    };
    let report = hypertable(&options, |what| print::note(format_args!("{what}\n")))?;
    let machine = Machine::here();
    if args.json {
        let figures = json!({ "machine": machine, "report": report });
        print::line(serde_json::to_string_pretty(&figures)?);
    } else {
        print::line(report.markdown().trim_end());
    }
    Ok(())
}
