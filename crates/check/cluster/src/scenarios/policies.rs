//! Stories of disks in use that get another policy or another place, while hosts die; and of hosts that get their share.

use cairn_api::v1::HostMaintenance;
use cairn_object::LocalStore as _;
use cairn_types::{ComponentState, MaintenanceMode, ObjectConfig};

use super::{Scenario, Stage};
use crate::shape::Shape;

/// How long copies may take to come and go, faults included.
const MET_WITHIN_MS: u64 = 60_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "27. a third copy comes while hosts die, and goes again",
            (
                "it comes whoever dies meanwhile, and goes; the disk is healthy with each policy, and guests go on",
                "FTT 1 to 2 under load; as soon as the third copy is being filled its host, another copy's or the owner's loses power, and is \
                 back 3 s later; then FTT 1 again",
            ),
            (busy(7), 9),
            comes_and_goes,
        ),
        Scenario::new(
            "27. fewer copies while one of them is away",
            (
                "the one that is away goes: the two in sync stay, and one of them suffices when the other one's host dies, too",
                "FTT 2; a copy's host loses power, and is recorded absent; FTT 1; then another copy's host loses power for good",
            ),
            (busy(7), 6),
            away_goes_first,
        ),
        Scenario::new(
            "27. a policy is taken back before it is met",
            (
                "the copy that is being filled goes, nothing is left over, and the disk is as it was",
                "FTT 1 to 2 with slow devices; as soon as the third copy is being filled FTT 1 again",
            ),
            (busy(7), 4),
            taken_back,
        ),
        Scenario::new(
            "27. a disk moves to the host that it is asked to",
            (
                "it is there and nowhere else, and healthy; where the owner dies before, the disk is whole, moved or not",
                "a copy is to go to a host without one; in one story of two the owner loses power as soon as the twin is being filled",
            ),
            (busy(5), 6),
            moves_there,
        ),
        Scenario::new(
            "28. an empty host gets its share",
            (
                "disk groups that differ by more than 30 points come nearer by themselves, then nothing moves any more",
                "a host is kept empty by maintenance while disks fill the other three to about 70 %; it is taken into use",
            ),
            (filled(), 3),
            shared_out,
        ),
    ]
}

fn busy(hosts: usize) -> Shape {
    Shape::plain(hosts).read_everywhere()
}

/// Six disks, of which three hosts' devices are about 70 % full once they are written.
fn filled() -> Shape {
    let mut shape = Shape::plain(4);
    (shape.capacity_devices, shape.capacity_bytes) = (1, (1 + 24 * 4) << 20);
    (shape.destage_percent, shape.idle_destage_ms) = (20, 500);
    shape.disks[0].size_bytes = 16 << 20;
    shape.disks = vec![shape.disks[0].clone(); 6];
    shape
}

fn copies(config: &ObjectConfig) -> usize {
    config.members.iter().filter(|m| m.set().is_some()).count()
}

/// Waits until the disk has so many copies, all in sync, and not a member more than those need.
async fn until_met(stage: &Stage, wanted: usize) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..MET_WITHIN_MS / 100 {
        match stage.config(0).await {
            Ok(config) => {
                let whole = config.members.iter().all(|m| m.state.in_sync());
                if whole && copies(&config) == wanted && config.members.len() == 2 * wanted - 1 {
                    return Ok(());
                }
                last = format!("{:?}", config.members);
            }
            Err(error) => last = error,
        }
        stage.ms(100).await;
    }
    Err(format!("the disk has not come to {wanted} copies within {MET_WITHIN_MS} ms: {last}"))
}

/// Waits until a copy is being filled; the host that it is on.
async fn filling(stage: &Stage) -> Result<usize, String> {
    for _ in 0..10_000 {
        let config = stage.config(0).await?;
        let filled = config.members.iter().find(|m| matches!(m.state, ComponentState::Resyncing { .. }));
        if let Some(member) = filled {
            return Ok(stage.number(member.host));
        }
        stage.ms(2).await;
    }
    Err("no copy is being filled".into())
}

async fn comes_and_goes(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (hosts, _) = stage.copies_and_witnesses().await?;
    stage.attach(hosts[1]).await?;
    stage.slow_devices_but(hosts[0]);
    stage.cluster.set_copies(0, hosts[0], 1).await?;
    let third = filling(&stage).await?;
    let dies = [third, hosts[0], hosts[1]][stage.below(3) as usize];
    stage.ms(stage.below(200)).await;
    stage.crash(dies);
    stage.ms(3000).await;
    stage.start(dies);
    stage.devices_as_fast_as_ever();
    until_met(&stage, 3).await?;
    stage.healthy().await?;
    stage.goes_on(5, 2000).await?;
    stage.cluster.set_copies(0, hosts[0], 0).await?;
    until_met(&stage, 2).await?;
    stage.healthy().await?;
    stage.rest(false).await
}

