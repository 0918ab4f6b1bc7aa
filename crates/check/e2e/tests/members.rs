//! The directory's members are changed under load: the commands of the operator's page, as they stand there.

use std::time::{Duration, Instant};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::{DISK, Scene, play},
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/members.md");
/// The host that is asked: it stays.
const ASKED: u8 = 1;
/// A host dies: a lease, the take-over, and what the machine is slow at.
const STALL_MAX: Duration = Duration::from_secs(8);
/// etcd takes the next change when all members have been connected for 5 s; and machines are slow.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const UP_WITHIN: Duration = Duration::from_secs(30);

/// Goal: members come, die and go by the commands of the page, the directory takes every change meanwhile, and no guest notices. Method:
/// six hosts, the last of which joins by the file that `cairn host join` writes; three members become five; one of their hosts dies, is
/// forgotten, and its member replaced; five become three. In the end none of those that the configurations name is a member, and a host
/// whose configuration is as old finds the directory by its local copy.
#[test]
fn members_of_the_directory_change_under_load() {
    let shape = Shape { hosts: 6, hosts_with_disks: 6, joining: 1, ..Shape::default() };
    play("members", &shape, scenario);
}

/// Goal: a change goes on whoever dies in the middle, and a host that was away while its member was removed finds that out. Method: the
/// host that changes etcd's list and the newcomer are killed right after the change was asked for; then a member is removed while its host is
/// off, and added again.
#[test]
fn changes_go_on_whoever_dies() {
    let shape = Shape { hosts: 5, hosts_with_disks: 5, ..Shape::default() };
    play("members-interrupted", &shape, |cluster| {
        cluster.create_disk(DISK, 64, 2)?;
        are_members(cluster, &[1, 2, 3])?;
        cluster.host(2).api().call(&["cluster", "members", "replace", "h3", "h4"])?;
        cluster.kill(1)?;
        cluster.kill(4)?;
        cluster.restart(4)?;
        cluster.restart(1)?;
        are_members(cluster, &[1, 2, 4])?;
        works(cluster, 3, "after-two-deaths")?;
        runs_none(cluster, 3)?;

        cluster.stop(4)?;
        wait_until("the member is seen to be away", UP_WITHIN, || {
            let found = members(cluster)?.into_iter().find(|(host, _)| host == "h4");
            check(found.as_ref().is_some_and(|(_, state)| state == "away"), || format!("{found:?}"))
        })?;
        // Of two that are left one would answer.
        refused(cluster, &["cluster", "members", "remove", "h2", "--yes"], "too few to decide")?;
        cluster.host(1).api().call(&["cluster", "members", "remove", "h4", "--yes", "--wait"])?;
        cluster.restart(4)?;
        runs_none(cluster, 4)?;
        cluster.host(4).api().call(&["cluster", "members", "add", "h4", "--wait"])?;
        are_members(cluster, &[1, 2, 4])?;
        works(cluster, 4, "after-it-came-back")?;

        // All hosts lose power: members begin without anybody's word, those of the list and no others.
        cluster.kill_all()?;
        cluster.start_all()?;
        are_members(cluster, &[1, 2, 4])?;
        works(cluster, 3, "after-the-power-cut")?;
        runs_none(cluster, 3)?;
        cluster.wait_healthy(ASKED, DISK, Duration::from_secs(60))
    });
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let scene = Scene::begin(cluster, ASKED, &[1, 2])?;
    let begun = Instant::now();
    are_members(cluster, &[1, 2, 3])?;
    carry_out(cluster, "A host is added")?;
    are_members(cluster, &[1, 2, 3, 4, 5])?;
    works(cluster, ASKED, "with-five")?;
    scene.goes_on(cluster, "with five members", Duration::from_secs(10))?;

    refused(cluster, &["cluster", "members", "add", "h4"], "already")?;
    refused(cluster, &["cluster", "members", "remove", "h9", "--yes"], "runs no member")?;
    cluster.kill(3)?;
    wait_until("the member is seen to be away", UP_WITHIN, || {
        let found = members(cluster)?.into_iter().find(|(host, _)| host == "h3");
        check(found.as_ref().is_some_and(|(_, state)| state == "away"), || format!("{found:?}"))
    })?;
    joins_by_its_file(cluster, 6)?;
    refused(cluster, &["cluster", "members", "add", "h6"], "5 are the most")?;
    refused(cluster, &["cluster", "members", "replace", "h2", "h6"], "h3 does not answer")?;
    let told = cluster.host(ASKED).api().call(&["host", "forget", "h3", "--dry-run"])?;
    check(told["directory_member"] == true, || told.to_string())?;
    wait_until("the host is silent to all", UP_WITHIN, || {
        let told = cluster.host(ASKED).api().call(&["host", "forget", "h3", "--dry-run"])?;
        check(told["heard_by"] == serde_json::json!([]), || told.to_string())
    })?;
    carry_out(cluster, "A host with a member dies")?;
    are_members(cluster, &[1, 2, 4, 5, 6])?;
    works(cluster, 2, "without-the-dead")?;
    scene.goes_on(cluster, "with a new member", Duration::from_secs(10))?;

    let told = cluster.host(ASKED).api().call(&["host", "remove", "h6", "--dry-run"])?;
    check(told["obstacles"].to_string().contains("member of the directory"), || told.to_string())?;
    carry_out(cluster, "A host is taken out")?;
    are_members(cluster, &[1, 2, 6])?;
    works(cluster, 5, "with-three")?;
    runs_none(cluster, 4)?;
    runs_none(cluster, 5)?;

    // Its configuration has h1, h2 and h3, of which two are members.
    cluster.stop(5)?;
    cluster.restart(5)?;
    works(cluster, 5, "with-an-old-configuration")?;
    runs_none(cluster, 5)?;
    for (old, new) in [("h1", "h4"), ("h2", "h5")] {
        cluster.host(4).api().call(&["cluster", "members", "replace", old, new, "--wait"])?;
    }
    are_members(cluster, &[6, 4, 5])?;
    runs_none(cluster, 1)?;
    // All three that its configuration has are gone.
    cluster.stop(2)?;
    cluster.restart(2)?;
    works(cluster, 2, "by-the-local-copy")?;
    runs_none(cluster, 2)?;
    cluster.say(format!("all of it took {:.1} s", begun.elapsed().as_secs_f64()));
    scene.finish(cluster, &[1, 2], STALL_MAX)
}

