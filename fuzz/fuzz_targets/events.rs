//! `cargo +nightly fuzz run --features fuzzing events`; what it asks stands in `tollgate_fuzz::events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::events(data));
