//! `nilometer sql`: one statement to a server, or to a store that this process opens itself.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use nilometer_engine::Options;
use nilometer_server::{Asked, ServerConfig};

use crate::print;
use crate::store::open_existing;

/// What to ask, and of whom.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  nilometer sql -d d \"select time_bucket('1 hour', time) t, host, avg(v) from m group by t, host order by t\""
)]
pub(crate) struct SqlArgs {
    /// The statement; - reads it from standard input.
    statement: String,
    /// Database.
    #[arg(short, long, value_name = "NAME", env = "NILOMETER_DATABASE")]
    database: String,
    /// Server to ask.
    #[arg(
        long,
        value_name = "URL",
        env = "NILOMETER_URL",
        default_value = "http://127.0.0.1:8086"
    )]
    url: String,
    /// Open this data directory instead of asking a server.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How to show the rows.
    #[arg(long, value_enum, default_value_t = Format::Pretty)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Pretty,
    Csv,
    Json,
    Jsonl,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Pretty => "pretty",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
        }
    }
}

pub(crate) fn run(args: &SqlArgs) -> anyhow::Result<()> {
    let statement = match args.statement.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).context("cannot read the statement")?,
        text => text.to_owned(),
    };
    match &args.data {
        Some(dir) => ask_store(dir, args, &statement),
        None => ask_server(args, &statement),
    }
}

fn ask_server(args: &SqlArgs, statement: &str) -> anyhow::Result<()> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .new_agent();
    let url = format!("{}/api/v3/query_sql", args.url.trim_end_matches('/'));
    let request = agent
        .get(&url)
        .query("db", &args.database)
        .query("q", statement)
        .query("format", args.format.name());
    let mut response = request.call().with_context(|| {
        format!(
            "cannot reach a server at {}; start one with `nilometer serve`, or open a stopped store with --data DIR",
            args.url
        )
    })?;
    let status = response.status().as_u16();
    let mut body = response.body_mut().as_reader();
    if status != 200 {
        let mut text = String::new();
        body.read_to_string(&mut text)
            .context("the server's error broke off")?;
        bail!("{}", error_of(&text));
    }
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n = body.read(&mut chunk).context("the answer broke off")?;
        if n == 0 {
            return Ok(());
        }
        print::raw(chunk.get(..n).unwrap_or_default())?;
    }
}

/// The same request, answered by the same code, without a socket.
fn ask_store(dir: &Path, args: &SqlArgs, statement: &str) -> anyhow::Result<()> {
    let engine = open_existing(dir, Options::default())?;
    let asked = nilometer_server::ask(
        Arc::new(engine),
        ServerConfig::default(),
        &args.database,
        statement,
        args.format.name(),
        &mut |chunk| print::raw(chunk),
    )?;
    match asked {
        Asked::Answered => Ok(()),
        Asked::Refused(body) => bail!("{}", error_of(&body)),
    }
}

/// The sentence in an error body.
fn error_of(body: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let sentence = parsed.as_ref().and_then(|body| body.get("error")?.as_str());
    sentence.unwrap_or(body.trim()).to_owned()
}
