//! The crash sweep of the local store.
//!
//! Goal: whatever the moment at which power goes, everything acknowledged is there, nothing is half done, nothing
//! refused or undone comes back (I3, I6, I8, I9), and every block reads right or not at all (I7). Method: a scripted
//! workload on devices so small that destage and cleaning never rest; an image of all devices before, during and after
//! every one of its disk operations; for each image and several seeds of what is lost: recovery, and a comparison with
//! a slow model. An operation in flight may be there or not, but whole.

mod model;
mod script;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_sim::{CrashImage, CrashPhase, CrashPoint, Host, Rng, SimDisk, SimEnv, World};
use cairn_store::{
    DiskGroup, DiskGroupDevices, Expect, Identity, LogHealth, Operation, ReadPiece, StoreError,
    StoreErrorKind, StoreOptions, StoreStats,
};
use cairn_types::{BlockRange, ClusterId, ComponentId, DiskGroupId, ObjectId, OpId};
use futures::{channel::oneshot, future::join_all};

use model::{Model, Value};
use script::{Script, Step, block_bytes};

type Group = DiskGroup<SimEnv>;

/// Operations in flight at a time, at most: 2^4 ways in which a crash may leave them.
const IN_FLIGHT_MAX: usize = 4;
const CAPACITY: [&str; 2] = ["capacity-0", "capacity-1"];

fn options() -> StoreOptions {
    StoreOptions {
        log_bytes: Some(512 << 10),
        metadata_bytes: Some(6 << 20),
        log_segment_bytes: Some(64 << 10),
        segment_bytes: 64 << 10,
        read_cache_bytes: 64 << 10,
        map_cache_bytes: 64 << 10,
        destage_percent: 25,
        ..StoreOptions::default()
    }
}

fn identity(host: &Host) -> Identity {
    Identity {
        cluster: ClusterId(1),
        host: host.id(),
        disk_group: DiskGroupId(3),
    }
}

fn devices(host: &Host) -> DiskGroupDevices<SimDisk> {
    DiskGroupDevices {
        cache: host.disk("cache"),
        capacity: CAPACITY.map(|name| host.disk(name)).into(),
    }
}

async fn open(env: SimEnv, devices: DiskGroupDevices<SimDisk>) -> Result<Group, StoreError> {
    let expect = Expect {
        cluster: ClusterId(1),
        host: env.host(),
        disk_group: None,
    };
    DiskGroup::open(env, devices, expect, &options()).await
}

/// One appended operation and when, in images, it was sent and answered.
struct Sent {
    operation: Operation,
    tag: u64,
    sent_at: u64,
    answer: Option<(u64, Result<(), StoreError>)>,
}

#[derive(Default)]
struct Log {
    sent: Vec<Sent>,
    /// The model where nothing was in flight: with the number of operations and of images by then.
    quiet: Vec<(usize, u64, Model)>,
}

/// Runs the script on a fresh disk group; returns what was sent, and an image at every disk operation.
struct Recording {
    log: Log,
    images: Vec<CrashImage>,
    stats: StoreStats,
    log_wraps: u64,
    operations: u64,
    host_id: cairn_types::HostId,
    trace: u64,
}

fn record(seed: u64, length: usize) -> Recording {
    let world = World::new(seed);
    let host = world.add_host("a");
    host.add_disk("cache", 8 << 20);
    for name in CAPACITY {
        host.add_disk(name, (1 << 20) + (24 * 64 << 10));
    }
    let (env, parts, who) = (host.env(), devices(&host), identity(&host));
    let formatted = host.run(async move { DiskGroup::format(env, parts, who, &options()).await });
    assert_eq!(formatted, Ok(Ok(())));
    host.count_disk_operations_from_zero();
    host.capture_crash_images();
    let log = Rc::new(RefCell::new(Log::default()));
    let (task_host, task_log) = (host.clone(), log.clone());
    let ran = host.run(async move {
        let group = open(task_host.env(), devices(&task_host)).await.unwrap();
        workload(&group, &task_host, &task_log, Script::new(seed, length)).await;
        let ended = (group.stats(), group.durable_position());
        group.close().await;
        ended
    });
    let (stats, position) = ran.unwrap();
    Recording {
        log: log.take(),
        images: host.take_crash_images(),
        log_wraps: position / stats.log_bytes,
        stats,
        operations: host.disk_operations(),
        host_id: host.id(),
        trace: world.trace_hash(),
    }
}

