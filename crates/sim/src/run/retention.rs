//! Bounds of retention: what it takes, and when it may.

use std::sync::Arc;

use nilometer_engine::RetentionTime;

use super::Run;
use crate::world::read_all;

const DAY_NS: i64 = 86_400_000_000_000;
const MS_NS: i64 = 1_000_000;

/// What retention took the time to be.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "units come last")]
pub(super) struct Believed {
    /// The latest time of all lives.
    pub(super) latest_ns: i64,
    /// The last time of this life.
    last_ns: Option<i64>,
    /// Of this life: how far a believed time was ahead of the clock that never jumps, at most.
    ahead_ns: i64,
}

impl Default for Believed {
    fn default() -> Self {
        Self {
            latest_ns: i64::MIN,
            last_ns: None,
            ahead_ns: i64::MIN,
        }
    }
}

impl Believed {
    pub(super) fn start_life(&mut self) {
        self.last_ns = None;
        self.ahead_ns = i64::MIN;
    }

    /// What somebody said is as good as what was believed before.
    fn accept(&mut self, wall_ns: i64, monotonic_ms: u64) {
        let since_ns = i64::try_from(monotonic_ms).unwrap_or(i64::MAX) * MS_NS;
        self.last_ns = Some(wall_ns);
        self.ahead_ns = self.ahead_ns.max(wall_ns - since_ns);
        self.latest_ns = self.latest_ns.max(wall_ns);
    }

    fn note(&mut self, believed_ns: i64, monotonic_ms: u64) -> Result<(), String> {
        if self.last_ns == Some(believed_ns) {
            return Ok(());
        }
        let since_ns = i64::try_from(monotonic_ms).unwrap_or(i64::MAX) * MS_NS;
        let ahead_ns = believed_ns - since_ns;
        if self.last_ns.is_some() && ahead_ns > self.ahead_ns + DAY_NS {
            return Err(format!(
                "retention believed a jump of the clock by {} ns",
                ahead_ns - self.ahead_ns
            ));
        }
        self.last_ns = Some(believed_ns);
        self.ahead_ns = self.ahead_ns.max(ahead_ns);
        self.latest_ns = self.latest_ns.max(believed_ns);
        Ok(())
    }
}

impl Run {
    /// Says that the wall clock is right, after which retention may not be waiting for it.
    pub(super) fn accept_clock(&mut self) -> Result<(), String> {
        let engine = Arc::clone(self.engine()?);
        engine.accept_clock();
        let (wall_ns, monotonic_ms) = (self.world.now_ns(), self.world.monotonic_ms());
        self.believed.accept(wall_ns, monotonic_ms);
        match engine.retention_pause() {
            Some(pause) => Err(format!(
                "the clock was accepted, and yet there is {pause:?}"
            )),
            None => Ok(()),
        }
    }

    /// Notes what retention has taken in this step: what is not gone by now may not go without a look at the clock.
    pub(super) fn note_expired(&mut self) -> Result<(), String> {
        if !self.model.state().has_retention() {
            return Ok(());
        }
        let Some(engine) = self.world.engine() else {
            // Nobody can ask it any more what it believed.
            self.believed.latest_ns = self.believed.latest_ns.max(self.world.now_ns());
            return Ok(());
        };
        if let Some(RetentionTime::Believed(now_ns)) = engine.retention_time() {
            self.believed.note(now_ns, self.world.monotonic_ms())?;
        }
        let found = read_all(&engine.snapshot())?;
        let before = self.model.state().rows();
        self.model.expire(&found, self.believed.latest_ns);
        self.counts.expired += (before - self.model.state().rows()) as u64;
        self.model.check(&found)
    }
}
