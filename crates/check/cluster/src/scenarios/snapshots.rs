//! Stories of snapshots: owners that die while one is taken, copies that were away, disks that go back.

use std::time::Duration;

use cairn_sim::Fault;
use cairn_types::{ComponentState, ObjectConfig, SnapshotId};

use super::{Scenario, Stage};
use crate::{bad_blocks::spoil_at, shape::Shape};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "25. an owner dies while a snapshot is taken",
            (
                "there is a snapshot of one moment, or none; each one that was answered is whole at every host",
                "under load snapshots are asked for, and the owner or the host of another copy loses power at a disk operation that is drawn; some are deleted",
            ),
            (Shape::plain(4).small(), 10),
            dies_while_taken,
        ),
        Scenario::new(
            "25. a copy that was away over snapshots has all of them",
            (
                "a copy that comes back can give each snapshot alone, also those that were taken and those that went meanwhile",
                "snapshots are taken before, while and after the host of a copy is away, one is deleted meanwhile; then the host of the other copy dies, and all are read",
            ),
            (Shape::plain(4).small(), 8),
            away,
        ),
        Scenario::new(
            "25. a member of rows that was away over snapshots has all of them",
            (
                "what the member had is made from the others at each snapshot, data and parity: another member may be away then",
                "as with copies, on rows of two strips of data and one of parity",
            ),
            (Shape::plain(4).small().in_rows(2, 1), 6),
            away,
        ),
        Scenario::new(
            "25. a copy comes back, and what it lacks is changed before it is there",
            (
                "what the copy keeps of its stale blocks by itself is no history: each snapshot is whole at it alone",
                "the disk is written, a copy goes away, the last third is trimmed, a snapshot is taken; the copy comes back and is filled slowly, and that third is \
                     trimmed again and destaged by both before it is filled; then the other copy dies",
            ),
            (of_many_regions(), 6),
            changed_before_filled,
        ),
        Scenario::new(
            "25. a bad block is repaired at a copy that has history in its log",
            (
                "what repairs a copy takes nothing from snapshots at the other one, which alone gives each of them then",
                "the disk is written over before and after a snapshot; one copy destages all, the other's capacity devices are slow; newest blocks of \
                     the first cannot be read, and are; then the first dies, and the snapshot is read",
            ),
            (Shape::plain(4).small(), 6),
            repaired_beside_history,
        ),
    ]
    .into_iter()
    .chain(going_back())
    .collect()
}

fn going_back() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "25. a disk goes back to a snapshot, and its owner dies",
            (
                "guests read nothing between the former state and the snapshot's; then each byte is the snapshot's, and later snapshots have what they had",
                "under load a disk goes back, its owner loses power at a disk operation that is drawn, and the host of another copy; then once more to a later snapshot",
            ),
            (Shape::plain(4).small(), 8),
            goes_back,
        ),
        Scenario::new(
            "25. a disk in rows goes back to a snapshot",
            ("as with copies", "as with copies, on rows of two strips of data and one of parity"),
            (Shape::plain(4).small().in_rows(2, 1), 6),
            goes_back,
        ),
        Scenario::new(
            "25. whoever has a disk go back hears no answer, and asks again",
            (
                "the disk went back for that request already: what guests wrote since stays, whoever owns it by then",
                "the owner's answer to a host without a copy is lost, the disk goes back and is written over; that host asks the owner again, or takes the disk over",
            ),
            (Shape::plain(4).small(), 8),
            asked_again,
        ),
    ]
}

const DISK: (usize, bool) = (0, false);

/// A disk whose copy is filled for so long that its last regions are changed before.
fn of_many_regions() -> Shape {
    let mut shape = Shape::plain(4);
    shape.disks[DISK.0].size_bytes = 40 << 20;
    shape
}

fn named(name: &str) -> String {
    format!("{}@{name}", Shape::disk_name(DISK.0))
}

/// Takes one that must come to be.
async fn take(stage: &Stage) -> Result<String, String> {
    for _ in 0..20 {
        if let Some(name) = stage.cluster.take_snapshot(DISK, stage.any()).await? {
            return Ok(named(&name));
        }
        stage.ms(500).await;
    }
    Err("no snapshot is taken".into())
}

