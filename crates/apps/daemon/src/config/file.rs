//! The sections and keys of the configuration file. Every key has a default, except in lists.

use std::{collections::BTreeMap, path::PathBuf};

use cairn_env_linux::{Medium, Service};
use serde::{Deserialize, Serialize};

use super::Size;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is the same on all hosts.
    pub cluster: ClusterConfig,
    /// This host.
    pub host: HostConfig,
    /// Where it listens.
    pub listen: ListenConfig,
    /// Where the cluster keeps what it knows in common.
    pub directory: DirectoryConfig,
    /// Sizes and shares.
    pub tuning: TuningConfig,
    /// Logs of the process.
    pub log: LogConfig,
    /// Disk groups to open at start, and to make where the devices are empty. Others are made with `cairn disk-group create`.
    pub disk_group: Vec<DiskGroupConfig>,
    /// Media models by name, beside the built-in ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub medium: BTreeMap<String, MediumConfig>,
}

/// What is the same on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// The cluster's name.
    pub name: String,
    /// For a cluster that is being made, which keeps it: milliseconds that a lease lasts.
    pub lease_ms: u64,
    /// For a cluster that is being made: seconds that a component may be absent before it is replaced.
    pub repair_delay_s: u64,
}

/// This host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Its name; empty: the machine's host name.
    pub name: String,
    /// Hosts of one fault domain fail together; empty: the host by itself.
    pub fault_domain: String,
    /// Identity, directory, local copies.
    pub data_dir: PathBuf,
    /// Threads that serve disk groups and disks, each by itself.
    pub shards: u32,
    /// The folder with `sys`, `proc` and `dev` of the machine.
    pub machine_root: PathBuf,
}

/// Where it listens. An empty string turns a listener off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenConfig {
    /// Address for the other hosts.
    pub peers: String,
    /// The address that other hosts are told to use; empty: that of `peers`.
    pub advertise: String,
    /// Address of the management API.
    pub api: String,
    /// Unix socket of the management API.
    pub api_socket: String,
    /// The API has no authentication yet, so an address beyond this machine is refused unless this says that the network is trusted.
    pub api_trusted_network: bool,
    /// Address of the NBD server.
    pub nbd: String,
    /// Unix socket of the NBD server.
    pub nbd_socket: String,
    /// Folder of the vhost-user sockets, one a disk.
    pub vhost_user_dir: String,
    /// The group that guests' sockets belong to; empty: the daemon's.
    pub socket_group: String,
}

/// Which directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryKind {
    /// A file in the data directory: for hosts that share one process.
    #[default]
    Embedded,
    /// etcd: for a real cluster.
    Etcd,
}

/// Where the cluster keeps what it knows in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectoryConfig {
    /// Which directory.
    pub kind: DirectoryKind,
    /// An etcd that somebody else runs: its client URLs.
    pub endpoints: Vec<String>,
    /// The etcd members that this cluster runs itself: 1, 3 or 5. The daemon whose host name equals a member's starts it. Once the directory
    /// has a list of its own, a host that has heard of that goes by it.
    pub members: Vec<EtcdMember>,
    /// The etcd program for members.
    pub etcd_program: PathBuf,
}

/// One etcd member that the cluster runs itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdMember {
    /// The name of the host that runs it.
    pub host: String,
    /// URL for the other members, "http://10.0.0.1:2380".
    pub peer_url: String,
    /// URL for clients, "http://10.0.0.1:2379".
    pub client_url: String,
}

/// Sizes and shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TuningConfig {
    /// Memory for cached reads, per disk group.
    pub read_cache: Size,
    /// Bytes of the log of a disk group that is being made, at least 32 MiB; 0: chosen from the devices' sizes.
    pub log: Size,
    /// Memory for the index of a full log of a disk group that is being made, at worst; it bounds the log: 220 bytes for 4 KiB.
    pub log_memory: Size,
    /// Fill of the log, in per cent, from which on acknowledgements are delayed, more and more.
    pub congestion_low_percent: u8,
    /// Fill of the log, in per cent, from which on writes wait for destage.
    pub congestion_high_percent: u8,
    /// The longest of those delays, in milliseconds.
    pub congestion_delay_max_ms: u64,
    /// The longest that a shard's thread looks for work before it sleeps, in microseconds; 0: it sleeps at once.
    pub busy_poll_us: u64,
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Logs of the process, on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// How they look.
    pub format: LogFormat,
    /// Which: "info", "debug", "info,cairn_object=debug".
    pub level: String,
}

/// A disk group to open at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupConfig {
    /// The cache device.
    pub cache: PathBuf,
    /// 1..=7 capacity devices.
    pub capacity: Vec<PathBuf>,
    /// Where the cache is a file that does not exist yet: make it with this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<Size>,
    /// Where a capacity device is a file that does not exist yet: make it with this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_size: Option<Size>,
    /// For measuring, where the cache is a file: its requests take what they would on this medium ("optane", or one of `medium`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_medium: Option<String>,
    /// The same for the capacity devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_medium: Option<String>,
    /// Every modelled time is multiplied by this; 1 where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium_dilation: Option<f64>,
}

