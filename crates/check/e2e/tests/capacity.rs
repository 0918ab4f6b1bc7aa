//! Where the bytes of a cluster are, as told and as the devices have them; and compression, switched on under disks in use.

use std::{fs, time::Duration};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape,
    scene::{play, targets},
    wait::check,
    wait_until,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const HOSTS: u8 = 4;
/// MiB of each disk.
const SIZE: u64 = 16;
const DISKS: u64 = 20;
/// Names, and what they are made with; the first is there.
const POLICIES: [(&str, &[&str]); 5] = [
    ("default", &[]),
    ("single", &["--ftt", "0"]),
    ("rows", &["--ftm", "erasure-coding", "--data-strips", "2"]),
    ("thick", &["--reservation", "100"]),
    ("part", &["--reservation", "30"]),
];
/// What overwrote a block and is not settled yet stands beside it.
const ADDS_UP: &str = "the parts add up";
/// Until owners have said that the last writes are settled, and that is destaged.
const SETTLED_LIMIT: Duration = Duration::from_secs(30);
/// Until a host that was killed tells again.
const TELLS_LIMIT: Duration = Duration::from_secs(30);

/// Goal: the parts of the capacity view are what disks tell of themselves, and what the devices are long, to the block; compression is switched on in
/// use, saves what packs, and is on after a start. Method: 20 disks of five policies with snapshots and clones; all logs are destaged, and the sums
/// compared; then disk groups pack, half of the disks are written over with text, and the sums are compared again.
#[test]
fn the_parts_of_all_devices_add_up() {
    play("capacity", &Shape { hosts: HOSTS, hosts_with_disks: HOSTS, ..Shape::default() }, |cluster| {
        let api = cluster.host(1).api();
        for (name, rules) in &POLICIES[1..] {
            api.call(&[&["policy", "create", name], *rules].concat())?;
        }
        for n in 0..DISKS {
            let (policy, owner) = (POLICIES[n as usize % POLICIES.len()].0, (n % u64::from(HOSTS)) as u8 + 1);
            cluster.create_disk_of(&disk(n), SIZE, owner, Some(policy))?;
            write(cluster, &disk(n), owner, 0..1 + n % 8, |at| noise(n << 32 | at))?;
        }
        for n in 0..6 {
            api.call(&["snapshot", "create", "kept", &disk(n)])?;
            write(cluster, &disk(n), 1, 0..1, |at| noise(99 << 32 | n << 16 | at))?;
        }
        for n in [0, 3] {
            let (of, clone) = (format!("{}@kept", disk(n)), format!("clone-{n}"));
            api.call(&["disk", "clone", &of, &clone])?;
            write(cluster, &clone, 2, 4..6, |at| noise(98 << 32 | n << 16 | at))?;
        }
        let told = wait_until(ADDS_UP, SETTLED_LIMIT, || compare(cluster))?;
        check(told["stored_bytes"] == told["stored_before_bytes"], || format!("nothing packs yet: {told}"))?;

        packs(cluster, "on", true)?;
        for n in 0..DISKS / 2 {
            write(cluster, &disk(n), 3, 0..4, |at| vec![(n + at) as u8 | 1; MIB as usize])?;
        }
        let packed = wait_until(ADDS_UP, SETTLED_LIMIT, || compare(cluster))?;
        let number = |name: &str| packed[name].as_u64().unwrap_or(0);
        let (before, after) = (number("stored_before_bytes"), number("stored_bytes"));
        check(after < before * 3 / 4, || format!("{before} bytes of blocks take {after}"))?;
        cluster.say(format!("{before} bytes of blocks take {after}"));
        for n in 0..DISKS / 2 {
            let mut read = vec![0; MIB as usize];
            connect(cluster, &disk(n), 4)?.read(3 * MIB, &mut read).map_err(|e| e.to_string())?;
            check(read == vec![(n + 3) as u8 | 1; MIB as usize], || format!("{} reads back otherwise", disk(n)))?;
        }

        refused(cluster, &["disk-group", "set", "fff", "--compression", "on"], "no disk group begins with")?;
        cluster.kill(2)?;
        cluster.restart(2)?;
        wait_until("all disk groups are there and pack", TELLS_LIMIT, || {
            let groups = cluster.host(1).api().call(&["disk-group", "list"])?;
            let all = groups.as_array().ok_or("a list")?.iter().all(|group| group["compression"] == true);
            check(all, || groups.to_string())
        })?;
        packs(cluster, "off", false)
    });
}

fn disk(n: u64) -> String {
    format!("vm-{n}")
}

