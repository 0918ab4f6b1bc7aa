//! Stories of copies: what they hold after they were away, and who believes them.

use std::time::Duration;

use cairn_api::LocalManagement as _;
use cairn_faults::Moment;
use cairn_sim::{Fault, Medium};
use cairn_types::ComponentState;

use super::{Scenario, Stage};
use crate::{
    bad_blocks::{Spoil, Where, spoil_copies, spoil_only_source},
    cluster::LOG_SEGMENT_BYTES,
    plan::REPAIR_DELAY_MS,
    release::Release,
    shape::{DiskShape, Shape},
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    [away(), spoiled(), short_of_sources(), beside_guests()].into_iter().flatten().collect()
}

/// A copy was away.
fn away() -> Vec<Scenario> {
    let busy = |hosts| Shape::plain(hosts).read_everywhere();
    vec![
        Scenario::new(
            "2. undo after a quick rejoin",
            (
                "what was acknowledged while a copy was away survives the owner's death just after that copy is back",
                "a copy dies and is back after 3 s; guests stop when it is in sync; the owner dies, and all is read from what is left",
            ),
            (busy(3), 4),
            quick_rejoin,
        ),
        Scenario::new(
            "3. a host with yesterday's devices",
            (
                "what it lacks undoes nothing, and it is filled again",
                "an image of a host's devices is put in their place, 4 s later",
            ),
            (busy(3), 4),
            old_image,
        ),
        Scenario::new(
            "3. a bad sector in the middle of the log",
            (
                "what such a copy lacks undoes nothing at the others",
                "half of a host's log cannot be read when it starts after a power loss",
            ),
            (busy(3), 4),
            damaged_log,
        ),
        Scenario::new(
            "5. the owner dies as a copy becomes active",
            (
                "it is active only with every write that was acknowledged meanwhile, and what it alone holds goes",
                "the owner is cut off at the moment of the activation, with a slow link to that copy",
            ),
            (busy(3), 8),
            owner_dies_at_activation,
        ),
        Scenario::new(
            "6. a resync that is interrupted again and again",
            (
                "regions that were not yet filled still are",
                "the copy, or another host, dies some milliseconds into the resync, five times",
            ),
            (busy(3), 4),
            interrupted_resync,
        ),
    ]
}

/// What it holds was torn, lost or spoiled.
fn spoiled() -> Vec<Scenario> {
    let busy = |hosts| Shape::plain(hosts).read_everywhere();
    vec![
        Scenario::new(
            "P6. the owner's clock of the day is 30 days ahead",
            (
                "what is away is rebuilt after the repair delay, whoever recorded it and whatever his clock said",
                "the owner's clock is set 30 days ahead, or behind; a host with a copy dies for good; a host whose clock is right takes over",
            ),
            (busy(4), 4),
            wrong_clock,
        ),
        Scenario::new(
            "7. undo, crash, replay",
            (
                "what was undone does not come back with the replay of the log",
                "all hosts lose power under load, start, get new writes for a moment, and lose power again, six times",
            ),
            (busy(3), 4),
            undo_crash_replay,
        ),
        Scenario::new(
            "8. power goes within a write of the log",
            (
                "a torn tail is not believed, and what it held is undone or completed from the others",
                "a host loses power within each of its next disk operations, and is back before it is missed",
            ),
            (busy(3), 4),
            torn_tails,
        ),
        Scenario::new(
            "12. a witness host with empty devices",
            (
                "what was made anew under an old name has no vote, and no copy is lost by it",
                "the witness's host comes back with blank devices; then the owner dies and comes back",
            ),
            (busy(3), 4),
            blank_witness,
        ),
        Scenario::new(
            "19. a capacity device dies and returns",
            (
                "what it held is rebuilt elsewhere, and its return brings nothing stale back",
                "all capacity devices of a host are gone, in the midst of destage; they return after the rebuild",
            ),
            (busy(4), 4),
            capacity_dies,
        ),
        Scenario::new(
            "P4. blocks change on their way between hosts",
            (
                "nobody reads a wrong byte or meets an error, what arrived changed counts as lost, and is told of",
                "one bit turns over in some messages of every link, 4 times for 5 s, while a host dies and is filled again",
            ),
            (busy(3), 6),
            blocks_change,
        ),
        Scenario::new(
            "P4. bits rot on one host",
            (
                "nobody reads a wrong byte, and what is read is repaired",
                "400 bits turn over where data are, under load",
            ),
            (busy(3), 4),
            bits_rot,
        ),
    ]
}

