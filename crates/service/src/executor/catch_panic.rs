//! Panics of libraries as errors: some panic on contradictory bytes where they should report them.
//!
//! Does: take such a panic for what it is, and keep it off the terminal and out of the log, where it would look like a fault of
//! the program. Does not: hide any other; each is of one call, on one thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// What the work gives; `None` = it panicked. Whatever it has changed must not be used any more.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
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
    // Such work may be a part of other such work.
    let before = IS_EXPECTED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(before);
    outcome.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_the_next_call_is_as_the_first() {
        for _ in 0..2 {
            assert_eq!(catch_panic(|| 7), Some(7));
            assert_eq!(catch_panic(|| -> i32 { panic!("expected") }), None);
            assert_eq!(
                catch_panic(|| catch_panic(|| IS_EXPECTED.get())),
                Some(Some(true))
            );
            assert_eq!(
                catch_panic(|| (catch_panic(|| 7), IS_EXPECTED.get()).1),
                Some(true)
            );
            assert!(!IS_EXPECTED.get());
        }
    }
}
