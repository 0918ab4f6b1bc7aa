//! The rules of this crate, applied to the workspace as it is.
//!
//! A failure lists every place at once, with what to do about it.

use std::{collections::BTreeMap, fs};

use cairn_arch::{
    circles,
    files::{self, File},
    ratchet, root, text,
    tiers::{Package, violations},
};
use cargo_metadata::{DependencyKind, MetadataCommand};

fn sources() -> Vec<File> {
    let files = files::sources(&root()).expect("the sources of the workspace");
    assert!(files.len() > 50, "only {} files: looked in the wrong place", files.len());
    files
}

fn packages() -> Vec<Package> {
    let metadata =
        MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().expect("cargo metadata");
    metadata
        .packages
        .iter()
        .map(|package| {
            let folder = package.manifest_path.parent().expect("a manifest in a folder");
            let room = folder.file_name().unwrap_or_default();
            let tier = folder.parent().and_then(|p| p.file_name()).unwrap_or_default();
            Package {
                name: package.name.to_string(),
                tier: tier.to_owned(),
                room: room.to_owned(),
                dependencies: package
                    .dependencies
                    .iter()
                    .filter(|d| d.kind != DependencyKind::Development)
                    .map(|d| d.name.clone())
                    .collect(),
            }
        })
        .collect()
}

/// Fails with all of `found`.
fn none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}\n", found.join("\n  "));
}

#[test]
fn crates_import_downwards() {
    let packages = packages();
    assert!(packages.len() >= 20);
    none(&violations(&packages), "imports against the tiers");
}

#[test]
fn every_source_file_opens_with_a_head() {
    let found: Vec<String> =
        sources().iter().filter(|f| f.product() && !text::has_head(&f.text)).map(|f| f.path.clone()).collect();
    none(&found, "no `//!` line at the top that says what the file is for");
}

#[test]
fn heads_are_easy_to_read() {
    let long = |f: &File| text::long_sentences(&f.text).into_iter().map(|s| format!("{}: {s}", f.path)).collect();
    let found: Vec<String> = sources().iter().flat_map(|f| -> Vec<String> { long(f) }).collect();
    none(&found, "sentences of a head that are too long: make two of each");
}

#[test]
fn nothing_is_left_half_done() {
    let found: Vec<String> = sources()
        .iter()
        .flat_map(|f| text::banned(&f.source).into_iter().map(|what| format!("{}:{what}", f.path)))
        .collect();
    none(&found, "words that no file may say");
}

#[test]
fn files_and_functions_keep_their_marks() {
    let path = root().join(files::RATCHET);
    let recorded = fs::read_to_string(&path).expect("the ratchet");
    let recorded = ratchet::parse(&recorded).expect("the ratchet");
    let found = ratchet::grown(&recorded, &files::lengths(&sources()));
    none(&found, "longer than allowed");
}

#[test]
fn circles_between_files_keep_their_marks() {
    let recorded = fs::read_to_string(root().join(circles::CIRCLES)).expect("the marks of circles");
    let recorded = circles::parse(&recorded).expect("the marks of circles");
    none(&circles::grown(&recorded, &circles::circles(&sources())), "files that import each other");
}

#[test]
fn unsafe_is_explained_or_forbidden() {
    let mut found = Vec::new();
    let mut packages: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for file in sources().iter().filter(|f| f.product()) {
        let lines = text::unsafe_unexplained(&file.source, &file.text);
        found.extend(lines.iter().map(|line| format!("{}:{line}: no SAFETY comment above", file.path)));
        let (uses, forbids) = packages.entry(file.package()).or_default();
        *uses |= text::uses_unsafe(&file.source);
        *forbids |= file.source.code.contains("#![forbid(unsafe_code)]");
    }
    for (package, (uses, forbids)) in packages {
        if !uses && !forbids {
            found.push(format!("{package}: needs no unsafe code and does not forbid it"));
        }
    }
    none(&found, "unsafe code");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let found: Vec<String> = packages()
        .iter()
        .map(|p| format!("crates/{}/{}/Cargo.toml", p.tier, p.room))
        .filter(|path| {
            let manifest = fs::read_to_string(root().join(path)).unwrap_or_default();
            !manifest.contains("[lints]\nworkspace = true")
        })
        .collect();
    none(&found, "no `[lints] workspace = true`");
}

#[test]
fn the_simulated_tiers_have_their_bans() {
    for tier in ["base", "pure", "engine"] {
        let path = root().join(format!("crates/{tier}/clippy.toml"));
        let bans = fs::read_to_string(&path).expect("the bans of the tier");
        for banned in [
            "std::time::Instant",
            "std::time::SystemTime",
            "std::thread::spawn",
            "std::fs::File",
            "std::net::TcpStream",
            "std::collections::HashMap",
        ] {
            assert!(bans.contains(banned), "{tier} does not ban {banned}");
        }
        // A nearer file would replace it: clippy reads one.
        for room in fs::read_dir(root().join("crates").join(tier)).expect("the rooms") {
            let own = room.expect("a room").path().join("clippy.toml");
            assert!(!own.exists(), "{} replaces the bans of its tier", own.display());
        }
    }
}
