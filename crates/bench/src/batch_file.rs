//! Batch files: line protocol cut into batches ahead of time, so that a loader neither searches for line ends nor copies.
//!
//! Does: write and read the format of `docs/format/batch-file.md`. Does not: look into the text, or know sockets.
//!
//! ```text
//! NILOBAT0 | u32 header bytes | JSON, padded with spaces | u32 rows, u32 bytes, text | ... | 0, 0
//! ```
//!
//! The writer knows the length of all text only at the end, hence the padding: it comes back and writes the header over
//! the first one. A file without its trailer is refused, so an interrupted generation is never half a data set.

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::workload::{RANDOM, Spec, Workload};
use crate::{Error, Result};

/// The version this program writes, and the newest it reads.
pub const VERSION: char = '0';
/// The first bytes of every batch file, before the version.
pub const MAGIC: &[u8; 7] = b"NILOBAT";
/// Text of one frame. Servers refuse far smaller bodies; the bound keeps a damaged length from asking for gigabytes.
pub const FRAME_BYTES_MAX: u32 = 256 << 20;
/// Rows of one frame, so that its text stays far below its bound.
pub const FRAME_ROWS_MAX: u32 = 200_000;
/// The JSON header with its padding.
const HEADER_BYTES_MAX: u32 = 64 << 10;
const HEADER_BYTES: u32 = 1024;

/// What a batch file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The suite's name of the workload.
    pub workload: Workload,
    /// Seed of the random numbers.
    pub seed: u64,
    /// How random numbers were made from the seed.
    pub random: String,
    /// Number of hosts, or of trucks.
    pub hosts: u32,
    /// Lines in the file.
    pub rows: u64,
    /// Metric values in the file.
    pub values: u64,
    /// Lines whose table, tags and time an earlier line has: a database shows so many rows fewer.
    #[serde(default)]
    pub replaced: u64,
    /// Rows of every frame but the last, which may have fewer.
    pub batch_rows: u32,
    /// Time of the first points, nanoseconds since 1970.
    pub start_ns: i64,
    /// No point is at or after this time.
    pub end_ns: i64,
    /// Time from a point of a host to its next.
    pub interval_ns: i64,
    /// Bytes of line protocol in all frames.
    pub text_bytes: u64,
}

impl Header {
    /// The header of a data set whose text is not written yet.
    pub fn of(spec: &Spec, batch_rows: u32) -> Result<Self> {
        Ok(Self {
            workload: spec.workload,
            seed: spec.seed,
            random: RANDOM.to_owned(),
            hosts: spec.hosts,
            rows: spec.rows()?,
            values: spec.values()?,
            replaced: 0,
            batch_rows,
            start_ns: spec.start_ns,
            end_ns: spec.end_ns,
            interval_ns: spec.interval_ns,
            text_bytes: 0,
        })
    }

    /// The data set it describes.
    pub fn spec(&self) -> Spec {
        Spec {
            workload: self.workload,
            hosts: self.hosts,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            interval_ns: self.interval_ns,
            seed: self.seed,
        }
    }
}

/// Writes a batch file front to back.
#[derive(Debug)]
pub struct BatchWriter<W> {
    output: W,
    path: PathBuf,
    header: Header,
    rows: u64,
}

impl<W: Write + Seek> BatchWriter<W> {
    /// Writes magic and a first header. `path` is for messages.
    pub fn begin(output: W, path: &Path, header: Header) -> Result<Self> {
        let mut writer = Self {
            output,
            path: path.to_path_buf(),
            header,
            rows: 0,
        };
        writer.header.text_bytes = 0;
        writer.write_header()?;
        Ok(writer)
    }

