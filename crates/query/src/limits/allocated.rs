//! Accounting of allocations by thread: a global allocator that a program installs.
//!
//! What it gains: operators reserve what they know that they hold, and that was never all. A query whose function, window
//! or aggregate took memory that nobody had reserved ended the process, and with it the queries and writers beside it.
//! Counted where it is taken, such a query ends with an error instead. The price: one addition to a number of the thread
//! for each allocation ([decision 8](../../../docs/decisions/0008-what-a-query-may-take.md) has it measured).
//!
//! Why it is sound: every call is handed on to the system's allocator as it came, and what that answers is handed back;
//! beside it a number changes. The number is a `Cell<i64>` without a destructor and without a lazy start, so that counting
//! allocates nothing, and `try_with` leaves it alone where a thread's own values are gone. The safe twin is a program that
//! does not install it: all numbers stay 0, and every answer is the same.
//!
//! Does not: refuse. A refusal within an allocation ends the process; whoever counts asks at its next check.

#![expect(
    unsafe_code,
    reason = "a global allocator is unsafe by its trait; the module's header says why this one is sound"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BALANCE: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread what it takes and gives back. A program installs it with
/// `#[global_allocator]`; queries are then ended by what they take, and not only by what they have reserved.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

fn count(bytes: i64) {
    // No thread has 2^63 bytes; a wrong number is better than a panic within an allocator.
    let _ = BALANCE.try_with(|balance| balance.set(balance.get().wrapping_add(bytes)));
}

// SAFETY: each method hands its arguments on to `System`, which keeps the trait's promises, and returns what that returns.
// Counting touches a thread's own `Cell` only: it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the promises of this very method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the block came from `System`, because all blocks do; the rest is the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count((bytes as i64).wrapping_sub(layout.size() as i64));
        // SAFETY: as in `dealloc`.
        unsafe { System.realloc(block, layout, bytes) }
    }
}

/// What this thread has taken since the last call, less what it has given back.
pub(crate) fn take() -> i64 {
    BALANCE.replace(0)
}

/// Counts something out that this thread took for somebody else.
pub(crate) fn leave_out(bytes: i64) {
    count(bytes.wrapping_neg());
}