async fn workload(group: &Group, host: &Host, log: &Rc<RefCell<Log>>, script: Vec<Step>) {
    let mut in_flight = VecDeque::new();
    let mut model = Model::default();
    let mut applied = 0;
    for (tag, step) in script.into_iter().enumerate() {
        match step {
            Step::Append(operation) => {
                in_flight.push_back(send(group, host, log, operation, tag as u64));
                if in_flight.len() > IN_FLIGHT_MAX {
                    let _ = in_flight.pop_front().expect("several").await;
                }
                continue;
            }
            Step::Drain => group.drain().await.unwrap(),
            Step::Barrier => {}
        }
        join_all(in_flight.drain(..)).await;
        quiet(log, host, &mut model, &mut applied);
    }
}

/// Sends an operation; its answer is noted when it comes, and then the receiver resolves.
fn send(
    group: &Group,
    host: &Host,
    log: &Rc<RefCell<Log>>,
    operation: Operation,
    tag: u64,
) -> oneshot::Receiver<()> {
    let at = log.borrow().sent.len();
    log.borrow_mut().sent.push(Sent {
        operation: operation.clone(),
        tag,
        sent_at: host.crash_images_taken(),
        answer: None,
    });
    let answer = group.append(operation);
    let (answered, receiver) = oneshot::channel();
    let (log, env, host) = (log.clone(), host.env(), host.clone());
    env.spawn(async move {
        let answer = answer.await;
        log.borrow_mut().sent[at].answer = Some((host.crash_images_taken(), answer));
        let _ = answered.send(());
    });
    receiver
}

/// Nothing is in flight: brings the model up to date.
fn quiet(log: &Rc<RefCell<Log>>, host: &Host, model: &mut Model, applied: &mut usize) {
    let mut log = log.borrow_mut();
    for sent in &log.sent[*applied..] {
        let (_, answer) = sent.answer.as_ref().expect("nothing is in flight");
        match answer {
            Ok(()) => model.apply(&sent.operation, sent.tag),
            Err(error) => assert!(
                matches!(
                    error.kind,
                    StoreErrorKind::NoSpace | StoreErrorKind::Undone | StoreErrorKind::NotFound
                ),
                "{:?}: {error}",
                sent.operation
            ),
        }
    }
    *applied = log.sent.len();
    let at = host.crash_images_taken();
    let model = model.clone();
    let count = *applied;
    log.quiet.push((count, at, model));
}

/// What an image may show: every model that agrees with what was answered by then.
fn allowed(log: &Log, image: u64) -> Vec<Model> {
    let (from, model) = log
        .quiet
        .iter()
        .rev()
        .find(|(_, at, _)| *at <= image)
        .map_or((0, Model::default()), |(count, _, model)| {
            (*count, model.clone())
        });
    let mut models = vec![model];
    for sent in log.sent[from..]
        .iter()
        .take_while(|sent| sent.sent_at <= image)
    {
        let answer = sent.answer.as_ref().filter(|(at, _)| *at <= image);
        match answer {
            Some((_, Err(_))) => {}
            Some((_, Ok(()))) => models
                .iter_mut()
                .for_each(|m| m.apply(&sent.operation, sent.tag)),
            None => {
                let mut with = models.clone();
                with.iter_mut()
                    .for_each(|m| m.apply(&sent.operation, sent.tag));
                models.extend(with);
            }
        }
    }
    models
}

/// Everything that a disk group says about itself.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    components: BTreeMap<ComponentId, SeenComponent>,
    records: BTreeMap<ObjectId, Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
struct SeenComponent {
    object: ObjectId,
    size_blocks: u64,
    reserved_blocks: u64,
    settled: OpId,
    window: Vec<(OpId, BlockRange)>,
    regions: Vec<(u32, OpId)>,
    clients: Vec<(cairn_types::ClientTag, OpId)>,
    /// Per block: the tag of its data, or none for zeroes.
    blocks: Vec<Option<u64>>,
    allocated: Vec<bool>,
}

fn expected(model: &Model) -> Seen {
    let component = |(&id, c): (&ComponentId, &model::Component)| {
        let tag = |block| match c.visible(block) {
            Some(Value::Data(tag)) => Some(tag),
            _ => None,
        };
        let seen = SeenComponent {
            object: c.object,
            size_blocks: c.size_blocks,
            reserved_blocks: c.reserved_blocks,
            settled: c.settled,
            window: c.window(),
            regions: c.regions.iter().map(|(r, op)| (*r, *op)).collect(),
            clients: c.clients.clone(),
            blocks: (0..c.size_blocks).map(tag).collect(),
            allocated: (0..c.size_blocks).map(|block| c.allocated(block)).collect(),
        };
        (id, seen)
    };
    Seen {
        components: model.components.iter().map(component).collect(),
        records: model.records.clone(),
    }
}

