//! Every decoder and parser below the query engine that bytes from outside reach, as a function that takes any bytes.
//!
//! Does: list them, assert what must hold for each (an error or a value that writes and reads again; never a panic, never
//! an allocation that the input does not justify), and change known inputs at random. Does not: belong to the program, or
//! fuzz by itself: `fuzz/` does that with a coverage-guided fuzzer, and `tests/replay.rs` goes through what it kept.

mod codec;
mod lines;
pub mod mutate;
mod store;
mod summary;

pub use store::sample;

/// A decoder under attack: panics when a promise is broken.
pub type Target = fn(&[u8]);

const OWN: [(&str, Target); 9] = [
    ("line_protocol", lines::line_protocol),
    ("typed_lines", store::lines),
    ("page_decode", codec::page_decode),
    ("page_encode", codec::page_encode),
    ("page_cold", codec::page_cold),
    ("device_page", codec::device_page),
    ("statistics_decode", codec::statistics_decode),
    ("summary", summary::summary),
    ("store", store::damaged),
];

/// All targets by name, which is also that of a folder of the corpus.
pub fn targets() -> impl Iterator<Item = (&'static str, Target)> {
    OWN.into_iter().chain(nilometer_engine::hostile::TARGETS)
}

/// The target of this name.
///
/// # Panics
///
/// If there is none: a fuzzer without a target proves nothing.
pub fn target(name: &str) -> Target {
    let found = targets().find(|(known, _)| *known == name);
    found.expect("the name is one of `targets`").1
}
