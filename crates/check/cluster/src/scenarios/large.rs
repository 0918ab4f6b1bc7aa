//! Stories of size: a host of many, the largest disk, a host with very many disks.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use cairn_volume::Volume;
use futures::future::join_all;

use super::{Scenario, Stage, stage::Traffic};
use crate::{
    cluster::{ABSENT_AFTER, Client, PATIENCE, REPAIR_DELAY},
    rest::{self, Spoiled},
    run::HEALTHY_WITHIN,
    shape::{DiskShape, Shape},
};

/// All of them. `objects`: disks in the story of many.
pub fn all(objects: usize) -> Vec<Scenario> {
    vec![
        Scenario::new(
            "23. a host of 64 dies",
            (
                "every disk is served again within the bound, all together, and hosts do not talk more than before",
                "64 hosts, 64 disks, a guest on each; a host loses power, and another one when all is well again; then all guests stop",
            ),
            (many_hosts(), 1),
            host_of_64_dies,
        ),
        Scenario::new(
            "23. the owner of the largest disk dies",
            (
                "another host serves it within the bound, and all that was written is read",
                "a disk of 62 TiB, which are 249 chunks; its owner loses power, and comes back; the disk is deleted",
            ),
            // Each component wants 64 MiB free where it begins. Simulated devices take memory for what is written only.
            (Shape { capacity_bytes: 8 << 30, ..no_disks(4) }, 1),
            owner_of_largest_disk_dies,
        ),
        Scenario::new(
            "23. a host with very many disks dies",
            (
                "all disks that are in use are served again in time, what it held of them is recorded absent in time, all others can be attached, and those at rest cost no more than few do",
                "1,000 disks (`--objects`) on three hosts, all owned by the first; it loses power when half of them are in use",
            ),
            (Shape { metadata_mib: 20 + objects as u64 / 100, ..no_disks(3) }, 1),
            move |stage| host_with_many_disks_dies(stage, objects),
        ),
    ]
}

/// What P6 allows for a silent host.
const SERVED_WITHIN: Duration = Duration::from_millis(4000);
/// Messages a second and pair of hosts at rest: each asks the other twice, and answers.
const HEARTBEATS_PER_S: u64 = 8;
/// Steps of the world (timers and polls of tasks) that a message may cost, with all that a host does at rest.
const STEPS_PER_MESSAGE_MAX: u64 = 8;
/// Seconds after which an object at rest is looked at, and how many looks there may be at an owner in a second, however many it owns.
const LOOK_EVERY_S: u64 = 5;
const LOOKS_PER_S_MAX: u64 = 50;
/// Steps that a look may cost: the timer, the keeper, and a share of a third for looks that the wake-up before has put off.
const STEPS_PER_LOOK_MAX: u64 = 3;
/// Bytes that a take-over may send for each chunk: its record goes to a few seats and back, some 100 bytes a component.
const CHUNK_BYTES_SENT_MAX: u64 = 4096;
/// Messages and bytes for each disk in use until it is served again: who waits for a lease looks ten times a second whether it
/// has ended.
const DISK_MESSAGES_MAX: u64 = 200;
const DISK_BYTES_SENT_MAX: u64 = 32 << 10;
const BLOCK: u64 = cairn_types::BLOCK_BYTES as u64;

fn many_hosts() -> Shape {
    let mut shape = Shape::plain(64);
    let disk = DiskShape { guests: 1, size_bytes: 1 << 20, ..shape.disks[0].clone() };
    (shape.disks, shape.capacity_devices, shape.pause_max_ms) = (vec![disk; 64], 1, 400);
    shape
}

fn no_disks(hosts: usize) -> Shape {
    Shape { disks: Vec::new(), ..Shape::plain(hosts) }
}

