//! Stories of moves: a host is emptied while its disks are in use, and everything that can fail does.

use cairn_api::v1::{DiskGroupDrain, HostMaintenance, MaintenanceState};
use cairn_types::{ComponentState, MaintenanceMode};

use super::{Scenario, Stage};
use crate::shape::Shape;

/// How long a host may take to be emptied, faults included.
const EMPTIED_WITHIN_MS: u64 = 60_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [hosts(), groups_and_refusals()].into_iter().flatten().collect()
}

fn busy(hosts: usize) -> Shape {
    Shape::plain(hosts).read_everywhere()
}

/// A host is emptied.
fn hosts() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "26. a host is emptied and switched off",
            (
                "guests go on without an error, nothing of the disk is left there, and the disk is healthy though the host is off",
                "full evacuation of a host with a copy, or with the witness, under load; it loses power; the owner's host follows",
            ),
            (busy(5), 6),
            emptied,
        ),
        Scenario::new(
            "26. a move whose source, target or owner dies",
            (
                "the move goes on or begins anew, and ends; what fails meanwhile is repaired",
                "a host is to be emptied; as soon as a twin is being filled one of the three loses power, and is back 3 s later",
            ),
            (busy(5), 12),
            dies_in_mid_move,
        ),
        Scenario::new(
            "26. the other copy's host dies while a twin is filled",
            (
                "the disk is served: until the twin is in sync the copy that is moved is one of its copies (I12)",
                "a host is to be emptied, with slow devices elsewhere; as soon as a twin is being filled the host of the other copy loses power, for good",
            ),
            (busy(5), 6),
            other_copy_dies,
        ),
        Scenario::new(
            "26. maintenance is left before it is reached",
            (
                "twins that are not in sync go, nothing is left over, and the disk is as it was",
                "a host is to be emptied, and is wanted again as soon as a twin is being filled",
            ),
            (busy(5), 4),
            left,
        ),
        Scenario::new(
            "26. maintenance outlives the reboot that it is for",
            (
                "a host that is started anew is in maintenance still, whoever else died meanwhile, and is given nothing new",
                "ensure accessibility of a host with a copy; it loses power, and so does the host that was asked; both start; a disk is made",
            ),
            (busy(4), 4),
            outlives_a_reboot,
        ),
    ]
}

/// A disk group is emptied; what comes of moves, and what cannot be moved.
fn groups_and_refusals() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "26. a disk group is emptied, and then its devices go",
            (
                "nothing of the disk is left there: nobody misses the devices, and guests go on",
                "the disk group of a copy, the owner's or the other, is emptied under load; its capacity devices are gone at once",
            ),
            (busy(4), 4),
            group_emptied,
        ),
        Scenario::new(
            "26. a disk whose components have all moved",
            (
                "whoever wants it finds it, also a host that was away meanwhile and knows only where it was",
                "a host that holds nothing is switched off; every host with a part of the disk is emptied, one after the other; the host starts and takes the disk over",
            ),
            (busy(7), 3),
            all_moved,
        ),
        Scenario::new(
            "26. a host that cannot be emptied",
            (
                "it is refused in words, and nothing is changed; forced, what cannot be moved stays and the disk is healthy",
                "full evacuation of a host of three",
            ),
            (busy(3), 2),
            cannot_be_emptied,
        ),
    ]
}

fn enter(mode: MaintenanceMode) -> HostMaintenance {
    HostMaintenance { enter: true, mode: Some(mode), ..HostMaintenance::default() }
}

/// Waits until nothing is left to be moved away from the host.
async fn until_in(stage: &Stage, host: usize) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..EMPTIED_WITHIN_MS / 250 {
        match stage.cluster.maintenance_of(host).await {
            Ok(now) if now.state == MaintenanceState::In => return Ok(()),
            Ok(now) => last = format!("{now:?}"),
            Err(error) => last = error,
        }
        stage.ms(250).await;
    }
    Err(format!("h{host} is not in maintenance after {EMPTIED_WITHIN_MS} ms: {last}"))
}

