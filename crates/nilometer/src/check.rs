//! `nilometer check`: every checksum of a data directory that no server has open.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use nilometer_engine::{Engine, Verified};
use serde_json::json;

use crate::print::{self, thousands};
use crate::store::check_exists;

/// What to check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer check --data ./data\n  nilometer check --data ./data --json"
)]
pub(crate) struct CheckArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Print JSON instead of sentences.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    check_exists(&args.data)?;
    let verified = Engine::verify_dir(&args.data)?;
    show(args, &verified);
    match verified.damage.len() {
        0 => Ok(()),
        n => bail!(
            "{n} damaged parts; restore the store from a backup with `nilometer restore`, or these files alone while no server runs"
        ),
    }
}

fn show(args: &CheckArgs, verified: &Verified) {
    if args.json {
        let damage = verified.damage.iter().map(|it| {
            json!({ "path": it.path.display().to_string(), "offset": it.offset, "reason": it.reason })
        });
        let shown = json!({
            "segments": verified.segments,
            "pages": verified.pages,
            "files": verified.files,
            "log_files": verified.log_files,
            "bytes": verified.bytes,
            "damage": damage.collect::<Vec<_>>(),
        });
        print::line(format!("{shown:#}"));
        return;
    }
    for it in &verified.damage {
        let (path, offset) = (it.path.display(), it.offset);
        print::line(format!("{path}: damaged at byte {offset}: {}", it.reason));
    }
    print::line(format!(
        "{}: {} segments with {} pages, {} other files, {} log files, {} bytes: {}",
        args.data.display(),
        thousands(verified.segments),
        thousands(verified.pages),
        thousands(verified.files),
        thousands(verified.log_files),
        thousands(verified.bytes),
        match verified.damage.len() {
            0 => "all in order".to_owned(),
            n => format!("{n} damaged parts"),
        }
    ));
}
