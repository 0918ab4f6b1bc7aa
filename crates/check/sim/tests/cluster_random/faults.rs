//! Faults by chance, from a seed: what happens to hosts, links and the directory while guests work.

use std::time::Duration;

use cairn_api::LocalManagement;
use cairn_node::Node;
use cairn_sim::SimEnv;

use crate::cluster::{Cluster, REPAIR_DELAY};

/// Which faults a run draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Menu {
    /// One thing at a time, healed before the next.
    Single,
    /// Anything, several at once.
    Wild,
    /// A host stays away until it is replaced, then another one dies.
    Rebuild,
}

fn ms(cluster: &Cluster, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + cluster.world.random_below(high - low + 1))
}

fn host(cluster: &Cluster) -> usize {
    cluster.world.random_below(cluster.members.len() as u64) as usize
}

/// Lets faults happen, some time between each.
pub async fn inject(cluster: &Cluster, menu: Menu) {
    match menu {
        Menu::Single => {
            for _ in 0..6 {
                cluster.world.sleep(ms(cluster, 200, 3000)).await;
                one(cluster).await;
                cluster.heal_everything();
            }
        }
        Menu::Wild => {
            for _ in 0..12 {
                cluster.world.sleep(ms(cluster, 0, 2500)).await;
                let own = cluster.clone();
                cluster.world.spawn(async move { one(&own).await });
            }
            cluster.world.sleep(ms(cluster, 1000, 12_000)).await;
        }
        Menu::Rebuild => rebuild(cluster).await,
    }
}

/// One fault, begun and ended.
async fn one(cluster: &Cluster) {
    let (n, other) = (host(cluster), host(cluster));
    let (a, b) = (&cluster.members[n], &cluster.members[other]);
    let log = |text: String| cluster.log.add(text);
    match cluster.world.random_below(13) {
        0 | 1 => {
            cluster.count("kill");
            log(format!("h{n} is killed"));
            a.host.kill();
            cluster.world.sleep(ms(cluster, 10, 6000)).await;
            restart(cluster, n);
        }
        2 | 3 => {
            cluster.count("crash");
            log(format!("h{n} loses power"));
            a.host.crash(cluster.world.random_u64());
            cluster.world.sleep(ms(cluster, 10, 6000)).await;
            restart(cluster, n);
        }
        4 => {
            cluster.count("pause");
            log(format!("h{n} pauses"));
            a.host.pause();
            cluster.world.sleep(ms(cluster, 300, 12_000)).await;
            log(format!("h{n} goes on"));
            a.host.resume();
        }
        5 => {
            cluster.count("isolate");
            log(format!("h{n} is isolated"));
            cluster.world.isolate(a.host.id());
            cluster.world.sleep(ms(cluster, 100, 8000)).await;
            log(format!("h{n}: links heal"));
            for member in cluster.members.iter().filter(|m| m.host.id() != a.host.id()) {
                cluster.world.heal(a.host.id(), member.host.id());
            }
        }
        6 | 7 if n != other => {
            cluster.count("cut");
            log(format!("h{n} - h{other} is cut"));
            cluster.world.cut(a.host.id(), b.host.id());
            cluster.world.sleep(ms(cluster, 100, 8000)).await;
            log(format!("h{n} - h{other} heals"));
            cluster.world.heal(a.host.id(), b.host.id());
        }
        8 if n != other => {
            cluster.count("one-way cut");
            log(format!("h{n} -> h{other} is cut"));
            cluster.world.cut_one_way(a.host.id(), b.host.id());
            cluster.world.sleep(ms(cluster, 100, 8000)).await;
            log(format!("h{n} -> h{other} heals"));
            cluster.world.heal(a.host.id(), b.host.id());
        }
        9 => {
            cluster.count("directory away");
            log("the directory is away".into());
            cluster.members.iter().for_each(|m| m.gate.set_shut(true));
            if cluster.world.random_below(2) == 0 {
                cluster.count("kill");
                log(format!("h{n} is killed"));
                a.host.kill();
                cluster.world.sleep(ms(cluster, 10, 3000)).await;
                restart(cluster, n);
            }
            cluster.world.sleep(ms(cluster, 100, 6000)).await;
            log("the directory is back".into());
            cluster.members.iter().for_each(|m| m.gate.set_shut(false));
        }
        12 => {
            cluster.count("hand-over");
            log(format!("h{n} takes the disk over"));
            let request = cairn_api::v1::DiskAttach { host: None };
            let attach = async move |node: Node<SimEnv>| node.disk_attach(crate::DISK.into(), request).await;
            if let Err(error) = cluster.manage(n, attach).await {
                log(format!("h{n} does not: {error}"));
            }
        }
        10 => {
            cluster.count("all crash");
            log("all hosts lose power".into());
            for member in cluster.members.iter() {
                member.host.crash(cluster.world.random_u64());
            }
            cluster.world.sleep(ms(cluster, 10, 1000)).await;
            for n in 0..cluster.members.len() {
                restart(cluster, n);
                cluster.world.sleep(ms(cluster, 0, 3000)).await;
            }
        }
        _ if n != other => {
            cluster.count("disconnect");
            log(format!("h{n} - h{other}: connection reset"));
            cluster.world.disconnect(a.host.id(), b.host.id());
        }
        _ => {}
    }
}

fn restart(cluster: &Cluster, n: usize) {
    if !cluster.members[n].host.is_up() {
        cluster.log.add(format!("h{n} starts"));
        cluster.members[n].host.restart();
    }
}

async fn rebuild(cluster: &Cluster) {
    let first = host(cluster);
    cluster.count("gone for good");
    cluster.log.add(format!("h{first} is gone for long"));
    cluster.members[first].host.crash(cluster.world.random_u64());
    cluster.world.sleep(REPAIR_DELAY + Duration::from_secs(15)).await;
    let second =
        (first + 1 + cluster.world.random_below(cluster.members.len() as u64 - 1) as usize) % cluster.members.len();
    cluster.count("crash");
    cluster.log.add(format!("h{second} loses power"));
    cluster.members[second].host.crash(cluster.world.random_u64());
    cluster.world.sleep(ms(cluster, 3000, 8000)).await;
    restart(cluster, second);
    cluster.world.sleep(ms(cluster, 100, 3000)).await;
    restart(cluster, first);
}
