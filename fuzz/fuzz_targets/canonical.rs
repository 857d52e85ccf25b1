//! `cargo +nightly fuzz run --features fuzzing canonical`; what it asks stands in `tollgate_fuzz::canonical`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::canonical(data));
