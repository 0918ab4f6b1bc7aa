//! Stories of disk groups that pack what they destage, and store equal blocks once.

use cairn_api::v1;

use super::{Scenario, Stage, caches::counters, scrubs, space::tight};
use crate::{
    bad_blocks::rot_common,
    groups::{packs, rewrites, shares},
    shape::Shape,
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "18. devices are full of packed blocks, and are written over by what does not pack",
            (
                "more is there than fits unpacked; what finds no room is refused, and no byte is wrong; what is trimmed is room again",
                "disk groups pack; a disk is written until there is no space, trimmed in its middle, written over from its beginning, trimmed, and written again; a host loses power in between",
            ),
            (of_much_text(), 3),
            packed_written_over,
        ),
        Scenario::new(
            "18. devices are full of equal blocks, and are written over by others",
            (
                "more is there than fits each by itself; what finds no room is refused, and no byte is wrong; what is trimmed is room again",
                "disk groups store equal blocks once; a disk is written until there is no space, trimmed in its middle, written over from its beginning, trimmed, and written again; a host loses \
                 power in between",
            ),
            (of_much_text(), 3),
            shared_written_over,
        ),
        Scenario::new(
            "18. what many blocks refer to goes bad",
            (
                "each is repaired from the other copy, a repair is not taken for what it repairs, and no byte is wrong",
                "disk groups store equal blocks once; what blocks of one disk refer to goes bad at one copy; the same is written to another disk; scrub goes over all of it, while the \
                 host loses power",
            ),
            (of_few_contents(), 3),
            bad_items,
        ),
        Scenario::new(
            "18. what stands there is written anew while hosts lose power",
            (
                "each start goes on with it, it comes to its end, no byte is wrong, and what is equal or packs takes less than before",
                "two disks are written with contents that are equal in part; disk groups are chosen to pack and to store equal blocks once, and to write anew what is there; a host \
                 loses power meanwhile; then both are switched off, and all is written anew once more, while another one does",
            ),
            (of_few_contents(), 3),
            written_anew,
        ),
    ]
}

/// Devices with room for 75 MiB, and a disk that never fits them.
fn of_much_text() -> Shape {
    let mut shape = tight();
    shape.disks[0].size_bytes = 192 << 20;
    shape.alike = true;
    shape
}

/// Two disks that fit their devices: what guests write to one is like what they write to the other.
fn of_few_contents() -> Shape {
    let mut shape = tight();
    shape.disks[0].size_bytes = 24 << 20;
    shape.disks = vec![shape.disks[0].clone(); 2];
    (shape.idle_destage_ms, shape.alike) = (300, true);
    shape
}

/// Something is chosen of all disk groups of all hosts.
pub(super) async fn choose(stage: &Stage, settings: v1::DiskGroupSettings) -> Result<(), String> {
    for host in 0..stage.hosts() {
        let id = stage.cluster.group_id(host, 0).ok_or_else(|| format!("h{host} has no disk group"))?;
        stage.cluster.choose(id, settings.clone()).await;
        let group = stage.cluster.disk_group(id).await?;
        let is = |wanted: Option<bool>, told: Option<bool>| wanted.is_none_or(|on| told == Some(on));
        if !is(settings.compression, group.compression) || !is(settings.deduplication, group.deduplication) {
            return Err(format!("h{host}: {:?}, {:?} after {settings:?}", group.compression, group.deduplication));
        }
    }
    Ok(())
}

async fn packed_written_over(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    choose(&stage, packs(true)).await?;
    written_over(&stage, FITS_BYTES * 5 / 4).await?;
    stage.rest(false).await
}

async fn shared_written_over(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    choose(&stage, shares(true)).await?;
    // Guests leave a log's worth of room to copies, which here is a quarter.
    written_over(&stage, FITS_BYTES * 9 / 8).await?;
    found_equal(&stage, 1000).await?;
    stage.rest(false).await
}

/// Since hosts started, so many blocks were found to be equal to others.
async fn found_equal(stage: &Stage, blocks: u64) -> Result<(), String> {
    let stores = counters(stage, stage.any()).await?.stores();
    let equal = stores.dedupe_hit_blocks + stores.dedupe_twin_blocks;
    stage.count("equal blocks", equal);
    stage.count("shared items moved", stores.dedupe_moved_items);
    match equal >= blocks {
        true => Ok(()),
        false => Err(format!("{equal} equal blocks were found: {stores:?}")),
    }
}

/// What the devices have room for, each block by itself.
const FITS_BYTES: u64 = 75 << 20;

