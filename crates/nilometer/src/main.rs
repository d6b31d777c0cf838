//! The program: a server, a shell command for SQL, a demo, and the benchmark.
//!
//! Does: read the command line and the environment, open stores, print. Does not: hold logic that a library could
//! want; that is in the crates below.

mod bench;
mod demo;
mod print;
mod serve;
mod sql;

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
