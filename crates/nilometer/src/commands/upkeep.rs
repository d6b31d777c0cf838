//! `nilometer settle`, `backup` and `restore`: maintenance of an offline data directory.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use nilometer_engine::{Engine, Metrics, Tier};
use serde_json::json;

use crate::print::{self, Table, thousands};
use crate::store::{StoreArgs, open_existing};

/// What to compact.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer settle --data ./data\n  nilometer settle --data ./data --tier cold"
)]
pub(crate) struct SettleArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Write every partition for few bytes (cold) or for fast reading (hot), whatever cold_after of its table says; a server goes by
    /// cold_after again.
    #[arg(long, value_enum)]
    tier: Option<TierArg>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// What partitions are written for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TierArg {
    /// Few bytes.
    Cold,
    /// Fast reading.
    Hot,
}

/// From where to where.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer backup --data ./data --to ./backup\n  nilometer restore --from ./backup --data ./data2"
)]
pub(crate) struct BackupArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Folder for the backup: a new one, or one with an earlier backup of this store, which is then updated.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// From where to where.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nilometer restore --from ./backup --data ./restored")]
pub(crate) struct RestoreArgs {
    /// Folder that contains the backup.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Data directory to create; must be new or empty.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
}

pub(crate) fn settle(args: &SettleArgs) -> anyhow::Result<()> {
    let engine = open_existing(&args.data, args.store.options())?;
    let before = engine.metrics();
    engine.settle_for(args.tier.map(|tier| match tier {
        TierArg::Cold => Tier::Cold,
        TierArg::Hot => Tier::Hot,
    }))?;
    let after = engine.metrics();
    engine.close()?;
    if args.json {
        let state = |it: &Metrics| {
            json!({
                "segments": it.segments,
                "segment_bytes": it.segment_bytes,
                "segment_rows": it.segment_rows,
                "definition_bytes": it.definition_bytes,
                "head_rows": it.head_rows,
                "tombstones": it.tombstones,
                "segment_bytes_written": it.segment_bytes_written,
                "write_amplification": write_amplification(it),
            })
        };
        let both = json!({ "before": state(&before), "after": state(&after) });
        print::line(format!("{both:#}"));
    } else {
        print::line(settled_text(&before, &after));
    }
    Ok(())
}

/// Bytes of segments ever written over bytes of segments; `None` without segments.
fn write_amplification(metrics: &Metrics) -> Option<f64> {
    let bytes = metrics.segment_bytes;
    (bytes > 0).then(|| metrics.segment_bytes_written as f64 / bytes as f64)
}

fn settled_text(before: &Metrics, after: &Metrics) -> String {
    let mut table = Table::new(&["", "before", "after"]);
    let mut row = |name: &str, of: fn(&Metrics) -> String| {
        table.row([name.to_owned(), of(before), of(after)]);
    };
    row("segments", |it| thousands(it.segments));
    row("segment bytes", |it| thousands(it.segment_bytes));
    row("rows in segments", |it| thousands(it.segment_rows));
    row("rows in memory", |it| thousands(it.head_rows));
    row("partitions", |it| thousands(it.partitions));
    row("pending deletes", |it| thousands(it.tombstones));
    row("segment bytes written so far", |it| {
        thousands(it.segment_bytes_written)
    });
    row("write amplification", |it| {
        write_amplification(it).map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"))
    });
    table.to_string()
}

pub(crate) fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    let engine = open_existing(&args.data, args.store.options())?;
    let done = engine.backup(&args.to)?;
    print::line(format!(
        "{}: every batch up to {}; {} files added ({} bytes), {} kept, {} removed",
        args.to.display(),
        done.lsn,
        thousands(done.files_added),
        thousands(done.bytes_added),
        thousands(done.files_kept),
        thousands(done.files_removed),
    ));
    Ok(())
}

pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    ensure!(
        args.from.is_dir(),
        "there is no backup {}; `nilometer backup --to DIR` makes one",
        args.from.display()
    );
    let done = Engine::restore_dir(&args.from, &args.data)?;
    print::line(format!(
        "{}: every batch up to {}; {} files checked ({} bytes)",
        args.data.display(),
        done.lsn,
        thousands(done.files),
        thousands(done.bytes),
    ));
    if done.interrupted {
        print::line(
            "the last backup into that folder was interrupted; this may be the one before it",
        );
    }
    Ok(())
}
