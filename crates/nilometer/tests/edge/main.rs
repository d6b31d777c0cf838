//! The surface of microcontrollers: pages over HTTP, rows out of the store.
//!
//! Expected values are those that the writers of the pages wrote down: the lists beside golden pages, the points that a program in C
//! prints as it stores them, or numbers in the test. None is taken from the decoder in Rust.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

mod access;
mod commands;
mod damage;
mod emulated;
mod firmware;
mod golden;
mod kept;
mod kill;
mod order;
mod process;
mod support;