    /// Appends a batch of `rows` lines.
    pub fn write_frame(&mut self, rows: u32, text: &[u8]) -> Result<()> {
        let bytes = u32::try_from(text.len())
            .ok()
            .filter(|bytes| *bytes <= FRAME_BYTES_MAX);
        let Some(bytes) = bytes.filter(|bytes| *bytes > 0 && rows > 0 && rows <= FRAME_ROWS_MAX)
        else {
            return Err(Error::Spec {
                what: format!(
                    "a batch of {rows} rows and {} bytes does not fit a batch file; give between 1 and {FRAME_ROWS_MAX} rows",
                    text.len()
                ),
            });
        };
        self.rows += u64::from(rows);
        self.header.text_bytes += u64::from(bytes);
        let mut lengths = [0; 8];
        lengths[..4].copy_from_slice(&rows.to_le_bytes());
        lengths[4..].copy_from_slice(&bytes.to_le_bytes());
        self.put(&lengths)?;
        self.put(text)
    }

    /// What is known of the text that was written: its metric values, and its lines that replace an earlier one.
    pub fn counted(&mut self, values: u64, replaced: u64) {
        self.header.values = values;
        self.header.replaced = replaced;
    }

    /// Writes the trailer and the final header; gives the output and that header back.
    pub fn finish(mut self) -> Result<(W, Header)> {
        self.put(&[0; 8])?;
        self.header.rows = self.rows;
        self.output
            .seek(SeekFrom::Start(0))
            .map_err(Error::io("seek in", &self.path))?;
        self.write_header()?;
        self.output
            .flush()
            .map_err(Error::io("write", &self.path))?;
        Ok((self.output, self.header))
    }

    fn write_header(&mut self) -> Result<()> {
        let mut json =
            serde_json::to_vec(&self.header).expect("a struct of numbers and text is always JSON");
        assert!(
            json.len() <= HEADER_BYTES as usize,
            "the header has fixed fields, of which the longest fit"
        );
        json.resize(HEADER_BYTES as usize, b' ');
        self.put(MAGIC)?;
        self.put(&[VERSION as u8])?;
        self.put(&HEADER_BYTES.to_le_bytes())?;
        self.put(&json)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.output
            .write_all(bytes)
            .map_err(Error::io("write", &self.path))
    }
}

/// A batch of a file that was not read into memory: where its text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Lines in the text.
    pub rows: u32,
    /// Where the text begins.
    pub offset: u64,
    /// How long the text is.
    pub bytes: u32,
}

/// Reads a batch file front to back, and stops at the first contradiction.
#[derive(Debug)]
pub struct BatchReader<R> {
    input: R,
    path: PathBuf,
    header: Header,
    /// Where the next byte read lies.
    offset: u64,
    rows: u64,
    text_bytes: u64,
    ended: bool,
}

impl<R: BufRead> BatchReader<R> {
    /// Reads magic and header. `path` is for messages.
    pub fn open(input: R, path: &Path) -> Result<Self> {
        let header = Header {
            workload: Workload::CpuOnly,
            seed: 0,
            random: String::new(),
            hosts: 0,
            rows: 0,
            values: 0,
            replaced: 0,
            batch_rows: 0,
            start_ns: 0,
            end_ns: 0,
            interval_ns: 0,
            text_bytes: 0,
        };
        let mut reader = Self {
            input,
            path: path.to_path_buf(),
            header,
            offset: 0,
            rows: 0,
            text_bytes: 0,
            ended: false,
        };
        let magic: [u8; 8] = reader.take("the magic number")?;
        let Some(&version) = magic.strip_prefix(MAGIC).and_then(|rest| rest.first()) else {
            let why = "this is not a batch file; make one with `nilometer bench generate`";
            return Err(Error::NotLoadable {
                path: reader.path,
                why,
            });
        };
        if version != VERSION as u8 {
            return Err(Error::NewerBatchFile {
                path: reader.path,
                version: char::from(version),
                newest: VERSION,
            });
        }
        let length = u32::from_le_bytes(reader.take("the length of the header")?);
        if length > HEADER_BYTES_MAX {
            return Err(reader.damaged(format!(
                "a header of {length} bytes; at most {HEADER_BYTES_MAX} are allowed"
            )));
        }
        let at = reader.offset;
        let mut json = Vec::new();
        reader.take_into(length, "the header", &mut json)?;
        reader.header = serde_json::from_slice(&json).map_err(|e| Error::Damaged {
            path: reader.path.clone(),
            offset: at,
            why: format!("the header is not the JSON of a batch file ({e})"),
        })?;
        Ok(reader)
    }

