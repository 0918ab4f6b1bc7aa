//! A cluster of hosts with its network, its folder and its logs; and the questions that tests ask of it.

use std::{
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    Host, Outcome, TimeLine,
    network::Network,
    process::tail,
    tools::{Turn, load_time, target},
    wait::{check, wait_until},
};

/// No scenario takes longer, its load not counted: starts, waits for health and a guest's boot add up to two minutes.
const SCENARIO_MAX: Duration = Duration::from_secs(360);

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Hosts.
    pub hosts: u8,
    /// The first so many have disk groups: one for each shard.
    pub hosts_with_disks: u8,
    /// The last so many are not started with the others: they join later ([`Cluster::join`]).
    pub joining: u8,
    /// Shards of each host.
    pub shards: u8,
    /// The first so many run an etcd member: 1, 3 or 5.
    pub etcd_members: u8,
    /// The lease.
    pub lease_ms: u64,
    /// The repair delay.
    pub repair_delay_s: u64,
    /// Size of each cache file.
    pub cache_mib: u64,
    /// Size of each capacity file.
    pub capacity_mib: u64,
    /// A host whose cache file takes so many microseconds for every request.
    pub slow_cache: Option<(u8, u64)>,
    /// All devices take so many microseconds for every request, times a dilation of 1 that a host can be given another one for.
    pub access_us: Option<u64>,
    /// The folder of the programs that hosts run at first; none: this build's.
    pub programs: Option<PathBuf>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            hosts: 4,
            hosts_with_disks: 4,
            joining: 0,
            shards: 1,
            etcd_members: 3,
            lease_ms: 2000,
            repair_delay_s: 3600,
            cache_mib: 256,
            capacity_mib: 1024,
            slow_cache: None,
            access_us: None,
            programs: None,
        }
    }
}

/// A running cluster. Dropping it ends and removes everything but the logs.
#[derive(Debug)]
pub struct Cluster {
    /// What happened when.
    pub time: TimeLine,
    /// The network.
    pub network: Network,
    /// Logs of all processes.
    pub logs: PathBuf,
    /// Files of the test.
    pub folder: PathBuf,
    hosts: Vec<Host>,
    /// How many of them are started together.
    first: usize,
    /// The last to go: the next test begins when nothing of this one is left.
    _turn: Turn,
}

/// How long hosts may take to come up: etcd members elect a leader on a busy machine.
const UP_LIMIT: Duration = Duration::from_secs(60);

