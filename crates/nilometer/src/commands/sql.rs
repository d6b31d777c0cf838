//! `nilometer sql`: command line arguments to shell settings.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use nilometer::session_change;

use crate::output::Format;
use crate::output::destination::{Destination, unless_closed};
use crate::shell::split::{Item, split_all};
use crate::shell::terminal::converse;
use crate::shell::{Next, Shell};
use crate::source::{Purpose, Source, SourceArgs};

/// What to run, and where.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer sql -d d\n  nilometer sql -d d \"select time_bucket('1 hour', time) t, host, avg(v) from m group by t, host order by t\"\n  nilometer sql -d d '\\chart select time, host, v from m'\n  nilometer sql -d d --format csv -c \"select * from m\"\n  nilometer sql -d d --output m.parquet \"select * from m\"\n  echo 'select count(*) from m; select 1;' | nilometer sql -d d\n  nilometer sql -d d -f report.sql\n  nilometer sql -d d --data ./data \"select count(*) from m\""
)]
pub(crate) struct SqlArgs {
    /// SQL statements, or a shell command such as '\d'; - reads them from standard input. Without any, a shell starts, or
    /// standard input is read if it is not a terminal.
    #[arg(value_name = "STATEMENT")]
    statement: Option<String>,
    /// Run these statements or this command; may be given several times.
    #[arg(
        short,
        long = "command",
        value_name = "STATEMENT",
        conflicts_with = "statement"
    )]
    command: Vec<String>,
    /// Run the statements in this file; - is standard input; may be given several times.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["statement", "command"])]
    file: Vec<PathBuf>,
    /// Database.
    #[arg(short, long, value_name = "NAME", env = "NILOMETER_DATABASE")]
    database: Option<String>,
    /// Output format [default: the ending of --output, or table]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the rows to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show how long each statement takes.
    #[arg(long)]
    timing: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Statements, and the file that they are from.
struct Script {
    file: Option<PathBuf>,
    text: String,
}

pub(crate) fn run(args: &SqlArgs) -> anyhow::Result<()> {
    let has_script = args.statement.is_some() || !args.command.is_empty() || !args.file.is_empty();
    let is_shell = !has_script && std::io::stdin().is_terminal();
    let format = args.format()?;
    if is_shell && (args.output.is_some() || format.is_binary()) {
        bail!(
            "the shell writes to the terminal; give a statement, or write answers to a file in the shell with \\o FILE"
        );
    }
    let source = args.source.open(Purpose::Read)?;
    let scripts = if is_shell {
        Vec::new()
    } else {
        args.scripts()?
    };
    let database = database(args, &source, &scripts)?;
    let mut shell = Shell::new(source, &database, format);
    shell.timing = args.timing || is_shell;
    if is_shell {
        converse(&mut shell)
    } else {
        script(args, &scripts, &mut shell)
    }
}

fn script(args: &SqlArgs, scripts: &[Script], shell: &mut Shell) -> anyhow::Result<()> {
    let items = scripts.iter().map(|script| {
        let items = split_all(&script.text);
        items.iter().filter(|item| !is_setting(item)).count()
    });
    if shell.format.is_binary() && items.sum::<usize>() > 1 {
        bail!(
            "a file in the format {} has the rows of one statement; run the others on their own",
            shell.format.name()
        );
    }
    let mut destination = Destination::open(args.output.as_deref(), shell.format)?;
    let ran = run_scripts(scripts, shell, destination.writer());
    if ran.is_err() && args.output.is_none() {
        // What came before the error was asked for and is shown.
        unless_closed(destination.finish())?;
        return unless_closed(ran);
    }
    unless_closed(ran.and_then(|()| destination.finish()))
}

fn run_scripts(
    scripts: &[Script],
    shell: &mut Shell,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    for Script { file, text } in scripts {
        let ran = shell.run_script(text, out);
        let next = match file {
            Some(file) => ran.with_context(|| file.display().to_string())?,
            None => ran?,
        };
        if next == Next::Leave {
            break;
        }
    }
    shell.close()
}

impl SqlArgs {
    fn format(&self) -> anyhow::Result<Format> {
        match (self.format, &self.output) {
            (Some(format), _) => Ok(format),
            (None, Some(path)) if path.as_os_str() != "-" => {
                Format::of_file(path).map_err(|error| anyhow::anyhow!("{error}, or add --format"))
            }
            (None, _) => Ok(Format::Table),
        }
    }

    fn scripts(&self) -> anyhow::Result<Vec<Script>> {
        let read = |file: Option<&PathBuf>| match file.filter(|file| file.as_os_str() != "-") {
            Some(file) => std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display())),
            None => std::io::read_to_string(std::io::stdin()).context("cannot read the statements"),
        };
        let mut scripts = Vec::new();
        let given = self.statement.iter().chain(&self.command);
        for text in given {
            scripts.push(Script {
                file: None,
                text: match text.as_str() {
                    "-" => read(None)?,
                    text => text.to_owned(),
                },
            });
        }
        for file in &self.file {
            scripts.push(Script {
                file: Some(file.clone()),
                text: read(Some(file))?,
            });
        }
        if scripts.is_empty() {
            scripts.push(Script {
                file: None,
                text: read(None)?,
            });
        }
        Ok(scripts)
    }
}

/// The name that stands for no database, for statements that are about databases.
const NO_DATABASE: &str = "none";

/// The database that was named, or the only one there is.
fn database(args: &SqlArgs, source: &Source, scripts: &[Script]) -> anyhow::Result<String> {
    if let Some(name) = &args.database {
        return Ok(name.clone());
    }
    if !scripts.is_empty() && scripts.iter().all(Script::needs_no_database) {
        return Ok(NO_DATABASE.to_owned());
    }
    let mut names = match source {
        Source::Server(_) => source.query(NO_DATABASE, "SHOW DATABASES")?.texts()?,
        Source::Store(store) => store.engine().snapshot().databases(),
    };
    match (names.pop(), names.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => bail!(
            "there is no database at {} yet; create one with `nilometer sql \"CREATE DATABASE name\"` or `nilometer import -d NAME`",
            source.name()
        ),
        (Some(last), others) => bail!(
            "which database? give its name with -d NAME or NILOMETER_DATABASE; there are {}, {last}",
            others.join(", ")
        ),
    }
}

impl Script {
    /// Whether its statements are about databases and not about what is in one.
    fn needs_no_database(&self) -> bool {
        let items = split_all(&self.text);
        !items.is_empty() && items.iter().all(is_about_databases)
    }
}

/// Whether an item sets something of the session, and answers nothing.
fn is_setting(item: &Item) -> bool {
    let Item::Statement(text) = item else {
        return false;
    };
    // What is wrong with it is said when it runs.
    !matches!(session_change(text), Ok(None))
}

fn is_about_databases(item: &Item) -> bool {
    if is_setting(item) {
        return true;
    }
    let Item::Statement(text) = item else {
        return false;
    };
    let mut words = text.split_whitespace().map(str::to_ascii_uppercase);
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    match first.as_str() {
        "CREATE" | "ALTER" | "DROP" => second == "DATABASE",
        "SHOW" => second == "DATABASES",
        _ => false,
    }
}
