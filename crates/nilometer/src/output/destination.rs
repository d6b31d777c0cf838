//! Output destinations: standard output, or a file that appears only when it is complete.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Format;
use super::pager::Pager;

/// Bytes that leave together.
const BUFFER_BYTES: usize = 256 << 10;

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum Destination {
    Stdout(BufWriter<std::io::Stdout>),
    Pager(Pager),
    File {
        out: BufWriter<File>,
        /// Its name until it is whole.
        partial: PathBuf,
        path: PathBuf,
    },
}

impl Destination {
    /// `-` and nothing are standard output. A terminal takes no binary format.
    pub(crate) fn open(path: Option<&Path>, format: Format) -> anyhow::Result<Self> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            if format.is_binary() && std::io::stdout().is_terminal() {
                bail!(
                    "{} is a binary format and not for a terminal; add --output FILE, or pipe it into another program",
                    format.name()
                );
            }
            let out = BufWriter::with_capacity(BUFFER_BYTES, std::io::stdout());
            return Ok(Self::Stdout(out));
        };
        if path.is_dir() {
            bail!("{} is a folder; give the name of a file", path.display());
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).with_context(|| {
            format!(
                "cannot write {}; choose another --output",
                partial.display()
            )
        })?;
        Ok(Self::File {
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            partial,
            path: path.to_owned(),
        })
    }

    pub(crate) fn writer(&mut self) -> &mut (dyn Write + Send) {
        match self {
            Self::Stdout(out) => out,
            Self::Pager(out) => out,
            Self::File { out, .. } => out,
        }
    }

    /// Ends what was written. Without it, no file comes to be.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        match &mut self {
            Self::Stdout(out) => out.flush().context("cannot write to standard output"),
            Self::Pager(out) => out.finish().context("cannot write to the terminal"),
            Self::File { out, partial, path } => {
                let written = out.flush().and_then(|()| out.get_ref().sync_all());
                written.with_context(|| format!("cannot write {}", partial.display()))?;
                std::fs::rename(&*partial, &*path).with_context(|| {
                    format!("cannot rename {} to {}", partial.display(), path.display())
                })
            }
        }
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // After a rename there is nothing under this name, and otherwise half a file helps nobody.
        if let Self::File { partial, .. } = self {
            drop(std::fs::remove_file(partial));
        }
    }
}

/// What became of an answer: who closed the pipe, as `head` does, has seen enough.
pub(crate) fn unless_closed(written: anyhow::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        written => written,
    }
}

/// Whether the reader of the answer is gone.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
