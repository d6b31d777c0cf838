//! The cold tier: pages of one column that share a header, a third smaller than by themselves and slower to write.
//!
//! Does: write the pages of a column of a group of blocks, each in pco or as `encode_page_of` does, whichever is smaller;
//! a page in pco needs the header that they share. Does not: store the header, or know groups (the segment does), or read
//! (`shared.rs` does); builds without the feature `pco` write pages that need no header.
//! Next: `docs/format/page.md`, "Numbers in pco".

#[cfg(feature = "pco")]
mod numbers;

use crate::{ColumnRef, Error, PageSet, encode_page_of};

/// The pages of one column of a group of blocks. Reuse it.
#[derive(Clone, Debug, Default)]
pub struct ColdColumn {
    /// What the pages in pco share; empty if there are none.
    pub header: Vec<u8>,
    /// The pages, one behind the other.
    pub pages: Vec<u8>,
    /// Where each page ends in `pages`.
    pub ends: Vec<usize>,
}

impl ColdColumn {
    /// The page of block `index`.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    pub fn page(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pages[start..self.ends[index]]
    }
}

/// Encodes the blocks of one column, all of one physical type, and replaces the content of `out`; `set` is the second or a later one.
///
/// After an error `out` is empty.
pub fn encode_cold_column(
    blocks: &[ColumnRef<'_>],
    set: PageSet,
    out: &mut ColdColumn,
) -> Result<(), Error> {
    let written = encode(blocks, set.max(PageSet::Second), out);
    if written.is_err() {
        clear(out);
    }
    written
}

fn encode(blocks: &[ColumnRef<'_>], set: PageSet, out: &mut ColdColumn) -> Result<(), Error> {
    clear(out);
    let mut types = blocks.iter().map(ColumnRef::physical_type);
    let first = types.next();
    if types.any(|other| Some(other) != first) {
        return Err(Error::InvalidColumn {
            what: "the blocks of a column are of several types",
        });
    }
    for block in blocks {
        encode_page_of(*block, set, &mut out.pages)?;
        out.ends.push(out.pages.len());
    }
    #[cfg(feature = "pco")]
    numbers::shrink(blocks, set, out);
    Ok(())
}

fn clear(out: &mut ColdColumn) {
    out.header.clear();
    out.pages.clear();
    out.ends.clear();
}
