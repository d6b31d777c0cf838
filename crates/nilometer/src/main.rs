//! The program: a server, a shell command for SQL, what an operator does with a data directory, a demo, and the
//! benchmark.
//!
//! Does: read the command line and the environment, open stores, print. Does not: hold logic that a library could
//! want; that is in the crates below.

mod bench;
mod caught;
mod check;
mod client;
mod config;
mod demo;
mod export;
mod import;
mod inspect;
mod lines;
mod manual;
mod output;
mod print;
mod serve;
mod shell;
mod size;
mod source;
mod sql;
mod sql_text;
mod status;
mod store;
mod upkeep;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Counts what threads allocate, so that a query that takes too much ends with an error and not with the process.
#[global_allocator]
static ALLOCATOR: nilometer_query::CountingAllocator = nilometer_query::CountingAllocator;

/// A time-series database: line protocol in, SQL out.
#[derive(Debug, Parser)]
#[command(name = "nilometer", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server on a data directory.
    Serve(Box<serve::ServeArgs>),
    /// Show the settings of a server and where each comes from: flag, variable, file or default.
    Config(Box<config::ConfigArgs>),
    /// Run SQL against a server or an offline data directory: a statement, a script, or an interactive shell.
    Sql(Box<sql::SqlArgs>),
    /// Import files: line protocol, CSV, Parquet.
    Import(Box<import::ImportArgs>),
    /// Export a table, a time range of it, or the rows of a query to a file.
    Export(Box<export::ExportArgs>),
    /// Show server status.
    Status(status::StatusArgs),
    /// Show how a data directory uses its space: segments, encodings, bytes per value of each column.
    Inspect(inspect::InspectArgs),
    /// Verify every checksum of an offline data directory, and repair it on request.
    Check(check::CheckArgs),
    /// Compact an offline data directory completely.
    Settle(Box<upkeep::SettleArgs>),
    /// Back up an offline data directory to a folder.
    Backup(Box<upkeep::BackupArgs>),
    /// Restore a data directory from a backup, verifying every checksum.
    Restore(upkeep::RestoreArgs),
    /// Start a local server, load benchmark data, run a dozen queries, and show the timings.
    Demo(demo::DemoArgs),
    /// Generate benchmark data, load it, and time queries.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print a completion script for a command-line shell.
    Completions(manual::CompletionsArgs),
    /// Print the manual page of this program.
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    let command = size::with_units(Cli::command());
    let merged = match config::merge(&command, std::env::args_os().collect()) {
        Ok(merged) => merged,
        Err(error) => {
            print::error(&error);
            return ExitCode::from(2);
        }
    };
    let cli = Cli::from_arg_matches(&merged.matches).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args, config::in_force(&command, &merged)),
        Command::Config(args) => config::run(&args, &command, &merged),
        Command::Sql(args) => sql::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Settle(args) => upkeep::settle(&args),
        Command::Backup(args) => upkeep::backup(&args),
        Command::Restore(args) => upkeep::restore(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(command) => bench::run(command),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}
