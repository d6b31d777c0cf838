//! Memory of request bodies, from the first byte until they are stored or refused.
//!
//! Does: count it, for all of them together. Does not: allocate, or wait until there is some.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// Unit in which memory is counted.
const UNIT_BYTES: usize = 64 << 10;

/// The memory that all bodies share.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    units: Arc<Semaphore>,
    bytes_max: usize,
}

/// A part of that memory, given back when dropped.
#[derive(Debug)]
pub struct BodyPermit {
    memory: BodyMemory,
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
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
        }
    }

    /// A part without a byte yet.
    pub fn hold(&self) -> BodyPermit {
        BodyPermit {
            memory: self.clone(),
            permit: None,
            bytes: 0,
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
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        self.bytes += missing * UNIT_BYTES;
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
}
