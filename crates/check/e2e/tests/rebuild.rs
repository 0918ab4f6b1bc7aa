//! (g) A host stays away for longer than the repair delay: its copy is rebuilt elsewhere; then that host dies too.

use std::time::Duration;

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play, roles},
    wait::{check, wait_until},
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
    scene.sleep_until(20);
    cluster.kill(victim)?;
    scene.goes_on(cluster, "without that copy", Duration::from_secs(10))?;
    cluster.wait_healthy(1, DISK, Duration::from_secs(90))?;
    let (rebuilt, _) = roles(cluster, 1)?;
    check(rebuilt != victim, || "the copy is still on the dead host".into())?;
    let copies = cluster.replicas(1, DISK)?;
    check(copies.contains(&1), || format!("the owner has no copy: {copies:?}"))?;
    let ended = scene.stop(cluster)?;
    cluster.kill(1)?;
    wait_until("another host owns the disk", Duration::from_secs(30), || {
        let owner = cluster.owner(rebuilt, DISK)?;
        check(owner != 1, || "not yet".into())
    })?;
    cluster.say("read back from the rebuilt copy alone:");
    ended.verify(cluster, &[rebuilt], STALL_MAX)
}
