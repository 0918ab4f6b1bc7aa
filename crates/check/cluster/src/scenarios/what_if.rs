//! Stories of answers before the act: what is told of a loss, of maintenance, of a policy, of growth, and what then comes.
//!
//! Each tells names of disks, which are to be the same, and bytes, which are to be so within a twentieth.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_api::{LocalManagement as _, v1};
use cairn_object::LocalStore as _;
use cairn_sim::Fault;
use cairn_sizing::{Pool, Protection};
use cairn_types::{BLOCK_BYTES, ComponentId, MaintenanceMode};
use cairn_volume::Volume as _;

use super::{Scenario, Stage, conversions::is_met};
use crate::shape::{REPAIR_DELAY_MS, Shape};

/// How long everything that is begun may take, the repair delay included.
const DONE_WITHIN: Duration = Duration::from_secs(120);
/// Until every host knows that another one is silent, or that a device is gone.
const SEEN_AFTER_MS: u64 = 8000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let losses = vec![
        told(
            "33. what if a host were lost",
            "six mirrors on five hosts; the host of two copies or more loses power for good",
            (disks(5, &[1; 6]), a_host_is_lost),
        ),
        told(
            "33. what if a host were lost that has the only copy",
            "disks of one copy and of two; the host of the first one's copy loses power for good",
            (disks(5, &[0, 0, 1, 1, 1, 0]), a_host_is_lost),
        ),
        told(
            "33. what if a host were lost under disks that survive two",
            "disks of three copies on seven hosts; the host of the first one's copy loses power for good",
            (disks(7, &[2; 4]), a_host_is_lost),
        ),
        told(
            "33. what if one of three hosts were lost",
            "mirrors on three hosts; one loses power for good, and nothing has a place elsewhere",
            (disks(3, &[1; 4]), a_host_is_lost),
        ),
        told(
            "33. what if a second host were lost",
            "one host of five is silent; another one goes, too: some disks lose their majority until a host returns",
            (disks(5, &[1; 6]), a_second_host_is_lost),
        ),
        told(
            "33. what if a disk group were lost",
            "hosts of two disk groups; all devices of one are gone",
            (Shape { groups: 2, ..disks(4, &[1; 6]) }, a_group_is_lost),
        ),
        told(
            "33. what if a capacity device were lost",
            "disk groups of two capacity devices; one is gone",
            (disks(5, &[1; 8]), a_device_is_lost),
        ),
    ];
    losses.into_iter().chain(acts()).chain(layouts()).collect()
}

fn acts() -> Vec<Scenario> {
    vec![
        told(
            "33. what if a host were emptied",
            "full evacuation is asked about, then done",
            (disks(5, &[1; 6]), |stage| emptied(stage, MaintenanceMode::FullEvacuation)),
        ),
        told(
            "33. what if only what must goes",
            "disks of one copy and of two; maintenance that keeps disks served is asked about, then entered",
            (disks(5, &[0, 0, 1, 1, 0]), |stage| emptied(stage, MaintenanceMode::EnsureAccessibility)),
        ),
        told(
            "33. what if a disk got another copy",
            "FTT 1 to 2 on seven hosts is asked about, then set",
            (disks(7, &[1; 2]), another_copy),
        ),
        told(
            "33. what if a host came",
            "three of four hosts are two thirds full, the fourth was kept empty; it is taken into use",
            (full(), a_host_comes),
        ),
        told(
            "33. what if a host came in the place of a dead one",
            "one of three hosts is dead, and a fourth is kept empty; it is taken into use",
            (disks(4, &[1; 4]), a_host_replaces),
        ),
    ]
}

fn layouts() -> Vec<Scenario> {
    vec![
        told(
            "33. what if a disk were laid out anew",
            "a disk of three chunks goes from copies to 3+1, 4+2 and back; the space that it takes is asked about, then looked at all the time",
            (in_chunks(7), laid_out_anew),
        ),
        Scenario::new(
            "33. disks take what their policies say",
            (
                "to the byte, as `cairn bench calc capacity` works it out",
                "two and three copies, 2+1, 3+1 and 4+2, written whole",
            ),
            (of_all_methods(), 2),
            as_policies_say,
        ),
    ]
}

fn told<F: Future<Output = Result<(), String>> + 'static>(
    name: &'static str,
    method: &'static str,
    (shape, story): (Shape, impl Fn(Stage) -> F + Send + Sync + 'static),
) -> Scenario {
    let goal = "the disks are those that were told, and the bytes within a twentieth";
    Scenario::new(name, (goal, method), (shape, 2), story)
}

