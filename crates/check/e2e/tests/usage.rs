//! What a disk takes and what its snapshots give back, as told and as measured; and another name for a disk in use.

use std::time::Duration;

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape,
    scene::{DISK, play, targets},
    wait::check,
    wait_until,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// MiB of the disk.
const SIZE: u64 = 256;
/// Its other name.
const RENAMED: &str = "web-1";
/// Until space came back, a host was seen to be away, or all hosts know a name.
const SEEN_LIMIT: Duration = Duration::from_secs(20);

/// Goal: what is told before a snapshot is deleted is what comes back on the devices, and a disk that gets another name stays the same disk
/// for those who have it open. Method: two snapshots with parts of their own and one in common; one is deleted, and the disk groups are asked. A
/// host with a copy dies and is named. Then the disk is renamed under a client, by force.
#[test]
fn a_disk_tells_what_it_takes_and_gets_another_name() {
    play("usage", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, SIZE, 1)?;
        let mut client = connect(cluster, DISK, 1)?;
        fill(&mut client, 0..16, 1)?;
        take(cluster, "first")?;
        fill(&mut client, 0..8, 2)?;
        take(cluster, "second")?;
        fill(&mut client, 0..4, 3)?;
        fill(&mut client, 12..14, 3)?;
        // Of the first one 0..8 alone, of the second one 0..4, of both 12..14.
        let told = usage(cluster, 1)?;
        check(told["size_bytes"] == SIZE * MIB && told["not_counted"] == Value::Array(Vec::new()), || {
            told.to_string()
        })?;
        let found = [mib(&told["head"]), mib(&told["kept"]), mib(&told["leaving"]), alone(&told, 0), alone(&told, 1)];
        check(found == [(16, 32), (14, 28), (0, 0), (8, 16), (4, 8)], || format!("{found:?}: {told}"))?;
        cluster.say(format!("told: {told}"));

        let api = cluster.host(3).api();
        let preview = api.call(&["snapshot", "delete", &format!("{DISK}@first"), "--dry-run"])?;
        check(preview["name"] == "first" && mib(&preview["alone"]) == (8, 16), || preview.to_string())?;
        let before = used_when_destaged(cluster)?;
        let list = api.call(&["snapshot", "list", DISK])?;
        check(list.as_array().is_some_and(|all| all.len() == 2), || format!("a preview deletes nothing: {list}"))?;
        api.call(&["snapshot", "delete", &format!("{DISK}@first"), "--yes"])?;
        wait_until("the space of the first one comes back", SEEN_LIMIT, || {
            let back = before.saturating_sub(used_when_destaged(cluster)?);
            check(back == 16 * MIB, || format!("{back} bytes came back"))
        })?;
        let told = usage(cluster, 1)?;
        let found = [mib(&told["head"]), mib(&told["kept"]), mib(&told["leaving"]), alone(&told, 0)];
        check(found == [(16, 32), (6, 12), (0, 0), (6, 12)], || format!("{found:?}: {told}"))?;
        cluster.say("what was told came back");

        names_who_is_away(cluster)?;
        rename(cluster, client)
    });
}

fn connect(cluster: &Cluster, disk: &str, host: u8) -> Outcome<NbdClient> {
    let target = &targets(cluster, &[host])[0];
    NbdClient::connect(target, disk, Duration::from_secs(5)).map_err(|e| e.to_string())
}

fn fill(client: &mut NbdClient, parts: std::ops::Range<u64>, byte: u8) -> Outcome<()> {
    let data = vec![byte; MIB as usize];
    parts.into_iter().try_for_each(|part| client.write(part * MIB, &data)).map_err(|e| e.to_string())
}

fn take(cluster: &Cluster, name: &str) -> Outcome<()> {
    cluster.host(2).api().call(&["snapshot", "create", name, DISK]).map(drop)
}

fn usage(cluster: &Cluster, host: u8) -> Outcome<Value> {
    cluster.host(host).api().call(&["disk", "usage", DISK])
}

/// In MiB: for a guest, and on all hosts.
fn mib(space: &Value) -> (u64, u64) {
    let number = |name: &str| space[name].as_u64().unwrap_or(u64::MAX) / MIB;
    (number("logical_bytes"), number("raw_bytes"))
}

