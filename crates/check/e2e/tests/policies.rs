//! A disk gets another policy and another place under load: the commands of the operator's page, as they stand there.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::{DISK, Scene, fill, play},
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/policies.md");
/// What the page calls the host.
const CALLED: &str = "host-2";
/// No host fails: nothing but a change of the record stands in the way of guests.
const STALL_MAX: Duration = Duration::from_secs(2);
/// MiB of the disk that are written before, behind those that the loads write.
const FILLED_MIB: u64 = 128;

/// Goal: every command of the page does what the page says, and no guest meets an error or waits long. Method: the page's commands, in
/// their order, on a disk of two copies; data are read back in the end, from the copies that are left.
#[test]
fn the_commands_of_the_page_change_a_disk_under_load() {
    play("policies", &Shape { hosts: 5, hosts_with_disks: 5, ..Shape::default() }, |cluster| {
        let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4, 5])?;
        fill(cluster, 1, 256, FILLED_MIB)?;
        let begun = Instant::now();
        for command in page::commands(PAGE) {
            let owner = cluster.owner(1, DISK)?;
            let held = cluster.replicas(1, DISK)?;
            let from = *held.iter().find(|host| **host != owner).ok_or("nothing beside the owner's")?;
            let name = cluster.host(from).name();
            let words: Vec<String> = command.split_whitespace().map(|word| word.replace(CALLED, &name)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["cairn", "resync", "list"] => no_resync(cluster)?,
                ["cairn", words @ ..] => {
                    let answer = cluster.host(1).api().call(words)?;
                    judge(cluster, words, &answer, from)?;
                    cluster.say(format!("cairn {}: {answer}", words.join(" ")));
                }
                other => return Err(format!("nobody here knows {other:?}")),
            }
        }
        cluster.say(format!("all of it took {:.1} s", begun.elapsed().as_secs_f64()));
        scene.finish(cluster, &[1, 2, 3, 4, 5], STALL_MAX)
    });
}

/// Goal: room that a policy sets aside is there before the policy is, and a policy that cannot be met changes nothing. Method: three
/// hosts: reserve some of what they have, then more, then nothing; then more copies than they can hold, with and without force.
#[test]
fn a_policy_that_cannot_be_met_changes_nothing() {
    play("policies-refused", &Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() }, |cluster| {
        // Of 1 GiB a device: the first disk leaves too little for the second.
        cluster.create_disk(DISK, 600, 1)?;
        cluster.create_disk("vm-2", 600, 1)?;
        let api = cluster.host(1).api();
        api.call(&["policy", "create", "thick", "--reservation", "100"])?;
        api.call(&["policy", "create", "gold", "--ftt", "2"])?;
        api.call(&["disk", "set-policy", DISK, "thick"])?;
        let shown = cluster.disk(1, DISK)?;
        check(shown["policy"] == "thick" && shown["rules"]["reservation_percent"] == 100, || shown.to_string())?;
        let copies = cluster.replicas(1, "vm-2")?;
        let shared = cluster.replicas(1, DISK)?.iter().any(|host| copies.contains(host));
        check(shared, || "two disks of two copies on three hosts share one".into())?;
        let refused =
            api.ask(&["disk", "set-policy", "vm-2", "thick"]).err().ok_or("more is promised than there is")?;
        check(refused.words.contains("NoSpace"), || format!("{refused:?}"))?;
        let shown = cluster.disk(1, "vm-2")?;
        check(shown["policy"] == "default" && shown["rules"]["reservation_percent"] == 0, || shown.to_string())?;
        api.call(&["disk", "set-policy", DISK, "default"])?;
        api.call(&["disk", "set-policy", "vm-2", "thick"])?;
        let refused = api.ask(&["disk", "set-policy", DISK, "gold"]).err().ok_or("five hosts are needed")?;
        check(refused.words.contains("5 fault domains"), || format!("{refused:?}"))?;
        check(cluster.disk(1, DISK)?["health"] == "healthy", || "refused, and changed".into())?;
        api.call(&["disk", "set-policy", DISK, "gold", "--force"])?;
        let shown = cluster.disk(1, DISK)?;
        check(shown["policy"] == "gold" && shown["health"] == "reduced-redundancy", || shown.to_string())?;
        api.call(&["disk", "set-policy", DISK, "default"])?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(30))
    });
}

fn no_resync(cluster: &Cluster) -> Outcome<()> {
    wait_until("no resync is under way, and the policy is met", Duration::from_secs(60), || {
        let list = cluster.host(1).api().call(&["resync", "list"])?;
        let health = cluster.disk(1, DISK)?["health"].clone();
        check(list.as_array().is_none_or(Vec::is_empty) && health == "healthy", || format!("{health}, {list}"))
    })
}

/// One disk has the policy, and its limit alone is changed.
fn edited(cluster: &Cluster, answer: &Value, dry: bool) -> Outcome<()> {
    let one = answer["disks"].as_array().is_some_and(|disks| disks.len() == 1 && disks[0]["disk"] == DISK);
    let told =
        one && answer["begun"] == !dry && answer["bytes_to_copy"] == 0 && answer["left_out"] == serde_json::json!([]);
    check(told, || answer.to_string())?;
    let limit = if dry { 0 } else { 20_000 };
    let (shown, policy) = (cluster.disk(1, DISK)?, cluster.host(1).api().call(&["policy", "show", "gold"])?);
    let has = shown["rules"]["iops_limit"] == limit && policy["rules"]["iops_limit"] == limit;
    check(has, || format!("{shown}, {policy}"))
}

/// `from`: the host that is to be left.
fn judge(cluster: &Cluster, words: &[&str], answer: &Value, from: u8) -> Outcome<()> {
    let many = |what: &str| answer[what].as_array().map_or(0, Vec::len);
    let dry = words.contains(&"--dry-run");
    let (made, gone) = match words {
        ["policy", "edit", ..] => return edited(cluster, answer, dry),
        ["policy", ..] => return Ok(()),
        ["disk", "set-policy", _, "gold", ..] => (1, 0),
        ["disk", "set-policy", _, "default"] => (0, 1),
        // Five hosts: 3+1 in place of two copies.
        ["disk", "set-policy", _, "archive", ..] => (4, 2),
        ["disk", "move", ..] => (1, 1),
        other => return Err(format!("nobody here knows {other:?}")),
    };
    let told = many("added") == made && many("removed") == gone && answer["begun"] == !dry;
    check(told && answer["obstacle"].is_null(), || format!("{words:?}: {answer}"))?;
    if made > 0 {
        let bytes = answer["bytes_to_copy"].as_u64().unwrap_or(0);
        // A member of 3+1 has a third of it.
        let least = if words[1] == "move" { (FILLED_MIB << 20) / 3 } else { FILLED_MIB << 20 };
        check(bytes >= least, || format!("{words:?}: {answer}"))?;
    }
    let copies = |count: usize, without: Option<u8>| {
        wait_until(&format!("the disk has {count} copies"), Duration::from_secs(60), || {
            let copies = cluster.replicas(1, DISK)?;
            let left = without.is_none_or(|host| !copies.contains(&host));
            check(copies.len() == count && left, || format!("{copies:?}"))
        })
    };
    match words {
        _ if dry => copies(cluster.replicas(1, DISK)?.len(), None),
        ["disk", "set-policy", _, "gold"] => copies(3, None),
        ["disk", "set-policy", _, "archive"] => copies(4, None),
        ["disk", "set-policy", ..] => copies(2, None),
        _ => copies(4, Some(from)),
    }
}
