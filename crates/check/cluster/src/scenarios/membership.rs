//! Stories of hosts that leave the cluster: empty and removed, dead and forgotten, and what they do when they come back.

use cairn_api::v1::{HostForget, HostMaintenance, MaintenanceState};
use cairn_types::MaintenanceMode;

use super::{Scenario, Stage};
use crate::{
    membership::back,
    shape::{REPAIR_DELAY_MS, Shape},
};

/// How long a host may take to be emptied.
const EMPTIED_WITHIN_MS: u64 = 60_000;
/// By then a host that died is silent to all, and a forgotten one has heard of it.
const KNOWN_AFTER_MS: u64 = 3000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "29. an emptied host is removed",
            (
                "guests go on without a stall of a lease; no list has the host; it runs, starts anew, serves nothing and says why, until it is taken in again",
                "a host with a part of the disk is to be removed, which is refused; it is emptied and removed under load, restarted, readmitted",
            ),
            (busy(5), 6),
            removed,
        ),
        Scenario::new(
            "29. a dead host is forgotten",
            (
                "the disk is healthy long before the repair delay; the host starts with its old copy, and neither serves it nor brings it back",
                "the host of a copy, the owner's or the other, loses power; it is refused while it lives, forgotten when it is silent, and started again",
            ),
            (busy(5), 8),
            forgotten,
        ),
        Scenario::new(
            "29. a forgotten host was only cut off",
            (
                "it may have owned the disk: nobody hears it when the link is back, with or without the directory, and no guest reads an old byte",
                "the owner is cut off from all hosts and perhaps from the directory; it is forgotten; the links are healed, then the directory",
            ),
            (busy(5), 8),
            cut_off,
        ),
        Scenario::new(
            "29. the last copy is not forgotten",
            (
                "it is refused, with the disk's name, and nothing is changed; the host comes back with every byte",
                "a copy misses writes while its host is away; then the host of the other copy loses power, and is to be forgotten",
            ),
            (busy(4), 4),
            last_copy,
        ),
    ]
}

fn busy(hosts: usize) -> Shape {
    Shape::plain(hosts).read_everywhere()
}

fn no_start_of_the_host_takes_it_in(stage: &Stage, host: usize) -> Result<(), String> {
    match stage.cluster.node(host).map(|node| (node.why_dismissed(), node.owned().len(), node.peers_up())) {
        Some((Some(_), 0, peers)) if peers.is_empty() => Ok(()),
        other => Err(format!("h{host} is gone and takes part: {other:?}")),
    }
}

async fn not_listed(stage: &Stage, host: usize) -> Result<(), String> {
    let listed = stage.cluster.host_names(host).await?;
    match listed.contains(&format!("h{host}")) || listed.len() != stage.hosts() - 1 {
        true => Err(format!("h{host} is gone, and the hosts are {listed:?}")),
        false => Ok(()),
    }
}

async fn removed(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let host = [copies[0], copies[1], witnesses[0]][stage.below(3) as usize];
    stage.attach(host).await?;
    match stage.cluster.remove_host(host, false).await {
        Err(why) if why.contains("full-evacuation") => {}
        other => return Err(format!("a host with a part of a disk was to be removed: {other:?}")),
    }
    let mode = Some(MaintenanceMode::FullEvacuation);
    let enter = HostMaintenance { enter: true, mode, dry_run: false, force: false };
    stage.cluster.maintenance(host, enter).await?;
    let mut waited_ms = 0;
    while stage.cluster.maintenance_of(host).await?.state != MaintenanceState::In {
        if waited_ms >= EMPTIED_WITHIN_MS {
            return Err(format!("h{host} is not empty after {EMPTIED_WITHIN_MS} ms"));
        }
        stage.ms(250).await;
        waited_ms += 250;
    }
    // A heartbeat ago it held what has been moved since.
    while stage.cluster.remove_host(host, true).await?.waits && waited_ms < EMPTIED_WITHIN_MS {
        stage.ms(250).await;
        waited_ms += 250;
    }
    stage.cluster.remove_host(host, false).await?;
    // A part of a lease: whoever had to wait for one to run out would not go on by then.
    stage.goes_on(5, 1000).await?;
    not_listed(&stage, host).await?;
    stage.ms(KNOWN_AFTER_MS).await;
    no_start_of_the_host_takes_it_in(&stage, host)?;
    stage.crash(host);
    stage.ms(500).await;
    stage.start(host);
    stage.ms(KNOWN_AFTER_MS).await;
    no_start_of_the_host_takes_it_in(&stage, host)?;
    not_listed(&stage, host).await?;
    let seen_from = stage.cluster.asked_of(host)?;
    stage.healthy_at(seen_from).await?;
    back(&stage.cluster, host).await;
    stage.rest(false).await
}

