//! (d) The owner's process stands still for 10 s and goes on: it must not acknowledge or read for what it no longer owns.

use std::{thread, time::Duration};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play, roles, targets},
};
use rustix::process::Signal;

/// Clients hold connections to the stopped process: they notice it only by its silence, and are led elsewhere by the test.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Goal: a paused owner is fenced. Method: SIGSTOP for 10 s under load, clients led to another host after the lease, SIGCONT, and
/// the final read through the host that was paused.
#[test]
fn the_owner_is_paused_and_goes_on() {
    play("pause", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (other, _) = roles(cluster, 1)?;
    scene.sleep_until(30);
    cluster.host(1).signal(&cluster.network, Signal::STOP)?;
    cluster.say("SIGSTOP of all of h1, which owns the disk");
    scene.load.retarget(targets(cluster, &[other, 2, 3, 4]));
    scene.door.lead_to(targets(cluster, &[other]));
    scene.load.reconnect();
    scene.goes_on(cluster, "through another host", Duration::from_secs(20))?;
    thread::sleep(Duration::from_secs(8));
    cluster.host(1).signal(&cluster.network, Signal::CONT)?;
    cluster.say("SIGCONT of h1");
    cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    scene.finish(cluster, &[1, 2], STALL_MAX)
}
