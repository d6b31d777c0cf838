//! Images of a flash as the library for microcontrollers leaves it: sectors, sealed pages, and how much is not sealed.
//!
//! Does: find the sectors and what each is, the pages that count in the order of their sequences, and the clocks that the
//! device was told. Does not: read rows of hot sectors (the device seals them), or change an image.
//! Next: "In the flash" of `docs/format/device-page.md`.

use std::collections::BTreeMap;

use crate::device::{DevicePage, device_page_bytes, u32_at};
use crate::read::{take, take_u8};
use crate::{Error, crc32c, varint};

/// Sectors begin at multiples of this, unless the caller knows better.
const STEP: usize = 1024;

/// A sector of the library has at most so many bytes.
const SECTOR_BYTES_MAX: usize = 64 << 10;

/// The largest program unit: what stands behind a header, frame or page is filled up to its multiple.
const UNIT_BYTES_MAX: usize = 32;

const HEADER_BYTES: usize = 16;

/// Most bytes of a frame's payload.
const PAYLOAD_BYTES_MAX: usize = 400;

/// What a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorKind {
    /// It has no valid header: never used, or what an interrupted erase left.
    Unformatted,
    /// Erased and ready.
    Free,
    /// Rows that are not sealed yet.
    Hot,
    /// Pages.
    Sealed,
}

/// A sector of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashSector {
    /// Where it begins.
    pub offset: usize,
    /// What it is.
    pub kind: SectorKind,
    /// How often it was erased.
    pub erases: u32,
    /// In which order sectors were taken; 0 of those that are not in use.
    pub sequence: u32,
    /// Where its frames or pages begin, from the beginning of the image.
    content: usize,
}

/// A page of an image.
#[derive(Clone, Debug)]
pub struct ImagePage<'a> {
    /// Where it begins.
    pub offset: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The page; an error if it is damaged.
    pub page: Result<DevicePage<'a>, Error>,
    /// Whether all pages of its seal are there. The rows of others come again in a later seal.
    pub counts: bool,
}

/// Rows that are in the image and in no page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotRows {
    /// Hot sectors.
    pub sectors: usize,
    /// Rows in them. Those that a seal which has ended took already are among them until their sector is erased.
    pub rows: usize,
}

/// An image of a flash.
#[derive(Clone, Debug)]
pub struct DeviceImage<'a> {
    bytes: &'a [u8],
    sector_bytes: usize,
    sectors: Vec<FlashSector>,
}

impl<'a> DeviceImage<'a> {
    /// Finds the sectors. Their size is what the headers' places have in common, unless it is given.
    pub fn open(bytes: &'a [u8], sector_bytes: Option<usize>) -> Result<Self, Error> {
        let sector_bytes = match sector_bytes {
            Some(given) => given,
            None => found_sector_bytes(bytes)?,
        };
        if !(STEP..=SECTOR_BYTES_MAX).contains(&sector_bytes) {
            return Err(Error::corrupt(
                "sectors of a flash image have 1024 to 65536 bytes",
            ));
        }
        let sectors = bytes.chunks_exact(sector_bytes).enumerate();
        let sectors = sectors.map(|(at, sector)| sector_of(at * sector_bytes, sector));
        Ok(Self {
            bytes,
            sector_bytes,
            sectors: sectors.collect(),
        })
    }

    /// Bytes of a sector.
    pub fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// All sectors, in the order of their places.
    pub fn sectors(&self) -> &[FlashSector] {
        &self.sectors
    }

