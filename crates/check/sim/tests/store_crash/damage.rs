//! Damaged media: a block reads right or not at all, whatever bits turned over where.

use cairn_env::Disk;
use cairn_sim::{Fault, Host, Rng, World};
use cairn_store::{LogHealth, StoreErrorKind};
use cairn_types::BlockRange;

use crate::{
    model::Model,
    recording::{Recording, record},
    seen::{expected, look_at_blocks},
    shape::{devices, open},
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
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Outcome {
    /// Everything reads right.
    Harmless,
    /// Some blocks are reported, the others read right.
    Reported,
    /// The log is known to be damaged, or ends before what a peer remembers.
    LogBehind,
    /// It does not open, and says why.
    Refused,
}

/// Opens and reads every block alone.
fn look_at_damage(host: &Host, model: &Model, position: u64, at: String) -> Outcome {
    let (env, parts, model) = (host.env(), devices(host), model.clone());
    let ran = host.run(async move {
        let group = match open(env, parts).await {
            Ok(group) => group,
            Err(error) => {
                assert!(
                    matches!(
                        error.kind,
                        StoreErrorKind::Damaged | StoreErrorKind::Media | StoreErrorKind::Missing
                    ),
                    "{at}: {error:?}"
                );
                return Outcome::Refused;
            }
        };
        if group.log_health() != LogHealth::Sound || group.durable_position() < position {
            group.close().await;
            return Outcome::LogBehind;
        }
        let expected = expected(&model);
        let mut outcome = Outcome::Harmless;
        for (&id, want) in &expected.components {
            for block in 0..want.size_blocks {
                match look_at_blocks(&group, id, BlockRange::new(block, 1)).await {
                    Ok(seen) => assert_eq!(
                        seen,
                        [want.blocks[block as usize]],
                        "{at}: {id:?} block {block}"
                    ),
                    Err(error) => {
                        assert!(
                            matches!(
                                error.kind,
                                StoreErrorKind::BadBlock { .. } | StoreErrorKind::Damaged
                            ),
                            "{at}: {error:?}"
                        );
                        outcome = Outcome::Reported;
                    }
                }
            }
        }
        group.close().await;
        outcome
    });
    ran.unwrap()
}

fn sweep(what: &str, disk: &str, range: std::ops::Range<u64>, seeds: u64) -> Vec<Outcome> {
    let recording = record(3, 220);
    let model = recording.log.last_quiet();
    let mut outcomes = vec![];
    for seed in 0..seeds {
        let (_world, host) = at_rest(&recording, seed);
        let device = host.disk(disk);
        let end = range.end.min(device.len_bytes());
        let mut rng = Rng::new(seed);
        // In the part of the device that is written at all, so that most damage hits something.
        let mut offset = rng.between(range.start, end - 1);
        for _ in 0..200 {
            if device
                .peek(offset / 4096 * 4096, 4096)
                .iter()
                .any(|b| *b != 0)
            {
                break;
            }
            offset = rng.between(range.start, end - 1);
        }
        let bit = rng.below(8) as u8;
        match rng.below(3) {
            0 | 1 => device.inject(Fault::BitFlip { offset, bit }),
            _ => device.poke(offset / 512 * 512, &[0; 512]),
        }
        let at = format!("{what}, seed {seed}: offset {offset} of {disk}");
        outcomes.push(look_at_damage(&host, &model, recording.position, at));
    }
    let count = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
    println!(
        "{what}: {seeds} damages: {} harmless, {} reported, {} known as a log that is behind, {} refused to open",
        count(Outcome::Harmless),
        count(Outcome::Reported),
        count(Outcome::LogBehind),
        count(Outcome::Refused)
    );
    outcomes
}

#[test]
fn damage_of_a_capacity_device_is_reported() {
    let outcomes = sweep("capacity segments", "capacity-0", 1 << 20..u64::MAX, 150);
    assert!(outcomes.contains(&Outcome::Reported));
    assert!(!outcomes.contains(&Outcome::LogBehind) && !outcomes.contains(&Outcome::Refused));
}

#[test]
fn damage_of_the_log_is_reported_or_known_to_peers() {
    let log = (1 << 20) + (6 << 20);
    let outcomes = sweep("log", "cache", log..log + (512 << 10), 150);
    assert!(outcomes.contains(&Outcome::Reported) || outcomes.contains(&Outcome::LogBehind));
    assert!(!outcomes.contains(&Outcome::Refused));
}

#[test]
fn damage_of_superblocks_leaves_the_other_copy() {
    let outcomes = sweep("first superblock", "cache", 0..4096, 30);
    assert!(outcomes.iter().all(|o| *o == Outcome::Harmless));
}

#[test]
fn damage_of_the_metadata_is_reported() {
    sweep("metadata", "cache", 1 << 20..7 << 20, 200);
}