/// The members as `ASKED` tells: host and state.
fn members(cluster: &Cluster) -> Outcome<Vec<(String, String)>> {
    let told = cluster.host(ASKED).api().call(&["cluster", "members"])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = told["members"].as_array().cloned().unwrap_or_default();
    Ok(all.iter().map(|member| (text(&member["host"]), text(&member["state"]))).collect())
}

/// These hosts run members, all of them work, one leads, and each has one process.
fn are_members(cluster: &Cluster, hosts: &[u8]) -> Outcome<()> {
    let wanted: Vec<String> = hosts.iter().map(|n| format!("h{n}")).collect();
    wait_until("the members are as wanted", SETTLED_WITHIN, || {
        let members = members(cluster)?;
        let names: Vec<&String> = members.iter().map(|(host, _)| host).collect();
        let count = |state: &str| members.iter().filter(|(_, is)| is == state).count();
        let well = count("leads") == 1 && count("follows") == hosts.len() - 1;
        check(well && names.iter().copied().eq(wanted.iter()), || format!("{members:?}"))
    })?;
    for n in hosts {
        let processes = cluster.network.processes(*n, Some("etcd"))?;
        check(processes.len() == 1, || format!("h{n} has these processes of etcd: {processes:?}"))?;
    }
    cluster.say(format!("members: {}", wanted.join(", ")));
    Ok(())
}

