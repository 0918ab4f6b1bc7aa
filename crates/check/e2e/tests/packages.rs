//! The Debian packages of the programs under test, where nothing is installed yet.
//!
//! What is tried, and how the root is made, stands in `scripts/packages/try.sh`: dpkg is driven by a script there too.

use std::process::Command;

use cairn_e2e::tools::{Turn, program, repository, run, target};

/// They are made twice with the same bytes, install, serve a disk, and leave nothing but data.
#[test]
fn packages_install_serve_and_go() {
    let _turn = Turn::take();
    let programs = ["cairnd", "cairn", "cairn-bench"].map(program);
    let folder = programs[0].parent().expect("a program in a folder");
    let mut script = Command::new(repository().join("scripts/packages/try.sh"));
    match run(script.arg(folder).arg(target().join("tmp").join("packages"))) {
        Ok(said) => print!("{said}"),
        Err(why) => panic!("{why}"),
    }
}
