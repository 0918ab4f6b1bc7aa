//! A cluster of our own in which a host can die: a process a host, and an etcd.
//!
//! Promises    a host is ended by SIGKILL, as a power cut ends it; dropping the cluster ends all processes and removes its files
//! Assumes     `etcd` is installed; ports that are free when they are asked for stay so for a moment

use std::{
    fmt::Write as _,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use cairn_api::v1;
use cairn_study::{ArmMedia, Cluster};

use super::{
    cluster::{cache_bytes, tuning},
    programs::{Cairn, beside, kill, last_words, start},
};
use crate::address::Address;

/// How long hosts may take to see each other.
const START_MAX: Duration = Duration::from_secs(300);

/// A running cluster.
pub(super) struct Processes {
    folder: PathBuf,
    etcd: Child,
    hosts: Vec<Host>,
}

struct Host {
    name: String,
    folder: PathBuf,
    process: Option<Child>,
}

impl Processes {
    /// Starts it with its files in `folder`, which is made anew.
    ///
    /// # Errors
    /// What did not start.
    pub fn start(folder: &Path, shape: &Cluster, media: &ArmMedia) -> Result<Self, String> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|e| e.to_string())?;
        let (client, peer) =
            (format!("http://127.0.0.1:{}", free_port()?), format!("http://127.0.0.1:{}", free_port()?));
        let etcd = start_etcd(&folder, &client, &peer)?;
        let hosts = (1..=shape.hosts).map(|number| Host::prepare(number, &folder, shape, media, &client));
        let hosts = hosts.collect::<Result<Vec<_>, _>>();
        // From here on what was started ends with it.
        let mut cluster = Self { folder, etcd, hosts: Vec::new() };
        cluster.hosts = hosts?;
        cluster.hosts.iter_mut().try_for_each(Host::start)?;
        cluster.wait_all_up()?;
        Ok(cluster)
    }

    fn wait_all_up(&mut self) -> Result<(), String> {
        let (begun, all) = (Instant::now(), self.hosts.len() as u64);
        for number in 0..self.hosts.len() {
            loop {
                let status: Result<v1::ClusterStatus, _> = self.cairn(number)?.call(&["cluster", "status"]);
                if status.is_ok_and(|status| u64::from(status.hosts_up) == all) {
                    break;
                }
                if self.etcd.try_wait().is_ok_and(|ended| ended.is_some()) {
                    let words = last_words(&self.folder.join("etcd.log"));
                    return Err(format!("etcd, which this study needs, did not start: {words}"));
                }
                let host = &mut self.hosts[number];
                let ended = host.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
                if ended.is_some() || begun.elapsed() > START_MAX {
                    return Err(format!("{} did not start: {}", host.name, last_words(&host.log())));
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    /// The command line that asks host `number`, from 0.
    pub fn cairn(&self, number: usize) -> Result<Cairn, String> {
        Cairn::new(format!("unix:{}", self.hosts[number].folder.join("api.sock").display()))
    }

    /// Makes disks with their guests on all hosts but the last, in turns.
    ///
    /// # Errors
    /// The refusal.
    pub fn create_disks(&self, count: u32, bytes: u64) -> Result<Vec<Address>, String> {
        let (cairn, size, guests) = (self.cairn(0)?, bytes.to_string(), self.hosts.len() - 1);
        let each = |number: u32| {
            let (name, home) = (format!("vm-{number}"), &self.hosts[number as usize % guests]);
            cairn.done(&["disk", "create", &name, "--size", &size, "--host", &home.name])?;
            cairn.done(&["disk", "attach", &name, "--host", &home.name])?;
            Ok(Address::NbdUnix { socket: home.folder.join("nbd.sock"), export: name })
        };
        (1..=count).map(each).collect()
    }

    /// The host that dies: the last one, which no guest is connected to.
    pub fn victim(&self) -> String {
        self.hosts.last().map(|host| host.name.clone()).unwrap_or_default()
    }

    /// Ends the victim without warning.
    pub fn kill_victim(&mut self) {
        if let Some(mut process) = self.hosts.last_mut().and_then(|host| host.process.take()) {
            kill(&mut process);
        }
    }

    /// Starts it again, on what its disks hold.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart_victim(&mut self) -> Result<(), String> {
        self.hosts.last_mut().map_or(Ok(()), Host::start)
    }

    /// Whether every disk has all its copies in sync.
    pub fn is_healthy(&self) -> bool {
        let disks: Result<Vec<v1::DiskSummary>, _> = self.cairn(0).and_then(|cairn| cairn.call(&["disk", "list"]));
        disks.is_ok_and(|disks| disks.iter().all(|disk| disk.health == v1::DiskHealth::Healthy))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            if let Some(process) = &mut host.process {
                kill(process);
            }
        }
        kill(&mut self.etcd);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Host {
    fn prepare(number: u32, folder: &Path, shape: &Cluster, media: &ArmMedia, etcd: &str) -> Result<Self, String> {
        let name = format!("host-{number}");
        let folder = folder.join(&name);
        if folder.as_os_str().len() + "/nbd.sock".len() > 107 {
            return Err(format!("{}: too long a path for sockets in it; take a shorter --dir", folder.display()));
        }
        fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let at = folder.display();
        let capacity: Vec<String> =
            (1..=shape.capacity_devices).map(|n| format!("\"{at}/capacity-{n}.img\"")).collect();
        let mut text = format!(
            "[host]\nname = \"{name}\"\ndata_dir = \"{at}\"\n\
             [listen]\npeers = \"127.0.0.1:{port}\"\napi = \"\"\napi_socket = \"{at}/api.sock\"\nnbd = \"\"\n\
             nbd_socket = \"{at}/nbd.sock\"\n[directory]\nkind = \"etcd\"\nendpoints = [\"{etcd}\"]\n{tuning}\
             [[disk_group]]\ncache = \"{at}/cache.img\"\ncapacity = [{capacity}]\ncache_size = {cache_size}\n\
             capacity_size = {capacity_size}\nmedium_dilation = {dilation:?}\n",
            port = free_port()?,
            tuning = tuning(shape, media),
            capacity = capacity.join(", "),
            cache_size = cache_bytes(shape),
            capacity_size = shape.capacity_bytes,
            dilation = media.dilation,
        );
        for (key, medium) in [("cache_medium", &media.cache), ("capacity_medium", &media.capacity)] {
            if medium != ArmMedia::AS_IT_IS {
                let _ = writeln!(text, "{key} = \"{medium}\"");
            }
        }
        fs::write(folder.join("cairnd.toml"), text).map_err(|e| e.to_string())?;
        Ok(Self { name, folder, process: None })
    }

    fn log(&self) -> PathBuf {
        self.folder.join("cairnd.log")
    }

    fn start(&mut self) -> Result<(), String> {
        let arguments = ["--config".to_owned(), self.folder.join("cairnd.toml").display().to_string()];
        self.process = Some(start(&beside("cairnd")?, &arguments, &self.log())?);
        Ok(())
    }
}

fn start_etcd(folder: &Path, client: &str, peer: &str) -> Result<Child, String> {
    let arguments = [
        "--name=study".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=study={peer}"),
    ];
    start(Path::new("etcd"), &arguments, &folder.join("etcd.log"))
}

/// A port of loopback that nobody has.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| format!("no free port on loopback: {e}"))
}
