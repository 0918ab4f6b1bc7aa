//! Stories of copies that are each what they say of themselves, and differ: one of them has lost writes.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use cairn_api::{LocalManagement as _, v1};
use cairn_node::GroupStore;
use cairn_sim::SimEnv;
use cairn_types::{Change, ComponentId, ComponentOp};

use super::{Scenario, Stage, scrubs::named};
use crate::shape::Shape;

/// In what time owners compare copies: longer than the losses of a story take, so that another owner finds them.
const COMPARE_MS: u64 = 3000;
/// How long a difference may stay: a pass, and what comes of it.
const FOUND_WITHIN_MS: u64 = 20_000;
/// Whole blocks of the disk.
const BLOCKS: u64 = 5 * 256;
/// Writes that a copy loses.
const LOST: usize = 20;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "P6. copies that are each sound and differ",
            (
                "each block of which a copy lost the last write is repaired from the other copy, counted as found and repaired, and told; nothing else is \
                 touched, and no byte that a guest reads is wrong",
                "guests fill the disk; blocks are written, and one of the copies takes each write back by itself; another host becomes the owner and compares",
            ),
            (Shape::plain(3).comparing(COMPARE_MS), 8),
            lost_writes,
        ),
        Scenario::new(
            "P6. copies that differ, and nothing tells which is right",
            (
                "no copy is overwritten; disk, byte and both copies are named by the scrub's status and the health check, until a guest writes there",
                "the disk is trimmed; blocks are written, and one of the copies takes each write back by itself: it holds nothing there, as after a trim",
            ),
            (Shape::plain(3).comparing(COMPARE_MS), 8),
            undecided,
        ),
        Scenario::new(
            "P6. copies are compared under load and owners that change",
            (
                "nothing is told to differ that does not, and guests go on",
                "crowded guests, copies compared every 20 ms; hosts lose power and come back, and owners change",
            ),
            (Shape::plain(4).crowded().comparing(1), 6),
            no_false_alarm,
        ),
    ]
}

/// The copy of the disk at a host.
async fn copy_at(stage: &Stage, n: usize) -> Result<(GroupStore<SimEnv>, ComponentId), String> {
    let config = stage.config(0).await?;
    let member =
        config.members.iter().find(|m| m.set().is_some() && stage.number(m.host) == n).ok_or("no copy there")?;
    let node = stage.cluster.node(n).ok_or_else(|| format!("h{n} is down"))?;
    let store = node.stores().into_iter().find(|store| store.group().id() == member.disk_group);
    Ok((store.ok_or("its disk group is not open")?, member.component))
}

/// A component at `n` takes its last operation back by itself, without a trace.
pub(super) async fn take_last_back(
    stage: &Stage,
    n: usize,
    (store, component): (&GroupStore<SimEnv>, ComponentId),
) -> Result<(), String> {
    let last = store.group().window(component).last().map(|unsettled| unsettled.op);
    let op = ComponentOp::Undo { ops: vec![last.ok_or("the write is settled at once")?] };
    let undone = store.group().append(Change::Component { component, op, data: Bytes::new() });
    let undone = stage.cluster.run_on(n, Duration::from_secs(5), undone).await;
    undone.map_err(|error| format!("{error:?}"))?.map_err(|error| error.to_string())
}

/// Writes blocks at the owner `at`, each of which the copy at `n` takes back by itself: its log, index and map agree that it was never
/// written. Which.
async fn lose_writes(stage: &Stage, at: usize, n: usize, count: usize) -> Result<BTreeSet<u64>, String> {
    let (store, component) = copy_at(stage, n).await?;
    let (mut tried, mut lost) = (BTreeSet::new(), BTreeSet::new());
    while lost.len() < count {
        // Not the disk's last block, which is a part of one. What a guest gave up may be written or not.
        let block = stage.below(BLOCKS);
        if !tried.insert(block) || !stage.guests[0].write_block(at, block).await? {
            continue;
        }
        take_last_back(stage, n, (&store, component)).await?;
        lost.insert(block);
    }
    Ok(lost)
}

async fn scrubs(stage: &Stage) -> Result<Vec<v1::Scrub>, String> {
    stage.cluster.manage(0, async |node| node.scrub_list().await).await.map_err(|error| error.to_string())
}

