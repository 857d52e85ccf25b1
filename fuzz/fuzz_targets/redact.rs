//! `cargo +nightly fuzz run --features fuzzing redact`; what it asks stands in `tollgate_fuzz::redact`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::redact(data));
