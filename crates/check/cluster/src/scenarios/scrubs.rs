//! Stories of scrubs: media that go bad where nobody reads them.

use std::collections::BTreeSet;

use cairn_api::{LocalManagement as _, v1};
use cairn_sim::Fault;
use cairn_types::BLOCK_BYTES;

use super::{Scenario, Stage};
use crate::{
    bad_blocks::{Where, rot_copies},
    rest::stores_in_order,
    shape::Shape,
};

/// How long a pass over these small disk groups may take, repairs included.
const SCRUBBED_WITHIN_MS: u64 = 60_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "30. scrub finds what goes bad at rest",
            (
                "each bad block is found; what another copy has is repaired, what none has is named with its disk and place, and nothing else",
                "at rest, of both copies in turn, bits flip, blocks are as they were before, hold what was meant for elsewhere, or cannot be read; a few at both copies; the whole cluster is scrubbed",
            ),
            (Shape::plain(3), 8),
            at_rest,
        ),
        Scenario::new(
            "30. scrub finds rot, lost and misdirected writes",
            (
                "after a pass every block of every disk group is what the map says, though each run agrees with its own header",
                "under load the devices of one copy acknowledge writes of destage that they do not do, or do elsewhere, and bits flip; guests stop, and the cluster is scrubbed",
            ),
            (Shape::plain(3), 8),
            lost_and_misdirected,
        ),
        Scenario::new(
            "30. scrub finds bad blocks of a disk that nobody owns",
            (
                "a host with a copy takes the disk over and repairs it; a pass goes on behind a start",
                "at rest blocks go bad at one copy; all hosts lose power and start, nobody uses the disk; it is scrubbed, and the host of the bad copy dies meanwhile",
            ),
            (Shape::plain(3), 6),
            nobody_owns,
        ),
    ]
}

pub(super) async fn start_scrub(stage: &Stage) -> Result<(), String> {
    let start = v1::ScrubChange { verb: v1::ScrubVerb::Start, host: None, disk_group: None };
    let started = stage.cluster.manage(0, async move |node| node.scrub(start).await).await;
    started.map(drop).map_err(|error| error.to_string())
}

/// Waits until the last pass is over everywhere, and nothing is bad but what no copy has.
pub(super) async fn until_scrubbed(stage: &Stage) -> Result<Vec<v1::Scrub>, String> {
    let mut last = String::new();
    for _ in 0..SCRUBBED_WITHIN_MS / 250 {
        match stage.cluster.manage(0, async |node| node.scrub_list().await).await {
            Ok(scrubs) => {
                let done = |scrub: &v1::Scrub| {
                    scrub.state == v1::ScrubState::Waiting
                        && scrub.scrubbed_unix_ms.is_some()
                        && scrub.bad_blocks == scrub.unrepairable_blocks
                };
                if scrubs.iter().all(done) {
                    return Ok(scrubs);
                }
                last = format!("{scrubs:?}");
            }
            Err(error) => last = error.to_string(),
        }
        stage.ms(250).await;
    }
    Err(format!("the cluster is not scrubbed after {SCRUBBED_WITHIN_MS} ms: {last}"))
}

/// Blocks that are told as bad, wherever.
pub(super) fn named(scrubs: &[v1::Scrub]) -> BTreeSet<u64> {
    let block = u64::from(BLOCK_BYTES);
    let blocks = |bad: &v1::ScrubFinding| bad.offset_bytes / block..(bad.offset_bytes + bad.len_bytes) / block;
    scrubs.iter().flat_map(|scrub| &scrub.findings).flat_map(blocks).collect()
}

/// Guests stop, and all that they wrote is on the capacity devices.
pub(super) async fn comes_to_rest(stage: &Stage) {
    stage.guests[0].stop().await;
    // All is told as settled after 5 s at most.
    stage.ms(8000).await;
}

/// What was repaired is on the capacity devices, and what stands there is what the map says.
pub(super) async fn whole_on_media(stage: &Stage) -> Result<(), String> {
    // A repair is an operation like any other: it is told as settled first, and destaged then.
    stage.ms(8000).await;
    stores_in_order(&stage.cluster, false).await
}

