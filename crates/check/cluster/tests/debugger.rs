//! The debugger stops where it is told to, and looking changes nothing.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use cairn_cluster::{plan::Plan, run::run};

/// What `sim debug SEED` prints for these commands.
fn debug(seed: u64, commands: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["debug", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sim starts");
    child.stdin.take().expect("piped").write_all(commands.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_debugged_run_is_the_run() {
    let seed = 1;
    let told = debug(
        seed,
        "help\nbreak HandOver\nc\nhost 0\nblock 3\nstep 5\nbreak\ndelete HandOver\nuntil 12\nlog 2\nwatch 3\nc\n",
    );
    let outcome = run(&Plan::of(seed), false).expect("a seed that holds");
    assert!(told.contains(&format!("hash: {}", outcome.hash)), "another run:\n{told}");
    for expected in
        ["until this time of the world", "HandOver", "disk group", "region last changed by", "-- 12.0", "sectors "]
    {
        assert!(told.contains(expected), "{expected:?} is missing:\n{told}");
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let told = debug(2, "host 99\nblock x\nwatch y\nnonsense\nq\n");
    for expected in ["there is no host", "\"x\" is no block", "\"y\" is no block", "quit"] {
        assert!(told.contains(expected), "{expected:?} is missing:\n{told}");
    }
}
