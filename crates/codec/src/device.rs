//! Device pages: what a microcontroller sends, checked and taken apart.
//!
//! Does: check the checksum, the structure and the bounds of a page, name its blocks and where their column pages are;
//! `decode` decodes all of them once, compares times and statistics, and hands the values on. Does not: write device pages
//! (the C library in `edge/` does), or know what a server makes of them.
//! Next: `docs/format/device-page.md`; `device_image.rs` for pages in the image of a flash.

use std::ops::Range;

use crate::read::{take, take_u8};
use crate::{
    BLOCK_ROWS_MAX, ColumnBuf, Encoding, Error, PhysicalType, crc32c, decode_page, integer,
    page_header, varint,
};

/// Most bytes of a page: a sector of the flash is no larger.
pub const DEVICE_PAGE_BYTES_MAX: usize = 64 << 10;

/// Most fields of a block.
const FIELDS_MAX: u64 = 16;

const HEAD_BYTES: usize = 60;
const CRC_BYTES: usize = 4;
const MAGIC: &[u8; 4] = b"NMDP";
const VERSION: u8 = 1;
const LAST: u8 = 1;

/// A page whose checksum holds and whose parts fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePage<'a> {
    /// Number of the page among those of its device.
    pub sequence: u64,
    /// Whether it is the last page of its seal; pages of a seal without one do not count.
    pub is_last: bool,
    /// Number of the page in its seal.
    pub part: u16,
    /// Which of the device's logs was sealed.
    pub source: u32,
    /// Nanoseconds in one unit of time.
    pub tick_ns: u32,
    /// The start of the device that its ticks are counted from; 0 = they are counted from 1970.
    pub boot: u32,
    /// Least and greatest time, in ticks.
    pub times: (i64, i64),
    /// The blocks, one or more.
    pub blocks: Vec<DeviceBlock<'a>>,
}

/// Rows of one series, in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBlock<'a> {
    /// `table,tag=value,...`, escaped; [`split_key`] takes it apart.
    pub key: &'a str,
    /// Rows, 1 to [`BLOCK_ROWS_MAX`].
    pub rows: usize,
    /// What is added to the times of the column page to have ticks.
    pub base: i64,
    /// Least and greatest time, in ticks.
    pub times: (i64, i64),
    /// Where the column page of times is in the device page; its type is I64.
    pub time_page: Range<usize>,
    /// The fields, 1 to 16.
    pub fields: Vec<DeviceField<'a>>,
}

/// One column of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceField<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The type of its values.
    pub physical_type: PhysicalType,
    /// Where its column page is in the device page.
    pub page: Range<usize>,
    /// What the device says of the values.
    pub statistics: Option<DeviceStatistics>,
}

/// Figures of a column, in integers: those of the values, or of floats over the scale of their page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// The sum of all values.
    pub sum: i64,
    /// The value of the first row.
    pub first: i64,
    /// The value of the last row.
    pub last: i64,
}

impl<'a> DevicePage<'a> {
    /// Checks a page and takes it apart. Bytes behind it must be 0xff, as erased flash is.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.starts_with(MAGIC) && bytes.get(4).is_some_and(|it| *it != VERSION) {
            return Err(Error::UnknownDevicePage(bytes[4]));
        }
        let length = device_page_bytes(bytes)?;
        let page = &bytes[..length];
        let head = &page[..HEAD_BYTES];
        if bytes[length..].iter().any(|byte| *byte != 0xff) {
            return Err(Error::corrupt("bytes after a device page"));
        }
        let (body, crc) = page.split_at(length - CRC_BYTES);
        if crc32c(0, body) != u32_at(crc, 0) {
            return Err(Error::corrupt(
                "the checksum of a device page does not hold",
            ));
        }
        let page = Self {
            sequence: u64_at(head, 16),
            is_last: head[5] == LAST,
            part: u16_at(head, 6),
            source: u32_at(head, 56),
            tick_ns: u32_at(head, 48),
            boot: u32_at(head, 52),
            times: (
                u64_at(head, 32).cast_signed(),
                u64_at(head, 40).cast_signed(),
            ),
            blocks: blocks(body, u64_at(head, 24).cast_signed(), u16_at(head, 12))?,
        };
        let least = page.blocks.iter().map(|block| block.times.0).min();
        let greatest = page.blocks.iter().map(|block| block.times.1).max();
        let is_bounded = least.zip(greatest) == Some(page.times);
        if head[5] & !LAST != 0 || u16_at(head, 14) != 0 || page.tick_ns == 0 || !is_bounded {
            return Err(Error::corrupt(
                "the head of a device page is not that of its blocks",
            ));
        }
        Ok(page)
    }

    /// Rows of all its blocks.
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    /// Decodes every column and compares rows, the order of times, and statistics with what the page says. `bytes` are those
    /// that it was opened from.
    pub fn verify(&self, bytes: &[u8], column: &mut ColumnBuf) -> Result<(), Error> {
        self.decode(bytes, column, |_, _, _| {})
    }

    /// As [`Self::verify`], and shows every column once: the block, the field or `None` for the times without
    /// [`DeviceBlock::base`], and what is in it. After an error, what was shown before does not count.
    pub fn decode(
        &self,
        bytes: &[u8],
        column: &mut ColumnBuf,
        mut show: impl FnMut(&DeviceBlock<'a>, Option<&DeviceField<'a>>, &ColumnBuf),
    ) -> Result<(), Error> {
        for block in &self.blocks {
            decode_page(&bytes[block.time_page.clone()], column)?;
            let times = column.i64s();
            let ends = times.first().zip(times.last());
            let ticks = |time: &i64| time.checked_add(block.base);
            let ends = ends.and_then(|(first, last)| ticks(first).zip(ticks(last)));
            if times.len() != block.rows || !times.is_sorted() || ends != Some(block.times) {
                return Err(Error::corrupt(
                    "times of a device page are not those of its block",
                ));
            }
            show(block, None, column);
            for field in &block.fields {
                let page = &bytes[field.page.clone()];
                decode_page(page, column)?;
                if column.rows() != block.rows || column.validity().is_some() {
                    return Err(Error::corrupt("a field of a device page has other rows"));
                }
                if let Some(statistics) = field.statistics
                    && DeviceStatistics::of(page, column) != Some(statistics)
                {
                    return Err(Error::corrupt(
                        "statistics of a device page are not those of its values",
                    ));
                }
                show(block, Some(field), column);
            }
        }
        Ok(())
    }
}