/// Waits until the scrubs say so.
pub(super) async fn until(
    stage: &Stage,
    what: &str,
    is: impl Fn(&[v1::Scrub]) -> bool,
) -> Result<Vec<v1::Scrub>, String> {
    for _ in 0..FOUND_WITHIN_MS / 250 {
        let now = scrubs(stage).await?;
        if is(&now) {
            return Ok(now);
        }
        stage.ms(250).await;
    }
    Err(format!("{what}: not within {FOUND_WITHIN_MS} ms: {:?}", scrubs(stage).await?))
}

fn sum(scrubs: &[v1::Scrub], of: fn(&v1::Scrub) -> u64) -> u64 {
    scrubs.iter().map(of).sum()
}

async fn lost_writes(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let loser = copies[stage.below(2) as usize];
    let owner = copies[0];
    stage.attach(owner).await?;
    stage.guests[0].fill(owner, false).await?;
    let lost = lose_writes(&stage, owner, loser, LOST).await?;
    // The last write is on both: the next owner does not see by what copies hold last that one lacks something.
    let kept = (0..BLOCKS).find(|block| !lost.contains(block)).ok_or("all blocks were lost")?;
    while !stage.guests[0].write_block(owner, kept).await? {}
    stage.attach([witnesses[0], copies[1]][stage.below(2) as usize]).await?;
    let scrubs =
        until(&stage, "what was lost is repaired", |scrubs| sum(scrubs, |scrub| scrub.repaired_blocks) >= LOST as u64)
            .await?;
    let told = stage.cluster.take_differences();
    let (found, repaired) = (sum(&scrubs, |s| s.found_blocks), sum(&scrubs, |s| s.repaired_blocks));
    let differ = sum(&scrubs, |s| s.differing_blocks);
    stage.count("blocks of which a copy was older", repaired);
    if (found, repaired, differ) != (LOST as u64, LOST as u64, 0) {
        return Err(format!(
            "{LOST} writes were lost; {found} blocks were found, {repaired} repaired, {differ} differ"
        ));
    }
    if told.is_empty() || told.iter().any(|event| !event.starts_with("Older")) {
        return Err(format!("it is not told as what it is: {told:?}"));
    }
    stage.guests[0].verify_everywhere().await?;
    stage.rest(true).await
}

async fn undecided(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    stage.guests[0].stop().await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (owner, loser) = (copies[0], copies[stage.below(2) as usize]);
    stage.attach(owner).await?;
    stage.guests[0].trim_all(owner).await?;
    // All is settled and folded: holes are nowhere but in what is not there.
    stage.ms(8000).await;
    let lost = lose_writes(&stage, owner, loser, LOST).await?;
    let both = 2 * lost.len() as u64;
    let is_named = |scrubs: &[v1::Scrub]| sum(scrubs, |scrub| scrub.differing_blocks) == both && named(scrubs) == lost;
    let seen = until(&stage, "what differs is named", is_named).await?;
    stage.count("blocks that nothing decides", lost.len() as u64);
    if sum(&seen, |scrub| scrub.repaired_blocks + scrub.found_blocks) > 0 {
        return Err(format!("something is said to be repaired: {seen:?}"));
    }
    let health = stage.cluster.manage(0, async |node| node.health().await).await.map_err(|e| e.to_string())?;
    let check = health.checks.iter().find(|check| check.name == "scrub").ok_or("no such check")?;
    if check.findings_total == 0 {
        return Err("what differs is not told by the health check".into());
    }
    // It is told again with each pass, and is not decided by that.
    stage.ms(2 * COMPARE_MS).await;
    until(&stage, "it stays so", is_named).await?;
    if stage.cluster.take_differences().iter().any(|event| !event.starts_with("Undecided")) {
        return Err("a copy was said to be the older one".into());
    }
    stage.guests[0].fill(owner, false).await?;
    until(&stage, "what was written is named no more", |scrubs| named(scrubs).is_empty()).await?;
    stage.cluster.take_differences();
    stage.ms(2 * COMPARE_MS).await;
    stage.guests[0].verify_everywhere().await?;
    stage.rest(true).await
}

pub(super) async fn no_false_alarm(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    for _ in 0..3 {
        let n = stage.any();
        stage.crash(n);
        stage.ms(500 + stage.below(3000)).await;
        stage.start(n);
        stage.healthy().await?;
        stage.attach(stage.any()).await?;
        stage.ms(1000).await;
    }
    stage.goes_on(20, 2000).await?;
    stage.rest(false).await
}
