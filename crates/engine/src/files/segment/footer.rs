//! The end of a segment: the list of groups, and the tail that locates it.

use nilometer_codec::{crc32c, varint};

use super::MAGIC;
use super::checksum::{Checksums, SegmentFormat};
use crate::definition::{take_byte, take_bytes, take_u32};
use crate::error::Malformed;
use crate::schema::TableId;

/// What rows a segment may hold, as its own footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SegmentKind {
    /// Rows of any table and time.
    #[default]
    Mixed = 0,
    /// Rows of one partition of one table.
    Partition = 1,
    /// Flash pages of devices, as they wrote them; from format 2 on, and written from format 5 on.
    Device = 2,
}

impl TryFrom<u8> for SegmentKind {
    type Error = Malformed;

    fn try_from(number: u8) -> Result<Self, Malformed> {
        match number {
            0 => Ok(Self::Mixed),
            1 => Ok(Self::Partition),
            2 => Ok(Self::Device),
            other => Err(Malformed::new(format!("unknown kind of segment {other}"))),
        }
    }
}

/// A stretch of the file with a checksum; its place follows from what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part {
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

impl Part {
    /// Of bytes that start at `offset` of the file.
    pub(super) fn of(checksums: Checksums, offset: u64, bytes: &[u8]) -> Result<Self, Malformed> {
        let length = u32::try_from(bytes.len());
        Ok(Self {
            length: length.map_err(|_| Malformed::new("part of a group of 4 GiB"))?,
            crc: checksums.of(offset, bytes),
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.length), out);
        if self.length > 0 {
            out.extend_from_slice(&self.crc.to_le_bytes());
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let length = take_u32(input)?;
        let crc = if length > 0 {
            take_fixed_u32(input)?
        } else {
            0
        };
        Ok(Self { length, crc })
    }
}

/// One group as the footer lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupMeta {
    pub(crate) table: TableId,
    pub(crate) partition_start: i64,
    pub(crate) first_series: u32,
    pub(crate) last_series: u32,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) rows: u64,
    /// In blocks of one series, it has several rows of one time: the table keeps duplicates, or did when this was written.
    pub(crate) has_duplicates: bool,
    /// Where its first page starts.
    pub(crate) offset: u64,
    /// Bytes of its pages; the parts follow, one after another.
    pub(crate) pages: u64,
    pub(crate) directory: Part,
    pub(crate) statistics: Part,
    pub(crate) rollups: Part,
    /// Where values are that stand outside of pages; from format 2 on.
    pub(crate) large: Part,
}

/// What the pages of a segment were written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tier {
    /// For reading.
    #[default]
    Hot,
    /// For few bytes: of a partition that is older than its table's `cold_after`.
    Cold,
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
        })
    }
}

/// What the end of a segment says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Footer {
    pub(crate) kind: SegmentKind,
    /// From format 2 on.
    pub(crate) tier: Tier,
    pub(crate) groups: Vec<GroupMeta>,
}

/// Flags of a footer, from format 2 on.
const COLD: u8 = 1;
/// Flags of a group; from format 2 on also the second.
const HAS_DUPLICATES: u8 = 1;
const HAS_LARGE: u8 = 2;

impl GroupMeta {
    pub(crate) fn directory_offset(&self) -> u64 {
        self.offset.saturating_add(self.pages)
    }

    pub(crate) fn statistics_offset(&self) -> u64 {
        self.directory_offset()
            .saturating_add(u64::from(self.directory.length))
    }

    pub(crate) fn rollups_offset(&self) -> u64 {
        self.statistics_offset()
            .saturating_add(u64::from(self.statistics.length))
    }

    pub(crate) fn large_offset(&self) -> u64 {
        self.rollups_offset()
            .saturating_add(u64::from(self.rollups.length))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_i64(self.partition_start, out);
        varint::put_u64(u64::from(self.first_series), out);
        varint::put_u64(u64::from(self.last_series), out);
        varint::put_i64(self.min_time, out);
        varint::put_i64(self.max_time, out);
        varint::put_u64(self.rows, out);
        let has_large = self.large.length > 0;
        out.push(
            if self.has_duplicates {
                HAS_DUPLICATES
            } else {
                0
            } | if has_large { HAS_LARGE } else { 0 },
        );
        varint::put_u64(self.offset, out);
        varint::put_u64(self.pages, out);
        self.directory.encode(out);
        self.statistics.encode(out);
        self.rollups.encode(out);
        if has_large {
            self.large.encode(out);
        }
    }

