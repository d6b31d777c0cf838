//! The state of now: which version, which head on its way into files, which head takes rows.
//!
//! Does: hand it out, and put another in its place in one step. Does not: write files or the manifest.

use std::sync::Arc;

use crate::head::Head;
use crate::ranked::{Locked, Mutex, Rank};
use crate::state::{Frozen, State, Version};

#[derive(Debug)]
pub(super) struct Versions {
    state: Mutex<State>,
}

impl Versions {
    pub(super) fn new(version: Version, head: Head) -> Self {
        let state = State {
            version: Arc::new(version),
            frozen: None,
            head: Arc::new(head),
            own: None,
        };
        Self {
            state: Mutex::new(Rank::State, state),
        }
    }

    pub(super) fn now(&self) -> State {
        self.state.lock().clone()
    }

    /// The state, and what `look` says while it stands still: rows go from a head into files between two looks.
    pub(super) fn now_with<T>(&self, look: impl FnOnce() -> T) -> (State, T) {
        let state = self.state.lock();
        let seen = look();
        (state.clone(), seen)
    }

    pub(super) fn version(&self) -> Arc<Version> {
        Arc::clone(&self.state.lock().version)
    }

    /// The head that takes rows.
    pub(super) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.state.lock().head)
    }

    /// Bytes of the head that takes rows, and of the one on its way into files.
    pub(super) fn head_bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        let frozen = state.frozen.as_ref().map_or(0, |it| it.head.bytes());
        (state.head.bytes(), frozen)
    }

    /// Takes the head aside as `make` says, with an empty one in its place.
    pub(super) fn freeze(&self, make: impl FnOnce(Arc<Head>) -> Frozen) -> Arc<Frozen> {
        let mut state = self.state.lock();
        let frozen = Arc::new(make(std::mem::take(&mut state.head)));
        state.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Shows other files.
    pub(super) fn publish(&self, next: impl FnOnce(&Version) -> Version) {
        put(&mut self.state.lock(), next);
    }

    /// Shows other files, which have the rows of the frozen head.
    pub(super) fn publish_flushed(&self, next: impl FnOnce(&Version) -> Version) {
        let mut state = self.state.lock();
        put(&mut state, next);
        state.frozen = None;
    }
}

fn put(state: &mut Locked<'_, State>, next: impl FnOnce(&Version) -> Version) {
    state.version = Arc::new(next(&state.version));
}