fn alone(told: &Value, snapshot: usize) -> (u64, u64) {
    mib(&told["snapshots"][snapshot]["alone"])
}

/// Bytes that all disk groups have in use, once nothing is in their logs.
fn used_when_destaged(cluster: &Cluster) -> Outcome<u64> {
    let api = cluster.host(1).api();
    api.call(&["cache", "clear", "--wait", "20"])?;
    let groups = api.call(&["disk-group", "list"])?;
    let used = groups.as_array().into_iter().flatten().map(|group| group["capacity"]["used_bytes"].as_u64());
    used.sum::<Option<u64>>().ok_or_else(|| groups.to_string())
}

/// A host with a copy is killed, and comes back.
fn names_who_is_away(cluster: &mut Cluster) -> Outcome<()> {
    let copies = cluster.replicas(1, DISK)?;
    let other = *copies.iter().find(|host| **host != 1).ok_or("no copy beside that of h1")?;
    cluster.kill(other)?;
    wait_until("the copy that is away is not counted", SEEN_LIMIT, || {
        let told = usage(cluster, 1)?;
        let named = told["not_counted"][0]["host_name"] == cluster.host(other).name().as_str();
        check(named && mib(&told["head"]) == (16, 16) && alone(&told, 0) == (6, 6), || told.to_string())
    })?;
    cluster.restart(other)?;
    cluster.wait_healthy(1, DISK, Duration::from_secs(60))
}

fn rename(cluster: &mut Cluster, mut client: NbdClient) -> Outcome<()> {
    let api = cluster.host(4).api();
    cluster.create_disk("vm-2", 8, 1)?;
    let [former, socket] = [DISK, RENAMED].map(|disk| cluster.host(1).vhost_user_socket(disk));
    wait_until("the disk has its socket", SEEN_LIMIT, || check(former.exists(), || "it is not there".into()))?;
    for (words, said) in [
        (&["disk", "rename", DISK, RENAMED][..], "in use: nbd at h1"),
        (&["disk", "rename", DISK, "vm-2", "--force"], "exists already"),
        (&["disk", "rename", DISK, DISK, "--force"], "has the name"),
        (&["disk", "rename", DISK, "a/b", "--force"], "cannot be the name"),
        (&["disk", "rename", "nobody", RENAMED], "there is no disk"),
    ] {
        let refused = api.ask(words).err().ok_or_else(|| format!("{words:?} is not refused"))?;
        check(refused.words.contains(said), || format!("{words:?}: {refused:?}"))?;
    }
    let shown = api.call(&["disk", "rename", DISK, RENAMED, "--force"])?;
    let named = shown["name"] == RENAMED && shown["notes"] == Value::Array(Vec::new());
    check(named && shown["sessions"][0]["front_end"] == "nbd", || shown.to_string())?;
    client.write(20 * MIB, &[9; 4096]).map_err(|e| format!("the client that is there: {e}"))?;
    let mut read = vec![0; 4096];
    connect(cluster, RENAMED, 3)?.read(20 * MIB, &mut read).map_err(|e| e.to_string())?;
    check(read == [9; 4096], || "another disk has the new name".into())?;
    wait_until("all hosts know the new name", SEEN_LIMIT, || {
        let former: Vec<u8> = (1..=4).filter(|host| connect(cluster, DISK, *host).is_ok()).collect();
        check(former.is_empty(), || format!("hosts {former:?} open {DISK}"))?;
        let told = cluster.host(1).api().call(&["session", "list"])?;
        check(told["sessions"][0]["disk"] == RENAMED, || told.to_string())
    })?;
    wait_until("the socket has moved", SEEN_LIMIT, || {
        check(socket.exists() && !former.exists(), || format!("{} or {}", socket.display(), former.display()))
    })?;
    // The directory can be rebuilt from it.
    let record = api.call(&["disk", "record", RENAMED])?;
    check(record["config"]["name"] == RENAMED, || record.to_string())?;
    let list = api.call(&["snapshot", "list", RENAMED])?;
    check(list[0]["name"] == "second" && list[0]["disk"] == RENAMED, || list.to_string())?;
    // Its former name is free.
    cluster.create_disk(DISK, 8, 1)?;
    drop(client);
    wait_until("it goes by its new name", SEEN_LIMIT, || api.call(&["disk", "delete", RENAMED, "--yes"]).map(drop))
}
