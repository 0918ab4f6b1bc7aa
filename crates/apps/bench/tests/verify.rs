//! `load --verify` against honest targets, and against those that lie.

mod support;

use std::{fs, process::Command};

use serde_json::Value;
use support::Server;
use tempfile::TempDir;

fn load(targets: &[&str], words: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    let output = command.arg("load").args(targets).args(words.split_whitespace()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_honest_target_holds_what_was_written() {
    let server = Server::start(&["memory", "4M"]);
    let words = "-r 30 -q 8 --ramp 0.2 -t 1 --dedupe 2 --compress 2 --destructive --verify";
    let (code, out, err) = load(&[&server.uri()], &format!("{words} --style json"));
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["verified"]["wrong"], &told["verified"]["first_wrong"]), (0, &0.into(), &Value::Null));
    let places = told["verified"]["places"].as_u64().unwrap();
    assert!((1..=1024).contains(&places), "{places}");
    assert_eq!(told["verified"]["bytes"], places * 4096);
    assert!(err.contains("read back: "), "{err}");
    let without = "-r 30 --ramp 0 -t 0.2 --destructive --style json";
    let told: Value = serde_json::from_str(&load(&[&server.uri()], without).1).unwrap();
    assert_eq!(told["verified"], Value::Null);
}

#[test]
fn a_file_holds_what_was_written() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("disk");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let words = "-b 16k -r 0 -q 4 --ramp 0 -t 0.5 --destructive --verify";
    let (code, out, err) = load(&[path.to_str().unwrap()], words);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\nread back: "), "{out}");
}

/// Everything is acknowledged and forgotten.
#[test]
fn a_target_that_keeps_nothing_is_caught() {
    let server = Server::start(&["null", "1M"]);
    let words = "-r 0 -q 4 --ramp 0 -t 0.5 --destructive --verify";
    let (code, out, _) = load(&[&server.uri()], &format!("{words} --style json"));
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["complete"]), (1, &Value::Bool(true)), "the run itself was good");
    assert_eq!(told["verified"]["wrong"], told["verified"]["places"]);
    let (code, out, _) = load(&[&server.uri()], words);
    assert_eq!(code, 1);
    assert!(out.contains("\n! read back: ") && out.contains("do not hold what was acknowledged last"), "{out}");
}

/// One place of sixteen is not written, and each time it is acknowledged.
#[test]
fn a_target_that_loses_some_writes_is_caught_where_it_does() {
    let server = Server::start(&[
        "eval",
        "get_ready=truncate -s 256K $tmpdir/disk",
        "get_size=echo 256K",
        "thread_model=echo serialize_all_requests",
        "pread=dd if=$tmpdir/disk skip=$4 count=$3 iflag=skip_bytes,count_bytes status=none",
        "pwrite=if [ $(( $4 / 4096 % 16 )) = 3 ]; then cat > /dev/null; \
         else dd of=$tmpdir/disk seek=$4 oflag=seek_bytes conv=notrunc status=none; fi",
    ]);
    let words = "-r 0 -s 0 -q 2 --ramp 0 -t 2 --destructive --verify --style json";
    let (code, out, err) = load(&[&server.uri()], words);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1, "{err}");
    assert!((1..=4).contains(&told["verified"]["wrong"].as_u64().unwrap()), "{}", told["verified"]);
    let first = told["verified"]["first_wrong"].as_str().unwrap();
    let at: u64 = first.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert_eq!(at / 4096 % 16, 3, "{first}");
}

#[test]
fn what_could_not_be_judged_is_refused() {
    let server = Server::start(&["memory", "1M"]);
    let uri = server.uri();
    for (targets, words, code, expected) in [
        (&[uri.as_str()][..], "--verify", 2, "nothing is written"),
        (&[&uri, &uri], "-r 0 --verify --destructive", 2, "two streams write it"),
        (
            &[&uri],
            "-r 0 -q 64 --span 64k --ramp 0 -t 1 --verify --destructive",
            1,
            "fewer outstanding, or a wider span",
        ),
    ] {
        let (ended, out, err) = load(targets, words);
        assert_eq!(ended, code, "{words}: {err}");
        assert!(format!("{out}{err}").contains(expected), "{words}: {out}{err}");
    }
}
