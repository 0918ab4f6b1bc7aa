//! Replays of logs against real servers (nbdkit): order and bytes as in the log, lateness told, what cannot be refused. How fast is
//! not judged here.

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use support::Server;
use tempfile::TempDir;

fn dir() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Lines of a log of version 3, as a file.
fn log_of(dir: &TempDir, lines: &str) -> PathBuf {
    let path = dir.path().join("log");
    fs::write(&path, format!("fio version 3 iolog\n{lines}")).unwrap();
    path
}

fn replay(log: &Path, targets: &[&str], words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    command.arg("replay").arg(log).args(targets).args(words.split_whitespace());
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn result(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON:\n{out}\n{err}"))
}

fn good(log: &Path, targets: &[&str], words: &str) -> Value {
    let output = replay(log, targets, &format!("{words} --style json")).output().unwrap();
    let told = result(&output);
    assert_eq!(output.status.code(), Some(0), "{}", told["doubts"]);
    assert_eq!((&told["complete"], &told["order"]["same"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!(told["order"]["issued"], told["order"]["log"]);
    told
}

fn refused(log: &Path, targets: &[&str], words: &str, code: i32) -> String {
    let output = replay(log, targets, words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    said
}

/// A file server that writes down what it is asked for, one request after the other.
struct Witness {
    server: Server,
    disk: PathBuf,
    saw: PathBuf,
    _dir: TempDir,
}

impl Witness {
    fn new(bytes: usize) -> Self {
        let dir = dir();
        let (disk, saw) = (dir.path().join("disk"), dir.path().join("saw"));
        fs::write(&disk, vec![0; bytes]).unwrap();
        let logfile = format!("logfile={}", saw.display());
        let server = Server::start(&["-t", "1", "--filter=log", "file", disk.to_str().unwrap(), &logfile]);
        Self { server, disk, saw, _dir: dir }
    }

    /// Kind, offset and length of all requests, in the order in which they came.
    fn requests(&self) -> Vec<(String, u64, u64)> {
        let text = fs::read_to_string(&self.saw).unwrap();
        let of_line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kind = words.iter().find(|word| ["Read", "Write", "Trim", "Flush"].contains(word))?;
            let number = |name: &str| {
                let hex = words.iter().find_map(|word| word.strip_prefix(name)).unwrap_or("0x0");
                u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()
            };
            Some((kind.to_string(), number("offset="), number("count=")))
        };
        text.lines().filter_map(of_line).collect()
    }
}

/// Two files, five kinds of requests, sizes and places that follow no rule; the two servers saw what the log says, in its order.
#[test]
fn order_and_bytes_are_those_of_the_log() {
    let (dir, one, two) = (dir(), Witness::new(4 << 20), Witness::new(4 << 20));
    let (mut lines, mut expected) = (String::from("0 b add\n0 a add\n0 a open\n"), [Vec::new(), Vec::new()]);
    let (mut word, mut written) = (7_u64, vec![false; (4 << 20) / 512]);
    for n in 0..400_u64 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = |shift: u32, below: u64| (word >> shift) % below;
        let (file, len) = (draw(20, 2) as usize, (1 + draw(24, 32)) * 512);
        let offset = draw(33, ((4 << 20) - len) / 512 + 1) * 512;
        // Nothing is trimmed in b, so that what was written there is there afterwards.
        let (act, kind) = [("read", "Read"), ("write", "Write"), ("sync", "Flush"), ("trim", "Trim")]
            [draw(50, if file == 1 { 3 } else { 4 }) as usize];
        let (offset, len) = if kind == "Flush" { (0, 0) } else { (offset, len) };
        lines += &format!("{} {} {act} {offset} {len}\n", n * 500, ["a", "b"][file]);
        expected[file].push((kind.to_owned(), offset, len));
        if (file, kind) == (1, "Write") {
            (offset / 512..(offset + len) / 512).for_each(|sector| written[sector as usize] = true);
        }
    }
    lines += "200000 b close\n";
    let log = log_of(&dir, &lines);
    // b is named first; it is told by its name, so that a is what is left.
    let map = format!("--destructive --map b={}", two.server.uri());
    let told = good(&log, &[&one.server.uri()], &map);
    assert_eq!(one.requests(), expected[0]);
    assert_eq!(two.requests(), expected[1]);
    for (name, kind) in [("read", "Read"), ("write", "Write"), ("trim", "Trim"), ("sync", "Flush")] {
        let count = expected.iter().flatten().filter(|request| request.0 == kind).count() as u64;
        assert_eq!(
            (&told["replay"]["requests"][name], &told["replay"]["issued"][name]),
            (&count.into(), &count.into())
        );
    }
    let bytes = |kind: &str| expected.iter().flatten().filter(|r| r.0 == kind).map(|r| r.2).sum::<u64>();
    for (side, kind) in [(&told["read"], "Read"), (&told["write"], "Write"), (&told["replay"]["trim"], "Trim")] {
        assert_eq!(side["bytes"], bytes(kind), "{kind}");
    }
    let holds = fs::read(&two.disk).unwrap();
    for (sector, (bytes, written)) in holds.chunks(512).zip(&written).enumerate() {
        assert_eq!(bytes.iter().any(|byte| *byte != 0), *written, "sector {sector}");
    }
}

/// Lower bounds only: nothing may begin before it is due.
#[test]
fn the_schedule_takes_its_time() {
    let (dir, server) = (dir(), Server::start(&["memory", "1M"]));
    let lines: String = (0..=50).map(|n| format!("{} a read {} 4096\n", 5_000_000 + n * 20_000, n * 4096)).collect();
    let log = log_of(&dir, &lines);
    for (words, due_s) in [("", 1.0), ("--time-scale 4", 0.25), ("--time-scale 0.5", 2.0)] {
        let told = good(&log, &[&server.uri()], words);
        let took = told["measured_s"].as_f64().unwrap();
        assert!(took >= due_s, "{words}: {took} s");
        assert_eq!((&told["replay"]["log_s"], &told["replay"]["due_s"]), (&1.0.into(), &due_s.into()));
        assert_eq!(told["read"]["requests"], 51);
        assert!(told["replay"]["lag"]["max_ns"].as_u64().is_some(), "{told}");
    }
    let told = good(&log, &[&server.uri()], "--no-stall -q 1");
    assert_eq!((&told["replay"]["lag"], &told["replay"]["due_s"]), (&Value::Null, &Value::Null));
    assert_eq!(told["read"]["requests"], 51);
}

/// A target that takes 50 ms, one at a time, is asked every ms: the wait is told twice, as lateness and in the latency.
#[test]
fn a_schedule_that_is_not_kept_is_doubted() {
    let (dir, server) = (dir(), Server::start(&["--filter=delay", "memory", "1M", "rdelay=50ms"]));
    let lines: String = (0..20).map(|n| format!("{} a read {} 4096\n", n * 1000, n * 4096)).collect();
    let log = log_of(&dir, &lines);
    let told = good(&log, &[&server.uri()], "-q 1");
    let ms = |value: &Value| value.as_u64().unwrap() / 1_000_000;
    assert!(ms(&told["replay"]["lag"]["max_ns"]) > 900, "{}", told["replay"]["lag"]);
    assert!(ms(&told["replay"]["lag"]["p50_ns"]) > 350, "{}", told["replay"]["lag"]);
    assert!(ms(&told["read"]["lat"]["max_ns"]) > 950, "{}", told["read"]["lat"]);
    assert!(told["doubts"][0].as_str().unwrap().contains("after they were due"), "{}", told["doubts"]);
}

/// What fio itself wrote down, on a file of its own, is what a server is asked for.
#[test]
fn a_log_that_fio_made() {
    let (dir, witness) = (dir(), Witness::new(4 << 20));
    let log = dir.path().join("made");
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=psync", "--rw=randrw", "--bsrange=4k-16k", "--size=4m", "--number_ios=100"]);
    fio.args(["--filename=disk", "--fsync=7", "--rate_iops=300,300"]).current_dir(dir.path());
    let output = fio.arg(format!("--write_iolog={}", log.display())).output().expect("fio is installed (`make setup`)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&log).unwrap();
    let mut expected = Vec::new();
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[2] {
            "read" => expected.push(("Read".to_owned(), number(3), number(4))),
            "write" => expected.push(("Write".to_owned(), number(3), number(4))),
            "sync" => expected.push(("Flush".to_owned(), 0, 0)),
            other => assert!(["add", "open", "close"].contains(&other), "{line}"),
        }
    }
    assert!(expected.len() >= 100, "{text}");
    good(&log, &[&witness.server.uri()], "--destructive");
    assert_eq!(witness.requests(), expected);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let (dir, witness) = (dir(), Witness::new(1 << 20));
    let uri = witness.server.uri();
    let poor = Server::start(&["eval", "get_size=echo 1M", "pread=exit 1", "pwrite=exit 1"]);
    let read_only = Server::start(&["-r", "memory", "1M"]);
    for (lines, target, words, code, expected) in [
        ("0 a write 0 512", uri.as_str(), "", 1, "--destructive"),
        ("0 a trim 0 512", &uri, "", 1, "--destructive"),
        (
            "0 a read 0 512\n9 a read 1048064 1024\n9 a read 0 512",
            &uri,
            "",
            3,
            "line 3 asks for bytes of a up to 1049088",
        ),
        ("0 a read 0 512\n9 a read 100 512", &uri, "", 3, "line 3: requests here begin and end at multiples of 512"),
        ("0 a trim 0 512", &poor.uri(), "--destructive", 3, "line 2: the export takes no trim"),
        ("0 a read 0 512\n0 a sync", &poor.uri(), "", 3, "line 3: the export takes no flush"),
        ("0 a write 0 512", &read_only.uri(), "--destructive", 3, "read-only"),
        ("0 a read 0 512\n0 b read 0 512", &uri, "", 2, "1 target(s) told for the 2 that the file has: a, b"),
        ("0 a read 0 512", &uri, "--map b=/x", 2, "the file has a"),
        ("0 a raed 0 512", &uri, "", 2, "line 2: raed: no action that is known (did you mean read?)"),
        ("0 a read 0 512", &uri, "--time-scale 0", 2, "0.01"),
        ("0 a read 0 512", &uri, "--time-scale 2 --no-stall", 2, "cannot be used with"),
    ] {
        let said = refused(&log_of(&dir, lines), &[target], words, code);
        assert!(said.contains(expected), "{lines}: {said}");
    }
    let file = dir.path().join("disk");
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let said = refused(&log_of(&dir, "0 a trim 0 4096"), &[file.to_str().unwrap()], "--destructive", 3);
    assert!(said.contains("only over NBD"), "{said}");
    let long = log_of(&dir, &format!("0 {} read 0 512", "a".repeat(70_000)));
    let said = refused(&long, &[&uri], "", 2);
    assert!(said.contains("line 2: 65536 bytes or more"), "{said}");
    assert!(witness.requests().is_empty());
}

#[test]
fn a_server_that_dies_breaks_the_replay() {
    let (dir, mut server) = (dir(), Server::start(&["memory", "1M"]));
    let lines: String = (0..6000).map(|n| format!("{} a read 0 4096\n", n * 10_000)).collect();
    let running = replay(&log_of(&dir, &lines), &[&server.uri()], "--style json").spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    server.kill();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = result(&output);
    assert_eq!((&told["complete"], &told["order"]["same"]), (&Value::Bool(false), &Value::Bool(false)));
    let issued = told["replay"]["issued"]["read"].as_u64().unwrap();
    assert!((1..3000).contains(&issued), "{issued} of 6,000 were sent");
    assert!(told["doubts"][0].as_str().unwrap().contains("ended early"), "{}", told["doubts"]);
}

#[test]
fn a_file_and_other_forms_of_the_result() {
    let dir = dir();
    let disk = dir.path().join("disk");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let disk = disk.to_str().unwrap();
    let log = log_of(&dir, "10 a write 0 4096\n20 b read 8192 4096\n30 a sync\n5 a write 4096 8192\n");
    // Both files are one disk.
    let shown = |words: &str| {
        let output = replay(&log, &[disk, disk], &format!("--destructive {words}")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let table = shown("");
    for part in [
        "4 requests to 2 file(s)",
        "\n flush ",
        "\nrequests: 1 read, 2 write, 1 sync\n",
        ", the log's\n",
        "! 1 line(s)",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let fio: Value = serde_json::from_str(&shown("--style fio")).unwrap();
    assert_eq!((&fio["jobs"][0]["jobname"], &fio["jobs"][0]["write"]["total_ios"]), (&"a".into(), &2.into()));
    assert_eq!((&fio["jobs"][1]["jobname"], &fio["jobs"][1]["read"]["total_ios"]), (&"b".into(), &1.into()));
    assert!(shown("--style iometer").contains("\nDISK,b,replay,"));
    assert!(shown("--style hcibench").contains("= replay\n"));
    let bytes = fs::read(disk).unwrap();
    assert!(bytes[..12288].chunks(512).all(|sector| sector.iter().any(|byte| *byte != 0)));
    assert!(bytes[12288..].iter().all(|byte| *byte == 0));
}
