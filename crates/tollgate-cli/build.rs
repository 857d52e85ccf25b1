//! Has the linker of a release put side by side what a call and a start pass through: docs/decisions/0012.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names of functions in the order in which they shall stand. Written by `scripts/layout`.
const LAYOUT: &str = "layout.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LAYOUT}");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join(LAYOUT);
        let flags =
            [format!("-Wl,--symbol-ordering-file={}", layout.display()), "-Wl,--no-warn-symbol-ordering".to_owned()];
        if is_known_to_linker(&flags) {
            flags.iter().for_each(|flag| println!("cargo:rustc-link-arg-bins={flag}"));
        }
    }
}

/// Whether a program can be linked with these flags. Only LLVM's linker knows them, and which one links is for the
/// toolchain and its owner to say.
#[expect(clippy::disallowed_methods, reason = "a build has no sandbox, and starts only the compiler")]
fn is_known_to_linker(flags: &[String]) -> bool {
    let (Some(rustc), Some(target), Some(folder)) =
        (env::var_os("RUSTC"), env::var_os("TARGET"), env::var_os("OUT_DIR"))
    else {
        return false;
    };
    let source = Path::new(&folder).join("probe.rs");
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let mut probe = Command::new(rustc);
    probe.arg(&source).arg("--out-dir").arg(&folder).arg("--target").arg(target);
    probe.args(env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        probe.arg("-C").arg([std::ffi::OsStr::new("linker="), &linker].join(std::ffi::OsStr::new("")));
    }
    for flag in flags {
        probe.arg("-C").arg(format!("link-arg={flag}"));
    }
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
