//! Determinism holds across builds: what a compiler makes of the code changes no run.
//!
//! Assumes     the metadata engine is built without assertions of its own: with them it reads and writes its file otherwise, and every
//!             disk operation is part of the hash

use std::{path::PathBuf, process::Command};

/// The last words of `sim run` for these seeds: what ran, and the hash of every step.
fn hash(sim: &PathBuf, seeds: &str) -> String {
    // Frames of a build without optimisation are large.
    let output = Command::new(sim)
        .args(["run", "--seeds", seeds, "--shrink", "0"])
        .env("RUST_MIN_STACK", (64 << 20).to_string())
        .output()
        .expect("sim runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.contains(", hash ")).unwrap_or_else(|| panic!("no hash in:\n{text}"));
    line.to_owned()
}

#[test]
fn a_build_without_optimisation_makes_the_same_runs() {
    let release = PathBuf::from(env!("CARGO_BIN_EXE_sim"));
    let target = release.parent().and_then(|release| release.parent()).expect("target/release/sim");
    // By rustup's name where that is what runs the tests: a toolchain's own cargo would leave each dependency to choose its rustc.
    let built = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["build", "--quiet", "--locked", "-p", "cairn-cluster", "--bin", "sim", "--target-dir"])
        .arg(target)
        .args(["--config", "profile.dev.debug=0", "--config", "profile.dev.package.redb.debug-assertions=false"])
        .status()
        .expect("cargo runs");
    assert!(built.success(), "cargo does not build it");
    let (one, other) = (hash(&release, "1..4"), hash(&target.join("debug").join("sim"), "1..4"));
    eprintln!("{one}");
    assert_eq!(one, other);
}
