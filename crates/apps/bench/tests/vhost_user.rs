//! The program against a vhost-user device that is not ours (qemu-storage-daemon's): what is written is there, however it is asked
//! for, and what breaks is said. How fast is not judged here.

mod support;

use std::{
    fs,
    os::unix::net::UnixListener,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use support::Device;

const MIB: u64 = 1 << 20;

fn bench(words: &str, targets: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    command.args(words.split_whitespace()).args(targets).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn result(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON:\n{out}\n{err}"))
}

fn good(words: &str, targets: &[&str]) -> Value {
    let output = bench(&format!("{words} --style json"), targets).output().unwrap();
    let told = result(&output);
    assert_eq!(output.status.code(), Some(0), "{words}: {told}");
    assert_eq!(told["complete"], true, "{words}");
    told
}

fn refused(words: &str, targets: &[&str], code: i32) -> String {
    let output = bench(words, targets).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    said
}

/// From one request at a time to more than a ring holds; from one sector to the most that a request may have.
#[test]
fn what_is_written_is_read_back() {
    let device = Device::start(256 * MIB, true);
    for (block, outstanding, seconds) in [("512", 1, 1), ("4k", 32, 1), ("64k", 128, 1), ("4k", 500, 1), ("4m", 16, 1)]
    {
        let words = format!("load -b {block} -q {outstanding} -r 30 --ramp 0 -t {seconds} --verify --destructive");
        let told = good(&words, &[&device.uri()]);
        let verified = |what: &str| told["verified"][what].as_u64().unwrap();
        assert!(verified("places") > 10, "{block}: {told}");
        assert_eq!(verified("wrong"), 0, "{block}: {told}");
    }
}

#[test]
fn every_byte_is_written_by_a_connection_after_the_other() {
    let (device, other) = (Device::start(80 * MIB, true), Device::start(70 * MIB, true));
    let output = bench("precondition --destructive --passes 1", &[&device.uri(), &other.uri()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("{} bytes", 150 * MIB)), "{said} {}", String::from_utf8_lossy(&output.stderr));
}

/// It has one front end at a time.
#[test]
fn streams_of_one_device_share_its_connection() {
    let device = Device::start(64 * MIB, true);
    let told = good("load -b 8k -q 4 -r 50 --ramp 0 -t 1 --destructive", &[&device.uri(), &device.uri()]);
    assert!(told["total"]["requests"].as_u64().unwrap() > 100, "{told}");
    let listening = UnixListener::bind(device.uri().replace("vhost-user://", "") + ".silent").unwrap();
    let silent = format!("{}.silent", device.uri());
    let said = refused("load -t 1", &[&silent], 3);
    assert!(said.contains("did not answer within 5 s"), "{said}");
    drop(listening);
    let said = refused("load -t 1", &[&silent], 3);
    assert!(said.contains("cannot connect"), "{said}");
}

#[test]
fn what_a_device_does_not_take_is_refused() {
    let device = Device::start(64 * MIB, false);
    let said = refused("load -r 50 -t 1 --destructive", &[&device.uri()], 3);
    assert!(said.contains("read-only"), "{said}");
    let said = refused("load -b 8m -t 1", &[&device.uri()], 3);
    assert!(said.contains("at most 4194304 bytes"), "{said}");
    let said = refused("load --span 65M -t 1", &[&device.uri()], 3);
    assert!(said.contains("ends beyond its 67108864 bytes"), "{said}");
}

#[test]
fn logs_flush_and_trim() {
    let device = Device::start(64 * MIB, true);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let lines = "0 a write 0 1048576\n1 a sync\n2 a trim 4096 65536\n3 a read 0 4096\n4 a datasync";
    fs::write(&log, format!("fio version 3 iolog\n{lines}\n")).unwrap();
    let told = good("replay --destructive", &[log.to_str().unwrap(), &device.uri()]);
    let count = |what: &str| told["replay"][what]["requests"].as_u64();
    assert_eq!((count("trim"), count("flush")), (Some(1), Some(2)), "{told}");
}

#[test]
fn a_server_that_dies_breaks_the_run_and_what_was_measured_is_kept() {
    let mut device = Device::start(64 * MIB, true);
    let running = bench("load -q 4 --ramp 0 -t 60 --style json", &[&device.uri()]).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    device.kill();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = result(&output);
    assert_eq!(told["complete"], false);
    assert!(told["read"]["requests"].as_u64().unwrap() > 100);
    assert!(told["doubts"].to_string().contains("the server ended the connection"), "{}", told["doubts"]);
}
