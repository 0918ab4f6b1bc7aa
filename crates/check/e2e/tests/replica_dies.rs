//! A replica's host dies under load and comes back: no error, no wrong byte, a short stall, a delta resync.

use std::{thread, time::Duration};

use cairn_e2e::{Cluster, Load, Outcome, Shape, Target, fio::Fio, tools::load_time, wait::check};

/// MiB of the disk; the load of our own writes the first quarter, fio the second.
const DISK_MIB: u64 = 512;

/// Goal: an absent replica costs one short stall, and only what it missed is copied. Method: kill -9 of the host of the copy
/// that is not the owner's, a return while the load goes on, and the bytes of the resync as the API tells them.
#[test]
fn a_replicas_host_is_killed_and_returns() {
    let cluster =
        Cluster::start("replica_dies", &Shape::default()).unwrap_or_else(|words| panic!("{words}"));
    cluster.run(scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    cluster.create_disk("vm-1", DISK_MIB, 4)?;
    let owner = cluster.owner(4, "vm-1")?;
    let replicas = cluster.replicas(owner, "vm-1")?;
    let victim = *replicas
        .iter()
        .find(|n| **n != owner)
        .ok_or("no copy beside the owner's")?;
    let door = Target::Unix(cluster.host(owner).nbd_socket());
    let load = Load::start(
        vec![door.clone()],
        "vm-1",
        DISK_MIB / 4,
        4,
        Duration::from_millis(5),
        1,
    );
    let time = load_time();
    let fio = Fio::verified(
        &door.uri("vm-1"),
        DISK_MIB / 4,
        DISK_MIB / 4,
        time,
        &cluster.logs,
    )?;
    thread::sleep(time / 4);
    cluster.kill(victim)?;
    thread::sleep(time / 4);
    let before = load.done();
    cluster.restart(victim)?;
    cluster.wait_healthy(owner, "vm-1", Duration::from_secs(60))?;
    check(load.done() > before, || {
        "the load stood still during the resync".into()
    })?;
    let fio = fio.finish()?;
    cluster.say(fio.line());
    let report = load.finish(&[door])?;
    cluster.say(report.line());
    report.clean()
}
