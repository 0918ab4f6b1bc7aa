//! Makes a plan happen to a cluster: begins each event at its time, and ends it.
//!
//! Promises    what a plan says happens whatever the cluster does; nothing is drawn here
//! Not here    what is planned (`plan`)

use std::time::Duration;

use cairn_api::{LocalManagement, v1};
use cairn_faults::{At, Blow, Directory, Event, Moment, Phase, Place, What};
use cairn_sim::{CrashPhase, CrashPoint, Fault, SimDisk, SimEnv};
use futures::future::{Either, join_all, select};

use crate::{
    bad_blocks::{self, Spoil},
    cluster::Cluster,
    ends::{Bit, bit_of_the_last_two},
    groups::{packs, rewrites, shares},
    membership,
    plan::Plan,
    schedules,
    shape::Shape,
    snapshots,
};

/// How long a moment is waited for.
const MOMENT_WITHIN: Duration = Duration::from_secs(8);
/// What is counted where an only source was found and spoiled.
pub const SPOILED: &str = "only source spoiled";
/// What is left alone at a device's beginning.
const SUPERBLOCK_BYTES: u64 = 1 << 20;
/// How names of disks that fill the datastore begin.
pub const FILLER: &str = "filler-";
/// The first disk that is to fill the datastore.
const FILLER_BYTES_MAX: u64 = 256 << 20;
/// What is too small to be tried.
const FILLER_BYTES_MIN: u64 = 1 << 20;
/// As many as a full datastore of these shapes needs, and more.
const FILLERS_MAX: usize = 40;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Lets everything of the plan happen. Returns when the last event has ended and the tail has passed.
pub async fn inject(cluster: &Cluster, plan: &Plan) {
    let began = cluster.world.now();
    let mut running = Vec::new();
    for event in plan.events.clone() {
        let due = began + ms(event.at_ms);
        cluster.world.sleep(due.saturating_sub(cluster.world.now())).await;
        cluster.count(event.what.kind_among(plan.shape.hosts));
        let (own, (sender, ended)) = (cluster.clone(), futures::channel::oneshot::channel());
        cluster.world.spawn(async move {
            one(&own, event).await;
            let _ = sender.send(());
        });
        running.push(ended);
    }
    futures::future::join_all(running).await;
    cluster.world.sleep(ms(plan.tail_ms)).await;
}

/// One event, begun and ended.
pub async fn one(cluster: &Cluster, event: Event) {
    let (what, lasts) = (&event.what, cluster.world.sleep(ms(event.for_ms)));
    cluster.log.add(format!("--- {what:?} for {} ms", event.for_ms));
    match what {
        What::Crash { .. }
        | What::Kill { .. }
        | What::CrashAtOperation { .. }
        | What::CrashInRecovery { .. }
        | What::KillOthers { .. }
        | What::SlowCpu { .. }
        | What::RestartLoop { .. }
        | What::CrashAll { .. }
        | What::FlippedEnd { .. }
        | What::Pause { .. }
        | What::ClockRate { .. }
        | What::WallClock { .. }
        | What::RollBack { .. } => befall(cluster, what, lasts).await,
        What::Isolate { .. }
        | What::Cut { .. }
        | What::CutOneWay { .. }
        | What::Disconnect { .. }
        | What::HalfOpen { .. }
        | What::SlowLink { .. }
        | What::ChangedBlocks { .. } => part(cluster, what, lasts).await,
        What::AtMoment { moment, blow, after_us } => {
            at_moment(cluster, *moment, *blow, (*after_us, event.for_ms)).await;
        }
        What::Directory { how, hosts } => trouble(cluster, *how, hosts, event.for_ms, lasts).await,
        What::Full { host } => fill(cluster, *host, lasts).await,
        What::DevicesSwapped { a, b } => {
            swap(cluster, a, b);
            lasts.await;
            swap(cluster, a, b);
        }
        What::OnlySource { disk, blocks, pick } => {
            let spoil = Spoil { disk: *disk, blocks: *blocks, pick: *pick };
            if bad_blocks::spoil_only_source(cluster, spoil, ms(event.for_ms)).await > 0 {
                cluster.count(SPOILED);
            }
        }
        What::HandOver { disk, host } => hand_over(cluster, *disk, *host).await,
        What::Scrub { host } => scrub(cluster, *host).await,
        What::Compression { .. } | What::Deduplication { .. } | What::Rewrite { .. } => {
            chosen(cluster, what, lasts).await
        }
        What::Resize { disk, host, by_bytes } => cluster.grow_disk(*disk, *host, *by_bytes).await,
        What::Maintenance { .. }
        | What::Drain { .. }
        | What::Policy { .. }
        | What::Layout { .. }
        | What::Move { .. } => {
            moved(cluster, what, lasts).await;
        }
        What::Snapshot { disk, host, all, back, stays, clones, flattens } => {
            let ends = snapshots::Ends { back: *back, stays: *stays, clones: *clones, flattens: *flattens };
            snapshots::live(cluster, (*disk, *all), *host, (ms(event.for_ms), ends)).await;
        }
        What::Schedule { host, keep, locked } => {
            schedules::live(cluster, *host, (*keep, *locked), ms(event.for_ms)).await;
        }
        What::Remove { host } => membership::remove(cluster, *host, ms(event.for_ms)).await,
        What::Forget { host, loss } => membership::forget(cluster, *host, *loss, ms(event.for_ms)).await,
        What::CreateAndDelete { number, size_bytes, maker, deleter } => {
            create_and_delete(cluster, &format!("extra-{number}"), *size_bytes, (*maker, *deleter), lasts).await;
        }
        device => spoil(cluster, device, lasts).await,
    }
}

