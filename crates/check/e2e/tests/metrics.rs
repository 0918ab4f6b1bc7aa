//! The metrics of real daemons, as Prometheus' own tool reads them.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    time::Duration,
};

use cairn_e2e::{
    Cluster, Load, Outcome, Shape,
    scene::{DISK, play, targets},
    wait::check,
    wait_until,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Goal: `promtool check metrics` finds nothing to say, a disk in use has its requests, bytes, latencies and health, and a
/// deleted disk has nothing any more. Method: three hosts, a disk under load, every host's `/metrics`.
#[test]
fn promtool_has_nothing_to_say() {
    let shape = Shape { hosts: 3, hosts_with_disks: 3, etcd_members: 1, ..Shape::default() };
    play("metrics", &shape, |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let load = Load::start(targets(cluster, &[1]), DISK, 16, 2, Duration::from_millis(1), 1);
        wait_until("the guest writes", PATIENCE, || check(load.done() > 50, || "too little".into()))?;
        load.stop()?.verify(&targets(cluster, &[1]))?.clean()?;
        for host in 1..=3 {
            sound(&metrics(cluster, host)?).map_err(|words| format!("h{host}: {words}"))?;
        }
        let told = metrics(cluster, 1)?;
        for of_disk in [
            "cairn_disk_write_requests_total{",
            "cairn_disk_write_bytes_total{",
            "cairn_disk_read_requests_total{",
            "cairn_disk_request_seconds_count{",
            "cairn_disk_group_write_operations_total{",
        ] {
            check(value(&told, of_disk) > Some(0.0), || format!("{of_disk} is not above 0 in {told}"))?;
        }
        check(value(&told, "cairn_disk_health{") == Some(0.0), || format!("no health in {told}"))?;

        cluster.host(2).api().call(&["disk", "delete", DISK, "--yes"])?;
        wait_until("nothing is told of the deleted disk", PATIENCE, || {
            let told = metrics(cluster, 1)?;
            check(!told.contains("cairn_disk_write_requests_total{"), || told)
        })?;
        sound(&metrics(cluster, 1)?)
    });
}

/// The first value of a family.
fn value(told: &str, family: &str) -> Option<f64> {
    let line = told.lines().find(|line| line.starts_with(family))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

fn metrics(cluster: &Cluster, host: u8) -> Outcome<String> {
    let get = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(cluster.host(host).api().socket())?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = get().map_err(|error| format!("h{host}: {error}"))?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(format!("h{host} answered {answer}")),
    }
}

fn sound(told: &str) -> Outcome<()> {
    let run = || -> std::io::Result<(bool, String)> {
        let mut tool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        tool.stdin.take().expect("it was asked for").write_all(told.as_bytes())?;
        let ended = tool.wait_with_output()?;
        Ok((ended.status.success(), String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned()))
    };
    let (success, words) = run().map_err(|error| format!("promtool: {error}; make setup installs it"))?;
    check(success && words.trim().is_empty(), || format!("promtool says: {words}\nof\n{told}"))
}
