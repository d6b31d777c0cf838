//! Entry points for fuzzing: one function of arbitrary bytes for each decoder.
//!
//! Does: hand bytes to a decoder behind its checksum, where damage and malice look alike, and panic when a promise is
//! broken: what decodes must encode, and that must decode to the same. Does not: belong to the engine's interface.

mod checks;

use std::path::Path;

use crate::definition::Definition;
use crate::error::Malformed;
use crate::manifest::Edit;
use crate::record::{self, Record};
use crate::tombstone::Tombstone;
pub(crate) use checks::{SEED_UUID, agrees, pieces};

/// A decoder under attack.
pub type Target = fn(&[u8]);

/// Every decoder of the engine, by name. Names are those of the folders of the corpus.
pub const TARGETS: [(&str, Target); 21] = [
    ("record", record_payload),
    ("definitions", definitions),
    ("tombstone", tombstone),
    ("manifest_edit", manifest_edit),
    ("manifest_file", crate::manifest::hostile::file),
    ("log_file", crate::log::hostile::file),
    ("log_records", crate::log::hostile::records),
    ("log_mark", crate::log::hostile::mark),
    ("segment_footer", crate::segment::hostile::footer),
    ("segment_directory", crate::segment::hostile::directory),
    ("segment_statistics", crate::segment::hostile::statistics),
    ("segment_rollups", crate::segment::hostile::rollups),
    ("segment_large", crate::segment::hostile::large),
    ("segment_file", crate::segment::hostile::file),
    ("index_footer", crate::index::hostile::footer),
    ("index_blocks", crate::index::hostile::blocks),
    ("index_file", crate::index::hostile::file),
    ("keys", crate::idempotency::hostile::keys),
    ("relation_file", crate::relation::hostile::file),
    ("relation_changes", crate::relation::hostile::changes),
    ("quarantine_note", crate::engine::quarantine_note),
];

/// What the files of a store have in them for each target: what a corpus starts from.
pub fn seeds(path: &Path, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    // Behind a header of 64 bytes, in front of a checksum of 4.
    let payload = || bytes.get(64..bytes.len().checked_sub(4)?);
    match (name.as_ref(), ending.as_ref()) {
        ("manifest", _) => crate::manifest::hostile::seeds(bytes, &mut seeds),
        (crate::log::MARK, _) => seeds.push(("log_mark", bytes.to_vec())),
        (_, "log") => crate::log::hostile::seeds(bytes, &mut seeds),
        (_, "seg") => crate::segment::hostile::seeds(bytes, &mut seeds),
        (_, "idx") => crate::index::hostile::seeds(bytes, &mut seeds),
        (_, "rel") => seeds.extend(payload().map(|it| ("relation_file", it.to_vec()))),
        (_, "key") => seeds.extend(payload().map(|it| ("keys", [&[1], it].concat()))),
        (_, "reason") => seeds.push(("quarantine_note", bytes.to_vec())),
        _ => {}
    }
    seeds
}

fn record_payload(bytes: &[u8]) {
    agrees(
        bytes,
        |bytes| record::decode(7, bytes),
        |decoded| match decoded {
            Record::Definitions(list) => record::encode_definitions(&encode_all(list)),
            Record::Batch(batch) => {
                let mut batch = batch.clone();
                // In a record a delete has no LSN of its own.
                for tombstone in &mut batch.tombstones {
                    tombstone.lsn = 0;
                }
                record::encode_batch(&batch).expect("a decoded batch is valid")
            }
        },
    );
}

fn encode_all(list: &[Definition]) -> Vec<u8> {
    let mut out = Vec::new();
    for definition in list {
        definition.encode(&mut out);
    }
    out
}

fn definitions(bytes: &[u8]) {
    agrees(bytes, Definition::decode_all, |list| encode_all(list));
}

fn tombstone(bytes: &[u8]) {
    let decode = |mut bytes: &[u8]| {
        let found = Tombstone::decode(&mut bytes)?;
        if bytes.is_empty() {
            Ok(found)
        } else {
            Err(Malformed::new("bytes after it"))
        }
    };
    agrees(bytes, decode, |found| {
        let mut out = Vec::new();
        found.encode(&mut out);
        out
    });
}

fn manifest_edit(bytes: &[u8]) {
    agrees(bytes, Edit::decode, |edit| {
        let mut out = Vec::new();
        edit.encode(&mut out);
        out
    });
}
