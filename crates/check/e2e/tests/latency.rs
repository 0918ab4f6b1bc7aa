//! Latencies of real daemons: a slow medium under the log of one copy's host is found by `cairn disk latency` and `cairn top`.

use std::time::Duration;

use cairn_e2e::{
    Load, Outcome, Shape,
    cli::Refused,
    scene::{DISK, play, targets},
    wait::check,
    wait_until,
};
use serde_json::Value;

/// What each write to the slow log takes, in microseconds: far more than anything else here, however busy the machine is.
const SLOW_US: u64 = 30_000;
const SLOW: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// Goal: whoever asks why a disk is slow is told the log of the right host, with what it takes. Method: three hosts, of which one
/// keeps its log on a medium that takes 30 ms for each write; a disk with copies on that host and on another, which owns it.
#[test]
fn a_slow_log_is_named() {
    let shape =
        Shape { hosts: 3, hosts_with_disks: 3, etcd_members: 1, slow_cache: Some((SLOW, SLOW_US)), ..Shape::default() };
    play("latency", &shape, |cluster| {
        // A copy goes to the host that a disk is made for; then the other copy's host becomes its owner.
        cluster.create_disk(DISK, 64, SLOW)?;
        let copies = cluster.replicas(SLOW, DISK)?;
        let owner = *copies.iter().find(|host| **host != SLOW).ok_or("no copy beside the slow host's")?;
        let api = cluster.host(owner).api();
        api.call(&["disk", "attach", DISK, "--host", &cluster.host(owner).name()])?;
        let quiet = api.call(&["disk", "latency", DISK, "--seconds", "1"])?;
        check(quiet["writes"].is_null() && quiet["reads"].is_null(), || format!("before any request: {quiet}"))?;

        let load = Load::start(targets(cluster, &[owner]), DISK, 16, 4, Duration::from_millis(1), 1);
        wait_until("the guest writes", PATIENCE, || check(load.done() > 50, || "too little".into()))?;
        let told = api.call(&["disk", "latency", DISK, "--seconds", "4"])?;
        let top = api.call(&["top", "--once", "--seconds", "2"])?;
        let since_start = api.call(&["disk", "latency", DISK, "--since-start"])?;
        load.stop()?.verify(&targets(cluster, &[owner]))?.clean()?;

        for told in [&told, &since_start] {
            named(&told["writes"]).map_err(|words| format!("{words}: {told}"))?;
        }
        cluster.say(format!("slowest: {}", slowest(&told["writes"])));
        adds_up(&told["writes"])?;
        let row = &top["disks"][0];
        let row_named = row["name"] == DISK && row["slowest"]["host"] == "h3";
        check(row_named && row["writes"]["mean_us"].as_f64() > Some(SLOW_US as f64), || format!("top: {top}"))?;
        refused(&api.ask(&["disk", "latency", "nothing"]))
    });
}

fn stages(told: &Value) -> Vec<Value> {
    told["stages"].as_array().cloned().unwrap_or_default()
}

fn slowest(told: &Value) -> Value {
    stages(told).into_iter().find(|stage| stage["slowest"] == true).unwrap_or_default()
}

/// The slowest stage is the log of the slow host, and the device under it takes at least what it was made to take.
fn named(told: &Value) -> Outcome<()> {
    let found = slowest(told);
    let is_log = found["stage"] == "log-device" || found["stage"] == "log-queue";
    check(is_log && found["host"] == "h3", || format!("not the slow log, but {found}"))?;
    let device = stages(told).into_iter().find(|stage| stage["stage"] == "log-device" && stage["host"] == "h3");
    let device = device.ok_or("nothing is told of the slow device")?;
    check(device["p50_us"].as_f64() > Some(SLOW_US as f64 * 0.9), || format!("its median: {device}"))
}

/// Requests, copies and the slow log are told of as many writes; shares add up to the whole.
fn adds_up(told: &Value) -> Outcome<()> {
    let all = stages(told);
    let shares: f64 = all.iter().filter(|stage| stage["depth"] == 1).filter_map(|stage| stage["share"].as_f64()).sum();
    check((shares - 1.0).abs() < 0.05, || format!("shares add up to {shares}: {told}"))?;
    let remote = all.iter().any(|stage| stage["stage"] == "network" && stage["to_host"] == "h3");
    check(remote && told["requests"].as_u64() > Some(10), || format!("{told}"))
}

fn refused(told: &Result<Value, Refused>) -> Outcome<()> {
    let said = told.as_ref().err().filter(|refused| refused.code == 1 && refused.words.contains("there is no disk"));
    check(said.is_some(), || format!("an unknown disk: {told:?}"))
}
