//! Scripted misfortunes, one story each, with the same guests and the same checks as the random ones.

use std::time::Duration;

use cairn_api::{LocalManagement, v1};
use cairn_cluster::{
    cluster::{Cluster, Log},
    guests::Guests,
    rest,
    run::{HEALTHY_WITHIN, come_to_rest},
    shape::Shape,
};
use cairn_node::Node;
use cairn_sim::{Fault, SimEnv};

const CAPACITY: [&str; 2] = ["g0-capacity-0", "g0-capacity-1"];

fn disks() -> Vec<String> {
    vec![Shape::disk_name(0)]
}

/// Prints the log of a run that panics.
struct Tell {
    seed: u64,
    log: Log,
}

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; what happened last:\n{}", self.seed, self.log.text());
        }
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn host(cluster: &Cluster) -> usize {
    cluster.world.random_below(cluster.members.len() as u64) as usize
}

/// Tells `story` with guests at work, for some seeds.
fn tell(hosts: usize, seeds: u64, story: impl AsyncFn(Cluster, Guests) -> Result<(), String> + Clone + 'static) {
    for seed in 1000..1000 + seeds {
        let shape = Shape::plain(hosts);
        let cluster = Cluster::new(seed, &shape, false);
        let _tell = Tell { seed, log: cluster.log.clone() };
        let guests = Guests::new(&cluster, 0);
        guests.start(3, shape.pause_max_ms);
        let (own, all, story) = (cluster.clone(), guests.clone(), story.clone());
        let result = cluster.world.block_on(async move { story(own, all).await });
        let failures = guests.failures.borrow().clone();
        assert!(failures.is_empty(), "seed {seed}: {failures:?}");
        result.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(cluster.violations(), Vec::<String>::new(), "seed {seed}");
        cluster.world.end();
    }
}

/// Scenario 3: a host comes back with yesterday's disks. What it lacks undoes nothing, and it is filled again.
#[test]
fn a_host_with_an_old_image_of_its_disks() {
    tell(3, 4, async |cluster, guests| {
        let n = host(&cluster);
        let host = cluster.members[n].host.clone();
        cluster.world.sleep(secs(1)).await;
        cluster.log.add(format!("h{n}: an image is taken"));
        let images: Vec<_> = host.disk_names().into_iter().map(|name| (host.disk(&name).image(), name)).collect();
        cluster.world.sleep(secs(4)).await;
        cluster.log.add(format!("h{n}: the image is put in place"));
        host.crash(1);
        for (image, name) in images {
            host.add_disk_of(&name, image);
        }
        host.restart();
        cluster.world.sleep(secs(5)).await;
        come_to_rest(&cluster, &[guests], false).await
    });
}

/// Scenario 24: deleted while a host was away; it stays deleted, and its space comes back.
#[test]
fn a_disk_deleted_while_a_host_is_away() {
    tell(3, 4, async |cluster, guests| {
        cluster.world.sleep(secs(1)).await;
        guests.stop().await;
        let n = host(&cluster);
        cluster.log.add(format!("h{n} loses power"));
        cluster.members[n].host.crash(3);
        cluster.world.sleep(secs(5)).await;
        let delete = async |node: Node<SimEnv>| node.disk_delete(Shape::disk_name(0)).await;
        let deleted = cluster.manage((n + 1) % 3, delete).await;
        deleted.map_err(|e| e.to_string())?;
        cluster.log.add("deleted".into());
        cluster.world.sleep(secs(2)).await;
        cluster.heal_everything();
        cluster.world.sleep(secs(3)).await;
        rest::no_orphans(&cluster, &[], false).await
    });
}

