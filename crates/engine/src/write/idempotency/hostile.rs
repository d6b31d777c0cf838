//! Bytes from anywhere for files of keys; see `crate::hostile`.

use super::file::{decode, encode};
use crate::hostile::agrees;

/// The first byte says how many keys there are.
pub(crate) fn keys(bytes: &[u8]) {
    let Some((n, payload)) = bytes.split_first() else {
        return;
    };
    agrees(
        payload,
        |payload| decode(u64::from(*n), payload),
        |taken| encode(taken),
    );
}
