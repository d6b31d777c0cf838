//! Files to import: finding them, opening them, telling what they are.
//!
//! Does: walk folders, inflate gzip and zstd by their first bytes, count what was read of a file, tell line protocol,
//! CSV and Parquet apart. Does not: read rows.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use clap::ValueEnum;
use flate2::read::MultiGzDecoder;

use super::format::exported::Head;

/// Bytes that are looked at to tell what a file is.
const PEEK_BYTES: usize = 64 << 10;

/// A line at the beginning that says what a file is has no more bytes, and these lines together not many more.
const HEAD_LINE_BYTES_MAX: u64 = 256;
const HEAD_BYTES_MAX: usize = 4096;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const PARQUET: &[u8] = b"PAR1";

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// `InfluxDB` line protocol.
    #[value(name = "lp", alias = "line-protocol")]
    LineProtocol,
    /// Text in columns, with their names in the first line.
    Csv,
    /// A Parquet file.
    Parquet,
}

/// Something to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// `None` = standard input.
    pub(super) path: Option<PathBuf>,
    /// Its size as it lies there; 0 if unknown.
    pub(super) bytes: u64,
    pub(super) format: FileFormat,
}

impl Input {
    /// How messages call it.
    pub(super) fn name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    /// The name of a table that is called like the file.
    pub(super) fn table(&self) -> Option<String> {
        let name = self.path.as_ref()?.file_name()?.to_str()?;
        let stem = name.split('.').next().filter(|stem| !stem.is_empty())?;
        Some(stem.to_owned())
    }
}

/// The inputs that the arguments name: files as they are, what folders hold, `-` for standard input.
pub(super) fn find(paths: &[PathBuf], format: Option<FileFormat>) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            inputs.push(Input {
                path: None,
                bytes: 0,
                format: format.unwrap_or(FileFormat::LineProtocol),
            });
        } else if path.is_dir() {
            let before = inputs.len();
            walk(path, format, &mut inputs)?;
            if inputs.len() == before {
                bail!(
                    "the folder {} has no file named .lp, .csv, .tsv or .parquet, nor one of these with .gz or .zst; name the files themselves",
                    path.display()
                );
            }
        } else {
            inputs.push(of_file(path, format)?);
        }
    }
    Ok(inputs)
}

fn walk(dir: &Path, format: Option<FileFormat>, inputs: &mut Vec<Input>) -> anyhow::Result<()> {
    let list = || format!("cannot list the folder {}", dir.display());
    let entries = std::fs::read_dir(dir).with_context(list)?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.with_context(list)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, format, inputs)?;
        } else if by_name(&path).is_some() {
            inputs.push(of_file(&path, format)?);
        }
    }
    Ok(())
}

fn of_file(path: &Path, format: Option<FileFormat>) -> anyhow::Result<Input> {
    let read = || format!("cannot read {}", path.display());
    let bytes = std::fs::metadata(path).with_context(read)?.len();
    let format = match format.or_else(|| by_name(path)) {
        Some(format) => format,
        None => by_content(&mut open_file(path, &Arc::default()).with_context(read)?)
            .with_context(read)?,
    };
    Ok(Input {
        path: Some(path.to_owned()),
        bytes,
        format,
    })
}

/// What the name says, without the ending of a compression.
fn by_name(path: &Path) -> Option<FileFormat> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let packed = [".gz", ".zst", ".zstd"];
    let bare = packed.iter().find_map(|ending| name.strip_suffix(ending));
    match bare.unwrap_or(&name).rsplit('.').next()? {
        "lp" | "line" | "influx" => Some(FileFormat::LineProtocol),
        "csv" | "tsv" => Some(FileFormat::Csv),
        "parquet" => Some(FileFormat::Parquet),
        _ => None,
    }
}

/// What the first bytes say: a line that reads as a point is line protocol.
fn by_content(text: &mut dyn BufRead) -> io::Result<FileFormat> {
    let peeked = text.fill_buf()?;
    if peeked.starts_with(PARQUET) {
        return Ok(FileFormat::Parquet);
    }
    if Head::of(peeked).is_export {
        return Ok(FileFormat::LineProtocol);
    }
    let mut lines = nilometer_lineproto::Lines::new(peeked);
    let first = lines.next().map(|(_, line)| line);
    let is_point = first.is_none_or(|line| {
        nilometer_lineproto::parse_line(line, 1, nilometer_lineproto::Precision::Auto).is_ok()
    });
    Ok(if is_point {
        FileFormat::LineProtocol
    } else {
        FileFormat::Csv
    })
}

/// The text of an input, inflated. `read` counts the bytes that left the file.
pub(super) fn open(
    input: &Input,
    read: &Arc<AtomicU64>,
) -> anyhow::Result<Box<dyn BufRead + Send>> {
    match &input.path {
        Some(path) => {
            open_file(path, read).with_context(|| format!("cannot read {}", path.display()))
        }
        None => inflate(io::stdin(), read).context("cannot read standard input"),
    }
}

