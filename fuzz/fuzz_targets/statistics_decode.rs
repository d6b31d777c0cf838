//! Any bytes as packed statistics: an error, or statistics that pack again and come back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_codec::PhysicalType;
use nilometer_codec::stats::{decode_statistics, encode_statistics};

fuzz_target!(|data: &[u8]| {
    let [kind, pages, data @ ..] = data else { return };
    let Ok(kind) = PhysicalType::try_from(*kind % 6) else { return };
    let pages = usize::from(*pages);
    let mut data = data;
    let Ok(found) = decode_statistics(&mut data, pages, kind) else { return };
    assert_eq!(found.len(), pages);

    let mut bytes = Vec::new();
    encode_statistics(&found, kind, &mut bytes);
    let mut input = bytes.as_slice();
    let again = decode_statistics(&mut input, pages, kind).expect("what was packed comes back");
    assert!(input.is_empty());
    // The debug form of a float names every finite value; NaN is one word whatever its payload.
    assert_eq!(format!("{found:?}"), format!("{again:?}"));
});
