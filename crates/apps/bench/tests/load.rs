//! The program against real servers (nbdkit) and a real file: what it counts, refuses, and says when it breaks. How fast is not
//! judged here.

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use support::Server;
use tempfile::TempDir;

fn bench(target: &str, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    command.arg("load").arg(target).args(words.split_whitespace()).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn run(target: &str, words: &str) -> Output {
    bench(target, words).output().unwrap()
}

fn result(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON:\n{out}\n{err}"))
}

fn refused(target: &str, words: &str, code: i32) -> String {
    let output = run(target, words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    said
}

#[test]
fn what_ends_is_counted_once_and_adds_up() {
    let server = Server::start(&["memory", "64M"]);
    let told = result(&run(&server.uri(), "-b 4k -r 70 -q 8 --ramp 0.2 -t 1 --destructive --style json"));
    assert_eq!(told["complete"], true);
    let count = |side: &str, what: &str| told[side][what].as_u64().unwrap();
    for side in ["read", "write", "total"] {
        let requests = count(side, "requests");
        assert!(requests > 100, "{side}: {told}");
        assert_eq!(count(side, "bytes"), requests * 4096);
        let bins: u64 = told[side]["bins"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        let iometer: u64 = told[side]["iometer_bins"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!((bins, iometer), (requests, requests), "{side}");
        assert_eq!(told[side]["iops"].as_f64().unwrap().round() as u64, requests, "one second was measured");
    }
    assert_eq!(count("read", "requests") + count("write", "requests"), count("total", "requests"));
    let by_second: u64 = told["seconds"].as_array().unwrap().iter().map(|s| s["requests"].as_u64().unwrap()).sum();
    assert_eq!(by_second, count("total", "requests"));
    let share = count("read", "requests") as f64 / count("total", "requests") as f64;
    assert!((0.65..0.75).contains(&share), "{share} of the requests are reads");
}

/// B2: one request outstanding at a target that takes 20 ms serves 50 a second; of 200 a second, most wait for room.
#[test]
fn a_rate_that_is_not_kept_shows_in_the_latency() {
    let server = Server::start(&["--filter=delay", "memory", "64M", "rdelay=20ms"]);
    let told = result(&run(&server.uri(), "-q 1 --rate 200 --ramp 0 -t 2 --style json"));
    let p50 = told["read"]["lat"]["p50_ns"].as_u64().unwrap();
    assert!(p50 > 200_000_000, "half of the requests waited for less than {p50} ns");
    assert!(told["doubts"][0].as_str().unwrap().contains("after they were due"), "{}", told["doubts"]);
    let closed = result(&run(&server.uri(), "-q 1 --ramp 0 -t 1 --style json"));
    let p50 = closed["read"]["lat"]["p50_ns"].as_u64().unwrap();
    assert!((20_000_000..100_000_000).contains(&p50), "{p50}");
}

#[test]
fn nothing_is_written_unasked() {
    let server = Server::start(&["memory", "1M"]);
    let said = refused(&server.uri(), "-r 50 -t 1", 1);
    assert!(said.contains("--destructive"), "{said}");
    let read_only = Server::start(&["-r", "memory", "1M"]);
    let said = refused(&read_only.uri(), "-r 50 -t 1 --destructive", 3);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let server = Server::start(&["memory", "1M"]);
    for (words, code, expected) in [
        ("--span 2M", 3, "ends beyond its 1048576 bytes"),
        ("--offset 100", 3, "multiples of 512"),
        ("-b 1000", 3, "multiple"),
        ("--zipf 1", 3, "Zipf"),
        ("--hot 95", 2, "95/5"),
        ("--rate 0", 2, "above 0"),
        ("--compress 0.5", 2, "compression ratio"),
        ("-t 0", 2, "measured time of nothing"),
    ] {
        let said = refused(&server.uri(), words, code);
        assert!(said.contains(expected), "{words}: {said}");
    }
    let said = refused("nbd+unix:///?socket=/nowhere/at/all", "-t 1", 3);
    assert!(said.contains("cannot connect"), "{said}");
    let said = refused("/nowhere/at/all", "-t 1", 3);
    assert!(said.contains("/nowhere/at/all"), "{said}");
}

/// B3.
#[test]
fn a_server_that_dies_breaks_the_run_and_what_was_measured_is_kept() {
    let mut server = Server::start(&["memory", "64M"]);
    let running = bench(&server.uri(), "-q 4 --ramp 0 -t 60 --style json").spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    server.kill();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = result(&output);
    assert_eq!(told["complete"], false);
    assert!(told["read"]["requests"].as_u64().unwrap() > 100);
    assert!(told["measured_s"].as_f64().unwrap() < 30.0, "what was not measured does not count as time");
    assert!(told["doubts"][0].as_str().unwrap().contains("ended early"), "{}", told["doubts"]);
}

/// A file with direct I/O where the file system has it: what is written is the content that was asked for.
#[test]
fn a_file_holds_what_was_asked_for() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("target");
    fs::write(&path, vec![0; 4 << 20]).unwrap();
    let words =
        "-b 64k -r 0 -s 0 -q 4 --ramp 0 -t 1 --dedupe 2 --dedupe-sets 5 --compress 4 --destructive --style json";
    let told = result(&run(path.to_str().unwrap(), words));
    assert!(told["write"]["requests"].as_u64().unwrap() >= 64, "the whole file was written: {told}");
    let units = units(&path);
    assert_eq!(units.values().sum::<u32>(), 1024);
    assert!(!units.contains_key(&vec![0; 4096]), "no unit is zeroes");
    let alike: u32 = units.values().filter(|count| **count > 1).sum();
    assert!((400..624).contains(&alike), "{alike} of 1,024 units are duplicates");
    assert!(units.keys().all(|unit| unit[1024..].chunks(8).all(|word| word == &unit[1024..1032])), "4:1");
}

fn units(path: &Path) -> BTreeMap<Vec<u8>, u32> {
    let mut units = BTreeMap::new();
    fs::read(path).unwrap().chunks(4096).for_each(|unit| *units.entry(unit.to_vec()).or_default() += 1);
    units
}

#[test]
fn other_forms_of_the_result() {
    let server = Server::start(&["memory", "1M"]);
    let fio = result(&run(&server.uri(), "-t 0.3 --ramp 0 --style fio"));
    let clat = &fio["jobs"][0]["read"]["clat_ns"];
    assert!(clat["N"].as_u64().unwrap() > 10 && clat["percentile"]["99.000000"].as_u64().unwrap() > 0, "{fio}");
    let iometer = String::from_utf8(run(&server.uri(), "-t 0.3 --ramp 0 --style iometer-bins").stdout).unwrap();
    assert_eq!(iometer.lines().count(), 22, "{iometer}");
    assert!(iometer.lines().last().unwrap().ends_with(",100.0000"), "{iometer}");
    let csv = String::from_utf8(run(&server.uri(), "-t 0.3 --ramp 0 --style iometer").stdout).unwrap();
    assert!(csv.starts_with("'Results\n'Target Type,") && csv.contains("\nALL,All,load,1,1,1,"), "{csv}");
    let summary = String::from_utf8(run(&server.uri(), "-t 1 --ramp 0 --style vdbench").stdout).unwrap();
    assert!(summary.lines().last().unwrap().contains(" avg_1-1 "), "{summary}");
    let keys = String::from_utf8(run(&server.uri(), "-t 0.3 --ramp 0 --style hcibench").stdout).unwrap();
    assert!(keys.contains("\nVMs\t\t= 1\n") && keys.contains("\n95%tile_R_LAT\t= "), "{keys}");
    let table = String::from_utf8(run(&server.uri(), "-t 0.3 --ramp 0").stdout).unwrap();
    assert!(table.contains("IOPS") && table.contains("MiB/s") && table.contains("MB/s"), "{table}");
}