impl DiskGroupConfig {
    /// The media of its devices, by path.
    ///
    /// # Errors
    /// There is no such medium.
    pub fn media(&self, own: &BTreeMap<String, MediumConfig>) -> Result<Vec<(PathBuf, Medium)>, String> {
        let dilation = self.medium_dilation.unwrap_or(1.0);
        let find = |name: &String| medium_named(name, own, dilation);
        let cache = self.cache_medium.as_ref().map(find).transpose()?;
        let capacity = self.capacity_medium.as_ref().map(find).transpose()?;
        let mut media: Vec<_> = cache.map(|medium| (self.cache.clone(), medium)).into_iter().collect();
        if let Some(medium) = capacity {
            media.extend(self.capacity.iter().map(|path| (path.clone(), medium.clone())));
        }
        Ok(media)
    }
}

/// A built-in medium, or one of the file's.
fn medium_named(name: &str, own: &BTreeMap<String, MediumConfig>, dilation: f64) -> Result<Medium, String> {
    let made = own.get(name).map(|medium| medium.medium(name)).or_else(|| Medium::preset(name));
    let Some(medium) = made else {
        return Err(format!(
            "{name:?} is no medium: take one of {}, or describe it in [medium.{name}]",
            Medium::PRESETS.join(", ")
        ));
    };
    let medium = Medium { dilation, ..medium };
    medium.check().map_err(|error| error.to_string())?;
    Ok(medium)
}

/// A media model: what requests to a file take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumConfig {
    /// What reads take.
    pub reads: ServiceConfig,
    /// What writes take.
    pub writes: ServiceConfig,
    /// One arm serves reads and writes in turns, with the lanes of reads.
    #[serde(default)]
    pub one_arm: bool,
    /// Where the numbers are from.
    #[serde(default)]
    pub source: String,
}

/// What requests of one direction take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// Access times as points of their distribution: [share of the requests, microseconds], from share 0.0 to share 1.0.
    pub access_us: Vec<(f64, f64)>,
    /// Requests in service at once.
    pub lanes: u32,
    /// What the channel to the drive carries, in MB/s (10^6).
    pub mb_per_s: u64,
    /// The access time of a request that begins where the last one ended, in microseconds; as any other's where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub following_us: Option<f64>,
}

impl MediumConfig {
    fn medium(&self, name: &str) -> Medium {
        Medium {
            name: name.to_owned(),
            source: self.source.clone(),
            reads: self.reads.service(),
            writes: self.writes.service(),
            one_arm: self.one_arm,
            dilation: 1.0,
        }
    }
}

impl ServiceConfig {
    fn service(&self) -> Service {
        // What is no time becomes one that the check of the medium refuses.
        let ns = |us: f64| if us >= 0.0 { (us * 1e3) as u64 } else { u64::MAX };
        Service {
            access: self.access_us.iter().map(|(share, us)| (*share, ns(*us))).collect(),
            lanes: self.lanes,
            bytes_per_s: self.mb_per_s.saturating_mul(1_000_000),
            following_ns: self.following_us.map(ns),
        }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        let settings = cairn_api::v1::ClusterSettings::default();
        Self { name: "cairn".into(), lease_ms: settings.lease_ms, repair_delay_s: settings.repair_delay_s }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            fault_domain: String::new(),
            data_dir: "/var/lib/cairn".into(),
            shards: 1,
            machine_root: "/".into(),
        }
    }
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            peers: "0.0.0.0:9600".into(),
            advertise: String::new(),
            api: "127.0.0.1:9610".into(),
            api_socket: cairn_api::API_SOCKET_DEFAULT.into(),
            api_trusted_network: false,
            // NBD has no authentication: beyond this machine only where somebody says so.
            nbd: "127.0.0.1:10809".into(),
            nbd_socket: "/run/cairn/nbd.sock".into(),
            // A socket for each disk of the cluster: for hosts whose machines want it.
            vhost_user_dir: String::new(),
            socket_group: String::new(),
        }
    }
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self { kind: DirectoryKind::Embedded, endpoints: Vec::new(), members: Vec::new(), etcd_program: "etcd".into() }
    }
}

/// What pays for itself where requests come one at a time, and costs nothing that could be measured at depth (docs/adr/0020).
const BUSY_POLL_DEFAULT_US: u64 = 50;

impl Default for TuningConfig {
    fn default() -> Self {
        let running = cairn_store::RunningOptions::default();
        Self {
            read_cache: Size(256 << 20),
            log: Size(0),
            log_memory: Size(cairn_store::INDEX_BYTES_MAX),
            congestion_low_percent: running.congestion_low_percent,
            congestion_high_percent: running.congestion_high_percent,
            congestion_delay_max_ms: running.congestion_delay_max_us / 1000,
            busy_poll_us: BUSY_POLL_DEFAULT_US,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".into() }
    }
}
