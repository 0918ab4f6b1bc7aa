//! What the process will run, resolved: one host from the configuration, or several embedded ones on files.
//!
//! Promises    a plan names every path and address; nothing is looked up later
//! Not here    acting on it

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use cairn_api::v1::ClusterSettings;
use cairn_env_linux::Medium;
use cairn_store::{FormatOptions, OpenOptions, RunningOptions};

use crate::{
    config::{Config, ConfigError, DirectoryConfig, DirectoryKind, DiskGroupConfig},
    flags::Flags,
};

/// Everything that the process runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cluster's name.
    pub cluster_name: String,
    /// The settings of a cluster that is being made.
    pub settings: ClusterSettings,
    /// Where the directory is.
    pub directory: DirectoryPlan,
    /// Where the API listens.
    pub api: ApiPlan,
    /// The hosts of this process: one, or several embedded ones. The first answers the API.
    pub hosts: Vec<HostPlan>,
    /// How a new disk group is made.
    pub store_format: FormatOptions,
    /// How a disk group is opened, a new one too.
    pub store_open: OpenOptions,
    /// How long threads look for work before they sleep, at most.
    pub busy_poll_max: Duration,
}

/// Where the directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryPlan {
    /// This file.
    Embedded {
        /// The file.
        path: PathBuf,
    },
    /// etcd.
    Etcd {
        /// Client URLs: those given, or those of the members.
        endpoints: Vec<String>,
        /// The member that this process runs, if any, as an index into the configuration's members.
        run_member: Option<usize>,
        /// The section as configured.
        config: DirectoryConfig,
    },
}

/// Where the API listens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiPlan {
    /// TCP.
    pub tcp: Option<SocketAddr>,
    /// Unix socket.
    pub socket: Option<PathBuf>,
}

/// One host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its fault domain.
    pub fault_domain: String,
    /// Identity and local copies.
    pub data_dir: PathBuf,
    /// Shard threads, 1 to [`crate::config::SHARDS_MAX`]; an embedded host has one.
    pub shards: u32,
    /// TCP for peers; none where all hosts share the process.
    pub peers: Option<SocketAddr>,
    /// What peers are told.
    pub advertise: Option<SocketAddr>,
    /// NBD over TCP.
    pub nbd: Option<SocketAddr>,
    /// NBD over a unix socket.
    pub nbd_socket: Option<PathBuf>,
    /// vhost-user, a socket a disk in this folder.
    pub vhost_user_dir: Option<PathBuf>,
    /// The group that guests' sockets belong to; none: the daemon's.
    pub socket_group: Option<u32>,
    /// Disk groups to open, or to make where the devices are empty.
    pub disk_groups: Vec<DiskGroupConfig>,
    /// Files whose requests take what they would on a medium that is not there.
    pub media: Vec<(PathBuf, Medium)>,
}

impl Plan {
    /// The plan of `config` (checked) and the flags that are no part of it.
    ///
    /// # Errors
    /// When the flags contradict the configuration.
    pub fn new(config: &Config, flags: &Flags) -> Result<Self, ConfigError> {
        match flags.embedded_hosts {
            Some(count) => embedded(config, flags, count),
            None => single(config),
        }
    }
}

fn single(config: &Config) -> Result<Plan, ConfigError> {
    let listen = &config.listen;
    let several_processes = config.directory.kind == DirectoryKind::Etcd;
    let peers = address(&listen.peers).filter(|_| several_processes);
    let host = HostPlan {
        name: config.host.name.clone(),
        fault_domain: config.host.fault_domain.clone(),
        data_dir: config.host.data_dir.clone(),
        shards: config.host.shards,
        peers,
        advertise: address(&listen.advertise).filter(|_| several_processes).or(peers),
        nbd: address(&listen.nbd),
        nbd_socket: path(&listen.nbd_socket),
        vhost_user_dir: path(&listen.vhost_user_dir),
        socket_group: listen.socket_group_id()?,
        disk_groups: config.disk_group.clone(),
        media: media(config, &config.disk_group)?,
    };
    Ok(Plan { directory: directory(config), api: api(config), hosts: vec![host], ..base(config) })
}

fn media(config: &Config, groups: &[DiskGroupConfig]) -> Result<Vec<(PathBuf, Medium)>, ConfigError> {
    let each = groups.iter().map(|group| group.media(&config.medium)).collect::<Result<Vec<_>, _>>();
    Ok(each.map_err(ConfigError)?.concat())
}