    /// What the file says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next batch into `text`, which is cleared first; returns its rows, and `None` after the last.
    pub fn next_frame(&mut self, text: &mut Vec<u8>) -> Result<Option<u32>> {
        text.clear();
        let Some((rows, bytes)) = self.next_lengths()? else {
            return Ok(None);
        };
        self.take_into(bytes, "the text of a batch", text)?;
        if text.last() != Some(&b'\n') {
            return Err(self.damaged("the text of a batch does not end with a line end".to_owned()));
        }
        Ok(Some(rows))
    }

    /// The lengths of the next frame, or `None` at a trailer that agrees with the header.
    fn next_lengths(&mut self) -> Result<Option<(u32, u32)>> {
        if self.ended {
            return Ok(None);
        }
        let rows = u32::from_le_bytes(self.take("the row count of a batch")?);
        let bytes = u32::from_le_bytes(self.take("the length of a batch")?);
        if rows == 0 && bytes == 0 {
            return self.check_end().map(|()| None);
        }
        // A row is at least its line end, so more rows than bytes is a contradiction too.
        if rows == 0 || rows > bytes || bytes > FRAME_BYTES_MAX {
            return Err(self.damaged(format!("a batch of {rows} rows and {bytes} bytes")));
        }
        self.rows += u64::from(rows);
        self.text_bytes += u64::from(bytes);
        Ok(Some((rows, bytes)))
    }

    fn check_end(&mut self) -> Result<()> {
        if (self.rows, self.text_bytes) != (self.header.rows, self.header.text_bytes) {
            return Err(self.damaged(format!(
                "the batches have {} rows in {} bytes, the header says {} in {}",
                self.rows, self.text_bytes, self.header.rows, self.header.text_bytes
            )));
        }
        let rest = self
            .input
            .fill_buf()
            .map_err(Error::io("read", &self.path))?;
        if !rest.is_empty() {
            return Err(self.damaged("bytes follow the trailer".to_owned()));
        }
        self.ended = true;
        Ok(())
    }

    fn take<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|e| {
            if e.kind() == io::ErrorKind::UnexpectedEof {
                Error::Truncated {
                    path: self.path.clone(),
                    offset: self.offset,
                    part,
                }
            } else {
                Error::io("read", &self.path)(e)
            }
        })?;
        self.offset += N as u64;
        Ok(bytes)
    }

    /// Reads `length` bytes. The buffer grows as bytes arrive, never on the word of a length alone.
    fn take_into(&mut self, length: u32, part: &'static str, out: &mut Vec<u8>) -> Result<()> {
        let got = (&mut self.input)
            .take(u64::from(length))
            .read_to_end(out)
            .map_err(Error::io("read", &self.path))?;
        if got < length as usize {
            return Err(Error::Truncated {
                path: self.path.clone(),
                offset: self.offset + got as u64,
                part,
            });
        }
        self.offset += u64::from(length);
        Ok(())
    }

    fn damaged(&self, why: String) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            offset: self.offset,
            why,
        }
    }
}

impl<R: BufRead + Seek> BatchReader<R> {
    /// Skips the next batch and says where its text lies; `None` after the last. The text itself is not looked at.
    /// `file_bytes` is the length of the whole file.
    pub fn next_extent(&mut self, file_bytes: u64) -> Result<Option<Extent>> {
        let Some((rows, bytes)) = self.next_lengths()? else {
            return Ok(None);
        };
        let offset = self.offset;
        if file_bytes - offset.min(file_bytes) < u64::from(bytes) {
            let part = "the text of a batch";
            return Err(Error::Truncated {
                path: self.path.clone(),
                offset: file_bytes,
                part,
            });
        }
        self.input
            .seek_relative(i64::from(bytes))
            .map_err(Error::io("seek in", &self.path))?;
        self.offset += u64::from(bytes);
        Ok(Some(Extent {
            rows,
            offset,
            bytes,
        }))
    }
}
