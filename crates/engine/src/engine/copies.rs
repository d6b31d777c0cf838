//! Copies of a store: backups, and back again.

pub(in crate::engine) mod backup;
pub(in crate::engine) mod restore;

use std::sync::Arc;

use crate::engine::maintain::Jobs;
use crate::engine::sequencer::Sequencer;
use crate::engine::site::Site;
use crate::ranked::{Mutex, Rank};

/// What makes backups.
#[derive(Debug)]
pub(in crate::engine) struct Backups {
    site: Arc<Site>,
    sequencer: Arc<Sequencer>,
    jobs: Arc<Jobs>,
    /// Held by a backup: there is one at a time.
    turn: Mutex<()>,
}

impl Backups {
    /// None yet.
    pub(in crate::engine) fn new(
        (site, sequencer, jobs): (Arc<Site>, Arc<Sequencer>, Arc<Jobs>),
    ) -> Self {
        Self {
            site,
            sequencer,
            jobs,
            turn: Mutex::new(Rank::Backup, ()),
        }
    }
}