fn embedded(config: &Config, flags: &Flags, count: u32) -> Result<Plan, ConfigError> {
    if config.directory.kind != DirectoryKind::Embedded {
        return Err(ConfigError(
            "--embedded-hosts runs on the embedded directory, and directory.kind is \"etcd\". Leave one of them out"
                .into(),
        ));
    }
    if !config.disk_group.is_empty() {
        return Err(ConfigError(
            "--embedded-hosts makes its own disk groups, and the configuration has [[disk_group]]. Leave one of them out".into(),
        ));
    }
    if config.host.shards != 1 {
        return Err(ConfigError(
            "--embedded-hosts runs all hosts on one thread, and host.shards asks for more. Leave one of them out"
                .into(),
        ));
    }
    let data_dir = &config.host.data_dir;
    let socket_group = config.listen.socket_group_id()?;
    let mut api = api(config);
    // The packaged socket belongs to the packaged host: a trial cluster keeps to its own directory.
    if flags.api_socket.is_none() {
        api.socket = Some(data_dir.join("api.sock"));
    }
    let hosts = (1..=count)
        .map(|number| {
            let dir = data_dir.join(format!("host-{number}"));
            let disk_groups = vec![DiskGroupConfig {
                cache: dir.join("cache.img"),
                capacity: (1..=flags.embedded_capacity_devices)
                    .map(|number| dir.join(format!("capacity-{number}.img")))
                    .collect(),
                cache_size: Some(flags.embedded_cache),
                capacity_size: Some(flags.embedded_capacity),
                cache_medium: flags.embedded_cache_medium.clone(),
                capacity_medium: flags.embedded_capacity_medium.clone(),
                medium_dilation: flags.embedded_medium_dilation,
            }];
            Ok(HostPlan {
                name: format!("host-{number}"),
                fault_domain: format!("host-{number}"),
                shards: config.host.shards,
                peers: None,
                advertise: None,
                nbd: address(&config.listen.nbd).map(|nbd| nth(nbd, number - 1)),
                nbd_socket: Some(dir.join("nbd.sock")),
                vhost_user_dir: path(&config.listen.vhost_user_dir).map(|folder| folder.join(format!("host-{number}"))),
                socket_group,
                media: media(config, &disk_groups)?,
                disk_groups,
                data_dir: dir,
            })
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(Plan {
        directory: DirectoryPlan::Embedded { path: data_dir.join("directory.redb") },
        api,
        hosts,
        ..base(config)
    })
}

/// The parts that both kinds share.
fn base(config: &Config) -> Plan {
    Plan {
        cluster_name: config.cluster.name.clone(),
        settings: ClusterSettings {
            repair_delay_s: config.cluster.repair_delay_s,
            lease_ms: config.cluster.lease_ms,
            ..ClusterSettings::default()
        },
        directory: DirectoryPlan::Embedded { path: PathBuf::new() },
        api: ApiPlan::default(),
        hosts: Vec::new(),
        store_format: store_format(config),
        store_open: store_open(config),
        busy_poll_max: Duration::from_micros(config.tuning.busy_poll_us),
    }
}

fn store_format(config: &Config) -> FormatOptions {
    let log = config.tuning.log.0;
    let index_bytes_max = config.tuning.log_memory.0;
    FormatOptions { log_bytes: (log > 0).then_some(log), index_bytes_max, ..FormatOptions::default() }
}

fn store_open(config: &Config) -> OpenOptions {
    let tuning = &config.tuning;
    OpenOptions {
        read_cache_bytes: tuning.read_cache.0,
        running: RunningOptions {
            congestion_low_percent: tuning.congestion_low_percent,
            congestion_high_percent: tuning.congestion_high_percent,
            congestion_delay_max_us: tuning.congestion_delay_max_ms * 1000,
            ..RunningOptions::default()
        },
        ..OpenOptions::default()
    }
}

fn directory(config: &Config) -> DirectoryPlan {
    let section = &config.directory;
    match section.kind {
        DirectoryKind::Embedded => DirectoryPlan::Embedded { path: config.host.data_dir.join("directory.redb") },
        DirectoryKind::Etcd => DirectoryPlan::Etcd {
            endpoints: if section.members.is_empty() {
                section.endpoints.clone()
            } else {
                let urls = section.members.iter().map(|m| m.client_url.clone());
                urls.collect()
            },
            run_member: section.members.iter().position(|member| member.host == config.host.name),
            config: section.clone(),
        },
    }
}

fn api(config: &Config) -> ApiPlan {
    ApiPlan { tcp: address(&config.listen.api), socket: path(&config.listen.api_socket) }
}

/// An address that `Config::check` has parsed before; empty is off.
fn address(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// The address of the nth embedded host: on loopback the next loopback address too, so that each host has its own on one port.
fn nth(address: SocketAddr, n: u32) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => {
            let ip = Ipv4Addr::from_bits(ip.to_bits().saturating_add(n));
            SocketAddr::new(ip.into(), address.port())
        }
        _ => SocketAddr::new(address.ip(), address.port().saturating_add(u16::try_from(n).unwrap_or(u16::MAX))),
    }
}
