//! Byte form of summaries: a head of four bytes, what the kind needs, and a checksum.
//!
//! Does: write, and read with every length checked against the bytes that are there. Does not: know kinds.
//! Next: docs/format/summary.md.

use crate::error::{Error, damaged};

/// What every summary begins with.
const MAGIC: [u8; 2] = [0x4e, 0xa9];

/// The version that is written, and the last that is read.
const VERSION: u8 = 1;

const HEAD_BYTES: usize = 4;
const SUM_BYTES: usize = 4;

#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: u8) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, kind]);
        Self(bytes)
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.0.extend(value.to_bits().to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = crc32c::crc32c(&self.0);
        self.0.extend(sum.to_le_bytes());
        self.0
    }
}

#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The kind, and a reader of what follows.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<(u8, Self), Error> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::Foreign);
        }
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(damaged("cut off"));
        };
        let [_, _, version, kind] = head else {
            return Err(damaged("cut off"));
        };
        if *version > VERSION {
            return Err(Error::Newer {
                version: *version,
                known: VERSION,
            });
        }
        if *version == 0 {
            return Err(damaged("version 0"));
        }
        let Some(body) = rest.len().checked_sub(SUM_BYTES) else {
            return Err(damaged("cut off"));
        };
        let (body, sum) = rest.split_at(body);
        let summed = bytes.get(..HEAD_BYTES + body.len()).unwrap_or_default();
        if sum != crc32c::crc32c(summed).to_le_bytes() {
            return Err(damaged("checksum"));
        }
        Ok((*kind, Self(body)))
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(damaged("cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<[u8; 8], Error> {
        self.take(8)?.try_into().map_err(|_| damaged("cut off"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.take(1)?.first().copied().ok_or(damaged("cut off"))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Error> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a flag that is neither 0 nor 1")),
        }
    }

    /// What a flag says is there.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.word()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.word()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Error> {
        Ok(f64::from_bits(u64::from_le_bytes(self.word()?)))
    }

    /// How many parts follow, each of which takes so many bytes or more.
    pub(crate) fn count(&mut self, bytes_each: usize) -> Result<usize, Error> {
        let count = usize::try_from(self.u64()?).map_err(|_| damaged("a count"))?;
        if count > self.0.len() / bytes_each.max(1) {
            return Err(damaged("a count"));
        }
        Ok(count)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.count(1)?;
        self.take(length)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(damaged("bytes behind its end"))
        }
    }
}
