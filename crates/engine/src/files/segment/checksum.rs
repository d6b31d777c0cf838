//! The formats of a segment, and its checksums.
//!
//! Does: say which forms a format has, and compute the checksum of a unit at its place. Does not: know where units are.
//!
//! From format 2 on a checksum is bound to its place: it covers whose file it is in and where, then the bytes. A unit that a
//! disk has put in another's place fails its checksum, whatever it holds.

use nilometer_codec::crc32c;

/// Which forms of bytes a segment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SegmentFormat {
    /// 0 and 1, which differ in pages only.
    First = 1,
    Second = 2,
    /// Pages in short, no pages of even times, narrow integers in pco.
    Third = 3,
    /// Values of one length in lanes.
    Fourth = 4,
    /// Files of a device's pages, with statistics and rollups; others stay in the format before.
    Fifth = 5,
}

impl SegmentFormat {
    /// Every format that is read.
    pub(super) const ALL: [Self; 5] = [
        Self::First,
        Self::Second,
        Self::Third,
        Self::Fourth,
        Self::Fifth,
    ];
    /// The highest that is read, and the one of files of a device's pages.
    pub(crate) const LATEST: Self = Self::Fifth;
    /// What is written of rows.
    pub(crate) const NOW: Self = Self::Fourth;

    /// Of the number in a header, which is not above [`Self::LATEST`].
    pub(crate) fn of(number: u16) -> Self {
        match number {
            0 | 1 => Self::First,
            2 => Self::Second,
            3 => Self::Third,
            4 => Self::Fourth,
            _ => Self::Fifth,
        }
    }
}

/// The checksums of one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checksums {
    /// What each begins with; `None` = they are not bound.
    file: Option<u32>,
}

impl Checksums {
    pub(super) fn new(format: SegmentFormat, uuid: [u8; 16], file_id: u64) -> Self {
        let file = || crc32c(crc32c(0, &uuid), &file_id.to_le_bytes());
        Self {
            file: (format >= SegmentFormat::Second).then(file),
        }
    }

    /// Of a unit that starts at `offset` of the file.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves of a number"
    )]
    pub(super) fn of(self, offset: u64, bytes: &[u8]) -> u32 {
        // For bytes of one length a CRC is another one for each value it begins with, so that nothing is gained by a second CRC
        // over the offset, which narrow queries would notice.
        let (low, high) = (offset as u32, (offset >> 32) as u32);
        let seed = self
            .file
            .map_or(0, |file| file ^ low ^ high.rotate_left(16));
        crc32c(seed, bytes)
    }
}
