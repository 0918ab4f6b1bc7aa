//! Stories of slow devices: they answer, and everybody waits for them.

use std::{collections::BTreeSet, time::Duration};

use cairn_api::{
    LocalManagement as _,
    v1::{self, SlowGroupState},
};
use cairn_sim::Fault;

use super::{Scenario, Stage};
use crate::shape::{DiskShape, Shape};

/// How long it may take until a slow device is named: that is promised.
const NAMED_WITHIN_MS: u64 = 60_000;
/// How long disk groups as small as these may take to be emptied, once it is begun.
const EMPTIED_WITHIN_MS: u64 = 60_000;
/// How slow: the lowest times of these devices are 60 us, so that 20 times are above the least that is told.
const TIMES: u32 = 50;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "32. a slow device is named, and its disk group emptied",
            (
                "it is named within a minute and nobody else is; nothing is left on its group, no guest meets an error, and the disks are healthy without it",
                "under load the cache device, or all devices, of a host take 50 times as long; nobody does anything; the host then loses power for good",
            ),
            (busy(6), 6),
            emptied,
        ),
        Scenario::new(
            "32. a second slow device waits for its turn",
            (
                "one disk group is emptied at a time, the second one when nothing is left on the first",
                "under load the devices of two hosts of seven take 50 times as long at the same moment",
            ),
            (busy(7), 6),
            take_turns,
        ),
        Scenario::new(
            "32. where all devices are slow none is emptied",
            (
                "nobody is named and nothing moves",
                "under load all devices of all hosts take 50 times as long for two minutes",
            ),
            (busy(5), 3),
            all_slow,
        ),
        Scenario::new(
            "32. a slow device is left where it is while a host is down",
            (
                "it is named, and says what is waited for; nothing is moved before the host is back, then all is",
                "a host that holds a part of a disk loses power, and another one's devices take 50 times as long; it starts two minutes later",
            ),
            (busy(6), 4),
            waits_for_a_host,
        ),
        Scenario::new(
            "32. what an administrator takes into use again is left alone",
            (
                "a group that was emptied takes components again and is not emptied again, slow as it is, until that is asked for",
                "a slow group is emptied under load, taken into use again, filled by an evacuation of another host, and watched for two minutes",
            ),
            (busy(5), 3),
            called_off,
        ),
    ]
}

/// Disks enough that all hosts have something to do.
fn busy(hosts: usize) -> Shape {
    let plain = Shape::plain(hosts);
    let disk = DiskShape { size_bytes: 2 << 20, guests: 2, ..plain.disks[0].clone() };
    Shape { disks: vec![disk; hosts], ..plain }
}

/// Moves copies until all hosts have some: disks that are made at the same moment find the same hosts. Then a while of load.
async fn spread(stage: &Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let mut copies = vec![0; stage.hosts()];
    for disk in 0..stage.hosts() {
        stage.copies_of(disk).await?.into_iter().for_each(|n| copies[n] += 1);
    }
    for disk in 0..stage.hosts() {
        let (there, all) = (stage.copies_of(disk).await?, stage.hosts_of(disk).await?);
        let from = there.into_iter().max_by_key(|n| copies[*n]).ok_or("no copy")?;
        let to = (0..stage.hosts()).filter(|n| !all.contains(n)).min_by_key(|n| copies[*n]).ok_or("no host is free")?;
        if copies[from] > copies[to] + 1 {
            stage.cluster.move_disk(disk, from, Some(to)).await?;
            (copies[from], copies[to]) = (copies[from] - 1, copies[to] + 1);
        }
    }
    stage.ms(12_000).await;
    Ok(())
}

/// The disk groups, as a host that is up tells of them.
async fn groups(stage: &Stage) -> Result<Vec<v1::DiskGroup>, String> {
    let up = (0..stage.hosts()).find(|n| stage.cluster.node(*n).is_some()).ok_or("all hosts are down")?;
    let told = stage.cluster.manage(up, async move |node| node.disk_group_list().await).await;
    told.map_err(|error| error.to_string())
}