/// A host is asked to have all disk groups scrubbed.
async fn scrub(cluster: &Cluster, host: usize) {
    let start = v1::ScrubChange { verb: v1::ScrubVerb::Start, host: None, disk_group: None };
    if let Err(error) = cluster.manage(host, async move |node| node.scrub(start).await).await {
        cluster.log.add(format!("h{host} has nothing scrubbed: {error}"));
    }
}

/// Something is chosen of a disk group for a time, or from now on.
async fn chosen(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    let (settings, host, group, stays): (fn(bool) -> v1::DiskGroupSettings, _, _, _) = match *what {
        What::Compression { host, group, stays } => (packs, host, group, stays),
        What::Deduplication { host, group, stays } => (shares, host, group, stays),
        What::Rewrite { host, group, stays } => (rewrites, host, group, stays),
        _ => return,
    };
    let choose = async |on| {
        if let Some(id) = cluster.group_id(host, group) {
            cluster.choose(id, settings(on)).await;
        }
    };
    choose(true).await;
    if !stays {
        lasts.await;
        choose(false).await;
    }
}

/// What administrators have moved, or want more or fewer copies of.
async fn moved(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    match what {
        What::Maintenance { host, mode } => {
            let enter = v1::HostMaintenance { enter: true, mode: Some(*mode), force: true, dry_run: false };
            let ask = async |request| cluster.maintenance(*host, request).await.map(drop);
            for_a_time(cluster, ask, [enter, v1::HostMaintenance::default()], lasts).await;
        }
        What::Drain { host, group } => {
            let Some(id) = cluster.group_id(*host, *group) else { return };
            let begin = v1::DiskGroupDrain { drain: true, force: true, dry_run: false };
            let ask = async |request| cluster.drain(id, request).await.map(drop);
            for_a_time(cluster, ask, [begin, v1::DiskGroupDrain::default()], lasts).await;
        }
        What::Policy { disk, host, more } => {
            let ask = async |more| {
                let set = cluster.set_copies(*disk, *host, more).await.map(drop);
                no_past_holds(cluster, (*disk, *host), more == 0, set).await
            };
            for_a_time(cluster, ask, [*more, 0], lasts).await;
        }
        What::Layout { disk, host, ftt, data_strips, stripe_width } => {
            let ask = async |other: Option<_>| {
                let is_end = other.is_none();
                let set = cluster.set_layout(*disk, *host, other).await.map(drop);
                no_past_holds(cluster, (*disk, *host), is_end, set).await
            };
            for_a_time(cluster, ask, [Some((*ftt, *data_strips, *stripe_width)), None], lasts).await;
        }
        What::Move { disk, from } => {
            if let Err(error) = cluster.move_disk(*disk, *from, None).await {
                cluster.log.add(format!("disk {disk} is not moved away from h{from}: {error}"));
            }
        }
        other => panic!("{other:?} moves nothing"),
    }
}