/// Disks of these failures to tolerate, each of 8 MiB.
fn disks(hosts: usize, ftts: &[u8]) -> Shape {
    let mut shape = Shape::plain(hosts);
    let mut disk = shape.disks[0].clone();
    (disk.size_bytes, disk.guests) = (8 << 20, 1);
    shape.disks = ftts.iter().map(|ftt| crate::shape::DiskShape { ftt: *ftt, ..disk.clone() }).collect();
    shape
}

/// A disk of three chunks.
fn in_chunks(hosts: usize) -> Shape {
    let mut shape = disks(hosts, &[1]).of_small_chunks(4);
    shape.disks[0].size_bytes = 12 << 20;
    shape
}

/// One disk of each method. Whole rows of each fit.
fn of_all_methods() -> Shape {
    let mut shape = disks(7, &[1, 2, 1, 1, 2]);
    for (disk, data_strips) in shape.disks.iter_mut().zip([0, 0, 2, 3, 4]) {
        (disk.size_bytes, disk.data_strips) = (3 << 20, data_strips);
    }
    shape
}

/// Disks that fill three hosts' devices to about two thirds. Hosts decide side by side or one after the other, as it happens: each gives one
/// component, and no two are near the points from which on components move, before or after.
fn full() -> Shape {
    let mut shape = disks(4, &[1; 9]);
    shape.disks.iter_mut().for_each(|disk| disk.size_bytes = 9 << 20);
    (shape.capacity_devices, shape.capacity_bytes) = (1, (1 + 24 * 4) << 20);
    (shape.destage_percent, shape.idle_destage_ms) = (20, 500);
    shape
}

/// All disks are written whole, and nobody writes any more.
async fn fill(stage: &Stage, hosts: usize) -> Result<(), String> {
    for (disk, guests) in stage.guests.iter().enumerate() {
        guests.stop().await;
        stage.attach_disk(disk, disk % hosts).await?;
        guests.fill(disk % hosts, false).await?;
    }
    stage.ms(3000).await;
    Ok(())
}

/// What the components on all hosts that are up hold.
fn held(stage: &Stage) -> BTreeMap<ComponentId, u64> {
    let stores = (0..stage.hosts()).filter_map(|n| stage.cluster.node(n)).flat_map(|node| node.stores());
    let components = stores.flat_map(|store| store.group().components()).filter(|c| c.size_blocks > 0 && !c.lost);
    components.map(|c| (c.id, c.allocated_blocks * u64::from(BLOCK_BYTES))).collect()
}

/// What components hold that were not there before.
fn new_bytes(stage: &Stage, before: &BTreeMap<ComponentId, u64>) -> u64 {
    held(stage).iter().filter(|(id, _)| !before.contains_key(id)).map(|(_, bytes)| bytes).sum()
}

/// Disks of that health, as a host that is up lists them.
async fn of_health(stage: &Stage, asked: usize, health: v1::DiskHealth) -> Result<BTreeSet<String>, String> {
    let disks = stage.cluster.manage(asked, async move |node| node.disk_list().await).await;
    let disks = disks.map_err(|error| error.to_string())?;
    Ok(disks.into_iter().filter(|disk| disk.health == health).map(|disk| disk.name).collect())
}

fn names(told: &[String]) -> BTreeSet<String> {
    // Some are told with why: "disk NAME: ...".
    let name = |told: &String| {
        let name = told.strip_prefix("disk ").and_then(|rest| rest.split(':').next());
        name.unwrap_or(told).to_owned()
    };
    told.iter().map(name).collect()
}

fn same(what: &str, told: BTreeSet<String>, came: &BTreeSet<String>) -> Result<(), String> {
    match told == *came {
        true => Ok(()),
        false => Err(format!("{what}: {told:?} were told, {came:?} came")),
    }
}

fn near(what: &str, told: Option<u64>, came: u64) -> Result<(), String> {
    match told {
        Some(told) if told.abs_diff(came) * 20 <= came => Ok(()),
        _ => Err(format!("{what}: {told:?} bytes were told, {came} came")),
    }
}

async fn ask_loss(stage: &Stage, asked: usize, lost: v1::WhatIfLost) -> Result<v1::WhatIf, String> {
    let told = stage.cluster.manage(asked, async move |node| node.what_if_lost(lost).await).await;
    let told = told.map_err(|error| error.to_string())?;
    stage.say(format!("{told:?}"));
    Ok(told)
}

