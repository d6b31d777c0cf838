//! The note beside a file that was put aside: text for people, read back to be listed.
//!
//! Does: write, and read what it wrote or somebody changed. Does not: fail for a note that does not read: the file is
//! still listed, as one of which nothing is known. Layout: `docs/format/quarantine.md`.

use std::fmt::Write as _;
use std::path::Path;

use crate::disk::{Disk, read_exact_at, write_all_at};
use crate::engine::repair::damaged::{Quarantined, QuarantinedTable};
use crate::error::Error;
use crate::layout::remove_if_there;
use crate::schema::TableId;

const ENDING: &str = ".reason";
const FIRST_LINE: &str = "nilometer quarantine 0";
/// A note with more is none of ours.
const BYTES_MAX: u64 = 1 << 20;

pub(super) fn name_of(file: &str) -> String {
    format!("{file}{ENDING}")
}

/// The file that a note of this name is about.
pub(super) fn subject(note: &str) -> Option<&str> {
    note.strip_suffix(ENDING)
}

/// Writes and syncs the note about `name` into `to`; the folder's names are the caller's to sync.
pub(super) fn write(
    disk: &dyn Disk,
    to: &Path,
    name: &str,
    dir: &Path,
    entry: &Quarantined,
) -> Result<(), Error> {
    let path = to.join(name_of(name));
    remove_if_there(disk, &path)?;
    let file = disk.create(&path).map_err(Error::io("create", &path))?;
    write_all_at(file.as_ref(), encode(dir, entry).as_bytes(), 0)
        .map_err(Error::io("write", &path))?;
    file.sync().map_err(Error::io("sync", &path))
}

/// Reads the note about `name` in the folder `from` of the data directory `dir`.
pub(super) fn read(
    disk: &dyn Disk,
    dir: &Path,
    from: &Path,
    name: &str,
) -> Result<Quarantined, Error> {
    let text = text_of(disk, &from.join(name_of(name)))?;
    let mut entry = decode(dir, &text).unwrap_or_else(|| Quarantined {
        file: dir.join(name),
        kept: None,
        offset: 0,
        reason: "there is no note about it that reads".to_owned(),
        time_ns: 0,
        bytes: 0,
        rows: None,
        series: None,
        lsns: None,
        tables: Vec::new(),
    });
    let kept = from.join(name);
    let names = disk.list(from).map_err(Error::io("list", from))?;
    entry.kept = names.iter().any(|other| other == name).then_some(kept);
    Ok(entry)
}

/// The text of a note; none if there is no note.
fn text_of(disk: &dyn Disk, path: &Path) -> Result<String, Error> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(Error::io("open", path))?,
    };
    let size = file.size().map_err(Error::io("read", path))?;
    let mut bytes = vec![0; usize::try_from(size.min(BYTES_MAX)).unwrap_or(0)];
    read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn encode(dir: &Path, entry: &Quarantined) -> String {
    let mut out = format!("{FIRST_LINE}\n");
    // What is wrong is told on one line, whatever the system's or the path's text has in it.
    let line = |text: &str| text.replace(char::is_control, " ");
    let file = entry.file.strip_prefix(dir).unwrap_or(&entry.file);
    let mut put = |name: &str, value: String| {
        writeln!(out, "{name}: {value}").expect("text grows without failing");
    };
    put("file", line(&file.display().to_string()));
    put("offset", entry.offset.to_string());
    put("reason", line(&entry.reason));
    put("time", entry.time_ns.to_string());
    put("bytes", entry.bytes.to_string());
    if let Some(rows) = entry.rows {
        put("rows", rows.to_string());
    }
    if let Some(series) = entry.series {
        put("series", series.to_string());
    }
    if let Some((first, last)) = entry.lsns {
        put("lsns", format!("{first} {last}"));
    }
    for table in &entry.tables {
        if let Some(series) = table.series {
            put("lost", format!("{} {series}", table.id.0));
        }
        let rows = table
            .rows
            .map_or_else(|| "?".to_owned(), |rows| rows.to_string());
        let (first, last) = table.times;
        let name = line(table.name.as_deref().unwrap_or_default());
        put(
            "table",
            format!("{} {rows} {first} {last} {name}", table.id.0),
        );
    }
    out
}