/// A snapshot that stays holds its disk to its layout, and a clone the snapshot: where a disk is to be as before, both go.
async fn no_past_holds(
    cluster: &Cluster,
    (disk, host): (usize, usize),
    is_end: bool,
    set: Result<(), String>,
) -> Result<(), String> {
    if is_end && set.as_ref().is_err_and(|error| error.contains("snapshots, which cannot go over")) {
        cluster.let_past_go(disk, host).await;
    }
    set
}

/// What happens to a host.
async fn befall(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    let host = |n: usize| &cluster.members[n].host;
    match what {
        What::Crash { host: n, loss } => {
            host(*n).crash(*loss);
            lasts.await;
            cluster.start(*n);
        }
        What::Kill { host: n } => {
            host(*n).kill();
            lasts.await;
            cluster.start(*n);
        }
        What::CrashAtOperation { host: n, after, phase, loss } => {
            host(*n).crash_at(point(cluster, *n, *after, *phase, *loss));
            lasts.await;
            back(cluster, *n);
        }
        What::CrashInRecovery { host: n, after, phase, loss } => {
            host(*n).crash(*loss);
            lasts.await;
            host(*n).crash_at(point(cluster, *n, *after, *phase, loss.rotate_left(7)));
            cluster.start(*n);
            cluster.world.sleep(ms(700)).await;
            back(cluster, *n);
        }
        What::RestartLoop { host: n, times, gap_ms, loss } => {
            for round in 0..u64::from(*times) {
                host(*n).crash(loss ^ round);
                cluster.world.sleep(ms(*gap_ms)).await;
                cluster.start(*n);
                cluster.world.sleep(ms(*gap_ms)).await;
            }
        }
        What::KillOthers { host: n } => {
            let others = || (0..cluster.members.len()).filter(|other| other != n);
            others().for_each(|other| host(other).kill());
            lasts.await;
            others().for_each(|other| cluster.start(other));
        }
        What::SlowCpu { host: n, step_us } => {
            host(*n).set_slow_steps(Duration::from_micros(*step_us));
            lasts.await;
            host(*n).set_slow_steps(Duration::ZERO);
        }
        What::CrashAll { loss, gap_ms } | What::FlippedEnd { loss, gap_ms, .. } => {
            all_lose_power(cluster, *loss);
            if let What::FlippedEnd { at, bit, .. } = what {
                flip_end(cluster, at, *bit);
            }
            lasts.await;
            start_all(cluster, *gap_ms).await;
        }
        What::Pause { host: n } => {
            host(*n).pause();
            lasts.await;
            host(*n).resume();
        }
        What::ClockRate { host: n, ppm } => host(*n).set_clock_rate_ppm(*ppm),
        What::WallClock { host: n, off_ms } => {
            host(*n).set_wall_clock_off_ms(*off_ms);
            lasts.await;
            host(*n).set_wall_clock_off_ms(0);
        }
        What::RollBack { host: n, loss } => roll_back(cluster, *n, *loss, lasts).await,
        other => panic!("{other:?} does not happen to a host"),
    }
}

fn all_lose_power(cluster: &Cluster, loss: u64) {
    for (n, member) in cluster.members.iter().enumerate() {
        member.host.crash(loss ^ n as u64);
    }
}

/// One after the other.
async fn start_all(cluster: &Cluster, gap_ms: u64) {
    for n in 0..cluster.members.len() {
        cluster.start(n);
        cluster.world.sleep(ms(gap_ms)).await;
    }
}

