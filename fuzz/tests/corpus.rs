//! Each target is told its corpus: cases from life, and whatever a fuzzer found once. No nightly compiler is needed.

use std::path::Path;

use tollgate_fuzz::TARGETS;

#[test]
fn what_was_found_once_is_not_found_again() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            assert!(std::panic::catch_unwind(|| target(&data)).is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count > 5, "{name} has {count} cases");
    }
}
