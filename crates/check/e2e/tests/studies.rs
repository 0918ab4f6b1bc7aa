//! Studies as users run them: on a cluster of their own, interrupted and gone on with, on targets that are there already, and on a
//! full disk.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use cairn_e2e::{
    Outcome,
    process::{Process, tail},
    tools::{Turn, program, target, tool},
    wait::{check, listens},
    wait_until,
};
use serde_json::Value;

/// Two small tests, on the first 8 of the study's disks.
const SMALL: &[&str] = &["iometer-qos", "--tests", "vms-4,vms-8"];
const DISKS: usize = 8;
const DISK_BYTES: usize = 8 << 20;
/// What a noisy machine may break: repeats that lie further apart than 10 %.
const NOISE: &str = "FAIL repeats agree";

/// A folder of this test that goes with it.
struct Place {
    folder: PathBuf,
    _turn: Turn,
}

/// What a program came to.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    fn new(name: &str) -> Outcome<Self> {
        let turn = Turn::take();
        let folder = target().join("tmp").join(format!("e2e-studies-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|e| e.to_string())?;
        Ok(Self { folder, _turn: turn })
    }

    /// The folder of the run.
    fn run(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// `cairn-bench WORDS --dir FOLDER`, with `more` behind it.
    fn study(&self, more: &[&str]) -> Command {
        let mut command = Command::new(program("cairn-bench"));
        command.arg("run").args(SMALL).arg("--dir").arg(self.run()).args(more).env("NO_COLOR", "1");
        command
    }

    /// Starts it and lets it run; what it says goes to a log.
    fn start(&self, more: &[&str]) -> Outcome<Process> {
        Process::start(&self.study(more), &self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("said.log")
    }

    /// Waits until a study that runs has said this.
    fn said(&self, words: &str) -> Outcome<()> {
        wait_until(&format!("the study says {words:?}"), Duration::from_secs(120), || {
            let text = fs::read_to_string(self.log()).unwrap_or_default();
            check(text.contains(words), || tail(&self.log(), 5))
        })
    }

    fn json(&self, file: &str) -> Outcome<Value> {
        let text = fs::read(self.run().join(file)).map_err(|e| format!("{file}: {e}"))?;
        serde_json::from_slice(&text).map_err(|e| format!("{file} is no whole JSON: {e}"))
    }

    fn cells(&self) -> Outcome<Vec<Value>> {
        Ok(self.json("results.json")?["cells"].as_array().cloned().unwrap_or_default())
    }

    /// Every file of the run with its bytes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.run()).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
    }

    /// No file of the run differs after `act`.
    fn unchanged(&self, act: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        let before = self.files();
        act()?;
        check(before == self.files(), || format!("files of {} have changed", self.run().display()))
    }

    /// `verify` breaks no rule but those that begin like one of `allowed`.
    fn verifies(&self, allowed: &[&str]) -> Outcome<()> {
        let ran = ran(Command::new(program("cairn-bench")).arg("verify").arg(self.run()))?;
        println!("{}", ran.out);
        check(ran.out.contains(" rules checked, "), || ran.out.clone() + &ran.err)?;
        let broken = ran.out.lines().filter(|line| line.starts_with("FAIL"));
        let wrong: Vec<&str> = broken.filter(|line| !allowed.iter().any(|allowed| line.starts_with(allowed))).collect();
        check(wrong.is_empty(), || wrong.join("\n"))
    }

    /// No process has this place on its command line.
    fn no_process(&self) -> Outcome<()> {
        wait_until("all processes are gone", Duration::from_secs(15), || {
            let left = processes(&self.folder);
            check(left.is_empty(), || format!("{left:?} are still there"))
        })
    }
}

/// Command lines of the processes that name `folder`.
fn processes(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    lines.filter(|line| line.contains(&name)).collect()
}

fn ran(command: &mut Command) -> Outcome<Ran> {
    let output = command.output().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}

/// Refused with exit code 1 and one error, which says all of `words`.
fn refused(command: &mut Command, words: &[&str]) -> Outcome<()> {
    one_error(&ran(command)?, words)
}

fn one_error(ran: &Ran, words: &[&str]) -> Outcome<()> {
    let errors: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
    println!("exit {:?}: {}", ran.code, errors.join(" | "));
    check(ran.code == Some(1), || format!("exit {:?}: {}", ran.code, ran.err))?;
    check(errors.len() == 1 && !ran.err.contains("panicked"), || format!("not one error:\n{}", ran.err))?;
    words.iter().try_for_each(|word| check(errors[0].contains(word), || format!("{:?} lacks {word:?}", errors[0])))
}

fn done(outcome: Outcome<()>) {
    if let Err(words) = outcome {
        panic!("{words}");
    }
}

/// Goal: a study on its own cluster obeys its rules, and leaves its files and nothing else.
#[test]
fn a_study_on_its_own_cluster() {
    done(Place::new("own").and_then(|place| {
        let ran = ran(&mut place.study(&["--repeats", "2", "--ramp", "1", "--time", "2"]))?;
        println!("{}", ran.err);
        check(ran.code == Some(0), || ran.err.clone())?;
        place.verifies(&[NOISE])?;
        let cells = place.cells()?;
        check(cells.len() == 4, || format!("{} cells", cells.len()))?;
        let sum = |name: &str| cells.iter().filter_map(|cell| cell["counted"][name].as_f64()).sum::<f64>();
        let ratio = sum("buffered_bytes") / sum("guest_written_bytes");
        println!("buffered for each byte that guests wrote: {ratio:.3}");
        check((ratio - 2.0).abs() < 0.04, || format!("write amplification {ratio}"))?;
        check(place.json("manifest.json")?["ended_early"].is_null(), || "it ended early".into())?;
        let report = fs::read_to_string(place.run().join("report.html")).map_err(|e| e.to_string())?;
        let plots = report.matches("<title>all-flash: share of requests within a time").count();
        check(plots == 3, || format!("{plots} plots of quality of service"))?;
        let names: Vec<String> =
            place.files().keys().map(|path| path.file_name().unwrap_or_default().to_string_lossy().into()).collect();
        check(names == ["manifest.json", "report.html", "report.md", "results.csv", "results.json"], || {
            format!("{names:?}")
        })?;
        check(!place.run().join("cluster").exists(), || "the cluster's folder is left".into())?;
        place.no_process()
    }));
}

const INTERRUPTED: &[&str] = &["--repeats", "2", "--ramp", "0.5", "--time", "3"];

/// Goal: a study that is killed keeps what it measured, and is gone on with; nothing else may touch its folder.
#[test]
fn a_study_is_killed_and_gone_on_with() {
    done(Place::new("killed").and_then(|place| {
        let resume = [INTERRUPTED, &["--resume"]].concat();
        let mut running = place.start(INTERRUPTED)?;
        place.said("vms-4 1/2")?;
        refused(&mut place.study(&resume), &["still under way"])?;
        // The second test's first repeat is measured, its second one runs.
        place.said("vms-8 1/2")?;
        running.kill();
        place.no_process()?;
        let (manifest, cells) = (place.json("manifest.json")?, place.cells()?);
        for early in [&manifest["ended_early"], &place.json("results.json")?["ended_early"]] {
            check(early.as_str().is_some_and(|why| why.contains("interrupted")), || format!("ended early: {early}"))?;
        }
        check(cells.len() == 3, || format!("{} cells", cells.len()))?;
        let report = ran(Command::new(program("cairn-bench")).arg("report").arg(place.run()))?;
        check(report.code == Some(0), || report.err)?;
        let text = fs::read_to_string(place.run().join("report.md")).map_err(|e| e.to_string())?;
        check(text.contains("Incomplete: the study ended early"), || "the report is not marked".into())?;
        let judged = ran(Command::new(program("cairn-bench")).arg("verify").arg(place.run()))?;
        check(judged.code == Some(1) && judged.out.contains("the run ended early"), || judged.out)?;
        place.unchanged(|| {
            refused(&mut place.study(INTERRUPTED), &["holds a run already", "--resume"])?;
            refused(&mut place.study(&[&resume[..], &["--seed", "7"]].concat()), &["cannot be gone on with", "seed"])?;
            let other = ["--repeats", "3", "--ramp", "0.5", "--time", "3", "--resume"];
            refused(&mut place.study(&other), &["cannot be gone on with", "parameters"])
        })?;
        // At once: nothing of the killed cluster may be in the way.
        let on = ran(&mut place.study(&resume))?;
        println!("{}", on.err);
        check(on.code == Some(0), || on.err.clone())?;
        check(!on.err.contains("vms-4") && on.err.contains("vms-8 2/2"), || format!("what was run: {}", on.err))?;
        let after = place.cells()?;
        check(after.len() == 4 && after[..2] == cells[..2], || "cells of the finished test have changed".into())?;
        check(after[2] != cells[2], || "the unfinished test was not run again".into())?;
        place.verifies(&[NOISE])?;
        place.unchanged(|| refused(&mut place.study(&resume), &["cannot be gone on with", "whole"]))?;
        place.no_process()
    }));
}

/// Targets of somebody else: nbdkit on files.
struct Given {
    files: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    server: Option<Process>,
}

impl Given {
    fn new(place: &Place) -> Outcome<Self> {
        let files = place.folder.join("disks");
        fs::create_dir_all(&files).map_err(|e| e.to_string())?;
        for number in 1..=DISKS {
            fs::write(files.join(format!("d{number}")), vec![0x5a; DISK_BYTES]).map_err(|e| e.to_string())?;
        }
        let (socket, log) = (place.folder.join("nbd.sock"), place.folder.join("nbdkit.log"));
        let mut given = Self { files, socket, log, server: None };
        given.serve()?;
        Ok(given)
    }

    fn serve(&mut self) -> Outcome<()> {
        let _ = fs::remove_file(&self.socket);
        let mut command = tool("nbdkit");
        command.args(["-f", "-U"]).arg(&self.socket).arg("file").arg(format!("dir={}", self.files.display()));
        self.server = Some(Process::start(&command, &self.log)?);
        wait_until("nbdkit listens", Duration::from_secs(10), || check(listens(&self.socket), || tail(&self.log, 3)))
    }

    fn words(&self, count: usize) -> Vec<String> {
        let uri = |number| format!("nbd+unix:///d{number}?socket={}", self.socket.display());
        (1..=count).flat_map(|number| ["--target".to_owned(), uri(number)]).collect()
    }

    /// Whether no byte of any disk was written.
    fn untouched(&self) -> Outcome<()> {
        (1..=DISKS).try_for_each(|number| {
            let bytes = fs::read(self.files.join(format!("d{number}"))).map_err(|e| e.to_string())?;
            check(bytes == vec![0x5a; DISK_BYTES], || format!("disk {number} was written to"))
        })
    }

    /// The study on these targets.
    fn study(&self, place: &Place, targets: usize, more: &[&str]) -> Command {
        let mut command = place.study(more);
        command.args(self.words(targets));
        command
    }
}

const BRIEF: &[&str] = &["--repeats", "2", "--ramp", "0.5", "--time", "1", "--clear-command", "true"];

/// Goal: what users keep is not written to unasked; what is asked for is measured by the same rules.
#[test]
fn a_study_on_given_targets() {
    done(Place::new("given").and_then(|place| {
        let given = Given::new(&place)?;
        refused(&mut given.study(&place, DISKS, BRIEF), &["--destructive"])?;
        let yes = [BRIEF, &["--destructive"]].concat();
        refused(&mut given.study(&place, DISKS - 1, &yes), &["7 targets", "8 disks"])?;
        given.untouched()?;
        check(!place.run().exists(), || "a run that was refused has left its folder".into())?;
        let ran = ran(&mut given.study(&place, DISKS, &yes))?;
        println!("{}", ran.err);
        check(ran.code == Some(0), || ran.err.clone())?;
        check(given.untouched().is_err(), || "nothing was written".into())?;
        place.verifies(&[NOISE])?;
        let manifest = place.json("manifest.json")?;
        check(manifest["target"]["addresses"].as_array().map(Vec::len) == Some(DISKS), || manifest.to_string())?;
        check(manifest["media"][0]["cache"] == "as it is", || manifest["media"].to_string())
    }));
}

/// Goal: a target that vanishes ends the study in words; what was measured is kept, and the test that broke is run again.
#[test]
fn a_target_vanishes() {
    done(Place::new("vanishes").and_then(|place| {
        let mut given = Given::new(&place)?;
        // One repeat: the cell that breaks is the only one of its test.
        let words = ["--repeats", "1", "--ramp", "0.5", "--time", "4", "--clear-command", "true", "--destructive"];
        let running = Process::start(&given.study(&place, DISKS, &words), &place.log())?;
        place.said("vms-8: clearing")?;
        std::thread::sleep(Duration::from_millis(1500));
        drop(given.server.take());
        let ended = running.finish();
        check(ended.as_ref().is_err_and(|how| how.contains("exit status: 1")), || format!("{ended:?}"))?;
        let err = fs::read_to_string(place.log()).map_err(|e| e.to_string())?;
        one_error(&Ran { code: Some(1), out: String::new(), err }, &["target/vms-8, repeat 1", "nbd+unix:///d"])?;
        let cells = place.cells()?;
        check(cells.len() == 2 && cells[0]["checks"]["broken"].is_null(), || format!("{} cells", cells.len()))?;
        check(cells[1]["checks"]["broken"].is_string(), || "the broken cell is not marked".into())?;
        let early = place.json("manifest.json")?["ended_early"].clone();
        check(early.as_str().is_some_and(|why| why.contains("vms-8")), || format!("ended early: {early}"))?;
        let report = ran(Command::new(program("cairn-bench")).arg("report").arg(place.run()))?;
        check(report.code == Some(0), || report.err)?;
        given.serve()?;
        let on = ran(&mut given.study(&place, DISKS, &[&words[..], &["--resume"]].concat()))?;
        check(on.code == Some(0), || on.err.clone())?;
        let after = place.cells()?;
        check(after.len() == 2 && after[0] == cells[0], || "cells of the finished test have changed".into())?;
        check(after[1]["checks"]["broken"].is_null(), || "the broken test was not run again".into())?;
        place.verifies(&[])
    }));
}

/// Goal: no room for results is one error, and the files of the step before are whole. Method: a file system of 160 KiB in a name
/// space of the study's own.
#[test]
fn no_room_for_the_results() {
    done(Place::new("full").and_then(|place| {
        let given = Given::new(&place)?;
        let kept = place.folder.join("kept");
        for folder in [&place.run(), &kept] {
            fs::create_dir_all(folder).map_err(|e| e.to_string())?;
        }
        let script = "mount -t tmpfs -o size=160k full \"$1\" || exit 77; to=$2; from=$1; shift 2; \"$@\"; code=$?; \
                      cp \"$from\"/* \"$to\"; exit $code";
        let more = ["--repeats", "20", "--ramp", "0", "--time", "1", "--clear-command", "true", "--destructive"];
        let study = given.study(&place, DISKS, &more);
        let mut command = tool("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(place.run()).arg(&kept);
        command.arg(study.get_program()).args(study.get_args());
        let ran = ran(&mut command)?;
        println!("{}", ran.err);
        one_error(&ran, &["cannot write", ".json", "No space left"])?;
        let mut cells = 0;
        for file in ["manifest.json", "results.json"] {
            let text = fs::read(kept.join(file)).map_err(|e| format!("{file}: {e}"))?;
            let whole: Value = serde_json::from_slice(&text).map_err(|e| format!("{file} is no whole JSON: {e}"))?;
            let early = whole["ended_early"].as_str().unwrap_or_default();
            // Why, where there was room to write it; that it is not whole, in any case.
            let marked = early.contains("No space left") || early.contains("interrupted");
            check(marked, || format!("{file}: ended early: {early:?}"))?;
            cells += whole["cells"].as_array().map_or(0, Vec::len);
        }
        println!("{cells} cells were kept");
        check(cells > 0, || "no cell was kept".into())?;
        let names = fs::read_dir(&kept).map_err(|e| e.to_string())?.flatten().count();
        check(names == 2, || format!("{names} files are left"))
    }));
}

#[test]
fn desktops_are_deployed_boot_work_and_are_made_anew() {
    done((|| {
        let place = Place::new("desktops")?;
        let small = ["--desktops", "12", "--ramp", "0", "--time", "1", "--dilation", "1"];
        let mut command = Command::new(program("cairn-bench"));
        command.args(["run", "vdi-storm"]).args(small).arg("--dir").arg(place.run()).env("NO_COLOR", "1");
        let ran = ran(&mut command)?;
        println!("{}{}", ran.out, ran.err);
        check(ran.code == Some(0), || "a rule is broken".into())?;
        place.verifies(&[])?;
        let cells = place.cells()?;
        let boots = |arm: &str| {
            let boot = cells.iter().find(|cell| cell["id"] == format!("{arm}/boot"));
            boot.and_then(|cell| cell["counted"]["read_from_capacity_bytes"].as_u64())
        };
        // Clones read their parent's blocks once a host, own copies each its own.
        let (clones, own) =
            (boots("clones").ok_or("no boot of clones")?, boots("own-copies").ok_or("no boot of own copies")?);
        check(clones * 3 < own * 2, || {
            format!("clones read {clones} bytes of media for their boots, own copies {own}")
        })?;
        let report = fs::read_to_string(place.run().join("report.md")).map_err(|e| e.to_string())?;
        check(report.contains("Seconds a desktop") && report.contains("VSImax"), || report.clone())?;
        place.no_process()
    })());
}