async fn look(group: &Group) -> Result<Seen, StoreError> {
    let mut components = BTreeMap::new();
    for info in group.components() {
        assert!(!info.lost, "no device failed");
        let range = BlockRange::new(0, info.size_blocks as u32);
        let pieces = group.read(info.id, range).await?;
        let mut allocated = vec![];
        for (range, yes) in group.allocated(info.id, range).await? {
            assert_eq!(range.first, allocated.len() as u64, "runs are back to back");
            allocated.extend((0..range.count).map(|_| yes));
        }
        let seen = SeenComponent {
            object: info.object,
            size_blocks: info.size_blocks,
            reserved_blocks: info.reserved_blocks,
            settled: group.settled(info.id),
            window: group
                .window(info.id)
                .iter()
                .map(|u| (u.op, u.range))
                .collect(),
            regions: group.regions_after(info.id, OpId::ZERO),
            clients: group.recent_clients(info.id),
            blocks: tags(info.id, pieces),
            allocated,
        };
        components.insert(info.id, seen);
    }
    let records = group.records().into_iter().map(|(id, b)| (id, b.to_vec()));
    Ok(Seen {
        components,
        records: records.collect(),
    })
}

/// Which write each block is of: all of its bytes must be that write's, for that place.
fn tags(component: ComponentId, pieces: Vec<ReadPiece>) -> Vec<Option<u64>> {
    let mut tags = vec![];
    for piece in pieces {
        assert_eq!(
            piece.range().first,
            tags.len() as u64,
            "pieces are back to back"
        );
        match piece {
            ReadPiece::Hole { range } => tags.extend((0..range.count).map(|_| None)),
            ReadPiece::Data { data, .. } => {
                for bytes in data.chunks(4096) {
                    let block = tags.len() as u64;
                    tags.push(tag_of(bytes, component, block));
                }
            }
        }
    }
    tags
}

fn tag_of(bytes: &[u8], component: ComponentId, block: u64) -> Option<u64> {
    if bytes.iter().all(|b| *b == 0) {
        return None;
    }
    let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(
        bytes == block_bytes(tag, component, block),
        "block {block} of {component:?} holds foreign bytes"
    );
    Some(tag)
}

/// One crash: recovers the group from an image and compares it with what is allowed.
fn check(recording: &Recording, image: &CrashImage, loss_seed: u64) {
    let at = || {
        format!(
            "image {} ({} {:?}), loss {loss_seed}",
            image.number, image.operation, image.phase
        )
    };
    let world = World::new(loss_seed);
    let host = world.add_host_with_id("a", recording.host_id);
    let mut rng = Rng::new(loss_seed);
    for (name, medium) in &image.disks {
        let mut medium = medium.clone();
        medium.lose_power(&mut rng);
        host.add_disk_of(name, medium);
    }
    if rng.one_in(3) {
        // Power goes again while it recovers, or soon after.
        let phase =
            [CrashPhase::Before, CrashPhase::During, CrashPhase::After][rng.below(3) as usize];
        host.crash_at(CrashPoint {
            operation: rng.between(1, 12),
            phase,
            loss_seed: rng.next_u64(),
        });
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
        let group = open(env.clone(), parts.clone())
            .await
            .unwrap_or_else(|e| panic!("{before}: {e}"));
        assert_eq!(group.log_health(), LogHealth::Sound, "{before}");
        let seen = look(&group)
            .await
            .unwrap_or_else(|e| panic!("{before}: {e}"));
        let expected: Vec<Seen> = allowed.iter().map(expected).collect();
        let Some(found) = expected.iter().position(|e| *e == seen) else {
            panic!("{before}: {}", difference(&expected, &seen));
        };
        go_on(group, env, parts, allowed[found].clone(), &before).await;
    })
    .unwrap();
}

