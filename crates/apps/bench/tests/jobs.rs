//! Job files of other tools, run as they stand against real servers.

mod support;

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use serde_json::Value;
use support::Server;
use tempfile::TempDir;

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    command.args(words);
    command
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn json(output: &Output) -> Value {
    let (out, err) = told(output);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON:\n{out}\n{err}"))
}

/// The parameter file of the vSAN reference architecture of 2018, appendix: 8 disks, 10:1 and 10:1, two hours and one.
fn s4() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../pure/jobfile/tests/files/s4.vdb")
}

fn written(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_reference_architecture_s_file_runs_as_it_stands() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::write(&disk, vec![0; 4 << 20]).unwrap();
    let first = Server::start(&["file", disk.to_str().unwrap()]);
    let others: Vec<Server> = (0..7).map(|_| Server::start(&["memory", "4M"])).collect();
    let uris: Vec<String> = std::iter::once(&first).chain(&others).map(Server::uri).collect();
    let s4 = s4();
    let mut words = vec!["job", s4.to_str().unwrap()];
    words.extend(uris.iter().map(String::as_str));
    let refused = bench(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).1.contains("--destructive"), "it writes");
    words.extend(["--destructive", "--time-scale", "1800", "--style", "json"]);
    let output = bench(&words).output().unwrap();
    let result = json(&output);
    assert_eq!((output.status.code(), &result["complete"]), (Some(0), &Value::Bool(true)), "{}", told(&output).1);
    assert!(told(&output).1.contains("divided by 1800"), "{}", told(&output).1);
    let run = &result["runs"][0]["result"];
    assert_eq!((&run["params"]["outstanding_per_target"], &run["params"]["bs_bytes"]), (&4.into(), &4096.into()));
    assert_eq!((&run["params"]["ramp_s"], &run["read"]["requests"]), (&4.0.into(), &0.into()), "7200 s / 1800");
    let streams = run["streams"].as_array().unwrap();
    let requests: Vec<u64> = streams.iter().map(|stream| stream["write"]["requests"].as_u64().unwrap()).collect();
    assert_eq!(requests.len(), 8);
    assert!(requests.iter().all(|n| *n > 10), "{requests:?}");
    assert_eq!(requests.iter().sum::<u64>(), run["total"]["requests"].as_u64().unwrap());
    // What is on the first disk: 10:1 by 95 % of units from sets of 5 % of all units of the eight disks (410), and 10:1 within each.
    let bytes = fs::read(&disk).unwrap();
    let units: Vec<&[u8]> = bytes.chunks(4096).filter(|unit| unit.iter().any(|b| *b != 0)).collect();
    assert!(units.len() > 1000, "{} of 1,024 units were written", units.len());
    let different: BTreeSet<&[u8]> = units.iter().copied().collect();
    assert!((330..520).contains(&different.len()), "{} different units", different.len());
    assert!(different.iter().all(|unit| unit[416..].chunks(8).all(|word| word == &unit[416..424])), "10:1");
}

/// The intervals of a run with a ramp are numbered behind those of the ramp.
#[test]
fn a_file_gives_the_rows_of_its_tool() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let text = "sd=sd1,lun=$uri,threads=2\nwd=wd1,sd=sd1,xfersize=(4k,50,8k,50)\nrd=rd1,wd=wd1,elapsed=3,interval=1\n";
    let file = written(&dir, "rows.vdb", text);
    let server = Server::start(&["memory", "4M"]);
    let uri = format!("uri={}", server.uri());
    let (out, err) = told(&bench(&["job", &file, "--set", &uri, "--style", "vdbench"]).output().unwrap());
    let rows: Vec<Vec<&str>> = out.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
    let labels: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    assert_eq!(labels, ["2", "3", "avg_2-3"], "{out}{err}");
    let bytes: f64 = rows[2][4].parse().unwrap();
    assert!((5900.0..6400.0).contains(&bytes), "half of 4 KiB, half of 8 KiB: {bytes}");
    let (out, _) = told(&bench(&["job", &file, "--set", &uri, "--style", "hcibench"]).output().unwrap());
    assert!(out.contains("JOB_NAME\t= rd1\n") && out.contains("THROUGHPUT\t= "), "{out}");
}

