//! Values to bytes and back: the one page format that server, library and microcontroller share.
//!
//! Does: encode one column of one block as a page, decode it, compute its statistics; packs integers for the log and
//! the directory too. Does not: read or write files, keep threads, know series or time. Output is appended to the
//! caller's buffer, decoding fills buffers the caller reuses. A decoder never panics, and never allocates on a number
//! the input has not paid for.
//!
//! The bytes are drawn in `docs/format/page.md`; this is format 0.
//!
//! ```
//! use nilometer_codec::{ColumnBuf, ColumnRef, ValuesRef, decode_page, encode_page};
//!
//! let temperatures = [21.5, 21.6, 21.4, 21.5];
//! let mut page = Vec::new();
//! encode_page(ColumnRef { values: ValuesRef::F64(&temperatures), validity: None }, &mut page)?;
//!
//! let mut column = ColumnBuf::default();
//! decode_page(&page, &mut column)?;
//! assert_eq!(column.f64s(), temperatures);
//! # Ok::<(), nilometer_codec::Error>(())
//! ```

#![expect(
    clippy::cast_possible_truncation,
    reason = "rows, widths and text bytes are checked against their limits where they enter, and fit the narrow types after that"
)]

mod boolean;
mod cold;
mod column;
pub mod device;
pub mod device_image;
mod encoding;
mod error;
mod float;
mod integer;
mod pack;
mod page;
mod read;
mod shared;
pub mod stats;
mod text;
pub mod varint;

pub use cold::{ColdColumn, encode_cold_column};
pub use column::{ColumnBuf, ColumnRef, PhysicalType, ValuesRef};
pub use encoding::{Encoding, PageSet};
pub use error::Error;
pub use integer::{decode_i64s, encode_i64s};
pub use page::{
    Page, PageHeader, decode_page, decode_page_rows, decode_page_rows_with, decode_page_with,
    encode_page, encode_page_of, needs_header, page_header, shorten_page,
};
pub use shared::{SHARED_HEADER_BYTES_MAX, SharedHeader};

/// Most rows one page may hold. Positions fit ten bits, and a decoded column of integers fits an L1 cache.
pub const BLOCK_ROWS_MAX: usize = 1024;

/// Most bytes of text one decoded page of several values may hold, however small its compressed form is.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// The same of a page with one value, which cannot be cut. Stores take no larger ones.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Most bytes of text that a page with so many values may hold.
pub(crate) const fn text_bytes_max(values: usize) -> usize {
    if values == 1 {
        VALUE_BYTES_MAX
    } else {
        TEXT_BYTES_MAX
    }
}

/// Most pages whose statistics are packed together: more than any group of blocks has, few enough to bound what a
/// decoder allocates.
pub const PAGES_MAX: usize = 4096;

/// Extends the CRC32C `seed` (0 at first) by `bytes`; pages are checked by whoever stores them, not by the page itself.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}