/// A group that recovered works: it takes writes, settles, drains, and opens again with the same contents.
async fn go_on(
    group: Group,
    env: SimEnv,
    parts: DiskGroupDevices<SimDisk>,
    mut model: Model,
    at: &str,
) {
    let mut operations = vec![Operation::Record {
        object: ObjectId(9),
        bytes: Bytes::from_static(b"after"),
    }];
    for (&component, c) in &model.components {
        let upto = c.window().last().map_or(c.settled, |(op, _)| *op);
        operations.push(Operation::Settle { component, upto });
    }
    for operation in operations {
        group
            .append(operation.clone())
            .await
            .unwrap_or_else(|e| panic!("{at}: {e}"));
        model.apply(&operation, 0);
    }
    group.drain().await.unwrap_or_else(|e| panic!("{at}: {e}"));
    let stats = group.stats();
    let allocated: u64 = group.components().iter().map(|c| c.allocated_blocks).sum();
    let visible: usize = model
        .components
        .values()
        .map(|c| (0..c.size_blocks).filter(|b| c.allocated(*b)).count())
        .sum();
    assert_eq!(
        allocated, visible as u64,
        "{at}: space after everything is settled and drained"
    );
    assert_eq!((stats.log_used_bytes, stats.bad_blocks), (0, 0), "{at}");
    group.close().await;
    drop(group);
    let group = open(env, parts)
        .await
        .unwrap_or_else(|e| panic!("{at}: {e}"));
    let seen = look(&group).await.unwrap_or_else(|e| panic!("{at}: {e}"));
    let expected = expected(&model);
    assert!(
        seen == expected,
        "{at}, after going on: {}",
        difference(&[expected], &seen)
    );
    group.close().await;
}

/// Where the group differs from the last allowed model (the one in which everything in flight took effect).
fn difference(expected: &[Seen], seen: &Seen) -> String {
    let mut lines = vec![format!("none of {} allowed states", expected.len())];
    for expected in [expected.first(), expected.last()].into_iter().flatten() {
        lines.push("against one:".into());
        if expected.records != seen.records {
            lines.push(format!(
                "records {:?}, expected {:?}",
                seen.records, expected.records
            ));
        }
        if !expected.components.keys().eq(seen.components.keys()) {
            lines.push(format!(
                "components {:?}, expected {:?}",
                seen.components.keys(),
                expected.components.keys()
            ));
        }
        for (id, want) in &expected.components {
            let Some(have) = seen.components.get(id) else {
                continue;
            };
            if (have.settled, &have.window) != (want.settled, &want.window) {
                lines.push(format!(
                    "{id:?} settled {:?} window {:?}, expected {:?} {:?}",
                    have.settled.seq, have.window, want.settled.seq, want.window
                ));
            }
            if (&have.regions, &have.clients) != (&want.regions, &want.clients) {
                lines.push(format!(
                    "{id:?} regions {:?} clients {:?}, expected {:?} {:?}",
                    have.regions, have.clients, want.regions, want.clients
                ));
            }
            for block in 0..want.blocks.len() {
                let (h, w) = (
                    (have.blocks[block], have.allocated[block]),
                    (want.blocks[block], want.allocated[block]),
                );
                if h != w {
                    lines.push(format!("{id:?} block {block}: {h:?}, expected {w:?}"));
                }
            }
        }
    }
    lines.truncate(40);
    lines.join("\n")
}

fn sweep(seed: u64, length: usize, losses: u64, every: usize) -> (u64, u64) {
    let recording = record(seed, length);
    assert_eq!(
        recording.trace,
        record(seed, length).trace,
        "one seed, one run"
    );
    let stats = &recording.stats;
    println!(
        "seed {seed}: {} operations in {} batches, {} disk operations, {} destage rounds, {} blocks destaged, {} cleaned \
         ({} segments), log wrapped {} times",
        stats.operations,
        stats.batches,
        recording.operations,
        stats.destage_rounds,
        stats.destaged_blocks,
        stats.cleaned_blocks,
        stats.cleaned_segments,
        recording.log_wraps
    );
    assert!(
        stats.destage_rounds > 10 && recording.log_wraps > 1,
        "the workload is too tame"
    );
    let mut points = 0;
    for image in recording.images.iter().step_by(every) {
        for loss in 0..losses {
            check(&recording, image, image.number * losses + loss);
            points += 1;
        }
    }
    (points, stats.cleaned_segments)
}

#[test]
fn power_cut_at_every_disk_operation() {
    let (mut points, mut cleaned) = (0, 0);
    for seed in 1..=2 {
        let (more, segments) = sweep(seed, 500, 2, 1);
        points += more;
        cleaned += segments;
    }
    println!("{points} crash points: everything acknowledged is there, nothing is half done");
    assert!(points > 3000 && cleaned > 10);
}