async fn written_over(stage: &Stage, fits_bytes_min: u64) -> Result<(), String> {
    let at = stage.any();
    stage.attach(at).await?;
    let guests = stage.guests[0].clone();
    guests.stop().await;
    let sectors = guests.fill(at, false).await?;
    stage.count("MiB that fitted", sectors >> 11);
    if sectors * 512 < fits_bytes_min {
        return Err(format!("{sectors} sectors fitted: too little was saved"));
    }
    guests.verify_at(at).await?;
    // Else the first of what is written over is refused: all of it may take more than before.
    let all = guests.model.borrow().len_sectors();
    guests.trim_all_but(at, all * 3 / 8).await?;
    let over = guests.fill(at, false).await?;
    stage.count("MiB written over", over >> 11);
    guests.verify_at(at).await?;
    let other = (at + 1) % stage.hosts();
    stage.crash(other);
    stage.ms(1000).await;
    stage.start(other);
    stage.healthy().await?;
    guests.trim_all(at).await?;
    let again = guests.fill(at, false).await?;
    if again * 512 < FITS_BYTES {
        return Err(format!("{again} sectors fit after all was trimmed"));
    }
    guests.verify_at(at).await
}

async fn bad_items(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    choose(&stage, shares(true)).await?;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (bad, at) = (copies[0], copies[1]);
    stage.attach(at).await?;
    let [guests, others] = [&stage.guests[0], &stage.guests[1]];
    guests.stop().await;
    others.stop().await;
    guests.fill(at, false).await?;
    scrubs::comes_to_rest(&stage).await;
    found_equal(&stage, 1000).await?;
    let count = rot_common(&stage.cluster, bad, 60);
    stage.count("items that went bad", count as u64);
    if count < 40 {
        return Err(format!("only {count} common blocks are on the devices of h{bad}"));
    }
    others.fill(at, false).await?;
    scrubs::start_scrub(&stage).await?;
    stage.ms(200 + stage.below(3000)).await;
    stage.crash(bad);
    stage.ms(1000).await;
    stage.start(bad);
    stage.healthy().await?;
    guests.verify_everywhere().await?;
    others.verify_everywhere().await?;
    scrubs::start_scrub(&stage).await?;
    let told = scrubs::until_scrubbed(&stage).await?;
    let repaired = told.iter().map(|scrub| scrub.repaired_blocks).sum();
    stage.count("blocks repaired", repaired);
    if repaired < count as u64 {
        return Err(format!("{count} items went bad, and {repaired} blocks were repaired: {told:?}"));
    }
    let lost: u64 = told.iter().map(|scrub| scrub.unrepairable_blocks).sum();
    if lost > 0 {
        return Err(format!("{lost} blocks are told as lost, and the other copy has all: {told:?}"));
    }
    scrubs::whole_on_media(&stage).await?;
    stage.rest(true).await
}

async fn written_anew(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let at = copies[0];
    stage.attach(at).await?;
    for guests in &stage.guests {
        guests.stop().await;
        guests.fill(at, false).await?;
    }
    scrubs::comes_to_rest(&stage).await;
    let before = used_bytes(&stage).await?;
    for (on, host) in [(true, copies[0]), (false, copies[1])] {
        choose(&stage, packs(on)).await?;
        choose(&stage, shares(on)).await?;
        choose(&stage, rewrites(true)).await?;
        stage.ms(stage.below(1000)).await;
        stage.crash(host);
        stage.ms(1000 + stage.below(2000)).await;
        stage.start(host);
        stage.healthy().await?;
        until_written_anew(&stage).await?;
        for guests in &stage.guests {
            guests.verify_everywhere().await?;
        }
        let now = used_bytes(&stage).await?;
        stage.count(if on { "MiB saved" } else { "MiB saved once that is off" }, before.saturating_sub(now) >> 20);
        if on && now > before * 3 / 4 {
            return Err(format!("{before} bytes were used, and {now} are once all was written anew"));
        }
    }
    stage.rest(false).await
}

async fn until_written_anew(stage: &Stage) -> Result<(), String> {
    for _ in 0..600 {
        let mut busy = Vec::new();
        for host in 0..stage.hosts() {
            let id = stage.cluster.group_id(host, 0).ok_or_else(|| format!("h{host} has no disk group"))?;
            busy.extend(stage.cluster.disk_group(id).await?.rewriting);
        }
        if busy.is_empty() {
            return Ok(());
        }
        stage.ms(1000).await;
    }
    Err("it does not come to its end".into())
}

/// What stands on all capacity devices.
async fn used_bytes(stage: &Stage) -> Result<u64, String> {
    let mut bytes = 0;
    for host in 0..stage.hosts() {
        let node = stage.cluster.node(host).ok_or_else(|| format!("h{host} is down"))?;
        let stats = node.stores().into_iter().map(|store| store.group().stats());
        bytes += stats.flat_map(|stats| stats.capacity).map(|device| device.live_bytes).sum::<u64>();
    }
    Ok(bytes)
}
