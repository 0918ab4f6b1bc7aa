//! (a) A replica's host dies under load and comes back: no error, no wrong byte, a short stall, a delta resync.

use std::{thread, time::Duration};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    process::tail,
    scene::{DISK, DISK_MIB, Scene, fill, play, roles},
    wait::check,
};

/// A process that died is noticed by its closed connections; the rest is a loaded machine of two processors.
const STALL_MAX: Duration = Duration::from_secs(2);

/// Goal: an absent copy costs one short stall, and only what it missed is copied. Method: kill -9 of the host of the copy
/// that is not the owner's, its return after a second while the load goes on, the bytes of the resync as the owner logs them.
#[test]
fn a_replicas_host_is_killed_and_returns() {
    play("replica_dies", &Shape { capacity_mib: 1536, ..Shape::default() }, scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (victim, _) = roles(cluster, scene.owner)?;
    // What a full copy would have to carry too.
    fill(cluster, scene.owner, DISK_MIB / 2, DISK_MIB / 2)?;
    scene.sleep_until(60);
    cluster.kill(victim)?;
    scene.goes_on(cluster, "without that copy", Duration::from_secs(10))?;
    thread::sleep(Duration::from_secs(1));
    cluster.restart(victim)?;
    cluster.wait_healthy(scene.owner, DISK, Duration::from_secs(60))?;
    let log = tail(&cluster.host(scene.owner).log, 1000);
    let copied = log.lines().filter(|line| line.contains("resync has ended")).filter_map(bytes).next_back();
    let copied = copied.ok_or("the owner's log tells of no resync")?;
    let percent = copied * 100 / (DISK_MIB << 20);
    cluster.say(format!("DELTA RESYNC copied {} MiB, {percent} % of the disk", copied >> 20));
    scene.finish(cluster, &[1], STALL_MAX)?;
    check(percent < 20, || format!("the resync copied {percent} % of the disk"))
}

/// The bytes in an event `... bytes="12.0 MiB" ...`.
fn bytes(line: &str) -> Option<u64> {
    let text = line.split("bytes=\"").nth(1)?.split('"').next()?;
    let (number, unit) = text.split_once(' ')?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * f64::from(1 << shift)) as u64)
}