async fn dies_while_taken(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let mut taken = Vec::new();
    for round in 0..6 {
        let hosts = stage.copies_of(DISK.0).await?;
        let owner = hosts[round % hosts.len()];
        stage.attach(owner).await?;
        let dies = if stage.below(2) == 0 { owner } else { hosts[(round + 1) % hosts.len()] };
        stage.ms(stage.below(300)).await;
        stage.crash_at(dies, stage.below(5));
        let asked = (owner + 1 + stage.below(stage.hosts() as u64 - 1) as usize) % stage.hosts();
        if let Some(name) = stage.cluster.take_snapshot(DISK, asked).await? {
            taken.push(named(&name));
        }
        stage.ms(stage.below(3000)).await;
        stage.host(dies).no_planned_crash();
        stage.start(dies);
        stage.healthy().await?;
        stage.cluster.check_snapshots(true).await?;
        if taken.len() > 2 {
            let goes = taken.remove(stage.below(taken.len() as u64) as usize);
            stage.cluster.delete_snapshot(stage.any(), &goes).await?;
        }
    }
    stage.rest(false).await
}

async fn away(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let before = [take(&stage).await?, take(&stage).await?];
    stage.ms(1000).await;
    let hosts = stage.copies_of(DISK.0).await?;
    let (goes, other) = (hosts[0], hosts[1]);
    stage.say(format!("h{goes} is away"));
    stage.crash(goes);
    stage.ms(3000).await;
    take(&stage).await?;
    stage.ms(1000).await;
    stage.cluster.delete_snapshot(other, &before[stage.below(2) as usize]).await?;
    take(&stage).await?;
    stage.ms(1000).await;
    stage.start(goes);
    if stage.below(2) == 0 {
        stage.ms(stage.below(800)).await;
        // While it is being filled.
        take(&stage).await?;
    }
    stage.healthy().await?;
    take(&stage).await?;
    stage.ms(500).await;
    stage.say(format!("h{other} dies"));
    stage.crash(other);
    stage.ms(3000).await;
    for at in (0..stage.hosts()).filter(|at| *at != other) {
        for name in stage.cluster.snapshots.names() {
            stage.cluster.check_snapshot(at, &name, true).await?;
        }
    }
    stage.start(other);
    stage.rest(false).await
}

async fn changed_before_filled(stage: Stage) -> Result<(), String> {
    /// Regions before it are filled first, and have data: with slow capacity devices nothing behind them is filled.
    const TRIMMED_FROM_SECTOR: u64 = (28 << 20) / 512;
    stage.ms(500).await;
    let guests = &stage.guests[DISK.0];
    guests.stop().await;
    let hosts = stage.copies_of(DISK.0).await?;
    let (goes, other) = (hosts[0], hosts[1]);
    stage.attach(other).await?;
    guests.change_all(other, false).await?;
    stage.ms(2000).await;
    stage.crash(goes);
    stage.ms(4000).await;
    guests.change_all(other, false).await?;
    guests.change_from(other, TRIMMED_FROM_SECTOR, true).await?;
    take(&stage).await?;
    // Nothing of it is read from the log.
    stage.ms(2000).await;
    let only_slow = |host: usize| {
        stage.devices_as_fast_as_ever();
        stage.capacity(host).for_each(|disk| disk.inject(Fault::Slow { times: 2000 }));
    };
    only_slow(other);
    stage.start(goes);
    let filling = |state: ComponentState| matches!(state, ComponentState::Resyncing { .. });
    stage.state_of(DISK.0, goes, filling).await?;
    guests.change_from(other, TRIMMED_FROM_SECTOR, true).await?;
    // The copy destages it first, and keeps what it had there; then the other one, which has nothing to keep.
    for slow in [other, goes] {
        only_slow(slow);
        stage.ms(2500).await;
        stage.state_of(DISK.0, goes, filling).await?;
    }
    stage.devices_as_fast_as_ever();
    stage.healthy().await?;
    stage.crash(other);
    stage.ms(4000).await;
    stage.cluster.check_snapshot(goes, &stage.cluster.snapshots.names()[0], true).await?;
    stage.start(other);
    stage.rest(false).await
}