async fn forgotten(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let host = copies[0];
    stage.attach(copies[stage.below(2) as usize]).await?;
    match stage.cluster.forget_host(host, HostForget { force: true, dry_run: false }).await {
        Err(why) if why.contains("is alive") => {}
        other => return Err(format!("a living host was to be forgotten: {other:?}")),
    }
    stage.goes_on(5, 1000).await?;
    stage.crash(host);
    stage.ms(KNOWN_AFTER_MS).await;
    let told = stage.cluster.forget_host(host, HostForget { dry_run: true, force: false }).await?;
    if (told.disks, told.reduced.len(), told.lost.len(), told.not_rebuilt.len()) != (1, 1, 0, 0) {
        return Err(format!("the preview: {told:?}"));
    }
    let began = stage.cluster.world.now();
    stage.cluster.forget_host(host, HostForget::default()).await?;
    not_listed(&stage, host).await?;
    let seen_from = stage.cluster.asked_of(host)?;
    stage.healthy_at(seen_from).await?;
    let took_ms = (stage.cluster.world.now() - began).as_millis() as u64;
    if took_ms >= REPAIR_DELAY_MS {
        return Err(format!("the disk was healthy after {took_ms} ms: it waited for the repair delay"));
    }
    if stage.hosts_of(0).await?.contains(&host) {
        return Err(format!("h{host} is forgotten, and the disk has it still"));
    }
    stage.goes_on(5, 1000).await?;
    stage.start(host);
    stage.ms(KNOWN_AFTER_MS).await;
    no_start_of_the_host_takes_it_in(&stage, host)?;
    stage.goes_on(5, 1000).await?;
    not_listed(&stage, host).await?;
    back(&stage.cluster, host).await;
    stage.rest(false).await
}

async fn cut_off(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let host = copies[0];
    stage.attach(host).await?;
    let hears_of_it = stage.below(2) == 0;
    stage.isolate(host);
    stage.cluster.members[host].gate.set_shut(!hears_of_it);
    stage.ms(KNOWN_AFTER_MS).await;
    stage.cluster.forget_host(host, HostForget::default()).await?;
    let seen_from = stage.cluster.asked_of(host)?;
    stage.healthy_at(seen_from).await?;
    stage.heal_links();
    stage.ms(KNOWN_AFTER_MS).await;
    stage.goes_on(5, 1000).await?;
    not_listed(&stage, host).await?;
    let heard = stage.cluster.node(seen_from).ok_or("it runs")?.peers_up();
    if heard.contains(&stage.host(host).spoken_id()) {
        return Err(format!("h{seen_from} hears h{host}, which is forgotten"));
    }
    stage.cluster.members[host].gate.set_shut(false);
    stage.ms(KNOWN_AFTER_MS).await;
    no_start_of_the_host_takes_it_in(&stage, host)?;
    back(&stage.cluster, host).await;
    stage.rest(false).await
}

async fn last_copy(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[1]).await?;
    stage.crash(copies[0]);
    stage.ms(KNOWN_AFTER_MS).await;
    stage.goes_on(5, 2000).await?;
    stage.crash(copies[1]);
    stage.ms(200).await;
    stage.start(copies[0]);
    stage.ms(KNOWN_AFTER_MS).await;
    match stage.cluster.forget_host(copies[1], HostForget::default()).await {
        Err(why) if why.contains("last good copy") && why.contains(&Shape::disk_name(0)) => {}
        other => return Err(format!("the last copy was to be forgotten: {other:?}")),
    }
    if !stage.cluster.host_names(copies[1]).await?.contains(&format!("h{}", copies[1])) {
        return Err("what was refused was done".into());
    }
    stage.start(copies[1]);
    stage.rest(false).await
}
