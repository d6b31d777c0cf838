//! Panics of libraries as errors: some panic on contradictory bytes where they should report them.
//!
//! Does: take such a panic for what it is, and keep it off the terminal, where it would look like a fault of the program.
//! Does not: hide any other; each is of one call, on one thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// The work panicked. Whatever it has changed must not be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// What the work gives.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_EXPECTED.get() {
                others(panic);
            }
        }));
    });
    // Such work may be a part of other such work.
    let before = IS_EXPECTED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(before);
    outcome.map_err(|_| Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_the_next_call_is_as_the_first() {
        for _ in 0..2 {
            assert_eq!(caught(|| 7), Ok(7));
            assert_eq!(caught(|| -> i32 { panic!("expected") }), Err(Panicked));
            assert_eq!(caught(|| caught(|| IS_EXPECTED.get())), Ok(Ok(true)));
            assert!(caught(|| (caught(|| 7), IS_EXPECTED.get()).1) == Ok(true));
            assert!(!IS_EXPECTED.get());
        }
    }
}
