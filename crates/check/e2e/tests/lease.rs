//! A host whose configuration names another lease than the cluster was made with counts with the cluster's.

use std::time::{Duration, Instant};

use cairn_e2e::{Cluster, NbdClient, Outcome, Shape, Target, scene::play, wait::check};

/// The lease (2 s) and a little.
const ANSWERED_MAX: Duration = Duration::from_millis(2500);

/// Goal: an owner that is cut off answers no read past the lease of those that granted it, whatever its own configuration says.
/// Method: one host of three is started with a lease of 20 s in its configuration; it owns a disk, with a copy at hand; it is cut off,
/// and read from at its unix socket for 8 s.
#[test]
fn a_longer_lease_in_a_configuration_is_not_believed() {
    let shape = Shape { hosts: 3, hosts_with_disks: 3, cache_mib: 128, ..Shape::default() };
    play("lease", &shape, scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    const ODD: u8 = 3;
    cluster.host_mut(ODD).stop()?;
    cluster.host(ODD).reconfigure("lease_ms = 2000", "lease_ms = 20000")?;
    cluster.restart(ODD)?;
    let settings = cluster.host(ODD).api().call(&["cluster", "settings"])?;
    check(settings["lease_ms"] == 2000, || format!("it counts with a lease of {}", settings["lease_ms"]))?;
    // Of some disks, one has a copy there.
    let names: Vec<String> = (1..=6).map(|n| format!("d{n}")).collect();
    names.iter().try_for_each(|name| cluster.create_disk(name, 16, ODD))?;
    let with_copy = names.iter().find(|name| cluster.replicas(1, name).is_ok_and(|at| at.contains(&ODD)));
    let disk = with_copy.ok_or("no disk of six has a copy at its owner")?;
    cluster.network.cut(&[ODD])?;
    let cut_at = Instant::now();
    cluster.say(format!("h{ODD}, which owns {disk}, is cut off"));
    let (mut answered, mut reader) = (Duration::ZERO, None);
    while cut_at.elapsed() < Duration::from_secs(8) {
        let target = Target::Unix(cluster.host(ODD).nbd_socket());
        let Some(open) = reader.as_mut() else {
            reader = NbdClient::connect(&target, disk, Duration::from_secs(1)).ok();
            continue;
        };
        match open.read(0, &mut [0; 4096]) {
            Ok(()) => answered = cut_at.elapsed(),
            Err(_) => reader = None,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.say(format!("the last read was answered {:.2} s after the cut", answered.as_secs_f64()));
    check(answered < ANSWERED_MAX, || "the cut-off owner answered after the lease of its grantors".into())?;
    cluster.network.heal()?;
    cluster.wait_healthy(1, disk, Duration::from_secs(60))
}
