//! Disks in use go from copies to 3+1, to 4+2 and back. One has a load that is measured, the other a guest's file system.
//!
//! Run by `make bench-layouts`: it waits twice for two minutes, as the same part of a disk goes over again only then.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    load::Step,
    scene::{Asked, DISK, Scene, fill},
    vm::{Attached, Guest},
    wait::check,
};

/// Clients ask here: it owns both disks.
const ASKED: u8 = 1;
/// The guest's disk.
const GUEST: &str = "vm-2";
/// Rest that a layout's time is compared with.
const REST: Duration = Duration::from_secs(12);
/// Two minutes until a part may go over again, and what is copied then.
const MET_WITHIN: Duration = Duration::from_secs(300);
/// No host fails: nothing but changes of records stands in the way of guests.
const STALL_MAX: Duration = Duration::from_secs(2);
/// Between two looks at the space that a disk takes.
const LOOK: Duration = Duration::from_millis(100);
/// The guest writes twenty files with their checksums; so it is at it until all layouts were reached.
const GUEST_PAUSE_S: f64 = 17.0;
/// A guest under TCG on a busy machine.
const GUEST_SLOW: Duration = Duration::from_secs(240);

/// MiB that are written before, behind those of the loads.
fn filled_mib() -> u64 {
    std::env::var("CAIRN_E2E_FILL_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(1024)
}

/// What is told of one layout.
struct Line {
    to: &'static str,
    took: Duration,
    rest: Step,
    beside: Step,
    told_peak: u64,
    peak: u64,
    told_after: u64,
    after: u64,
}

/// Goal: a disk goes over to any layout and back while it is in use; what that costs guests and space is as it is told. Method: two disks, one
/// under a verified load and fio, one under a guest with a file system; each layout in turn; all bytes are read back.
fn main() {
    let capacity_mib = 1024 + 2 * filled_mib();
    let shape = Shape { hosts: 6, hosts_with_disks: 6, capacity_mib, ..Shape::default() };
    let cluster = Cluster::start("layouts", &shape).unwrap_or_else(|words| panic!("{words}"));
    cluster.run_within(Duration::from_secs(1500), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let api = cluster.host(ASKED).api();
    for (name, data, ftt) in [("raid-5", "3", "1"), ("raid-6", "4", "2")] {
        api.call(&["policy", "create", name, "--ftm", "erasure-coding", "--data-strips", data, "--ftt", ftt])?;
    }
    let asked = Asked { mib: 512 + filled_mib(), ..Asked::default() };
    let scene = Scene::begin_on(cluster, ASKED, &[ASKED], &asked)?;
    fill(cluster, ASKED, 256, filled_mib())?;
    cluster.create_disk(GUEST, 256, ASKED)?;
    let disk = Attached::Nbd { socket: &cluster.host(ASKED).nbd_socket(), export: GUEST };
    let mut guest = Guest::boot_pausing(disk, &cluster.folder, &cluster.logs, GUEST_PAUSE_S)?;
    guest.wait_said("wrote file-1", GUEST_SLOW)?;
    let mut lines = Vec::new();
    for (to, policy, members) in [("3+1", "raid-5", 4), ("4+2", "raid-6", 6), ("two copies", "default", 2)] {
        lines.push(go_over(cluster, &scene, (to, policy, members))?);
    }
    guest.wait_said("20 checksums right", Duration::from_secs(600))?;
    guest.wait_said("done", GUEST_SLOW)?;
    cluster.say("the guest: fsck clean, all 20 checksums right, after its disk went over three times while it wrote");
    cluster.say(format!("layouts:\n{}{}", table(&lines), waits(cluster)?));
    scene.finish(cluster, &[ASKED], STALL_MAX)
}

/// Both disks get a policy. The first one is looked at.
fn go_over(cluster: &Cluster, scene: &Scene, (to, policy, members): (&'static str, &str, usize)) -> Outcome<Line> {
    let api = cluster.host(ASKED).api();
    let _ = scene.load.step();
    thread::sleep(REST);
    let rest = scene.load.step();
    let told = api.call(&["disk", "set-policy", DISK, policy, "--dry-run"])?;
    let number = |name: &str| told[name].as_u64().ok_or_else(|| format!("no {name}: {told}"));
    let (told_peak, told_after) = (number("bytes_peak")?, number("bytes_after")?);
    let before = cluster.replicas(ASKED, DISK)?.len();
    for disk in [DISK, GUEST] {
        api.call(&["disk", "set-policy", disk, policy])?;
    }
    let (asked, mut began, mut peak) = (Instant::now(), None, 0);
    let after = loop {
        check(asked.elapsed() < MET_WITHIN, || format!("{to} is not reached"))?;
        thread::sleep(LOOK);
        let shown = cluster.disk(ASKED, DISK)?;
        let bytes = shown["allocated_bytes"].as_u64().unwrap_or(0);
        let data = shown["components"].as_array().into_iter().flatten().filter(|c| c["role"] == "data").count();
        // What is on its way comes beside what there is.
        if began.is_none() && data > before {
            let _ = scene.load.step();
            began = Some(Instant::now());
        }
        peak = peak.max(bytes);
        if shown["health"] == "healthy" && data == members {
            break bytes;
        }
    };
    let beside = scene.load.step();
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    cluster.wait_healthy(ASKED, GUEST, MET_WITHIN)?;
    scene.goes_on(cluster, &format!("in {to}"), Duration::from_secs(10))?;
    Ok(Line { to, took, rest, beside, told_peak, peak, told_after, after })
}

fn table(lines: &[Line]) -> String {
    let mut table = String::from(
        "| to | took | p99 before | p99 meanwhile | ratio | longest | most space told | was | space then told | was |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        table += &format!(
            "| {} | {:.1} s | {} | {} | {:.2} | {} | {} | {} | {} | {} |\n",
            line.to,
            line.took.as_secs_f64(),
            ms(line.rest.p99),
            ms(line.beside.p99),
            line.beside.p99.as_secs_f64() / line.rest.p99.as_secs_f64().max(1e-9),
            ms(line.beside.longest),
            mib(line.told_peak),
            mib(line.peak),
            mib(line.told_after),
            mib(line.after)
        );
    }
    table
}

/// How long guests waited for the last changes, as owners told in their logs.
fn waits(cluster: &Cluster) -> Outcome<String> {
    let mut waits: Vec<f64> = Vec::new();
    for host in cluster.hosts() {
        let log = fs::read_to_string(&host.log).map_err(|e| e.to_string())?;
        let of_line = |line: &str| line.split("its guests waited ").nth(1)?.split(' ').next()?.parse::<f64>().ok();
        waits.extend(log.lines().filter_map(of_line));
    }
    waits.sort_by(f64::total_cmp);
    let (worst, middle) = (waits.last().ok_or("no change was told of")?, waits[waits.len() / 2]);
    Ok(format!("guests waited for {} last changes: {middle:.1} ms (median), {worst:.1} ms at most", waits.len()))
}
