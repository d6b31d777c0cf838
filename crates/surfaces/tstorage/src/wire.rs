//! The bytes of the protocol: commands, headers, keys. All numbers are little-endian.
//!
//! Does: turn them into values and back. Does not: read a socket, or decide what a request may ask.

use bytes::{Buf, BufMut};

/// Bytes of the header of a request or an answer.
pub(crate) const HEADER_BYTES: usize = 12;
/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the two keys of a GET.
pub(crate) const BOX_BYTES: usize = 2 * KEY_BYTES;
/// Bytes of a record of a PUT before its payload, without its size.
pub(crate) const PUT_BYTES: usize = 20;
/// The same of a PUTA, which has the acquisition time too.
pub(crate) const PUTA_BYTES: usize = 28;

/// In the place of a client's id: there are no more records.
pub(crate) const END: i32 = -1;

/// Nanoseconds from 1970 to 2001-01-01T00:00:00Z, where the protocol's times begin; no leap second is counted.
pub(crate) const EPOCH_NS: i64 = 978_307_200 * 1_000_000_000;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Records of a box.
    Get,
    /// Records in; they are stamped here.
    Put,
    /// Records in, with their stamps.
    PutAcq,
    /// Up to when a box is complete.
    GetAcq,
}

impl Command {
    pub(crate) fn of(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Get,
            5 => Self::Put,
            6 => Self::PutAcq,
            7 => Self::GetAcq,
            _ => return None,
        })
    }

    /// Bytes that follow the header and that every request of the kind has.
    pub(crate) fn fixed_bytes(self) -> usize {
        match self {
            Self::Get | Self::GetAcq => BOX_BYTES,
            Self::Put | Self::PutAcq => 0,
        }
    }
}

/// Statuses of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    Error = -1,
}

/// A key, as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) cid: i32,
    pub(crate) mid: i64,
    pub(crate) moid: i32,
    /// Nanoseconds since 2001, as `acq`.
    pub(crate) cap: i64,
    pub(crate) acq: i64,
}

impl Key {
    /// Reads a key; `from` has its bytes.
    pub(crate) fn get(from: &mut impl Buf) -> Self {
        Self {
            cid: from.get_i32_le(),
            mid: from.get_i64_le(),
            moid: from.get_i32_le(),
            cap: from.get_i64_le(),
            acq: from.get_i64_le(),
        }
    }

    pub(crate) fn put(&self, to: &mut impl BufMut) {
        to.put_i32_le(self.cid);
        to.put_i64_le(self.mid);
        to.put_i32_le(self.moid);
        to.put_i64_le(self.cap);
        to.put_i64_le(self.acq);
    }
}

/// Records whose every component is at or above the first key's and below the second's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyBox {
    pub(crate) min: Key,
    pub(crate) max: Key,
}

impl KeyBox {
    pub(crate) fn get(from: &mut impl Buf) -> Self {
        Self {
            min: Key::get(from),
            max: Key::get(from),
        }
    }

    /// Whether no key at all can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        let (min, max) = (&self.min, &self.max);
        min.cid >= max.cid
            || min.mid >= max.mid
            || min.moid >= max.moid
            || min.cap >= max.cap
            || min.acq >= max.acq
    }
}

/// The header of an answer.
pub(crate) fn put_header(to: &mut impl BufMut, status: Status, size: u64) {
    to.put_i32_le(status as i32);
    to.put_u64_le(size);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Python's `struct.pack("<iqiqq", ...)` writes them.
    #[test]
    fn a_key_has_its_components_packed_in_the_order_of_the_protocol() {
        let key = Key {
            cid: 1,
            mid: 2,
            moid: -3,
            cap: 0x0102_0304_0506_0708,
            acq: -1,
        };
        let mut bytes = Vec::new();
        key.put(&mut bytes);
        let expected = [
            &[1, 0, 0, 0][..],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[0xFD, 0xFF, 0xFF, 0xFF],
            &[8, 7, 6, 5, 4, 3, 2, 1],
            &[0xFF; 8],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(Key::get(&mut bytes.as_slice()), key);
        let mut header = Vec::new();
        put_header(&mut header, Status::Error, 8);
        assert_eq!(header, [255, 255, 255, 255, 8, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_box_is_empty_if_one_side_of_it_has_no_length() {
        let min = Key {
            cid: 0,
            mid: 0,
            moid: 0,
            cap: 0,
            acq: 0,
        };
        let max = Key {
            cid: 1,
            mid: 1,
            moid: 1,
            cap: 1,
            acq: 1,
        };
        assert!(!KeyBox { min, max }.is_empty());
        for changed in [
            Key { cid: 0, ..max },
            Key { mid: 0, ..max },
            Key { moid: -1, ..max },
            Key { cap: 0, ..max },
            Key { acq: 0, ..max },
        ] {
            assert!(KeyBox { min, max: changed }.is_empty(), "{changed:?}");
        }
    }
}
