//! (f) All etcd members stand still during I/O, and then a host dies as well: I/O goes on, and so does failover.
//! And etcd answers but takes no changes: nothing is lost, and each host says so.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, Scene, play},
    wait::{check, wait_until},
};
use rustix::process::Signal;

/// As for the death of an owner.
const STALL_MAX: Duration = Duration::from_secs(8);

/// Goal: P5. Method: SIGSTOP of every etcd process; a management change is refused or times out meanwhile; kill -9 of the
/// owner's host; the members go on at the end.
#[test]
fn the_directory_stands_still_and_a_host_dies() {
    play("no_directory", &Shape::default(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    // Host 4 has no etcd member: its death leaves all three, stopped.
    let scene = Scene::begin(cluster, 4, &[4, 3, 2, 1])?;
    scene.sleep_until(20);
    etcd(cluster, Signal::STOP)?;
    cluster.say("SIGSTOP of all etcd members");
    scene.goes_on(cluster, "without the directory", Duration::from_secs(10))?;
    let refused = cluster.host(1).api().ask(&["disk", "create", "vm-2", "--size", "64MiB"]);
    match refused {
        Ok(_) => return Err("a disk was made without a directory".into()),
        Err(refused) => cluster.say(format!("a new disk is refused: {}", refused.words)),
    }
    cluster.kill(4)?;
    scene.goes_on(cluster, "without the directory and without the owner's host", Duration::from_secs(20))?;
    etcd(cluster, Signal::CONT)?;
    cluster.say("SIGCONT of all etcd members");
    let owner = cluster.owner(1, DISK)?;
    check(owner != 4, || "a dead host owns the disk".into())?;
    scene.finish(cluster, &[3, 2, 1], STALL_MAX)
}

fn etcd(cluster: &Cluster, what: Signal) -> Outcome<()> {
    for n in 1..=3 {
        let members = cluster.network.processes(n, Some("etcd"))?;
        check(!members.is_empty(), || format!("h{n} runs no etcd"))?;
        members.into_iter().for_each(|pid| cairn_e2e::process::signal(pid, what));
    }
    Ok(())
}

/// Goal: a directory that takes no changes is told by every host, destroys nothing, and cuts no deletion in two. Method: etcd's own
/// alarm for a database without room; a creation and a deletion under it; the alarm ends, and the deletion is asked for again.
#[test]
fn the_directory_takes_no_changes() {
    const LIMIT: Duration = Duration::from_secs(30);
    let shape = Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() };
    play("directory_full", &shape, |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let target = Target::Unix(cluster.host(2).nbd_socket());
        let mut guest = NbdClient::connect(&target, DISK, LIMIT).map_err(|e| e.to_string())?;
        guest.write(0, &[7; 4096]).map_err(|e| e.to_string())?;
        drop(guest);
        wait_until("all is well", LIMIT, || directory(cluster, 2, "ok"))?;
        alarm(cluster, "ACTIVATE")?;
        cluster.say("etcd has the alarm NOSPACE");
        (1..=3).try_for_each(|n| wait_until("each host tells of it", LIMIT, || directory(cluster, n, "error")))?;
        let refused = |words: &[&str]| match cluster.host(3).api().ask(words) {
            Ok(answer) => Err(format!("{words:?} is done: {answer}")),
            Err(refused) => {
                cluster.say(format!("{words:?} is refused: {}", refused.words));
                Ok(())
            }
        };
        refused(&["disk", "create", "vm-2", "--size", "64MiB"])?;
        refused(&["disk", "delete", DISK, "--yes"])?;
        let shown = cluster.disk(3, DISK)?;
        let members = shown["components"].as_array().map_or(0, Vec::len);
        check(shown["health"] == "healthy" && members == 3, || format!("a deletion was begun: {shown}"))?;
        let mut guest = NbdClient::connect(&target, DISK, LIMIT).map_err(|e| e.to_string())?;
        let mut back = [0; 4096];
        guest.read(0, &mut back).map_err(|e| e.to_string())?;
        check(back == [7; 4096], || "the disk has other bytes".into())?;
        drop(guest);
        alarm(cluster, "DEACTIVATE")?;
        wait_until("the directory takes changes again", LIMIT, || directory(cluster, 2, "ok"))?;
        wait_until("nobody has the disk open", LIMIT, || {
            cluster.host(3).api().call(&["disk", "delete", DISK, "--yes"]).map(drop)
        })?;
        wait_until("the disk is gone", LIMIT, || {
            let disks = cluster.host(1).api().call(&["disk", "list"])?;
            check(disks.as_array().is_some_and(Vec::is_empty), || disks.to_string())
        })
    });
}

/// Whether a host's health has the directory as `severity`.
fn directory(cluster: &Cluster, n: u8, severity: &str) -> Outcome<()> {
    // Its exit code is 1 where it has an error to tell.
    let output = cluster.host(n).api().command(&["health"]).output().map_err(|e| e.to_string())?;
    let health: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("h{n}: {e}"))?;
    let checks = health["checks"].as_array().cloned().unwrap_or_default();
    let found = checks.into_iter().find(|c| c["name"] == "directory").ok_or("no such check")?;
    check(found["severity"] == severity, || format!("h{n}: {found}"))
}

/// Has etcd raise or end its alarm NOSPACE, over the gateway of its first member.
fn alarm(cluster: &Cluster, action: &str) -> Outcome<()> {
    let ask = || -> std::io::Result<String> {
        let body = format!(r#"{{"action":"{action}","memberID":"1","alarm":"NOSPACE"}}"#);
        let mut stream = TcpStream::connect((cluster.network.address(1), 2379))?;
        let head = "POST /v3/maintenance/alarm HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|e| format!("etcd: {e}"))?;
    check(answer.starts_with("HTTP/1.1 200"), || format!("etcd answered {answer}"))
}
