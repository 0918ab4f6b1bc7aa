//! A host is emptied, stopped, started and taken into use again, under load: the commands of the operator's page, as they stand there.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    scene::{DISK, Scene, fill, play, roles},
    wait::{check, wait_until},
};

const PAGE: &str = include_str!("../../../../docs/operating/maintenance.md");
/// What the page calls the host.
const CALLED: &str = "host-2";
/// A host that stops hands its disks over: less than a host that dies (8 s) by a lease.
const STALL_MAX: Duration = Duration::from_secs(6);
/// MiB of the disk that are written before, behind those that the loads write.
const FILLED_MIB: u64 = 256;

/// Goal: every command of the page does what the page says, and no guest meets an error or waits long. Method: the page's commands, in
/// their order, for the host of the copy that is not the owner's, then for the owner's; data are read back in the end.
#[test]
fn the_commands_of_the_page_empty_a_host_under_load() {
    play("maintenance", &Shape::default(), scenario);
}

/// Goal: what cannot be emptied is refused, and nothing is begun. Method: three hosts, a mirror on all of them.
#[test]
fn a_host_of_three_is_not_emptied() {
    play("maintenance-of-three", &Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() }, |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let api = cluster.host(1).api();
        let words = ["host", "maintenance", "enter", "h2", "--mode", "full-evacuation"];
        let refused = api.ask(&words).err().ok_or("a host of three is emptied")?;
        check(refused.code == 1 && refused.words.contains("needs 3 fault domains"), || format!("{refused:?}"))?;
        let now = api.call(&["host", "maintenance", "show", "h2"])?;
        check(now["state"] == "out" && now["components_left"] == 0, || format!("{now}"))?;
        let entered = api.call(&["host", "maintenance", "enter", "h2"])?;
        check(entered["state"] == "in" && entered["reduced"] == 1, || format!("{entered}"))?;
        let health = api.call(&["health"])?;
        let checks = health["checks"].as_array().cloned().unwrap_or_default();
        let told = checks.iter().find(|check| check["name"] == "maintenance").ok_or("no such check")?;
        check(told["findings_total"] == 1, || format!("{told}"))?;
        api.call(&["host", "maintenance", "leave", "h2"]).map(drop)
    });
}

/// Goal: a disk group is emptied under load, removed, and made anew of its devices; a disk tells what it takes. Method: four hosts, the
/// disk group of the copy that is not the owner's.
#[test]
fn a_disk_group_is_emptied_and_removed_under_load() {
    play("drain", &Shape::default(), |cluster| {
        let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
        fill(cluster, 1, 256, FILLED_MIB / 4)?;
        let (host, _) = roles(cluster, 1)?;
        let api = cluster.host(1).api();
        let groups = api.call(&["disk-group", "list"])?;
        let groups = groups.as_array().cloned().unwrap_or_default();
        let group = groups.iter().find(|g| g["host_name"] == cluster.host(host).name()).ok_or("no disk group")?;
        let id = group["id"].as_str().ok_or("an id")?;
        let full = api.ask(&["disk-group", "remove", id, "--yes"]).err().ok_or("a full group is removed")?;
        check(full.words.contains("disk-group drain"), || format!("{full:?}"))?;
        let told = cluster.disk(1, DISK)?["allocated_bytes"].as_u64().unwrap_or(0);
        check(told >= (FILLED_MIB / 4) << 21, || format!("two copies take {told} bytes"))?;
        let begun = Instant::now();
        let drained = api.call(&["disk-group", "drain", id, "--wait"])?;
        check(drained["state"] == "in" && drained["components_left"] == 0, || format!("{drained}"))?;
        cluster.say(format!("the disk group of h{host} is empty after {:.1} s", begun.elapsed().as_secs_f64()));
        api.call(&["disk-group", "remove", id, "--yes"])?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(30))?;
        let path = |device: &serde_json::Value| device["path"].as_str().unwrap_or_default().to_owned();
        let (cache, capacity) = (path(&group["cache"]), path(&group["devices"][0]));
        let name = cluster.host(host).name();
        let create = ["disk-group", "create", "--host", &name, "--cache", &cache, "--capacity", &capacity];
        let made = api.call(&create)?;
        check(made["draining"] == false && made["components"] == 0, || format!("{made}"))?;
        scene.finish(cluster, &[1, 2, 3, 4], STALL_MAX)
    });
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
    fill(cluster, 1, 256, FILLED_MIB)?;
    let (other, _) = roles(cluster, 1)?;
    for host in [other, 1] {
        let asked = if host == 1 { 2 } else { 1 };
        carry_out_the_page(cluster, host, asked)?;
        scene.goes_on(cluster, "after the maintenance", Duration::from_secs(10))?;
        cluster.wait_healthy(asked, DISK, Duration::from_secs(60))?;
        let copies = cluster.replicas(asked, DISK)?;
        check(!copies.contains(&host), || format!("h{host} was emptied and has a copy: {copies:?}"))?;
    }
    scene.finish(cluster, &[2, 3, 4], STALL_MAX)
}

/// Each command of the page's code blocks, said of this host, at another one.
fn carry_out_the_page(cluster: &mut Cluster, host: u8, asked: u8) -> Outcome<()> {
    let commands: Vec<&str> = PAGE
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .flat_map(str::lines)
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .collect();
    check(commands.len() == 6, || format!("the page has other commands than this test knows: {commands:?}"))?;
    let name = cluster.host(host).name();
    // The host of the owner may have the witness alone.
    let least = if cluster.replicas(asked, DISK)?.contains(&host) { FILLED_MIB << 20 } else { 0 };
    for command in commands {
        let words: Vec<String> = command.split_whitespace().map(|word| word.replace(CALLED, &name)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["systemctl", "stop", "cairnd"] => cluster.stop(host)?,
            ["systemctl", "start", "cairnd"] => cluster.restart(host)?,
            ["cairn", "resync", "list"] => wait_until("no resync is under way", Duration::from_secs(60), || {
                let list = cluster.host(asked).api().call(&["resync", "list"])?;
                check(list.as_array().is_none_or(Vec::is_empty), || list.to_string())
            })?,
            ["cairn", words @ ..] => {
                let began = Instant::now();
                let answer = cluster.host(asked).api().call(words)?;
                judge(words, &answer, least)?;
                cluster.say(format!("cairn {}: {answer} ({:.1} s)", words.join(" "), began.elapsed().as_secs_f64()));
            }
            other => return Err(format!("nobody here knows {other:?}")),
        }
    }
    Ok(())
}

/// `least`: bytes that the host's copies have at least.
fn judge(words: &[&str], answer: &serde_json::Value, least: u64) -> Outcome<()> {
    let state = if words.contains(&"--wait") { "in" } else { "out" };
    check(answer["state"] == state, || format!("{words:?}: {answer}"))?;
    if words.contains(&"--dry-run") {
        let bytes = answer["bytes_left"].as_u64().unwrap_or(0);
        let fine = answer["components_left"] == 1 && bytes >= least && answer["obstacles"] == serde_json::json!([]);
        check(fine, || format!("the preview: {answer}"))?;
    }
    Ok(())
}
