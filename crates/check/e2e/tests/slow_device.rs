//! A device that becomes slow under load is named and emptied without an administrator; then the commands of the operator's page.

use std::{
    thread,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Load, Outcome, Shape, page,
    scene::{play, targets},
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/slow-devices.md");
/// Microseconds that every request takes at a device that is well: far above what processors add to it on a busy machine.
const ACCESS_US: u64 = 1000;
/// That is promised: named within a minute.
const NAMED_WITHIN: Duration = Duration::from_secs(60);
const EMPTIED_WITHIN: Duration = Duration::from_secs(90);
/// A host that is started anew hands its disks over; a write waits for the slow device some times.
const STALL_MAX: Duration = Duration::from_secs(8);
/// Disks, so that each host has copies: devices are compared where guests use them.
const DISKS: u8 = 6;
const MIB: u64 = 16;
/// The host whose devices become slow.
const SLOW: u8 = 2;

/// Goal: a device that is 20 times as slow as before is named within a minute, by its numbers, and its disk group emptied without a command; no
/// guest meets an error or a wrong byte, and nobody else is named. Method: four hosts whose devices take 1 ms, six disks under verified load; one
/// host is started anew with devices that take 20 ms. Then the commands of the page.
#[test]
fn a_slow_device_is_named_and_emptied_under_load() {
    play("slow-device", &Shape { access_us: Some(ACCESS_US), ..Shape::default() }, scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let hosts = [1, 3, 4];
    let disk = |n: u8| format!("vm-{n}");
    for n in 1..=DISKS {
        cluster.create_disk(&disk(n), MIB, hosts[usize::from(n) % hosts.len()])?;
        // So that the next one finds this one told of, and goes elsewhere.
        thread::sleep(Duration::from_millis(1200));
    }
    let at = |cluster: &Cluster| (1..=DISKS).filter(|n| holds(cluster, &disk(*n), SLOW)).count();
    check(at(cluster) > 0, || format!("h{SLOW} has no copy of any disk"))?;
    let load = |n: u8| Load::start(targets(cluster, &hosts), &disk(n), MIB, 2, Duration::from_millis(20), u64::from(n));
    let loads: Vec<Load> = (1..=DISKS).map(load).collect();
    thread::sleep(Duration::from_secs(8));
    check(findings(cluster)?.is_empty(), || "a device is named while all are well".into())?;

    cluster.stop(SLOW)?;
    cluster.host(SLOW).reconfigure("medium_dilation = 1.0", "medium_dilation = 20.0")?;
    cluster.restart(SLOW)?;
    let begun = Instant::now();
    let name = format!("of host h{SLOW} is slow");
    wait_until("the slow device is named", NAMED_WITHIN, || {
        let found = findings(cluster)?;
        check(found.iter().any(|cause| cause.contains(&name)), || format!("{found:?}"))
    })?;
    let took = begun.elapsed();
    let found = findings(cluster)?;
    cluster.say(format!("NAMED after {:.1} s: {}", took.as_secs_f64(), found.join("; ")));
    wait_until("its disk group is empty", EMPTIED_WITHIN, || {
        let group = slow_group(cluster)?;
        let is_empty = group["slow"]["state"] == "emptied" && group["components"] == 0;
        check(is_empty, || format!("{} components, {}", group["components"], group["slow"]))
    })?;
    cluster.say(format!("EMPTY after {:.1} s", begun.elapsed().as_secs_f64()));
    let found = findings(cluster)?;
    let others = found.iter().filter(|cause| !cause.contains(&format!("of host h{SLOW}"))).count();
    check(others == 0, || format!("others are named: {found:?}"))?;
    check(at(cluster) == 0, || format!("h{SLOW} still has copies"))?;

    commands_of_the_page(cluster)?;
    for load in loads {
        let report = load.stop()?.verify(&targets(cluster, &hosts))?;
        cluster.say(report.line());
        report.clean()?;
        let longest = report.longest.0;
        check(longest <= STALL_MAX, || format!("I/O stalled for {:.2} s", longest.as_secs_f64()))?;
    }
    Ok(())
}

fn holds(cluster: &Cluster, disk: &str, host: u8) -> bool {
    cluster.replicas(1, disk).is_ok_and(|copies| copies.contains(&host))
}

/// The causes that the check has found.
fn findings(cluster: &Cluster) -> Outcome<Vec<String>> {
    let health = cluster.host(1).api().call(&["health"])?;
    let checks = health["checks"].as_array().cloned().unwrap_or_default();
    let told = checks.iter().find(|check| check["name"] == "slow-devices").ok_or("no such check")?;
    let found = told["findings"].as_array().cloned().unwrap_or_default();
    Ok(found.iter().map(|finding| finding["cause"].as_str().unwrap_or_default().to_owned()).collect())
}

/// The disk group of the slow host.
fn slow_group(cluster: &Cluster) -> Outcome<Value> {
    let groups = cluster.host(1).api().call(&["disk-group", "list"])?;
    let groups = groups.as_array().cloned().unwrap_or_default();
    let found = groups.into_iter().find(|group| group["host_name"] == cluster.host(SLOW).name());
    found.ok_or_else(|| "no disk group".into())
}

/// What an administrator does then, as the page has it.
fn commands_of_the_page(cluster: &Cluster) -> Outcome<()> {
    let group = slow_group(cluster)?;
    let id = group["id"].as_str().ok_or("an id")?;
    let commands = page::commands(PAGE);
    check(commands.len() == 6, || format!("the page has other commands than this test knows: {commands:?}"))?;
    for command in commands {
        let words: Vec<String> = command.split_whitespace().map(|word| word.replace("GROUP", id)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).skip(1).collect();
        let answer = cluster.host(1).api().call(&words)?;
        cluster.say(format!("cairn {}", words.join(" ")));
        let fine = match words.as_slice() {
            ["health"] => answer["checks"].is_array(),
            ["disk-group", "show", _] => answer["slow"]["state"] == "emptied" && answer["draining"] == true,
            ["disk-group", "drain", _, "--dry-run"] => answer["components_left"] == 0,
            ["disk-group", "drain", _, "--stop"] => answer["state"] == "out",
            ["cluster", "settings", "--slow-devices", what] => answer["slow_devices"] == *what,
            other => return Err(format!("nobody here knows {other:?}")),
        };
        check(fine, || format!("{words:?}: {answer}"))?;
    }
    Ok(())
}
