//! The crash sweep of the local store.
//!
//! Goal: power goes at any moment. Everything acknowledged is there, nothing is half done, nothing refused or undone
//! comes back (I3, I6, I8, I9). Every block reads right or not at all (I7). Method: a scripted
//! workload on devices so small that destage and cleaning never rest; an image of all devices before, during and after
//! every one of its disk operations; for each image and several seeds of what is lost: recovery, and a comparison with
//! a slow model. An operation in flight may be there or not, but whole.

mod alike;
mod damage;
mod formats;
mod model;
mod recording;
mod script;
mod seen;
mod shape;

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use cairn_env::Env;
use cairn_sim::{CrashImage, CrashPhase, CrashPoint, Host, Rng, SimDisk, SimEnv, World};
use cairn_store::{DiskGroup, DiskGroupDevices, FormatOptions, LogHealth, Needs};
use cairn_types::{Change, ComponentOp, HostId, ObjectId};

use model::Model;
use recording::{Recording, allowed, record_as};
use script::Stores;
use seen::{Seen, difference, expected, look};
use shape::{Group, add_devices, devices, format_options, identity, open, open_as};

/// Steps of the workload: enough for ten rounds through the log and for cleaning.
const SCRIPT_STEPS: usize = 500;

/// A host with the devices of an image after power was lost.
fn recover(image: &CrashImage, loss_seed: u64, id: HostId) -> (World, Host, Rng) {
    let world = World::new(loss_seed);
    if chosen("CRASH_LOSS").is_some() {
        world.print_trace();
    }
    let host = world.add_host_with_id("a", id);
    let mut rng = Rng::new(loss_seed);
    for (name, medium) in &image.disks {
        let mut medium = medium.clone();
        medium.lose_power(&mut rng);
        host.add_disk_of(name, medium);
    }
    (world, host, rng)
}

/// One crash: recovers the group from an image and compares it with what is allowed.
fn check(recording: &Recording, image: &CrashImage, loss_seed: u64) {
    let at = || format!("image {} ({} {:?}), loss {loss_seed}", image.number, image.operation, image.phase);
    let (_world, host, mut rng) = recover(image, loss_seed, recording.host_id);
    if rng.one_in(3) {
        // Power goes again while it recovers, or soon after.
        let phase = [CrashPhase::Before, CrashPhase::During, CrashPhase::After][rng.below(3) as usize];
        host.crash_at(CrashPoint { operation: rng.between(1, 12), phase, loss_seed: rng.next_u64() });
        let (env, parts) = (host.env(), devices(&host));
        let _ = host.run(async move {
            let group = open(env.clone(), parts).await.unwrap();
            let _ = group.drain().await;
        });
        host.no_planned_crash();
        host.crash(rng.next_u64());
        host.restart();
    }
    let (env, parts) = (host.env(), devices(&host));
    let before = at();
    let allowed = allowed(&recording.log, image.number);
    host.run(async move {
        // Half of the time as before the switch: what the group needs already stays.
        let needs = if loss_seed.is_multiple_of(2) { Needs::NONE } else { Needs::ALL };
        let group = open_as(env.clone(), parts.clone(), needs).await.unwrap_or_else(|e| panic!("{before}: {e}"));
        assert_eq!(group.log_health(), LogHealth::Sound, "{before}");
        sound(&group, &env, &before).await;
        let seen = look(&group).await.unwrap_or_else(|e| panic!("{before}: {e}"));
        let expected: Vec<Seen> = allowed.iter().map(expected).collect();
        let Some(found) = expected.iter().position(|e| *e == seen) else {
            panic!("{before}: {}", difference(&expected, &seen));
        };
        go_on(group, env, parts, allowed[found].clone(), &before).await;
    })
    .unwrap();
}

/// The store's own predicates: counts, references, every block's CRC. A destage that runs meanwhile shows memory
/// between its commit and its effect: what is broken stays so.
async fn sound(group: &Group, env: &SimEnv, at: &str) {
    let mut broken = String::new();
    for _ in 0..4 {
        match group.check_invariants().await {
            Ok(()) => return,
            Err(why) => broken = why,
        }
        env.sleep(Duration::from_millis(40)).await;
    }
    panic!("{at}: {broken}");
}