async fn host_of_64_dies(stage: Stage) -> Result<(), String> {
    for _ in 0..2 {
        stage.cluster.wait_healthy_from(0..1, &stage.disks(), HEALTHY_WITHIN).await?;
        let ((), usual) = stage.traffic(stage.ms(4000)).await;
        let n = stage.any();
        stage.guests.iter().for_each(|guests| {
            guests.aside.set(Some(n));
            guests.longest.set(Duration::ZERO);
        });
        stage.crash(n);
        let ((), failover) = stage.traffic(stage.ms(4000)).await;
        let before: Vec<u64> = stage.guests.iter().map(|guests| guests.model.borrow().acked).collect();
        // Those that wait count only when they are answered.
        stage.ms(4000).await;
        let stand = stage.guests.iter().zip(&before).filter(|(g, b)| g.model.borrow().acked <= **b).count();
        let longest = stage.guests.iter().map(|guests| guests.longest.get()).max().unwrap_or_default();
        stage.note("a host of 64 without power".into(), longest);
        stage.count("messages in 4 s before a failure", usual.messages);
        stage.count("messages in 4 s after it", failover.messages);
        stage.count("KiB in those", failover.bytes >> 10);
        if stand > 0 || longest > SERVED_WITHIN {
            return Err(format!("P6: {stand} of {} disks stand still; the longest wait was {longest:?}", before.len()));
        }
        if failover.messages > usual.messages * 3 / 2 {
            return Err(format!("{failover:?} in the 4 s after a failure, and {usual:?} in the 4 s before it"));
        }
        stage.start(n);
        stage.ms(1000).await;
    }
    stage.cluster.wait_healthy_from(0..1, &stage.disks(), HEALTHY_WITHIN).await?;
    for guests in &stage.guests {
        guests.stop().await;
    }
    at_rest(&stage, 64, 64).await?;
    for guests in &stage.guests {
        guests.verify_at(stage.any()).await?;
    }
    rest::check_at_rest(&stage.cluster, &stage.disks(), Spoiled::Nothing).await
}

/// Nobody asks for anything: what hosts say to each other is heartbeats, and `owners` of them look after so many objects.
async fn at_rest(stage: &Stage, objects: u64, owners: u64) -> Result<Traffic, String> {
    let hosts = stage.hosts() as u64;
    stage.ms(5000).await;
    let steps = stage.cluster.world.steps();
    let ((), idle) = stage.traffic(stage.ms(10_000)).await;
    let steps = (stage.cluster.world.steps() - steps) / 10;
    let idle = Traffic { messages: idle.messages / 10, bytes: idle.bytes / 10 };
    stage.count("messages a second at rest", idle.messages);
    stage.count("KiB a second at rest", idle.bytes >> 10);
    stage.count("steps a second at rest", steps);
    stage.say(format!("{steps} steps a second at rest"));
    let most = HEARTBEATS_PER_S * hosts * (hosts - 1) / 2 * 11 / 10;
    let looks = objects.div_ceil(LOOK_EVERY_S).min(LOOKS_PER_S_MAX * owners);
    let steps_max = STEPS_PER_MESSAGE_MAX * most + STEPS_PER_LOOK_MAX * looks;
    match idle.messages > most || steps > steps_max {
        true => {
            Err(format!("{} messages and {steps} steps a second at rest, more than {most}, {steps_max}", idle.messages))
        }
        false => Ok(idle),
    }
}

/// A block that nothing else holds.
fn stamp(place: u64, version: u64) -> Bytes {
    let words = [place, version, place ^ version.rotate_left(32)];
    let mut block = vec![0x5A; BLOCK as usize];
    block[..24].copy_from_slice(&words.map(u64::to_le_bytes).concat());
    block.into()
}

async fn open(stage: &Stage, at: usize, disk: &str) -> Result<Client, String> {
    stage.cluster.client(at, disk).await.ok_or_else(|| format!("h{at} does not open {disk}"))
}

/// Runs a request of a guest at a host; none: its process died.
async fn request<T: 'static>(
    stage: &Stage,
    at: usize,
    request: impl Future<Output = Result<T, cairn_volume::VolumeError>> + 'static,
) -> Result<T, String> {
    let ran = stage.cluster.run_on(at, PATIENCE * 2, request).await;
    ran.map_err(|lost| format!("h{at}: {lost:?}"))?.map_err(|error| format!("h{at}: {error}"))
}

async fn write(stage: &Stage, at: usize, disk: &str, place: u64, version: u64) -> Result<(), String> {
    let client = open(stage, at, disk).await?;
    request(stage, at, client.write(place, stamp(place, version))).await
}

async fn check(stage: &Stage, at: usize, disk: &str, place: u64, version: u64) -> Result<(), String> {
    let client = open(stage, at, disk).await?;
    let parts = request(stage, at, client.read(place, BLOCK as u32)).await?;
    match parts.concat() == stamp(place, version) {
        true => Ok(()),
        false => Err(format!("wrong bytes: {disk} at h{at}, byte {place}: not version {version}")),
    }
}

/// What a failover took beyond heartbeats, at least those that go on without the dead host: `idle` is a second of all of them.
fn beyond(stage: &Stage, traffic: Traffic, idle: Traffic, took: Duration) -> Traffic {
    let hosts = stage.hosts() as u64;
    let of = |per_s: u64| per_s * (hosts - 2) / hosts * took.as_millis() as u64 / 1000;
    let (messages, bytes) = (of(idle.messages), of(idle.bytes));
    Traffic { messages: traffic.messages.saturating_sub(messages), bytes: traffic.bytes.saturating_sub(bytes) }
}

