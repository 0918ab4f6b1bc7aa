//! Stories of space and of size on disks in rows: trims, groups that are full, one block for ever, many disks, rebuilds that are cut short.

use cairn_api::LocalManagement as _;
use cairn_faults::Moment;
use cairn_geometry::Area;
use cairn_types::ComponentState;

use super::{
    Scenario, Stage,
    space::{full, hosts_start, large_cluster, large_cluster_fails_over, reserved, tight, trimmed_and_written_again},
};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [space(), size()].into_iter().flatten().collect()
}

fn space() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "20p. trims that members of rows have missed",
            (
                "what was trimmed meanwhile reads as zeroes, also where it is made of others; its space comes back at data and at parity",
                "2+2 on 5 hosts: all of the disk, or much of it with edges within rows, is trimmed while one or two members are away; they come back, others die",
            ),
            (Shape::plain(5).in_rows(2, 2), 4),
            missed_trims,
        ),
        Scenario::new(
            "21p. everything is full, with rows",
            (
                "reads, overwrites of what is reserved, trims, deletions and a take-over work, and space comes back",
                "disks with full reservation take all space of a host of 2+1; the owner dies; then they are deleted",
            ),
            (reserved().in_rows(2, 1), 4),
            full,
        ),
        Scenario::new(
            "21p. a full disk in rows that is trimmed",
            (
                "no member keeps what another one refused, every byte is that of its last answer, and what was trimmed is room at once",
                "a disk of 2+1 is written until there is no space, trimmed as a whole, and written again from its other end",
            ),
            (twice_as_tight(), 3),
            trimmed_and_written_again,
        ),
    ]
}

fn size() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "22p. one block of rows for ever",
            (
                "what is kept of a block does not grow with its writes: each member starts within seconds",
                "20,000 writes of one block of 3+1, and destage that begins late; then members lose power one after the other",
            ),
            (one_block(), 2),
            hot_block,
        ),
        Scenario::new(
            "23p. a host of a large cluster dies with many disks in rows",
            (
                "every disk is served again within the bound, all together",
                "24 hosts, 40 disks in 3+1, two guests on each; a host dies, and another one 10 s later",
            ),
            (large_cluster().in_rows(3, 1), 1),
            large_cluster_fails_over,
        ),
        Scenario::new(
            "23p. the rebuild of a member of rows is cut short twice",
            (
                "it is made again from where it is whole, and hosts send no more than each try reads and writes",
                "3+1 on 6 hosts: each member in turn dies for good; whoever fills its successor, or holds it, dies twice in the midst",
            ),
            (Shape::plain(6).in_rows(3, 1), 3),
            rebuilt,
        ),
    ]
}

/// As [`tight`], with the same room for each member.
fn twice_as_tight() -> Shape {
    let mut shape = tight().in_rows(2, 1);
    shape.disks[0].size_bytes *= 2;
    shape
}

fn one_block() -> Shape {
    let mut shape = Shape::plain(5).in_rows(3, 1);
    (shape.destage_percent, shape.idle_destage_ms) = (80, 0);
    shape.disks[0].guests = 0;
    shape
}

/// How long a trim's space may take to come back.
const FREED_WITHIN_MS: u64 = 20_000;

async fn missed_trims(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    let (members, _) = stage.copies_and_witnesses().await?;
    let (owner, away) = (members[0], [members[1], members[2]]);
    stage.attach(owner).await?;
    let count = 1 + stage.below(2) as usize;
    for n in &away[..count] {
        stage.crash(*n);
        stage.told(Moment::Absent, 12_000).await?;
    }
    stage.guests[0].stop().await;
    stage.guests[0].fill(owner, false).await?;
    let edges = stage.below(2) == 1;
    stage.guests[0].trim_all_but(owner, if edges { 1 + stage.below(300) } else { 0 }).await?;
    stage.guests[0].verify_at(owner).await?;
    away[..count].iter().for_each(|n| stage.start(*n));
    stage.healthy().await?;
    for n in [members[0], members[3]] {
        stage.crash(n);
    }
    stage.ms(8000).await;
    stage.guests[0].verify_at(away[0]).await?;
    for n in [members[0], members[3]] {
        stage.start(n);
    }
    stage.healthy().await?;
    if !edges {
        is_freed(&stage, away[0]).await?;
    }
    stage.rest(false).await
}

/// No member takes anything.
async fn is_freed(stage: &Stage, at: usize) -> Result<(), String> {
    let mut last = None;
    for _ in 0..FREED_WITHIN_MS / 250 {
        let shown = stage.cluster.manage(at, async |node| node.disk_show(Shape::disk_name(0)).await).await;
        last = shown.map_err(|e| e.to_string())?.allocated_bytes;
        if last == Some(0) {
            return Ok(());
        }
        stage.ms(250).await;
    }
    Err(format!("all was trimmed, and the disk takes {last:?} bytes"))
}

const HOT_WRITES: u64 = 20_000;

async fn hot_block(stage: Stage) -> Result<(), String> {
    let (members, _) = stage.copies_and_witnesses().await?;
    stage.attach(members[0]).await?;
    let guests = &stage.guests[0];
    guests.fill(members[0], false).await?;
    for _ in 0..HOT_WRITES {
        guests.write_block(members[0], 7).await?;
    }
    hosts_start(&stage, &members).await?;
    guests.verify_at(members[1]).await?;
    stage.rest(false).await
}

/// Bytes that hosts may say beside the copies of a try: heartbeats and records.
const BESIDE_MAX: u64 = 8 << 20;

async fn rebuilt(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    stage.guests[0].stop().await;
    let (mut members, _) = stage.copies_and_witnesses().await?;
    stage.guests[0].fill(members[0], false).await?;
    for round in 0..4 {
        let lost = members[round % members.len()];
        let owner = members[(round + 1) % members.len()];
        stage.attach(owner).await?;
        let config = stage.config(0).await?;
        let area = Area::at(&config, 0);
        let strips = u64::from(area.rows().expect("a disk in rows").data());
        let component_bytes = area.component_bytes(0);
        let (result, traffic) = stage.traffic(replaced(&stage, (lost, owner))).await;
        let tries = result?;
        stage.count("KiB sent for a member of rows, rebuilt in three tries", traffic.bytes >> 10);
        // Each try reads as many strips as there are of data, and writes one.
        let most = tries * component_bytes * (strips + 1) + BESIDE_MAX;
        if traffic.bytes > most {
            return Err(format!("{traffic:?} for a member of {component_bytes} bytes in {tries} tries"));
        }
        stage.guests[0].verify_everywhere().await?;
        members = stage.copies_and_witnesses().await?.0;
    }
    stage.rest(false).await
}

/// The member at `lost` dies for good and is made anew elsewhere; in the midst of that its new host dies, and then the owner. In how many
/// tries.
async fn replaced(stage: &Stage, (lost, owner): (usize, usize)) -> Result<u64, String> {
    stage.crash(lost);
    let mut tries = 1;
    for target_dies in [true, false] {
        if stage.told(Moment::Resyncing, 30_000).await.is_err() {
            break;
        }
        let config = stage.config(0).await?;
        let filled = config.members.iter().find(|m| matches!(m.state, ComponentState::Resyncing { .. }));
        let Some(filled) = filled.map(|m| stage.number(m.host)) else { continue };
        let dies = if target_dies { filled } else { owner };
        stage.ms(stage.below(60)).await;
        stage.crash(dies);
        tries += 1;
        stage.ms(3000).await;
        stage.start(dies);
    }
    stage.start(lost);
    stage.healthy().await?;
    Ok(tries)
}
