//! (d) The owner's process stands still for 10 s and goes on: it must not acknowledge or read for what it no longer owns.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape,
    scene::{DISK, DISK_MIB, Scene, play, roles, targets},
    wait::check,
};
use rustix::process::Signal;

/// The clients of the stopped host wait for it, as a guest on that host does: the 10 s and the way to the new owner.
const STALL_MAX: Duration = Duration::from_secs(16);
/// Where only the client at the other host writes: the half of the disk that no load touches.
const ELSEWHERE: u64 = (DISK_MIB / 2) << 20;

/// Goal: a paused owner is fenced. Method: SIGSTOP for 10 s under load; a client at another host writes meanwhile, which takes the
/// disk over; SIGCONT; the paused host's clients go on through the new owner, and read what the other client wrote.
#[test]
fn the_owner_is_paused_and_goes_on() {
    play("pause", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (other, _) = roles(cluster, 1)?;
    let mut old = connect(cluster, 1)?;
    old.write(ELSEWHERE, &[1; 4096]).map_err(|e| e.to_string())?;
    scene.sleep_until(30);
    cluster.host(1).signal(&cluster.network, Signal::STOP)?;
    let stopped = Instant::now();
    cluster.say("SIGSTOP of all of h1, which owns the disk");
    let mut new = connect(cluster, other)?;
    new.write(ELSEWHERE, &[2; 4096]).map_err(|e| e.to_string())?;
    cluster.say(format!("h{other} serves a client after {:.2} s", stopped.elapsed().as_secs_f64()));
    let owner = cluster.owner(other, DISK)?;
    check(owner != 1, || "the paused host still owns the disk".into())?;
    while stopped.elapsed() < Duration::from_secs(10) {
        new.write(ELSEWHERE, &[3; 4096]).map_err(|e| e.to_string())?;
    }
    cluster.host(1).signal(&cluster.network, Signal::CONT)?;
    cluster.say("SIGCONT of h1");
    let mut seen = [0; 4096];
    old.read(ELSEWHERE, &mut seen).map_err(|e| e.to_string())?;
    check(seen == [3; 4096], || format!("the paused host read {}, which is not the last acknowledged write", seen[0]))?;
    scene.goes_on(cluster, "at the host that was paused", Duration::from_secs(20))?;
    cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    scene.finish(cluster, &[1, 2], STALL_MAX)
}

fn connect(cluster: &Cluster, n: u8) -> Outcome<NbdClient> {
    NbdClient::connect(&targets(cluster, &[n])[0], DISK, Duration::from_secs(20)).map_err(|e| e.to_string())
}
