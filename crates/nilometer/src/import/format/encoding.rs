//! Text of other encodings as UTF-8.
//!
//! Does: decode what the user says or what a byte order mark says, say where text is not what it was taken for. Does
//! not: guess; bytes that are no UTF-8 are refused, never replaced.

use std::io::{self, BufRead, BufReader, Read};

use csv::ByteRecord;
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

/// Bytes that are decoded at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Text as UTF-8: in `wished`, or as its byte order mark says, else as it is.
pub(in crate::import) fn decoded(
    mut text: Box<dyn BufRead + Send>,
    wished: Option<&'static Encoding>,
) -> io::Result<Box<dyn BufRead + Send>> {
    let marked = Encoding::for_bom(text.fill_buf()?).map(|(encoding, _)| encoding);
    let encoding = marked.or(wished).unwrap_or(UTF_8);
    if encoding == UTF_8 {
        return Ok(text);
    }
    Ok(Box::new(BufReader::with_capacity(
        PIECE_BYTES,
        Decoded {
            text,
            encoding,
            decoder: encoding.new_decoder_with_bom_removal(),
            ready: Vec::new(),
            at: 0,
            read: 0,
            ended: false,
        },
    )))
}

/// The name of an encoding as an argument.
pub(in crate::import) fn parse_encoding(name: &str) -> Result<&'static Encoding, String> {
    Encoding::for_label(name.as_bytes()).ok_or_else(|| {
        "give a name such as utf-8, latin1, windows-1252, utf-16le, shift_jis or gbk".to_owned()
    })
}

struct Decoded {
    text: Box<dyn BufRead + Send>,
    encoding: &'static Encoding,
    decoder: Decoder,
    /// What is decoded and not read yet, from `at` on.
    ready: Vec<u8>,
    at: usize,
    /// Bytes of the text that were decoded.
    read: u64,
    ended: bool,
}

impl Decoded {
    fn decode_more(&mut self) -> io::Result<()> {
        self.ready.resize(PIECE_BYTES, 0);
        self.at = 0;
        let text = self.text.fill_buf()?;
        let is_last = text.is_empty();
        let (outcome, read, written) =
            self.decoder
                .decode_to_utf8_without_replacement(text, &mut self.ready, is_last);
        self.text.consume(read);
        self.read += read as u64;
        self.ready.truncate(written);
        match outcome {
            DecoderResult::InputEmpty => self.ended = is_last,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "the bytes before byte {} are no text in {}; give another --encoding",
                        self.read + 1,
                        self.encoding.name()
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.ready.len() && !self.ended {
            self.decode_more()?;
        }
        let mut ready = self.ready.get(self.at..).unwrap_or_default();
        let n = ready.read(out)?;
        self.at += n;
        Ok(n)
    }
}

/// Why a row is no text: the first byte of it that is no UTF-8, by its column and place.
pub(in crate::import) fn invalid_text(record: &ByteRecord, names: &[String]) -> Option<String> {
    for (column, cell) in record.iter().enumerate() {
        let Err(error) = std::str::from_utf8(cell) else {
            continue;
        };
        let at = error.valid_up_to();
        let byte = cell.get(at).copied().unwrap_or(0);
        let place = match names.get(column) {
            Some(name) => format!("column \"{name}\""),
            None => format!("column {}", column + 1),
        };
        return Some(format!(
            "byte {} of {place} is 0x{byte:02X}, which is no UTF-8; if the file is in Latin-1, say --encoding windows-1252, else its own encoding",
            at + 1
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: Vec<u8>, wished: Option<&'static Encoding>) -> io::Result<String> {
        let mut out = String::new();
        let text: Box<dyn BufRead + Send> =
            Box::new(BufReader::with_capacity(7, io::Cursor::new(bytes)));
        decoded(text, wished)?.read_to_string(&mut out)?;
        Ok(out)
    }

    /// A list of places in Latin-1 was imported with every umlaut as U+FFFD, and places that differed in one merged.
    #[test]
    fn text_is_decoded_as_said_or_as_its_mark_says() {
        let text = "Z\u{fc}rich,\u{c6}r\u{f8}\n".repeat(300);
        let latin: Vec<u8> = text
            .chars()
            .map(|c| u8::try_from(c as u32).unwrap())
            .collect();
        let wished = parse_encoding("latin1").unwrap();
        assert!(read(latin, Some(wished)).unwrap() == text);
        let marked = format!("\u{feff}{text}");
        let little: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = marked.encode_utf16().flat_map(u16::to_be_bytes).collect();
        // The mark is seen in the first bytes, as the reader gives them.
        assert!(read(little, None).unwrap() == text);
        assert!(read(big, None).unwrap() == text);
        let bare: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let wished = parse_encoding("utf-16le").unwrap();
        assert!(read(bare, Some(wished)).unwrap() == text);
        assert!(parse_encoding("klingon").is_err());
    }

    #[test]
    fn what_is_no_text_is_an_error_and_never_replaced() {
        let wished = parse_encoding("shift_jis").unwrap();
        let error = read(b"a,b\n1,\xff\xff\n".to_vec(), Some(wished)).unwrap_err();
        assert!(error.to_string().contains("Shift_JIS"), "{error}");
        let record = ByteRecord::from(vec![&b"ok"[..], b"Z\xfcrich"]);
        let names = ["n".to_owned(), "city".to_owned()];
        let reason = invalid_text(&record, &names).unwrap();
        assert!(
            reason.starts_with("byte 2 of column \"city\" is 0xFC"),
            "{reason}"
        );
        assert!(reason.contains("--encoding"), "{reason}");
    }
}
