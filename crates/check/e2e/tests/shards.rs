//! Servers with two shards: people see servers, disks are served by the thread that has their copies, and a server's death
//! takes both.

use std::{collections::BTreeSet, time::Duration};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, Scene, play},
    wait::{check, wait_until},
};
use serde_json::Value;

/// As for the death of an owner.
const STALL_MAX: Duration = Duration::from_secs(8);
/// Disks that are used at the first server beside the scene's.
const DISKS: [&str; 4] = ["a", "b", "c", "d"];
const MIB: usize = 1 << 20;

/// Goal: two shards are two threads of one server and nothing else to people and guests. Method: what the server list says; at
/// which shard guests' requests were counted; kill -9 under load; the server comes back with one thread for both.
#[test]
fn a_server_with_two_shards_dies_and_comes_back_with_one_thread() {
    let shape = Shape { shards: 2, cache_mib: 128, ..Shape::default() };
    play("shards", &shape, scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    wait_for_servers(cluster, 2)?;
    for (n, name) in DISKS.iter().enumerate() {
        cluster.host(1).api().call(&["disk", "create", name, "--size", "64MiB", "--host", "h1"])?;
        write(cluster, name, n as u8)?;
        // Placement goes by what other shards told last, twice a second: a disk that was made just now is not in it.
        std::thread::sleep(Duration::from_secs(1));
    }
    check_shards(cluster)?;
    let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
    scene.sleep_until(30);
    cluster.kill(1)?;
    scene.goes_on(cluster, "through another server", Duration::from_secs(20))?;
    check(cluster.owner(2, DISK)? != 1, || "a dead server owns the disk".into())?;
    scene.sleep_until(60);
    cluster.host(1).reconfigure("shards = 2", "shards = 1")?;
    cluster.restart(1)?;
    for name in DISKS.iter().chain([&DISK]) {
        cluster.wait_healthy(2, name, Duration::from_secs(60))?;
    }
    wait_for_servers(cluster, 1)?;
    for (n, name) in DISKS.iter().enumerate() {
        check_content(cluster, name, n as u8)?;
    }
    scene.finish(cluster, &[2, 3, 4], STALL_MAX)
}

/// Disk groups are known when their shards have told of them.
fn wait_for_servers(cluster: &Cluster, n: u8) -> Outcome<()> {
    let seen = || check_servers(&cluster.host(n).api().call(&["host", "list"])?);
    wait_until("four servers are seen with both shards", Duration::from_secs(10), seen)
}

fn check_servers(servers: &Value) -> Outcome<()> {
    let servers = servers.as_array().cloned().unwrap_or_default();
    let names: Vec<_> = servers.iter().filter_map(|s| s["name"].as_str()).collect();
    check(names == ["h1", "h2", "h3", "h4"], || format!("servers are {names:?}"))?;
    for server in servers {
        let groups = server["disk_groups"].as_array().map_or(0, Vec::len);
        check(groups == 2 && server["shards"] == 2 && server["up"] == true, || server.to_string())?;
    }
    Ok(())
}

fn connect(cluster: &Cluster, name: &str) -> Outcome<NbdClient> {
    let target = Target::Unix(cluster.host(1).nbd_socket());
    NbdClient::connect(&target, name, Duration::from_secs(20)).map_err(|e| e.to_string())
}

fn write(cluster: &Cluster, name: &str, byte: u8) -> Outcome<()> {
    connect(cluster, name)?.write(0, &vec![byte + 1; MIB]).map_err(|e| format!("write disk {name}: {e}"))
}

fn check_content(cluster: &Cluster, name: &str, byte: u8) -> Outcome<()> {
    let mut found = vec![0; MIB];
    connect(cluster, name)?.read(0, &mut found).map_err(|e| format!("read disk {name}: {e}"))?;
    check(found.iter().all(|b| *b == byte + 1), || format!("disk {name} has other bytes"))
}

/// Each disk's guest was served at the one shard that has a copy of it, and both shards served some.
fn check_shards(cluster: &Cluster) -> Outcome<()> {
    let counters = cluster.host(1).api().call(&["counters"])?;
    let shards = counters["hosts"].as_array().cloned().unwrap_or_default();
    let mut served = BTreeSet::new();
    for name in DISKS {
        let disk = cluster.disk(1, name)?;
        let components = disk["components"].as_array().cloned().unwrap_or_default();
        let copies: Vec<&Value> = components.iter().filter(|c| c["role"] == "data").map(|c| &c["disk_group"]).collect();
        let counts = |shard: &&Value| {
            let disks = shard["disks"].as_array().cloned().unwrap_or_default();
            disks.iter().any(|d| d["name"] == name && d["guests"]["write_requests"] == 1)
        };
        let at: Vec<&Value> = shards.iter().filter(counts).collect();
        let names: Vec<&str> = at.iter().filter_map(|shard| shard["host_name"].as_str()).collect();
        cluster.say(format!("disk {name} was written at {names:?}"));
        let [only] = at[..] else { return Err(format!("disk {name} was written at {names:?}")) };
        let groups = only["disk_groups"].as_array().cloned().unwrap_or_default();
        check(groups.iter().any(|g| copies.contains(&&g["id"])), || format!("{names:?} has no copy of disk {name}"))?;
        served.extend(names.into_iter().map(str::to_owned));
    }
    let both = BTreeSet::from(["h1".to_owned(), "h1.shard-2".to_owned()]);
    check(served == both, || format!("disks were served at {served:?} only"))
}
