//! Checking all of an index file.
//!
//! Does: read every block, both copies of what is there twice, and find each in order. Does not: compare blocks of
//! different kinds, or touch the cache.

use nilometer_codec::crc32c;

use super::reader::decode_tail;
use super::{HEADER_BYTES, Index, TAIL_BYTES};
use crate::error::Error;

impl Index {
    /// Reads every block, and what stands there twice both times.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.verify_ends()?;
        for table in &self.footer.tables {
            for block in 0..table.first_ids.len() {
                let first = table.ids.place(block);
                let copy = table.ids_copy(block).or(first);
                self.same(first, copy, table.ids.offset())?;
                self.read_ids(table, block)?;
                self.read_hashes(table, block)?;
                for tag in &table.tags {
                    self.read_codes(table, tag, block)?;
                }
            }
            for tag in &table.tags {
                for block in 0..tag.dictionary_blocks() {
                    let first = tag.dictionary(block);
                    let copy = tag.dictionary_copy(block).or(first);
                    self.same(first, copy, tag.absent_at())?;
                }
                self.verify_lists(table, tag)?;
            }
        }
        match self.damage() {
            Some((offset, reason)) => Err(Error::corrupt(self.path(), offset, reason)),
            None => Ok(()),
        }
    }

    /// Both tails and both footers.
    fn verify_ends(&self) -> Result<(), Error> {
        if self.is_old() {
            // What there is of them was read to open it.
            return Ok(());
        }
        let mut tails = Vec::new();
        for at in [HEADER_BYTES as u64, self.file_bytes() - TAIL_BYTES as u64] {
            let mut tail = [0; TAIL_BYTES];
            self.read_at(&mut tail, at)?;
            let tail = decode_tail(&tail, self.file_id());
            tails.push(tail.map_err(|what| self.noted(what.at(self.path(), at)))?);
        }
        let [copy, tail] = tails.as_slice() else {
            return Ok(());
        };
        if copy != tail {
            return Err(self.corrupt(HEADER_BYTES as u64, "the tails contradict each other"));
        }
        for at in [tail.offset, tail.offset.saturating_add(tail.length)] {
            let mut footer = vec![0; usize::try_from(tail.length).unwrap_or(usize::MAX)];
            self.read_at(&mut footer, at)?;
            if crc32c(0, &footer) != tail.crc {
                return Err(self.corrupt(at, "the footer fails its checksum"));
            }
        }
        Ok(())
    }

    /// Whether a block and its copy are the same.
    fn same(
        &self,
        first: Option<(u64, u64)>,
        copy: Option<(u64, u64)>,
        kind: u64,
    ) -> Result<(), Error> {
        let (Some(first), Some(copy)) = (first, copy) else {
            return Err(self.corrupt(kind, "no such block"));
        };
        if self.fetch(first.0, first.1)? != self.fetch(copy.0, copy.1)? {
            return Err(self.corrupt(copy.0, "a block and its copy differ"));
        }
        Ok(())
    }
}
