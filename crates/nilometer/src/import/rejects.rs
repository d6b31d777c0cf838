//! Lines that were not kept: the first few for the terminal, all that are known for a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::batch::Reject;
use crate::print::{self, thousands};

/// Lines that the terminal shows.
const SHOWN_MAX: usize = 10;

/// Characters of a line that the terminal shows.
const TEXT_SHOWN: usize = 80;

pub(super) struct Rejects {
    file: Option<(PathBuf, BufWriter<File>)>,
    shown: Vec<String>,
    total: u64,
    /// Counted by the server, but not named by it.
    unnamed: u64,
}

impl Rejects {
    /// `more` = after those of an earlier part of the import.
    pub(super) fn open(path: Option<&Path>, more: bool) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let mut options = File::options();
            let options = options
                .create(true)
                .append(more)
                .write(true)
                .truncate(!more);
            let file = options.open(path).with_context(|| {
                format!("cannot write {}; choose another --rejects", path.display())
            })?;
            anyhow::Ok((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self {
            file: path.map(open).transpose()?,
            shown: Vec::new(),
            total: 0,
            unnamed: 0,
        })
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Lines of one batch of the input called `name`, of `total`.
    pub(super) fn add(&mut self, name: &str, rejects: &[Reject], total: u64) -> anyhow::Result<()> {
        self.total += total;
        self.unnamed += total.saturating_sub(rejects.len() as u64);
        for reject in rejects {
            let place = format!("{name}:{}", reject.line);
            if let Some((path, file)) = &mut self.file {
                writeln!(
                    file,
                    "{place}: {}: {}",
                    one_line(&reject.reason),
                    one_line(&reject.text)
                )
                .with_context(|| format!("cannot write {}", path.display()))?;
            }
            if self.shown.len() < SHOWN_MAX {
                let text: String = one_line(&reject.text).chars().take(TEXT_SHOWN).collect();
                self.shown
                    .push(format!("{place}: {}\n    {text}", one_line(&reject.reason)));
            }
        }
        Ok(())
    }

    /// Says what was rejected; that is an error, because not everything is in.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if let Some((path, file)) = &mut self.file {
            file.flush()
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.total == 0 {
            return Ok(());
        }
        for shown in &self.shown {
            print::note(format!("{shown}\n"));
        }
        let total = match self.total {
            1 => "1 line was".to_owned(),
            n => format!("{} lines were", thousands(n)),
        };
        let unnamed = match self.unnamed {
            0 => String::new(),
            n => format!("; {} of them the server only counted", thousands(n)),
        };
        match &self.file {
            Some((path, _)) => bail!(
                "{total} rejected, the rest is imported{unnamed}; {} has them",
                path.display()
            ),
            None if self.shown.len() as u64 == self.total => {
                bail!("{total} rejected, the rest is imported")
            }
            None => {
                bail!("{total} rejected, the rest is imported{unnamed}; --rejects FILE lists them")
            }
        }
    }
}

fn one_line(text: &str) -> String {
    if !text.contains(|c: char| c.is_control()) {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
