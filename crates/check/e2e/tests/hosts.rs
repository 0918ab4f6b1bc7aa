//! Hosts join, die for good, are emptied and removed, and are taken in again, under load: the commands of the operator's page.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::{DISK, Scene, fill, play, roles},
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/hosts.md");
/// The host of guests' sessions that is asked, and stays.
const ASKED: u8 = 1;
/// A host that dies: a lease, the take-over, and what the machine is slow at.
const STALL_MAX: Duration = Duration::from_secs(8);
/// MiB of the disk that are written before, behind those that the loads write.
const FILLED_MIB: u64 = 128;
/// How long what was lost may take to be rebuilt: far below the repair delay of an hour.
const REBUILT_WITHIN: Duration = Duration::from_secs(120);

/// Goal: hosts come and go by the commands of the page, and no guest meets an error, a wrong byte or a long wait. Method: three hosts;
/// three join; one of the first dies, is forgotten and comes back; two are emptied and removed; one of them is taken in again.
#[test]
fn hosts_join_die_and_leave_under_load() {
    let shape = Shape { hosts: 6, hosts_with_disks: 6, joining: 3, ..Shape::default() };
    play("hosts", &shape, scenario);
}

/// Goal: a host is found where it listens now, and under the name that it has now. Method: one restarts with another address, one with
/// another name.
#[test]
fn a_host_with_another_address_or_name_is_followed() {
    play("hosts-readdressed", &Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() }, |cluster| {
        cluster.create_disk(DISK, 64, ASKED)?;
        cluster.stop(3)?;
        cluster.host(3).reconfigure(":9600\"", ":9700\"")?;
        cluster.restart(3)?;
        cluster.stop(2)?;
        cluster.host(2).reconfigure("name = \"h2\"", "name = \"other\"")?;
        // Members of etcd go by the host's name in the configuration.
        cluster.host(2).reconfigure("host = \"h2\"", "host = \"other\"")?;
        cluster.restart(2)?;
        wait_until("all see each other", Duration::from_secs(60), || {
            for n in 1..=3 {
                let listed = cluster.listed(n)?;
                let up = listed.iter().filter(|host| host["up"] == true).count();
                let address = |host: &Value| host["address"].as_str().unwrap_or_default().to_owned();
                let third = listed.iter().find(|host| host["name"] == "h3").map(address).unwrap_or_default();
                let named = listed.iter().any(|host| host["name"] == "other") && listed.len() == 3;
                check(up == 3 && named && third.ends_with(":9700"), || format!("h{n} lists {listed:?}"))?;
            }
            Ok(())
        })?;
        cluster.wait_healthy(ASKED, DISK, Duration::from_secs(60))
    });
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let through = [ASKED];
    let scene = Scene::begin(cluster, ASKED, &through)?;
    fill(cluster, ASKED, 256, FILLED_MIB)?;
    // The copy that is not the owner's: what is rebuilt, and moved later, are data and not a witness.
    let (dies, _) = roles(cluster, ASKED)?;
    let stays = if dies == 2 { 3 } else { 2 };
    let name = cluster.host(dies).name();
    for joins in [4, 5, 6] {
        carry_out(cluster, "A host joins", ("host-4", joins))?;
    }
    check(cluster.numbers(ASKED)?.len() == 6, || "six hosts".into())?;

    let alive = cluster.host(ASKED).api().ask(&["host", "forget", &name, "--yes"]).err();
    check(alive.as_ref().is_some_and(|no| no.words.contains("is alive")), || format!("a living host: {alive:?}"))?;
    cluster.kill(dies)?;
    scene.goes_on(cluster, "without it", Duration::from_secs(10))?;
    wait_until("it is silent to all", Duration::from_secs(20), || {
        let told = cluster.host(ASKED).api().call(&["host", "forget", &name, "--dry-run"])?;
        check(told["heard_by"] == serde_json::json!([]), || told.to_string())
    })?;
    let begun = Instant::now();
    carry_out(cluster, "A host dies for good", ("host-3", dies))?;
    check(!cluster.numbers(ASKED)?.contains(&dies), || format!("{name} is listed"))?;
    cluster.wait_healthy(ASKED, DISK, REBUILT_WITHIN)?;
    cluster.say(format!("what {name} held is rebuilt {:.1} s after it was forgotten", begun.elapsed().as_secs_f64()));
    let components = components(cluster)?;
    check(!components.contains(&name), || format!("the disk is on {components:?}"))?;
    cluster.restart(dies)?;
    is_gone(cluster, dies)?;
    check(!cluster.numbers(ASKED)?.contains(&dies), || format!("{name} took itself in"))?;
    scene.goes_on(cluster, "with the forgotten host back", Duration::from_secs(10))?;

    let full = cluster.host(ASKED).api().ask(&["host", "remove", &cluster.host(stays).name(), "--yes"]).err();
    let told = full.as_ref().is_some_and(|no| no.words.contains("full-evacuation"));
    check(told, || format!("a host in use is removed: {full:?}"))?;
    let mut left_again = Vec::new();
    for _ in 0..2 {
        // The one that joined and has the copy by now.
        let copies = cluster.replicas(ASKED, DISK)?;
        let leaves = *copies.iter().find(|n| **n > 3).ok_or("no copy at a host that joined")?;
        carry_out(cluster, "A host leaves", ("host-4", leaves))?;
        is_gone(cluster, leaves)?;
        left_again.push(leaves);
    }
    let left = cluster.numbers(ASKED)?;
    let right = left.len() == 3 && left.contains(&stays) && !left.iter().any(|n| left_again.contains(n));
    check(right, || format!("the hosts are {left:?}"))?;
    cluster.wait_healthy(ASKED, DISK, REBUILT_WITHIN)?;
    scene.goes_on(cluster, "on three hosts again", Duration::from_secs(10))?;
    carry_out(cluster, "Taken in again", ("host-4", left_again[0]))?;
    let now = cluster.numbers(ASKED)?;
    check(now.len() == 4 && now.contains(&left_again[0]), || format!("the hosts are {now:?}"))?;
    scene.finish(cluster, &through, STALL_MAX)
}

