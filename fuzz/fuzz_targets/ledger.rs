//! `cargo +nightly fuzz run --features fuzzing ledger`; what it asks stands in `tollgate_fuzz::ledger`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::ledger(data));
