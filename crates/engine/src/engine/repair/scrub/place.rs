//! The scrub's position, in a file. Bytes: `docs/format/scrub.md`.
//!
//! Does: write and read it. Does not: fail a store for it: without it a pass begins at its beginning.
//!
//! It is a file, and does not follow from the clock, because a store need not be open at every hour of the week, and the
//! clock need not be right.

use std::path::{Path, PathBuf};

use crate::checked_file::{self, Identity};
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::file_header::{FileFormat, take};
use crate::layout::remove_if_there;

const KIND: FileFormat = FileFormat {
    magic: *b"NILOSCR0",
    format: 2,
};
const FILE: &str = "scrub";
const DRAFT: &str = "scrub.tmp";

/// What is read, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::engine) enum Stage {
    #[default]
    Manifest = 0,
    Log = 1,
    Files = 2,
}

/// How far a pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::engine) struct ScrubPlace {
    /// When it began, in nanoseconds since 1970; 0 = it did not.
    pub(super) started_ns: i64,
    /// When the last one ended; 0 = none did.
    pub(super) last_pass_ns: i64,
    /// Bytes that it has read.
    pub(super) done: u64,
    pub(super) stage: Stage,
    /// Files from this id on came after it had begun, and are the next one's.
    pub(super) end_id: u64,
    /// The file that is being read, or from which on one is looked for.
    pub(super) file_id: u64,
    /// The place in it.
    pub(super) at: (u64, u64),
}

/// Puts the place down, in one step. Names are not synced: after a power cut an earlier place does as well.
pub(super) fn write(
    disk: &dyn Disk,
    dir: &Path,
    uuid: [u8; 16],
    place: &ScrubPlace,
) -> Result<(), Error> {
    let draft = dir.join(DRAFT);
    remove_if_there(disk, &draft)?;
    let numbers = [
        place.started_ns.cast_unsigned(),
        place.last_pass_ns.cast_unsigned(),
        place.done,
        place.end_id,
        place.file_id,
        place.at.0,
        place.at.1,
    ];
    let payload: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    checked_file::write(disk, &draft, identity(uuid), place.stage as u64, &payload)?;
    disk.rename(&draft, &dir.join(FILE))
        .map_err(Error::io("rename", &draft))
}

/// The place that was put down last; `None` = there is none that reads.
pub(super) fn read(disk: &dyn Disk, dir: &Path, uuid: [u8; 16]) -> Option<ScrubPlace> {
    let path: PathBuf = dir.join(FILE);
    checked_file::read(disk, &path, identity(uuid), decode).ok()
}

fn identity(uuid: [u8; 16]) -> Identity {
    Identity {
        kind: KIND,
        uuid,
        file_id: 0,
    }
}

fn decode(stage: u64, mut payload: &[u8]) -> Result<ScrubPlace, Malformed> {
    let mut number = || take(&mut payload).map(u64::from_le_bytes);
    let place = ScrubPlace {
        started_ns: number()?.cast_signed(),
        last_pass_ns: number()?.cast_signed(),
        done: number()?,
        end_id: number()?,
        file_id: number()?,
        at: (number()?, number()?),
        stage: match stage {
            0 => Stage::Manifest,
            1 => Stage::Log,
            2 => Stage::Files,
            _ => return Err(Malformed::new("an unknown stage of the scrub")),
        },
    };
    if payload.is_empty() {
        Ok(place)
    } else {
        Err(Malformed::new("bytes after the place of the scrub"))
    }
}
