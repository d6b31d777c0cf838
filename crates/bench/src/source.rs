//! Sources of a load's batches: a batch file, whose text stays in the file, or plain line protocol, which is cut
//! into batches while it is read.
//!
//! Does: hand out batches in file order. Does not: parse lines beyond telling rows from comments and empty lines.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch_file::{BatchReader, FRAME_ROWS_MAX, Header, MAGIC};
use crate::{Error, Result};

/// Plain text is read in pieces of this size.
const READ_BYTES: usize = 1 << 20;
/// One line of plain text; longer means that this is no line protocol.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Text to send as the body of one request.
#[derive(Debug)]
pub(crate) enum Body {
    /// In a file, where the kernel can send it from without showing it to us.
    InFile {
        file: Arc<File>,
        offset: u64,
        bytes: u32,
    },
    /// In memory.
    InMemory(Vec<u8>),
}

impl Body {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::InFile { bytes, .. } => u64::from(*bytes),
            Self::InMemory(text) => text.len() as u64,
        }
    }
}

/// One request's worth of rows.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Its place in the file, from 0.
    pub(crate) number: u64,
    pub(crate) rows: u32,
    pub(crate) body: Body,
}

/// Batches in the order of the file.
#[derive(Debug)]
pub(crate) struct Source {
    kind: SourceKind,
    next_number: u64,
}

#[derive(Debug)]
enum SourceKind {
    Batches {
        reader: BatchReader<BufReader<File>>,
        file: Arc<File>,
        file_bytes: u64,
    },
    Lines(LineReader),
}

impl Source {
    /// Opens a file of either kind; `batch_rows` is for plain text.
    pub(crate) fn open(path: &Path, batch_rows: u32) -> Result<Self> {
        let open = || File::open(path).map_err(Error::io("open", path));
        let mut first = Vec::new();
        open()?
            .take(MAGIC.len() as u64)
            .read_to_end(&mut first)
            .map_err(Error::io("read", path))?;
        let not_loadable = |why| {
            Err(Error::NotLoadable {
                path: path.to_path_buf(),
                why,
            })
        };
        if first == MAGIC {
            let file = open()?;
            let file_bytes = file.metadata().map_err(Error::io("look at", path))?.len();
            let reader = BatchReader::open(BufReader::new(open()?), path)?;
            return Ok(Self {
                kind: SourceKind::Batches {
                    reader,
                    file: Arc::new(file),
                    file_bytes,
                },
                next_number: 0,
            });
        }
        if first.is_empty() {
            return not_loadable("the file is empty; make one with `nilometer bench generate`");
        }
        if first.starts_with(&[0x1f, 0x8b]) || first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return not_loadable(
                "the file is compressed; decompress it first, so that the loader's cost is not measured",
            );
        }
        if batch_rows == 0 || batch_rows > FRAME_ROWS_MAX {
            let what = format!(
                "batches have between 1 and {FRAME_ROWS_MAX} rows, {batch_rows} were asked for"
            );
            return Err(Error::Spec { what });
        }
        let reader = LineReader::new(open()?, path, batch_rows);
        Ok(Self {
            kind: SourceKind::Lines(reader),
            next_number: 0,
        })
    }

    /// What a batch file says about itself; plain text says nothing.
    pub(crate) fn header(&self) -> Option<&Header> {
        match &self.kind {
            SourceKind::Batches { reader, .. } => Some(reader.header()),
            SourceKind::Lines(_) => None,
        }
    }

    /// The next batch, or `None` at the end. `spare` is a buffer to fill, if there is one.
    pub(crate) fn next_batch(&mut self, spare: Option<Vec<u8>>) -> Result<Option<Batch>> {
        let (rows, body) = match &mut self.kind {
            SourceKind::Batches {
                reader,
                file,
                file_bytes,
            } => match reader.next_extent(*file_bytes)? {
                None => return Ok(None),
                Some(extent) => {
                    let body = Body::InFile {
                        file: Arc::clone(file),
                        offset: extent.offset,
                        bytes: extent.bytes,
                    };
                    (extent.rows, body)
                }
            },
            SourceKind::Lines(reader) => {
                let mut text = spare.unwrap_or_default();
                match reader.next_lines(&mut text)? {
                    0 => return Ok(None),
                    rows => (rows, Body::InMemory(text)),
                }
            }
        };
        let number = self.next_number;
        self.next_number += 1;
        Ok(Some(Batch { number, rows, body }))
    }
}

