//! `nilometer check`: every checksum of a data directory that no server has open.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use nilometer_engine::{Engine, Quarantined, Unordered, Verified};
use serde_json::json;

use crate::print::{self, thousands};
use crate::store::check_exists;

/// What to check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer check --data ./data\n  nilometer check --data ./data --json\n  nilometer check --data ./data --repair"
)]
pub(crate) struct CheckArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Repair the store: put damaged files aside, cut a damaged log before the damage, and rewrite segments and index
    /// files without their damaged parts. Lists what is lost; deletes nothing.
    #[arg(long)]
    repair: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    check_exists(&args.data)?;
    let verified = Engine::verify_dir(&args.data)?;
    show(args, &verified);
    match verified.damage.len() {
        0 => Ok(()),
        _ if args.repair => repair(args),
        n => bail!(
            "{n} damaged parts; restore the store from a backup with `nilometer restore`, or repair it with --repair"
        ),
    }
}

/// Repairs the store, and says what that cost.
fn repair(args: &CheckArgs) -> anyhow::Result<()> {
    let repaired = Engine::repair_dir(&args.data)?;
    for file in &repaired.put_aside {
        print::line(format!("put aside: {}", lost(file)));
    }
    let left = repaired.left.len();
    if left > 0 {
        bail!(
            "{left} damaged parts remain, which were damaged during the repair: check the disk, then run it again, or restore the store from a backup with `nilometer restore`"
        );
    }
    print::line("the store is consistent without what was put aside");
    Ok(())
}

/// A file that was put aside and what is lost with it, as far as that is known.
fn lost(file: &Quarantined) -> String {
    let rows = file
        .rows
        .map_or_else(String::new, |rows| format!(", {} rows", thousands(rows)));
    let names = file.tables.iter().filter_map(|table| table.name.clone());
    let names: Vec<String> = names.collect();
    let tables = match names.as_slice() {
        [] => String::new(),
        names => format!(" of {}", names.join(", ")),
    };
    let kept = match &file.kept {
        Some(kept) => format!("kept as {}", kept.display()),
        None => "it was missing".to_owned(),
    };
    format!(
        "{}: {}{rows}{tables}; {kept}",
        file.file.display(),
        file.reason
    )
}

/// What there is to know and to do of two files without an order.
fn without_order(pair: &Unordered) -> String {
    let [first, second] = pair.files.each_ref().map(|path| path.display());
    let tables = pair.tables.join(", ");
    format!(
        "{first} and {second}: an earlier version left them without an order, so overwritten values of {tables} may have come back; write such values again, and merge the files with `nilometer settle`"
    )
}

fn show(args: &CheckArgs, verified: &Verified) {
    if args.json {
        let damage = verified.damage.iter().map(|it| {
            json!({ "path": it.path.display().to_string(), "offset": it.offset, "reason": it.reason })
        });
        let unordered = verified.unordered.iter().map(|pair| {
            let paths = pair.files.each_ref().map(|path| path.display().to_string());
            json!({ "paths": paths, "tables": pair.tables })
        });
        let shown = json!({
            "segments": verified.segments,
            "pages": verified.pages,
            "files": verified.files,
            "log_files": verified.log_files,
            "bytes": verified.bytes,
            "damage": damage.collect::<Vec<_>>(),
            "unordered": unordered.collect::<Vec<_>>(),
        });
        print::line(format!("{shown:#}"));
        return;
    }
    for it in &verified.damage {
        let (path, offset) = (it.path.display(), it.offset);
        print::line(format!("{path}: damaged at byte {offset}: {}", it.reason));
    }
    for pair in &verified.unordered {
        print::line(without_order(pair));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_order_are_named_with_their_tables() {
        let pair = Unordered {
            files: ["d/segments/7.seg".into(), "d/segments/9.seg".into()],
            tables: vec!["d.public.a".to_owned(), "d.public.b".to_owned()],
        };
        let said = without_order(&pair);
        assert!(
            said.starts_with("d/segments/7.seg and d/segments/9.seg: ")
                && said.contains("of d.public.a, d.public.b may")
                && said.contains("`nilometer settle`"),
            "{said}"
        );
    }
}
