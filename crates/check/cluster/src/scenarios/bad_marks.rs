//! Stories of blocks that no copy has any more: marks stand for them, on every copy that is filled.

use std::{collections::BTreeSet, time::Duration};

use cairn_api::LocalManagement as _;
use cairn_faults::Moment;
use cairn_geometry::Area;
use cairn_types::ComponentState;

use super::{
    Scenario, Stage,
    scrubs::{named, start_scrub, until_scrubbed},
};
use crate::{
    bad_blocks::{Spoil, spoil_beside, spoil_only_source},
    plan::REPAIR_DELAY_MS,
    shape::Shape,
};

/// Blocks that go bad.
const SPOILED: u32 = 12;
/// How long a rebuild of so small a disk may take behind the repair delay.
const REBUILT_WITHIN_MS: u64 = 60_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "P5. a rebuild whose only source has bad blocks",
            (
                "it ends; exactly these blocks are reported and refused, also behind a start and on a copy of the copy; what is written is whole, and \
                 no longer reported",
                "a copy's host dies for good; blocks of the other copy cannot be read; the copy is rebuilt on a third host; all hosts lose power; \
                 the source's host dies for good as well, and what was rebuilt is the only source of the next rebuild",
            ),
            (Shape::plain(4), 6),
            rebuilt,
        ),
        Scenario::new(
            "P5. a copy comes back that has what the others lost",
            (
                "what it has kept of blocks that the other copy has lost repairs them, though the blocks around them are brought from there; \
                 what it has not kept is marked, and told",
                "guests fill the disk and one copy is away; a block in each region is written; blocks of the other copy cannot be read; the first comes back",
            ),
            (Shape::plain(3), 6),
            comes_back,
        ),
        Scenario::new(
            "P5. a rebuild of a member of rows beside bad blocks",
            (
                "it ends; exactly these blocks, and those of the lost member in the same places, are refused and reported, also behind a start; what is \
                 written is whole, and no longer reported",
                "a member's host of 3+1 dies for good; blocks of other members cannot be read; it is rebuilt on another host; all hosts lose power",
            ),
            (Shape::plain(5).in_rows(3, 1), 4),
            member_rebuilt,
        ),
    ]
}

/// Blocks of the first disk that are told as bad anywhere.
async fn reported(stage: &Stage, at: usize) -> Result<BTreeSet<u64>, String> {
    let scrubs = stage.cluster.manage(at, async |node| node.scrub_list().await).await.map_err(|e| e.to_string())?;
    Ok(named(&scrubs))
}

async fn are_reported(stage: &Stage, at: usize, expected: &BTreeSet<u64>, when: &str) -> Result<(), String> {
    let told = reported(stage, at).await?;
    match told == *expected {
        true => Ok(()),
        false => Err(format!("P5: {when} no copy has blocks {expected:?}, and {told:?} are reported")),
    }
}

fn spoiled_now(stage: &Stage) -> BTreeSet<u64> {
    stage.guests[0].model.borrow().spoiled_now().into_iter().collect()
}

/// Waits until the disk has so many members with data, all in sync, none of them at `gone`. Where they are.
async fn until_rebuilt(stage: &Stage, members: usize, gone: &[usize]) -> Result<Vec<usize>, String> {
    let mut last = String::new();
    for _ in 0..(REPAIR_DELAY_MS + REBUILT_WITHIN_MS) / 250 {
        let config = stage.config(0).await?;
        let copies: Vec<_> = config.members.iter().filter(|m| m.set().is_some()).collect();
        let in_place = |n: usize| !gone.contains(&n);
        if copies.len() == members && copies.iter().all(|m| m.state.in_sync() && in_place(stage.number(m.host))) {
            return Ok(copies.iter().map(|m| stage.number(m.host)).collect());
        }
        last = format!("{:?}", config.members.iter().map(|m| (stage.number(m.host), m.state)).collect::<Vec<_>>());
        stage.ms(250).await;
    }
    Err(format!("P5: the rebuild does not end: {last}"))
}

/// All that guests wrote is on the capacity devices of the copy that is left, and some of it goes bad.
async fn spoil_what_is_left(stage: &Stage) -> Result<(), String> {
    stage.guests[0].stop().await;
    stage.ms(8000).await;
    stage.guests[0].media_errors_judged.set(true);
    let spoil = Spoil { disk: 0, blocks: SPOILED, pick: stage.cluster.world.random_u64() };
    match spoil_only_source(&stage.cluster, spoil, Duration::from_secs(1)).await {
        12 => Ok(()),
        count => Err(format!("the copy that is left holds only {count} blocks on its capacity devices")),
    }
}

/// All hosts that are up lose power and start, one of them owns the disk, and these blocks are reported still.
async fn behind_a_start(stage: &Stage, (dead, owner): (usize, usize), expected: &BTreeSet<u64>) -> Result<(), String> {
    let up: Vec<usize> = (0..stage.hosts()).filter(|n| *n != dead).collect();
    up.iter().for_each(|n| stage.crash(*n));
    up.iter().for_each(|n| stage.start(*n));
    // Nobody asks for the disk, and nothing ails it: it has no owner until somebody does.
    stage.ms(5000).await;
    stage.attach(owner).await?;
    stage.ms(3000).await;
    are_reported(stage, owner, expected, "behind a start").await
}

