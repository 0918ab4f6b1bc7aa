//! (g) A host stays away for longer than the repair delay: its copy is rebuilt elsewhere; then that host dies too.

use std::time::Duration;

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play, roles},
    wait::check,
};

/// As for the death of a copy, beside a full rebuild on the same two processors.
const STALL_MAX: Duration = Duration::from_secs(4);

/// Goal: redundancy comes back by itself. Method: a repair delay of 5 s, kill -9 of a copy's host for good, the disk healthy on
/// other hosts, kill -9 of the one that served all the while: the data is read from the rebuilt copy alone.
#[test]
fn a_copy_is_rebuilt_on_another_host() {
    play("rebuild", &Shape { repair_delay_s: 5, ..Shape::default() }, scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (victim, _) = roles(cluster, 1)?;
    let survivor = *cluster.replicas(1, DISK)?.iter().find(|n| **n != victim).ok_or("one copy only")?;
    scene.sleep_until(20);
    cluster.kill(victim)?;
    scene.goes_on(cluster, "without that copy", Duration::from_secs(10))?;
    cluster.wait_healthy(1, DISK, Duration::from_secs(90))?;
    let copies = cluster.replicas(1, DISK)?;
    let rebuilt = *copies.iter().find(|n| **n != survivor).ok_or("one copy only")?;
    check(rebuilt != victim, || "the copy is still on the dead host".into())?;
    let ended = scene.stop(cluster)?;
    cluster.kill(survivor)?;
    cluster.say("read back from the rebuilt copy alone:");
    ended.verify(cluster, &[rebuilt], STALL_MAX)
}