fn has_slow(group: &v1::DiskGroup) -> bool {
    group.cache.iter().chain(&group.devices).any(|device| device.slow.is_some())
}

fn state(group: &v1::DiskGroup) -> Option<SlowGroupState> {
    group.slow.as_ref().map(|slow| slow.state)
}

/// Waits until what hosts tell of their groups is so; how long it took.
async fn until(
    stage: &Stage,
    what: &str,
    within_ms: u64,
    mut holds: impl FnMut(&[v1::DiskGroup]) -> Result<bool, String>,
) -> Result<Duration, String> {
    let (mut last, began) = (Vec::new(), stage.cluster.world.now());
    for _ in 0..within_ms / 250 {
        if let Ok(all) = groups(stage).await {
            if holds(&all)? {
                return Ok(stage.cluster.world.now() - began);
            }
            last = all;
        }
        stage.ms(250).await;
    }
    let told: Vec<_> = last.iter().map(|group| (&group.host_name, group.components, &group.slow)).collect();
    Err(format!("{what} within {within_ms} ms: {told:?}"))
}

/// Nobody but these hosts has a slow device.
fn only(stage: &Stage, all: &[v1::DiskGroup], slow: &[usize]) -> Result<(), String> {
    let other = all.iter().find(|group| has_slow(group) && !slow.contains(&stage.number(group.host)));
    other.map_or(Ok(()), |group| Err(format!("{} is named, and is as fast as ever", group.host_name)))
}

async fn emptied(stage: Stage) -> Result<(), String> {
    spread(&stage).await?;
    let slow = stage.copies_of(0).await?[0];
    if stage.below(2) == 0 {
        stage.say(format!("the cache device of h{slow} is slow"));
        stage.host(slow).disk(&Shape::device_name(0, None)).inject(Fault::Slow { times: TIMES });
    } else {
        stage.say(format!("all devices of h{slow} are slow"));
        stage.slow(slow, TIMES);
    }
    let named = until(&stage, "a slow device is not named", NAMED_WITHIN_MS, |all| {
        only(&stage, all, &[slow])?;
        Ok(all.iter().any(has_slow))
    });
    stage.note("a slow device until it is named".into(), named.await?);
    let gone = until(&stage, "a slow disk group is not emptied", EMPTIED_WITHIN_MS, |all| {
        only(&stage, all, &[slow])?;
        Ok(all.iter().any(|group| state(group) == Some(SlowGroupState::Emptied)))
    });
    gone.await?;
    for disk in 0..stage.hosts() {
        if stage.hosts_of(disk).await?.contains(&slow) {
            return Err(format!("h{slow} was emptied and holds a part of disk {disk}"));
        }
    }
    stage.goes_on(5, 1000).await?;
    stage.crash(slow);
    stage.ms(3000).await;
    stage.healthy_at((slow + 1) % stage.hosts()).await?;
    stage.goes_on(5, 3000).await?;
    stage.start(slow);
    stage.ms(3000).await;
    let still = groups(&stage).await?;
    if !still.iter().any(|group| state(group) == Some(SlowGroupState::Emptied)) {
        return Err("a start took the group into use again".into());
    }
    stage.rest(false).await
}

async fn take_turns(stage: Stage) -> Result<(), String> {
    spread(&stage).await?;
    let slow = stage.copies_of(0).await?;
    slow.iter().for_each(|n| stage.slow(*n, TIMES));
    stage.say(format!("devices of {slow:?} are slow"));
    let (mut begun, mut empty) = (BTreeSet::new(), BTreeSet::new());
    let both = until(&stage, "two slow disk groups are not emptied", NAMED_WITHIN_MS + 2 * EMPTIED_WITHIN_MS, |all| {
        only(&stage, all, &slow)?;
        let of = |wanted| all.iter().filter(move |group| state(group) == Some(wanted)).map(|group| group.id);
        begun.extend(of(SlowGroupState::Emptying));
        empty.extend(of(SlowGroupState::Emptied));
        let at_once: Vec<_> = of(SlowGroupState::Emptying).collect();
        match at_once.len() > 1 {
            true => Err(format!("{at_once:?} are emptied at once")),
            false => Ok(empty.len() == 2),
        }
    });
    stage.note("two slow devices until both groups are empty".into(), both.await?);
    stage.goes_on(5, 1000).await?;
    stage.rest(false).await
}

