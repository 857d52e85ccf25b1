//! `cargo +nightly fuzz run --features fuzzing proof`; what it asks stands in `tollgate_fuzz::proof`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::proof(data));
