//! Panics of libraries as errors: some panic on contradictory bytes where they should report them.
//!
//! Does: take such a panic for what it is, and keep it out of the log, where it would look like a fault of the server.
//! Does not: hide any other; each is of one call, on one thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// What the work gives; `None` = it panicked. Whatever it has changed must not be used any more.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if IS_EXPECTED.get() {
                tracing::debug!(%panic, "a library panicked on bytes from outside");
            } else {
                others(panic);
            }
        }));
    });
    IS_EXPECTED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(false);
    outcome.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_the_next_call_is_as_the_first() {
        for _ in 0..2 {
            assert_eq!(caught(|| 7), Some(7));
            assert_eq!(caught(|| -> i32 { panic!("expected") }), None);
            assert!(!IS_EXPECTED.get());
        }
    }
}
