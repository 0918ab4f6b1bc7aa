//! Makes a plan happen to a cluster: begins each event at its time, and ends it.
//!
//! Promises    what a plan says happens whatever the cluster does; nothing is drawn here
//! Not here    what is planned (`plan`)

use std::time::Duration;

use cairn_api::{LocalManagement, v1};
use cairn_sim::{CrashPhase, CrashPoint, Fault, Rng, SimDisk, SimEnv};

use crate::{
    cluster::Cluster,
    plan::{At, Event, Phase, Plan, What},
};

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
        cluster.count(event.what.kind());
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
async fn one(cluster: &Cluster, event: Event) {
    let (what, lasts) = (&event.what, cluster.world.sleep(ms(event.for_ms)));
    cluster.log.add(format!("--- {what:?} for {} ms", event.for_ms));
    match what {
        What::Crash { .. }
        | What::Kill { .. }
        | What::CrashAtOperation { .. }
        | What::RestartLoop { .. }
        | What::CrashAll { .. }
        | What::Pause { .. }
        | What::ClockRate { .. }
        | What::RollBack { .. } => befall(cluster, what, lasts).await,
        What::Isolate { .. }
        | What::Cut { .. }
        | What::CutOneWay { .. }
        | What::Disconnect { .. }
        | What::SlowLink { .. }
        | What::DirectoryAway { .. } => part(cluster, what, lasts).await,
        What::HandOver { disk, host } => hand_over(cluster, *disk, *host).await,
        What::Resize { disk, host, by_bytes } => cluster.grow_disk(*disk, *host, *by_bytes).await,
        What::CreateAndDelete { number, size_bytes, maker, deleter } => {
            create_and_delete(cluster, &format!("extra-{number}"), *size_bytes, (*maker, *deleter), lasts).await;
        }
        device => spoil(cluster, device, lasts).await,
    }
}

/// What happens to a host.
async fn befall(cluster: &Cluster, what: &What, lasts: impl Future<Output = ()>) {
    let host = |n: usize| &cluster.members[n].host;
    match what {
        What::Crash { host: n, loss } => {
            host(*n).crash(*loss);
            lasts.await;
            start(cluster, *n);
        }
        What::Kill { host: n } => {
            host(*n).kill();
            lasts.await;
            start(cluster, *n);
        }
        What::CrashAtOperation { host: n, after, phase, loss } => {
            let phase = match phase {
                Phase::Before => CrashPhase::Before,
                Phase::During => CrashPhase::During,
                Phase::After => CrashPhase::After,
            };
            let operation = host(*n).disk_operations() + 1 + after;
            host(*n).crash_at(CrashPoint { operation, phase, loss_seed: *loss });
            lasts.await;
            host(*n).no_planned_crash();
            start(cluster, *n);
        }
        What::RestartLoop { host: n, times, gap_ms, loss } => {
            for round in 0..u64::from(*times) {
                host(*n).crash(loss ^ round);
                cluster.world.sleep(ms(*gap_ms)).await;
                start(cluster, *n);
                cluster.world.sleep(ms(*gap_ms)).await;
            }
        }
        What::CrashAll { loss, gap_ms } => {
            for (n, member) in cluster.members.iter().enumerate() {
                member.host.crash(loss ^ n as u64);
            }
            lasts.await;
            for n in 0..cluster.members.len() {
                start(cluster, n);
                cluster.world.sleep(ms(*gap_ms)).await;
            }
        }
        What::Pause { host: n } => {
            host(*n).pause();
            lasts.await;
            host(*n).resume();
        }
        What::ClockRate { host: n, ppm } => host(*n).set_clock_rate_ppm(*ppm),
        What::RollBack { host: n, loss } => {
            // As an image of a machine is taken: what was in flight is on it or not.
            let mut rng = Rng::new(*loss);
            let image = |name: String| {
                let mut medium = host(*n).disk(&name).image();
                medium.lose_power(&mut rng);
                (medium, name)
            };
            let images: Vec<_> = host(*n).disk_names().into_iter().map(image).collect();
            lasts.await;
            cluster.log.add(format!("h{n}: its devices go back to what they held"));
            host(*n).crash(*loss);
            for (image, name) in images {
                host(*n).add_disk_of(&name, image);
            }
            start(cluster, *n);
        }
        other => panic!("{other:?} does not happen to a host"),
    }
}

/// What happens between hosts, or between them and the directory.
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
        What::SlowLink { from, to, by_ms } => {
            world.slow_link(id(*from), id(*to), ms(*by_ms));
            lasts.await;
            world.slow_link(id(*from), id(*to), Duration::ZERO);
        }
        What::DirectoryAway { hosts } => {
            hosts.iter().for_each(|n| cluster.members[*n].gate.set_shut(true));
            lasts.await;
            hosts.iter().for_each(|n| cluster.members[*n].gate.set_shut(false));
        }
        other => panic!("{other:?} does not happen between hosts"),
    }
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
        What::LatentSectors { at, offset, len_bytes } => {
            return inject(at, Fault::LatentSectorError { offset: *offset, len_bytes: *len_bytes });
        }
        What::BitRot { at, offset, bits } => {
            return (0..*bits).for_each(|n| {
                let offset = offset + u64::from(n) * 4104;
                inject(at, Fault::BitFlip { offset, bit: (n % 8) as u8 });
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

fn device(cluster: &Cluster, at: &At) -> SimDisk {
    cluster.members[at.host].host.disk(&Cluster::device_name(at.group, at.capacity))
}

fn start(cluster: &Cluster, n: usize) {
    if !cluster.members[n].host.is_up() {
        cluster.log.add(format!("h{n} starts"));
        cluster.members[n].host.restart();
    }
}

async fn hand_over(cluster: &Cluster, disk: usize, host: usize) {
    let name = crate::shape::Shape::disk_name(disk);
    let request = v1::DiskAttach { host: None };
    let attach = async move |node: cairn_node::Node<SimEnv>| node.disk_attach(name, request).await;
    if let Err(error) = cluster.manage(host, attach).await {
        cluster.log.add(format!("h{host} does not take the disk over: {error}"));
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