async fn away_goes_first(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    stage.cluster.set_copies(0, 0, 1).await?;
    until_met(&stage, 3).await?;
    let (hosts, _) = stage.copies_and_witnesses().await?;
    let away = hosts[stage.below(3) as usize];
    let stay: Vec<usize> = hosts.into_iter().filter(|host| *host != away).collect();
    stage.attach(stay[0]).await?;
    stage.crash(away);
    stage.goes_on(5, 8000).await?;
    stage.ms(3000).await;
    stage.cluster.set_copies(0, stay[0], 0).await?;
    until_met(&stage, 2).await?;
    let (left, _) = stage.copies_and_witnesses().await?;
    if left.iter().any(|host| !stay.contains(host)) {
        return Err(format!("copies in sync were on {stay:?}, and are on {left:?}"));
    }
    stage.crash(stay[1]);
    stage.goes_on(5, 8000).await?;
    stage.start(away);
    stage.start(stay[1]);
    stage.ms(3000).await;
    stage.rest(false).await
}

async fn taken_back(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let before = stage.config(0).await?;
    let (hosts, _) = stage.copies_and_witnesses().await?;
    stage.slow_devices_but(hosts[0]);
    stage.cluster.set_copies(0, hosts[0], 1).await?;
    filling(&stage).await?;
    stage.cluster.set_copies(0, hosts[0], 0).await?;
    stage.devices_as_fast_as_ever();
    until_met(&stage, 2).await?;
    let after = stage.config(0).await?;
    let data = |config: &ObjectConfig| -> Vec<_> {
        config.members.iter().filter(|m| m.set().is_some()).map(|m| m.component).collect()
    };
    if data(&before) != data(&after) {
        return Err(format!("the disk's copies were {:?}, and are {:?}", data(&before), data(&after)));
    }
    stage.rest(false).await
}

async fn moves_there(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (hosts, witnesses) = stage.copies_and_witnesses().await?;
    let free = (0..stage.hosts()).find(|n| !hosts.contains(n) && !witnesses.contains(n)).ok_or("no host is free")?;
    let dies = stage.below(2) == 0;
    stage.attach(hosts[1]).await?;
    stage.slow_devices_but(hosts[0]);
    let told = stage.cluster.move_disk(0, hosts[0], Some(free)).await?;
    if told.added.len() != 1 || told.removed.len() != 1 {
        return Err(format!("{told:?}"));
    }
    filling(&stage).await?;
    if dies {
        stage.crash(hosts[1]);
        stage.ms(6000).await;
        stage.start(hosts[1]);
    }
    stage.devices_as_fast_as_ever();
    stage.ms(2000).await;
    until_met(&stage, 2).await?;
    let (left, _) = stage.copies_and_witnesses().await?;
    if !dies && (left.contains(&hosts[0]) || !left.contains(&free)) {
        return Err(format!("it was to go from h{} to h{free}, and is on {left:?}", hosts[0]));
    }
    stage.healthy().await?;
    stage.rest(false).await
}

/// Per cent in use of each host's disk groups, by host.
fn fills(stage: &Stage) -> Vec<u64> {
    let percent = |n| {
        let rooms = stage.cluster.node(n).map(|node| node.stores()).unwrap_or_default();
        let (mut total, mut free) = (0, 0);
        for store in &rooms {
            let summary = store.summary();
            (total, free) = (total + summary.total_bytes(), free + summary.free_bytes());
        }
        (total - free) * 100 / u64::max(total, 1)
    };
    (0..stage.hosts()).map(percent).collect()
}

fn gap(fills: &[u64]) -> u64 {
    fills.iter().max().unwrap_or(&0) - fills.iter().min().unwrap_or(&0)
}

async fn shared_out(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let empty = stage.hosts() - 1;
    let enter =
        HostMaintenance { enter: true, mode: Some(MaintenanceMode::FullEvacuation), ..HostMaintenance::default() };
    stage.cluster.maintenance(empty, enter).await?;
    stage.ms(8000).await;
    for (disk, guests) in stage.guests.iter().enumerate() {
        guests.stop().await;
        stage.attach_disk(disk, disk % empty).await?;
        guests.fill(disk % empty, false).await?;
    }
    stage.ms(10_000).await;
    let before = fills(&stage);
    if gap(&before) < 40 || before[empty] > 10 {
        return Err(format!("the other hosts were to be full: {before:?}"));
    }
    stage.cluster.maintenance(empty, HostMaintenance::default()).await?;
    let mut now = before.clone();
    for _ in 0..300 {
        stage.ms(1000).await;
        now = fills(&stage);
        if gap(&now) < 30 {
            break;
        }
    }
    stage.say(format!("per cent in use: {before:?}, then {now:?}"));
    if gap(&now) >= 30 {
        return Err(format!("hosts are {now:?} per cent full after 300 s; they were {before:?}"));
    }
    stage.ms(20_000).await;
    let places = async || -> Result<Vec<Vec<usize>>, String> {
        let mut all = Vec::new();
        for disk in 0..stage.guests.len() {
            all.push(stage.hosts_of(disk).await?);
        }
        Ok(all)
    };
    let settled = places().await?;
    stage.ms(60_000).await;
    if settled != places().await? {
        return Err("components go on moving though hosts are about equally full".into());
    }
    stage.rest(false).await
}