/// P5: hosts restart while the directory is away; disks come back, also where no copy is.
#[test]
fn hosts_restart_while_the_directory_is_away() {
    tell(4, 3, async |cluster, guests| {
        cluster.world.sleep(secs(1)).await;
        cluster.log.add("the directory is away, all hosts lose power".into());
        for member in cluster.members.iter() {
            member.gate.set_shut(true);
            member.host.crash(5);
        }
        cluster.world.sleep(secs(1)).await;
        cluster.members.iter().for_each(|m| drop(m.host.restart()));
        cluster.world.sleep(secs(20)).await;
        let before = guests.model.borrow().acked;
        cluster.world.sleep(secs(5)).await;
        if guests.model.borrow().acked <= before + 20 {
            return Err("guests do not go on without the directory".into());
        }
        guests.verify_everywhere().await?;
        cluster.heal_everything();
        come_to_rest(&cluster, &[guests], false).await
    });
}

/// P4: bits turn over on one host's capacity devices; nobody reads a wrong byte.
#[test]
fn bits_rot_on_one_host() {
    tell(3, 4, async |cluster, guests| {
        let n = host(&cluster);
        for _ in 0..400 {
            cluster.world.sleep(Duration::from_millis(25)).await;
            let name = CAPACITY[cluster.world.random_below(2) as usize];
            // The first segments: where data are.
            let offset = (1 << 20) + cluster.world.random_below(24 << 20);
            cluster.members[n].host.disk(name).inject(Fault::BitFlip { offset, bit: (offset % 8) as u8 });
        }
        guests.stop().await;
        cluster.wait_healthy(&disks(), HEALTHY_WITHIN).await?;
        guests.verify_everywhere().await
    });
}

/// Scenario 19: a capacity device dies; what it held is rebuilt elsewhere, and its return brings nothing stale back.
#[test]
fn a_capacity_device_dies_and_returns() {
    tell(4, 4, async |cluster, guests| {
        cluster.world.sleep(secs(2)).await;
        let n = host(&cluster);
        let host = cluster.members[n].host.clone();
        cluster.log.add(format!("h{n}: capacity devices are gone"));
        for name in CAPACITY {
            host.disk(name).inject(Fault::Gone);
        }
        cluster.world.sleep(secs(10)).await;
        cluster.wait_healthy(&disks(), HEALTHY_WITHIN).await?;
        cluster.log.add(format!("h{n}: capacity devices return"));
        for name in CAPACITY {
            host.disk(name).bring_back();
        }
        host.kill();
        host.restart();
        cluster.world.sleep(secs(5)).await;
        come_to_rest(&cluster, &[guests], false).await
    });
}

/// Scenario 6: a resync is interrupted again and again, on both sides; it ends all the same.
#[test]
fn a_resync_that_is_interrupted() {
    tell(3, 4, async |cluster, guests| {
        for _ in 0..5 {
            let n = host(&cluster);
            let host = cluster.members[n].host.clone();
            host.crash(cluster.world.random_u64());
            cluster.world.sleep(secs(3)).await;
            host.restart();
            // Into the midst of it.
            cluster.world.sleep(Duration::from_millis(20 + cluster.world.random_below(120))).await;
            let other = (n + 1 + cluster.world.random_below(2) as usize) % 3;
            let victim = if cluster.world.random_below(2) == 0 { n } else { other };
            cluster.members[victim].host.crash(cluster.world.random_u64());
            cluster.world.sleep(Duration::from_millis(300)).await;
            cluster.heal_everything();
            cluster.world.sleep(secs(2)).await;
        }
        come_to_rest(&cluster, &[guests], false).await
    });
}

/// Scenario 15, hand-overs: the disk moves from host to host under load, and no write is done twice or lost.
#[test]
fn a_disk_that_is_handed_round() {
    tell(3, 3, async |cluster, guests| {
        for round in 0..20 {
            cluster.world.sleep(Duration::from_millis(300)).await;
            let request = v1::DiskAttach { host: None };
            let attach = async move |node: Node<SimEnv>| node.disk_attach(Shape::disk_name(0), request).await.map(drop);
            let attached = cluster.manage(round % 3, attach).await;
            attached.map_err(|e| format!("round {round}: {e}"))?;
        }
        come_to_rest(&cluster, &[guests], false).await
    });
}
