//! Damage: found, put aside, mended, and told of.

pub(in crate::engine) mod damaged;
pub(in crate::engine) mod quarantine;
pub(in crate::engine) mod salvage_index;
pub(in crate::engine) mod salvage_segment;
pub(in crate::engine) mod scrub;
pub(in crate::engine) mod verify;

use std::sync::Arc;

use crate::engine::maintain::Jobs;
use crate::engine::maintain::flush::Maintained;
use crate::engine::repair::damaged::Quarantined;
use crate::engine::repair::scrub::{Scrub, Scrubbed};
use crate::engine::sequencer::Sequencer;
use crate::engine::site::Site;
use crate::error::Error;
use crate::ranked::{Mutex, Rank};

/// What is known of damage, and what looks for it.
#[derive(Debug)]
pub(in crate::engine) struct Repair {
    site: Arc<Site>,
    sequencer: Arc<Sequencer>,
    jobs: Arc<Jobs>,
    /// Damaged files that were put aside, now or earlier.
    quarantined: Vec<Quarantined>,
    /// Damaged index files that were put aside since.
    mended: Mutex<Vec<Quarantined>>,
    /// Held by a step of the scrub.
    scrub: Mutex<Scrub>,
    /// What it has found; never held while anything is read.
    scrubbed: Mutex<Scrubbed>,
}

impl Repair {
    /// With what was put aside when the store was opened, and before.
    pub(in crate::engine) fn new(
        (site, sequencer, jobs): (Arc<Site>, Arc<Sequencer>, Arc<Jobs>),
        quarantined: Vec<Quarantined>,
    ) -> Self {
        let (scrub, scrubbed) = scrub::begin(site.disk(), site.dir(), site.uuid());
        Self {
            site,
            sequencer,
            jobs,
            quarantined,
            mended: Mutex::new(Rank::Mended, Vec::new()),
            scrub,
            scrubbed,
        }
    }

    /// What is damaged was mended while the store was opened, as far as there is room for it now: what was read in its
    /// place will do otherwise.
    pub(in crate::engine) fn mend_opened(&mut self) -> Result<(), Error> {
        self.renew_index_files()?;
        while let Ok(Maintained::Indexed { .. }) = self.mend_index() {}
        let mended = std::mem::take(&mut *self.mended.lock());
        self.quarantined.extend(mended);
        Ok(())
    }
}