impl Cluster {
    /// Starts a cluster for the test `name` and waits until all hosts are up.
    ///
    /// # Errors
    /// What did not start.
    pub fn start(name: &str, shape: &Shape) -> Outcome<Self> {
        let mut cluster = Self::prepare(name, shape)?;
        let begin = Instant::now();
        cluster.start_all()?;
        let (hosts, etcd) = (cluster.first, shape.etcd_members);
        cluster.say(format!("{hosts} hosts and {etcd} etcd members up after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(cluster)
    }

    /// Network, folders and configuration files, with nothing started.
    ///
    /// # Errors
    /// What could not be made.
    pub fn prepare(name: &str, shape: &Shape) -> Outcome<Self> {
        let turn = Turn::take();
        let time = TimeLine::new(name);
        let logs = target().join("e2e-logs").join(name);
        let _ = std::fs::remove_dir_all(&logs);
        let network = Network::new(shape.hosts)?;
        let folder = target().join("tmp").join(format!("e2e-{}", network.id()));
        for path in [&logs, &folder] {
            std::fs::create_dir_all(path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        }
        let hosts = (1..=shape.hosts).map(|n| Host::new(n, shape, &network, &folder, &logs));
        let hosts = hosts.collect::<Outcome<Vec<_>>>()?;
        let first = usize::from(shape.hosts - shape.joining);
        Ok(Self { time, network, logs, folder, hosts, first, _turn: turn })
    }

    /// Starts every host that is not running, but for those that join later, and waits until all see each other.
    ///
    /// # Errors
    /// What did not start.
    pub fn start_all(&mut self) -> Outcome<()> {
        let hosts = &mut self.hosts[..self.first];
        for host in hosts.iter_mut().filter(|host| !host.running()) {
            host.start(&self.network)?;
        }
        for host in hosts.iter_mut() {
            host.wait_serving(UP_LIMIT)?;
        }
        let all = hosts.len();
        wait_until("all hosts see each other", UP_LIMIT, || {
            for host in &self.hosts[..all] {
                let status = host.api().call(&["cluster", "status"])?;
                let up = status["hosts_up"].as_u64();
                check(up == Some(all as u64), || format!("{} sees {up:?} hosts up", host.name()))?;
            }
            Ok(())
        })
    }

    /// Says something on the time line.
    pub fn say(&self, words: impl AsRef<str>) {
        self.time.say(words);
    }

    /// Host `n`, from 1.
    pub fn host(&self, n: u8) -> &Host {
        &self.hosts[usize::from(n) - 1]
    }

    /// Host `n`, from 1.
    pub fn host_mut(&mut self, n: u8) -> &mut Host {
        &mut self.hosts[usize::from(n) - 1]
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// kill -9 of all that runs on host `n`.
    ///
    /// # Errors
    /// When something survives it.
    pub fn kill(&mut self, n: u8) -> Outcome<()> {
        self.say(format!("kill -9 of h{n}, its etcd member included"));
        self.hosts[usize::from(n) - 1].kill(&self.network)
    }

    /// kill -9 of all that runs on all hosts, as one power cut.
    ///
    /// # Errors
    /// When something survives it.
    pub fn kill_all(&mut self) -> Outcome<()> {
        self.say("kill -9 of every process of every host at once");
        for pid in self.hosts.iter().filter_map(Host::pid) {
            crate::process::signal(pid, Signal::KILL);
        }
        self.hosts.iter_mut().try_for_each(|host| host.kill(&self.network))
    }

    /// Asks the daemon of host `n` to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not, or not well.
    pub fn stop(&mut self, n: u8) -> Outcome<()> {
        self.say(format!("h{n} is stopped"));
        self.hosts[usize::from(n) - 1].stop()
    }

    /// Starts host `n` again and waits until it serves.
    ///
    /// # Errors
    /// When it does not.
    pub fn restart(&mut self, n: u8) -> Outcome<()> {
        self.start_one(n)?;
        self.hosts[usize::from(n) - 1].wait_serving(UP_LIMIT)?;
        self.say(format!("h{n} is back and serves"));
        Ok(())
    }

    /// Starts host `n` for the first time, and waits until it serves and host `seen_from` sees it.
    ///
    /// # Errors
    /// When it does not.
    pub fn join(&mut self, n: u8, seen_from: u8) -> Outcome<()> {
        let begin = Instant::now();
        self.start_one(n)?;
        self.hosts[usize::from(n) - 1].wait_serving(UP_LIMIT)?;
        wait_until("the host is listed, and up", UP_LIMIT, || {
            let found = self.listed(seen_from)?.into_iter().find(|host| number(&host["name"]) == Some(n));
            check(found.as_ref().is_some_and(|host| host["up"] == true), || format!("{found:?}"))
        })?;
        self.say(format!("h{n} has joined after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// The hosts of the cluster, as host `n` lists them.
    ///
    /// # Errors
    /// The refusal.
    pub fn listed(&self, n: u8) -> Outcome<Vec<Value>> {
        let listed = self.host(n).api().call(&["host", "list"])?;
        Ok(listed.as_array().cloned().unwrap_or_default())
    }

    /// Their numbers.
    ///
    /// # Errors
    /// The refusal.
    pub fn numbers(&self, n: u8) -> Outcome<Vec<u8>> {
        Ok(self.listed(n)?.iter().filter_map(|host| number(&host["name"])).collect())
    }

    /// Starts host `n` again, without waiting for it.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start_one(&mut self, n: u8) -> Outcome<()> {
        self.hosts[usize::from(n) - 1].start(&self.network)
    }

    /// Makes a disk of `mib` MiB with the default policy, owned by host `owner`.
    ///
    /// # Errors
    /// The refusal.
    pub fn create_disk(&self, name: &str, mib: u64, owner: u8) -> Outcome<()> {
        self.create_disk_of(name, mib, owner, None)
    }

    /// The same with this policy, which exists.
    ///
    /// # Errors
    /// The refusal.
    pub fn create_disk_of(&self, name: &str, mib: u64, owner: u8, policy: Option<&str>) -> Outcome<()> {
        let host = self.host(owner);
        let (size, at) = (format!("{mib}MiB"), host.name());
        let mut words = vec!["disk", "create", name, "--size", &size, "--host", &at];
        policy.into_iter().for_each(|policy| words.extend(["--policy", policy]));
        host.api().call(&words)?;
        host.api().call(&["disk", "attach", name, "--host", &host.name()])?;
        let disk = self.disk(owner, name)?;
        self.say(format!("disk {name}, {size}: {}", describe(&disk)));
        Ok(())
    }

    /// What host `n` says of a disk.
    ///
    /// # Errors
    /// The refusal.
    pub fn disk(&self, n: u8, name: &str) -> Outcome<Value> {
        self.host(n).api().call(&["disk", "show", name])
    }

    /// The hosts of a disk's data components.
    ///
    /// # Errors
    /// When host `n` cannot tell.
    pub fn replicas(&self, n: u8, name: &str) -> Outcome<Vec<u8>> {
        let disk = self.disk(n, name)?;
        let components = disk["components"].as_array().cloned().unwrap_or_default();
        Ok(components.iter().filter(|c| c["role"] == "data").filter_map(|c| number(&c["host_name"])).collect())
    }

    /// The host that owns a disk, as host `n` knows it.
    ///
    /// # Errors
    /// When host `n` cannot tell, or knows none.
    pub fn owner(&self, n: u8, name: &str) -> Outcome<u8> {
        let disk = self.disk(n, name)?;
        number(&disk["owner"]).ok_or_else(|| format!("nobody owns {name}"))
    }

    /// Waits until the disk is healthy in the eyes of host `n`.
    ///
    /// # Errors
    /// How it is at the deadline.
    pub fn wait_healthy(&self, n: u8, name: &str, limit: Duration) -> Outcome<()> {
        let begin = Instant::now();
        wait_until(&format!("disk {name} is healthy"), limit, || {
            let disk = self.disk(n, name)?;
            check(disk["health"] == "healthy", || describe(&disk))
        })?;
        self.say(format!(
            "disk {name} is healthy again after {:.1} s: {}",
            begin.elapsed().as_secs_f64(),
            describe(&self.disk(n, name)?)
        ));
        Ok(())
    }

    /// Runs `test` on the cluster; prints the ends of all logs when it fails.
    ///
    /// # Panics
    /// When the test fails.
    pub fn run(self, test: impl FnOnce(&mut Self) -> Outcome<()>) {
        self.run_within(load_time() + SCENARIO_MAX, test);
    }

    /// The same for a test that may take so long.
    ///
    /// # Panics
    /// When the test fails.
    pub fn run_within(mut self, limit: Duration, test: impl FnOnce(&mut Self) -> Outcome<()>) {
        let watchdog = self.watchdog(limit);
        let outcome = test(&mut self);
        drop(watchdog);
        self.conclude(outcome);
    }

    /// Ends the test program when a scenario hangs, with the ends of the logs, so that no run of all tests waits for ever.
    /// Everything that the test started dies with it. Dropping the sender calls it off.
    fn watchdog(&self, limit: Duration) -> mpsc::Sender<()> {
        let (call_off, called_off) = mpsc::channel();
        let name = self.logs.display().to_string();
        let logs: Vec<_> = self.hosts.iter().map(|h| h.log.clone()).collect();
        thread::spawn(move || {
            if called_off.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Standard error is not captured by the test runner: it is seen although the program ends here.
            eprintln!("{name} HANGS: no result after {} s", limit.as_secs());
            for log in logs {
                eprintln!("-- end of {}\n{}", log.display(), tail(&log, 25));
            }
            std::process::abort();
        });
        call_off
    }

    fn conclude(&self, outcome: Outcome<()>) {
        let Err(words) = outcome else {
            self.say("passed");
            return;
        };
        self.say(format!("FAILED: {words}"));
        for host in &self.hosts {
            println!("-- end of {}\n{}", host.log.display(), tail(&host.log, 25));
        }
        panic!("{words}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.kill(&self.network);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_dir_all(format!("/run/cairn-e2e-{}", self.network.id()));
    }
}

/// The number of the host named `h<number>`.
fn number(name: &Value) -> Option<u8> {
    name.as_str()?.strip_prefix('h')?.parse().ok()
}

/// A disk in one line.
pub fn describe(disk: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let components = disk["components"].as_array().cloned().unwrap_or_default();
    let parts: Vec<String> = components
        .iter()
        .map(|c| format!("{} on {} {}", text(&c["role"]), text(&c["host_name"]), text(&c["state"])))
        .collect();
    format!("{}, owner {}, csn {}: {}", text(&disk["health"]), text(&disk["owner"]), disk["csn"], parts.join(", "))
}
