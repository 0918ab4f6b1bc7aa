//! Snapshots: the commands of the operator's page on real hosts, read by the tools of others, while hosts die.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    images::{self, same, uri},
    page,
    scene::{DISK, Scene, play},
    tools::{run, tool},
    wait::{check, wait_until},
};

const PAGE: &str = include_str!("../../../../docs/operating/snapshots.md");
/// A disk that only this test writes, in whole.
const OTHER: &str = "vm-2";
const OTHER_MIB: u64 = 48;
/// One host dies meanwhile: a lease, the take-over, the reconnection of the client.
const STALL_MAX: Duration = Duration::from_secs(8);

/// Goal: each command of the page does what the page says, on disks under load, and what a snapshot holds outlives hosts. Method: a disk is
/// filled with one image, and with another after the snapshots; snapshots are read by nbdcopy at every host, with the owner's host killed,
/// then with only the host that had been away; the disk goes back, and is compared.
#[test]
fn the_commands_of_the_page_take_snapshots_and_go_back() {
    play("snapshots", &Shape { hosts: 4, hosts_with_disks: 4, ..Shape::default() }, |cluster| {
        let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
        cluster.create_disk(OTHER, OTHER_MIB, 2)?;
        let [first, second] = [image(cluster, "first", 1)?, image(cluster, "second", 2)?];
        write(cluster, &first, 1)?;
        let mut before = None;
        // What follows is played by `schedules`.
        let (own_part, _) = PAGE.split_once("## Locks and schedules").ok_or("the page has no such section")?;
        for command in page::commands(own_part) {
            // The page's one disk is the test's own: its load would be undone with it.
            let words: Vec<String> = command.split_whitespace().map(|word| rename(word, command)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["nbdcopy", ..] => {
                    write(cluster, &second, 3)?;
                    before = Some(read_while_hosts_die(cluster, &first)?);
                }
                ["cairn", words @ ..] => {
                    let answer = cluster.host(1).api().call(words)?;
                    cluster.say(format!("cairn {}: {answer}", words.join(" ")));
                    match words {
                        ["snapshot", "list", ..] => {
                            let names: Vec<&str> = answer
                                .as_array()
                                .into_iter()
                                .flatten()
                                .filter_map(|one| one["name"].as_str())
                                .collect();
                            check(names == ["before-update", "nightly"], || answer.to_string())?;
                        }
                        ["snapshot", "changes", ..] => {
                            // Nobody has written since.
                            check(answer["extents"] == serde_json::json!([]), || answer.to_string())?;
                        }
                        ["disk", "usage", ..] => {
                            let kept = answer["snapshots"].as_array().map(Vec::len);
                            check(kept == Some(2) && answer["not_counted"] == serde_json::json!([]), || {
                                answer.to_string()
                            })?;
                        }
                        ["snapshot", "rollback", ..] => {
                            check(
                                answer["kept"].as_str().is_some_and(|name| name.starts_with("before-rollback-")),
                                || answer.to_string(),
                            )?;
                            same(cluster, OTHER, 4, &first)?;
                            let kept = format!("{OTHER}@{}", answer["kept"].as_str().unwrap_or_default());
                            same(cluster, &kept, 1, &second)?;
                            changes(cluster, &kept, [&first, &second])?;
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("nobody here knows {other:?}")),
            }
        }
        check(before.is_some(), || "the page reads no snapshot".into())?;
        refused(cluster)?;
        scene.finish(cluster, &[1, 2, 3, 4], STALL_MAX)
    });
}

/// The page's vm-1 is this test's disk; of the two that are taken together one is under load.
fn rename(word: &str, command: &str) -> String {
    match word {
        "vm-1" if command.contains("nightly") => DISK.to_owned(),
        "vm-2" => OTHER.to_owned(),
        word => word.replace("vm-1", OTHER),
    }
}

/// A file with data everywhere but for some holes.
fn image(cluster: &Cluster, name: &str, version: u64) -> Outcome<PathBuf> {
    let has_data = |mib: u64| !(mib + version).is_multiple_of(5);
    images::image(cluster, name, OTHER_MIB, |mib| has_data(mib).then_some(version as u32))
}

fn write(cluster: &Cluster, image: &Path, host: u8) -> Outcome<()> {
    images::write(cluster, image, OTHER, host)
}

/// What changed from the first snapshot to another one has each block in which their images differ.
fn changes(cluster: &Cluster, later: &str, images: [&Path; 2]) -> Outcome<()> {
    let told = cluster.host(3).api().call(&["snapshot", "changes", later, "--since", "before-update"])?;
    let number = |extent: &serde_json::Value, name: &str| extent[name].as_u64().unwrap_or_default();
    let extents: Vec<(u64, u64)> = told["extents"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|extent| (number(extent, "offset_bytes"), number(extent, "len_bytes")))
        .collect();
    let [one, other] = images.map(|image| fs::read(image).map_err(|e| e.to_string()));
    let (one, other) = (one?, other?);
    let is_told = |at: u64| extents.iter().any(|(from, len)| (*from..from + len).contains(&at));
    let blocks = one.chunks(4096).zip(other.chunks(4096)).zip((0..).step_by(4096));
    let untold: Vec<u64> = blocks.filter(|((a, b), at)| a != b && !is_told(*at)).map(|(_, at)| at).collect();
    check(untold.is_empty(), || format!("blocks at {untold:?} changed, and are not told: {told}"))?;
    check(!extents.is_empty(), || told.to_string())
}

fn read_while_hosts_die(cluster: &mut Cluster, first: &Path) -> Outcome<()> {
    let export = format!("{OTHER}@before-update");
    for host in [1, 2, 3, 4] {
        same(cluster, &export, host, first)?;
    }
    let told = run(tool("nbdinfo").args(["--json", &uri(cluster, &export, 1)]))?;
    check(told.contains("\"is_read_only\": true"), || told.clone())?;
    let owner = cluster.owner(1, OTHER)?;
    let copies = cluster.replicas(1, OTHER)?;
    let (dies, stays) = match copies.as_slice() {
        [a, b] => {
            if *a == owner {
                (*a, *b)
            } else {
                (*b, *a)
            }
        }
        other => return Err(format!("a disk with two copies has {other:?}")),
    };
    cluster.kill(dies)?;
    same(cluster, &export, stays, first)?;
    // The one that was away is filled, history and all; then it is alone.
    let other = image(cluster, "third", 3)?;
    write(cluster, &other, stays)?;
    cluster.restart(dies)?;
    healthy(cluster, stays)?;
    cluster.kill(stays)?;
    same(cluster, &export, dies, first)?;
    cluster.restart(stays)?;
    healthy(cluster, dies)?;
    let second = image(cluster, "second", 2)?;
    write(cluster, &second, 1)?;
    wait_until("nobody has the disk open", Duration::from_secs(10), || {
        let sessions = cluster.disk(1, OTHER)?["sessions"].clone();
        check(sessions.as_array().is_some_and(Vec::is_empty), || sessions.to_string())
    })
}

fn healthy(cluster: &Cluster, seen_from: u8) -> Outcome<()> {
    [DISK, OTHER].into_iter().try_for_each(|disk| cluster.wait_healthy(seen_from, disk, Duration::from_secs(60)))
}

/// What cannot be done is refused in words, and changes nothing.
fn refused(cluster: &Cluster) -> Outcome<()> {
    let api = cluster.host(1).api();
    for (words, said) in [
        (vec!["snapshot", "create", "nightly", DISK], "has a snapshot \"nightly\" already"),
        (vec!["snapshot", "create", "a@b", DISK], "cannot be the name of a snapshot"),
        (vec!["snapshot", "create", "new", DISK, "nobody"], "there is no disk"),
        (vec!["snapshot", "delete", "vm-2@nobody", "--yes"], "no snapshot"),
        (vec!["snapshot", "rollback", &format!("{DISK}@nightly"), "--yes"], "in use"),
    ] {
        let refused = api.ask(&words).err().ok_or_else(|| format!("{words:?} is not refused"))?;
        check(refused.words.contains(said), || format!("{words:?}: {refused:?}"))?;
    }
    let list = api.call(&["snapshot", "list", DISK])?;
    check(list.as_array().is_some_and(|all| all.len() == 1), || list.to_string())
}
