//! The suite in C, called.
//!
//! Does: give it memory, take its text. Does not: know what the text says.

#![expect(
    unsafe_code,
    reason = "the one call of the C library, which is what is measured; a program beside this one would need a compiler where it runs"
)]

use std::sync::Mutex;

use crate::{Error, Result};

/// `NE_SUITE_MEMORY`: the flash and a bit for each of its bytes.
const MEMORY_BYTES: usize = (4 << 20) + (4 << 20) / 8;
const TEXT_BYTES_MAX: usize = 64 << 10;

/// What edge/bench/count.sh has counted on RISC-V.
pub(super) const COUNTED: &str = include_str!("../../../../edge/bench/instructions.txt");

/// The suite has one memory for its tables.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

unsafe extern "C" {
    /// `edge/bench/ne_suite.h`.
    fn ne_suite(
        memory: *mut u8,
        out: *mut u8,
        room: usize,
        instructions: Option<extern "C" fn() -> u32>,
    ) -> usize;
}

/// Runs the suite; a line for each figure.
pub(super) fn run() -> Result<String> {
    let _turn = ONE_AT_A_TIME.lock();
    let mut memory = vec![0_u8; MEMORY_BYTES];
    let mut text = vec![0_u8; TEXT_BYTES_MAX];
    // SAFETY: `memory` has the bytes that the header asks for, and `text` as many as are said; both are borrowed for the call alone, and the
    // function keeps no pointer that it uses after it. It is called by one thread at a time.
    let bytes = unsafe { ne_suite(memory.as_mut_ptr(), text.as_mut_ptr(), text.len(), None) };
    let end = match bytes {
        0 => text.iter().position(|byte| *byte == 0).unwrap_or(0),
        bytes => bytes.min(text.len()),
    };
    text.truncate(end);
    let text = String::from_utf8_lossy(&text).into_owned();
    match bytes {
        0 => Err(Error::Edge { what: text }),
        _ => Ok(text),
    }
}
