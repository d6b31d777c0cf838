//! See `crates/hostile`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nilometer_hostile::target("summary")(data));