/// Flips a bit of the last two batches of a log.
pub fn flip_end(cluster: &Cluster, at: &At, number: u64) {
    let disk = device(cluster, at);
    if let Some(Bit { offset, bit }) = bit_of_the_last_two(number, |offset, len| disk.peek(offset, len)) {
        cluster.log.add(format!("--- h{}: bit {bit} of byte {offset} of its cache device is flipped", at.host));
        disk.inject(Fault::BitFlip { offset, bit });
    }
}

/// No crash is planned any more, and the host runs.
fn back(cluster: &Cluster, n: usize) {
    cluster.members[n].host.no_planned_crash();
    cluster.start(n);
}

/// All devices of a host go back to what they hold now.
async fn roll_back(cluster: &Cluster, n: usize, loss: u64, lasts: impl Future<Output = ()>) {
    let host = &cluster.members[n].host;
    let images = cluster.image(n, loss);
    lasts.await;
    cluster.log.add(format!("h{n}: its devices go back to what they held"));
    host.crash(loss);
    for (name, image) in images {
        host.add_disk_of(&name, image);
    }
    cluster.start(n);
}

/// Waits for the moment, and strikes whoever tells of it.
async fn at_moment(cluster: &Cluster, moment: Moment, blow: Blow, (after_us, for_ms): (u64, u64)) {
    let told = cluster.next_to_tell(moment);
    let Either::Left((Ok(n), _)) = select(told, Box::pin(cluster.world.sleep(MOMENT_WITHIN))).await else {
        return;
    };
    cluster.world.sleep(Duration::from_micros(after_us)).await;
    cluster.log.add(format!("--- {blow:?} of h{n} for {for_ms} ms"));
    // All shards of its server.
    let server = cluster.server_of(n);
    let alone = server.len() == 1;
    let others = (0..cluster.members.len()).filter(|other| !server.contains(other)).collect::<Vec<_>>().into_iter();
    let each = server.map(|host| (host, others.clone())).map(|(host, others)| async move {
        let lasts = cluster.world.sleep(ms(for_ms));
        match blow {
            Blow::Crash { loss } => befall(cluster, &What::Crash { host, loss }, lasts).await,
            Blow::Pause => befall(cluster, &What::Pause { host }, lasts).await,
            Blow::Isolate if alone => part(cluster, &What::Isolate { host }, lasts).await,
            Blow::Isolate => {
                let cut = |other| async move {
                    let lasts = cluster.world.sleep(ms(for_ms));
                    part(cluster, &What::Cut { a: host, b: other }, lasts).await;
                };
                drop(join_all(others.map(cut)).await);
            }
        }
    });
    join_all(each).await;
}

/// The crash point so many disk operations from now.
fn point(cluster: &Cluster, n: usize, after: u64, phase: Phase, loss_seed: u64) -> CrashPoint {
    let phase = match phase {
        Phase::Before => CrashPhase::Before,
        Phase::During => CrashPhase::During,
        Phase::After => CrashPhase::After,
    };
    CrashPoint { operation: cluster.members[n].host.disk_operations() + 1 + after, phase, loss_seed }
}

/// What happens between hosts.
async fn part(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    let (world, id) = (&cluster.world, |n: usize| cluster.members[n].host.id());
    match what {
        What::Isolate { host: n } => {
            world.isolate(id(*n));
            lasts.await;
            (0..cluster.members.len()).filter(|other| other != n).for_each(|o| world.heal(id(*n), id(o)));
        }
        What::Cut { a, b } => {
            world.cut(id(*a), id(*b));
            lasts.await;
            world.heal(id(*a), id(*b));
        }
        What::CutOneWay { from, to } => {
            world.cut_one_way(id(*from), id(*to));
            lasts.await;
            world.heal(id(*from), id(*to));
        }
        What::Disconnect { a, b } => world.disconnect(id(*a), id(*b)),
        What::HalfOpen { knows, other } => world.half_open(id(*knows), id(*other)),
        What::SlowLink { from, to, by_ms } => {
            world.slow_link(id(*from), id(*to), ms(*by_ms));
            lasts.await;
            world.slow_link(id(*from), id(*to), Duration::ZERO);
        }
        What::ChangedBlocks { from, to, every } => {
            world.change_blocks(id(*from), id(*to), *every);
            lasts.await;
            world.change_blocks(id(*from), id(*to), 0);
        }
        other => panic!("{other:?} does not happen between hosts"),
    }
}