async fn owner_of_largest_disk_dies(stage: Stage) -> Result<(), String> {
    let (name, size_bytes) = (Shape::disk_name(0), cairn_types::OBJECT_BYTES_MAX);
    let began = stage.cluster.world.now();
    stage.cluster.create_disk(0, &name, size_bytes, None).await.map_err(|e| e.to_string())?;
    stage.note("the largest disk to be made".into(), stage.cluster.world.now() - began);
    let config = stage.config(0).await?;
    let chunks = size_bytes.div_ceil(config.addresses.last().layout.chunk_bytes);
    let sets: BTreeSet<_> = config.members.iter().filter_map(cairn_types::Member::set).collect();
    stage.say(format!("{chunks} chunks, {} components", config.members.len()));
    if chunks != 249 || sets.len() != 249 {
        return Err(format!("the largest disk has {chunks} chunks in {} replica sets, not 249", sets.len()));
    }
    // One block of each chunk, the first of the disk and the last.
    let of_chunk = |n: u64| {
        let begins = n * config.addresses.last().layout.chunk_bytes;
        begins + stage.below((size_bytes - begins).min(config.addresses.last().layout.chunk_bytes) / BLOCK) * BLOCK
    };
    let mut places: Vec<u64> = (0..chunks).map(of_chunk).collect();
    places.extend([0, size_bytes - BLOCK]);
    places.sort_unstable();
    places.dedup();
    stage.attach(0).await?;
    for place in &places {
        write(&stage, 0, &name, *place, 1).await?;
    }
    for place in &places {
        check(&stage, 1, &name, *place, 1).await?;
    }
    let idle = at_rest(&stage, 1, 1).await?;

    stage.crash(0);
    let began = stage.cluster.world.now();
    let (served, traffic) = stage.traffic(write(&stage, 1, &name, places[0], 2)).await;
    served?;
    let took = stage.cluster.world.now() - began;
    let traffic = beyond(&stage, traffic, idle, took);
    stage.note("the owner of the largest disk without power".into(), took);
    stage.count("messages to serve the largest disk again", traffic.messages);
    stage.count("KiB in those", traffic.bytes >> 10);
    if took > SERVED_WITHIN {
        return Err(format!("P6: the largest disk is served after {took:?}, more than {SERVED_WITHIN:?}"));
    }
    if traffic.bytes > chunks * CHUNK_BYTES_SENT_MAX {
        return Err(format!("{traffic:?} to serve a disk of {chunks} chunks again"));
    }
    check(&stage, 2, &name, places[0], 2).await?;
    for place in &places[1..] {
        check(&stage, 1, &name, *place, 1).await?;
        write(&stage, 2, &name, *place, 2).await?;
    }
    stage.start(0);
    let (healthy, traffic) =
        stage.traffic(stage.cluster.wait_healthy(std::slice::from_ref(&name), HEALTHY_WITHIN)).await;
    healthy?;
    stage.count("KiB until the largest disk is healthy again", traffic.bytes >> 10);
    stage.attach(0).await?;
    for place in &places {
        check(&stage, 0, &name, *place, 2).await?;
    }
    rest::stores_in_order(&stage.cluster, false).await?;
    stage.cluster.delete_disk(1, &name).await.map_err(|e| e.to_string())?;
    rest::no_orphans(&stage.cluster, &[], false).await
}

/// Why disk groups have stopped, if any has.
fn stopped(stage: &Stage) -> String {
    let stores = (0..stage.hosts()).filter_map(|n| Some((n, stage.cluster.node(n)?)));
    let why = stores.flat_map(|(n, node)| node.stores().into_iter().map(move |store| (n, store)));
    why.filter_map(|(n, store)| Some(format!("h{n}: {}; ", store.group().stats().stopped?))).collect()
}

/// How much later than [`ABSENT_AFTER`] what a dead host held is recorded absent, also what nobody misses: owners hear of it within a
/// heartbeat, and a hundred of their disks write it down in each tenth of a second. Two hosts own them.
const ABSENCE_NOTED_WITHIN: Duration = Duration::from_secs(2);
const ABSENCE_NOTED_PER_DISK: Duration = Duration::from_micros(500);

/// For each disk: a host asks once about each seat that was made, of up to 500 in a round of at most 3 s.
const NEW_SEATS_LOOKED_AT_WITHIN: Duration = Duration::from_millis(6);

/// For each disk: what misses a host is looked at ever less often, and as rarely as what is at rest after two rounds of looks. Two hosts
/// own the disks, and each looks at 50 in a second.
const LOOKED_AT_AS_RARELY_WITHIN: Duration = Duration::from_millis(2 * 1000 / 50 / 2);

