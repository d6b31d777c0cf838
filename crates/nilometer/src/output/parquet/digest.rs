//! A checksum of a whole Parquet file, in its footer.
//!
//! The library verifies checksums of pages and writes none, so a bit that flips in a file of ours would come back as
//! another value. The digits stand in the name of the writer, and not among the file's keys and values: other programs
//! copy those into files that they write with other rows.
//!
//! Does: write a file with its CRC32C, and compare the two. Does not: know of files that others wrote.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};

use anyhow::{Context, bail};
use memchr::memmem;

/// Whose files have a checksum.
const WRITER: &str = "nilometer version ";

/// What stands before the digits.
const BEFORE: &str = " (build crc32c ";

/// What stands for the digits while they are not known: the checksum is that of the file with these.
const UNKNOWN: &[u8; 8] = b"00000000";

/// The end of a file: four bytes with the length of the footer, and four that say that it is Parquet.
const END_BYTES: u64 = 8;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// The name of the writer, in the form that the format gives it, with room for the digits.
pub(super) fn created_by() -> String {
    let unknown = String::from_utf8_lossy(UNKNOWN);
    format!("{WRITER}{}{BEFORE}{unknown})", env!("CARGO_PKG_VERSION"))
}

/// Where a file is written to; its footer waits till the checksum is known.
pub(super) struct Digested<W> {
    out: W,
    crc: u32,
    footer: Option<Vec<u8>>,
}

impl<W: Write> Digested<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            crc: 0,
            footer: None,
        }
    }

    /// What comes from here on is the footer.
    pub(super) fn begin_footer(&mut self) {
        self.footer = Some(Vec::new());
    }

    /// Writes the footer, with the checksum of the file.
    pub(super) fn finish(mut self) -> Result<()> {
        let mut footer = self.footer.take().unwrap_or_default();
        let crc = crc32c::crc32c_append(self.crc, &footer);
        let digits = digits_in(&created_by(), &mut footer)
            .ok_or_else(|| Error::other("the footer has no place for a checksum"))?;
        digits.copy_from_slice(format!("{crc:08x}").as_bytes());
        self.out.write_all(&footer)?;
        self.out.flush()
    }
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Some(footer) = &mut self.footer {
            footer.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes)?;
        let written_bytes = bytes.get(..written).unwrap_or(bytes);
        self.crc = crc32c::crc32c_append(self.crc, written_bytes);
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}

/// The digits in the writer's name, where a footer has it.
fn digits_in<'a>(name: &str, footer: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let at = memmem::rfind(footer, name.as_bytes())?;
    let begin = at + name.find(BEFORE)? + BEFORE.len();
    footer.get_mut(begin..begin + UNKNOWN.len())
}

/// Compares a file with the checksum in its writer's name, if it has one.
pub(crate) fn verify(
    file: &mut (impl Read + Seek),
    created_by: Option<&str>,
) -> anyhow::Result<()> {
    // Either of the two is enough: damage may be there, too.
    let ours = created_by.filter(|name| name.starts_with(WRITER) || name.contains(BEFORE));
    let Some(name) = ours else { return Ok(()) };
    let digits = name.split_once(BEFORE).map_or("", |(_, rest)| rest);
    let digits = digits
        .strip_suffix(')')
        .filter(|it| it.len() == UNKNOWN.len());
    let said = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let found = match said {
        Some(_) => checksum(file, name).context("the file cannot be read")?,
        None => None,
    };
    if said.is_none() || found != said {
        bail!(
            "the file is damaged: its bytes do not have the checksum that was written with them; take another copy of it"
        );
    }
    Ok(())
}

/// The checksum of a file; `None` = its footer is not where it says.
fn checksum(file: &mut (impl Read + Seek), name: &str) -> Result<Option<u32>> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let Some(end) = bytes.checked_sub(END_BYTES) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(end))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let Some(begin) = end.checked_sub(u64::from(u32::from_le_bytes(length))) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(begin))?;
    let mut footer = Vec::new();
    file.read_to_end(&mut footer)?;
    let Some(digits) = digits_in(name, &mut footer) else {
        return Ok(None);
    };
    digits.copy_from_slice(UNKNOWN);
    file.rewind()?;
    let mut before = file.take(begin);
    let (mut buffer, mut crc) = (vec![0; READ_BYTES], 0);
    loop {
        match before.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => crc = crc32c::crc32c_append(crc, buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(crc32c::crc32c_append(crc, &footer)))
}