/// What the directory does to some hosts.
async fn trouble(cluster: &Cluster, how: Directory, hosts: &[usize], for_ms: u64, lasts: impl Future<Output = ()>) {
    let all = || hosts.iter().map(|n| &cluster.members[*n]);
    match how {
        Directory::Away | Directory::WatchGap => {
            all().for_each(|member| member.gate.set_shut(true));
            if how == Directory::WatchGap {
                all().for_each(|member| member.way.miss_something());
            }
            lasts.await;
            all().for_each(|member| member.gate.set_shut(false));
        }
        Directory::Slow { by_ms } => {
            all().for_each(|member| member.way.set_slow(true));
            for _ in 0..for_ms / by_ms + 1 {
                cluster.world.sleep(ms(by_ms)).await;
                all().for_each(|member| member.way.release());
            }
            all().for_each(|member| member.way.set_slow(false));
        }
        Directory::TakesNoChanges => {
            all().for_each(|member| member.way.take_changes(0));
            lasts.await;
            all().for_each(|member| member.way.take_changes(u64::MAX));
        }
        Directory::AnswersLost => {
            all().for_each(|member| member.way.set_answers_lost(true));
            lasts.await;
            all().for_each(|member| member.way.set_answers_lost(false));
        }
    }
}

/// Disks with full reservation, each as large as there is room for, until none fits.
async fn fill(cluster: &Cluster, n: usize, lasts: impl Future<Output = ()>) {
    let policy = format!("full-{n}");
    let rules = v1::PolicyRules { ftt: 1, reservation_percent: 100, ..v1::PolicyRules::default() };
    let request = v1::PolicyCreate { name: policy.clone(), rules };
    let made = cluster.manage(n, async move |node| node.policy_create(request).await.map(drop)).await;
    if let Err(error) = made {
        cluster.log.add(format!("h{n} does not make a policy: {error}"));
    }
    let (mut size_bytes, mut fillers, mut tries) = (FILLER_BYTES_MAX, Vec::new(), 0);
    while size_bytes >= FILLER_BYTES_MIN && fillers.len() < FILLERS_MAX {
        let name = format!("{FILLER}{n}-{tries}");
        tries += 1;
        // It stays there whatever the answer is: one that was lost may be about a disk that was made.
        cluster.extra_disks.borrow_mut().insert(name.clone());
        match cluster.create_disk(n, &name, size_bytes, Some(policy.clone())).await {
            Ok(_) => fillers.push(name),
            Err(error) => {
                cluster.log.add(format!("h{n} has no room for {size_bytes} bytes: {error}"));
                size_bytes /= 2;
            }
        }
    }
    cluster.log.add(format!("{} disks of h{n} fill what they can", fillers.len()));
    lasts.await;
    for name in fillers {
        match cluster.delete_disk(n, &name).await {
            Ok(()) => drop(cluster.extra_disks.borrow_mut().remove(&name)),
            Err(error) => cluster.log.add(format!("h{n} does not delete {name}: {error}")),
        }
    }
}

/// Two devices of a host that is off change places.
fn swap(cluster: &Cluster, a: &At, b: &At) {
    let host = &cluster.members[a.host].host;
    let names = [a, b].map(|at| Shape::device_name(at.group, at.capacity));
    host.kill();
    let [one, other] = [&names[0], &names[1]].map(|name| host.disk(name).image());
    host.add_disk_of(&names[0], other);
    host.add_disk_of(&names[1], one);
    host.restart();
}

