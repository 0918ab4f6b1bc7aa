//! (d) The owner's process stands still for 10 s and goes on: it must not acknowledge or read for what it no longer owns, nor
//! carry out what waited in its sockets: the clients have gone on through another host since.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape,
    scene::{DISK, DISK_MIB, Scene, play, roles, targets},
    wait::check,
};
use rustix::process::Signal;

/// How long the clients of the stopped host wait before they leave it: more than a lease, as the specification asks of them.
const LEAVE_AFTER: Duration = Duration::from_secs(3);
/// Until they leave, and the way to the new owner, on a loaded machine.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Where only the client at the other host writes: the half of the disk that no load touches.
const ELSEWHERE: u64 = (DISK_MIB / 2) << 20;

/// Goal: a paused owner is fenced, and its guests' old requests with it. Method: SIGSTOP for 10 s under load; a client's write is left
/// unanswered in its socket; after 3 s all clients go on at other hosts and overwrite what they had sent; SIGCONT; nothing of
/// what waited may be seen, and the paused host, asked anew, reads what was written elsewhere.
#[test]
fn the_owner_is_paused_and_goes_on() {
    play("pause", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (other, _) = roles(cluster, 1)?;
    let near: Vec<u8> = [other].into_iter().chain((2..=4).filter(|n| *n != other)).collect();
    let mut idle = connect(cluster, 1, Duration::from_secs(20))?;
    idle.write(ELSEWHERE, &[1; 4096]).map_err(|e| e.to_string())?;
    let mut leaving = connect(cluster, 1, LEAVE_AFTER)?;
    scene.sleep_until(30);
    cluster.host(1).signal(&cluster.network, Signal::STOP)?;
    let stopped = Instant::now();
    cluster.say("SIGSTOP of all of h1, which owns the disk");
    let unanswered = leaving.write(ELSEWHERE, &[9; 4096]);
    check(unanswered.is_err(), || "a stopped host answered".into())?;
    drop(leaving);
    scene.load.retarget(targets(cluster, &near));
    scene.door.lead_to(targets(cluster, &near));
    scene.load.reconnect();
    let left = Instant::now();
    let mut new = connect(cluster, other, Duration::from_secs(20))?;
    new.write(ELSEWHERE, &[2; 4096]).map_err(|e| e.to_string())?;
    cluster.say(format!("the clients left h1; h{other} served the first after {:.2} s", left.elapsed().as_secs_f64()));
    scene.goes_on(cluster, "at the other hosts", Duration::from_secs(20))?;
    let owner = cluster.owner(other, DISK)?;
    check(owner != 1, || "the paused host still owns the disk".into())?;
    while stopped.elapsed() < Duration::from_secs(10) {
        new.write(ELSEWHERE, &[3; 4096]).map_err(|e| e.to_string())?;
    }
    cluster.host(1).signal(&cluster.network, Signal::CONT)?;
    cluster.say("SIGCONT of h1");
    let mut seen = [0; 4096];
    // A session from before the pause ends, or reads what is true now.
    if idle.read(ELSEWHERE, &mut seen).is_ok() {
        check(seen == [3; 4096], || format!("the paused host read {}, not the last acknowledged write", seen[0]))?;
    }
    let mut again = connect(cluster, 1, Duration::from_secs(20))?;
    again.read(ELSEWHERE, &mut seen).map_err(|e| e.to_string())?;
    check(seen == [3; 4096], || {
        format!("through the paused host one reads {}, not the last acknowledged write", seen[0])
    })?;
    cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    scene.finish(cluster, &[1, 2], STALL_MAX)
}

fn connect(cluster: &Cluster, n: u8, patience: Duration) -> Outcome<NbdClient> {
    NbdClient::connect(&targets(cluster, &[n])[0], DISK, patience).map_err(|e| e.to_string())
}
