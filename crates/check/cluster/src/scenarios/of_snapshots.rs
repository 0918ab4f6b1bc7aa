//! Stories of disks that are clones of snapshots: parents whose hosts die, owners that die while one is flattened, snapshots that are deleted
//! while a clone is made.

use std::rc::Rc;

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "25. clones are read while copies of their parent come and go",
            (
                "each clone has what its snapshot held and what was written to it, at every host; its snapshot stays",
                "two clones of a snapshot, and one of a snapshot of the first, are changed and read while hosts lose power, one at a time; the snapshot's deletion is tried",
            ),
            (Shape::plain(4).small(), 8),
            read_while_hosts_die,
        ),
        Scenario::new(
            "25. clones of a disk in rows",
            (
                "as with a parent of copies: the clone has copies, and its parent's blocks are made from other members where one is away",
                "as with copies, of a disk in rows of two strips of data and one of parity",
            ),
            (Shape::plain(4).small().in_rows(2, 1), 5),
            read_while_hosts_die,
        ),
        Scenario::new(
            "25. a clone is flattened, and its owner dies",
            (
                "whoever owns it next goes on; then it needs its parent no more, and each byte is right when that is deleted",
                "a clone is changed and flattened under changes; its owner loses power at a disk operation that is drawn, and the host of another copy; \
                     then its snapshot is deleted",
            ),
            (Shape::plain(4).small(), 8),
            flattened,
        ),
        Scenario::new(
            "25. a snapshot is deleted while a clone of it is made",
            (
                "there is the clone, and its snapshot with all that it needs; or the snapshot is gone, and no clone of it was answered",
                "a clone and the deletion are asked for at two hosts at the same time, and one of them loses power now and then",
            ),
            (Shape::plain(4).small(), 8),
            deleted_while_made,
        ),
    ]
}

const DISK: (usize, bool) = (0, false);

/// Takes one that must come to be.
async fn take(stage: &Stage) -> Result<String, String> {
    for _ in 0..20 {
        if let Some(name) = stage.cluster.take_snapshot(DISK, stage.any()).await? {
            return Ok(format!("{}@{name}", Shape::disk_name(DISK.0)));
        }
        stage.ms(500).await;
    }
    Err("no snapshot is taken".into())
}

/// Makes a clone that must come to be.
async fn clone_of(stage: &Stage, snapshot: &str) -> Result<String, String> {
    for number in 0..20 {
        let number = number + 100 * stage.cluster.clones.borrow().len() as u64;
        if let Some(name) = stage.cluster.make_clone(snapshot, stage.any(), number).await {
            return Ok(name);
        }
        stage.ms(500).await;
    }
    Err(format!("no clone of {snapshot} is made"))
}

async fn change(stage: &Stage, name: &str, times: u64) {
    let copied = Rc::clone(&stage.cluster.clones.borrow()[name]);
    for _ in 0..times {
        stage.cluster.change_clone(stage.any(), name, &copied).await;
    }
}

async fn read_while_hosts_die(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let snapshot = take(&stage).await?;
    let mut clones = vec![clone_of(&stage, &snapshot).await?, clone_of(&stage, &snapshot).await?];
    for name in &clones {
        change(&stage, name, 4).await;
    }
    let of_clone = stage.cluster.make_clone_of_clone(&clones[0], stage.any(), 500).await;
    clones.push(of_clone.ok_or("no clone of a clone is made")?);
    for _ in 0..4 {
        let dies = stage.any();
        stage.crash_at(dies, stage.below(40));
        for name in &clones {
            change(&stage, name, 2).await;
            stage.cluster.check_clone(stage.any(), name, false).await?;
        }
        stage.ms(stage.below(2500)).await;
        stage.cluster.keeps_parent(&snapshot, stage.any()).await?;
        stage.host(dies).no_planned_crash();
        stage.start(dies);
        stage.healthy().await?;
        stage.cluster.check_clones(true).await?;
    }
    stage.rest(false).await
}

async fn flattened(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let snapshot = take(&stage).await?;
    let name = clone_of(&stage, &snapshot).await?;
    change(&stage, &name, 6).await;
    let hosts = stage.copies_of_named(&name).await?;
    let owner = hosts[stage.below(hosts.len() as u64) as usize];
    stage.attach_named(&name, owner).await?;
    let dies = if stage.below(3) > 0 { owner } else { hosts[stage.below(hosts.len() as u64) as usize] };
    stage.crash_at(dies, stage.below(60));
    let flatten = async {
        for _ in 0..20 {
            stage.cluster.flatten_clone(&name, stage.any()).await?;
            if stage.cluster.is_flat(&name).await {
                return Ok(());
            }
            stage.ms(500).await;
        }
        Err(format!("{name} is not flat"))
    };
    let changes = async {
        for _ in 0..6 {
            change(&stage, &name, 1).await;
            stage.ms(stage.below(200)).await;
        }
        stage.ms(1500 + stage.below(2000)).await;
        stage.host(dies).no_planned_crash();
        stage.start(dies);
    };
    futures::future::join(flatten, changes).await.0?;
    stage.healthy().await?;
    stage.cluster.check_clones(true).await?;
    for _ in 0..20 {
        if stage.cluster.delete_snapshot(stage.any(), &snapshot).await.is_ok() {
            break;
        }
        stage.ms(500).await;
    }
    if stage.cluster.snapshots.names().contains(&snapshot) {
        return Err(format!("snapshot {snapshot} is not deleted, and has no clones"));
    }
    stage.ms(1000).await;
    stage.cluster.check_clones(true).await?;
    // What a copy lacks that was away is found when it is the only one.
    for goes in hosts {
        stage.crash(goes);
        stage.ms(4000).await;
        for at in (0..stage.hosts()).filter(|at| *at != goes) {
            stage.cluster.check_clone(at, &name, true).await?;
        }
        stage.start(goes);
        stage.ms(500).await;
        stage.cluster.wait_healthy(std::slice::from_ref(&name), crate::run::HEALTHY_WITHIN).await?;
    }
    stage.rest(false).await
}

async fn deleted_while_made(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for round in 0..6 {
        let snapshot = take(&stage).await?;
        if stage.below(2) == 0 {
            // Pinned before, without a clone by now.
            let name = clone_of(&stage, &snapshot).await?;
            stage.cluster.clones.borrow_mut().remove(&name);
            stage.cluster.delete_disk(stage.any(), &name).await.map_err(|error| error.to_string())?;
        }
        let (maker, deleter) = (stage.any(), stage.any());
        let dies = if stage.below(2) == 0 { maker } else { deleter };
        let has_death = stage.below(3) == 0;
        if has_death {
            stage.crash_at(dies, stage.below(12));
        }
        let make = stage.cluster.make_clone(&snapshot, maker, 1000 + round);
        let delete = async {
            stage.ms(stage.below(30)).await;
            stage.cluster.delete_snapshot(deleter, &snapshot).await
        };
        let (made, deleted) = futures::future::join(make, delete).await;
        stage.host(dies).no_planned_crash();
        stage.start(dies);
        stage.healthy().await?;
        if let (Some(name), Ok(())) = (&made, &deleted) {
            return Err(format!("clone {name} of {snapshot} was made, and the snapshot is deleted"));
        }
        if let Some(name) = made {
            for at in 0..stage.hosts() {
                stage.cluster.check_clone(at, &name, true).await?;
            }
        }
    }
    stage.rest(false).await
}