/// Cuts plain line protocol into batches at line ends. A line end within a quoted string counts as one, so such text
/// (no workload of ours has it) cannot be loaded from a plain file.
#[derive(Debug)]
struct LineReader<R = File> {
    input: R,
    path: PathBuf,
    batch_rows: u32,
    /// Text read beyond the batch handed out last.
    rest: Vec<u8>,
    ended: bool,
}

impl<R: Read> LineReader<R> {
    fn new(input: R, path: &Path, batch_rows: u32) -> Self {
        Self {
            input,
            path: path.to_path_buf(),
            batch_rows,
            rest: Vec::new(),
            ended: false,
        }
    }

    /// Fills `text` with the next `batch_rows` rows; returns how many there are, 0 at the end.
    fn next_lines(&mut self, text: &mut Vec<u8>) -> Result<u32> {
        text.clear();
        text.append(&mut self.rest);
        let (mut rows, mut line_begin, mut seen) = (0, 0, 0);
        loop {
            for end in memchr::memchr_iter(b'\n', &text[seen..]) {
                let end = seen + end;
                rows += u32::from(is_row(&text[line_begin..end]));
                line_begin = end + 1;
                if rows == self.batch_rows {
                    self.rest.extend_from_slice(&text[line_begin..]);
                    text.truncate(line_begin);
                    return Ok(rows);
                }
            }
            seen = text.len();
            if self.ended {
                return Ok(rows + u32::from(is_row(&text[line_begin..])));
            }
            if seen - line_begin > LINE_BYTES_MAX {
                let why = "a line is longer than 64 MiB, so this is not line protocol";
                return Err(Error::NotLoadable {
                    path: self.path.clone(),
                    why,
                });
            }
            let got = (&mut self.input)
                .take(READ_BYTES as u64)
                .read_to_end(text)
                .map_err(Error::io("read", &self.path))?;
            self.ended = got == 0;
        }
    }
}

/// Line protocol skips empty lines and comments, so they are not rows.
fn is_row(line: &[u8]) -> bool {
    line.trim_ascii()
        .first()
        .is_some_and(|first| *first != b'#')
}

#[cfg(test)]
mod tests {
    use super::LineReader;
    use std::path::Path;

    fn batches(text: &str, batch_rows: u32) -> Vec<(u32, String)> {
        let mut reader = LineReader::new(text.as_bytes(), Path::new("lines"), batch_rows);
        let mut out = Vec::new();
        loop {
            let mut batch = Vec::new();
            match reader.next_lines(&mut batch).unwrap() {
                0 => return out,
                rows => out.push((rows, String::from_utf8(batch).unwrap())),
            }
        }
    }

    #[test]
    fn plain_text_is_cut_at_line_ends() {
        let owned = |parts: &[(u32, &str)]| {
            parts
                .iter()
                .map(|(n, s)| (*n, (*s).to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            batches("a 1\nb 2\nc 3\n", 2),
            owned(&[(2, "a 1\nb 2\n"), (1, "c 3\n")])
        );
        assert_eq!(batches("a 1\nb 2", 2), owned(&[(2, "a 1\nb 2")]));
        assert_eq!(batches("a 1\nb 2", 1), owned(&[(1, "a 1\n"), (1, "b 2")]));
    }

    #[test]
    fn empty_lines_and_comments_are_not_rows() {
        assert_eq!(
            batches("# note\n\na 1\r\n\r\n", 1),
            [(1, "# note\n\na 1\r\n".to_owned())]
        );
        assert_eq!(batches("# note\n\n", 1), []);
    }

    proptest::proptest! {
        #[test]
        fn cutting_loses_no_row_and_no_byte_of_a_row(
            lines in proptest::collection::vec("[a-z#]{0,12}", 0..60), batch_rows in 1_u32..9, ended: bool,
        ) {
            let mut text = lines.join("\n");
            if ended {
                text.push('\n');
            }
            let parts = batches(&text, batch_rows);
            let expected = lines.iter().filter(|l| !l.is_empty() && !l.starts_with('#')).count();
            proptest::prop_assert_eq!(parts.iter().map(|(n, _)| *n as usize).sum::<usize>(), expected);
            // What is not handed out is what follows the last row: comments and empty lines.
            let joined: String = parts.iter().map(|(_, t)| t.as_str()).collect();
            proptest::prop_assert!(text.starts_with(&joined));
            let dropped = &text[joined.len()..];
            proptest::prop_assert!(dropped.lines().all(|l| l.is_empty() || l.starts_with('#')));
            for (rows, _) in &parts[..parts.len().saturating_sub(1)] {
                proptest::prop_assert_eq!(*rows, batch_rows);
            }
        }
    }
}
