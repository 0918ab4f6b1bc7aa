//! The committed corpus and every input that once failed, through the targets: what a campaign learned, in seconds.

use std::{fs, path::Path};

use cairn_fuzz::TARGETS;

/// Runs all files of `folder`, one folder for each target; returns how many there were.
fn replay(folder: &str) -> Vec<(&'static str, usize)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    TARGETS.iter().map(|&(name, target)| (name, replay_target(&root.join(name), name, target))).collect()
}

fn replay_target(folder: &Path, name: &str, target: cairn_fuzz::Target) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in &paths {
        let data = fs::read(path).expect("an input");
        if let Err(panic) = std::panic::catch_unwind(|| target(&data)) {
            eprintln!("{name} fails on {}", path.display());
            std::panic::resume_unwind(panic);
        }
    }
    paths.len()
}

#[test]
fn the_corpus_passes() {
    let counts = replay("corpus");
    println!("inputs: {counts:?}");
    assert!(counts.iter().all(|(_, count)| *count > 0), "a target without a corpus: {counts:?}");
}

#[test]
fn what_once_failed_passes() {
    let counts = replay("regressions");
    println!("inputs: {counts:?}");
}

#[test]
fn the_corpus_stays_small() {
    let mut bytes = 0;
    for (name, _) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let sizes: Vec<u64> = fs::read_dir(folder)
            .expect("a corpus")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("an entry").len())
            .collect();
        assert!(sizes.len() <= 30, "{name} has {} files: keep those that reach most", sizes.len());
        bytes += sizes.iter().sum::<u64>();
    }
    assert!(bytes <= 200 << 10, "{bytes} bytes of corpus");
}
