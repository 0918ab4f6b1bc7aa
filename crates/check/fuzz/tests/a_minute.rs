//! A short campaign of every target: builds the fuzzer and runs it, so that `make test` and with it CI do.
//!
//! `CAIRN_FUZZ_SECONDS` says how long each target runs; the default is 60. Nothing is judged by the clock: more time only
//! means more inputs.

use std::{path::Path, process::Command};

#[test]
fn no_target_fails() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the workspace");
    let seconds = std::env::var("CAIRN_FUZZ_SECONDS").unwrap_or_else(|_| "60".to_owned());
    let output = Command::new(root.join("scripts/fuzz.sh")).arg(&seconds).output().expect("scripts/fuzz.sh runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}