async fn rebuilt(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (source, dies) = (copies[0], copies[1]);
    stage.attach(source).await?;
    stage.crash(dies);
    stage.told(Moment::Absent, 8000).await?;
    stage.goes_on(20, 3000).await?;
    spoil_what_is_left(&stage).await?;
    let spoiled = spoiled_now(&stage);
    let copies = until_rebuilt(&stage, 2, &[dies]).await?;
    let rebuilt = *copies.iter().find(|n| **n != source).ok_or("one copy only")?;
    // What guests have trimmed since it was written has no need of its page, and is not lost with it.
    let refused = stage.guests[0].refused(source).await?;
    if refused.len() * 2 < spoiled.len() || !refused.is_subset(&spoiled) {
        return Err(format!("P5: {spoiled:?} were spoiled, and {refused:?} are refused"));
    }
    let spoiled = refused;
    are_reported(&stage, source, &spoiled, "after the rebuild").await?;
    stage.guests[0].verify_what_is_left().await?;
    behind_a_start(&stage, (dies, source), &spoiled).await?;
    stage.guests[0].verify_what_is_left().await?;
    // The dead host comes back with nothing that counts, and takes the next copy.
    stage.start(dies);
    stage.ms(3000).await;
    stage.crash(source);
    until_rebuilt(&stage, 2, &[source]).await?;
    are_reported(&stage, rebuilt, &spoiled, "after a rebuild from what was rebuilt").await?;
    stage.guests[0].verify_what_is_left().await?;
    let restored = stage.guests[0].restore(rebuilt, false).await?;
    stage.count("blocks that no copy could give", restored);
    if restored != spoiled.len() as u64 {
        return Err(format!("P5: {restored} blocks were refused, {} were lost", spoiled.len()));
    }
    stage.start(source);
    // What was written is read again by the hosts of the copies, with their next look.
    stage.ms(25_000).await;
    start_scrub(&stage).await?;
    let scrubs = until_scrubbed(&stage).await?;
    if scrubs.iter().any(|scrub| scrub.bad_blocks > 0) {
        return Err(format!("what was written over is reported still: {:?}", named(&scrubs)));
    }
    stage.rest(true).await
}

async fn comes_back(stage: Stage) -> Result<(), String> {
    stage.ms(2500).await;
    stage.guests[0].stop().await;
    // All is settled, and on the capacity devices, of both.
    stage.ms(8000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (source, away) = (copies[0], copies[1]);
    stage.attach(source).await?;
    stage.crash(away);
    stage.told(Moment::Absent, 8000).await?;
    let changed = stage.guests[0].touch_each_region(source).await?;
    spoil_what_is_left(&stage).await?;
    let spoiled = spoiled_now(&stage);
    stage.start(away);
    stage.state_of(0, away, |state| !matches!(state, ComponentState::Absent { .. })).await?;
    stage.state_of(0, away, ComponentState::in_sync).await?;
    // What was brought back is read again by the hosts of the copies, with their next look.
    stage.ms(25_000).await;
    let lost: BTreeSet<u64> = spoiled.intersection(&changed).copied().collect();
    stage.count("blocks that were brought back", (spoiled.len() - lost.len()) as u64);
    are_reported(&stage, source, &lost, "with all that came back").await?;
    stage.guests[0].verify_what_is_left().await?;
    stage.guests[0].restore(source, false).await?;
    stage.rest(true).await
}

async fn member_rebuilt(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (members, _) = stage.copies_and_witnesses().await?;
    let owner = members[0];
    // The first host is asked for the scrubs.
    let dies = *members.iter().rev().find(|n| **n != owner && **n != 0).expect("four members");
    stage.attach(owner).await?;
    stage.guests[0].stop().await;
    stage.guests[0].fill(owner, false).await?;
    // All of it is on the capacity devices.
    stage.ms(8000).await;
    let config = stage.config(0).await?;
    stage.crash(dies);
    stage.told(Moment::Absent, 12_000).await?;
    stage.guests[0].media_errors_judged.set(true);
    let count = spoil_beside(&stage.cluster, dies, &config, SPOILED as usize);
    if count != SPOILED as usize {
        return Err(format!("only {count} blocks are on capacity devices"));
    }
    until_rebuilt(&stage, members.len(), &[dies]).await?;
    let refused = stage.guests[0].refused(owner).await?;
    let spoiled = spoiled_now(&stage);
    if refused.len() < count || !refused.is_subset(&spoiled) {
        return Err(format!("P5: {spoiled:?} were lost, and {refused:?} are refused"));
    }
    // What is bad at other members is named by their own scrub.
    start_scrub(&stage).await?;
    stage.ms(25_000).await;
    are_reported(&stage, owner, &refused, "after the rebuild").await?;
    stage.guests[0].verify_what_is_left().await?;
    behind_a_start(&stage, (dies, owner), &refused).await?;
    // Parity of a row that lacks two blocks in one place is made by a write of the whole row only.
    let row_sectors = Area::at(&config, 0).rows().expect("rows").row_blocks() * 8;
    stage.guests[0].gives_up.set((u64::MAX, 1));
    if stage.guests[0].fill_by(row_sectors, owner, false).await? < stage.guests[0].model.borrow().len_sectors() {
        return Err("P5: whole rows are not written over what was lost".into());
    }
    stage.count("blocks of rows that could not be made", refused.len() as u64);
    stage.start(dies);
    stage.ms(25_000).await;
    start_scrub(&stage).await?;
    let scrubs = until_scrubbed(&stage).await?;
    if scrubs.iter().any(|scrub| scrub.bad_blocks > 0) {
        return Err(format!("what was written over is reported still: {:?}", named(&scrubs)));
    }
    stage.rest(true).await
}
