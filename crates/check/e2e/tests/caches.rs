//! Counters and caches of real daemons: what a guest writes is found twice in the logs, and after `cairn cache clear` only on
//! the capacity devices.

use std::{path::PathBuf, process::Command, time::Duration};

use cairn_e2e::{
    Load, NbdClient, Outcome, Shape, Target,
    cli::{Api, Refused},
    pattern::{self, SECTOR},
    process::{Process, tail},
    scene::{DISK, play, targets},
    tools::{Turn, program, target},
    wait::check,
    wait_until,
};
use serde_json::Value;

/// MiB that the guest writes, in requests of 64 KiB: the read cache takes none that are larger.
const WRITTEN_MIB: u64 = 16;
const REQUEST: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// Four hosts in one process, on files in a folder that goes with it.
struct Embedded {
    folder: PathBuf,
    _daemon: Process,
    _turn: Turn,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Embedded {
    fn start() -> Outcome<Self> {
        let turn = Turn::take();
        let folder = target().join("tmp").join(format!("e2e-caches-{}", std::process::id()));
        let log = target().join("e2e-logs/caches.log");
        for path in [&folder, &target().join("e2e-logs")] {
            std::fs::create_dir_all(path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        }
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(program("cairnd"));
        command.args(["--embedded-hosts", "4", "--embedded-cache", "256MiB", "--embedded-capacity", "512MiB"]);
        command.args(["--listen-api", "", "--listen-nbd", "", "--data-dir"]).arg(&folder).env("NO_COLOR", "1");
        let daemon = Process::start(&command, &log)?;
        let cluster = Self { folder, _daemon: daemon, _turn: turn };
        wait_until("the daemon serves", Duration::from_secs(60), || {
            let up = cluster.api().call(&["cluster", "status"])?["hosts_up"].as_u64();
            check(up == Some(4), || format!("{up:?} hosts up\n{}", tail(&log, 10)))
        })?;
        Ok(cluster)
    }

    fn api(&self) -> Api {
        Api::new(self.folder.join("api.sock"))
    }

    fn target(&self, host: u8) -> Target {
        Target::Unix(self.folder.join(format!("host-{host}")).join("nbd.sock"))
    }

    /// A client of [`DISK`] through a host.
    fn client(&self, host: u8) -> Outcome<NbdClient> {
        NbdClient::connect(&self.target(host), DISK, PATIENCE).map_err(|e| e.to_string())
    }
}

/// A number of all disk groups together.
fn of_groups(counters: &Value, name: &str) -> u64 {
    let groups = counters["hosts"].as_array().into_iter().flatten().flat_map(|h| h["disk_groups"].as_array());
    groups.flatten().filter_map(|group| group["counters"][name].as_u64()).sum()
}

/// A number of what guests asked at all hosts.
fn of_guests(counters: &Value, name: &str) -> u64 {
    counters["hosts"].as_array().into_iter().flatten().filter_map(|host| host["guests"][name].as_u64()).sum()
}

/// What `act` adds to the counters.
fn added(cluster: &Embedded, act: impl FnOnce() -> Outcome<()>) -> Outcome<Value> {
    let before = cluster.folder.join("before.json");
    let text = cluster.api().call(&["counters"])?.to_string();
    std::fs::write(&before, text).map_err(|e| e.to_string())?;
    act()?;
    cluster.api().call(&["counters", "--since", &before.display().to_string()])
}

fn request(number: u64) -> Vec<u8> {
    let mut data = vec![0; REQUEST];
    let first = number * (REQUEST / SECTOR) as u64;
    data.chunks_mut(SECTOR).zip(first..).for_each(|(sector, at)| pattern::fill(sector, 1, at, 1));
    data
}

fn requests() -> std::ops::Range<u64> {
    0..(WRITTEN_MIB << 20) / REQUEST as u64
}

fn write_all(cluster: &Embedded) -> Outcome<()> {
    let mut client = cluster.client(1)?;
    requests().try_for_each(|n| client.write(n * REQUEST as u64, &request(n)).map_err(|e| e.to_string()))
}

fn read_all(cluster: &Embedded) -> Outcome<()> {
    let mut client = cluster.client(1)?;
    let mut data = vec![0; REQUEST];
    requests().try_for_each(|n| {
        client.read(n * REQUEST as u64, &mut data).map_err(|e| e.to_string())?;
        check(data == request(n), || format!("request {n} reads something else"))
    })
}

fn expect(what: &str, is: u64, should: u64) -> Outcome<()> {
    println!("{what}: {is}");
    check(is == should, || format!("{what}: {is}, not {should}"))
}

/// Goal: the counters add up to what the guest did, and a cleared cache is one: reads come from the capacity devices, and are
/// right; also while a guest writes.
#[test]
fn counters_add_up_and_caches_are_cleared() {
    let outcome = Embedded::start().and_then(|cluster| scenario(&cluster));
    if let Err(words) = outcome {
        panic!("{words}");
    }
}

fn scenario(cluster: &Embedded) -> Outcome<()> {
    let api = cluster.api();
    api.call(&["disk", "create", DISK, "--size", "64MiB", "--host", "host-1"])?;
    api.call(&["disk", "attach", DISK, "--host", "host-1"])?;
    let bytes = WRITTEN_MIB << 20;

    let wrote = added(cluster, || write_all(cluster))?;
    expect("bytes written by the guest", of_guests(&wrote, "write_bytes"), bytes)?;
    expect("requests", of_guests(&wrote, "write_requests"), bytes / REQUEST as u64)?;
    expect("bytes in the logs, payload: the guest's twice", of_groups(&wrote, "write_bytes"), 2 * bytes)?;
    let log = of_groups(&wrote, "log_write_bytes");
    println!("bytes to log devices for each of the guest's: {:.3}", log as f64 / bytes as f64);
    check(log > 2 * bytes && log < 3 * bytes, || format!("{log} bytes to logs"))?;
    expect("bytes to capacity devices before destage", of_groups(&wrote, "capacity_write_destage_bytes"), 0)?;

    let warm = added(cluster, || read_all(cluster))?;
    expect("bytes read from capacity devices before", of_groups(&warm, "read_capacity_bytes"), 0)?;
    let again = added(cluster, || read_all(cluster))?;
    expect("bytes read from memory", of_groups(&again, "read_cache_bytes"), bytes)?;

    let mut cleared = Value::Null;
    let drained = added(cluster, || api.call(&["cache", "clear"]).map(|told| cleared = told))?;
    println!("{cleared}");
    all_clear(&cleared, 4)?;
    expect("bytes destaged", of_groups(&drained, "destaged_bytes"), 2 * bytes)?;
    expect("bytes to capacity devices past the log", of_groups(&drained, "capacity_write_resync_bytes"), 0)?;
    check(of_groups(&drained, "capacity_write_destage_bytes") > 2 * bytes, || format!("{drained}"))?;

    let cold = added(cluster, || read_all(cluster))?;
    expect("bytes read from capacity devices after", of_groups(&cold, "read_capacity_bytes"), bytes)?;
    expect("bytes read from logs after", of_groups(&cold, "read_log_bytes"), 0)?;
    expect("bytes read from memory after", of_groups(&cold, "read_cache_bytes"), 0)?;
    beside_a_guest(cluster)
}

fn all_clear(cleared: &Value, groups: usize) -> Outcome<()> {
    let told = cleared["disk_groups"].as_array().cloned().unwrap_or_default();
    check(cleared["clear"] == true && told.len() == groups, || cleared.to_string())?;
    told.iter().try_for_each(|group| {
        let (dirty, log) = (group["dirty_bytes"].as_u64(), group["log_bytes"].as_u64());
        let below = dirty.zip(log).is_some_and(|(dirty, log)| dirty * 100 < log);
        check(group["state"] == "clear" && below, || group.to_string())
    })
}

/// Small writes go on at another disk, through another host, some hundred a second: what they leave is below the mark.
fn beside_a_guest(cluster: &Embedded) -> Outcome<()> {
    cluster.api().call(&["disk", "create", "vm-2", "--size", "64MiB"])?;
    let load = Load::start(vec![cluster.target(2)], "vm-2", 32, 2, Duration::from_millis(20), 2);
    wait_until("the guest writes", PATIENCE, || check(load.done() > 50, || "too little".into()))?;
    let cleared = cluster.api().call(&["cache", "clear", "--wait", "20"])?;
    println!("beside a guest: {cleared}");
    all_clear(&cleared, 4)?;
    let before = load.done();
    wait_until("the guest goes on", PATIENCE, || check(load.done() > before + 20, || "it stands".into()))?;
    let report = load.stop()?.verify(&[cluster.target(2)])?;
    println!("{}", report.line());
    report.clean()?;
    read_all(cluster)
}

/// Goal: what is not known to be clear is not told to be. Method: a host dies; the others can be cleared by themselves.
#[test]
fn a_host_that_does_not_answer_is_not_clear() {
    let shape = Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() };
    play("caches", &shape, |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let patience = Duration::from_secs(30);
        let mut client =
            NbdClient::connect(&targets(cluster, &[1])[0], DISK, patience).map_err(|error| error.to_string())?;
        client.write(0, &request(0)).map_err(|error| error.to_string())?;
        all_clear(&cluster.host(1).api().call(&["cache", "clear"])?, 3)?;
        cluster.kill(3)?;
        wait_until("the dead host is missed", patience, || {
            let silent = cluster.host(1).api().call(&["counters"])?["hosts_silent"].clone();
            check(silent == serde_json::json!(["h3"]), || silent.to_string())
        })?;
        let Err(Refused { code, words }) = cluster.host(1).api().ask(&["cache", "clear", "--wait", "5"]) else {
            return Err("caches of a dead host were told to be clear".into());
        };
        cluster.say(format!("exit {code}: {}", words.replace('\n', " | ")));
        check(code == 1 && words.contains("1 of 3 disk groups"), || words)?;
        all_clear(&cluster.host(1).api().call(&["cache", "clear", "--host", "h2"])?, 1)
    });
}