/// Tests that compare times run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// IOPS, and mean latency of reads and of writes in ms, of a result in fio's form.
fn numbers(result: &Value) -> [f64; 3] {
    let job = &result["jobs"][0];
    let side = |side: &str, what: &str| job[side][what].as_f64().unwrap();
    let mean = |side: &str| job[side]["lat_ns"]["mean"].as_f64().unwrap() / 1e6;
    [side("read", "iops") + side("write", "iops"), mean("read"), mean("write")]
}

/// Where a busy machine disturbs a round, the numbers of the best one tell what the target is: most IOPS, least means.
fn best(rounds: &[[f64; 3]]) -> [f64; 3] {
    let least = |at: usize| rounds.iter().map(|round| round[at]).fold(f64::INFINITY, f64::min);
    [rounds.iter().map(|round| round[0]).fold(0.0, f64::max), least(1), least(2)]
}

/// One file through fio and through this, in turns, on a target of known latency: three rounds, more while they do not agree.
#[test]
fn fio_and_this_agree_on_fio_s_file() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let text = "[global]\nioengine=nbd\nuri=${URI}\ntime_based\nruntime=2\nramp_time=1\nnorandommap\n\
                [mix]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=8\nsize=64m\n";
    let file = written(&dir, "mix.fio", text);
    let server = Server::start(&["--filter=delay", "memory", "64M", "rdelay=10ms", "wdelay=20ms"]);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let off = loop {
        let mut fio = Command::new("fio");
        let result = dir.path().join("result");
        fio.args(["--output-format=json+", &file, "--output"]).arg(&result).env("URI", server.uri()).current_dir(&dir);
        assert!(fio.output().expect("fio is installed (`make setup`)").status.success());
        theirs.push(numbers(&serde_json::from_slice(&fs::read(result).unwrap()).unwrap()));
        let uri = format!("URI={}", server.uri());
        let output = bench(&["job", &file, "--set", &uri, "--destructive", "--style", "fio"]).output().unwrap();
        ours.push(numbers(&json(&output)));
        let off = [0, 1, 2].map(|at| best(&ours)[at] / best(&theirs)[at] - 1.0);
        if ours.len() >= 7 || (ours.len() >= 3 && off.iter().all(|off| off.abs() < 0.05)) {
            break off;
        }
    };
    assert!(off.iter().all(|off| off.abs() < 0.05), "IOPS, mean of reads, of writes: {ours:?} here, {theirs:?} by fio");
}

/// Doubts of a run, and how late 1 % of its requests began (ns; none of a closed loop).
type Checks = (Vec<String>, Option<u64>);

/// The checks of a closed loop and of a fixed rate at a target that takes `delay`.
fn checks(delay: &str) -> [Checks; 2] {
    let dir = tempfile::tempdir().unwrap();
    let text = "sd=sd1,lun=x,threads=4\nwd=wd1,sd=sd1\nrd=default,wd=wd1,elapsed=4,warmup=1,interval=1\n\
                rd=closed,iorate=max\nrd=rate,iorate=100,distribution=deterministic\n";
    let file = written(&dir, "two.vdb", text);
    let server = Server::start(&["--filter=delay", "memory", "64M", &format!("rdelay={delay}")]);
    let result = json(&bench(&["job", &file, &server.uri(), "--style", "json"]).output().unwrap());
    [0, 1].map(|run| {
        let result = &result["runs"][run]["result"];
        let doubts = result["doubts"].as_array().unwrap();
        let doubts = doubts.iter().map(|doubt| doubt.as_str().unwrap().to_owned()).collect();
        (doubts, result["checks"]["lag_p99_ns"].as_u64())
    })
}

/// 800 a second is what the target can do; 20 times slower it can do 40, and of the 100 that are asked for most are late. The closed
/// loop is as right as before: what it kept outstanding is what was asked for. Where others keep the processors busy, a request may begin
/// some milliseconds late at any target; that is told, and is not what flips here.
#[test]
fn a_slow_target_flips_the_checks_that_it_should_and_no_others() {
    let _alone = alone();
    let late = |doubt: &String| doubt.contains("after they were due");
    let [closed, (rate, lag_ns)] = checks("5ms");
    assert_eq!(closed, (Vec::new(), None));
    assert!(lag_ns.unwrap() < 100_000_000 && rate.iter().all(late), "{rate:?}");
    let [closed, (rate, lag_ns)] = checks("100ms");
    assert_eq!(closed, (Vec::new(), None));
    assert!(lag_ns.unwrap() > 1_000_000_000, "{lag_ns:?} ns");
    assert!(rate.len() == 1 && rate.iter().all(late), "{rate:?}");
}