/// Owners count nothing of these disks as in sync that a dead host holds.
fn nothing_in_sync_at(stage: &Stage, dead: usize, disks: &BTreeSet<&str>) -> Result<(), String> {
    let dead = stage.host(dead).id();
    let nodes: Vec<_> = (0..stage.hosts()).filter_map(|n| stage.cluster.node(n)).collect();
    let owned = nodes.iter().flat_map(|node| node.objects().all_owned()).map(|owned| owned.config());
    let owned: Vec<_> = owned.filter(|config| disks.contains(config.name.as_str())).collect();
    let in_sync = |m: &cairn_types::Member| m.host == dead && m.state.in_sync();
    let left = owned.iter().filter(|config| config.members.iter().any(in_sync)).count();
    match owned.len() == disks.len() && left == 0 {
        true => Ok(()),
        false => Err(format!(
            "{left} of {} disks count something as in sync on a dead host, {} have no owner",
            disks.len(),
            disks.len() - owned.len()
        )),
    }
}

/// Disks that are looked at one by one, at most.
const LOOKED_AT_MAX: usize = 100;

async fn host_with_many_disks_dies(stage: Stage, objects: usize) -> Result<(), String> {
    let names: Vec<String> = (0..objects).map(Shape::disk_name).collect();
    for name in &names {
        stage.cluster.create_disk(0, name, 1 << 20, None).await.map_err(|e| format!("{name}: {e}"))?;
        write(&stage, 0, name, 0, 1).await?;
    }
    stage.say(format!("{objects} disks are made"));
    let (used, unused): (Vec<_>, Vec<_>) = names.iter().enumerate().partition(|(n, _)| n % 2 == 0);
    for (n, name) in &used {
        check(&stage, 1 + n / 2 % 2, name, 0, 1).await?;
    }
    stage.cluster.world.sleep(NEW_SEATS_LOOKED_AT_WITHIN * objects as u32).await;
    let idle = at_rest(&stage, objects as u64, 1).await?;

    stage.say("h0 dies");
    stage.crash(0);
    let began = stage.cluster.world.now();
    let writes = used.iter().map(|(n, name)| write(&stage, 1 + n / 2 % 2, name, 0, 2));
    let (served, traffic) = stage.traffic(join_all(writes)).await;
    let took = stage.cluster.world.now() - began;
    served.into_iter().collect::<Result<Vec<()>, String>>().map_err(|why| format!("{}{why}", stopped(&stage)))?;
    let traffic = beyond(&stage, traffic, idle, took);
    stage.note(format!("the owner of {objects} disks without power, {} in use", used.len()), took);
    stage.count("messages to serve those again", traffic.messages);
    stage.count("KiB in those", traffic.bytes >> 10);
    if took > SERVED_WITHIN {
        return Err(format!("P6: {} disks are served again after {took:?}, more than {SERVED_WITHIN:?}", used.len()));
    }
    let disks = used.len() as u64;
    if traffic.messages > disks * DISK_MESSAGES_MAX || traffic.bytes > disks * DISK_BYTES_SENT_MAX {
        return Err(format!("{traffic:?} to serve {disks} disks again"));
    }

    let noted = ABSENT_AFTER + ABSENCE_NOTED_WITHIN + ABSENCE_NOTED_PER_DISK * used.len() as u32;
    stage.cluster.world.sleep(noted.saturating_sub(stage.cluster.world.now() - began)).await;
    nothing_in_sync_at(&stage, 0, &used.iter().map(|(_, name)| name.as_str()).collect())?;

    let step = unused.len().div_ceil(LOOKED_AT_MAX).max(1);
    for (n, name) in unused.iter().step_by(step) {
        let began = stage.cluster.world.now();
        check(&stage, 1 + n / 2 % 2, name, 0, 1).await?;
        stage.note("a disk that nobody used attached".into(), stage.cluster.world.now() - began);
    }
    // It is missed everywhere, and there is no place for what it held: that may not cost more than what is at rest.
    stage.cluster.world.sleep(REPAIR_DELAY * 2 + LOOKED_AT_AS_RARELY_WITHIN * objects as u32).await;
    at_rest(&stage, objects as u64, 2).await?;
    stage.start(0);
    let looked_at: Vec<String> = used.iter().step_by(step).map(|(_, name)| (*name).clone()).collect();
    stage.cluster.wait_healthy_from(0..1, &looked_at, HEALTHY_WITHIN).await?;
    for name in &looked_at {
        check(&stage, 0, name, 0, 2).await?;
    }
    rest::stores_in_order(&stage.cluster, false).await
}
