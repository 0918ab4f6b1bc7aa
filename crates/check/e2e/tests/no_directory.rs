//! (f) All etcd members stand still during I/O, and then a host dies as well: I/O goes on, and so does failover.

use std::time::Duration;

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, play},
    wait::check,
};
use rustix::process::Signal;

/// As for the death of an owner.
const STALL_MAX: Duration = Duration::from_secs(8);

/// Goal: P5. Method: SIGSTOP of every etcd process; a management change is refused or times out meanwhile; kill -9 of the
/// owner's host; the members go on at the end.
#[test]
fn the_directory_stands_still_and_a_host_dies() {
    play("no_directory", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    // Host 4 has no etcd member: its death leaves all three, stopped.
    let scene = Scene::begin(cluster, 4, &[4, 3, 2, 1])?;
    scene.sleep_until(20);
    etcd(cluster, Signal::STOP)?;
    cluster.say("SIGSTOP of all etcd members");
    scene.goes_on(cluster, "without the directory", Duration::from_secs(10))?;
    let refused = cluster.host(1).api().ask(&["disk", "create", "vm-2", "--size", "64MiB"]);
    match refused {
        Ok(_) => return Err("a disk was made without a directory".into()),
        Err(refused) => cluster.say(format!("a new disk is refused: {}", refused.words)),
    }
    cluster.kill(4)?;
    scene.goes_on(cluster, "without the directory and without the owner's host", Duration::from_secs(20))?;
    etcd(cluster, Signal::CONT)?;
    cluster.say("SIGCONT of all etcd members");
    let owner = cluster.owner(1, DISK)?;
    check(owner != 4, || "a dead host owns the disk".into())?;
    scene.finish(cluster, &[3, 2, 1], STALL_MAX)
}

fn etcd(cluster: &Cluster, what: Signal) -> Outcome<()> {
    for n in 1..=3 {
        let members = cluster.network.processes(n, Some("etcd"))?;
        check(!members.is_empty(), || format!("h{n} runs no etcd"))?;
        members.into_iter().for_each(|pid| cairn_e2e::process::signal(pid, what));
    }
    Ok(())
}
