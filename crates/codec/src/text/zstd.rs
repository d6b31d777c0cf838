//! ZSTD: the body of PLAIN or DICTIONARY as one zstd frame.
//!
//! Layout: inflated size (varint), size of the frame (varint), the frame. Builds without the feature `zstd` write
//! bodies as they are and refuse to read compressed ones.

use crate::Error;

#[cfg(feature = "zstd")]
mod contexts {
    //! Making a zstd context costs more than a page of short values, so each thread keeps one of either kind. They hold
    //! no state between two calls.

    use std::cell::RefCell;

    use zstd::bulk::{Compressor, Decompressor};

    thread_local! {
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    /// The frame of `body` at the start of `frame`, or `None` if it does not fit.
    pub(super) fn compress(body: &[u8], frame: &mut [u8]) -> Option<usize> {
        COMPRESSOR.with_borrow_mut(|slot| {
            let compressor = match slot {
                Some(compressor) => compressor,
                None => slot.insert(Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).ok()?),
            };
            compressor.compress_to_buffer(body, frame).ok()
        })
    }

    /// Replaces `body` by what `frame` holds, or answers `None` if that is damaged or beyond the capacity of `body`.
    pub(super) fn decompress(frame: &[u8], body: &mut Vec<u8>) -> Option<usize> {
        DECOMPRESSOR.with_borrow_mut(|slot| {
            let decompressor = match slot {
                Some(decompressor) => decompressor,
                None => slot.insert(Decompressor::new().ok()?),
            };
            decompressor.decompress_to_buffer(frame, body).ok()
        })
    }
}

/// Room in an inflated body for two chunks of integers beside the text.
#[cfg(feature = "zstd")]
const INTEGERS_BYTES_MAX: usize = 4 * 8 * crate::BLOCK_ROWS_MAX;

/// Replaces everything from `start` by its compressed form if the frame has at most `bytes_max`, and answers whether it did.
#[cfg(feature = "zstd")]
pub(super) fn compress_body(start: usize, bytes_max: usize, out: &mut Vec<u8>) -> bool {
    use crate::varint;

    let inflated_bytes = out.len() - start;
    let mut frame = vec![0; bytes_max];
    let Some(frame_bytes) = contexts::compress(&out[start..], &mut frame) else {
        return false;
    };
    out.truncate(start);
    varint::put_u64(inflated_bytes as u64, out);
    varint::put_u64(frame_bytes as u64, out);
    out.extend_from_slice(&frame[..frame_bytes]);
    true
}

/// Replaces `inflated` by the body, which has so many values.
#[cfg(feature = "zstd")]
pub(super) fn inflate_body(
    input: &mut &[u8],
    values: usize,
    inflated: &mut Vec<u8>,
) -> Result<(), Error> {
    use crate::{read, varint};

    let declared = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
    if declared > crate::text_bytes_max(values) + INTEGERS_BYTES_MAX {
        return Err(Error::LimitTextBytes { bytes: declared });
    }
    let frame_bytes = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
    let frame = read::take(input, frame_bytes)?;
    inflated.clear();
    inflated.reserve(declared);
    match contexts::decompress(frame, inflated) {
        Some(written) if written == declared => Ok(()),
        Some(_) => Err(Error::corrupt(
            "a zstd frame inflates to another size than declared",
        )),
        None => Err(Error::corrupt("a zstd frame does not inflate")),
    }
}

/// Leaves the body as it is: this build cannot compress.
#[cfg(not(feature = "zstd"))]
pub(super) fn compress_body(_start: usize, _bytes_max: usize, _out: &mut Vec<u8>) -> bool {
    false
}

/// Refuses: this build cannot inflate.
#[cfg(not(feature = "zstd"))]
pub(super) fn inflate_body(
    _input: &mut &[u8],
    _values: usize,
    _inflated: &mut Vec<u8>,
) -> Result<(), Error> {
    Err(Error::UnsupportedZstd)
}