/// What a note says; lines that say something else are left out.
fn decode(dir: &Path, text: &str) -> Option<Quarantined> {
    let mut lines = text.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let value = |name: &str| {
        let found = fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| *value)
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    let lsns = value("lsns").and_then(|pair| {
        let (first, last) = pair.split_once(' ')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    });
    let tables = fields.iter().filter(|(field, _)| *field == "table");
    let lost = fields.iter().filter(|(field, _)| *field == "lost");
    let lost: Vec<(u32, u64)> = lost
        .filter_map(|(_, value)| {
            let (id, series) = value.split_once(' ')?;
            Some((id.parse().ok()?, series.parse().ok()?))
        })
        .collect();
    let with_series = |mut table: QuarantinedTable| {
        let mut lost = lost.iter();
        let own = lost.find(|(id, _)| *id == table.id.0);
        table.series = own.map(|(_, series)| *series);
        table
    };
    Some(Quarantined {
        file: dir.join(value("file")?),
        kept: None,
        offset: number("offset")?,
        reason: value("reason")?.to_owned(),
        time_ns: value("time")?.parse().ok()?,
        bytes: number("bytes")?,
        rows: number("rows"),
        series: number("series"),
        lsns,
        tables: tables
            .filter_map(|(_, value)| table(value).map(with_series))
            .collect(),
    })
}

/// Any bytes as a note; what reads must be written so that it reads the same. See `crate::hostile`.
pub(super) fn hostile(bytes: &[u8]) {
    let dir = Path::new("/d");
    let text = String::from_utf8_lossy(bytes);
    if let Some(entry) = decode(dir, &text) {
        let again = decode(dir, &encode(dir, &entry)).expect("what was written reads");
        let twice = decode(dir, &encode(dir, &again)).expect("what was written reads");
        assert!(again == twice, "a note reads as something else each time");
    }
}

fn table(value: &str) -> Option<QuarantinedTable> {
    let mut parts = value.splitn(5, ' ');
    let id = TableId(parts.next()?.parse().ok()?);
    let rows = parts.next()?.parse().ok();
    let times = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let name = parts.next().filter(|name| !name.is_empty());
    Some(QuarantinedTable {
        id,
        name: name.map(str::to_owned),
        rows,
        series: None,
        times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> Quarantined {
        Quarantined {
            file: Path::new("/d/segments/0000000000000002.seg").to_owned(),
            kept: None,
            offset: 512,
            reason: "the footer fails its checksum".to_owned(),
            time_ns: -5,
            bytes: 1000,
            rows: Some(7),
            series: Some(12),
            lsns: Some((3, 9)),
            tables: vec![
                QuarantinedTable {
                    id: TableId(4),
                    name: Some("d.public.two words".to_owned()),
                    rows: Some(6),
                    series: None,
                    times: (i64::MIN, i64::MAX),
                },
                QuarantinedTable {
                    id: TableId(5),
                    name: None,
                    rows: None,
                    series: Some(12),
                    times: (1, 2),
                },
            ],
        }
    }

    #[test]
    fn a_note_is_the_text_of_the_format_page_and_reads_back() {
        let text = encode(Path::new("/d"), &entry());
        let expected = "nilometer quarantine 0\n\
            file: segments/0000000000000002.seg\n\
            offset: 512\n\
            reason: the footer fails its checksum\n\
            time: -5\n\
            bytes: 1000\n\
            rows: 7\n\
            series: 12\n\
            lsns: 3 9\n\
            table: 4 6 -9223372036854775808 9223372036854775807 d.public.two words\n\
            lost: 5 12\n\
            table: 5 ? 1 2 \n";
        assert_eq!(text, expected);
        assert_eq!(decode(Path::new("/d"), &text), Some(entry()));
        // A directory that was moved has its files elsewhere.
        let moved = decode(Path::new("/e"), &text).unwrap();
        assert_eq!(
            moved.file,
            Path::new("/e/segments/0000000000000002.seg").to_owned()
        );
    }

    proptest! {
        #[test]
        fn any_reason_reads_back_on_one_line(reason in ".*") {
            let mut entry = entry();
            entry.reason = reason;
            let read = decode(Path::new("/d"), &encode(Path::new("/d"), &entry)).unwrap();
            prop_assert_eq!(read.reason, entry.reason.replace(char::is_control, " "));
            prop_assert_eq!(read.tables, entry.tables);
        }

        #[test]
        fn no_text_is_too_strange_to_be_looked_at(text in "(nilometer quarantine 0\n)?([a-z]{0,6}: ?[-0-9 ?a-z]*\n|.*\n)*") {
            decode(Path::new("/d"), &text);
        }
    }
}
