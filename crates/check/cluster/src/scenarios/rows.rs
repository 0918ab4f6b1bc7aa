//! Stories of disks in rows of data and parity: owners that die within small writes, members that miss them, rows that do not agree.

use std::collections::BTreeSet;

use cairn_faults::Moment;
use cairn_geometry::{Area, RowRole, Rows, StripPart};
use cairn_node::GroupStore;
use cairn_sim::SimEnv;
use cairn_types::{BlockRange, ComponentId, Member, ObjectConfig};
use futures::FutureExt as _;

use super::{
    Scenario, Stage,
    differences::{self, take_last_back},
    owners,
    scrubs::{self, named},
};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [of_rows(), as_of_mirrors()].into_iter().flatten().collect()
}

fn crowded(hosts: usize, data: u8, parity: u8) -> Shape {
    Shape::plain(hosts).crowded().in_rows(data, parity)
}

/// What only rows can get wrong.
fn of_rows() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "16b. the owner dies within a small write, on rows",
            (
                "every row is that of one state: whoever takes over has a write at all members that it concerns, or undoes it",
                "guests on few blocks; the owner loses power at a disk operation that is drawn, in every other round with another member away",
            ),
            (Shape::plain(4).small().in_rows(2, 1), 12),
            owner_dies,
        ),
        Scenario::new(
            "16b. the owner of RAID-6 dies within a small write",
            ("as with one strip of parity, with one or two members away", "as with one strip of parity"),
            (Shape::plain(6).small().in_rows(3, 2), 6),
            owner_dies,
        ),
        Scenario::new(
            "16c. rows whose members missed writes, and return in each order",
            (
                "what an absent member missed is there once it is in sync: of data and of parity, and where both are away",
                "two members of 2+2 are cut off one after the other under load; they return in either order, and another one is away at once",
            ),
            (crowded(5, 2, 2), 6),
            missed,
        ),
        Scenario::new(
            "16d. a member of rows that no write concerns",
            (
                "it is not refuted by what others took: nobody but the dead owner's member is filled anew",
                "one strip is written for long, and nothing else; the owner dies, and its member with it",
            ),
            (Shape::plain(4).in_rows(2, 1), 4),
            not_concerned,
        ),
        Scenario::new(
            "17. a row that does not agree with its parity",
            (
                "what would be made from it is refused, and no wrong byte is read; once parity is made anew it is whole again",
                "parity loses single writes of one column, without a trace; the host of another column is away, and that is read; then it is written",
            ),
            (Shape::plain(3).in_rows(2, 1), 8),
            disagrees,
        ),
        Scenario::new(
            "17c. rows are compared at rest",
            (
                "each place whose parity lost a write is named, in all its columns, and nothing else; a write of one of them makes it whole, and any member may be lost then",
                "parity loses single writes, without a trace; owners compare; each block is written once more; another host dies",
            ),
            (Shape::plain(4).in_rows(2, 1).comparing(1500), 6),
            compared,
        ),
        Scenario::new(
            "17b. members of rows lose writes at rest",
            (
                "a scrub finds what went bad of data and of parity, and what is made of the row repairs it, before a host is lost",
                "a host's capacity devices lose writes, put them elsewhere and turn bits over, under load; all of it is scrubbed",
            ),
            (Shape::plain(4).in_rows(2, 1), 6),
            scrubs::lost_and_misdirected,
        ),
    ]
}

/// What is told of mirrors, on rows.
fn as_of_mirrors() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "17c. rows are compared under load and owners that change",
            (
                "nothing is told to differ that does not, and guests go on",
                "crowded guests on 2+1, rows compared every 20 ms; hosts lose power and come back, and owners change",
            ),
            (crowded(4, 2, 1).comparing(1), 4),
            differences::no_false_alarm,
        ),
        Scenario::new(
            "8. a take-over races small writes to rows",
            (
                "a write whose parity waits for its group commit is in the window that the new owner sees, or refused",
                "the disk moves from host to host every 100 ms while all log devices are slow",
            ),
            (crowded(4, 3, 1), 8),
            owners::take_over_races_appends,
        ),
        Scenario::new(
            "11. a cold start of rows in any order",
            (
                "nobody serves old bytes, and all is well soon",
                "all hosts lose power and start up to 4 s apart, four times",
            ),
            (Shape::plain(4).read_everywhere().in_rows(3, 1), 3),
            owners::cold_start,
        ),
        Scenario::new(
            "15. a retry to rows is carried out twice",
            (
                "a request that is repeated at the next owner is done once in each of its strips",
                "the disk is handed round under load, connections are reset, and answers get lost",
            ),
            (crowded(4, 2, 1), 3),
            owners::handed_round,
        ),
        Scenario::new(
            "P6. one failure stalls nobody for long on rows",
            (
                "a process of a member that died: under 1 s; a silent member or a lost owner: under a lease (2 s), a notice and a take-over",
                "each kind of failure eight times, one at a time; the longest wait of any guest at a host that did not fail",
            ),
            (crowded(4, 2, 1), 2),
            owners::one_failure_stalls,
        ),
    ]
}