    /// All pages, in the order of the sectors' sequences and their places in them.
    pub fn pages(&self) -> Vec<ImagePage<'a>> {
        let mut pages = Vec::new();
        for sector in self.in_order(SectorKind::Sealed) {
            let end = sector.offset + self.sector_bytes;
            let mut at = sector.content;
            while let Some(start) = behind_filler(self.bytes, at, end) {
                let Ok(bytes) = device_page_bytes(&self.bytes[start..end]) else {
                    break;
                };
                let page = &self.bytes[start..start + bytes];
                pages.push(ImagePage {
                    offset: start,
                    bytes: page,
                    page: DevicePage::open(page),
                    counts: false,
                });
                at = start + bytes;
            }
        }
        // From behind: a page counts if it is a last one, or if the next one counts and follows it in its seal.
        let mut next: Option<(u64, u16, u32)> = None;
        for image in pages.iter_mut().rev() {
            let Ok(page) = &image.page else {
                next = None;
                continue;
            };
            let following = (page.sequence + 1, page.part.wrapping_add(1), page.source);
            image.counts = page.is_last || next == Some(following);
            next = image
                .counts
                .then_some((page.sequence, page.part, page.source));
        }
        pages
    }

    /// What the device was told to add to the ticks of its boots, by boot.
    pub fn clocks(&self) -> BTreeMap<u32, i64> {
        let mut clocks = BTreeMap::new();
        self.frames(|kind, mut payload| {
            let boot = varint::get_u64(&mut payload).map(u32::try_from);
            let shift = varint::get_i64(&mut payload);
            if let (3, Ok(Ok(boot)), Ok(shift)) = (kind, boot, shift) {
                clocks.insert(boot, shift);
            }
        });
        clocks
    }

    /// Rows that are in no page.
    pub fn hot_rows(&self) -> HotRows {
        let mut hot = HotRows {
            sectors: self.in_order(SectorKind::Hot).len(),
            rows: 0,
        };
        self.frames(|kind, payload| match (kind, payload) {
            (0, _) => hot.rows += 1,
            // Rows that are as far apart as the first two say 0, and then how many they are.
            (1, [_, 0, rows, ..] | [_, rows, ..]) => hot.rows += usize::from(*rows),
            _ => {}
        });
        hot
    }

    /// Shows kind and payload of every frame whose checksum holds, up to the first of its sector whose does not.
    fn frames(&self, mut show: impl FnMut(u8, &[u8])) {
        for sector in self.in_order(SectorKind::Hot) {
            let end = sector.offset + self.sector_bytes;
            let mut at = sector.content;
            while let Some(start) = behind_filler(self.bytes, at, end) {
                let place = (start - sector.offset) as u32;
                let seed = sector.sequence.wrapping_mul(1 << 16).wrapping_add(place);
                let Ok((kind, payload)) = frame(&self.bytes[start..end], seed) else {
                    break;
                };
                show(kind, payload);
                at = start + payload.len() + 6;
            }
        }
    }

    fn in_order(&self, kind: SectorKind) -> Vec<FlashSector> {
        let sectors = self.sectors.iter().filter(|sector| sector.kind == kind);
        let mut sectors: Vec<FlashSector> = sectors.copied().collect();
        sectors.sort_by_key(|sector| sector.sequence);
        sectors
    }
}

/// Kind and payload of a frame; the seed of its checksum says where it belongs.
fn frame(mut input: &[u8], seed: u32) -> Result<(u8, &[u8]), Error> {
    let all = input;
    let (high, low) = (take_u8(&mut input)?, take_u8(&mut input)?);
    let bytes = usize::from(high & 63) * 256 + usize::from(low);
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Error::corrupt("a frame is longer than frames are"));
    }
    let payload = take(&mut input, bytes)?;
    let crc = u32_at(take(&mut input, 4)?, 0);
    if crc32c(seed, &all[..2 + bytes]) != crc {
        return Err(Error::corrupt("the checksum of a frame does not hold"));
    }
    Ok((high >> 6, payload))
}

/// Where the next thing begins behind what fills a program unit up; `None` = nothing does.
fn behind_filler(bytes: &[u8], at: usize, end: usize) -> Option<usize> {
    let rest = bytes.get(at..end)?;
    let filler = rest.iter().position(|byte| *byte != 0xff)?;
    (filler < UNIT_BYTES_MAX).then_some(at + filler)
}

/// The two numbers that an erase header or a use header has, if its checksum holds.
fn header(bytes: &[u8], seed: u32) -> Option<&[u8]> {
    let header = bytes.get(..HEADER_BYTES)?;
    (crc32c(seed, &header[..12]) == u32_at(header, 12)).then_some(header)
}

fn erase_header(sector: &[u8]) -> Option<u32> {
    let header = header(sector, 0)?;
    (&header[..5] == b"NMLE\x01").then(|| u32_at(header, 8))
}

fn sector_of(offset: usize, sector: &[u8]) -> FlashSector {
    let unused = |kind, erases| FlashSector {
        offset,
        kind,
        erases,
        sequence: 0,
        content: offset,
    };
    let Some(erases) = erase_header(sector) else {
        return unused(SectorKind::Unformatted, 0);
    };
    // Behind the erase header there is filler in units of 32 bytes only.
    for at in [HEADER_BYTES, UNIT_BYTES_MAX] {
        let Some(used) = sector.get(at..).and_then(|rest| header(rest, 1)) else {
            continue;
        };
        let kind = match used[0] {
            2 => SectorKind::Hot,
            3 => SectorKind::Sealed,
            _ => continue,
        };
        return FlashSector {
            offset,
            kind,
            erases,
            sequence: u32_at(used, 4),
            content: offset + at + HEADER_BYTES,
        };
    }
    let is_erased = sector[HEADER_BYTES..].iter().all(|byte| *byte == 0xff);
    let kind = if is_erased {
        SectorKind::Free
    } else {
        SectorKind::Unformatted
    };
    unused(kind, erases)
}

fn found_sector_bytes(bytes: &[u8]) -> Result<usize, Error> {
    let places = (0..bytes.len()).step_by(STEP);
    let places = places.filter(|at| erase_header(&bytes[*at..]).is_some());
    let common = places.fold(0, greatest_common_divisor);
    match common {
        0 if bytes.len() <= SECTOR_BYTES_MAX && erase_header(bytes).is_some() => Ok(bytes.len()),
        0 => Err(Error::corrupt(
            "no sector of the flash image has a header; is it one of this library, and does it begin with the first sector? Sectors that are no multiples of 1024 bytes need their size",
        )),
        bytes => Ok(bytes),
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
