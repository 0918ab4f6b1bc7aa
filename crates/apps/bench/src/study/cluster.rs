//! A cluster of our own for one arm of a study: hosts in one process, on files that model media.
//!
//! Promises    it is another process, the product as users run it: what it takes of the machine is not the load's
//!             dropping it ends the process and removes its files
//! Not here    several processes, of which one can be killed (`processes`)

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use cairn_api::v1;
use cairn_study::{ArmMedia, Cluster};

use super::programs::{Cairn, beside, kill, last_words, start};
use crate::address::Address;

/// How long hosts may take to come up; their files are written in full first.
const START_MAX: Duration = Duration::from_secs(600);
/// How long they may take to stop in order.
const STOP_MAX: Duration = Duration::from_secs(60);
/// What `cairnd` has as its longest delay where nothing is configured.
const CONGESTION_DELAY_MS: u64 = 100;
/// Bytes of a cache file beside log and metadata: superblocks, and room for rounding.
const CACHE_EXTRA_BYTES: u64 = 64 << 20;

/// Bytes of a cache file that holds such a write buffer.
pub(super) fn cache_bytes(shape: &Cluster) -> u64 {
    let metadata_bytes = u64::from(shape.capacity_devices) * shape.capacity_bytes / 50 + (32 << 20);
    let bytes = shape.buffer_bytes.max(metadata_bytes * 2) + metadata_bytes + CACHE_EXTRA_BYTES;
    bytes.next_multiple_of(1 << 20)
}

/// The tuning section of a configuration. A delay of the write buffer is a time like those of the media.
pub(super) fn tuning(shape: &Cluster, media: &ArmMedia) -> String {
    let delay_ms = ((CONGESTION_DELAY_MS as f64 * media.dilation) as u64).min(10_000);
    let (log, read_cache) = (shape.buffer_bytes, shape.read_cache_bytes);
    format!("[tuning]\nlog = {log}\nread_cache = {read_cache}\ncongestion_delay_max_ms = {delay_ms}\n")
}

/// A running cluster.
pub struct OwnCluster {
    folder: PathBuf,
    hosts: u32,
    process: Option<Child>,
    cairn: Cairn,
}

impl OwnCluster {
    /// Starts it with its files in `folder`, which is made anew.
    ///
    /// # Errors
    /// What did not start, with the last words of its log.
    pub fn start(folder: &Path, shape: &Cluster, media: &ArmMedia) -> Result<Self, String> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|e| e.to_string())?;
        let socket = folder.join("api.sock");
        // The kernel's bound for addresses of unix sockets, with the longest name that is made here.
        if folder.as_os_str().len() + "/host-16/nbd.sock".len() > 107 {
            return Err(format!("{}: too long a path for sockets in it; take a shorter --dir", folder.display()));
        }
        let config = folder.join("cairnd.toml");
        let text = tuning(shape, media);
        fs::write(&config, text).map_err(|e| format!("cannot write {}: {e}", config.display()))?;
        let mut arguments = Vec::new();
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("config", config.display().to_string());
        flag("data-dir", folder.display().to_string());
        flag("embedded-hosts", shape.hosts.to_string());
        flag("embedded-cache", cache_bytes(shape).to_string());
        flag("embedded-capacity", shape.capacity_bytes.to_string());
        flag("embedded-capacity-devices", shape.capacity_devices.to_string());
        flag("listen-nbd", String::new());
        flag("listen-api", String::new());
        for (name, medium) in [("cache", &media.cache), ("capacity", &media.capacity)] {
            if medium != ArmMedia::AS_IT_IS {
                flag(&format!("embedded-{name}-medium"), medium.clone());
            }
        }
        flag("embedded-medium-dilation", media.dilation.to_string());
        let process = start(&beside("cairnd")?, &arguments, &folder.join("cairnd.log"))?;
        let cairn = Cairn::new(format!("unix:{}", socket.display()))?;
        let mut cluster = Self { folder, hosts: shape.hosts, process: Some(process), cairn };
        cluster.wait_up(&socket)?;
        if media.saves {
            cluster.pack()?;
        }
        Ok(cluster)
    }

    fn wait_up(&mut self, socket: &Path) -> Result<(), String> {
        let begun = Instant::now();
        while !socket.exists() || self.cairn.done(&["cluster", "status"]).is_err() {
            let ended = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            if ended.is_some() || begun.elapsed() > START_MAX {
                let words = last_words(&self.folder.join("cairnd.log"));
                return Err(format!("the study's own cluster did not start: {words}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// All disk groups pack, and store equal blocks once.
    fn pack(&self) -> Result<(), String> {
        let groups: Vec<v1::DiskGroup> = self.cairn.call(&["disk-group", "list"])?;
        let set = |group: &v1::DiskGroup| {
            self.cairn.done(&["disk-group", "set", &group.id.to_string(), "--compression", "on", "--dedupe", "on"])
        };
        groups.iter().try_for_each(set)
    }

    /// The cluster's command line.
    pub(crate) fn cairn(&self) -> &Cairn {
        &self.cairn
    }

    /// Makes `count` disks, the nth of them at home on the nth host in turns, spread over `stripe_width` capacity devices each, of rows with so
    /// many strips of data (0: two copies).
    ///
    /// # Errors
    /// The refusal.
    pub fn create_disks(
        &self,
        count: u32,
        bytes: u64,
        (stripe_width, data_strips): (u32, u8),
    ) -> Result<Vec<Address>, String> {
        let (stripe, strips) = (stripe_width.to_string(), data_strips.to_string());
        let mut policy = vec!["policy", "create", "study", "--stripe-width", &stripe];
        if data_strips > 0 {
            policy.extend(["--ftm", "erasure-coding", "--data-strips", &strips]);
        }
        self.cairn.done(&policy)?;
        let size = bytes.to_string();
        let each = |number: u32| {
            let (name, host) = (format!("vm-{number}"), self.home(number));
            self.cairn.done(&["disk", "create", &name, "--size", &size, "--policy", "study", "--host", &host])?;
            self.attach(name, number)
        };
        (1..=count).map(each).collect()
    }

    /// The host at which the guest of this number is, from 1.
    fn home(&self, number: u32) -> String {
        format!("host-{}", (number - 1) % self.hosts + 1)
    }

    /// A disk at the host of the guest of this number, so that no request takes an extra hop.
    ///
    /// # Errors
    /// The refusal.
    pub fn attach(&self, name: String, number: u32) -> Result<Address, String> {
        let host = self.home(number);
        self.cairn.done(&["disk", "attach", &name, "--host", &host])?;
        Ok(Address::NbdUnix { socket: self.folder.join(host).join("nbd.sock"), export: name })
    }

    /// Ends it in order, and removes its files.
    pub fn stop(mut self) {
        if let Some(process) = &mut self.process {
            let _ = rustix::process::kill_process(pid(process), rustix::process::Signal::TERM);
            let begun = Instant::now();
            while begun.elapsed() < STOP_MAX && matches!(process.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn pid(process: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_child(process)
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            kill(&mut process);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
