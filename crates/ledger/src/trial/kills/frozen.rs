//! Stores that an earlier version wrote, as the repository keeps them: a life may begin in one of them.
//!
//! Does: copy one, and compare what it answers with what was written down when it was made.
//! Does not: fail where the program runs without the repository; then there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::super::mutations::copy_folder;
use crate::batch::read_csv;
use crate::random::Random;
use crate::server::Server;
use crate::tally::Tally;

/// Those with segments of format 1, then of format 2 (hot, cold) and of format 3, by what changed after them.
const STORES: [&str; 8] = [
    "04-64e15ea",
    "05-225cec6",
    "06-format-1",
    "07-bound-checksums",
    "08-durable-mark",
    "09-segment-2",
    "11-cold-partitions",
    "13-segment-3",
];
/// Columns that SQL shows otherwise than they are stored and written down: a table with declared types was once taken for one without,
/// so that every life that began in its store failed.
const SHOWN: [(&str, &str, &str); 2] = [
    (
        "sold",
        "time",
        "CAST(extract(epoch FROM day) AS BIGINT) * 1000000000",
    ),
    ("sold", "price", "CAST(price * 100 AS BIGINT)"),
];
/// In a value that is written down as its length and its checksum, which no server answers.
const SHORTENED: &str = " bytes, CRC32C ";

type Row = BTreeMap<String, String>;

/// What a frozen store must answer whatever is written into it besides.
#[derive(Debug)]
pub(super) struct Frozen {
    name: &'static str,
    /// By database, schema and table.
    expected: BTreeMap<String, Vec<Row>>,
}

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/stores")
}

impl Frozen {
    pub(super) fn are_here() -> bool {
        stores().is_dir()
    }

    /// Copies one to where a life is to take place.
    pub(super) fn copied(data: &Path, random: &mut Random) -> Result<Option<Self>> {
        if !Self::are_here() {
            return Ok(None);
        }
        let name = *random.pick(&STORES);
        let folder = stores().join(name);
        copy_folder(&folder.join("data"), data)?;
        // The store that wrote it had synced it; a power cut must not take what the life did not write.
        sync_folder(data)?;
        let expected = fs::read(folder.join("expected.json")).with_context(|| name)?;
        let expected = serde_json::from_slice(&expected)?;
        Ok(Some(Self { name, expected }))
    }

    /// Asks for all its rows.
    pub(super) fn check(&self, server: &Server, tally: &mut Tally, label: &str) -> Result<()> {
        let is_shortened = |row: &Row| row.values().any(|value| value.contains(SHORTENED));
        for (table, rows) in &self.expected {
            // Of a table without rows no columns are written down.
            if rows.is_empty() || rows.iter().any(is_shortened) {
                continue;
            }
            tally.checks += 1;
            let label = format!("{label}, {}: {table}", self.name);
            if let Some(story) = difference(server, table, rows).context(label.clone())? {
                tally.altered += 1;
                tally.broke(format!("{label}: {story}"));
            }
        }
        Ok(())
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folder(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    fs::File::open(folder)?.sync_all()?;
    Ok(())
}

fn difference(server: &Server, name: &str, expected: &[Row]) -> Result<Option<String>> {
    let columns: BTreeSet<&String> = expected.iter().flat_map(Row::keys).collect();
    let [database, schema, table] = *name.split('.').collect::<Vec<_>>() else {
        bail!("{name} is no table of a schema");
    };
    let list: Vec<String> = columns
        .iter()
        .map(|column| {
            let mut shown = SHOWN.iter();
            let own = shown.find(|(of, stored, _)| *of == table && *stored == column.as_str());
            match (own, column.as_str()) {
                (Some((_, _, expression)), _) => format!("{expression} AS \"{column}\""),
                (None, "time") => "CAST(time AS BIGINT) AS time".to_owned(),
                (None, column) => format!("\"{column}\""),
            }
        })
        .collect();
    let statement = format!("SELECT {} FROM {schema}.\"{table}\"", list.join(", "));
    let answer = server.client().sql(database, &statement)?;
    if answer.status != 200 {
        bail!("{}: {:.300}", answer.status, answer.text());
    }
    let records = read_csv(&answer.text());
    let found = records.into_iter().skip(1).map(|cells| {
        let cells = columns.iter().zip(cells);
        // No text of theirs is empty, so that an empty cell is an absent one.
        let present = cells.filter(|(_, cell)| !cell.is_empty());
        present
            .map(|(column, cell)| ((*column).clone(), plain(&cell)))
            .collect()
    });
    let mut found: Vec<Row> = found.collect();
    let plainer = |row: &Row| {
        row.iter()
            .map(|(name, cell)| (name.clone(), plain(cell)))
            .collect()
    };
    let mut expected: Vec<Row> = expected.iter().map(plainer).collect();
    found.sort();
    expected.sort();
    if found == expected {
        return Ok(None);
    }
    let differ = found.iter().zip(&expected).find(|(a, b)| a != b);
    Ok(Some(format!(
        "{} rows of {}, first {differ:.500?}",
        found.len(),
        expected.len()
    )))
}

/// A value in one spelling: floats are spelled in more than one.
fn plain(cell: &str) -> String {
    match cell.parse::<f64>() {
        Ok(value) if cell.parse::<i128>().is_err() => format!("{value:?}"),
        _ => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_and_floats_are_spelled_alike() {
        for (cell, wanted) in [
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1e300"),
            ("1E+300", "1e300"),
            ("-0.0", "-0.0"),
            ("21.250", "21.25"),
            ("calm", "calm"),
        ] {
            assert_eq!(plain(cell), wanted);
        }
    }

    #[test]
    fn every_store_that_is_named_is_kept_and_answers() {
        for name in STORES {
            let folder = stores().join(name);
            assert!(folder.join("data").is_dir(), "{name}");
            assert!(folder.join("expected.json").is_file(), "{name}");
        }
    }
}
