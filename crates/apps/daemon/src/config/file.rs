//! The sections and keys of the configuration file. Every key has a default, except in lists.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Size;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// What is the same on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// The cluster's name.
    pub name: String,
    /// For a cluster that is being made: milliseconds that a lease lasts.
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
    /// Shard threads: 1 in this release.
    pub shards: u32,
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
    /// The etcd members that this cluster runs itself: 1, 3 or 5. The daemon whose host name equals a member's starts it.
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
    /// Bytes of the log of a disk group that is being made; 0: chosen from the devices' sizes.
    pub log: Size,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Default for ClusterConfig {
    fn default() -> Self {
        let settings = cairn_api::v1::ClusterSettings::default();
        Self { name: "cairn".into(), lease_ms: settings.lease_ms, repair_delay_s: settings.repair_delay_s }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { name: String::new(), fault_domain: String::new(), data_dir: "/var/lib/cairn".into(), shards: 1 }
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
        }
    }
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self { kind: DirectoryKind::Embedded, endpoints: Vec::new(), members: Vec::new(), etcd_program: "etcd".into() }
    }
}

impl Default for TuningConfig {
    fn default() -> Self {
        Self { read_cache: Size(256 << 20), log: Size(0) }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".into() }
    }
}
