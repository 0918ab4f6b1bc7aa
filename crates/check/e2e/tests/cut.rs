//! (c) A cut leaves the owner in the minority: it stops acknowledging, the majority goes on, the old owner is refused after the heal.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, DISK_MIB, Scene, play, roles, targets},
    wait::check,
};

/// The lease (2 s), the takeover, the reconnection, on a loaded machine.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Sector of a write that only the cut-off owner is asked for: in the half of the disk that no load touches.
const PROBE: u64 = (DISK_MIB - 1) << 20;

/// Goal: at most one side acknowledges, and it is the majority. Method: the owner's host is moved to a bridge of its own. A client at
/// its unix socket goes on writing there: nothing may be acknowledged past the lease. The load is led to the other side.
#[test]
fn a_cut_leaves_the_owner_in_the_minority() {
    play("cut", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1])?;
    let (other, _) = roles(cluster, 1)?;
    let near: Vec<u8> = [other].into_iter().chain((2..=4).filter(|n| *n != other)).collect();
    scene.sleep_until(30);
    cluster.network.cut(&[1])?;
    let cut_at = Instant::now();
    cluster.say("h1, which owns the disk, is cut off");
    scene.load.retarget(targets(cluster, &near));
    scene.door.lead_to(targets(cluster, &near));
    let probe = minority_probe(&Target::Unix(cluster.host(1).nbd_socket()), cut_at);
    // The load's own connections to the cut-off host end here: they would wait there for its patience.
    scene.load.reconnect();
    scene.goes_on(cluster, "on the side of the majority", Duration::from_secs(20))?;
    let owner = cluster.owner(other, DISK)?;
    cluster.say(format!("h{owner} owns the disk now"));
    check(owner != 1, || "the majority thinks that the cut-off host owns the disk".into())?;
    let acknowledged = probe.join().map_err(|_| "the probe panicked")?;
    cluster.say(format!(
        "the last acknowledgement in the minority came {:.2} s after the cut",
        acknowledged.as_secs_f64()
    ));
    check(acknowledged < Duration::from_millis(2500), || "the minority acknowledged after its lease".into())?;
    cluster.network.heal()?;
    cluster.say("the network is whole again");
    cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    let after = cluster.owner(other, DISK)?;
    check(after == owner, || format!("h{after} owns the disk after the heal, not h{owner}"))?;
    // Through the old owner's host: forwarded to the new one, or refused, but never stale. The final read goes there.
    scene.finish(cluster, &[1, 2], STALL_MAX)
}

/// Writes through the cut-off owner for 6 s; tells when the last acknowledgement came, after `cut_at`.
fn minority_probe(target: &Target, cut_at: Instant) -> std::thread::JoinHandle<Duration> {
    let target = target.clone();
    std::thread::spawn(move || {
        let mut last = Duration::ZERO;
        let mut client = None;
        while cut_at.elapsed() < Duration::from_secs(6) {
            let Some(open) = client.as_mut() else {
                client = NbdClient::connect(&target, DISK, Duration::from_secs(1)).ok();
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            match open.write(PROBE, &[0x5a; 4096]) {
                Ok(()) => last = cut_at.elapsed(),
                Err(_) => client = None,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        last
    })
}
