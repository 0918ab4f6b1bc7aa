//! (b) The owner's host dies under load; clients reconnect through another host, which takes the disk over.

use std::time::Duration;

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play, roles},
    wait::check,
};

/// One lease (2 s), the takeover, the reconnection of the client, on a loaded machine.
const STALL_MAX: Duration = Duration::from_secs(8);

/// Goal: every acknowledged write survives the owner, and I/O goes on by itself. Method: kill -9 of the owner's host; clients
/// find the next host of their list; the old owner returns as a copy.
#[test]
fn the_owners_host_is_killed() {
    play("owner_dies", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
    let (other, _) = roles(cluster, 1)?;
    scene.sleep_until(30);
    cluster.kill(1)?;
    scene.goes_on(cluster, "through another host", Duration::from_secs(20))?;
    let owner = cluster.owner(other, DISK)?;
    cluster.say(format!("h{owner} owns the disk now"));
    check(owner != 1, || "a dead host owns the disk".into())?;
    scene.sleep_until(60);
    cluster.restart(1)?;
    cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    scene.finish(cluster, &[2, 3, 4], STALL_MAX)
}
