//! Progress and findings of the scrub.

use std::path::Path;

use super::place::{self, ScrubPlace, Stage};
use crate::disk::Disk;
use crate::engine::repair::damaged::Damage;
use crate::log::LogPlace;
use crate::ranked::{Mutex, Rank};

/// What the scrub has read and found since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read.
    pub bytes: u64,
    /// Times that it came to the end of everything.
    pub passes: u64,
    /// When it last came to the end, in nanoseconds since 1970, in whichever life of the store; 0 = never.
    pub last_pass_ns: i64,
    /// When the pass that goes on now began.
    pub pass_started_ns: i64,
    /// Bytes that it has read.
    pub pass_bytes: u64,
    /// What fails a checksum, does not decode or is not there, in the order in which it was found, each place once; the
    /// first thousand.
    pub damage: Vec<Damage>,
}

/// Where the scrub is.
#[derive(Debug)]
pub(in crate::engine) struct Scrub {
    pub(super) place: ScrubPlace,
    pub(super) log: Option<LogPlace>,
    /// When the place was written down, and whether it is another now.
    pub(super) saved_ms: Option<u64>,
    pub(super) stepped_ms: Option<u64>,
}

impl Scrub {
    /// Goes on where an earlier life of the store was.
    pub(super) fn new(place: Option<ScrubPlace>) -> Self {
        let mut place = place.unwrap_or_default();
        if place.stage == Stage::Log {
            // Opening the store has read and checked all of it that is needed.
            place.stage = Stage::Files;
        }
        Self {
            place,
            log: None,
            saved_ms: None,
            stepped_ms: None,
        }
    }
}

/// What a store starts with.
pub(in crate::engine) fn begin(
    disk: &dyn Disk,
    dir: &Path,
    uuid: [u8; 16],
) -> (Mutex<Scrub>, Mutex<Scrubbed>) {
    let place = place::read(disk, dir, uuid);
    let scrubbed = Scrubbed {
        last_pass_ns: place.map_or(0, |place| place.last_pass_ns),
        pass_started_ns: place.map_or(0, |place| place.started_ns),
        pass_bytes: place.map_or(0, |place| place.done),
        ..Scrubbed::default()
    };
    (
        Mutex::new(Rank::Scrub, Scrub::new(place)),
        Mutex::new(Rank::Scrubbed, scrubbed),
    )
}