impl DeviceStatistics {
    /// Magnitudes below this never make a sum of a block wrap.
    const LIMIT: i64 = 1 << 52;

    fn take(input: &mut &[u8], rows: usize) -> Result<Option<Self>, Error> {
        match take_u8(input)? {
            0 => return Ok(None),
            1 => {}
            _ => return Err(Error::corrupt("a form of statistics that no device writes")),
        }
        let min = varint::get_i64(input)?;
        let above = |distance: u64| {
            let value = min.checked_add_unsigned(distance);
            value.ok_or(Error::corrupt("statistics beyond 64 bits"))
        };
        let max = above(varint::get_u64(input)?)?;
        let over = varint::get_u64(input)?;
        let sum = i128::from(min) * rows as i128 + i128::from(over);
        let sum = i64::try_from(sum).map_err(|_| Error::corrupt("statistics beyond 64 bits"))?;
        let first = above(varint::get_u64(input)?)?;
        let last = above(varint::get_u64(input)?)?;
        Ok(Some(Self {
            min,
            max,
            sum,
            first,
            last,
        }))
    }

    /// Those of a decoded column, if it can have any.
    fn of(page: &[u8], column: &ColumnBuf) -> Option<Self> {
        match column.physical_type() {
            PhysicalType::I64 => Self::of_integers(column.i64s().iter().copied()),
            PhysicalType::U64 => {
                let values = column.u64s().iter();
                Self::of_integers(values.map(|value| value.cast_signed()))
            }
            PhysicalType::Bool => Self::of_integers(column.bools().iter().map(|it| i64::from(*it))),
            PhysicalType::F64 => {
                let encoding = Encoding::try_from(*page.first()?).ok()?;
                if !matches!(encoding, Encoding::Decimal | Encoding::Dyadic) {
                    return None;
                }
                // The scale, then the number of exceptions: none.
                let mut input = page.get(5..)?.strip_prefix(&[0])?;
                let mut integers = [0; BLOCK_ROWS_MAX];
                let integers = integers.get_mut(..column.rows())?;
                integer::decode_chunk(&mut input, integers).ok()?;
                Self::of_integers(integers.iter().copied())
            }
            PhysicalType::Text | PhysicalType::Bytes => None,
        }
    }

    fn of_integers(values: impl Iterator<Item = i64> + Clone) -> Option<Self> {
        let is_near = |value: i64| value.unsigned_abs() < Self::LIMIT.unsigned_abs();
        if !values.clone().all(is_near) {
            return None;
        }
        Some(Self {
            min: values.clone().min()?,
            max: values.clone().max()?,
            sum: values.clone().sum(),
            first: values.clone().next()?,
            last: values.last()?,
        })
    }
}

/// Bytes of the device page that `bytes` begin with, by its head: where pages follow each other. Nothing else is checked.
pub fn device_page_bytes(bytes: &[u8]) -> Result<usize, Error> {
    let head = bytes.get(..HEAD_BYTES).ok_or(Error::Truncated)?;
    if &head[..4] != MAGIC {
        return Err(Error::corrupt("this is not a device page"));
    }
    let length = u32_at(head, 8) as usize;
    if !(HEAD_BYTES + CRC_BYTES..=DEVICE_PAGE_BYTES_MAX).contains(&length) {
        return Err(Error::corrupt("a device page is not as long as it says"));
    }
    if bytes.len() < length {
        return Err(Error::Truncated);
    }
    Ok(length)
}

