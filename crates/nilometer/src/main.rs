//! The program: server, SQL shell, offline tools, demo and benchmark.
//!
//! Does: read the command line and the environment, open stores, print. Does not: hold logic that a library could
//! want; that is in the crates below.

mod client;
mod commands;
mod config;
#[cfg(feature = "sql")]
mod import;
#[cfg(feature = "sql")]
mod lines;
#[cfg(feature = "sql")]
mod output;
mod print;
#[cfg(feature = "sql")]
mod shell;
mod size;
#[cfg(feature = "sql")]
mod source;
#[cfg(feature = "sql")]
mod sql_text;
mod store;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Counts what threads allocate, so that a query that takes too much ends with an error and not with the process.
#[cfg(feature = "sql")]
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
    Serve(Box<commands::serve::ServeArgs>),
    /// Show the settings of a server and where each comes from: flag, variable, file or default.
    Config(Box<config::ConfigArgs>),
    #[cfg(feature = "sql")]
    /// Run SQL against a server or an offline data directory: a statement, a script, or an interactive shell.
    Sql(Box<commands::sql::SqlArgs>),
    #[cfg(feature = "sql")]
    /// Import files: line protocol, CSV, Parquet.
    Import(Box<import::ImportArgs>),
    #[cfg(feature = "sql")]
    /// Export a table, a time range of it, or the rows of a query to a file.
    Export(Box<commands::export::ExportArgs>),
    /// Turn a schema that `pg_dump --schema-only` has written into statements that a server takes.
    PgSchema(commands::pg_schema::PgSchemaArgs),
    /// Show server status.
    Status(commands::status::StatusArgs),
    /// Show how a data directory uses its space: segments, encodings, bytes per value of each column.
    Inspect(commands::inspect::InspectArgs),
    /// Verify every checksum of an offline data directory, and repair it on request.
    Check(commands::check::CheckArgs),
    /// Compact an offline data directory completely.
    Settle(Box<commands::upkeep::SettleArgs>),
    /// Back up an offline data directory to a folder.
    Backup(Box<commands::upkeep::BackupArgs>),
    /// Restore a data directory from a backup, verifying every checksum.
    Restore(commands::upkeep::RestoreArgs),
    /// Flash images of microcontrollers: look into one, send its pages to a server, print the key of a device.
    #[command(subcommand)]
    Edge(commands::edge::EdgeCommand),
    #[cfg(feature = "sql")]
    /// Start a local server, load benchmark data, run a dozen queries, and show the timings.
    Demo(commands::demo::DemoArgs),
    /// Generate benchmark data, load it, and time queries.
    #[command(subcommand)]
    Bench(commands::bench::BenchCommand),
    /// Print a completion script for a command-line shell.
    Completions(commands::manual::CompletionsArgs),
    /// Print the manual page of this program.
    Man(commands::manual::ManArgs),
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
        Command::Serve(args) => commands::serve::run(&args, config::in_force(&command, &merged)),
        Command::Config(args) => config::run(&args, &command, &merged),
        #[cfg(feature = "sql")]
        Command::Sql(args) => commands::sql::run(&args),
        #[cfg(feature = "sql")]
        Command::Import(args) => import::run(&args),
        #[cfg(feature = "sql")]
        Command::Export(args) => commands::export::run(&args),
        Command::PgSchema(args) => commands::pg_schema::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Settle(args) => commands::upkeep::settle(&args),
        Command::Backup(args) => commands::upkeep::backup(&args),
        Command::Restore(args) => commands::upkeep::restore(&args),
        Command::Edge(command) => commands::edge::run(command),
        #[cfg(feature = "sql")]
        Command::Demo(args) => commands::demo::run(&args),
        Command::Bench(command) => commands::bench::run(command),
        Command::Completions(args) => commands::manual::completions(&args, Cli::command()),
        Command::Man(args) => commands::manual::man(&args, Cli::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}
