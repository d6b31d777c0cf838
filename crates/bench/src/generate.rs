//! Writing a data set to a file, as a batch file or as plain line protocol.
//!
//! The file gets its name only when it is complete: until then it is `<name>.partial`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::batch_file::{BatchWriter, FRAME_ROWS_MAX, Header};
use crate::workload::Spec;
use crate::{Error, Result};

/// What kind of file to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Cut into batches ahead of time, see [`crate::batch_file`].
    BatchFile,
    /// Nothing but the lines, for other programs.
    LineProtocol,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Lines.
    pub rows: u64,
    /// Metric values.
    pub values: u64,
    /// Lines whose table, tags and time an earlier line has.
    pub replaced: u64,
    /// Bytes of line protocol.
    pub text_bytes: u64,
}

/// Makes the data set of `spec` and writes it to `path`, in batches of `batch_rows`; `progress` hears the rows so far.
pub fn generate(
    spec: &Spec,
    path: &Path,
    format: FileFormat,
    batch_rows: u32,
    mut progress: impl FnMut(u64),
) -> Result<Generated> {
    if batch_rows == 0 || batch_rows > FRAME_ROWS_MAX {
        return Err(Error::Spec {
            what: format!(
                "batches have between 1 and {FRAME_ROWS_MAX} rows, {batch_rows} were asked for"
            ),
        });
    }
    let header = Header::of(spec, batch_rows)?;
    let mut points = spec.points()?;
    let partial = partial_name(path);
    let file = File::create(&partial).map_err(Error::io("create", &partial))?;
    let mut sink = match format {
        FileFormat::BatchFile => {
            Sink::Batches(BatchWriter::begin(BufWriter::new(file), &partial, header)?)
        }
        FileFormat::LineProtocol => Sink::Lines(file),
    };
    let mut done = Generated {
        rows: 0,
        values: 0,
        replaced: 0,
        text_bytes: 0,
    };
    let mut text = Vec::new();
    loop {
        text.clear();
        let rows = points.write_batch(batch_rows, &mut text);
        if rows == 0 {
            break;
        }
        match &mut sink {
            Sink::Batches(writer) => writer.write_frame(rows, &text)?,
            Sink::Lines(file) => file
                .write_all(&text)
                .map_err(Error::io("write", &partial))?,
        }
        done.rows += u64::from(rows);
        done.text_bytes += text.len() as u64;
        progress(done.rows);
    }
    done.values = points.values();
    done.replaced = points.replaced();
    if let Sink::Batches(mut writer) = sink {
        writer.counted(done.values, done.replaced);
        writer.finish()?;
    }
    fs::rename(&partial, path).map_err(Error::io("rename to its final name", &partial))?;
    Ok(done)
}

enum Sink {
    Batches(BatchWriter<BufWriter<File>>),
    Lines(File),
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}
