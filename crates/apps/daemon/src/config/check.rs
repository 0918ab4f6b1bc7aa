//! What the parser cannot see: values that contradict each other or that nothing can be built from.

use std::net::SocketAddr;

use cairn_api::v1::{ClusterSettings, check_name};
use cairn_directory_etcd::local_copy_tells_members;

use super::{ClusterConfig, Config, ConfigError, DirectoryKind, DiskGroupConfig, ListenConfig};

/// Shards of a server, at most. Each keeps a connection to every other of the cluster, and asks it twice a second.
pub const SHARDS_MAX: u32 = 8;
/// The groups of this machine.
const GROUPS: &str = "/etc/group";
/// Disk groups of one host, at most: as vSAN has it.
const DISK_GROUPS_MAX: usize = 5;
/// Above it there is no room left for what may always be written: marks, trims, what settles.
const CONGESTION_HIGH_MAX_PERCENT: u8 = 95;
/// A thread that looks for longer before it sleeps has gained nothing for a long time.
const BUSY_POLL_MAX_US: u64 = 1000;
/// The index of a log of 74 MiB; the least that a log may be is 32 MiB.
const LOG_MEMORY_BYTES_MIN: u64 = 4 << 20;
/// A guest's request that waits much longer looks lost to it.
const CONGESTION_DELAY_MAX_MS: u64 = 10_000;
/// Capacity devices of one disk group, at most: as vSAN has it.
const CAPACITY_DEVICES_MAX: usize = 7;

impl Config {
    /// Fills in what depends on the machine, and checks everything that can be checked without opening a device.
    ///
    /// # Errors
    /// The first thing that is wrong, by key, with the remedy.
    pub fn check(mut self) -> Result<Self, ConfigError> {
        let named_by_machine = self.host.name.is_empty();
        if named_by_machine {
            self.host.name = hostname()?;
        }
        if self.host.fault_domain.is_empty() {
            self.host.fault_domain.clone_from(&self.host.name);
        }
        for (key, what, name) in [
            ("cluster.name", "cluster", &self.cluster.name),
            ("host.name", "host", &self.host.name),
            ("host.fault_domain", "fault domain", &self.host.fault_domain),
        ] {
            check_name(what, name).map_err(|error| bad(key, &error.to_string()))?;
        }
        let ClusterConfig { repair_delay_s, lease_ms, .. } = self.cluster;
        let settings = ClusterSettings { repair_delay_s, lease_ms, ..ClusterSettings::default() };
        settings.check().map_err(|error| bad("cluster", &error.to_string()))?;
        if !(1..=SHARDS_MAX).contains(&self.host.shards) {
            return Err(bad("host.shards", &format!("{} shards, a host has 1 to {SHARDS_MAX}", self.host.shards)));
        }
        if self.host.shards > 1 {
            let last = format!("{}.shard-{}", self.host.name, self.host.shards);
            check_name("host", &last).map_err(|error| bad("host.name", &format!("with host.shards, {error}")))?;
        }
        self.check_directory()?;
        self.check_member(named_by_machine)?;
        self.check_listen()?;
        self.check_disk_groups()?;
        self.check_tuning()?;
        Ok(self)
    }

