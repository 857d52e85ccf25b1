//! `cargo +nightly fuzz run --features fuzzing wire`; what it asks stands in `tollgate_fuzz::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::wire(data));