    fn decode(input: &mut &[u8], format: SegmentFormat) -> Result<Self, Malformed> {
        let flags: u8;
        let mut group = Self {
            table: TableId(take_u32(input)?),
            partition_start: varint::get_i64(input)?,
            first_series: take_u32(input)?,
            last_series: take_u32(input)?,
            min_time: varint::get_i64(input)?,
            max_time: varint::get_i64(input)?,
            rows: varint::get_u64(input)?,
            has_duplicates: {
                flags = take_byte(input)?;
                flags & HAS_DUPLICATES != 0
            },
            offset: varint::get_u64(input)?,
            pages: varint::get_u64(input)?,
            directory: Part::decode(input)?,
            statistics: Part::decode(input)?,
            rollups: Part::decode(input)?,
            large: Part::default(),
        };
        let known = match format {
            SegmentFormat::First => HAS_DUPLICATES,
            _ => HAS_DUPLICATES | HAS_LARGE,
        };
        if flags & !known != 0 {
            return Err(Malformed::new(format!("unknown group flags {flags}")));
        }
        if flags & HAS_LARGE != 0 {
            group.large = Part::decode(input)?;
            if group.large.length == 0 {
                return Err(Malformed::new(
                    "a group says it has large values and has none",
                ));
            }
        }
        Ok(group)
    }
}

impl Footer {
    /// Appends the footer.
    pub(super) fn encode(&self, format: SegmentFormat, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        if format >= SegmentFormat::Second {
            out.push(if self.tier == Tier::Cold { COLD } else { 0 });
        }
        varint::put_u64(self.groups.len() as u64, out);
        for group in &self.groups {
            group.encode(out);
        }
    }

    /// Reads a footer, all of `input`.
    pub(super) fn decode(mut input: &[u8], format: SegmentFormat) -> Result<Self, Malformed> {
        let input = &mut input;
        let kind = SegmentKind::try_from(take_byte(input)?)?;
        let flags = match format {
            SegmentFormat::First => 0,
            _ => take_byte(input)?,
        };
        if flags & !COLD != 0 {
            return Err(Malformed::new(format!(
                "unknown flags {flags} of a segment"
            )));
        }
        let n = take_u32(input)?;
        let mut groups = Vec::new();
        for _ in 0..n {
            groups.push(GroupMeta::decode(input, format)?);
        }
        if !input.is_empty() {
            return Err(Malformed::new("bytes after the footer's last group"));
        }
        // The list stays in memory as long as the segment does.
        groups.shrink_to_fit();
        Ok(Self {
            kind,
            tier: if flags & COLD != 0 {
                Tier::Cold
            } else {
                Tier::Hot
            },
            groups,
        })
    }
}

/// Where the footer is.
pub(super) struct Tail {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc: u32,
}

impl Tail {
    /// Bytes that its checksum covers.
    const COVERED: usize = 28;

    /// Appends the tail of file `file_id`.
    pub(super) fn encode(&self, file_id: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&file_id.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        let crc = crc32c(0, out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&MAGIC);
    }

    /// Reads the tail of file `file_id`.
    pub(super) fn decode(bytes: &[u8], file_id: u64) -> Result<Self, Malformed> {
        let mut input = bytes;
        let covered = bytes.get(..Self::COVERED).unwrap_or_default();
        let id = take_fixed_u64(&mut input)?;
        let tail = Self {
            offset: take_fixed_u64(&mut input)?,
            length: take_fixed_u64(&mut input)?,
            crc: take_fixed_u32(&mut input)?,
        };
        let crc = take_fixed_u32(&mut input)?;
        if input != MAGIC || crc != crc32c(0, covered) || id != file_id {
            return Err(Malformed::new("the tail fails its checksum"));
        }
        Ok(tail)
    }
}

fn take_fixed_u64(input: &mut &[u8]) -> Result<u64, Malformed> {
    let bytes = take_bytes(input, 8)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}

fn take_fixed_u32(input: &mut &[u8]) -> Result<u32, Malformed> {
    let bytes = take_bytes(input, 4)?;
    Ok(bytes.try_into().map_or(0, u32::from_le_bytes))
}