    fn check_listen(&self) -> Result<(), ConfigError> {
        let listen = &self.listen;
        let peers = address("listen.peers", &listen.peers)?;
        let advertise = address("listen.advertise", &listen.advertise)?;
        let api = address("listen.api", &listen.api)?;
        address("listen.nbd", &listen.nbd)?;
        listen.socket_group_id()?;
        if let Some(api) = api
            && !api.ip().is_loopback()
            && !listen.api_trusted_network
        {
            return Err(bad(
                "listen.api",
                &format!(
                    "{api} can be reached from other machines, and the API has no authentication yet. \
                     Use 127.0.0.1 or api_socket, or set listen.api_trusted_network = true"
                ),
            ));
        }
        if self.directory.kind == DirectoryKind::Etcd {
            let Some(peers) = peers else {
                return Err(bad(
                    "listen.peers",
                    "a cluster of several processes needs an address for them, such as \"10.0.0.1:9600\"",
                ));
            };
            if advertise.is_none() && peers.ip().is_unspecified() {
                return Err(bad(
                    "listen.advertise",
                    &format!(
                        "{peers} tells other hosts no address. Set listen.advertise, or listen.peers, to one that they reach"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn check_directory(&self) -> Result<(), ConfigError> {
        let directory = &self.directory;
        let (endpoints, members) = (directory.endpoints.len(), directory.members.len());
        match directory.kind {
            DirectoryKind::Embedded if endpoints + members > 0 => Err(bad(
                "directory.kind",
                "\"embedded\" has neither endpoints nor members. Set kind = \"etcd\", or leave them out",
            )),
            DirectoryKind::Etcd if endpoints > 0 && members > 0 => Err(bad(
                "directory.members",
                "give either endpoints (an etcd that exists) or members (one that the cluster runs), not both",
            )),
            DirectoryKind::Etcd if endpoints + members == 0 => Err(bad(
                "directory",
                "kind = \"etcd\" needs endpoints (an etcd that exists) or members (1, 3 or 5 that the cluster runs)",
            )),
            DirectoryKind::Etcd if members > 0 && ![1, 3, 5].contains(&members) => Err(bad(
                "directory.members",
                &format!("{members} members: use 1, 3 or 5, an even number tolerates no more failures"),
            )),
            _ => Ok(()),
        }
    }

    /// A host that ran a member of the directory, or should by its address, and whose name is none of the members': it would
    /// run none, and nobody would say so.
    fn check_member(&self, named_by_machine: bool) -> Result<(), ConfigError> {
        let (members, name) = (&self.directory.members, &self.host.name);
        if members.is_empty() || members.iter().any(|member| member.host == *name) {
            return Ok(());
        }
        // A host that the directory has told who runs its members goes by that.
        if local_copy_tells_members(&self.host.data_dir) {
            return Ok(());
        }
        let names: Vec<&str> = members.iter().map(|member| member.host.as_str()).collect();
        let names = names.join(", ");
        let data = self.host.data_dir.join("etcd");
        if data.join("member").is_dir() {
            return Err(bad(
                "host.name",
                &format!(
                    "this host ran a member of the directory ({} has its data), it is called {name:?} now, and \
                     directory.members has {names}. Set host.name to the name that it had; if it shall run no member any \
                     more, move {} away",
                    data.display(),
                    data.display()
                ),
            ));
        }
        let own = [&self.listen.advertise, &self.listen.peers].into_iter().find_map(|text| text.parse().ok());
        let own = own.map(|address: SocketAddr| address.ip()).filter(|ip| !ip.is_unspecified());
        let at = |url: &str| url.strip_prefix("http://").and_then(|rest| rest.parse::<SocketAddr>().ok());
        let here = members.iter().find(|member| own.is_some() && at(&member.client_url).map(|a| a.ip()) == own);
        match here.filter(|_| named_by_machine) {
            Some(member) => Err(bad(
                "host.name",
                &format!(
                    "it is empty, so the machine's name {name:?} counts, and directory.members has this host's address as \
                     {:?}. Set host.name",
                    member.host
                ),
            )),
            None => Ok(()),
        }
    }

    fn check_tuning(&self) -> Result<(), ConfigError> {
        let tuning = &self.tuning;
        let (low, high) = (tuning.congestion_low_percent, tuning.congestion_high_percent);
        // Below the mark where destage begins guests would wait for room that nobody makes.
        let destage = cairn_store::RunningOptions::default().destage_percent;
        if !(destage..high).contains(&low) || high > CONGESTION_HIGH_MAX_PERCENT {
            let why = format!(
                "{low} and {high}: from {destage}, where destage begins, to {CONGESTION_HIGH_MAX_PERCENT}, the low mark below the high one"
            );
            return Err(bad("tuning.congestion_low_percent, congestion_high_percent", &why));
        }
        if tuning.log_memory.0 < LOG_MEMORY_BYTES_MIN {
            let why = format!("{} bytes: at least {LOG_MEMORY_BYTES_MIN}", tuning.log_memory.0);
            return Err(bad("tuning.log_memory", &why));
        }
        if tuning.congestion_delay_max_ms > CONGESTION_DELAY_MAX_MS {
            let why = format!("{} ms: at most {CONGESTION_DELAY_MAX_MS}", tuning.congestion_delay_max_ms);
            return Err(bad("tuning.congestion_delay_max_ms", &why));
        }
        if tuning.busy_poll_us > BUSY_POLL_MAX_US {
            let why = format!("{} us: at most {BUSY_POLL_MAX_US}", tuning.busy_poll_us);
            return Err(bad("tuning.busy_poll_us", &why));
        }
        Ok(())
    }

    fn check_disk_groups(&self) -> Result<(), ConfigError> {
        if self.disk_group.len() > DISK_GROUPS_MAX {
            return Err(bad(
                "disk_group",
                &format!("{} disk groups, a host has at most {DISK_GROUPS_MAX}", self.disk_group.len()),
            ));
        }
        let mut seen = std::collections::BTreeSet::new();
        for group in &self.disk_group {
            let DiskGroupConfig { cache, capacity, .. } = group;
            if !(1..=CAPACITY_DEVICES_MAX).contains(&capacity.len()) {
                return Err(bad(
                    "disk_group.capacity",
                    &format!(
                        "{} capacity devices beside {}, a disk group has 1 to {CAPACITY_DEVICES_MAX}",
                        capacity.len(),
                        cache.display()
                    ),
                ));
            }
            group.media(&self.medium).map_err(|why| bad("disk_group.cache_medium, capacity_medium", &why))?;
            for path in std::iter::once(cache).chain(capacity) {
                if !seen.insert(path) {
                    return Err(bad("disk_group", &format!("{} is named twice", path.display())));
                }
            }
        }
        Ok(())
    }
}

impl ListenConfig {
    /// The number of the group that guests' sockets are to belong to.
    ///
    /// # Errors
    /// There is no group of that name.
    pub fn socket_group_id(&self) -> Result<Option<u32>, ConfigError> {
        let (key, name) = ("listen.socket_group", self.socket_group.as_str());
        if name.is_empty() {
            return Ok(None);
        }
        let groups = std::fs::read_to_string(GROUPS).map_err(|e| bad(key, &format!("cannot read {GROUPS}: {e}")))?;
        let named = |line: &str| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
        };
        match groups.lines().find_map(named) {
            Some(id) => Ok(Some(id)),
            None => {
                Err(bad(key, &format!("there is no group {name:?} in {GROUPS}. Name one, or \"\" for the daemon's")))
            }
        }
    }
}

fn bad(key: &str, why: &str) -> ConfigError {
    ConfigError(format!("configuration key {key}: {why}"))
}

fn address(key: &str, text: &str) -> Result<Option<SocketAddr>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| bad(key, &format!("{text:?} is not an address. Write \"10.0.0.1:9600\" or \"[fd00::1]:9600\"")))
}

/// The machine's name, up to its first dot.
///
/// # Errors
/// When the kernel's answer is no usable name.
pub fn hostname() -> Result<String, ConfigError> {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| ConfigError(format!("cannot read the machine's name: {error}. Set host.name")))?;
    Ok(text.trim().split('.').next().unwrap_or_default().to_owned())
}