/// What was told of a loss is compared with what came of it, once when it is seen and once when all is rebuilt that can be.
async fn loss_came(
    stage: &Stage,
    asked: usize,
    told: &v1::WhatIf,
    before: &BTreeMap<ComponentId, u64>,
) -> Result<(), String> {
    stage.ms(SEEN_AFTER_MS).await;
    let not_served = names(&[&told.lost[..], &told.inaccessible[..]].concat());
    ask_in_vain(stage, &not_served).await;
    let gone = of_health(stage, asked, v1::DiskHealth::Inaccessible).await?;
    same("not served", not_served, &gone)?;
    let began = stage.cluster.world.now();
    let took = || stage.cluster.world.now() - began;
    let waits = names(&told.not_rebuilt);
    let mut reduced = of_health(stage, asked, v1::DiskHealth::ReducedRedundancy).await?;
    // What has no place is as it was before the repair delay is over.
    while took() < Duration::from_millis(REPAIR_DELAY_MS) || (reduced != waits && took() < DONE_WITHIN) {
        stage.ms(1000).await;
        reduced = of_health(stage, asked, v1::DiskHealth::ReducedRedundancy).await?;
    }
    same("without a place elsewhere", waits, &reduced)?;
    stage.ms(3000).await;
    near("rebuilt", told.rebuilt_bytes, new_bytes(stage, before))
}

/// An owner that nobody asks anything does not find out that nothing is left of its disk: the guests of each ask once more.
async fn ask_in_vain(stage: &Stage, disks: &BTreeSet<String>) {
    for (disk, name) in stage.disks().into_iter().enumerate().filter(|(_, name)| disks.contains(name)) {
        let at = disk % stage.hosts();
        if stage.host(at).is_up()
            && let Some(client) = stage.cluster.client(at, &name).await
        {
            let _ = stage.cluster.run_on(at, Duration::from_secs(8), client.read(0, 4096)).await;
        }
    }
}

async fn a_host_is_lost(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let lost = stage.copies_of(0).await?[0];
    let asked = (lost + 1) % stage.hosts();
    let host = Some(stage.host(lost).spoken_id().to_string());
    let told = ask_loss(&stage, asked, v1::WhatIfLost { host, ..v1::WhatIfLost::default() }).await?;
    let mut on_it = BTreeSet::new();
    for (disk, name) in stage.disks().into_iter().enumerate() {
        if stage.hosts_of(disk).await?.contains(&lost) {
            on_it.insert(name);
        }
    }
    let all = [&told.reduced[..], &told.lost[..], &told.inaccessible[..]].concat();
    same("with something there", names(&all), &on_it)?;
    let before = held(&stage);
    stage.crash(lost);
    loss_came(&stage, asked, &told, &before).await?;
    stage.rest(false).await
}

async fn a_second_host_is_lost(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let copies = stage.copies_of(0).await?;
    let asked = (0..stage.hosts()).find(|n| !copies.contains(n)).ok_or("a host without a copy")?;
    stage.crash(copies[0]);
    stage.ms(SEEN_AFTER_MS).await;
    let host = Some(stage.host(copies[1]).spoken_id().to_string());
    let told = ask_loss(&stage, asked, v1::WhatIfLost { host, ..v1::WhatIfLost::default() }).await?;
    let told = names(&[&told.lost[..], &told.inaccessible[..]].concat());
    if !told.contains(&Shape::disk_name(0)) {
        return Err(format!("both copies of the first disk are on these two: {told:?}"));
    }
    stage.crash(copies[1]);
    stage.ms(SEEN_AFTER_MS).await;
    ask_in_vain(&stage, &told).await;
    let gone = of_health(&stage, asked, v1::DiskHealth::Inaccessible).await?;
    same("not served", told, &gone)?;
    stage.rest(false).await
}

async fn a_group_is_lost(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let lost = stage.copies_of(0).await?[0];
    let asked = (lost + 1) % stage.hosts();
    let config = stage.config(0).await?;
    let seat =
        config.members.iter().find(|m| m.set().is_some() && stage.number(m.host) == lost).ok_or("a copy")?.seat();
    let request = v1::WhatIfLost { disk_group: Some(seat.disk_group), ..v1::WhatIfLost::default() };
    let told = ask_loss(&stage, asked, request).await?;
    let before = held(&stage);
    let shown = stage.cluster.manage(asked, async move |node| node.disk_group_show(seat.disk_group).await).await;
    let shown = shown.map_err(|error| error.to_string())?;
    for device in shown.devices {
        let names = stage.host(lost).disk_names();
        let name = names.iter().find(|name| device.path.ends_with(*name)).ok_or("its device")?;
        stage.host(lost).disk(name).inject(Fault::Gone);
    }
    loss_came(&stage, asked, &told, &before).await?;
    stage.rest(true).await
}