/// What happens to one device.
async fn spoil(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    let inject = |at: &At, fault| device(cluster, at).inject(fault);
    let restart_at = match what {
        What::SlowDevice { at, times } => {
            inject(at, Fault::Slow { times: *times });
            lasts.await;
            inject(at, Fault::Slow { times: 1 });
            return;
        }
        What::ReadErrors { at, count } => return (0..*count).for_each(|_| inject(at, Fault::ReadErrorNext)),
        What::LatentSectors { at, place, len_bytes } => {
            if let Some(offset) = locate(cluster, at, *place, 0) {
                inject(at, Fault::LatentSectorError { offset, len_bytes: *len_bytes });
            }
            return;
        }
        What::BitRot { at, place, bits } => {
            return (0..*bits).for_each(|n| {
                if let Some(offset) = locate(cluster, at, *place, u64::from(n)) {
                    inject(at, Fault::BitFlip { offset: offset + u64::from(n % 4096), bit: (n % 8) as u8 });
                }
            });
        }
        What::LostWrite { at } => return inject(at, Fault::LostWriteNext),
        What::MisdirectedWrite { at, by_bytes } => {
            return inject(at, Fault::MisdirectedWriteNext { by_bytes: *by_bytes });
        }
        What::WriteError { at } => {
            inject(at, Fault::WriteErrorNext);
            at
        }
        What::FlushError { at } => {
            inject(at, Fault::FlushErrorNext);
            at
        }
        What::DeviceGone { at } => {
            inject(at, Fault::Gone);
            at
        }
        other => panic!("{other:?} is no fault of a device"),
    };
    lasts.await;
    device(cluster, restart_at).bring_back();
    cluster.log.add(format!("h{} is started anew", restart_at.host));
    cluster.members[restart_at.host].host.restart();
}

/// Bytes from the beginning of the device to the `n`th block from a place on.
fn locate(cluster: &Cluster, at: &At, place: Place, n: u64) -> Option<u64> {
    match place {
        Place::Offset(offset) => Some(offset + n * 4096),
        Place::Written(block) => device(cluster, at).written(SUPERBLOCK_BYTES, block + n),
    }
}

fn device(cluster: &Cluster, at: &At) -> SimDisk {
    cluster.members[at.host].host.disk(&Shape::device_name(at.group, at.capacity))
}

async fn hand_over(cluster: &Cluster, disk: usize, host: usize) {
    let name = crate::shape::Shape::disk_name(disk);
    let request = v1::DiskAttach { host: None };
    let attach = async move |node: cairn_node::Node<SimEnv>| node.disk_attach(name, request).await;
    if let Err(error) = cluster.manage(host, attach).await {
        cluster.log.add(format!("h{host} does not take the disk over: {error}"));
    }
}

/// How long the former state is asked for again where the directory, or a disk, takes no changes.
const LEAVE_WITHIN: Duration = Duration::from_secs(60);

/// Administrators want something for a time, and the former state at the end.
async fn for_a_time<R>(
    cluster: &Cluster,
    ask: impl AsyncFn(R) -> Result<(), String>,
    [begin, end]: [R; 2],
    lasts: impl Future<Output = ()>,
) where
    R: Clone,
{
    if let Err(error) = ask(begin).await {
        cluster.log.add(format!("it is not begun: {error}"));
    }
    lasts.await;
    let began = cluster.world.now();
    while cluster.world.now() - began < LEAVE_WITHIN {
        match ask(end.clone()).await {
            Ok(()) => return,
            Err(error) => cluster.log.add(format!("it is not as before: {error}")),
        }
        cluster.world.sleep(ms(500)).await;
    }
}

async fn create_and_delete(
    cluster: &Cluster,
    name: &str,
    size_bytes: u64,
    (maker, deleter): (usize, usize),
    lasts: impl Future<Output = ()>,
) {
    // An answer may be lost: what was perhaps made is deleted at the end in any case.
    cluster.extra_disks.borrow_mut().insert(name.to_owned());
    if let Err(error) = cluster.create_disk(maker, name, size_bytes, None).await {
        cluster.log.add(format!("h{maker} does not make {name}: {error}"));
    }
    lasts.await;
    match cluster.delete_disk(deleter, name).await {
        Ok(()) => drop(cluster.extra_disks.borrow_mut().remove(name)),
        Err(error) => cluster.log.add(format!("h{deleter} does not delete {name}: {error}")),
    }
}