/// A MiB that does not pack.
fn noise(seed: u64) -> Vec<u8> {
    let step = |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    let words = std::iter::successors(step(&seed), step);
    words.map(|word| word.rotate_left(23) ^ word).take(MIB as usize / 8).flat_map(u64::to_le_bytes).collect()
}

fn connect(cluster: &Cluster, disk: &str, host: u8) -> Outcome<NbdClient> {
    let target = &targets(cluster, &[host])[0];
    NbdClient::connect(target, disk, Duration::from_secs(5)).map_err(|e| e.to_string())
}

fn write(
    cluster: &Cluster,
    disk: &str,
    host: u8,
    mut mib: std::ops::Range<u64>,
    data: impl Fn(u64) -> Vec<u8>,
) -> Outcome<()> {
    let mut client = connect(cluster, disk, host)?;
    mib.try_for_each(|at| client.write(at * MIB, &data(at))).map_err(|e| e.to_string())
}

fn refused(cluster: &Cluster, words: &[&str], said: &str) -> Outcome<()> {
    let refused = cluster.host(1).api().ask(words).err().ok_or_else(|| format!("{words:?} is not refused"))?;
    check(refused.words.contains(said), || format!("{words:?}: {refused:?}"))
}

/// Every disk group packs from now on, or does not.
fn packs(cluster: &Cluster, word: &str, on: bool) -> Outcome<()> {
    let api = cluster.host(1).api();
    let groups = api.call(&["disk-group", "list"])?;
    for group in groups.as_array().ok_or("a list")? {
        let id = group["id"].as_str().ok_or("an id")?;
        let set = api.call(&["disk-group", "set", id, "--compression", word])?;
        check(set["id"] == id && set["compression"] == on, || set.to_string())?;
    }
    Ok(())
}

/// What the cluster tells, once nothing is in the logs, beside what each disk tells and what the devices are long.
fn compare(cluster: &Cluster) -> Outcome<Value> {
    let api = cluster.host(1).api();
    api.call(&["cache", "clear", "--wait", "20"])?;
    let told = api.call(&["cluster", "capacity"])?;
    check(told["not_counted"] == Value::Array(Vec::new()), || told.to_string())?;
    let space = told["space"].clone();
    let number = |name: &str| space[name].as_u64().ok_or_else(|| format!("no {name}: {space}"));
    let (mut heads, mut past, mut sizes) = (0, 0, 0);
    for disk in api.call(&["disk", "list"])?.as_array().ok_or("a list")? {
        let usage = api.call(&["disk", "usage", disk["name"].as_str().ok_or("a name")?])?;
        let raw = |of: &str| usage[of]["raw_bytes"].as_u64().ok_or_else(|| usage.to_string());
        (heads, past) = (heads + raw("head")?, past + raw("kept")? + raw("leaving")?);
        sizes += usage["size_bytes"].as_u64().unwrap_or(0);
    }
    let held = [number("disks_bytes")? + number("clones_bytes")?, number("snapshots_bytes")?, number("unknown_bytes")?];
    check(held == [heads, past, 0], || format!("disks tell {heads} and {past} bytes: {space}"))?;
    check(told["provisioned_bytes"] == sizes, || told.to_string())?;
    check(number("clones_bytes")? > 0 && past > 0, || space.to_string())?;
    // Nobody wrote zeroes: each block that is held stands somewhere.
    check(number("stored_before_bytes")? == heads + past, || format!("{heads} + {past} bytes are held: {space}"))?;
    let parts = ["outside", "stored", "headers", "dead", "cleaner_reserve", "free"];
    let parts: Outcome<u64> = parts.iter().map(|part| number(&format!("{part}_bytes"))).sum();
    let (mut capacity, mut cache) = (0, 0);
    for host in 1..=HOSTS {
        let config = cluster.host(host).config();
        let files = fs::read_dir(config.parent().ok_or("a folder")?).map_err(|e| e.to_string())?;
        for file in files.flatten() {
            let (name, bytes) = (file.file_name(), file.metadata().map_err(|e| e.to_string())?.len());
            match name.to_str() {
                Some(name) if name.starts_with("capacity") => capacity += bytes,
                Some(name) if name.starts_with("cache") && name.ends_with(".img") => cache += bytes,
                _ => {}
            }
        }
    }
    let lengths = [number("capacity_bytes")?, parts?, number("cache_bytes")?];
    check(lengths == [capacity, capacity, cache], || format!("files have {capacity} and {cache} bytes: {space}"))?;
    Ok(space)
}
