//! `cargo +nightly fuzz run --features fuzzing history`; what it asks stands in `tollgate_fuzz::history`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::history(data));
