//! The demo's folder: one that holds anything else is refused.

use std::{fs, process::Command};

/// Goal: a demo deletes only what a demo made. Method: a folder with a letter in it.
#[test]
fn a_folder_of_others_stays() {
    let dir = std::env::temp_dir().join(format!("cairn-demo-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("letter"), "dear").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cairn-demo")).arg("--dir").arg(&dir).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("--dir"), "{words}");
    assert_eq!(fs::read_to_string(dir.join("letter")).unwrap(), "dear");
    fs::remove_dir_all(&dir).unwrap();
}
