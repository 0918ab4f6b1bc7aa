//! One run of the workload: what was sent and answered, when, and an image of all devices at every disk operation.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_sim::{CrashImage, Fault, Host, Medium, World};
use cairn_store::{Choice, DiskGroup, Needs, StoreError, StoreErrorKind, StoreStats};
use cairn_types::{BlockRange, Change, ComponentId, HostId};
use futures::{channel::oneshot, future::join_all};

use crate::{
    model::Model,
    script::{Script, Step, Stores, allowed_from, tag_at},
    shape::{Group, add_devices, devices, format_options, identity, open_as},
};

/// Operations in flight at a time, at most: 2^4 ways in which a crash may leave them.
const IN_FLIGHT_MAX: usize = 4;

impl Log {
    /// The model of the workload's end.
    pub fn last_quiet(&self) -> Model {
        self.quiet.last().expect("the script ends with a barrier").2.clone()
    }
    /// Snapshots in the models of all quiet moments.
    pub fn snapshots(&self) -> usize {
        self.quiet.iter().map(|(_, _, model)| model.snapshots()).sum()
    }
    /// Blocks of parity in the models of all quiet moments.
    pub fn parities(&self) -> usize {
        self.quiet.iter().map(|(_, _, model)| model.parities()).sum()
    }
}

/// One appended operation and when, in images, it was sent and answered.
pub struct Sent {
    change: Change,
    tag: u64,
    sent_at: u64,
    answer: Option<(u64, Result<(), StoreError>)>,
}

#[derive(Default)]
pub struct Log {
    sent: Vec<Sent>,
    /// The model where nothing was in flight: with the number of operations and of images by then.
    quiet: Vec<(usize, u64, Model)>,
}

/// Runs the script on a fresh disk group; returns what was sent, and an image at every disk operation.
pub struct Recording {
    pub log: Log,
    pub images: Vec<CrashImage>,
    pub stats: StoreStats,
    pub log_wraps: u64,
    pub operations: u64,
    pub host_id: HostId,
    pub trace: u64,
    /// The devices after the group was closed, and the log's end.
    pub at_rest: Vec<(String, Medium)>,
    pub position: u64,
}

pub fn record(seed: u64, length: usize) -> Recording {
    record_with(seed, length, vec![])
}

/// The same of a group that packs, or stores equal blocks once, for most of the time.
pub fn record_as(seed: u64, length: usize, stores: Stores) -> Recording {
    record_all(seed, length, vec![], stores)
}

