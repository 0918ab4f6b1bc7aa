//! Stories of space and of names: logs that must not be pinned, devices that are full, disks that are made and deleted.

use cairn_api::{LocalManagement, v1};
use cairn_faults::{Directory, Event, What};
use cairn_node::Node;
use cairn_sim::SimEnv;

use super::{Scenario, Stage};
use crate::{
    cluster::LOG_SEGMENT_BYTES,
    inject::one,
    rest,
    shape::{DiskShape, Shape},
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    [space(), names()].into_iter().flatten().collect()
}

/// Of space, and of many disks.
fn space() -> Vec<Scenario> {
    let plain = Shape::plain;
    vec![
        Scenario::new(
            "4. an inaccessible disk does not pin the log",
            (
                "a disk group whose log also holds operations of a disk that nobody can own takes writes for ever",
                "two of the hosts of a disk die under load; another disk, that survives it, writes the log over and over",
            ),
            (two_disks(), 3),
            log_not_pinned,
        ),
        Scenario::new(
            "20. trims that an absent copy has missed",
            (
                "what was trimmed meanwhile reads as zeroes from that copy too, and its space comes back",
                "the whole disk is trimmed while a copy is away; then the other copy dies",
            ),
            (plain(3), 4),
            missed_trims,
        ),
        Scenario::new(
            "21. everything is full",
            (
                "reads, overwrites of what is reserved, trims, deletions and a take-over work, and space comes back",
                "disks with full reservation take all space; the owner dies; then they are deleted",
            ),
            (reserved(), 4),
            full,
        ),
        Scenario::new(
            "21b. a full disk that is trimmed",
            (
                "what was trimmed is room for the next writes at once",
                "a disk is written until there is no space, trimmed as a whole, and written again from its other end",
            ),
            (tight(), 3),
            trimmed_and_written_again,
        ),
        Scenario::new(
            "22. the start-up with a full log",
            (
                "a host is back in seconds, and nothing is taken for damage that was only used again",
                "destage is off until the log is nearly full; then hosts lose power one after the other",
            ),
            (large_log(), 3),
            large_log_start,
        ),
        Scenario::new(
            "23. a host of a large cluster dies with many disks",
            (
                "every disk is served again within the bound, all together",
                "24 hosts, 40 disks, two guests on each; a host dies, and another one 10 s later",
            ),
            (large_cluster(), 1),
            large_cluster_fails_over,
        ),
    ]
}

/// Of names.
fn names() -> Vec<Scenario> {
    let plain = Shape::plain;
    vec![
        Scenario::new(
            "24. deleted while two hosts were away",
            (
                "it stays deleted, and its space comes back",
                "two hosts of five die; the disk is deleted; they come back",
            ),
            (plain(5), 4),
            deleted_while_away,
        ),
        Scenario::new(
            "24. replaced and then deleted while a host was away",
            (
                "what it has of the disk goes, although nobody knows the disk any more but its deletion",
                "a host with a copy dies; the copy is replaced; the disk is deleted; the host comes back",
            ),
            (plain(5), 4),
            deleted_after_it_was_replaced,
        ),
        Scenario::new(
            "24. a deletion that the directory cuts in two",
            (
                "what was begun can be finished: the name goes too",
                "the directory goes away when the copies have gone; the disk is deleted once more",
            ),
            (plain(3), 8),
            deletion_cut_in_two,
        ),
        Scenario::new(
            "24. a crash in mid-create",
            ("no component is left over", "the maker of a disk dies some milliseconds after it was asked, ten times"),
            (plain(3), 3),
            crash_in_create,
        ),
        Scenario::new(
            "24. the directory is away, and all hosts start anew",
            (
                "disks come back from local copies, also where no copy of theirs is; nothing is cleaned up",
                "the directory is away, all four hosts lose power, and are started",
            ),
            (plain(4), 3),
            without_directory,
        ),
    ]
}

fn two_disks() -> Shape {
    let disk = |ftt| DiskShape {
        size_bytes: 2 << 20,
        ftt,
        data_strips: 0,
        stripe_width: 1,
        reservation_percent: 0,
        guests: 2,
        readers: 0,
    };
    let mut shape = Shape::plain(5);
    shape.disks = vec![disk(2), disk(1)];
    shape.disks[0].guests = 8;
    shape.pause_max_ms = 4;
    shape
}

pub(super) fn reserved() -> Shape {
    let mut shape = Shape::plain(3);
    shape.disks[0].reservation_percent = 100;
    shape
}

fn large_log() -> Shape {
    let mut shape = Shape::plain(3);
    (shape.destage_percent, shape.idle_destage_ms, shape.pause_max_ms) = (80, 0, 4);
    shape.disks[0].guests = 8;
    shape
}

pub(super) fn large_cluster() -> Shape {
    let mut shape = Shape::plain(24);
    let disk = DiskShape { guests: 2, size_bytes: 1 << 20, ..shape.disks[0].clone() };
    shape.disks = vec![disk; 40];
    shape.pause_max_ms = 300;
    shape
}

