//! `cargo +nightly fuzz run --features fuzzing repair`; what it asks stands in `tollgate_fuzz::repair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::repair(data));
