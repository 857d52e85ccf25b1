//! `cargo +nightly fuzz run --features fuzzing frame`; what it asks stands in `tollgate_fuzz::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::frame(data));