async fn a_device_is_lost(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let lost = stage.copies_of(0).await?[0];
    let asked = (lost + 1) % stage.hosts();
    let disk_group = stage.cluster.group_id(lost, 0).ok_or("a disk group")?;
    let shown = stage.cluster.manage(asked, async move |node| node.disk_group_show(disk_group).await).await;
    let shown = shown.map_err(|error| error.to_string())?;
    let name = Shape::device_name(0, Some(0));
    let device = shown.devices.iter().find(|device| device.path.ends_with(&name)).ok_or("its device")?;
    let request =
        v1::WhatIfLost { disk_group: Some(disk_group), device: Some(device.path.clone()), ..v1::WhatIfLost::default() };
    let told = ask_loss(&stage, asked, request).await?;
    let before = held(&stage);
    stage.host(lost).disk(&name).inject(Fault::Gone);
    loss_came(&stage, asked, &told, &before).await?;
    stage.rest(true).await
}

async fn emptied(stage: Stage, mode: MaintenanceMode) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let host = stage.copies_of(0).await?[0];
    let enter = v1::HostMaintenance { enter: true, mode: Some(mode), force: false, dry_run: true };
    let told = stage.cluster.maintenance(host, enter.clone()).await?;
    stage.say(format!("{told:?}"));
    let mut on_it = 0;
    for disk in 0..stage.guests.len() {
        on_it += u32::from(stage.hosts_of(disk).await?.contains(&host));
    }
    if told.disks != on_it || !told.obstacles.is_empty() || told.bytes_left == 0 {
        return Err(format!("{on_it} disks are there: {told:?}"));
    }
    let before = held(&stage);
    stage.cluster.maintenance(host, v1::HostMaintenance { dry_run: false, ..enter }).await?;
    let until = stage.cluster.world.now() + DONE_WITHIN;
    while stage.cluster.maintenance_of(host).await?.state != v1::MaintenanceState::In {
        if stage.cluster.world.now() > until {
            return Err("the host is not emptied".into());
        }
        stage.ms(500).await;
    }
    near("moved", Some(told.bytes_left), new_bytes(&stage, &before))?;
    stage.cluster.maintenance(host, v1::HostMaintenance::default()).await?;
    stage.rest(false).await
}

async fn another_copy(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let (name, policy) = (Shape::disk_name(0), "one-more".to_owned());
    let rules = v1::PolicyRules { ftt: 2, ..stage.cluster.shape.disks[0].rules() };
    let request = v1::PolicyCreate { name: policy.clone(), rules };
    let made = stage.cluster.manage(0, async move |node| node.policy_create(request).await).await;
    made.map_err(|error| error.to_string())?;
    let set = async |dry_run: bool| {
        let (name, request) = (name.clone(), v1::DiskPolicySet { policy: policy.clone(), dry_run, force: false });
        let set = stage.cluster.manage(0, async move |node| node.disk_policy_set(name, request).await).await;
        set.map_err(|error| error.to_string())
    };
    let told = set(true).await?;
    stage.say(format!("{told:?}"));
    let before = held(&stage);
    set(false).await?;
    stage.ms(500).await;
    stage.healthy().await?;
    stage.ms(2000).await;
    near("copied", told.bytes_to_copy, new_bytes(&stage, &before))?;
    stage.rest(false).await
}

async fn laid_out_anew(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let rows = |data_strips, ftt| v1::PolicyRules {
        ftm: v1::RulesMethod::ErasureCoding,
        data_strips,
        ftt,
        ..v1::PolicyRules::default()
    };
    for (n, rules) in [rows(3, 1), rows(4, 2), v1::PolicyRules::default()].into_iter().enumerate() {
        let told = stage.cluster.set_rules(0, 0, &format!("layout-{n}"), rules).await?;
        stage.say(format!("{told:?}"));
        let mut peak = 0;
        let mut looks = DONE_WITHIN.as_millis() / 5;
        while !is_met(&stage.config(0).await?) {
            looks = looks.checked_sub(1).ok_or("the layout is not reached")?;
            peak = peak.max(held(&stage).values().sum());
            stage.ms(5).await;
        }
        // What went is given back.
        stage.ms(2000).await;
        near("taken at most", told.bytes_peak, peak)?;
        near("taken then", told.bytes_after, held(&stage).values().sum())?;
    }
    stage.rest(false).await
}

