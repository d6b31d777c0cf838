//! Bytes from anywhere for the manifest; see `crate::hostile`.

use std::path::Path;

use nilometer_codec::crc32c;

use super::{HEADER_BYTES, KIND, Manifest, NAME, RECORD_HEADER_BYTES, RECORD_MAGIC, decode_record};
use crate::disk::{Disk as _, MemoryDisk, write_all_at};
use crate::file_header;
use crate::hostile::{SEED_UUID, pieces};

/// Edits, each behind its length in two bytes, in records with right checksums. What opens must say the same when it was
/// written afresh.
pub(crate) fn file(bytes: &[u8]) {
    let mut text = file_header::encode(KIND, SEED_UUID, &[], HEADER_BYTES);
    for payload in pieces(bytes) {
        let start = text.len();
        text.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
        text.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
        text.extend_from_slice(&crc32c(0, payload).to_le_bytes());
        let seed = crc32c(0, &(start as u64).to_le_bytes());
        let crc = crc32c(seed, text.get(start..).unwrap_or_default());
        text.extend_from_slice(&crc.to_le_bytes());
        text.extend_from_slice(payload);
    }
    let disk = MemoryDisk::new();
    let dir = Path::new("/d");
    let file = disk.create(&dir.join(NAME)).expect("the disk is empty");
    write_all_at(file.as_ref(), &text, 0).expect("the disk has room");
    let Ok(mut manifest) = Manifest::open(&disk, dir) else {
        return;
    };
    let contents = manifest.contents.clone();
    manifest.rewrite(&disk).expect("the disk has room");
    let again = Manifest::open(&disk, dir).expect("what was written opens");
    assert!(
        again.contents == contents,
        "written afresh it says something else"
    );
}

/// The edits of a real manifest.
pub(crate) fn seeds(bytes: &[u8], seeds: &mut Vec<(&'static str, Vec<u8>)>) {
    let mut all = Vec::new();
    let mut at = HEADER_BYTES;
    while let Some(payload) = decode_record(bytes, at) {
        seeds.push(("manifest_edit", payload.to_vec()));
        all.extend(u16::try_from(payload.len()).unwrap_or(0).to_le_bytes());
        all.extend_from_slice(payload);
        at += RECORD_HEADER_BYTES + payload.len();
    }
    seeds.push(("manifest_file", all));
}