/// A group that recovered works: it takes writes, settles, drains, and opens again with the same contents.
async fn go_on(group: Group, env: SimEnv, parts: DiskGroupDevices<SimDisk>, mut model: Model, at: &str) {
    let mut operations = vec![Change::Record { object: ObjectId(9), bytes: Bytes::from_static(b"after") }];
    for (&component, c) in &model.components {
        let upto = c.window().last().map_or(c.settled, |(op, ..)| *op);
        operations.push(ComponentOp::Settle { upto }.on(component));
    }
    for operation in operations {
        group.append(operation.clone()).await.unwrap_or_else(|e| panic!("{at}: {e}"));
        model.apply(&operation, 0);
    }
    group.drain().await.unwrap_or_else(|e| panic!("{at}: {e}"));
    sound(&group, &env, at).await;
    let stats = group.stats();
    let allocated: u64 = group.components().iter().map(|c| c.allocated_blocks).sum();
    let visible: usize =
        model.components.values().map(|c| (0..c.size_blocks).filter(|b| c.allocated(*b)).count()).sum();
    assert_eq!(allocated, visible as u64, "{at}: space after everything is settled and drained");
    assert_eq!((stats.log_used_bytes, stats.counters.bad_blocks), (0, 0), "{at}");
    group.close().await;
    drop(group);
    let group = open(env, parts).await.unwrap_or_else(|e| panic!("{at}: {e}"));
    let seen = look(&group).await.unwrap_or_else(|e| panic!("{at}: {e}"));
    let expected = expected(&model);
    assert!(seen == expected, "{at}, after going on: {}", difference(&[expected], &seen));
    group.close().await;
}

/// Makes the deliberate bug that a person chose.
#[cfg(feature = "canaries")]
fn sing() {
    let chosen = std::env::var("CRASH_CANARY").ok();
    let known = |name: String| cairn_types::Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == name);
    cairn_types::Canary::set(chosen.map(|name| known(name).expect("a canary")));
}
#[cfg(not(feature = "canaries"))]
fn sing() {}

fn sweep(seed: u64, stores: Stores) -> (u64, u64) {
    sing();
    let recorded = || record_as(seed, SCRIPT_STEPS, stores);
    let recording = recorded();
    assert_eq!(recording.trace, recorded().trace, "one seed, one run");
    let stats = &recording.stats;
    let counters = &stats.counters;
    let past_log = counters.capacity_write_resync_bytes;
    println!(
        "seed {seed}: {} operations in {} batches, {} disk operations, {} destage rounds, {} bytes destaged, {} cleaned \
         ({} segments), {past_log} bytes of copies past the log, log wrapped {} times, {} shards of the map folded into {} pages, \
         {} pages read",
        stats.counters.log_operations,
        stats.counters.log_writes,
        recording.operations,
        stats.counters.destage_rounds,
        stats.counters.destaged_bytes,
        stats.counters.cleaned_bytes,
        stats.counters.cleaned_segments,
        recording.log_wraps,
        counters.map_shards_folded,
        counters.map_pages_written,
        counters.map_pages_read
    );
    println!("seed {seed}: {:?}", stats.counters);
    assert!(counters.destage_rounds > 10 && recording.log_wraps > 1 && past_log > 0, "the workload is too tame");
    assert!(recording.log.parities() > 20, "the workload has too little parity");
    assert!(recording.log.snapshots() > 20, "the workload has too few snapshots");
    let all = chosen("CRASH_LOSSES");
    let losses = all.unwrap_or(1);
    let mut points = 0;
    let mut failures = vec![];
    for image in &recording.images {
        // Two of the three phases of each operation, in turn, unless more was asked for.
        if all.is_none() && (image.operation + image.phase as u64).is_multiple_of(3) {
            continue;
        }
        for loss_seed in image.number * losses..(image.number + 1) * losses {
            if chosen("CRASH_LOSS").is_some_and(|only| only != loss_seed) {
                continue;
            }
            let checked = || check(&recording, image, loss_seed);
            if std::panic::catch_unwind(AssertUnwindSafe(checked)).is_err() {
                failures.push((image.number, loss_seed));
            }
            points += 1;
        }
    }
    assert!(
        failures.is_empty(),
        "seed {seed}: {} of {points} crash points failed; (image, loss): {:?}; run one alone and with its trace by \
         CRASH_SEED={seed} CRASH_LOSS={}",
        failures.len(),
        &failures[..failures.len().min(20)],
        failures[0].1
    );

    assert_eq!(
        stores != Stores::AsTheyAre,
        stats.counters.packed_blocks > 50 && stats.counters.zero_blocks > 10 && stats.counters.unpacked_blocks > 20
    );
    if stores == Stores::OnceAnew {
        // The cleaner finds nothing to do then.
        assert!(stats.counters.dedupe_hit_blocks > 20, "{stats:?}");
        return (points, stats.counters.rewritten_segments);
    }
    let shares = [
        stats.counters.dedupe_hit_blocks > 40,
        stats.counters.dedupe_twin_blocks > 5,
        stats.counters.dedupe_moved_items > 5,
    ];
    assert_eq!(stores == Stores::Once, stats.counters.dedupe_late_blocks > 0 && !shares.contains(&false));
    (points, stats.counters.cleaned_segments)
}

