//! Memory of request bodies, from the first byte until they are stored or refused.
//!
//! Does: count it, for all of them together; before a large part is taken, compare what the process really has with what the
//! machine gives it. Does not: allocate, or wait until there is some.
//!
//! The count alone is not enough: what the budget does not count (what the allocator keeps of what was freed, a batch between body
//! and head) is little as a rule, but after a flood of names on a machine that was busy with other things it was 180 MB of 512,
//! and four bodies that the count allowed ended the server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;
use crate::heap;

/// Unit in which memory is counted.
const UNIT_BYTES: usize = 64 << 10;

/// A body is compared with the machine's memory each time that it has grown by this: a look takes some 20 microseconds.
const LOOK_BYTES: usize = 1 << 20;

/// Of the machine's memory: what bodies may bring the process to. The rest is for the kernel and for what grows meanwhile.
const MACHINE_SHARE: (u64, u64) = (7, 8);

/// Shortest pause between two requests to the allocator for what it keeps.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(1);

/// The memory that all bodies share.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    units: Arc<Semaphore>,
    bytes_max: usize,
    machine: Option<Arc<Machine>>,
}

/// The machine's memory, as bodies see it.
#[derive(Debug)]
struct Machine {
    bytes: u64,
    gave_back: Mutex<Option<Instant>>,
}

impl Machine {
    /// Refuses a part of `bytes` where the process would come too near to what it may have; `held` = what all bodies hold,
    /// this part among it. Bodies that are in memory already count twice, because it cannot be known which are.
    fn look(
        &self,
        bytes: usize,
        held: usize,
        resident: &dyn Fn() -> Option<u64>,
    ) -> Result<(), Error> {
        let most = self.bytes / MACHINE_SHARE.1 * MACHINE_SHARE.0;
        let has_room = |resident: u64| resident.saturating_add(held as u64) <= most;
        let Some(before) = resident() else {
            return Ok(());
        };
        if has_room(before) {
            return Ok(());
        }
        let resident = if self.gives_back(Instant::now()) {
            resident().unwrap_or(before)
        } else {
            before
        };
        if has_room(resident) {
            return Ok(());
        }
        Err(Error::MachineMemory {
            bytes: bytes as u64,
            resident,
            machine: self.bytes,
        })
    }

    /// Has the allocator give back what it keeps, unless it just did.
    fn gives_back(&self, now: Instant) -> bool {
        let mut gave_back = self
            .gave_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due = gave_back.is_none_or(|last| now.duration_since(last) >= GIVE_BACK_PAUSE);
        if is_due {
            heap::give_back();
            *gave_back = Some(now);
        }
        is_due
    }
}

/// A part of that memory, given back when dropped.
#[derive(Debug)]
pub struct BodyPermit {
    memory: BodyMemory,
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
    /// Of these, what was compared with the machine's memory.
    looked: usize,
    /// A planted bug: it is not given back.
    #[doc(hidden)]
    pub is_kept: bool,
}