#[test]
fn what_cannot_be_run_is_one_clear_error() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let good = written(&dir, "good.vdb", "sd=sd1,lun=/nowhere/at/all\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,elapsed=2\n");
    let wrong = written(&dir, "wrong.vdb", "sd=sd1,lun=x\nwd=wd1,sd=sd1,xfresize=4k\n");
    let nothing = written(&dir, "nothing", "hello\n");
    let elsewhere = written(&dir, "elsewhere.vdb", "include=../absent\n");
    for (words, code, expected) in [
        (vec!["job", &good], 3, "/nowhere/at/all"),
        (vec!["job", &good, "nbd+unix:///?socket=/nowhere/at/all"], 3, "cannot connect"),
        (vec!["job", &good, "a", "b"], 2, "2 target(s) told for the 1"),
        (vec!["job", &good, "--map", "sd2=a"], 2, "the file has sd1"),
        (vec!["job", &good, "--time-scale", "5"], 2, "less than a second"),
        (vec!["job", &wrong, "a"], 2, "wrong.vdb: line 2: xfresize: is no keyword of wd= (did you mean xfersize?)"),
        (vec!["import", &nothing], 2, "tell with --kind"),
        (vec!["import", &elsewhere], 2, "line 1: include: "),
        (vec!["import", "/nowhere/at/all"], 2, "cannot be read"),
        (vec!["job", "fio-2vmdk-100ws-4k-70rdpct-100randompct-4threads", "--destructive"], 2, "where disk1 is"),
    ] {
        let output = bench(&words).output().unwrap();
        let (out, err) = told(&output);
        let errors = err.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!((output.status.code(), errors), (Some(code), 1), "{words:?}: {err}");
        assert!(out.is_empty() && err.contains(expected), "{words:?}: {err}");
    }
}

/// A disk that fills up, and a server that dies: what was measured is kept, later runs are not begun.
#[test]
fn a_run_that_breaks_is_told_and_the_exit_code_is_1() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let text = "sd=sd1,lun=x\nwd=wd1,sd=sd1,rdpct=0\nrd=default,wd=wd1,elapsed=60,warmup=1\nrd=rd1\nrd=rd2\n";
    let file = written(&dir, "two.vdb", text);
    let full = Server::start(&["--filter=error", "memory", "64M", "error=ENOSPC", "error-pwrite-rate=0.1%"]);
    let output = bench(&["job", &file, &full.uri(), "--destructive", "--style", "json"]).output().unwrap();
    let (result, err) = (json(&output), told(&output).1);
    assert_eq!((output.status.code(), &result["complete"]), (Some(1), &Value::Bool(false)));
    assert_eq!(result["runs"].as_array().unwrap().len(), 1);
    assert!(err.contains("No space left on device") && err.contains("1 run(s) after it were not begun"), "{err}");
    let mut server = Server::start(&["memory", "64M"]);
    let mut command = bench(&["job", &file, &server.uri(), "--destructive", "--style", "json"]);
    let running = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(3000));
    server.kill();
    let output = running.wait_with_output().unwrap();
    let result = json(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(result["runs"][0]["result"]["write"]["requests"].as_u64().unwrap() > 10, "what was measured is kept");
    assert!(told(&output).1.contains("ended early"), "{}", told(&output).1);
}

#[test]
fn plans_are_told_before_anything_is_run() {
    let _alone = alone();
    let s4 = s4();
    let (out, err) = told(&bench(&["import", s4.to_str().unwrap()]).output().unwrap());
    assert!(out.starts_with("vdbench: 1 run(s), 3 h 0 min, writes\ntarget sd1: /dev/sda\n"), "{out}{err}");
    let mut flags =
        bench(&["import", "--style", "json", "--kind", "hcibench", "-n 2 -w 50 -t 4 -b 8k -r 30 -s 90 -e 60"]);
    let plan = json(&flags.output().unwrap());
    assert_eq!((&plan["time_s"], &plan["runs"][0]["outstanding"]), (&60.0.into(), &8.into()), "{plan}");
}