/// A number that a person chose, to look at one failure.
fn chosen(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn sweep_and_tell(seed: u64, stores: Stores) {
    let (points, cleaned) = sweep(seed, stores);
    println!("seed {seed}: {points} crash points, everything acknowledged is there, nothing is half done");
    assert!(chosen("CRASH_LOSS").is_some() || points > 2000 && cleaned > 2);
}

// Several tests, as the machine has more than one core.
#[test]
fn power_cut_at_every_disk_operation() {
    sweep_and_tell(chosen("CRASH_SEED").unwrap_or(1), Stores::AsTheyAre);
}

#[test]
fn power_cut_at_every_disk_operation_of_a_group_that_packs() {
    sweep_and_tell(chosen("CRASH_SEED").unwrap_or(5), Stores::Packed);
}

#[test]
fn power_cut_at_every_disk_operation_of_a_group_that_stores_equal_blocks_once() {
    sweep_and_tell(chosen("CRASH_SEED").unwrap_or(3), Stores::Once);
}

#[test]
fn power_cut_at_every_disk_operation_while_segments_are_written_anew() {
    sweep_and_tell(chosen("CRASH_SEED").unwrap_or(7), Stores::OnceAnew);
}

#[test]
fn power_cut_at_every_disk_operation_of_another_seed() {
    sweep_and_tell(chosen("CRASH_SEED").unwrap_or(8), Stores::AsTheyAre);
}

/// A crash while a group is made leaves devices that open, or that are formatted again.
#[test]
fn power_cut_while_formatting() {
    let world = World::new(5);
    let host = world.add_host("a");
    add_devices(&host);
    host.capture_crash_images();
    let (env, parts, who) = (host.env(), devices(&host), identity(&host));
    let made = host.run(async move { DiskGroup::format(env, parts, who, &format_options()).await });
    assert_eq!(made, Ok(Ok(())));
    let images = host.take_crash_images();
    let (mut opened, count) = (0, images.len());
    for image in images {
        let (_world, host, _rng) = recover(&image, image.number, host.id());
        let (env, parts, who) = (host.env(), devices(&host), identity(&host));
        let options = FormatOptions { force: true, ..format_options() };
        let ran = host.run(async move {
            if let Ok(group) = open(env.clone(), parts.clone()).await {
                group.close().await;
                return true;
            }
            DiskGroup::format(env.clone(), parts.clone(), who, &options).await.unwrap();
            open(env, parts).await.unwrap().close().await;
            false
        });
        opened += usize::from(ran.unwrap());
    }
    println!("{count} crash points of a format: {opened} opened, the others were formatted again");
    assert!(opened > 0 && opened < count);
}
