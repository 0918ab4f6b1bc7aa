//! (e) Every process dies at once under load; after a restart every acknowledged write is there.

use std::time::Duration;

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play},
};

/// The restart of four hosts and three etcd members on two processors, and the grace time of a cold start (10 s).
const STALL_MAX: Duration = Duration::from_secs(60);

/// Goal: P1 on a whole cluster. Method: kill -9 of all, restart of all; clients send again what was not answered.
#[test]
fn every_process_is_killed_at_once() {
    play("blackout", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
    scene.sleep_until(50);
    cluster.kill_all()?;
    cluster.start_all()?;
    cluster.say("all hosts are back");
    scene.goes_on(cluster, "after the restart", Duration::from_secs(40))?;
    cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
    scene.finish(cluster, &[1, 2, 3, 4], STALL_MAX)
}
