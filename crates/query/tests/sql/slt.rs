//! Runs every `.slt` file below `sqltests/`, each against a store of its own.
//!
//! Beside the records of sqllogictest a file may bring its data in comments, all of which is written before the first
//! record: `#| cpu,host=a usage=1 1000000000` is a line of line protocol (nanoseconds), `# load tsbs/cpu-only` a file of
//! `testdata`. NULL is `NULL`, an empty text `(empty)`, a time is as RFC 3339 has it.
//!
//! Each file runs three times: from memory; with every statement before the next one in a segment of its own; and with
//! those compacted to partitions as well. The answers are the same. `SLT_ONLY=merge,nulls` runs the files whose names have one of
//! these in them.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::functions::read_gzip;
use crate::support::Store;

/// Where rows are when a statement is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Memory,
    Segments,
    Partitions,
}

/// The way from a file to the store.
struct Connection(Store, Kept);

/// What is wrong with a statement; the runner compares its text.
#[derive(Debug)]
struct Wrong(nilometer_query::Error);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Wrong {}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = Wrong;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Wrong> {
        match self.1 {
            Kept::Memory => {}
            Kept::Segments => self.0.engine.flush().unwrap(),
            Kept::Partitions => self.0.compact(),
        }
        let (columns, batches) = self.0.answer(sql).await.map_err(Wrong)?;
        if columns.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &batches {
            let columns: Vec<ArrayFormatter<'_>> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
                .collect();
            rows.extend((0..batch.num_rows()).map(|row| {
                let texts = columns.iter().map(|column| column.value(row).to_string());
                texts
                    .map(|text| {
                        if text.is_empty() {
                            "(empty)".to_owned()
                        } else {
                            text
                        }
                    })
                    .collect::<Vec<_>>()
            }));
        }
        let types = vec![DefaultColumnType::Any; columns.len()];
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
}

/// A store with what the comments of a file ask for.
fn store(text: &str) -> Store {
    let store = Store::that_compacts();
    let mut lines = String::new();
    for line in text.lines() {
        if let Some(point) = line.strip_prefix("#| ") {
            lines.push_str(point);
            lines.push('\n');
        } else if let Some(name) = line.strip_prefix("# load tsbs/") {
            store.write(&read_gzip(&format!("{}.influx.gz", name.trim())));
        }
    }
    store.write(&lines);
    store
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../sqltests")
}

#[tokio::test]
async fn every_slt_file_holds() {
    let folder = folder();
    let mut found = Vec::new();
    files(&folder, &mut found);
    found.sort();
    if let Ok(only) = std::env::var("SLT_ONLY") {
        let wanted: Vec<&str> = only.split(',').collect();
        let is_wanted = |path: &str| wanted.iter().any(|part| path.contains(part));
        found.retain(|path| is_wanted(&path.display().to_string()));
    }
    assert!(!found.is_empty(), "no file below {}", folder.display());
    let mut failures = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        for kept in [Kept::Memory, Kept::Segments, Kept::Partitions] {
            let mut runner = Runner::new(|| async { Ok(Connection(store(&text), kept)) });
            let run = runner.run_script_with_name_async(&text, name.clone());
            if let Err(error) = run.await {
                failures.push(format!("from {kept:?}: {}", error.display(false)));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Functions are what a file forgets most easily: a new version of a library brings some. Those with two underscores in
/// front are what a statement becomes on its way, and not to be written by anybody.
#[tokio::test]
async fn every_function_stands_in_an_slt_file() {
    let store = Store::new();
    store.write("m v=1 1");
    let (_, batches) = store
        .answer("SELECT DISTINCT routine_name FROM information_schema.routines")
        .await
        .unwrap();
    let mut paths = Vec::new();
    files(&folder(), &mut paths);
    let mut said = HashSet::new();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap().to_lowercase();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        said.extend(words.map(str::to_owned));
    }
    let mut missing = Vec::new();
    for batch in &batches {
        let names = batch.column(0).as_string::<i32>();
        missing.extend(
            names
                .iter()
                .flatten()
                .filter(|name| !said.contains(*name) && !name.starts_with("__"))
                .map(str::to_owned),
        );
    }
    missing.sort();
    assert!(missing.is_empty(), "in no .slt file: {missing:?}");
}
