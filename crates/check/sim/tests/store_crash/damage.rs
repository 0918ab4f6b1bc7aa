//! Damaged media: a block reads right or not at all, whatever bits turned over where.

use std::{ops::Range, panic::AssertUnwindSafe};

use cairn_env::Disk;
use cairn_sim::{Fault, Host, Rng, World};
use cairn_store::{LogHealth, StoreError, StoreErrorKind};
use cairn_types::BlockRange;

use crate::{
    model::Model,
    recording::{Recording, record, record_with},
    seen::{expected, is_bad, look_at_blocks},
    shape::{CAPACITY, Group, devices, open},
};

/// The devices as the workload left them, closed.
fn at_rest(recording: &Recording, seed: u64) -> (World, Host) {
    let world = World::new(seed);
    let host = world.add_host_with_id("a", recording.host_id);
    for (name, medium) in &recording.at_rest {
        host.add_disk_of(name, medium.clone());
    }
    (world, host)
}

/// What came of one damage.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Outcome {
    /// Everything reads right.
    Harmless,
    /// Some blocks are reported, the others read right.
    Reported,
    /// The log is known to be damaged, or ends before what a peer remembers.
    LogBehind,
    /// It does not open, and says why.
    Refused,
    /// The process stopped.
    Stopped,
}

/// Opens and reads every block alone. An error tells of a wrong byte.
fn look_at_damage(host: &Host, model: &Model, position: u64) -> Result<Outcome, String> {
    let (env, parts, model) = (host.env(), devices(host), model.clone());
    let ran = host.run(async move {
        let group = match open(env, parts).await {
            Ok(group) => group,
            Err(error) if is_damage(&error) => return Ok(Outcome::Refused),
            Err(error) => return Err(format!("{error:?}")),
        };
        if group.log_health() != LogHealth::Sound || group.durable_position() < position {
            group.close().await;
            return Ok(Outcome::LogBehind);
        }
        let outcome = compare(&group, &model).await;
        group.close().await;
        outcome
    });
    ran.expect("no crash was planned")
}

fn is_damage(error: &StoreError) -> bool {
    matches!(
        error.kind,
        StoreErrorKind::Damaged | StoreErrorKind::Media | StoreErrorKind::Missing | StoreErrorKind::BadBlock { .. }
    )
}

async fn compare(group: &Group, model: &Model) -> Result<Outcome, String> {
    let mut outcome = Outcome::Harmless;
    for (&id, want) in &expected(model).components {
        for block in 0..want.size_blocks {
            let want = want.blocks[block as usize];
            match look_at_blocks(group, id, BlockRange::new(block, 1)).await {
                Ok(seen) if seen == [want] => {}
                Ok(seen) if seen.iter().all(|tag| is_bad(*tag)) => outcome = Outcome::Reported,
                Ok(seen) => return Err(format!("{id:?} block {block}: {seen:?}, not {want:?}")),
                Err(error) if is_damage(&error) => outcome = Outcome::Reported,
                Err(error) => return Err(format!("{id:?} block {block}: {error:?}")),
            }
        }
    }
    Ok(outcome)
}

/// A bit turned over, a sector of zeroes or one that cannot be read, somewhere in what is written of the range.
fn damage(host: &Host, disk: &str, range: Range<u64>, rng: &mut Rng) -> u64 {
    let device = host.disk(disk);
    let end = range.end.min(device.len_bytes());
    let mut offset = rng.between(range.start, end - 1);
    for _ in 0..200 {
        let block = device.peek(offset / 4096 * 4096, 4096);
        if block.iter().any(|b| *b != 0) {
            break;
        }
        offset = rng.between(range.start, end - 1);
    }
    let bit = rng.below(8) as u8;
    match rng.below(4) {
        0 => device.poke(offset / 512 * 512, &[0; 512]),
        1 => device.inject(Fault::LatentSectorError { offset, len_bytes: 512 }),
        _ => device.inject(Fault::BitFlip { offset, bit }),
    }
    offset
}