async fn at_rest(stage: Stage) -> Result<(), String> {
    stage.ms(3000).await;
    comes_to_rest(&stage).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let hosts = [copies[0], copies[1]];
    let one = rot_copies(&stage.cluster, hosts, (40, Where::InTurn), &[]);
    let both = rot_copies(&stage.cluster, hosts, (4, Where::Both), &one);
    let lost: BTreeSet<u64> = both.iter().copied().collect();
    if one.len() < 40 || both.len() < 4 {
        return Err(format!("only {} and {} blocks are on the capacity devices of both copies", one.len(), both.len()));
    }
    start_scrub(&stage).await?;
    let scrubs = until_scrubbed(&stage).await?;
    let sum = |of: fn(&v1::Scrub) -> u64| scrubs.iter().map(of).sum::<u64>();
    let (found, repaired) = (sum(|s| s.found_blocks), sum(|s| s.repaired_blocks));
    stage.count("blocks found bad", found);
    stage.count("blocks repaired", repaired);
    let injected = one.len() + 2 * both.len();
    if (found, repaired) != (injected as u64, one.len() as u64) {
        return Err(format!(
            "{injected} blocks went bad, {} at one copy; {found} were found, {repaired} repaired",
            one.len()
        ));
    }
    let told = named(&scrubs);
    if told != lost {
        return Err(format!("no copy has blocks {lost:?}, and {told:?} are named"));
    }
    let health = stage.cluster.manage(0, async |node| node.health().await).await.map_err(|e| e.to_string())?;
    let check = health.checks.iter().find(|check| check.name == "scrub").ok_or("no such check")?;
    if check.findings_total == 0 {
        return Err("what no copy has is not told by the health check".into());
    }
    stage.guests[0].media_errors_judged.set(true);
    stage.guests[0].verify_what_is_left().await?;
    stage.guests[0].restore(copies[0], false).await?;
    start_scrub(&stage).await?;
    until_scrubbed(&stage).await?;
    whole_on_media(&stage).await?;
    stage.rest(true).await
}

pub(super) async fn lost_and_misdirected(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let n = copies[stage.below(2) as usize];
    for _ in 0..12 {
        let device = stage.host(n).disk(&Shape::device_name(0, Some(stage.below(2) as usize)));
        match stage.below(3) {
            0 => device.inject(Fault::LostWriteNext),
            1 => device.inject(Fault::MisdirectedWriteNext { by_bytes: 4096 * (1 + stage.below(200)) }),
            _ => {
                if let Some(offset) = device.written(1 << 20, stage.below(1 << 20)) {
                    device.inject(Fault::BitFlip { offset: offset + stage.below(4096), bit: stage.below(8) as u8 });
                }
            }
        }
        stage.ms(500).await;
    }
    comes_to_rest(&stage).await;
    stage.capacity(n).for_each(|disk| disk.heal());
    start_scrub(&stage).await?;
    let scrubs = until_scrubbed(&stage).await?;
    stage.count("blocks found bad", scrubs.iter().map(|scrub| scrub.found_blocks).sum());
    whole_on_media(&stage).await?;
    stage.rest(true).await
}

async fn nobody_owns(stage: Stage) -> Result<(), String> {
    stage.ms(3000).await;
    comes_to_rest(&stage).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let bad = rot_copies(&stage.cluster, [copies[0], copies[1]], (20, Where::First), &[]);
    (0..stage.hosts()).for_each(|n| stage.crash(n));
    (0..stage.hosts()).for_each(|n| stage.start(n));
    stage.ms(6000).await;
    start_scrub(&stage).await?;
    // That a pass has begun is durable by then.
    stage.ms(200 + stage.below(2000)).await;
    stage.crash(copies[0]);
    stage.ms(1000).await;
    stage.start(copies[0]);
    stage.ms(6000).await;
    let scrubs = until_scrubbed(&stage).await?;
    let (found, repaired) = scrubs.iter().fold((0, 0), |(f, r), s| (f + s.found_blocks, r + s.repaired_blocks));
    stage.count("blocks found bad", found);
    if found > bad.len() as u64 || repaired != found {
        return Err(format!("{} blocks went bad, {found} were found, {repaired} repaired", bad.len()));
    }
    whole_on_media(&stage).await?;
    stage.rest(true).await
}
