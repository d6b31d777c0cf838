//! Retention: what it may remove, and what it must have removed.
//!
//! Does: follow what retention can take the time to be, by what the guide says of clocks that jump; say which requests'
//! rows are too old by then. Does not: ask the store what it has removed; audits do, with everything else.

use super::{Ran, Run, Wish};
use crate::client::ALL;
use crate::model::OpId;
use crate::request;

const DAY_MS: i64 = 86_400_000;
/// Further than retention believes by itself, and older than any partition is wide.
pub(crate) const JUMP_MS: u64 = 400 * 86_400_000;
/// A restart that comes so long after retention last looked is like a jump; a day is what it believes.
const AWAY_MS_MAX: u64 = 20 * 3_600_000;

/// Whether retention takes the wall clock's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trust {
    #[default]
    Yes,
    Perhaps,
    No,
}

/// What retention believes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Belief {
    trust: Trust,
    jumps: u32,
}

impl Run<'_> {
    pub(super) fn jump(&mut self) {
        self.world.jump(JUMP_MS);
        self.belief.jumps += 1;
        // Whoever is about to say that the clock is right may mean this time or the one before.
        let mut clients = self.clients.values();
        let is_asked = clients.any(|client| matches!(client.wish, Wish::Accept { .. }));
        self.belief.trust = if is_asked { Trust::Perhaps } else { Trust::No };
    }

    pub(super) fn accept_clock(&mut self) {
        if self.belief.trust == Trust::No {
            self.belief.trust = Trust::Perhaps;
        }
        let wish = Wish::Accept {
            jumps: self.belief.jumps,
        };
        self.send(wish, request::accept_clock(), None, ALL);
    }

    /// Somebody was told that retention goes on.
    pub(super) fn accepted(&mut self, jumps: u32) {
        if self.belief.jumps == jumps {
            self.belief.trust = Trust::Yes;
        }
    }

    /// A restart forgets how much time has passed, but for a mark that is an hour old or so.
    pub(super) fn begin_life(&mut self) {
        let is_like_a_jump = self.belief.jumps > 0 || self.world.now_ms() > AWAY_MS_MAX;
        if is_like_a_jump && self.belief.trust == Trust::Yes {
            self.belief.trust = Trust::Perhaps;
        }
    }

    /// Retention is about to look: rows that may be too old may go from here on.
    pub(super) fn may_expire(&mut self) {
        if self.belief.trust == Trust::No {
            return;
        }
        let days = self.model.values(request::RETENTION);
        let shortest = days.into_iter().filter(|days| *days > 0).min();
        let now_ms = self.world.wall_ns() / 1_000_000;
        let too_old = |id: OpId| {
            let ends_ms = request::partition_ends_s(id) * 1_000;
            shortest.is_some_and(|days| ends_ms <= now_ms - i64::from(days) * DAY_MS)
        };
        self.model.expire(too_old, |_| false);
        self.look();
    }

    /// Time passes and everything ends; then retention has all that it needs, and what is too old goes.
    pub(super) async fn age(&mut self, ms: u64) -> Ran<()> {
        let lives = self.counts.restarts;
        self.world.machine.advance(ms);
        self.run_out(ms).await?;
        if self.counts.restarts != lives {
            return Ok(());
        }
        self.may_expire();
        let is_done = self.world.upkeep();
        if self.crashed().await? {
            return Ok(());
        }
        let days = self.model.values(request::RETENTION);
        let is_certain = is_done
            && self.clients.is_empty()
            && !self.world.is_poisoned()
            && self.belief.trust == Trust::Yes;
        if let (true, Some(&days), 1) = (is_certain, days.first(), days.len())
            && days > 0
        {
            let before_ms = self.world.wall_ns() / 1_000_000 - i64::from(days) * DAY_MS;
            // However wide the partition is.
            let last_s = before_ms / 1_000 - 2 * request::PARTITION_S_MAX;
            let too_old = |id: OpId| request::partition_ends_s(id) <= last_s;
            let brief = self.writes.values().filter(|write| write.tables.brief);
            let gone = brief.filter(|write| too_old(write.op)).count();
            self.counts.expired += gone as u64;
            self.model.expire(too_old, too_old);
        }
        self.look();
        Ok(())
    }
}