/// Guests are at the hosts that copies go to.
fn beside_guests() -> Vec<Scenario> {
    let mut shape = Shape::plain(3);
    shape.disks[0].guests = 0;
    let size_bytes = FILLED_MIB << 20;
    shape.disks.push(DiskShape { size_bytes, ..shape.disks[0].clone() });
    vec![Scenario::new(
        "a resync to a host that owns nothing",
        (
            "it slows for the guests whose writes that host's copies take, and goes at full speed without them",
            "a copy is cut off from its owner, all is written, the cut is healed; once with nobody there, once while another owner's \
             guests write to that host",
        ),
        (shape, 4),
        slows_for_others,
    )]
}

/// What is to be copied cannot be had.
fn short_of_sources() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "P5. the only source of a resync has bad blocks, in a cluster of the release before marks",
            (
                "those blocks and no others are refused, all others are copied, what it waits for is said, and it ends when those are written",
                "a copy is away while guests write; blocks of the other copy cannot be read; the first one comes back; then those are restored",
            ),
            (Shape { release: Release::First, ..Shape::plain(3) }, 4),
            bad_only_source,
        ),
        Scenario::new(
            "P4. each copy has bad blocks of its own",
            (
                "a request over many blocks is answered from several copies, and each block is repaired",
                "guests stop; blocks of one copy and other blocks of the other one cannot be read; then all is read",
            ),
            (Shape::plain(3), 4),
            bad_in_turn,
        ),
        Scenario::new(
            "P4. a copy with bad blocks is back before the other one",
            (
                "a read of such a block waits for the other copy, which has it, and is not refused",
                "guests stop; blocks of one copy cannot be read; all hosts lose power; that copy and the witness are back, the other one \
                 a moment after the disk has an owner again; all is read meanwhile",
            ),
            (Shape::plain(3), 4),
            bad_and_first,
        ),
    ]
}

async fn quick_rejoin(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (owner, other) = (copies[0], copies[1]);
    stage.attach(owner).await?;
    stage.crash(other);
    stage.told(Moment::Absent, 8000).await?;
    stage.goes_on(20, 1500).await?;
    stage.start(other);
    stage.told(Moment::Active, 8000).await?;
    stage.guests[0].stop().await;
    stage.ms(stage.below(300)).await;
    stage.crash(owner);
    stage.ms(6000).await;
    let left = (0..stage.hosts()).find(|n| *n != owner).expect("two more");
    stage.guests[0].verify_at(left).await?;
    stage.start(owner);
    stage.rest(false).await
}

async fn old_image(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let n = stage.any();
    let image = stage.image(n);
    stage.ms(4000).await;
    stage.crash(n);
    stage.put_in_place(n, image);
    stage.start(n);
    stage.ms(5000).await;
    stage.rest(false).await
}

async fn damaged_log(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let n = copies[stage.below(2) as usize];
    stage.crash(n);
    let log = stage.host(n).disk(&Shape::device_name(0, None));
    for segment in (0..8).step_by(2) {
        let offset = stage.cluster.log_begins() + segment * LOG_SEGMENT_BYTES + stage.below(64) * 4096;
        log.inject(Fault::LatentSectorError { offset, len_bytes: LOG_SEGMENT_BYTES / 2 });
    }
    stage.ms(stage.below(3000)).await;
    stage.start(n);
    stage.ms(3000).await;
    stage.rest(true).await
}

