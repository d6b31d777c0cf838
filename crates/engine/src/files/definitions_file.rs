//! Definition files: definitions from log files that are gone. See `docs/format/definitions.md`.

use std::path::Path;

use crate::catalogue::Catalogue;
use crate::checked_file::{self, Checked, HEADER_BYTES, Identity};
use crate::definition::Definition;
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::file_header::FileFormat;
use crate::layout::definitions_name;
use crate::manifest::{FileKind, Manifest};

pub(crate) const KIND: FileFormat = FileFormat {
    magic: *b"NILODEF0",
    format: 6,
};
/// The default: definitions are written once and read at each open.
const ZSTD_LEVEL: i32 = 3;

/// Writes and syncs a file of encoded definitions; returns its size. The folder's names are the caller's to sync.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    entries: &[u8],
) -> Result<u64, Error> {
    let packed = zstd::bulk::compress(entries, ZSTD_LEVEL).map_err(Error::io("compress", path))?;
    let inflated = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    checked_file::write(disk, path, identity(uuid, file_id), inflated, &packed)
}

/// Reads a file of definitions and hands them on one by one: a file may define a million series.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    apply: &mut dyn FnMut(&Definition) -> Result<(), Malformed>,
) -> Result<(), Error> {
    let file = Checked::read(disk, path, identity(uuid, file_id))?;
    let format = file.format;
    let entries = inflate(file.payload(), file.number);
    // What was packed is not held beside what becomes of it.
    drop(file);
    entries
        .and_then(|entries| decode(&entries, apply))
        .map_err(|what| format.refuse(what, path, HEADER_BYTES as u64))
}

fn identity(uuid: [u8; 16], file_id: u64) -> Identity {
    Identity {
        kind: KIND,
        uuid,
        file_id,
    }
}

fn inflate(packed: &[u8], inflated: u64) -> Result<Vec<u8>, Malformed> {
    let mut entries = Vec::new();
    // Inflated piece by piece, so that memory grows with what comes out and not with what the header says.
    zstd::stream::copy_decode(packed, &mut entries)
        .map_err(|_| Malformed::new("the entries do not inflate"))?;
    if entries.len() as u64 != inflated {
        return Err(Malformed::new(
            "the entries inflate to another size than the header says",
        ));
    }
    Ok(entries)
}

fn decode(
    mut entries: &[u8],
    apply: &mut dyn FnMut(&Definition) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !entries.is_empty() {
        apply(&Definition::decode(&mut entries)?)?;
    }
    Ok(())
}

/// The definitions of all files that a manifest lists.
pub(crate) fn read_definitions(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    for file in manifest.contents.files_of(FileKind::Definitions) {
        let path = dir.join(definitions_name(file.file_id));
        read(
            disk,
            &path,
            manifest.uuid(),
            file.file_id,
            &mut |definition| match definition {
                Definition::TagValue { .. } | Definition::Series { .. } => {
                    Err(Malformed::new("a series in a definition file"))
                }
                definition => catalogue.apply(definition),
            },
        )?;
    }
    Ok(())
}
