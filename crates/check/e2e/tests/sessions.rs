//! Who has a disk open: told by `disk show`, and heeded by a deletion, with clients of two hosts.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    scene::{DISK, play},
    wait::check,
    wait_until,
};
use serde_json::Value;

/// Until a host has seen that a client has left, or another host that one is down.
const SEEN_LIMIT: Duration = Duration::from_secs(10);

/// Goal: nobody loses a disk in use unless that is forced, and whoever asks reads who uses it. Method: a client at host 2, asked for
/// through host 1, by the program and by HTTP; it leaves, and the disk goes. Then the same by force: the client's next write fails,
/// and the next disk of that name is nobody's.
#[test]
fn a_disk_in_use_is_deleted_by_force_only() {
    play("sessions", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let mut client = connect(cluster, 2)?;
        client.write(0, &[1; 4096]).map_err(|e| e.to_string())?;
        let shown = cluster.disk(1, DISK)?["sessions"].clone();
        let session = &shown[0];
        let named = session["front_end"] == "nbd" && session["host_name"] == "h2" && session["peer"] == "unix";
        check(named && shown[1].is_null(), || format!("disk show does not tell of the client at h2: {shown}"))?;
        let Err(refused) = cluster.host(1).api().ask(&["disk", "delete", DISK, "--yes"]) else {
            return Err("a disk in use was deleted".into());
        };
        check(refused.words.contains("in use: nbd at h2 from unix"), || refused.words.clone())?;
        let answer = http_delete(cluster, "")?;
        check(answer.contains(" 409 ") && answer.contains("in use: nbd at h2 from unix"), || answer.clone())?;
        client.write(4096, &[2; 4096]).map_err(|e| format!("after a refused deletion: {e}"))?;
        cluster.say("refused by the program and by HTTP, and the client goes on");
        drop(client);
        wait_until("the disk goes when its client has left", SEEN_LIMIT, || {
            cluster.host(1).api().call(&["disk", "delete", DISK, "--yes"]).map(drop)
        })?;

        cluster.create_disk(DISK, 64, 1)?;
        let mut client = connect(cluster, 2)?;
        cluster.host(1).api().call(&["disk", "delete", DISK, "--yes", "--force"])?;
        check(client.write(0, &[3; 4096]).is_err(), || "a write to a deleted disk was acknowledged".into())?;
        cluster.say("deleted by force, and its client's write fails");
        cluster.create_disk(DISK, 64, 1)?;
        let shown = cluster.disk(1, DISK)?["sessions"].clone();
        check(shown == Value::Array(Vec::new()), || format!("the next disk of the name has {shown}"))?;

        let _another = connect(cluster, 2)?;
        let answer = http_delete(cluster, "?force=true")?;
        check(answer.contains(" 204 "), || format!("by HTTP, forced: {answer}"))
    });
}

/// Goal: guests are told of addresses that answer. Method: a host is killed; its doors leave what `disk show` tells, and come back.
#[test]
fn addresses_of_dead_hosts_are_left_out() {
    play("addresses", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let doors = |cluster: &Cluster, n: u8| -> Outcome<usize> {
            let shown = cluster.disk(1, DISK)?;
            let uris: Vec<&str> =
                shown["nbd_uris"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let (socket, address) = (cluster.host(n).nbd_socket().display().to_string(), cluster.host(n).nbd_address());
            let of_host = |uri: &&str| uri.contains(&socket) || uri.contains(&format!("//{address}/"));
            Ok(uris.into_iter().filter(of_host).count())
        };
        let wait = |cluster: &Cluster, doors_wanted: usize| {
            wait_until(&format!("{doors_wanted} doors of h4 are told"), SEEN_LIMIT, || {
                let told = doors(cluster, 4)?;
                check(told == doors_wanted, || format!("{told} are"))
            })
        };
        wait(cluster, 2)?;
        cluster.kill(4)?;
        wait(cluster, 0)?;
        check(doors(cluster, 1)? == 2, || "the doors of h1 are not told".into())?;
        cluster.restart(4)?;
        wait(cluster, 2)
    });
}

fn connect(cluster: &Cluster, n: u8) -> Outcome<NbdClient> {
    let target = Target::Unix(cluster.host(n).nbd_socket());
    NbdClient::connect(&target, DISK, Duration::from_secs(5)).map_err(|e| e.to_string())
}

/// What host 1 answers to a deletion, head and body.
fn http_delete(cluster: &Cluster, query: &str) -> Outcome<String> {
    let io = |e: std::io::Error| format!("the API of h1: {e}");
    let mut stream = UnixStream::connect(cluster.host(1).api().socket()).map_err(io)?;
    let request = format!("DELETE /api/v1/disks/{DISK}{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(io)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(io)?;
    Ok(answer)
}
