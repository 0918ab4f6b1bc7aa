//! A server loses its system disk and keeps its devices: it comes back as the host that it was.

use std::{fs, time::Duration};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, play},
    wait::{check, wait_until},
};

const MIB: usize = 1 << 20;

/// Goal: whole devices are enough. Method: the data directory of a host without a member of etcd is deleted; others write meanwhile;
/// the host is started with the same configuration; then the only other copy's host dies. Two shards: each gets its own back.
#[test]
fn a_host_that_lost_its_data_directory_comes_back_with_its_disk_groups() {
    let shape = Shape { hosts: 4, hosts_with_disks: 4, shards: 2, cache_mib: 128, ..Shape::default() };
    play("returns", &shape, scenario);
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
    let before = who(cluster)?;
    cluster.host_mut(LOST).stop()?;
    fs::remove_dir_all(cluster.host(LOST).folder.join("data")).map_err(|e| e.to_string())?;
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
