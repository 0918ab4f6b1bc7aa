//! The story of caches that are cleared: guests go on, nothing is lost, and nothing is told to be clear that is not.

use cairn_api::{LocalManagement, v1};
use cairn_sim::Fault;

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "P1. caches are cleared while guests write",
        (
            "who asks is told the truth of every disk group, capacity devices are written by destage and cleaning only, and all that \
             was acknowledged is read",
            "the caches of all hosts are cleared under load; a host dies in the midst of it; a disk group stops; capacity devices are \
             too slow",
        ),
        (shape(), 4),
        cleared_under_load,
    )]
}

/// Destage that begins late and never by itself.
fn shape() -> Shape {
    Shape { destage_percent: 50, idle_destage_ms: 0, ..Shape::plain(4) }
}

/// Clears the caches of all hosts, as host `at` carries it out.
async fn clear(stage: &Stage, at: usize, wait_s: u64) -> Result<v1::CachesCleared, String> {
    let request = v1::CacheClear { wait_s, ..v1::CacheClear::default() };
    let cleared = stage.cluster.manage(at, async move |node| node.caches_clear(request).await).await;
    let cleared = cleared.map_err(|error| error.to_string())?;
    stage.say(format!("clear: {}, after {} ms", cleared.clear, cleared.elapsed_ms));
    Ok(cleared)
}

fn count(cleared: &v1::CachesCleared, state: v1::CacheState) -> usize {
    cleared.disk_groups.iter().filter(|group| group.state == state).count()
}

/// Fails unless clearing came to `clear`, and left so many groups in that state.
fn expect(cleared: &v1::CachesCleared, clear: bool, state: v1::CacheState, groups: usize) -> Result<(), String> {
    match cleared.clear == clear && count(cleared, state) == groups {
        true => Ok(()),
        false => Err(format!("not {groups} {state:?}, or not clear: {clear}: {cleared:?}")),
    }
}

pub(super) async fn counters(stage: &Stage, at: usize) -> Result<v1::Counters, String> {
    let counters = stage.cluster.manage(at, async move |node| node.counters().await).await;
    counters.map_err(|error| error.to_string())
}

async fn cleared_under_load(stage: Stage) -> Result<(), String> {
    let all = stage.hosts();
    for _ in 0..4 {
        stage.ms(500 + stage.below(1500)).await;
        expect(&clear(&stage, stage.any(), 60).await?, true, v1::CacheState::Clear, all)?;
    }
    bytes_add_up(&stage).await?;
    dies_meanwhile(&stage).await?;
    stops_meanwhile(&stage).await?;
    too_slow(&stage).await?;
    stage.goes_on(20, 5000).await?;
    stage.rest(false).await
}

async fn bytes_add_up(stage: &Stage) -> Result<(), String> {
    let told = counters(stage, stage.any()).await?;
    let (guests, stores) = (told.guests(), told.stores());
    let twice = stores.write_bytes >= 2 * guests.write_bytes && guests.write_bytes > 0;
    let destaged = stores.capacity_write_destage_bytes > stores.destaged_bytes && stores.destaged_bytes > 0;
    match twice && destaged && told.hosts_silent.is_empty() {
        true => Ok(()),
        false => Err(format!("what is counted does not add up: {told:?}")),
    }
}

/// A host loses power some milliseconds after clearing began at another one.
async fn dies_meanwhile(stage: &Stage) -> Result<(), String> {
    let at = stage.any();
    let victim = (at + 1) % stage.hosts();
    stage.ms(1000).await;
    let (own, after) = (stage.clone(), stage.below(60));
    stage.cluster.world.spawn(async move {
        own.ms(after).await;
        own.crash(victim);
    });
    // Whatever it comes to while the host dies; once it is dead, nothing is known of its disk group.
    clear(stage, at, 60).await?;
    stage.ms(3000).await;
    expect(&clear(stage, at, 60).await?, false, v1::CacheState::Unreachable, 1)?;
    stage.start(victim);
    stage.healthy().await?;
    expect(&clear(stage, at, 60).await?, true, v1::CacheState::Clear, stage.hosts())
}

/// A disk group takes no writes any more: a side matter where it is one of several, not where it is the one that was meant.
async fn stops_meanwhile(stage: &Stage) -> Result<(), String> {
    let victim = stage.copies_and_witnesses().await?.0[0];
    let at = (victim + 1) % stage.hosts();
    stage.say(format!("h{victim}: the log cannot be written"));
    stage.host(victim).disk(&Shape::device_name(0, None)).inject(Fault::WriteErrorNext);
    stage.ms(3000).await;
    let cleared = clear(stage, at, 60).await?;
    expect(&cleared, true, v1::CacheState::Failed, 1)?;
    let failed = cleared.disk_groups.iter().find(|group| group.state == v1::CacheState::Failed).expect("counted");
    let request = v1::CacheClear { disk_group: Some(failed.id), ..v1::CacheClear::default() };
    let named = stage.cluster.manage(at, async move |node| node.caches_clear(request).await).await;
    expect(&named.map_err(|error| error.to_string())?, false, v1::CacheState::Failed, 1)?;
    stage.crash(victim);
    stage.ms(500).await;
    stage.start(victim);
    stage.healthy().await
}

/// Capacity devices that are 20,000 times slower: their group is not clear in time, and is so later.
async fn too_slow(stage: &Stage) -> Result<(), String> {
    let slow = stage.copies_and_witnesses().await?.0[0];
    stage.ms(1000).await;
    stage.say(format!("h{slow}: capacity devices are slow"));
    stage.capacity(slow).for_each(|disk| disk.inject(Fault::Slow { times: 20_000 }));
    let at = stage.any();
    expect(&clear(stage, at, 3).await?, false, v1::CacheState::NotDrained, 1)?;
    stage.capacity(slow).for_each(|disk| disk.heal());
    stage.say("they are fast again");
    expect(&clear(stage, at, 100).await?, true, v1::CacheState::Clear, stage.hosts())
}