async fn repaired_beside_history(stage: Stage) -> Result<(), String> {
    /// Of sixteen. Two in a row would be a large copy, which goes past the log to the slow devices.
    const BAD: usize = 1;
    stage.ms(500).await;
    let guests = &stage.guests[DISK.0];
    guests.stop().await;
    let hosts = stage.copies_of(DISK.0).await?;
    let (bad, other) = (hosts[0], hosts[1]);
    stage.attach(other).await?;
    guests.change_all(other, false).await?;
    stage.ms(2000).await;
    stage.say(format!("h{other} destages no more"));
    stage.capacity(other).for_each(|disk| disk.inject(Fault::Slow { times: 1_000_000 }));
    guests.change_all(other, false).await?;
    take(&stage).await?;
    guests.change_all(other, false).await?;
    stage.ms(2000).await;
    // Its memory is gone with it, so that it is asked for what stands on its devices.
    stage.crash(bad);
    stage.start(bad);
    stage.healthy().await?;
    stage.count("blocks spoiled", spoil_at(&stage.cluster, bad, BAD) as u64);
    // Its owner reads what is nearest.
    stage.attach(bad).await?;
    guests.verify_at(bad).await?;
    stage.ms(1000).await;
    let repairs = stage.cluster.repairs();
    stage.count("repairs", repairs.len() as u64);
    if repairs.is_empty() {
        return Err("nothing was repaired".into());
    }
    stage.crash(bad);
    stage.ms(4000).await;
    stage.cluster.check_snapshot(other, &stage.cluster.snapshots.names()[0], true).await?;
    stage.devices_as_fast_as_ever();
    stage.start(bad);
    stage.rest(true).await
}

async fn goes_back(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let first = take(&stage).await?;
    stage.ms(1500).await;
    let second = take(&stage).await?;
    stage.ms(1500).await;
    let hosts = stage.copies_of(DISK.0).await?;
    for (to, round) in [(&first, 0), (&second, 1)] {
        let owner = hosts[round % hosts.len()];
        stage.attach(owner).await?;
        let dies = if stage.below(3) > 0 { owner } else { hosts[(round + 1) % hosts.len()] };
        stage.crash_at(dies, stage.below(60));
        let (cluster, to) = (stage.cluster.clone(), to.clone());
        let asked = stage.any();
        let back = async move { cluster.go_back(DISK.0, &to, asked).await };
        let again = async {
            stage.ms(2500 + stage.below(2000)).await;
            stage.host(dies).no_planned_crash();
            stage.start(dies);
        };
        futures::future::join(back, again).await.0?;
        stage.ms(1000).await;
        stage.healthy().await?;
        stage.guests[0].verify_at(hosts[0]).await?;
        stage.cluster.check_snapshots(true).await?;
    }
    stage.rest(false).await
}

/// What its record says of going back: where to, none where it is there. Nothing where it never went.
fn back(config: &ObjectConfig) -> Option<Option<SnapshotId>> {
    config.past.as_ref().filter(|past| past.back_number != 0).map(|past| past.goes_back_to)
}

async fn asked_again(stage: Stage) -> Result<(), String> {
    /// Its answers are on their way for so long that they can be cut off.
    const ANSWERS_TAKE: Duration = Duration::from_millis(200);
    stage.ms(500).await;
    let guests = &stage.guests[DISK.0];
    guests.stop().await;
    let (members, owner) = (stage.hosts_of(DISK.0).await?, stage.copies_of(DISK.0).await?[0]);
    let asks = (0..stage.hosts()).find(|host| !members.contains(host)).ok_or("each host has a component")?;
    stage.attach(owner).await?;
    guests.change_all(owner, false).await?;
    let to = take(&stage).await?;
    guests.change_all(owner, false).await?;
    let (world, [from, to_asker]) = (&stage.cluster.world, [owner, asks].map(|n| stage.host(n).id()));
    world.slow_link(from, to_asker, ANSWERS_TAKE);
    let (before, at_owner) = (world.now(), || (owner..owner + 1, DISK.0));
    let meanwhile = async {
        stage.comes_to(at_owner(), "it goes back", |config| back(config).is_some()).await?;
        stage.say(format!("what h{owner} answers h{asks} is lost"));
        match stage.below(3) {
            0 => world.disconnect(from, to_asker),
            _ => world.cut_one_way(from, to_asker),
        }
        stage.comes_to(at_owner(), "it went back", |config| back(config) == Some(None)).await?;
        stage.note("the disk went back after".into(), world.now() - before);
        guests.model.borrow_mut().went_back_by_now();
        guests.change_all(owner, false).await?;
        stage.ms(stage.below(6000)).await;
        stage.heal_links();
        Ok::<_, String>(())
    };
    let (asked, done) = futures::future::join(stage.cluster.go_back(DISK.0, &to, asks), meanwhile).await;
    asked.and(done)?;
    for at in [owner, asks] {
        guests.verify_at(at).await?;
    }
    stage.rest(false).await
}
