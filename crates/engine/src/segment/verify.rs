//! Reading all of a segment for the sake of its checksums.
//!
//! Does: check and decode every group's directory, statistics, rollups and pages, one page in memory at a time. Does
//! not: compare values with statistics, or look at other files.

use nilometer_codec::ColumnBuf;

use super::Segment;
use crate::error::Error;

impl Segment {
    /// An error = the first part or page that fails its checksum or does not decode, with its place.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let mut page = ColumnBuf::default();
        for group in 0..self.all_groups().count() {
            let directory = self.directory(group)?;
            self.statistics(group)?;
            self.rollups(group)?;
            for chunk in &directory.chunks {
                for block in 0..directory.blocks.len() {
                    if let Some((offset, length)) = chunk.page(block) {
                        let bytes = self.read_span(offset, u64::from(length))?;
                        self.decode_page(&bytes, offset, &mut page)?;
                    }
                }
            }
        }
        Ok(())
    }
}
