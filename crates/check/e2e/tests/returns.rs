//! A server loses its system disk and keeps its devices: it comes back as the host that it was.

use std::{fs, time::Duration};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, play},
    wait::{check, wait_until},
};

const MIB: usize = 1 << 20;

/// Goal: whole devices are enough. Method: the data directory of a host without a member of etcd is deleted; others
/// write meanwhile; the host is started with its disk groups configured in the other order; then the only other copy's
/// host dies. Two shards: each gets its own back.
#[test]
fn a_host_that_lost_its_data_directory_comes_back_with_its_disk_groups() {
    let shape = Shape { hosts: 4, hosts_with_disks: 4, shards: 2, cache_mib: 128, ..Shape::default() };
    play("returns", &shape, scenario);
}

/// Goal: a host of which nothing is left is let in again under its name with one command. Method: its data directory and its
/// devices are deleted; it is started; the old one is forgotten.
#[test]
fn a_host_that_lost_everything_is_let_in_under_its_name() {
    let shape = Shape { hosts: 4, hosts_with_disks: 4, cache_mib: 128, ..Shape::default() };
    play("reinstalled", &shape, |cluster| {
        let forget = |cluster: &Cluster| cluster.host(1).api().call(&["host", "forget", "h4", "--yes"]);
        check(forget(cluster).is_err_and(|words| words.contains("answers")), || {
            "a host that answers is forgotten".into()
        })?;
        cluster.host_mut(4).stop()?;
        let folder = cluster.host(4).folder.clone();
        for entry in fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
            let path = entry.path();
            if path != cluster.host(4).config() {
                let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                gone.map_err(|e| e.to_string())?;
            }
        }
        wait_until("the others know that it is gone", Duration::from_secs(30), || {
            check(cluster.host(1).api().call(&["host", "show", "h4"])?["up"] == false, || "it is up".into())
        })?;
        cluster.restart(4)?;
        forget(cluster)?;
        cluster.say("the old h4 is forgotten");
        wait_until("the new one is in", Duration::from_secs(30), || {
            let hosts = cluster.host(1).api().call(&["host", "list"])?;
            let hosts = hosts.as_array().cloned().unwrap_or_default();
            let fine = hosts.len() == 4
                && hosts.iter().all(|h| h["up"] == true && h["disk_groups"].as_array().map_or(0, Vec::len) == 1);
            check(fine, || format!("{hosts:?}"))
        })
    });
}

fn connect(cluster: &Cluster, n: u8) -> Outcome<NbdClient> {
    let target = Target::Unix(cluster.host(n).nbd_socket());
    NbdClient::connect(&target, DISK, Duration::from_secs(30)).map_err(|e| e.to_string())
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    const LOST: u8 = 4;
    cluster.create_disk(DISK, 64, LOST)?;
    let other = cluster.replicas(1, DISK)?.into_iter().find(|n| *n != LOST).ok_or("the owner has no copy")?;
    let reader = (1..=3).find(|n| *n != other).ok_or("no third host")?;
    let write = |cluster: &Cluster, n: u8, at: u64, byte: u8| {
        connect(cluster, n)?.write(at << 20, &vec![byte; MIB]).map_err(|e| e.to_string())
    };
    (0..16).try_for_each(|at| write(cluster, LOST, at, 1))?;
    let who = |cluster: &Cluster| cluster.host(reader).api().call(&["host", "show", &format!("h{LOST}")]);
    wait_until("both shards have told of their disk groups", Duration::from_secs(10), || {
        let groups = who(cluster)?["disk_groups"].as_array().map_or(0, Vec::len);
        check(groups == 2, || format!("{groups} disk groups"))
    })?;
    let before = who(cluster)?;
    cluster.host_mut(LOST).stop()?;
    fs::remove_dir_all(cluster.host(LOST).folder.join("data")).map_err(|e| e.to_string())?;
    // Dealt by their place in the configuration, each would go to the shard that it is not of.
    for (one, other) in [("/cache.img", "/cache-2.img"), ("/capacity-1.img", "/capacity-2-1.img")] {
        for (from, to) in [(one, "/one"), (other, one), ("/one", other)] {
            cluster.host(LOST).reconfigure(from, to)?;
        }
    }
    (0..4).try_for_each(|at| write(cluster, reader, at, 2))?;
    cluster.restart(LOST)?;
    wait_until("it is the host that it was", Duration::from_secs(30), || {
        let now = who(cluster)?;
        let same = now["id"] == before["id"] && now["up"] == true && now["disk_groups"] == before["disk_groups"];
        check(same && now["incarnation"].as_u64() > before["incarnation"].as_u64(), || {
            format!("{before}\nis now {now}")
        })
    })?;
    cluster.wait_healthy(reader, DISK, Duration::from_secs(60))?;
    cluster.say("the host is back, and its copy is filled with what it missed");
    cluster.kill(other)?;
    let mut back = vec![0; MIB];
    for at in 0..16_u64 {
        connect(cluster, reader)?.read(at << 20, &mut back).map_err(|e| format!("MiB {at}: {e}"))?;
        let byte = if at < 4 { 2 } else { 1 };
        check(back.iter().all(|b| *b == byte), || format!("MiB {at} has other bytes"))?;
    }
    Ok(())
}