async fn log_not_pinned(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let pinned = stage.hosts_of(1).await?;
    stage.say(format!("the second disk is on {pinned:?}"));
    stage.crash(pinned[0]);
    stage.crash(pinned[1]);
    // Twice round the log.
    let bytes = 2 * 8 * LOG_SEGMENT_BYTES;
    let enough = stage.acked() + bytes / 8192;
    for _ in 0..240 {
        stage.ms(1000).await;
        if stage.acked() >= enough {
            break;
        }
    }
    if stage.acked() < enough {
        return Err(format!("P6: {} changes are missing after four minutes", enough - stage.acked()));
    }
    stage.rest(false).await
}

async fn missed_trims(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[0]).await?;
    stage.crash(copies[1]);
    stage.told(cairn_faults::Moment::Absent, 8000).await?;
    stage.guests[0].stop().await;
    stage.guests[0].trim_all(copies[0]).await?;
    stage.start(copies[1]);
    stage.told(cairn_faults::Moment::Active, 10_000).await?;
    stage.crash(copies[0]);
    stage.ms(5000).await;
    stage.guests[0].verify_at(copies[1]).await?;
    stage.start(copies[0]);
    stage.rest(false).await
}

pub(super) async fn full(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (own, owner) = (stage.clone(), stage.any());
    stage.attach(owner).await?;
    let (sender, filled) = futures::channel::oneshot::channel();
    stage.cluster.world.spawn(async move {
        let event = Event { at_ms: 0, for_ms: 25_000, what: What::Full { host: (owner + 1) % 3 } };
        one(&own.cluster, event).await;
        let _ = sender.send(());
    });
    stage.ms(8000).await;
    stage.goes_on(20, 3000).await?;
    stage.crash(owner);
    stage.ms(4000).await;
    stage.goes_on(20, 3000).await?;
    stage.guests[0].verify_at((owner + 1) % 3).await?;
    stage.start(owner);
    filled.await.map_err(|_| "the filling has ended too early".to_owned())?;
    stage.rest(false).await
}

/// Devices with room for 75 MiB beside a disk of 128, and destage that begins late: the log has much of what is trimmed.
pub(super) fn tight() -> Shape {
    let mut shape = Shape::plain(3);
    (shape.capacity_devices, shape.capacity_bytes) = (1, (1 + 22 * 4) << 20);
    (shape.destage_percent, shape.idle_destage_ms) = (50, 0);
    shape.disks[0].size_bytes = 128 << 20;
    shape
}

pub(super) async fn trimmed_and_written_again(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let at = stage.any();
    stage.attach(at).await?;
    let guests = stage.guests[0].clone();
    guests.stop().await;
    let sectors = guests.fill(at, false).await?;
    if sectors == guests.model.borrow().len_sectors() {
        return Err("the devices have room for all of the disk".to_owned());
    }
    guests.trim_all(at).await?;
    // From where nothing stood: over what was trimmed a write needs no room.
    let again = guests.fill(at, true).await?;
    stage.say(format!("{sectors} sectors fitted, {again} fit after the trim"));
    if again < sectors {
        return Err(format!("{sectors} sectors fitted, {again} fit after all was trimmed"));
    }
    stage.rest(false).await
}

async fn large_log_start(stage: Stage) -> Result<(), String> {
    stage.ms(15_000).await;
    let all: Vec<usize> = (0..stage.hosts()).collect();
    hosts_start(&stage, &all).await?;
    stage.rest(false).await
}

/// Each of these hosts in turn loses power, and has started within seconds.
pub(super) async fn hosts_start(stage: &Stage, hosts: &[usize]) -> Result<(), String> {
    for &n in hosts {
        stage.crash(n);
        stage.ms(500).await;
        stage.start(n);
        let began = stage.cluster.world.now();
        while stage.cluster.node(n).is_none() {
            stage.ms(50).await;
        }
        let took = stage.cluster.world.now() - began;
        stage.say(format!("h{n} has started after {took:?}"));
        if took.as_secs() > 10 {
            return Err(format!("h{n} took {took:?} to start with a log of 32 MiB"));
        }
        stage.healthy().await?;
    }
    Ok(())
}

pub(super) async fn large_cluster_fails_over(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    for _ in 0..2 {
        let n = stage.any();
        stage.crash(n);
        // Silence is noticed, leases end, all are taken over.
        stage.ms(8000).await;
        let before: Vec<u64> = stage.guests.iter().map(|g| g.model.borrow().acked).collect();
        stage.ms(4000).await;
        let stand = stage.guests.iter().zip(&before).filter(|(g, b)| g.model.borrow().acked <= **b).count();
        if stand > 0 {
            return Err(format!("P6: {stand} of {} disks stand still 8 s after h{n} died", before.len()));
        }
        stage.start(n);
        stage.ms(2000).await;
    }
    stage.rest(false).await
}