/// Looks at one group after it was closed, with `harm` done to its devices.
fn look_again(recording: &Recording, seed: u64, what: &str, harm: impl Fn(&Host) -> u64) -> Outcome {
    let model = recording.log.last_quiet();
    let looked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let (_world, host) = at_rest(recording, seed);
        let offset = harm(&host);
        look_at_damage(&host, &model, recording.position).map_err(|wrong| (offset, wrong))
    }));
    match looked {
        Ok(Ok(outcome)) => outcome,
        Ok(Err((offset, wrong))) => panic!("{what}, seed {seed}, offset {offset}: {wrong}"),
        Err(_) => Outcome::Stopped,
    }
}

fn sweep(what: &str, disk: &str, range: Range<u64>, seeds: u64) -> Vec<Outcome> {
    let recording = record(3, 220);
    let mut outcomes = vec![];
    for seed in 0..seeds {
        let harm = |host: &Host| damage(host, disk, range.clone(), &mut Rng::new(seed));
        outcomes.push(look_again(&recording, seed, what, harm));
    }
    tell(what, &outcomes);
    outcomes
}

fn tell(what: &str, outcomes: &[Outcome]) {
    let count = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
    println!(
        "{what}: {} damages: {} harmless, {} reported, {} known as a log that is behind, {} refused to open, {} \
         stopped the process",
        outcomes.len(),
        count(Outcome::Harmless),
        count(Outcome::Reported),
        count(Outcome::LogBehind),
        count(Outcome::Refused),
        count(Outcome::Stopped)
    );
}

/// Runs the workload while a device does wrong silently, and looks at what it left.
fn silent(what: &str, disk: &'static str, seeds: u64, fault: impl Fn(&mut Rng) -> Fault) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = (0..seeds)
        .map(|seed| {
            let mut rng = Rng::new(seed);
            let faults = (0..3).map(|_| (rng.below(180) as usize, disk, fault(&mut rng)));
            let recording = record_with(seed, 220, faults.collect());
            look_again(&recording, seed, what, |_| 0)
        })
        .collect();
    tell(what, &outcomes);
    outcomes
}

#[test]
fn damage_of_a_capacity_device_is_reported() {
    let outcomes = sweep("capacity segments", "capacity-0", 1 << 20..u64::MAX, 150);
    assert!(outcomes.contains(&Outcome::Reported));
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Harmless | Outcome::Reported)));
}

#[test]
fn damage_of_the_log_is_reported_or_known_to_peers() {
    let log = (1 << 20) + (6 << 20);
    let outcomes = sweep("log", "cache", log..log + (512 << 10), 150);
    assert!(outcomes.contains(&Outcome::Reported) || outcomes.contains(&Outcome::LogBehind));
    assert!(!outcomes.contains(&Outcome::Refused) && !outcomes.contains(&Outcome::Stopped));
}

#[test]
fn damage_of_superblocks_leaves_the_other_copy() {
    let outcomes = sweep("first superblock", "cache", 0..4096, 30);
    assert!(outcomes.iter().all(|o| *o == Outcome::Harmless));
}

/// The weakest place: there is one copy, but nothing wrong is read, and a damaged page is refused (docs/fault-model.md).
#[test]
fn damage_of_the_metadata_shows_no_wrong_byte() {
    let outcomes = sweep("metadata", "cache", 1 << 20..7 << 20, 600);
    assert!(outcomes.contains(&Outcome::Refused));
    assert!(!outcomes.contains(&Outcome::Stopped));
}

#[test]
fn lost_and_misdirected_writes_are_reported() {
    let lost = silent("lost writes of a capacity device", CAPACITY[0], 40, |_| Fault::LostWriteNext);
    let astray = silent("misdirected writes of a capacity device", CAPACITY[0], 40, |rng| {
        let by_bytes = rng.between(1, 300) * 4096;
        Fault::MisdirectedWriteNext { by_bytes }
    });
    for outcomes in [lost, astray] {
        assert!(outcomes.contains(&Outcome::Reported));
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Harmless | Outcome::Reported)));
    }
}

/// Goal: a group that was closed holds what it should, whatever the order of things was. Method: many short workloads without a fault.
#[test]
fn without_a_fault_all_is_there() {
    let outcomes: Vec<Outcome> =
        (0..150).map(|seed| look_again(&record_with(seed, 220, Vec::new()), seed, "no fault", |_| 0)).collect();
    assert!(outcomes.iter().all(|o| *o == Outcome::Harmless));
}