async fn as_policies_say(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    fill(&stage, stage.hosts()).await?;
    let held = held(&stage);
    for disk in 0..stage.guests.len() {
        let config = stage.config(disk).await?;
        let name = Shape::disk_name(disk);
        let shown = stage.cluster.manage(0, async move |node| node.disk_show(name).await).await;
        let shown = shown.map_err(|e| e.to_string())?.allocated_bytes;
        let holds: u64 = config.members.iter().filter_map(|m| held.get(&m.component)).sum();
        let protection = Protection::of(&config.policy).map_err(|e| e.text)?;
        let asked = Pool::of(protection).raw(config.size_bytes).map_err(|e| e.text)?.raw_bytes;
        stage.say(format!("{}: {} bytes take {holds}", protection.describe(), config.size_bytes));
        if (holds, shown) != (asked, Some(asked)) {
            return Err(format!(
                "{}: {asked} were worked out, {shown:?} are shown, {holds} held",
                protection.describe()
            ));
        }
    }
    stage.rest(false).await
}

/// The last host is kept empty, then written are the disks on the others.
async fn keep_last_empty(stage: &Stage) -> Result<usize, String> {
    stage.ms(1000).await;
    let last = stage.hosts() - 1;
    let mode = Some(MaintenanceMode::FullEvacuation);
    let enter = v1::HostMaintenance { enter: true, mode, ..v1::HostMaintenance::default() };
    stage.cluster.maintenance(last, enter).await?;
    stage.ms(8000).await;
    fill(stage, last).await?;
    // What is in a log yet takes no room on capacity devices.
    let request = v1::CacheClear { host: None, disk_group: None, wait_s: 60 };
    let cleared = stage.cluster.manage(0, async move |node| node.caches_clear(request).await).await;
    cleared.map_err(|error| error.to_string())?;
    stage.ms(10_000).await;
    Ok(last)
}

async fn ask_growth(stage: &Stage, like: usize) -> Result<v1::Growth, String> {
    let stores = stage.cluster.node(like).map(|node| node.stores()).unwrap_or_default();
    let devices = stage.cluster.shape.capacity_devices;
    let total: u64 = stores.iter().map(|store| store.summary().total_bytes()).sum();
    let growth = v1::WhatIfGrowth {
        hosts: Some(1),
        devices: Some(devices as u8),
        disk_group: None,
        device_bytes: total / devices as u64,
    };
    let told = stage.cluster.manage(0, async move |node| node.what_if_growth(growth).await).await;
    let told = told.map_err(|error| error.to_string())?;
    stage.say(format!("{told:?}"));
    Ok(told)
}

async fn a_host_comes(stage: Stage) -> Result<(), String> {
    let comes = keep_last_empty(&stage).await?;
    let told = ask_growth(&stage, comes).await?;
    if told.moved_components == 0 || !told.completed.is_empty() {
        return Err(format!("nothing would move: {told:?}"));
    }
    let before = held(&stage);
    stage.cluster.maintenance(comes, v1::HostMaintenance::default()).await?;
    let (mut last, mut same_for) = (0, 0);
    while same_for < 60 {
        stage.ms(1000).await;
        let now = new_bytes(&stage, &before);
        same_for = if now == last { same_for + 1 } else { 0 };
        last = now;
    }
    near("moved by rebalancing", told.moved_bytes, last)?;
    stage.rest(false).await
}

async fn a_host_replaces(stage: Stage) -> Result<(), String> {
    let comes = keep_last_empty(&stage).await?;
    let dead = stage.copies_of(0).await?.into_iter().find(|n| *n != 0).ok_or("a copy elsewhere")?;
    stage.crash(dead);
    stage.ms(REPAIR_DELAY_MS + SEEN_AFTER_MS).await;
    let told = ask_growth(&stage, comes).await?;
    let lacking = of_health(&stage, 0, v1::DiskHealth::ReducedRedundancy).await?;
    same("that get what they lack", names(&told.completed), &lacking)?;
    let before = held(&stage);
    stage.cluster.maintenance(comes, v1::HostMaintenance::default()).await?;
    stage.ms(1000).await;
    stage.healthy_at(0).await?;
    stage.ms(3000).await;
    near("copied", told.completed_bytes, new_bytes(&stage, &before))?;
    stage.rest(false).await
}