async fn all_slow(stage: Stage) -> Result<(), String> {
    spread(&stage).await?;
    (0..stage.hosts()).for_each(|n| stage.slow(n, TIMES));
    stage.say("all devices are slow");
    for _ in 0..240 {
        stage.ms(500).await;
        let all = groups(&stage).await?;
        if let Some(named) = all.iter().find(|group| has_slow(group) || group.draining) {
            return Err(format!("{named:?}: all are slow"));
        }
    }
    stage.rest(false).await
}

async fn waits_for_a_host(stage: Stage) -> Result<(), String> {
    spread(&stage).await?;
    let copies = stage.copies_of(0).await?;
    let (down, slow) = (copies[0], copies[1]);
    stage.crash(down);
    stage.slow(slow, TIMES);
    stage.say(format!("devices of h{slow} are slow"));
    until(&stage, "a slow device is not named", NAMED_WITHIN_MS, |all| Ok(all.iter().any(has_slow))).await?;
    for _ in 0..40 {
        stage.ms(250).await;
        let all = groups(&stage).await?;
        if let Some(moved) = all.iter().find(|group| group.draining) {
            return Err(format!("{moved:?} is emptied while h{down} is down"));
        }
    }
    let all = groups(&stage).await?;
    let told = all.iter().filter_map(|group| group.slow.as_ref()).any(|slow| slow.text.contains("is down"));
    if !told {
        return Err(format!("nobody says what is waited for: {all:?}"));
    }
    stage.start(down);
    until(&stage, "a slow disk group is not emptied", NAMED_WITHIN_MS + EMPTIED_WITHIN_MS, |all| {
        Ok(all.iter().any(|group| state(group) == Some(SlowGroupState::Emptied)))
    })
    .await?;
    stage.rest(false).await
}

async fn called_off(stage: Stage) -> Result<(), String> {
    spread(&stage).await?;
    let slow = stage.copies_of(0).await?[0];
    stage.slow(slow, TIMES);
    until(&stage, "a slow disk group is not emptied", NAMED_WITHIN_MS + EMPTIED_WITHIN_MS, |all| {
        Ok(all.iter().any(|group| state(group) == Some(SlowGroupState::Emptied)))
    })
    .await?;
    let id = stage.cluster.group_id(slow, 0).ok_or("no disk group")?;
    stage.cluster.drain(id, v1::DiskGroupDrain::default()).await?;
    let other = stage.copies_of(0).await?[0];
    let enter = v1::HostMaintenance {
        enter: true,
        mode: Some(cairn_types::MaintenanceMode::FullEvacuation),
        ..v1::HostMaintenance::default()
    };
    stage.cluster.maintenance(other, enter).await?;
    until(&stage, "nothing is placed on it again", EMPTIED_WITHIN_MS, |all| {
        Ok(all.iter().any(|group| group.id == id && group.components > Some(0)))
    })
    .await?;
    stage.cluster.maintenance(other, v1::HostMaintenance::default()).await?;
    for _ in 0..240 {
        stage.ms(500).await;
        let all = groups(&stage).await?;
        if let Some(again) = all.iter().find(|group| group.draining) {
            return Err(format!("{again:?} is emptied again"));
        }
    }
    let again = v1::ClusterSettingsPatch {
        slow_devices: Some(cairn_types::SlowDevices::Evacuate),
        ..v1::ClusterSettingsPatch::default()
    };
    let set = stage.cluster.manage(0, async move |node| node.cluster_settings_set(again).await).await;
    set.map_err(|error| error.to_string())?;
    until(&stage, "it is not emptied again", NAMED_WITHIN_MS + EMPTIED_WITHIN_MS, |all| {
        Ok(all.iter().any(|group| state(group) == Some(SlowGroupState::Emptied)))
    })
    .await?;
    stage.rest(false).await
}
