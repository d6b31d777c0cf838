//! `nilometer pg-schema`: a schema that `pg_dump` has written, in an order and a form that a server takes.
//!
//! Does: read the dump, print its statements with the keys of each table in its CREATE TABLE, say what is left out. Does not: connect to a
//! server, or look at rows: `psql` sends both.
//! Next: `schema` knows what becomes of each statement, `text` where one ends.

mod schema;
mod text;

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use self::schema::Schema;
use crate::print;

/// The largest dump that is read: it is held in memory as a whole.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// Which dump.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  pg_dump --schema-only metrics | nilometer pg-schema | psql -h 127.0.0.1 -p 5433 -d metrics\n  nilometer pg-schema schema.sql > tables.sql"
)]
pub(crate) struct PgSchemaArgs {
    /// What `pg_dump --schema-only` has written; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

pub(crate) fn run(args: &PgSchemaArgs) -> anyhow::Result<()> {
    let mut dump = String::new();
    if args.file.as_os_str() == "-" {
        let input = std::io::stdin().lock();
        input.take(DUMP_BYTES_MAX).read_to_string(&mut dump)
    } else {
        let file = std::fs::File::open(&args.file);
        let file = file.with_context(|| format!("cannot open {}", args.file.display()))?;
        file.take(DUMP_BYTES_MAX).read_to_string(&mut dump)
    }
    .with_context(|| format!("cannot read {} as text", args.file.display()))?;
    anyhow::ensure!(
        u64::try_from(dump.len()).unwrap_or(u64::MAX) < DUMP_BYTES_MAX,
        "the dump has more than {DUMP_BYTES_MAX} bytes; leave its rows out with pg_dump --schema-only"
    );
    let schema = Schema::of_dump(&dump)?;
    let mut out = std::io::stdout().lock();
    let written = out.write_all(schema.to_string().as_bytes());
    written.context("cannot write")?;
    for left in schema.left_out() {
        print::note(format!("left out: {left}\n"));
    }
    Ok(())
}