/// Waits until a twin is being filled; the host that it is on, and that of the one that is moved.
async fn twin_of(stage: &Stage) -> Result<(usize, usize), String> {
    for _ in 0..10_000 {
        let config = stage.config(0).await?;
        if let Some([old, twin]) = config.twins().first()
            && matches!(twin.state, ComponentState::Resyncing { .. })
        {
            return Ok((stage.number(twin.host), stage.number(old.host)));
        }
        stage.ms(2).await;
    }
    Err("no twin is being filled".into())
}

async fn emptied(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let host = [copies[0], copies[1], witnesses[0]][stage.below(3) as usize];
    let told = stage.cluster.maintenance(host, enter(MaintenanceMode::FullEvacuation)).await?;
    if told.disks != 1 || !told.obstacles.is_empty() {
        return Err(format!("{told:?}"));
    }
    until_in(&stage, host).await?;
    if stage.hosts_of(0).await?.contains(&host) {
        return Err(format!("h{host} is in maintenance and holds a part of the disk"));
    }
    stage.goes_on(5, 1000).await?;
    stage.crash(host);
    stage.ms(1000).await;
    let seen_from = (0..stage.hosts()).find(|n| *n != host).ok_or("one host")?;
    stage.healthy_at(seen_from).await?;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.crash(copies[0]);
    stage.ms(6000).await;
    stage.goes_on(5, 3000).await?;
    stage.start(copies[0]);
    stage.start(host);
    stage.cluster.maintenance(host, HostMaintenance::default()).await?;
    stage.ms(3000).await;
    stage.rest(false).await
}

async fn dies_in_mid_move(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[1]).await?;
    stage.slow_devices_but(copies[0]);
    stage.cluster.maintenance(copies[0], enter(MaintenanceMode::FullEvacuation)).await?;
    let (twin, old) = twin_of(&stage).await?;
    let dies = [old, twin, copies[1]][stage.below(3) as usize];
    stage.ms(stage.below(200)).await;
    stage.crash(dies);
    stage.ms(3000).await;
    stage.start(dies);
    stage.devices_as_fast_as_ever();
    until_in(&stage, copies[0]).await?;
    stage.healthy().await?;
    stage.goes_on(5, 2000).await?;
    stage.cluster.maintenance(copies[0], HostMaintenance::default()).await?;
    stage.rest(false).await
}

async fn other_copy_dies(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[0]).await?;
    stage.slow_devices_but(copies[0]);
    stage.cluster.maintenance(copies[0], enter(MaintenanceMode::FullEvacuation)).await?;
    twin_of(&stage).await?;
    stage.ms(stage.below(50)).await;
    stage.crash(copies[1]);
    stage.devices_as_fast_as_ever();
    stage.ms(4500).await;
    stage.goes_on(5, 3000).await?;
    stage.start(copies[1]);
    until_in(&stage, copies[0]).await?;
    stage.cluster.maintenance(copies[0], HostMaintenance::default()).await?;
    stage.rest(false).await
}

async fn left(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let before = stage.config(0).await?;
    stage.slow_devices_but(copies[0]);
    stage.cluster.maintenance(copies[0], enter(MaintenanceMode::FullEvacuation)).await?;
    twin_of(&stage).await?;
    stage.cluster.maintenance(copies[0], HostMaintenance::default()).await?;
    stage.devices_as_fast_as_ever();
    stage.ms(3000).await;
    let after = stage.config(0).await?;
    let data = |config: &cairn_types::ObjectConfig| -> Vec<_> {
        config.members.iter().filter(|m| m.set().is_some()).map(|m| m.component).collect()
    };
    if data(&before) != data(&after) {
        return Err(format!("the disk's copies were {:?}, and are {:?}", data(&before), data(&after)));
    }
    stage.rest(false).await
}

