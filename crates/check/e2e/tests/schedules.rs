//! Schedules of snapshots and locks: the commands of the operator's page on real hosts, and runs while hosts die.

use std::{collections::BTreeSet, time::Duration};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::play,
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/snapshots.md");
const DISKS: [&str; 2] = ["web-1", "web-2"];
/// The shortest time between two runs.
const EVERY: Duration = Duration::from_secs(10);
/// After a host has died: its lease, another one's turn, a leader of the directory.
const LATE_MAX: Duration = Duration::from_secs(20);

/// Goal: each command of the section does what the page says; a schedule survives the death of whoever runs it, and runs once; what is locked is not deleted. Method: the
/// commands in their order; then a schedule of ten seconds, of which the host that ran it last is killed, twice.
#[test]
fn schedules_run_once_whoever_dies_and_locks_hold() {
    play("schedules", &Shape { hosts: 4, hosts_with_disks: 4, ..Shape::default() }, |cluster| {
        for (n, disk) in (1..).zip(DISKS) {
            cluster.create_disk(disk, 64, n)?;
        }
        let (_, section) = PAGE.split_once("## Locks and schedules").ok_or("the page has no such section")?;
        let (section, _) = section.split_once("\n## ").ok_or("it is the last one")?;
        for command in page::commands(section) {
            let words: Vec<String> = command.split_whitespace().map(|word| word.replace('\'', "")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ["cairn", words @ ..] = words.as_slice() else {
                return Err(format!("{command} is no command of ours"));
            };
            let answer = cluster.host(1).api().call(words)?;
            cluster.say(format!("cairn {}: {answer}", words.join(" ")));
            is_as_said(words, &answer)?;
        }
        locks_hold(cluster)?;
        runs_while_hosts_die(cluster)
    });
}

/// What the page says of a command.
fn is_as_said(words: &[&str], answer: &Value) -> Outcome<()> {
    let told = || format!("{words:?}: {answer}");
    match words {
        ["snapshot", "create", ..] => check(answer[0]["locked_until_unix_ms"].is_u64(), told),
        ["snapshot", "lock", ..] => check(answer["locked_until_unix_ms"].is_u64(), told),
        ["snapshot", "schedule", "list"] => check(answer.as_array().is_some_and(|all| all.len() == 1), told),
        ["snapshot", "schedule", "delete", ..] => Ok(()),
        ["snapshot", "schedule", verb, ..] => {
            check(answer["disks"] == serde_json::json!(DISKS), told)?;
            check(answer["paused"] == (*verb == "pause"), told)?;
            let weekly = if *verb == "create" { 0 } else { 4 };
            check(answer["rules"]["keep_weekly"] == weekly, told)?;
            let next = answer["next_run_unix_ms"].as_u64().unwrap_or_default();
            check((next > 0) != (*verb == "pause") && next.is_multiple_of(3_600_000), told)
        }
        other => Err(format!("nobody here knows {other:?}")),
    }
}

/// What is locked, its disk too, is deleted by nobody.
fn locks_hold(cluster: &Cluster) -> Outcome<()> {
    for (words, said) in [
        (vec!["snapshot", "delete", "web-1@quarter", "--yes"], "is locked until"),
        (vec!["disk", "delete", "web-1", "--yes"], "1 of the disk's snapshots are locked"),
        (vec!["disk", "delete", "web-1", "--yes", "--force"], "1 of the disk's snapshots are locked"),
        (vec!["snapshot", "schedule", "show", "hourly"], "there is no schedule"),
        (
            vec!["snapshot", "schedule", "create", "often", "--disks", "web-*", "--every", "1s", "--keep-last", "1"],
            "10 s",
        ),
    ] {
        let refused = cluster.host(2).api().ask(&words).err().ok_or_else(|| format!("{words:?} is not refused"))?;
        check(refused.words.contains(said), || format!("{words:?}: {refused:?}"))?;
    }
    let disk = cluster.disk(3, "web-1")?;
    check(disk["health"] == "healthy", || format!("it is not being deleted: {disk}"))
}

fn runs_while_hosts_die(cluster: &mut Cluster) -> Outcome<()> {
    let words = ["snapshot", "schedule", "create", "often", "--disks", "web-*", "--every", "10s", "--keep-last", "2"];
    let made = cluster.host(1).api().call(&words)?;
    let mut last = next_run(cluster, 1, made["next_run_unix_ms"].as_u64().unwrap_or_default() - 1, EVERY + LATE_MAX)?;
    for _ in 0..2 {
        let (due, host) = last;
        cluster.kill(host)?;
        let other = host % 4 + 1;
        last = next_run(cluster, other, due, EVERY + LATE_MAX)?;
        check(last.1 != host, || format!("h{host} is dead, and ran it"))?;
        once_each(cluster, other)?;
        cluster.restart(host)?;
    }
    // All disks go on by one who was dead meanwhile.
    next_run(cluster, last.1, last.0, EVERY + LATE_MAX)?;
    once_each(cluster, last.1)?;
    let health = cluster.host(1).api().call(&["health"])?;
    let checks = health["checks"].as_array().cloned().unwrap_or_default();
    let found = checks.iter().find(|check| check["name"] == "snapshot-schedules").cloned().unwrap_or_default();
    check(found["severity"] != "error", || format!("it runs on all disks: {found}"))
}

/// When the next run was due that has come to its end on both disks, and which host ran it.
fn next_run(cluster: &Cluster, seen_from: u8, after_unix_ms: u64, limit: Duration) -> Outcome<(u64, u8)> {
    let run = wait_until("the next run has ended", limit + Duration::from_secs(5), || {
        let shown = cluster.host(seen_from).api().call(&["snapshot", "schedule", "show", "often"])?;
        let run = shown["last_run"].clone();
        let due = run["due_unix_ms"].as_u64().unwrap_or_default();
        check(due > after_unix_ms && run["ended_unix_ms"].is_u64(), || shown.to_string())?;
        Ok(run)
    })?;
    cluster.say(format!("a run has ended: {run}"));
    check(run["disks"] == DISKS.len(), || format!("it has ended without all disks: {run}"))?;
    let host = run["host"].as_str().and_then(|name| name.strip_prefix('h')?.parse().ok());
    Ok((run["due_unix_ms"].as_u64().unwrap_or_default(), host.ok_or_else(|| format!("no host ran it: {run}"))?))
}

/// Both disks have the same snapshots of the schedule: two that are kept, perhaps one that is about to go, each of another run.
fn once_each(cluster: &Cluster, seen_from: u8) -> Outcome<()> {
    for disk in DISKS {
        let listed = cluster.host(seen_from).api().call(&["snapshot", "list", disk])?;
        let all = listed.as_array().cloned().unwrap_or_default();
        let names: Vec<&str> =
            all.iter().filter(|one| one["schedule"] == "often").filter_map(|one| one["name"].as_str()).collect();
        let different: BTreeSet<&&str> = names.iter().collect();
        check(different.len() == names.len() && (1..=3).contains(&names.len()), || listed.to_string())?;
    }
    Ok(())
}
