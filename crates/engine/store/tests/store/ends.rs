//! The end of the log: damage there is never taken for a torn write, nor a torn write for damage.

use std::time::Duration;

use cairn_env::Env;
use cairn_sim::Fault;
use cairn_store::LogHealth;

use crate::support::{Group, LOG_OFFSET, Rig, create, settle, write};

/// Batches of two blocks, the first a creation: where the last and the one before begin, and where the last ends.
const BEFORE_LAST: u64 = LOG_OFFSET + 4096 + 12288;
const LAST: u64 = BEFORE_LAST + 12288;
const END: u64 = LAST + 12288;

fn three_writes(rig: &Rig) -> Group {
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    for seq in 1..=3 {
        rig.append(&group, write(1, seq, 0, seq * 4, 2)).unwrap();
    }
    group
}

/// Goal: an acknowledged write is there, or the log says that it is damaged, whichever bit of the last two batches was flipped.
/// Method: each 61st bit of them, and all of what a header begins with; it stays known, and what is written then is found.
#[test]
fn a_flipped_bit_of_the_last_batches_is_damage() {
    let mut damaged = 0;
    let bits = |from: u64, to: u64| from * 8..to * 8;
    let dense = bits(BEFORE_LAST, BEFORE_LAST + 160).chain(bits(LAST, LAST + 160)).step_by(3);
    let rig = Rig::new(400, 16);
    rig.close(three_writes(&rig));
    let image = rig.devices().cache.image();
    for bit in dense.chain(bits(BEFORE_LAST, END).step_by(997)) {
        rig.host.add_disk_of("cache", image.clone());
        rig.devices().cache.inject(Fault::BitFlip { offset: bit / 8, bit: (bit % 8) as u8 });
        let group = rig.open();
        if group.log_health() == LogHealth::Sound {
            // What is bad is a block, and is repaired when it is read.
            assert!(bit / 8 >= BEFORE_LAST + 4096 && bit / 8 < LAST, "bit {bit} is not noticed");
            assert_eq!(rig.read(&group, 1, 12, 2), Ok(vec![3, 3]), "bit {bit}");
        } else {
            damaged += 1;
            assert_eq!(rig.read(&group, 1, 4, 2), Ok(vec![1, 1]), "bit {bit}");
            rig.append(&group, write(1, 4, 0, 16, 1)).unwrap();
            let group = rig.reopen(group);
            assert_ne!(group.log_health(), LogHealth::Sound, "bit {bit} is forgotten");
            assert_eq!(rig.read(&group, 1, 16, 1), Ok(vec![4]), "bit {bit}");
            rig.close(group);
            continue;
        }
        rig.close(group);
    }
    assert!(damaged > 300, "{damaged}");
}

/// Goal: as above for parts that cannot be read. Method: each sector of the last batch, and the one that the next would begin with.
#[test]
fn an_unreadable_sector_of_the_last_batch_is_damage() {
    let rig = Rig::new(401, 16);
    rig.close(three_writes(&rig));
    let image = rig.devices().cache.image();
    for offset in (LAST..END + 512).step_by(512) {
        rig.host.add_disk_of("cache", image.clone());
        rig.devices().cache.inject(Fault::LatentSectorError { offset, len_bytes: 512 });
        let group = rig.open();
        assert_ne!(group.log_health(), LogHealth::Sound, "sector at {offset}");
        rig.close(group);
        rig.devices().cache.heal();
    }
}

/// Goal: power that goes within writes of the log leaves no doubt, however they are torn: a host that comes back after a power cut has
/// its votes and its copies. Method: two batches under way, and random sectors of them arrive.
#[test]
fn a_torn_write_is_no_damage() {
    let mut torn = 0;
    for seed in 0..400 {
        let rig = Rig::new(10_000 + seed, 16);
        let group = three_writes(&rig);
        rig.append(&group, settle(1, 2)).unwrap();
        let (env, both) = (rig.host.env(), group.clone());
        rig.run(async move {
            let mut first = Box::pin(both.append(write(1, 4, 2, 20, 1 + (seed % 7) as u32)));
            env.sleep(Duration::from_micros(1)).await;
            let mut second = Box::pin(both.append(write(1, 5, 2, 40, 2)));
            env.sleep(Duration::from_micros(40 + seed)).await;
            let _ = (futures::poll!(&mut first), futures::poll!(&mut second));
        });
        rig.host.crash(seed);
        drop(group);
        rig.host.restart();
        let group = rig.open();
        assert_eq!(group.log_health(), LogHealth::Sound, "seed {seed}");
        torn += u64::from(rig.read(&group, 1, 20, 1) != Ok(vec![4]));
        assert_eq!(rig.read(&group, 1, 12, 2), Ok(vec![3, 3]), "seed {seed}");
        rig.check(&group);
    }
    assert!(torn > 100, "only {torn} were torn");
}