/// A host that is no member runs no etcd, and has set aside what it had.
fn runs_none(cluster: &Cluster, n: u8) -> Outcome<()> {
    wait_until("a removed member is stopped", UP_WITHIN, || {
        let processes = cluster.network.processes(n, Some("etcd"))?;
        let data = cluster.host(n).folder.join("data");
        let aside = data.join("etcd.removed").exists() && !data.join("etcd").exists();
        check(processes.is_empty() && aside, || format!("h{n}: {processes:?}, set aside: {aside}"))
    })
}

/// The directory takes a change that host `n` asks for.
fn works(cluster: &Cluster, n: u8, disk: &str) -> Outcome<()> {
    let begun = Instant::now();
    cluster.host(n).api().call(&["disk", "create", disk, "--size", "16MiB"])?;
    cluster.say(format!("disk {disk} is made at h{n} ({:.1} s)", begun.elapsed().as_secs_f64()));
    Ok(())
}

fn refused(cluster: &Cluster, words: &[&str], why: &str) -> Outcome<()> {
    let no = cluster.host(ASKED).api().ask(words).err();
    check(no.as_ref().is_some_and(|no| no.words.contains(why)), || format!("{words:?}: {no:?}"))
}

/// Host `n` joins with the configuration that the program writes, but for the places of its files and sockets.
fn joins_by_its_file(cluster: &mut Cluster, n: u8) -> Outcome<()> {
    let (host, address) = (cluster.host(n), cluster.network.address(n).to_string());
    let (config, folder) = (host.config().display().to_string(), host.folder.display().to_string());
    let (cache, capacity) = (format!("{folder}/cache.img"), format!("{folder}/capacity-1.img"));
    let (name, sockets) = (host.name(), host.sockets.display().to_string());
    let join = ["host", "join", "--name", &name, "--address", &address, "--config", &config];
    refused(cluster, &join, "is there already")?;
    let devices = ["--overwrite", "--cache", &cache, "--capacity", &capacity];
    cluster.host(ASKED).api().call(&[join.as_slice(), &devices].concat())?;
    let host = cluster.host(n);
    let is_named = format!("name = \"{name}\"");
    host.reconfigure(&is_named, &format!("{is_named}\ndata_dir = \"{folder}/data\""))?;
    let listens = format!("peers = \"{address}:9600\"");
    let elsewhere =
        format!("api = \"\"\napi_socket = \"{sockets}/api.sock\"\nnbd = \"\"\nnbd_socket = \"{sockets}/nbd.sock\"");
    host.reconfigure(&listens, &format!("{listens}\n{elsewhere}"))?;
    let has = format!("capacity = [\"{capacity}\"]");
    host.reconfigure(&has, &format!("{has}\ncache_size = \"256MiB\"\ncapacity_size = \"1GiB\""))?;
    cluster.join(n, ASKED)
}

/// The commands of a section's code blocks; the page calls host h1 host-1.
fn carry_out(cluster: &Cluster, section: &str) -> Outcome<()> {
    let section_begins = format!("## {section}\n");
    let text = PAGE.split(&section_begins).nth(1).ok_or_else(|| format!("the page has no section {section:?}"))?;
    let commands = page::commands(text.split("\n## ").next().unwrap_or_default());
    check(!commands.is_empty(), || format!("section {section:?} has no commands"))?;
    for command in commands {
        let words: Vec<String> = command.split_whitespace().map(|word| word.replace("host-", "h")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["cairn", words @ ..] = words.as_slice() else { return Err(format!("nobody here knows {words:?}")) };
        let began = Instant::now();
        let answer = cluster.host(ASKED).api().call(words)?;
        let waited = words.contains(&"--wait");
        check(!waited || answer["settled"] == true, || format!("{words:?}: {answer}"))?;
        cluster.say(format!("cairn {} ({:.1} s)", words.join(" "), began.elapsed().as_secs_f64()));
    }
    let disk = cluster.disk(ASKED, DISK)?;
    check(disk["owner"].is_string(), || disk.to_string())
}