fn blocks(body: &[u8], base: i64, count: u16) -> Result<Vec<DeviceBlock<'_>>, Error> {
    let mut input = &body[HEAD_BYTES..];
    // No list is made as long as a number says: each block takes bytes.
    let mut blocks = Vec::new();
    for _ in 0..count {
        blocks.push(block(body, &mut input, base)?);
    }
    if !input.is_empty() || blocks.is_empty() {
        return Err(Error::corrupt("blocks do not fill their device page"));
    }
    Ok(blocks)
}

fn block<'a>(body: &'a [u8], input: &mut &'a [u8], base: i64) -> Result<DeviceBlock<'a>, Error> {
    let key_bytes = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
    let key = text(take(input, key_bytes)?)?;
    split_key(key)?;
    let rows = varint::get_u64(input)?;
    let fields = varint::get_u64(input)?;
    if !(1..=BLOCK_ROWS_MAX as u64).contains(&rows) || !(1..=FIELDS_MAX).contains(&fields) {
        return Err(Error::corrupt(
            "rows or fields of a block are not 1 to 1024 or 16",
        ));
    }
    let rows = rows as usize;
    let least = base.checked_add(varint::get_i64(input)?);
    let span = varint::get_u64(input)?;
    let greatest = least.and_then(|least| least.checked_add_unsigned(span));
    let times = least
        .zip(greatest)
        .ok_or(Error::corrupt("times beyond 64 bits"))?;
    let (time_page, physical_type) = column_page(body, input, rows)?;
    if physical_type != PhysicalType::I64 {
        return Err(Error::corrupt("times of a block are no integers"));
    }
    let fields = (0..fields)
        .map(|_| {
            let name_bytes = usize::from(take_u8(input)?);
            let name = text(take(input, name_bytes)?)?;
            if name.is_empty() {
                return Err(Error::corrupt("a field has no name"));
            }
            let (page, physical_type) = column_page(body, input, rows)?;
            Ok(DeviceField {
                name,
                physical_type,
                page,
                statistics: DeviceStatistics::take(input, rows)?,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(DeviceBlock {
        key,
        rows,
        base,
        times,
        time_page,
        fields,
    })
}

/// Takes a column page off the front of `input` and says where in `body` it is.
fn column_page(
    body: &[u8],
    input: &mut &[u8],
    rows: usize,
) -> Result<(Range<usize>, PhysicalType), Error> {
    let bytes = usize::from(u16_at(take(input, 2)?, 0));
    let page = take(input, bytes)?;
    let end = body.len() - input.len();
    let header = page_header(page)?;
    let is_known = !matches!(
        header.encoding,
        Encoding::Pco | Encoding::PlainZstd | Encoding::DictionaryZstd | Encoding::Transposed
    );
    if header.rows != rows || header.has_nulls || !is_known {
        return Err(Error::corrupt("a column page is not one of devices"));
    }
    Ok((end - bytes..end, header.physical_type))
}

/// The table of a key and its tags, unescaped. Tags must be in the order of their names, none twice, nothing empty.
pub fn split_key(key: &str) -> Result<(String, Vec<(String, String)>), Error> {
    let wrong = Error::corrupt("a key of a device page is not table,tag=value,...");
    let mut parts = vec![String::new()];
    let mut ends = Vec::new();
    let mut characters = key.chars();
    while let Some(character) = characters.next() {
        let part = parts.last_mut().ok_or(wrong)?;
        match character {
            '\\' => match characters.next() {
                Some(escaped @ (',' | '=' | ' ' | '\\')) => part.push(escaped),
                _ => return Err(wrong),
            },
            ' ' => return Err(wrong),
            ',' | '=' => {
                ends.push(character);
                parts.push(String::new());
            }
            other => part.push(other),
        }
    }
    let is_alternating = ends
        .iter()
        .zip([',', '='].iter().cycle())
        .all(|(a, b)| a == b);
    if parts.len() % 2 == 0 || !is_alternating || parts.iter().any(String::is_empty) {
        return Err(wrong);
    }
    let mut parts = parts.into_iter();
    let table = parts.next().ok_or(wrong)?;
    let mut tags: Vec<(String, String)> = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if tags.last().is_some_and(|(before, _)| *before >= name) {
            return Err(wrong);
        }
        tags.push((name, value));
    }
    Ok((table, tags))
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::corrupt("a name in a device page is not UTF-8"))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |it| u16::from_le_bytes(*it))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |it| u32::from_le_bytes(*it))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |it| u64::from_le_bytes(*it))
}