/// The same with faults of devices, each before one step of the script.
pub fn record_with(seed: u64, length: usize, faults: Vec<(usize, &'static str, Fault)>) -> Recording {
    record_all(seed, length, faults, Stores::AsTheyAre)
}

fn record_all(seed: u64, length: usize, faults: Vec<(usize, &'static str, Fault)>, stores: Stores) -> Recording {
    let world = World::new(seed);
    let host = world.add_host("a");
    add_devices(&host);
    let (env, parts, who) = (host.env(), devices(&host), identity(&host));
    let formatted = host.run(async move { DiskGroup::format(env, parts, who, &format_options()).await });
    assert_eq!(formatted, Ok(Ok(())));
    host.count_disk_operations_from_zero();
    host.capture_crash_images();
    let log = Rc::new(RefCell::new(Log::default()));
    let (task_host, task_log) = (host.clone(), log.clone());
    let ran = host.run(async move {
        // Every other workload begins as 0.2.0 had it, and is allowed more in mid-run.
        let allowed = if seed.is_multiple_of(2) { Needs::NONE } else { Needs::ALL };
        let group = open_as(task_host.env(), devices(&task_host), allowed).await.unwrap();
        let script = (Script::steps(seed, length, stores), length, stores);
        workload(&group, &task_host, &task_log, script, &faults).await;
        let ended = (group.stats(), group.durable_position());
        group.close().await;
        ended
    });
    let (stats, position) = ran.unwrap();
    let names = host.disk_names();
    Recording {
        at_rest: names.into_iter().map(|name| (name.clone(), host.disk(&name).image())).collect(),
        position,
        log: log.take(),
        images: host.take_crash_images(),
        log_wraps: position / stats.log_bytes,
        stats,
        operations: host.disk_operations(),
        host_id: host.id(),
        trace: world.trace_hash(),
    }
}

async fn workload(
    group: &Group,
    host: &Host,
    log: &Rc<RefCell<Log>>,
    (script, length, stores): (Vec<Step>, usize, Stores),
    faults: &[(usize, &str, Fault)],
) {
    let mut in_flight = VecDeque::new();
    let mut model = Model::default();
    let mut applied = 0;
    let allowed_at = allowed_from(length);
    for (tag, step) in script.into_iter().enumerate() {
        if tag > allowed_at && tag.is_multiple_of(stores.chosen_every()) {
            choose(group, stores, tag / stores.chosen_every()).await;
        }
        if tag == allowed_at {
            group.allow(Needs::ALL);
            while !group.needs().include(Needs::MAP_PAGES) {
                host.env().sleep(Duration::from_millis(1)).await;
            }
        }
        for (_, disk, fault) in faults.iter().filter(|(at, ..)| *at == tag) {
            host.disk(disk).inject(*fault);
        }
        match step {
            Step::Append(operation) => {
                in_flight.push_back(send(group, host, log, operation, tag_at(tag, stores)));
                if in_flight.len() > IN_FLIGHT_MAX {
                    let _ = in_flight.pop_front().expect("several").await;
                }
                continue;
            }
            Step::Drain => group.drain().await.unwrap(),
            Step::Fill { component, nth, range } => fill(group, component, nth, range).await,
            Step::ClearCaches => assert!(group.clear_caches(Duration::from_secs(60)).await.unwrap().clear),
            Step::Barrier => {}
        }
        join_all(in_flight.drain(..)).await;
        quiet(log, host, &mut model, &mut applied);
    }
}

/// Switches on and off what the group does with its blocks, in turn `turn`.
async fn choose(group: &Group, stores: Stores, turn: usize) {
    match stores {
        Stores::AsTheyAre => {}
        // Off for a seventh of the time.
        Stores::Packed => group.choose(Choice::packs(turn % 7 != 6)).await.unwrap(),
        Stores::Once | Stores::OnceAnew => {
            let rewrite = (stores == Stores::OnceAnew).then_some(true);
            group.choose(Choice::packs(turn.is_multiple_of(3))).await.unwrap();
            group.choose(Choice { rewrite, ..Choice::shares(turn % 7 != 6) }).await.unwrap();
        }
    }
}

/// Gives a component what a snapshot of it views, as history: all views stay as they are.
async fn fill(group: &Group, component: ComponentId, nth: usize, range: BlockRange) {
    let Some(snapshot) = group.snapshots(component).get(nth).copied() else { return };
    // Where a device has faults, some of it may not be readable.
    let Ok(contents) = group.read_view(component, snapshot, range).await else { return };
    let filled = group.fill_history(component, snapshot, range.first, (contents.runs, contents.data.concat().into()));
    if let Err(error) = filled.await {
        assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
    }
}

/// Sends an operation; its answer is noted when it comes, and then the receiver resolves.
fn send(group: &Group, host: &Host, log: &Rc<RefCell<Log>>, change: Change, tag: u64) -> oneshot::Receiver<()> {
    let at = log.borrow().sent.len();
    log.borrow_mut().sent.push(Sent { change: change.clone(), tag, sent_at: host.crash_images_taken(), answer: None });
    let answer = group.append(change);
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
            Ok(()) => model.apply(&sent.change, sent.tag),
            Err(error) if error.kind == StoreErrorKind::Undone => model.refuse(&sent.change),
            Err(error) => assert!(
                matches!(error.kind, StoreErrorKind::NoSpace | StoreErrorKind::NotFound),
                "{:?}: {error}",
                sent.change
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
pub fn allowed(log: &Log, image: u64) -> Vec<Model> {
    let (from, model) = log
        .quiet
        .iter()
        .rev()
        .find(|(_, at, _)| *at <= image)
        .map_or((0, Model::default()), |(count, _, model)| (*count, model.clone()));
    let mut models = vec![model];
    for sent in log.sent[from..].iter().take_while(|sent| sent.sent_at <= image) {
        let answer = sent.answer.as_ref();
        let refused = answer.and_then(|(_, answer)| answer.as_ref().err()).map(|error| &error.kind);
        let effect = |model: &mut Model| match refused {
            None => model.apply(&sent.change, sent.tag),
            Some(StoreErrorKind::Undone) => model.refuse(&sent.change),
            Some(_) => {}
        };
        if answer.is_some_and(|(at, _)| *at <= image) {
            models.iter_mut().for_each(effect);
        } else {
            let mut with = models.clone();
            with.iter_mut().for_each(effect);
            models.extend(with);
        }
    }
    models
}