/// The hosts of the disk's components.
fn components(cluster: &Cluster) -> Outcome<Vec<String>> {
    let disk = cluster.disk(ASKED, DISK)?;
    let components = disk["components"].as_array().cloned().unwrap_or_default();
    Ok(components.iter().filter_map(|c| c["host_name"].as_str().map(str::to_owned)).collect())
}

/// Host `n` says by itself that it is none of the cluster, and refuses to change anything.
fn is_gone(cluster: &Cluster, n: u8) -> Outcome<()> {
    wait_until("the host says that it is gone", Duration::from_secs(30), || {
        let told = cluster.host(n).api().command(&["health"]).output().map_err(|e| e.to_string())?;
        let health: Value = serde_json::from_slice(&told.stdout).map_err(|e| e.to_string())?;
        let checks = health["checks"].as_array().cloned().unwrap_or_default();
        let only = checks.len() == 1 && checks[0]["name"] == "membership" && checks[0]["severity"] == "error";
        check(only && told.status.code() == Some(1), || health.to_string())
    })?;
    let refused = cluster.host(n).api().ask(&["disk", "create", "elsewhere", "--size", "1MiB"]).err();
    let told = refused.as_ref().is_some_and(|no| no.words.contains("no part of the cluster"));
    check(told, || format!("a host that is gone makes a disk: {refused:?}"))
}

/// The commands of a section's code blocks, said of host `n`, which the page calls otherwise.
fn carry_out(cluster: &mut Cluster, section: &str, (called, n): (&str, u8)) -> Outcome<()> {
    let section_begins = format!("## {section}\n");
    let text = PAGE.split(&section_begins).nth(1).ok_or_else(|| format!("the page has no section {section:?}"))?;
    let text = text.split("\n## ").next().unwrap_or_default();
    let commands = page::commands(text);
    check(!commands.is_empty(), || format!("section {section:?} has no commands"))?;
    let name = cluster.host(n).name();
    for command in commands {
        let words: Vec<String> = command.split_whitespace().map(|word| word.replace(called, &name)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["systemctl", "enable", "--now", "cairnd"] => cluster.join(n, ASKED)?,
            ["systemctl", "restart", "cairnd"] => {
                cluster.stop(n)?;
                cluster.join(n, ASKED)?;
            }
            ["cairn", "host", "list"] => {
                let found = cluster.listed(ASKED)?.into_iter().find(|host| host["name"] == name.as_str());
                let up = found.as_ref().is_some_and(|host| host["up"] == true);
                check(up, || format!("{name} is listed as {found:?}"))?;
            }
            ["cairn", words @ ..] => {
                let began = Instant::now();
                let answer = cluster.host(ASKED).api().call(words)?;
                judge(words, &answer)?;
                cluster.say(format!("cairn {}: {answer} ({:.1} s)", words.join(" "), began.elapsed().as_secs_f64()));
            }
            other => return Err(format!("nobody here knows {other:?}")),
        }
    }
    Ok(())
}

fn judge(words: &[&str], answer: &Value) -> Outcome<()> {
    let none = serde_json::json!([]);
    let fine = match words {
        // What no disk names any more may still be there for moments: `--wait` of the next command waits for it.
        ["host", "remove", _, "--dry-run"] => {
            answer["components"] == 0 && (answer["obstacles"] == none || answer["waits"] == true)
        }
        ["host", "forget", _, "--dry-run"] => {
            answer["reduced"] == serde_json::json!([DISK]) && answer["lost"] == none && answer["not_rebuilt"] == none
        }
        ["host", "maintenance", ..] => answer["state"] == "in",
        _ => true,
    };
    check(fine, || format!("{words:?}: {answer}"))
}
