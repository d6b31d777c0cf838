//! The program: a server, a shell command for SQL, what an operator does with a data directory, a demo, and the
//! benchmark.
//!
//! Does: read the command line and the environment, open stores, print. Does not: hold logic that a library could
//! want; that is in the crates below.

mod bench;
mod demo;
mod inspect;
mod print;
mod serve;
mod sql;
mod store;
mod upkeep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A time-series database that answers to the clients people already have.
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
    /// Ask one SQL statement of a server, or of a data directory that no server has open.
    Sql(sql::SqlArgs),
    /// Show what a data directory is made of: segments, encodings, bytes a value by column.
    Inspect(inspect::InspectArgs),
    /// Compact all that can be compacted in a data directory that no server has open.
    Settle(Box<upkeep::SettleArgs>),
    /// Back a data directory that no server has open up into a folder.
    Backup(Box<upkeep::BackupArgs>),
    /// Make a data directory from a backup, with every checksum looked at.
    Restore(upkeep::RestoreArgs),
    /// Start a server on loopback, load benchmark data into it, ask it a dozen questions, and show what it took.
    Demo(demo::DemoArgs),
    /// Make benchmark data, load it, time queries.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Settle(args) => upkeep::settle(&args),
        Command::Backup(args) => upkeep::backup(&args),
        Command::Restore(args) => upkeep::restore(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(command) => bench::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}
