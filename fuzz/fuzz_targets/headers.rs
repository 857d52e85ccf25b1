//! `cargo +nightly fuzz run --features fuzzing headers`; what it asks stands in `tollgate_fuzz::headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::headers(data));
