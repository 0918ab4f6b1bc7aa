//! (r) Disks in rows of data and parity under load: members die, stand still and are cut off; what is lost for good is rebuilt.

use std::{thread, time::Duration};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    fio::Verified,
    scene::{Asked, LOAD_MIB, Scene, play},
    wait::check,
};
use rustix::process::Signal;

/// A host that falls silent costs a lease, a notice and a take-over; the rest is six hosts and two loads on two processors.
const STALL_MAX: Duration = Duration::from_secs(5);
/// How long a fault lasts, at least: longer than a lease.
const LASTS: Duration = Duration::from_secs(3);
/// I/O goes on without whoever is away.
const GOES_ON: Duration = Duration::from_secs(15);
/// A return, and what is copied then.
const HEALTHY: Duration = Duration::from_secs(90);
/// Clients ask here: it owns both disks at first.
const OWNER: u8 = 1;
const RAID_5: &str = "raid-5";
const RAID_6: &str = "raid-6";

/// Goal: no I/O error and no wrong byte, whichever member of 3+1, and whichever two of 4+2, are away; what is lost for good is rebuilt, and
/// counts. Method: fio's verification (4 KiB to 1 MiB) and a load with a shadow model on both disks at once; kill -9, SIGSTOP and cut
/// links of members, at 4+2 two at once, then of the owner; two hosts die for good; when 3+1 is whole again a third one does.
#[test]
fn members_of_rows_are_lost_one_by_one_and_two_by_two() {
    let shape = Shape { hosts: 6, hosts_with_disks: 6, repair_delay_s: 12, capacity_mib: 1536, ..Shape::default() };
    play("rows", &shape, scenario);
}

struct Disks {
    five: Scene,
    six: Scene,
}

impl Disks {
    fn go_on(&self, cluster: &Cluster, what: &str) -> Outcome<()> {
        thread::sleep(LASTS);
        self.five.goes_on(cluster, what, GOES_ON)?;
        self.six.goes_on(cluster, what, GOES_ON)
    }
}

fn healthy(cluster: &Cluster) -> Outcome<()> {
    cluster.wait_healthy(OWNER, RAID_5, HEALTHY)?;
    cluster.wait_healthy(OWNER, RAID_6, HEALTHY)
}

fn begin(cluster: &Cluster, disk: &str, data: &str, ftt: &str) -> Outcome<Scene> {
    let rules = ["policy", "create", disk, "--ftm", "erasure-coding", "--data-strips", data, "--ftt", ftt];
    cluster.host(OWNER).api().call(&rules)?;
    let fio =
        Verified { offset_mib: LOAD_MIB, mib: LOAD_MIB, largest_kib: 1024, rate_mib: 8, time: Duration::from_secs(60) };
    let asked = Asked { disk, mib: 512, policy: Some(disk), fio };
    Scene::begin_on(cluster, OWNER, &[OWNER, 2], &asked)
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let disks = Disks { five: begin(cluster, RAID_5, "3", "1")?, six: begin(cluster, RAID_6, "4", "2")? };
    let members = cluster.replicas(OWNER, RAID_5)?;
    let as_asked = members.contains(&OWNER) && members.len() == 4 && cluster.replicas(OWNER, RAID_6)?.len() == 6;
    check(as_asked, || format!("not four and six members, one of them here: {members:?}"))?;
    let of_both: Vec<u8> = (2..=6).filter(|n| members.contains(n)).collect();
    let of_six: Vec<u8> = (2..=6).filter(|n| !members.contains(n)).collect();
    let ([a, b, c], [y, z]) = (of_both[..3].try_into().expect("three"), of_six[..2].try_into().expect("two"));
    thread::sleep(LASTS);
    cluster.kill(a)?;
    disks.go_on(cluster, &format!("without h{a}"))?;
    cluster.restart(a)?;
    healthy(cluster)?;
    cluster.host(b).signal(&cluster.network, Signal::STOP)?;
    cluster.kill(y)?;
    disks.go_on(cluster, &format!("while h{b} stands still and h{y} is down"))?;
    cluster.host(b).signal(&cluster.network, Signal::CONT)?;
    cluster.restart(y)?;
    healthy(cluster)?;
    cluster.network.cut(&[c])?;
    cluster.host(z).signal(&cluster.network, Signal::STOP)?;
    disks.go_on(cluster, &format!("while h{c} is cut off and h{z} stands still"))?;
    cluster.network.heal()?;
    cluster.host(z).signal(&cluster.network, Signal::CONT)?;
    healthy(cluster)?;
    cluster.kill(OWNER)?;
    disks.go_on(cluster, "without the owner")?;
    cluster.restart(OWNER)?;
    healthy(cluster)?;
    lost_for_good(cluster, disks, (a, b, y))
}

/// Two hosts at once, of which one had a strip of both disks; then another one.
fn lost_for_good(cluster: &mut Cluster, disks: Disks, (a, b, y): (u8, u8, u8)) -> Outcome<()> {
    cluster.kill(a)?;
    cluster.kill(y)?;
    disks.go_on(cluster, &format!("without h{a} and h{y}, for good"))?;
    disks.six.finish(cluster, &[OWNER, b], STALL_MAX)?;
    cluster.wait_healthy(OWNER, RAID_5, HEALTHY)?;
    let members = cluster.replicas(OWNER, RAID_5)?;
    check(!members.contains(&a) && members.len() == 4, || format!("h{a} is still a member: {members:?}"))?;
    let ended = disks.five.stop(cluster)?;
    cluster.kill(b)?;
    cluster.say("read back with what was rebuilt, and without another member:");
    ended.verify(cluster, &[OWNER], STALL_MAX)
}
