//! The journal: each request on stable storage before it is sent, and its answer.
//!
//! Does: append a line for each thing that happens, sync where the line must be there first, read a journal again.
//! Does not: live on the disk that is under trial.
//!
//! A line is a word and numbers: `send w b`, `ack w b`, `shown w b`, `found w b`, `lost w b` for the batch b of the writer w;
//! `erase`, `erased`, `whole` for its delete; `make n`, `made n`, `absent n` for a table that is made, and `drop n`, `absent n` for
//! one that is dropped.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A batch: its writer, and its number among those of that writer.
pub type Name = (usize, u64);

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The batch is about to be sent.
    Send(Name),
    /// It was answered with 204.
    Ack(Name),
    /// It was refused, so it is not to be there.
    Refused(Name),
    /// A query has shown it, or a check has found it: from now on it must be there.
    Found(Name),
    /// A check after a restart did not find it, and nobody had promised it: from now on it must not be there.
    Lost(Name),
    /// Its delete is about to be sent.
    Erase(Name),
    /// The delete was answered, or a check has found it done.
    Erased(Name),
    /// The delete did not happen.
    Whole(Name),
    /// A table is about to be made.
    Make(u64),
    /// It was made.
    Made(u64),
    /// It is about to be dropped.
    Drop(u64),
    /// It was not made, or it was dropped.
    Absent(u64),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name) = match self {
            Self::Send(name) => ("send", name),
            Self::Ack(name) => ("ack", name),
            Self::Refused(name) => ("refused", name),
            Self::Found(name) => ("found", name),
            Self::Lost(name) => ("lost", name),
            Self::Erase(name) => ("erase", name),
            Self::Erased(name) => ("erased", name),
            Self::Whole(name) => ("whole", name),
            Self::Make(n) => return write!(f, "make {n}"),
            Self::Made(n) => return write!(f, "made {n}"),
            Self::Drop(n) => return write!(f, "drop {n}"),
            Self::Absent(n) => return write!(f, "absent {n}"),
        };
        write!(f, "{word} {} {}", name.0, name.1)
    }
}

impl Entry {
    /// Reads a line; `None` if it is none of ours.
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match *words.as_slice() {
            [word, n] => {
                let n = n.parse().ok()?;
                match word {
                    "make" => Self::Make(n),
                    "made" => Self::Made(n),
                    "drop" => Self::Drop(n),
                    "absent" => Self::Absent(n),
                    _ => return None,
                }
            }
            [word, writer, batch] => {
                let name = (writer.parse().ok()?, batch.parse().ok()?);
                match word {
                    "send" => Self::Send(name),
                    "ack" => Self::Ack(name),
                    "refused" => Self::Refused(name),
                    "found" => Self::Found(name),
                    "lost" => Self::Lost(name),
                    "erase" => Self::Erase(name),
                    "erased" => Self::Erased(name),
                    "whole" => Self::Whole(name),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Whether the line must be on stable storage before anything else happens.
    fn comes_first(self) -> bool {
        matches!(
            self,
            Self::Send(_) | Self::Erase(_) | Self::Make(_) | Self::Drop(_)
        )
    }
}

/// The file.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// A new journal; a file of that name is an error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        Ok(Self(file))
    }

    /// Appends a line; one that must come first is on stable storage when this returns.
    pub fn append(&mut self, entry: Entry) -> io::Result<()> {
        self.0.write_all(format!("{entry}\n").as_bytes())?;
        if entry.comes_first() {
            self.0.sync_data()?;
        }
        Ok(())
    }

    /// Reads a journal again.
    pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
        let text = std::fs::read_to_string(path)?;
        text.lines()
            .map(|line| {
                Entry::parse(line).ok_or_else(|| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{}: {line:?} is no line of a journal", path.display()),
                    )
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_as_it_was_written() {
        let name = (3, 17);
        let entries = [
            Entry::Send(name),
            Entry::Ack(name),
            Entry::Refused(name),
            Entry::Found(name),
            Entry::Lost(name),
            Entry::Erase(name),
            Entry::Erased(name),
            Entry::Whole(name),
            Entry::Make(5),
            Entry::Made(5),
            Entry::Absent(5),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::create(&path).unwrap();
        for entry in entries {
            journal.append(entry).unwrap();
        }
        assert_eq!(Journal::read(&path).unwrap(), entries);
        assert!(Journal::create(&path).is_err());
    }

    #[test]
    fn a_line_of_another_kind_is_refused() {
        for line in [
            "",
            "send",
            "send 1",
            "send x 1",
            "make 1 2",
            "send 1 2 3",
            "sent 1 2",
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }
}