async fn owner_dies_at_activation(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..4 {
        let (copies, _) = stage.copies_and_witnesses().await?;
        let (owner, other) = (copies[0], copies[1]);
        stage.attach(owner).await?;
        stage.crash(other);
        stage.told(Moment::Absent, 8000).await?;
        stage.ms(500).await;
        let late = Duration::from_millis(20 + stage.below(200));
        stage.cluster.world.slow_link(stage.host(owner).id(), stage.host(other).id(), late);
        stage.start(other);
        let teller = stage.told(Moment::Active, 20_000).await?;
        stage.ms(stage.below(3)).await;
        stage.isolate(teller);
        stage.ms(5000).await;
        stage.cluster.heal_everything();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn interrupted_resync(stage: Stage) -> Result<(), String> {
    for _ in 0..5 {
        let n = stage.any();
        stage.crash(n);
        stage.ms(3000).await;
        stage.start(n);
        // Into the midst of it.
        stage.ms(20 + stage.below(120)).await;
        let other = (n + 1 + stage.below(2) as usize) % 3;
        stage.crash(if stage.below(2) == 0 { n } else { other });
        stage.ms(300).await;
        stage.cluster.heal_everything();
        stage.ms(2000).await;
    }
    stage.rest(false).await
}

async fn undo_crash_replay(stage: Stage) -> Result<(), String> {
    for _ in 0..6 {
        stage.ms(300 + stage.below(1500)).await;
        (0..stage.hosts()).for_each(|n| stage.crash(n));
        stage.ms(stage.below(300)).await;
        (0..stage.hosts()).for_each(|n| stage.start(n));
        stage.ms(2500).await;
    }
    stage.rest(false).await
}

async fn torn_tails(stage: Stage) -> Result<(), String> {
    use cairn_sim::{CrashPhase, CrashPoint};
    for _ in 0..20 {
        let n = stage.any();
        let operation = stage.host(n).disk_operations() + 1 + stage.below(6);
        let loss_seed = stage.cluster.world.random_u64();
        stage.host(n).crash_at(CrashPoint { operation, phase: CrashPhase::During, loss_seed });
        stage.ms(100 + stage.below(300)).await;
        stage.host(n).no_planned_crash();
        stage.start(n);
        stage.ms(200 + stage.below(500)).await;
    }
    stage.rest(false).await
}

async fn blank_witness(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let witness = witnesses[0];
    stage.attach(copies[0]).await?;
    stage.crash(witness);
    let blank = |(name, medium): (String, Medium)| (name, Medium::new(medium.len_bytes()));
    let image = stage.image(witness).into_iter().map(blank).collect();
    stage.put_in_place(witness, image);
    stage.start(witness);
    stage.ms(2000).await;
    stage.goes_on(20, 2000).await?;
    stage.crash(copies[0]);
    // Answers that had left before may still arrive.
    stage.ms(10).await;
    let before = stage.acked();
    stage.ms(6000).await;
    if stage.acked() != before {
        return Err("I1: one copy of two, and a witness that knows nothing, took writes".into());
    }
    stage.start(copies[0]);
    stage.ms(3000).await;
    // The disk goes on, without redundancy of votes: the host's disk group is gone.
    stage.goes_on(20, 4000).await?;
    stage.guests[0].stop().await;
    stage.guests[0].verify_what_is_left().await
}

async fn capacity_dies(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let n = copies[stage.below(2) as usize];
    stage.lose_capacity(n);
    stage.ms(10_000).await;
    stage.healthy().await?;
    stage.say(format!("h{n}: capacity devices return"));
    stage.capacity(n).for_each(|disk| disk.bring_back());
    stage.host(n).restart();
    stage.ms(5000).await;
    stage.rest(false).await
}

async fn wrong_clock(stage: Stage) -> Result<(), String> {
    const MONTH_MS: i64 = 30 * 86_400_000;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let dies = copies[stage.below(2) as usize];
    let wrong = (dies + 1) % stage.hosts();
    let off_ms = if stage.below(2) == 0 { MONTH_MS } else { -MONTH_MS };
    stage.say(format!("h{wrong}: its clock is {off_ms} ms ahead"));
    stage.host(wrong).set_wall_clock_off_ms(off_ms);
    stage.attach(wrong).await?;
    stage.ms(1000).await;
    stage.crash(dies);
    stage.ms(4000).await;
    let right = (wrong + 1) % stage.hosts();
    stage.attach(right).await?;
    // Before the delay is over nothing is rebuilt: the copy may come back.
    stage.ms(REPAIR_DELAY_MS / 2).await;
    if !stage.hosts_of(0).await?.contains(&dies) {
        return Err(format!("h{dies} was replaced before the repair delay was over"));
    }
    stage.ms(REPAIR_DELAY_MS).await;
    stage.healthy_at(right).await?;
    stage.rest(false).await
}

async fn blocks_change(stage: Stage) -> Result<(), String> {
    let hosts: Vec<_> = (0..stage.hosts()).map(|n| stage.host(n).id()).collect();
    for _ in 0..4 {
        stage.say("blocks change on every way");
        for from in &hosts {
            let others = hosts.iter().filter(|to| *to != from);
            others.for_each(|to| stage.cluster.world.change_blocks(*from, *to, 2 + stage.below(30)));
        }
        let n = stage.any();
        stage.crash(n);
        stage.ms(1500).await;
        stage.start(n);
        stage.ms(4000).await;
        stage.cluster.heal_everything();
        stage.healthy().await?;
    }
    let (changed, told) = (stage.cluster.world.traffic().changed, stage.cluster.arrived_changed());
    stage.count("messages with changed blocks", changed);
    if told == 0 || told > changed {
        return Err(format!("{changed} messages had changed blocks, and {told} were told of"));
    }
    stage.rest(false).await
}

/// MiB that each resync of that story copies.
const FILLED_MIB: u64 = 48;
/// MiB a second that it may have beside guests, at most: what a resync begins with (64), and more by a third each time it is told.
const BESIDE_GUESTS_MIB_PER_S: u64 = 96;

async fn slows_for_others(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (of_guests, filled) = (stage.copies_of(0).await?, stage.copies_of(1).await?);
    let target = *of_guests.iter().find(|n| filled.contains(n)).ok_or("no host has a copy of both")?;
    let [guests_at, owner] = [1, 2].map(|step| (target + step) % 3);
    stage.attach_disk(0, guests_at).await?;
    stage.attach_disk(1, owner).await?;
    let free = filled_again(&stage, owner, target).await?;
    stage.guests[0].start_at(guests_at, 4, 4);
    stage.ms(3000).await;
    let beside = filled_again(&stage, owner, target).await?;
    let rate = |took: Duration| u128::from(FILLED_MIB) * 1000 / took.as_millis().max(1);
    stage.count("MiB a second without guests", rate(free) as u64);
    stage.count("MiB a second beside them", rate(beside) as u64);
    if rate(beside) > u128::from(BESIDE_GUESTS_MIB_PER_S) {
        return Err(format!("a resync had {} MiB a second beside guests, {} without", rate(beside), rate(free)));
    }
    if rate(free) < 2 * u128::from(BESIDE_GUESTS_MIB_PER_S) {
        return Err(format!("a resync had {} MiB a second where nobody else was", rate(free)));
    }
    stage.rest(false).await
}

/// How long the resync of the second disk's copy at `target` takes, of which all was written while `owner` did not reach it.
async fn filled_again(stage: &Stage, owner: usize, target: usize) -> Result<Duration, String> {
    stage.cut(owner, target);
    stage.guests[1].fill(owner, false).await?;
    // Whoever filled it is no guest any more.
    stage.ms(1500).await;
    stage.heal_links();
    let began = stage.state_of(1, target, |state| !matches!(state, ComponentState::Absent { .. })).await?;
    let ended = stage.state_of(1, target, ComponentState::in_sync).await?;
    match stage.cluster.node(target).map(|node| node.objects().all_owned().len()) {
        Some(0) => Ok(ended - began),
        owned => Err(format!("h{target} owns {owned:?} disks, and was to own none")),
    }
}

async fn bad_only_source(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (source, target) = (copies[0], copies[1]);
    stage.attach(source).await?;
    stage.crash(target);
    stage.told(Moment::Absent, 8000).await?;
    stage.goes_on(20, 3000).await?;
    stage.guests[0].stop().await;
    // All is on the capacity devices by then.
    stage.ms(3000).await;
    let spoil = Spoil { disk: 0, blocks: 12, pick: stage.cluster.world.random_u64() };
    if spoil_only_source(&stage.cluster, spoil, Duration::from_secs(1)).await < 12 {
        return Err("the copy that is left holds no dozen blocks on its capacity devices".into());
    }
    stage.guests[0].media_errors_judged.set(true);
    stage.start(target);
    let waits = |why: &String| why.contains("no copy in sync can give");
    let mut summary = stage.show(source).await?;
    for _ in 0..100 {
        if summary.reasons.iter().any(waits) {
            break;
        }
        stage.ms(200).await;
        summary = stage.show(source).await?;
    }
    stage.say(format!("{:?}, {} bytes left", summary.reasons, summary.resync_bytes_left));
    if summary.resync_bytes_left > 0 || !summary.reasons.iter().any(waits) {
        return Err(format!("P5: a resync that only waits for bad blocks does not say so: {summary:?}"));
    }
    stage.guests[0].verify_what_is_left().await?;
    let (restored, active) =
        futures::future::join(stage.guests[0].restore(source, false), stage.told(Moment::Active, 15_000)).await;
    stage.count("blocks that no copy could give", restored?);
    active?;
    stage.rest(true).await
}

async fn bad_in_turn(stage: Stage) -> Result<(), String> {
    stage.ms(3000).await;
    stage.guests[0].stop().await;
    stage.ms(3000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.guests[0].media_errors_judged.set(true);
    let spoiled = spoil_copies(&stage.cluster, [copies[0], copies[1]], (40, Where::InTurn));
    if spoiled.len() < 40 {
        return Err(format!("only {} blocks are on the capacity devices of both copies", spoiled.len()));
    }
    stage.guests[0].verify_at(copies[0]).await?;
    stage.ms(1000).await;
    let health = stage.cluster.manage(copies[0], async |node| node.health().await).await.map_err(|e| e.to_string())?;
    if let Some(check) =
        health.checks.iter().find(|check| check.name == "unreadable-blocks" && check.findings_total > 0)
    {
        return Err(format!("P7: blocks that another copy has are told as unreadable: {}", check.text));
    }
    let repaired = stage.cluster.repairs().len() as u64;
    stage.count("repairs", repaired);
    match repaired {
        0 => Err("R3: no block was repaired".into()),
        _ => stage.rest(true).await,
    }
}

async fn bad_and_first(stage: Stage) -> Result<(), String> {
    stage.ms(3000).await;
    stage.guests[0].stop().await;
    // All is told as settled after 5 s at most. What is not would be copied again, whole regions, from the copy with the bad blocks.
    stage.ms(6000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (first, late) = (copies[0], copies[1]);
    let spoiled = spoil_copies(&stage.cluster, [first, late], (12, Where::First));
    if spoiled.len() < 12 {
        return Err(format!("only {} blocks are on the capacity devices of both copies", spoiled.len()));
    }
    (0..stage.hosts()).for_each(|n| stage.crash(n));
    (0..stage.hosts()).filter(|n| *n != late).for_each(|n| stage.start(n));
    stage.told(Moment::Owned, 20_000).await?;
    let comes = async {
        stage.ms(300 + stage.below(2000)).await;
        stage.start(late);
    };
    let (read, ()) = futures::future::join(stage.guests[0].verify_at(first), comes).await;
    read?;
    stage.rest(true).await
}

async fn bits_rot(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let n = copies[stage.below(2) as usize];
    for round in 0..400 {
        stage.ms(25).await;
        let device = stage.host(n).disk(&Shape::device_name(0, Some(stage.below(2) as usize)));
        if let Some(offset) = device.written(1 << 20, stage.below(1 << 20)) {
            device.inject(Fault::BitFlip { offset: offset + stage.below(4096), bit: (round % 8) as u8 });
        }
    }
    stage.guests[0].stop().await;
    stage.healthy().await?;
    stage.guests[0].verify_everywhere().await
}
