//! `nilometer sql`: what the arguments mean for the shell.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;

use crate::output::Format;
use crate::output::destination::{Destination, unless_closed};
use crate::shell::Shell;
use crate::shell::split::split_all;
use crate::shell::terminal::converse;
use crate::source::{Purpose, Source, SourceArgs};

/// What to ask, and of whom.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer sql -d d\n  nilometer sql -d d \"select time_bucket('1 hour', time) t, host, avg(v) from m group by t, host order by t\"\n  nilometer sql -d d '\\chart select time, host, v from m'\n  nilometer sql -d d --format csv \"select * from m\"\n  nilometer sql -d d --format parquet --output m.parquet \"select * from m\"\n  echo 'select count(*) from m; select 1;' | nilometer sql -d d\n  nilometer sql -d d --data ./data \"select count(*) from m\""
)]
pub(crate) struct SqlArgs {
    /// Statements, or a command such as '\d'; - reads them from standard input. Without it, a shell, or standard input where
    /// that is no terminal.
    statement: Option<String>,
    /// Database.
    #[arg(short, long, value_name = "NAME", env = "NILOMETER_DATABASE")]
    database: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// How to show the rows.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the rows to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show how long each statement takes.
    #[arg(long)]
    timing: bool,
}

pub(crate) fn run(args: &SqlArgs) -> anyhow::Result<()> {
    let is_shell = args.statement.is_none() && std::io::stdin().is_terminal();
    if is_shell && (args.output.is_some() || args.format.is_binary()) {
        bail!("the shell writes to the terminal; give a statement, or use `nilometer export`");
    }
    let source = args.source.open(Purpose::Read)?;
    let database = database(args, &source)?;
    let mut shell = Shell::new(source, &database, args.format);
    shell.timing = args.timing || is_shell;
    if is_shell {
        converse(&mut shell)
    } else {
        script(args, &mut shell)
    }
}

fn script(args: &SqlArgs, shell: &mut Shell) -> anyhow::Result<()> {
    let text = match args.statement.as_deref() {
        Some(text) if text != "-" => text.to_owned(),
        _ => std::io::read_to_string(std::io::stdin()).context("cannot read the statements")?,
    };
    if args.format.is_binary() && split_all(&text).len() > 1 {
        bail!(
            "a file in the format {} has the rows of one statement; run the others on their own",
            args.format.name()
        );
    }
    let mut destination = Destination::open(args.output.as_deref(), args.format)?;
    let ran = shell.run_script(&text, destination.writer()).map(drop);
    if ran.is_err() && args.output.is_none() {
        // What came before the error was asked for and is shown.
        unless_closed(destination.finish())?;
        return unless_closed(ran);
    }
    unless_closed(ran.and_then(|()| destination.finish()))
}

/// The database that was named, or the only one there is.
fn database(args: &SqlArgs, source: &Source) -> anyhow::Result<String> {
    if let Some(name) = &args.database {
        return Ok(name.clone());
    }
    let Source::Store(store) = source else {
        // Some statements need none, the one that makes the first among them; the server asks for it at the others.
        return Ok(String::new());
    };
    let mut names = store.engine().snapshot().databases();
    match (names.pop(), names.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => bail!(
            "there is no database in {} yet; `nilometer import -d NAME` makes one",
            source.name()
        ),
        (Some(last), others) => bail!(
            "which database? give its name with -d; there are {}, {last}",
            others.join(", ")
        ),
    }
}