/// Rounds of the stories of owners that die.
const ROUNDS: u64 = 12;
/// Disk operations until the owner loses power, at most.
const OPERATIONS_MAX: u64 = 60;

async fn owner_dies(stage: Stage) -> Result<(), String> {
    let most_away = usize::from(stage.cluster.ftt(0)) - 1;
    for round in 0..ROUNDS {
        stage.ms(300 + stage.below(700)).await;
        let (members, _) = stage.copies_and_witnesses().await?;
        let owner = members[stage.below(members.len() as u64) as usize];
        stage.attach(owner).await?;
        let others: Vec<usize> = members.iter().copied().filter(|n| *n != owner).collect();
        let first = stage.below(others.len() as u64) as usize;
        // With one strip of parity the other member is back, and being filled, when the owner dies.
        let away: Vec<usize> = (0..most_away.max(1)).map(|n| others[(first + n) % others.len()]).collect();
        if round % 2 == 1 {
            away.iter().for_each(|n| stage.isolate(*n));
            stage.told(Moment::Absent, 8000).await?;
            stage.ms(stage.below(500)).await;
            if most_away == 0 {
                stage.heal_links();
                stage.told(Moment::Resyncing, 8000).await?;
            }
        }
        let after = 1 + stage.below(OPERATIONS_MAX);
        stage.crash_at(owner, after);
        stage.ms(3000 + stage.below(2000)).await;
        stage.host(owner).no_planned_crash();
        stage.start(owner);
        stage.heal_links();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn missed(stage: Stage) -> Result<(), String> {
    for round in 0..4 {
        stage.ms(500).await;
        let (members, _) = stage.copies_and_witnesses().await?;
        let drawn = stage.below(4) as usize;
        let [owner, one, two, third] = [0, 1, 2, 3].map(|n| members[(drawn + n) % 4]);
        stage.attach(owner).await?;
        for n in [one, two] {
            stage.isolate(n);
            stage.told(Moment::Absent, 8000).await?;
            stage.goes_on(10, 1500).await?;
        }
        let (back, later) = if round % 2 == 0 { (one, two) } else { (two, one) };
        stage.heal_links();
        stage.isolate(later);
        // In sync or not, another one goes: the row has as many as it needs, or waits.
        stage.ms(stage.below(3000)).await;
        stage.say(format!("h{back} is back, and h{third} goes"));
        stage.crash(third);
        stage.ms(2000 + stage.below(2000)).await;
        stage.start(third);
        stage.heal_links();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

/// Where a block of the disk is: member, row and blocks of the component.
fn part_of(config: &ObjectConfig, block: u64) -> (Rows, StripPart) {
    let rows = Rows::of(config.addresses.redundancy(0)).expect("a disk in rows");
    let piece = Area::at(config, block).split(BlockRange::new(block, 1)).next();
    let part = rows.parts(piece.expect("a block of the disk").range).next();
    (rows, part.expect("a part"))
}

fn member(config: &ObjectConfig, index: u32) -> Member {
    *config.members.iter().find(|m| m.copy() == Some(index)).expect("a member of this index")
}

/// Writes of the story of a member at rest.
const WRITES: usize = 200;

async fn not_concerned(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    stage.guests[0].stop().await;
    let config = stage.config(0).await?;
    let (_, part) = part_of(&config, 0);
    let owner = stage.number(member(&config, part.member).host);
    let other = (0..stage.hosts()).find(|n| *n != owner).expect("another host");
    stage.attach(owner).await?;
    for n in 0..WRITES {
        stage.guests[0].write_block(owner, n as u64 % 8).await?;
    }
    let filled = stage.cluster.next_to_tell(Moment::Resyncing);
    stage.crash(owner);
    stage.attach(other).await?;
    stage.guests[0].verify_at(other).await?;
    stage.ms(3000).await;
    if filled.now_or_never().is_some_and(|told| told.is_ok()) {
        return Err("P6: a member is filled anew that no write concerned".into());
    }
    stage.start(owner);
    stage.rest(false).await
}

/// Blocks whose parity loses a write, at most.
const LOST: usize = 12;

/// The member of this index, with its store.
fn store_of(
    stage: &Stage,
    config: &ObjectConfig,
    index: u32,
) -> Result<(usize, GroupStore<SimEnv>, ComponentId), String> {
    let member = member(config, index);
    let n = stage.number(member.host);
    let node = stage.cluster.node(n).ok_or_else(|| format!("h{n} is down"))?;
    let store = node.stores().into_iter().find(|store| store.group().id() == member.disk_group);
    Ok((n, store.ok_or("its disk group is not open")?, member.component))
}

/// Writes a block at `at`, and has the parity of its row take that back by itself. False: the guest gave up.
async fn lose_parity(stage: &Stage, config: &ObjectConfig, at: usize, block: u64) -> Result<bool, String> {
    if !stage.guests[0].write_block(at, block).await? {
        return Ok(false);
    }
    let (rows, part) = part_of(config, block);
    let (n, store, component) = store_of(stage, config, rows.member(part.row, RowRole::Parity(0)))?;
    take_last_back(stage, n, (&store, component)).await?;
    Ok(true)
}

/// The block of the disk in the same row, at the same position, and in the other column.
fn neighbour(config: &ObjectConfig, block: u64) -> u64 {
    let (rows, part) = part_of(config, block);
    let (strip, row) = (rows.strip_blocks(), rows.row_blocks());
    let (start, at) = (block / row * row, block % row);
    assert_eq!(at / strip, u64::from(part.column), "a disk with one set");
    start + (at + strip) % row
}

async fn disagrees(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let config = stage.config(0).await?;
    let away = stage.any();
    let owner = (away + 1) % stage.hosts();
    stage.attach(owner).await?;
    stage.guests[0].fill(owner, false).await?;
    let is_at = |index: u32| stage.number(member(&config, index).host) == away;
    // Blocks whose neighbour is at the host that goes: data and parity of their row stay.
    let (mut lost, mut tried): (BTreeSet<u64>, BTreeSet<u64>) = (BTreeSet::new(), BTreeSet::new());
    while lost.len() < LOST {
        let block = stage.below(5 * 256 - 64);
        let other = neighbour(&config, block);
        if tried.insert(block)
            && is_at(part_of(&config, other).1.member)
            && lose_parity(&stage, &config, owner, block).await?
        {
            lost.insert(other);
        }
    }
    stage.crash(away);
    stage.told(Moment::Absent, 8000).await?;
    let refused = stage.guests[0].refused(owner).await?;
    stage.count("blocks refused", refused.len() as u64);
    if refused != lost {
        return Err(format!("P4: the rows of {lost:?} do not agree, and {refused:?} are refused"));
    }
    for block in lost {
        while !stage.guests[0].write_block(owner, block).await? {}
    }
    stage.guests[0].verify_at(owner).await?;
    stage.start(away);
    stage.rest(true).await
}

async fn compared(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    stage.guests[0].stop().await;
    let config = stage.config(0).await?;
    let owner = stage.any();
    stage.attach(owner).await?;
    stage.guests[0].fill(owner, false).await?;
    let (mut lost, mut places): (BTreeSet<u64>, BTreeSet<u64>) = (BTreeSet::new(), BTreeSet::new());
    while lost.len() < LOST {
        let block = stage.below(5 * 256 - 64);
        if !places.contains(&block) && lose_parity(&stage, &config, owner, block).await? {
            lost.insert(block);
            places.extend([block, neighbour(&config, block)]);
        }
    }
    differences::until(&stage, "what does not fit is named", |scrubs| named(scrubs) == places).await?;
    stage.count("places whose parity was told not to fit", lost.len() as u64);
    for block in lost {
        while !stage.guests[0].write_block(owner, block).await? {}
    }
    differences::until(&stage, "what was written is named no more", |scrubs| named(scrubs).is_empty()).await?;
    stage.cluster.take_differences();
    // Two passes more.
    stage.ms(4000).await;
    let (members, _) = stage.copies_and_witnesses().await?;
    let other = *members.iter().find(|n| **n != owner).expect("three members");
    stage.crash(other);
    stage.told(Moment::Absent, 8000).await?;
    stage.guests[0].verify_at(owner).await?;
    stage.start(other);
    stage.healthy().await?;
    stage.rest(true).await
}
