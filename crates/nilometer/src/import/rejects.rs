//! Lines that were not kept: the first few for the terminal, all that are known for files that can be mended and imported
//! again.
//!
//! Does: write the lines as they were. Those of line protocol have the reason in a comment above them; those of CSV and
//! Parquet are CSV with the heading of their input, and their reasons are in a file beside it. Inputs with another heading
//! get a file of their own. Does not: mend anything.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};

use super::batch::Reject;
use super::input::FileFormat;
use crate::print::{self, thousands};

/// Lines that the terminal shows.
const SHOWN_MAX: usize = 10;

/// Characters of a line that the terminal shows.
const TEXT_SHOWN: usize = 80;

pub(super) struct Rejects {
    wanted: Option<PathBuf>,
    /// Go on with files that are there.
    more: bool,
    files: Vec<RejectFile>,
    shown: Vec<String>,
    total: u64,
    /// Counted by the server, but not named by it.
    unnamed: u64,
}

/// What the lines of a file have in common.
#[derive(Debug, PartialEq, Eq)]
struct Form {
    is_csv: bool,
    heading: Option<Arc<[u8]>>,
}

struct RejectFile {
    form: Form,
    path: PathBuf,
    lines: BufWriter<File>,
    /// Of CSV, which has no comments.
    reasons: Option<(PathBuf, BufWriter<File>)>,
}

impl Rejects {
    /// `more` = after those of an earlier part of the import.
    pub(super) fn open(path: Option<&Path>, more: bool) -> anyhow::Result<Self> {
        if let Some(path) = path {
            // Better now than after an hour.
            open(path, more)?;
        }
        Ok(Self {
            wanted: path.map(Path::to_owned),
            more,
            files: Vec::new(),
            shown: Vec::new(),
            total: 0,
            unnamed: 0,
        })
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Lines of one batch of the input called `name`, of `total`.
    pub(super) fn add(
        &mut self,
        name: &str,
        format: FileFormat,
        rejects: &[Reject],
        total: u64,
    ) -> anyhow::Result<()> {
        self.total += total;
        self.unnamed += total.saturating_sub(rejects.len() as u64);
        for reject in rejects {
            let place = format!("{name}:{}", reject.line);
            let reason = one_line(&reject.reason);
            if self.wanted.is_some() {
                let form = Form {
                    is_csv: format != FileFormat::LineProtocol,
                    heading: reject.heading.clone(),
                };
                self.file(form)?.add(&place, &reason, &reject.text)?;
            }
            if self.shown.len() < SHOWN_MAX {
                let text = String::from_utf8_lossy(&reject.text);
                let text: String = one_line(&text).chars().take(TEXT_SHOWN).collect();
                self.shown.push(format!("{place}: {reason}\n    {text}"));
            }
        }
        Ok(())
    }

    /// The file for lines of this form.
    fn file(&mut self, form: Form) -> anyhow::Result<&mut RejectFile> {
        let known = self.files.iter().position(|file| file.form == form);
        let at = if let Some(at) = known {
            at
        } else {
            let wanted = self.wanted.clone().unwrap_or_default();
            let path = numbered(&wanted, self.files.len() + 1);
            self.files.push(RejectFile::open(path, form, self.more)?);
            self.files.len() - 1
        };
        self.files
            .get_mut(at)
            .context("there is no file for rejected lines")
    }

    /// Says what was rejected; that is an error, because not everything is in. `all_read` = every input was read to its
    /// end.
    pub(super) fn finish(mut self, all_read: bool) -> anyhow::Result<()> {
        for file in &mut self.files {
            file.finish()?;
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
        let rest = if all_read {
            "the rest is imported"
        } else {
            "the rest of what could be read is imported"
        };
        let unnamed = match self.unnamed {
            0 => String::new(),
            n => format!("; {} of them the server only counted", thousands(n)),
        };
        let files: Vec<String> = self.files.iter().map(RejectFile::name).collect();
        if !files.is_empty() {
            bail!(
                "{total} rejected, {rest}{unnamed}; {}, to be mended and imported again",
                files.join(", ")
            );
        }
        if self.shown.len() as u64 == self.total {
            bail!("{total} rejected, {rest}");
        }
        bail!("{total} rejected, {rest}{unnamed}; --rejects FILE lists them");
    }
}

impl RejectFile {
    fn open(path: PathBuf, form: Form, more: bool) -> anyhow::Result<Self> {
        let lines = open(&path, more)?;
        let is_new = lines.metadata().map_or(true, |known| known.len() == 0);
        let reasons = if form.is_csv {
            let mut beside = path.clone().into_os_string();
            beside.push(".reasons");
            let beside = PathBuf::from(beside);
            let file = BufWriter::new(open(&beside, more)?);
            Some((beside, file))
        } else {
            None
        };
        let mut file = Self {
            lines: BufWriter::new(lines),
            path,
            reasons,
            form,
        };
        if let (true, Some(heading)) = (is_new, file.form.heading.clone()) {
            file.write(&heading)?;
        }
        Ok(file)
    }

    fn name(&self) -> String {
        match &self.reasons {
            Some((reasons, _)) => format!(
                "{} has them and {} the reasons",
                self.path.display(),
                reasons.display()
            ),
            None => format!("{} has them", self.path.display()),
        }
    }

    fn write(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.lines
            .write_all(line)
            .and_then(|()| self.lines.write_all(b"\n"))
            .with_context(|| cannot_write(&self.path))
    }

    fn add(&mut self, place: &str, reason: &str, text: &[u8]) -> anyhow::Result<()> {
        match &mut self.reasons {
            Some((path, reasons)) => {
                writeln!(reasons, "{place}: {reason}").with_context(|| cannot_write(path))?;
            }
            None => self.write(format!("# {place}: {reason}").as_bytes())?,
        }
        self.write(text)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.lines
            .flush()
            .with_context(|| cannot_write(&self.path))?;
        if let Some((path, reasons)) = &mut self.reasons {
            reasons.flush().with_context(|| cannot_write(path))?;
        }
        Ok(())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

fn open(path: &Path, more: bool) -> anyhow::Result<File> {
    let mut options = File::options();
    let options = options
        .create(true)
        .append(more)
        .write(true)
        .truncate(!more);
    options
        .open(path)
        .with_context(|| format!("{}; choose another --rejects", cannot_write(path)))
}

/// `rejects.csv`, then `rejects-2.csv` and so on.
fn numbered(path: &Path, nth: usize) -> PathBuf {
    if nth == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{nth}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{nth}"),
    };
    path.with_file_name(name)
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