impl BodyMemory {
    /// So many bytes for all.
    pub fn new(bytes_max: usize) -> Self {
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units)),
            bytes_max,
            machine: None,
        }
    }

    /// On a machine that gives the process so many bytes of memory.
    #[must_use]
    pub fn within(self, machine: Option<u64>) -> Self {
        let machine = machine.map(|bytes| Machine {
            bytes,
            gave_back: Mutex::default(),
        });
        Self {
            machine: machine.map(Arc::new),
            ..self
        }
    }

    /// Bytes that all bodies hold now.
    fn held(&self) -> usize {
        let units = (self.bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        units.saturating_sub(self.units.available_permits()) * UNIT_BYTES
    }

    /// A part without a byte yet.
    pub fn hold(&self) -> BodyPermit {
        BodyPermit {
            memory: self.clone(),
            permit: None,
            bytes: 0,
            looked: 0,
            is_kept: false,
        }
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        if self.is_kept
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

impl BodyPermit {
    /// Makes the part cover `bytes`. Waiting for more while holding some could wait for ever, so it fails instead.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Error> {
        let missing = bytes.saturating_sub(self.bytes).div_ceil(UNIT_BYTES);
        if missing == 0 {
            return Ok(());
        }
        let bytes_max = self.memory.bytes_max;
        let busy = || Error::BodyMemory { bytes_max };
        let units = u32::try_from(missing).map_err(|_| busy())?;
        let more = Arc::clone(&self.memory.units)
            .try_acquire_many_owned(units)
            .map_err(|_| busy())?;
        let total = self.bytes + missing * UNIT_BYTES;
        if let Some(machine) = &self.memory.machine
            && total - self.looked >= LOOK_BYTES
        {
            machine.look(
                missing * UNIT_BYTES,
                self.memory.held(),
                &heap::resident_bytes,
            )?;
            self.looked = total;
        }
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        self.bytes = total;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    #[test]
    fn what_one_body_gives_back_another_may_have() {
        let memory = BodyMemory::new(4 * UNIT_BYTES);
        let mut first = memory.hold();
        first.cover(1).unwrap();
        first.cover(UNIT_BYTES).unwrap();
        first.cover(3 * UNIT_BYTES).unwrap();
        let mut second = memory.hold();
        second.cover(UNIT_BYTES).unwrap();
        let refused = second.cover(UNIT_BYTES + 1).unwrap_err();
        assert_eq!(
            (refused.class(), refused.setting(), refused.passes()),
            (Class::Busy, Some("bodies-bytes-max"), true)
        );
        drop(first);
        second.cover(4 * UNIT_BYTES).unwrap();
    }

    /// On a machine of 512 MiB the count allowed four bodies of 30 MiB, whatever the process had already; it had some 400 MiB,
    /// and was ended for want of memory.
    #[test]
    fn a_large_body_is_refused_where_the_process_is_near_to_what_the_machine_gives() {
        const MIB: u64 = 1 << 20;
        let machine = Machine {
            bytes: 512 * MIB,
            gave_back: Mutex::default(),
        };
        let body = 30 << 20;
        machine.look(body, body, &|| Some(400 * MIB)).unwrap();
        machine.look(body, body, &|| None).unwrap();
        // By hand: 448 MiB are seven eighths.
        machine.look(body, 2 * body, &|| Some(388 * MIB)).unwrap();
        let refused = machine
            .look(body, 2 * body, &|| Some(389 * MIB))
            .unwrap_err();
        assert_eq!(
            (refused.class(), refused.setting(), refused.passes()),
            (Class::Busy, Some("memory-bytes-max"), true)
        );
        // What the allocator gave back counts no more; it is asked once a second at most.
        let machine = Machine {
            bytes: 512 * MIB,
            gave_back: Mutex::default(),
        };
        let looks = std::cell::Cell::new(0);
        let shrinks = || {
            looks.set(looks.get() + 1);
            Some(if looks.get() == 2 {
                300 * MIB
            } else {
                470 * MIB
            })
        };
        machine.look(body, body, &shrinks).unwrap();
        assert_eq!(looks.get(), 2);
        machine.look(body, body, &shrinks).unwrap_err();
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn small_bodies_are_not_compared_with_the_machine_and_what_is_refused_is_given_back() {
        let memory = BodyMemory::new(64 << 20).within(Some(1));
        let mut small = memory.hold();
        small.cover(LOOK_BYTES - UNIT_BYTES).unwrap();
        small.cover(LOOK_BYTES).unwrap_err();
        assert_eq!(memory.held(), LOOK_BYTES - UNIT_BYTES);
        drop(small);
        assert_eq!(memory.held(), 0);
        BodyMemory::new(64 << 20)
            .within(None)
            .hold()
            .cover(2 * LOOK_BYTES)
            .unwrap();
    }
}