async fn delete(stage: &Stage, at: usize) -> Result<(), String> {
    stage.cluster.delete_disk(at, &Shape::disk_name(0)).await.map_err(|e| e.to_string())
}

async fn deleted_while_away(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let all = stage.hosts_of(0).await?;
    // One that holds something of it, and any other.
    let away = all[stage.below(all.len() as u64) as usize];
    let other = (0..5).find(|n| !all.contains(n)).expect("more hosts than components");
    stage.crash(away);
    stage.crash(other);
    stage.ms(5000).await;
    let at = (0..5).find(|n| *n != away && *n != other).expect("three are up");
    delete(&stage, at).await?;
    stage.say("deleted");
    stage.ms(2000).await;
    stage.cluster.heal_everything();
    stage.ms(3000).await;
    rest::no_orphans(&stage.cluster, &[], false).await
}

async fn deleted_after_it_was_replaced(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let all = stage.hosts_of(0).await?;
    let away = all[stage.below(all.len() as u64) as usize];
    let at = (0..5).find(|n| *n != away).expect("four are up");
    stage.crash(away);
    // It goes on without it, and then with another one.
    stage.ms(2000).await;
    stage.healthy_at(at).await?;
    if stage.hosts_of(0).await?.contains(&away) {
        return Err("what died was not replaced".into());
    }
    delete(&stage, at).await?;
    stage.say("deleted");
    stage.ms(8000).await;
    stage.cluster.heal_everything();
    stage.ms(3000).await;
    rest::no_orphans(&stage.cluster, &[], false).await
}

async fn deletion_cut_in_two(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let at = stage.any();
    let slow = What::Directory { how: Directory::Slow { by_ms: 20 }, hosts: vec![at] };
    let own = stage.clone();
    stage.cluster.world.spawn(async move { one(&own.cluster, Event { at_ms: 0, for_ms: 2000, what: slow }).await });
    let own = stage.clone();
    let cut_after = stage.below(120);
    stage.cluster.world.spawn(async move {
        own.ms(cut_after).await;
        own.say("the directory is away");
        own.cluster.members[at].gate.set_shut(true);
    });
    if let Err(why) = delete(&stage, at).await {
        stage.say(format!("not deleted: {why}"));
    }
    stage.ms(2500).await;
    (0..3).for_each(|n| stage.host(n).kill());
    stage.cluster.heal_everything();
    stage.ms(4000).await;
    match stage.cluster.delete_disk((at + 1) % 3, &Shape::disk_name(0)).await {
        Err(error) if error.kind != cairn_api::ApiErrorKind::NotFound => {
            return Err(format!("the name stays: {error}"));
        }
        _ => {}
    }
    rest::no_orphans(&stage.cluster, &[], false).await
}

async fn crash_in_create(stage: Stage) -> Result<(), String> {
    for round in 0..10 {
        let at = stage.any();
        let name = format!("extra-{round}");
        stage.cluster.extra_disks.borrow_mut().insert(name.clone());
        let own = stage.clone();
        stage.cluster.world.spawn(async move {
            let Some(node) = own.cluster.node(at) else { return };
            let request = v1::DiskCreate {
                name,
                size_bytes: 1 << 20,
                policy: None,
                host: None,
                limits: v1::DiskLimits::default(),
            };
            let create = async move { node.disk_create(request).await.map(drop) };
            // The answer may go with the process.
            let _ = own.cluster.run_on(at, std::time::Duration::from_secs(10), create).await;
        });
        stage.ms(stage.below(25)).await;
        stage.crash(at);
        stage.ms(500).await;
        stage.start(at);
        stage.ms(1500).await;
    }
    // Intents run out: what was begun is finished or undone, and every name can be used.
    stage.ms(140_000).await;
    for round in 0..10 {
        let name = format!("extra-{round}");
        match stage.cluster.create_disk(stage.any(), &name, 1 << 20, None).await {
            Ok(_) => {}
            Err(error) if error.kind == cairn_api::ApiErrorKind::Conflict => {
                let show = async move |node: Node<SimEnv>| node.disk_show(name).await;
                let shown =
                    stage.cluster.manage(0, show).await.map_err(|e| format!("a name is taken for ever: {e}"))?;
                stage.say(format!("extra-{round} is there, {:?}", shown.summary.health));
            }
            Err(error) => return Err(format!("extra-{round} cannot be made: {error}")),
        }
    }
    stage.rest(false).await
}

async fn without_directory(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.say("the directory is away, all hosts lose power");
    for member in stage.cluster.members.iter() {
        member.gate.set_shut(true);
    }
    (0..4).for_each(|n| stage.crash(n));
    stage.ms(1000).await;
    (0..4).for_each(|n| stage.start(n));
    stage.ms(20_000).await;
    stage.goes_on(20, 5000).await?;
    stage.guests[0].verify_everywhere().await?;
    stage.rest(false).await
}
