//! The statement that a change is carried out for: when it has to end, and what its client is told.
//!
//! Does: bind it to the thread that works for it, as a change waits for the disk on one thread from its beginning to its end. Does not:
//! end anything; a rewrite of a table asks before each of its steps.

use std::cell::RefCell;
use std::sync::Arc;

use crate::language::notices::SessionNotices;
use crate::limits::statements::Stop;

/// A statement that changes something.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What ends it early.
    pub stop: Stop,
    /// Where its notices go; `None` = nobody is told them.
    pub notices: Option<Arc<SessionNotices>>,
}

thread_local! {
    /// Of the change that this thread carries out.
    static ASKED: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

/// Gives the thread back what it was at, also when the work panics.
struct Restored(Option<Asked>);

impl Drop for Restored {
    fn drop(&mut self) {
        ASKED.set(self.0.take());
    }
}

/// Does the work of a statement on this thread.
pub fn asked_by<T>(asked: Asked, work: impl FnOnce() -> T) -> T {
    let _restored = Restored(ASKED.replace(Some(asked)));
    work()
}

/// Whether the statement has to end.
pub(super) fn is_due() -> bool {
    ASKED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked.stop.is_due()))
}

/// Tells its client something.
pub(super) fn notice(text: String) {
    ASKED.with_borrow(|asked| {
        if let Some(notices) = asked.as_ref().and_then(|asked| asked.notices.as_ref()) {
            notices.add(text);
        }
    });
}
