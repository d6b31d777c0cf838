//! Line protocol in pieces of whole lines, without reading what the lines say.
//!
//! The pieces depend on the text alone, never on how it was read: an import that goes on later cuts the same ones, and
//! the server knows again what it has.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memrchr};
use nilometer_lineproto::line_end;

/// Lines of a piece: enough that the cost of a request is spread thin.
const LINES_MAX: usize = 10_000;

/// Bytes of a piece, unless one line is longer.
const BYTES_MAX: usize = 8 << 20;

/// A longer line is none: the file is something else.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Some whole lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: Vec<u8>,
    /// Offset in the input of its first byte.
    pub(super) begin: u64,
    /// Number in the input of its first line, from 1.
    pub(super) line: u64,
    /// Lines that hold points.
    pub(super) rows: u64,
}

/// Cuts an input.
pub(super) struct Cutter<R> {
    input: R,
    buffer: Vec<u8>,
    ended: bool,
    /// The input is cut off; what is in the buffer is what there is of it.
    broken: Option<io::Error>,
    begin: u64,
    line: u64,
}

impl<R: Read> Cutter<R> {
    /// `begin` and `line` say where in a longer text the input starts.
    pub(super) fn new(input: R, begin: u64, line: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            ended: false,
            broken: None,
            begin,
            line,
        }
    }

    /// The next piece, `None` at the end. Of an input that is cut off, its whole lines come before the error.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut wanted = BYTES_MAX;
        loop {
            self.fill(wanted)?;
            if self.buffer.is_empty() && self.broken.is_none() {
                return Ok(None);
            }
            if let Some((bytes, rows)) = cut(&self.buffer, wanted, self.ended) {
                let rest = self.buffer.split_off(bytes);
                let text = std::mem::replace(&mut self.buffer, rest);
                let (begin, line) = (self.begin, self.line);
                self.begin += bytes as u64;
                self.line += memchr_iter(b'\n', &text).count() as u64;
                return Ok(Some(Piece {
                    text,
                    begin,
                    line,
                    rows,
                }));
            }
            if let Some(error) = self.broken.take() {
                let kind = error.kind();
                let what = format!("{error}, in line {}", self.line);
                return Err(io::Error::new(kind, what));
            }
            if wanted >= LINE_BYTES_MAX {
                return Err(io::Error::other(format!(
                    "line {} is longer than 64 MiB, so this is no line protocol",
                    self.line
                )));
            }
            wanted *= 2;
        }
    }

    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let missing = wanted.saturating_sub(self.buffer.len());
        if missing > 0 && !self.ended && self.broken.is_none() {
            self.buffer.reserve(missing);
            let mut part = (&mut self.input).take(missing as u64);
            match part.read_to_end(&mut self.buffer) {
                Ok(got) => self.ended = got < missing,
                Err(error) if is_cut_off(&error) => self.broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether an input ends before its end, as a compressed file does that was not copied to its end: what came before is
/// right, and the same when it is read again. Of other errors neither is known.
pub(super) fn is_cut_off(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// How many of the first `wanted` bytes of `text` are the next piece, and its rows; `None` = not one line ends there.
fn cut(text: &[u8], wanted: usize, ended: bool) -> Option<(usize, u64)> {
    let is_all = ended && text.len() <= wanted;
    let text = text.get(..wanted).unwrap_or(text);
    let has_strings = memchr(b'"', text).is_some();
    let (mut at, mut rows) = (0, 0);
    for _ in 0..LINES_MAX {
        let rest = text.get(at..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        let end = if has_strings {
            line_end(rest)
        } else {
            memchr(b'\n', rest).unwrap_or(rest.len())
        };
        if end < rest.len() {
            rows += u64::from(is_row(rest));
            at += end + 1;
        } else if is_all && memrchr(b'\n', rest).is_none() {
            rows += u64::from(is_row(rest));
            at = text.len();
        } else {
            // It does not end here, because it is long or because a quote is missing. The second must not swallow the
            // lines after it, so it goes alone.
            let lonely = (at == 0).then(|| memchr(b'\n', rest)).flatten();
            if let Some(line_feed) = lonely {
                return Some((line_feed + 1, u64::from(is_row(rest))));
            }
            break;
        }
    }
    (at > 0).then_some((at, rows))
}

/// Blank lines and comments hold no points.
pub(super) fn is_row(line: &[u8]) -> bool {
    let blank = |byte: &&u8| !matches!(byte, b' ' | b'\t' | 0 | b'\r');
    !matches!(line.iter().find(blank), None | Some(b'\n' | b'#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            let (now, later) = self.0.split_at(n);
            out[..n].copy_from_slice(now);
            self.0 = later;
            Ok(n)
        }
    }

    fn pieces(text: &[u8], step: usize) -> Vec<Piece> {
        let mut cutter = Cutter::new(Trickle(text, step), 0, 1);
        std::iter::from_fn(|| cutter.next().unwrap()).collect()
    }

    #[test]
    fn pieces_have_so_many_lines_and_are_the_same_however_they_are_read() {
        let text = (0..25_000)
            .map(|n| format!("m v={n} {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        let whole = pieces(text.as_bytes(), usize::MAX);
        let rows: Vec<(u64, u64)> = whole.iter().map(|piece| (piece.line, piece.rows)).collect();
        assert_eq!(rows, [(1, 10_000), (10_001, 10_000), (20_001, 5_000)]);
        assert_eq!(pieces(text.as_bytes(), 4093), whole);
        let joined: Vec<u8> = whole.iter().flat_map(|piece| piece.text.clone()).collect();
        assert_eq!(joined, text.as_bytes());
        let second = &whole[1];
        let mut cutter = Cutter::new(
            &text.as_bytes()[whole[0].text.len()..],
            second.begin,
            second.line,
        );
        assert_eq!(cutter.next().unwrap().as_ref(), Some(second));
    }

    #[test]
    fn a_line_feed_in_a_string_cuts_nothing() {
        let lines = (0..10_001).map(|n| format!("m s=\"a\nb\" {n}\n"));
        let text = lines.collect::<Vec<_>>().concat();
        let pieces = pieces(text.as_bytes(), usize::MAX);
        let firsts: Vec<(u64, u64)> = pieces
            .iter()
            .map(|piece| (piece.line, piece.rows))
            .collect();
        assert_eq!(firsts, [(1, 10_000), (20_001, 1)]);
    }

    /// Of a compressed file that was cut off, up to eight megabytes of lines that could be read were not imported.
    #[test]
    fn of_an_input_that_is_cut_off_the_whole_lines_come_before_the_error() {
        struct CutOff;
        impl Read for CutOff {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let text = b"m v=1 1\nm v=2 2\nm v=3";
        let mut cutter = Cutter::new(text.chain(CutOff), 0, 1);
        let piece = cutter.next().unwrap().unwrap();
        assert_eq!((&piece.text[..], piece.rows), (&text[..16], 2));
        let error = cutter.next().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().ends_with("in line 3"), "{error}");
        let mut nothing = Cutter::new(CutOff, 0, 1);
        assert!(nothing.next().is_err());
    }

    #[test]
    fn a_string_that_does_not_end_goes_alone() {
        let text = b"m v=1 1\nm s=\"open 2\nm v=3 3\nm v=4 4";
        let texts: Vec<String> = pieces(text, usize::MAX)
            .into_iter()
            .map(|piece| String::from_utf8(piece.text).unwrap())
            .collect();
        assert_eq!(texts, ["m v=1 1\n", "m s=\"open 2\n", "m v=3 3\nm v=4 4"]);
    }

    #[test]
    fn blank_lines_and_comments_are_no_rows() {
        let pieces = pieces(b"# note\n\n  \nm v=1\r\n\r\n # x\nm v=2", usize::MAX);
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].rows, 2);
        assert!(self::pieces(b"", 1).is_empty());
    }
}