/// The text of an input of line protocol, and what its first lines say of it.
pub(super) fn open_lines(
    input: &Input,
    read: &Arc<AtomicU64>,
) -> anyhow::Result<(Head, Box<dyn BufRead + Send>)> {
    let mut text = open(input, read)?;
    let mut first = Vec::new();
    let mut head = Head::default();
    while first.len() < HEAD_BYTES_MAX {
        let begin = first.len();
        (&mut text)
            .take(HEAD_LINE_BYTES_MAX)
            .read_until(b'\n', &mut first)
            .with_context(|| format!("cannot read {}", input.name()))?;
        let line = first.get(begin..).unwrap_or_default();
        if line.is_empty() || !head.add(line) {
            break;
        }
    }
    Ok((head, Box::new(Cursor::new(first).chain(text))))
}

fn open_file(path: &Path, read: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    inflate(File::open(path)?, read)
}

fn inflate(
    input: impl Read + Send + 'static,
    read: &Arc<AtomicU64>,
) -> io::Result<Box<dyn BufRead + Send>> {
    let mut input = Counted {
        input,
        read: Arc::clone(read),
    };
    let mut magic = Vec::with_capacity(4);
    (&mut input).take(4).read_to_end(&mut magic)?;
    let (is_gzip, is_zstd) = (magic.starts_with(GZIP), magic.starts_with(ZSTD));
    let whole = Cursor::new(magic).chain(input);
    Ok(if is_gzip {
        Box::new(BufReader::with_capacity(
            PEEK_BYTES,
            MultiGzDecoder::new(whole),
        ))
    } else if is_zstd {
        let inflated = zstd::stream::read::Decoder::new(whole)?;
        Box::new(BufReader::with_capacity(PEEK_BYTES, inflated))
    } else {
        Box::new(Peeked::new(whole)?)
    })
}

/// Text that is not compressed: its first bytes can be looked at, and the rest is read without another buffer.
struct Peeked<R> {
    first: Cursor<Vec<u8>>,
    rest: BufReader<R>,
}

impl<R: Read> Peeked<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let mut first = Vec::with_capacity(PEEK_BYTES);
        (&mut input)
            .take(PEEK_BYTES as u64)
            .read_to_end(&mut first)?;
        Ok(Self {
            first: Cursor::new(first),
            rest: BufReader::with_capacity(PEEK_BYTES, input),
        })
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.first.read(out)? {
            0 => self.rest.read(out),
            n => Ok(n),
        }
    }
}

impl<R: Read> BufRead for Peeked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.first.position() < self.first.get_ref().len() as u64 {
            self.first.fill_buf()
        } else {
            self.rest.fill_buf()
        }
    }

    fn consume(&mut self, bytes: usize) {
        if self.first.position() < self.first.get_ref().len() as u64 {
            self.first.consume(bytes);
        } else {
            self.rest.consume(bytes);
        }
    }
}

struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_a_file_is_shows_in_its_name_or_in_its_first_bytes() {
        for (name, want) in [
            ("a.lp", Some(FileFormat::LineProtocol)),
            ("a.LP.gz", Some(FileFormat::LineProtocol)),
            ("a.b.csv.zst", Some(FileFormat::Csv)),
            ("a.tsv", Some(FileFormat::Csv)),
            ("a.parquet", Some(FileFormat::Parquet)),
            ("a.txt", None),
            ("gz", None),
        ] {
            assert_eq!(by_name(Path::new(name)), want, "{name}");
        }
        for (text, want) in [
            ("m,host=a v=1 1\n", FileFormat::LineProtocol),
            ("# note\n\nm v=1", FileFormat::LineProtocol),
            (
                "# INFLUXDB EXPORT: a - b\n# DDL\nCREATE DATABASE d WITH NAME r\n",
                FileFormat::LineProtocol,
            ),
            ("time,host,v\n1,a,2\n", FileFormat::Csv),
            ("PAR1....", FileFormat::Parquet),
        ] {
            assert_eq!(by_content(&mut text.as_bytes()).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn every_compression_gives_the_same_text_and_counts_the_files_bytes() {
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let packed = [
            text.clone(),
            gzip.finish().unwrap(),
            zstd::encode_all(&text[..], 1).unwrap(),
        ];
        for bytes in packed {
            let read = Arc::new(AtomicU64::new(0));
            let (mut out, size) = (Vec::new(), bytes.len() as u64);
            let mut input = inflate(Cursor::new(bytes), &read).unwrap();
            assert!(!input.fill_buf().unwrap().is_empty());
            input.read_to_end(&mut out).unwrap();
            assert!(out == text);
            assert_eq!(read.load(Ordering::Relaxed), size);
        }
    }
}
