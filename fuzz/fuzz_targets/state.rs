//! `cargo +nightly fuzz run --features fuzzing state`; what it asks stands in `tollgate_fuzz::state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::state(data));