async fn outlives_a_reboot(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let host = copies[0];
    let told = stage.cluster.maintenance(host, enter(MaintenanceMode::EnsureAccessibility)).await?;
    if told.state != MaintenanceState::In || told.reduced != 1 {
        return Err(format!("two copies of three votes are left: {told:?}"));
    }
    let asked = if host == 0 { 1 } else { 0 };
    stage.crash(host);
    stage.crash(asked);
    stage.ms(3000).await;
    stage.start(asked);
    stage.start(host);
    stage.ms(3000).await;
    let now = stage.cluster.maintenance_of(host).await?;
    if now.mode != Some(MaintenanceMode::EnsureAccessibility) {
        return Err(format!("the reboot ended the maintenance: {now:?}"));
    }
    stage.cluster.create_disk(asked, "made-meanwhile", 4 << 20, None).await.map_err(|error| error.to_string())?;
    let id = stage.host(host).spoken_id();
    let record = stage
        .cluster
        .manage(asked, async move |node| cairn_api::LocalManagement::disk_record(&node, "made-meanwhile".into()).await);
    let config = record.await.map_err(|error| error.to_string())?.config.ok_or("no record")?;
    if config.members.iter().any(|m| m.host == id) {
        return Err(format!("h{host} is in maintenance and was given a part of a new disk"));
    }
    stage.cluster.delete_disk(asked, "made-meanwhile").await.map_err(|error| error.to_string())?;
    stage.cluster.maintenance(host, HostMaintenance::default()).await?;
    stage.rest(false).await
}

async fn group_emptied(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[0]).await?;
    let host = copies[stage.below(2) as usize];
    let group = stage.cluster.group_id(host, 0).ok_or("its disk group is closed")?;
    let begin = DiskGroupDrain { drain: true, ..DiskGroupDrain::default() };
    stage.cluster.drain(group, begin.clone()).await?;
    let mut left = u32::MAX;
    for _ in 0..EMPTIED_WITHIN_MS / 250 {
        // It is asked for once more: that changes nothing.
        left = stage.cluster.drain(group, begin.clone()).await?.components_left;
        if left == 0 {
            break;
        }
        stage.ms(250).await;
    }
    if left > 0 || stage.hosts_of(0).await?.contains(&host) {
        return Err(format!("the disk group of h{host} holds {left} components"));
    }
    let before = stage.config(0).await?;
    stage.lose_capacity(host);
    stage.ms(11_000).await;
    stage.goes_on(5, 1000).await?;
    let after = stage.config(0).await?;
    if before.members != after.members {
        return Err(format!("the disk missed what was not there: {:?}", after.members));
    }
    stage.capacity(host).for_each(|disk| disk.bring_back());
    stage.host(host).restart();
    stage.ms(2000).await;
    stage.cluster.drain(group, DiskGroupDrain::default()).await?;
    stage.rest(false).await
}

async fn all_moved(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let were = stage.hosts_of(0).await?;
    let away = (0..stage.hosts()).find(|n| !were.contains(n)).ok_or("all hosts have a part of it")?;
    stage.crash(away);
    stage.ms(1000).await;
    for host in &were {
        stage.cluster.maintenance(*host, enter(MaintenanceMode::FullEvacuation)).await?;
        until_in(&stage, *host).await?;
    }
    if let Some(host) = stage.hosts_of(0).await?.iter().find(|host| were.contains(host)) {
        return Err(format!("h{host} holds a part of the disk still"));
    }
    stage.start(away);
    stage.ms(2000).await;
    stage.attach(away).await?;
    stage.goes_on(5, 1000).await?;
    for host in were {
        stage.cluster.maintenance(host, HostMaintenance::default()).await?;
    }
    stage.rest(false).await
}

async fn cannot_be_emptied(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let request = enter(MaintenanceMode::FullEvacuation);
    match stage.cluster.maintenance(copies[0], request.clone()).await {
        Err(why) if why.contains("needs 3 fault domains") => {}
        other => return Err(format!("a host of three was to be emptied: {other:?}")),
    }
    let now = stage.cluster.maintenance_of(copies[0]).await?;
    if now.state != MaintenanceState::Out {
        return Err(format!("what was refused was done: {now:?}"));
    }
    stage.cluster.maintenance(copies[0], HostMaintenance { force: true, ..request }).await?;
    stage.ms(3000).await;
    let config = stage.config(0).await?;
    if !config.twins().is_empty() || config.members.iter().any(|m| !m.state.in_sync()) {
        return Err(format!("a move was begun that cannot be ended: {config:?}"));
    }
    stage.goes_on(5, 1000).await?;
    stage.cluster.maintenance(copies[0], HostMaintenance::default()).await?;
    stage.rest(false).await
}
