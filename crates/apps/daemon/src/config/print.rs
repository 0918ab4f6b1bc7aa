//! The effective configuration as a file that can be used: every key with its value, unit and meaning.

use std::fmt::Write as _;

use super::Config;

/// What stands beside each key: meaning, unit, off value.
const NOTES: &[(&str, &str)] = &[
    ("cluster.name", "the same on all hosts"),
    ("cluster.lease_ms", "for a new cluster, which keeps it; milliseconds, 1000..60000"),
    ("cluster.repair_delay_s", "for a new cluster; seconds until an absent component is replaced"),
    ("host.name", "\"\": the machine's host name"),
    ("host.fault_domain", "hosts that fail together; \"\": the host by itself"),
    ("host.data_dir", "identity and local copies; one daemon at a time"),
    ("host.shards", "threads, each with disk groups and disks of its own: 1 to 8"),
    ("host.machine_root", "where sys, proc and dev of the machine are; another folder in some containers"),
    ("listen.peers", "for other hosts; \"\": off (hosts of one process need none)"),
    ("listen.advertise", "what other hosts are told; \"\": the address of peers"),
    ("listen.api", "management, HTTP; \"\": off"),
    ("listen.api_socket", "management, HTTP over a unix socket; \"\": off"),
    ("listen.api_trusted_network", "allow api beyond this machine, though it has no authentication"),
    ("listen.nbd", "guests' disks; \"\": off"),
    ("listen.nbd_socket", "guests' disks; \"\": off"),
    ("listen.vhost_user_dir", "guests' disks by vhost-user-blk, a socket a disk: DIR/DISK.sock; \"\": off"),
    ("listen.socket_group", "the group of nbd_socket and of what is in vhost_user_dir; \"\": the daemon's"),
    ("directory.kind", "embedded (one process) or etcd"),
    ("directory.endpoints", "client URLs of an etcd that exists"),
    (
        "directory.members",
        "etcd members of a new cluster: [{ host, peer_url, client_url }]; later `cairn cluster members`",
    ),
    ("directory.etcd_program", "the etcd to start for members"),
    ("tuning.read_cache", "memory for cached reads, per disk group"),
    ("tuning.log", "of a disk group that is being made, at least 32MiB; 0: chosen from the devices' sizes"),
    ("tuning.log_memory", "for the index of that log, at worst: 220 bytes for 4 KiB; a larger log is refused"),
    ("tuning.congestion_low_percent", "of the log; from there on acknowledgements are delayed, more and more"),
    ("tuning.congestion_high_percent", "of the log; from there on writes wait for destage"),
    ("tuning.congestion_delay_max_ms", "the longest such delay"),
    (
        "tuning.busy_poll_us",
        "a shard looks for work for as long before it sleeps, where it comes as soon; 0..1000, 0: never",
    ),
    ("log.format", "text or json"),
    ("log.level", "error, warn, info, debug, trace; per module: info,cairn_object=debug"),
];

/// Shown where no disk group is configured.
const DISK_GROUP_EXAMPLE: &str = "
# Disk groups to open at start; others are made with cairn disk-group create.
# [[disk_group]]
# cache = \"/dev/nvme0n1\"
# capacity = [\"/dev/sda\", \"/dev/sdb\"]   # 1 to 7
# cache_size = \"10GiB\"                  # only to make a file that does not exist
# capacity_size = \"100GiB\"              # only to make files that do not exist
# cache_medium = \"optane\"               # for measuring on files: times of hdd10k, sata-ssd, nvme-nand, nvme-read or optane
# capacity_medium = \"hdd10k\"            # or of one that [medium.NAME] describes
# medium_dilation = 20.0                 # all of them multiplied by this
";

/// The effective configuration, as TOML with a comment on every key. It reads back as the same configuration.
///
/// # Panics
/// When the configuration cannot be written as TOML: its types always can.
pub fn print(config: &Config) -> String {
    let text = toml::to_string(config).expect("the configuration's types have a TOML form");
    let mut out = String::from("# cairnd: the effective configuration\n");
    let mut section = String::new();
    for line in text.lines() {
        // An empty list here would make the [[disk_group]] that somebody adds a second definition of the key.
        if line == "disk_group = []" {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned();
        }
        let key = format!("{section}.{}", line.split(" = ").next().unwrap_or_default());
        match NOTES.iter().find(|(name, _)| *name == key) {
            Some((_, note)) => writeln!(out, "{line:<38} # {note}"),
            None => writeln!(out, "{line}"),
        }
        .expect("a string takes all text");
    }
    if config.disk_group.is_empty() {
        out += DISK_GROUP_EXAMPLE;
    }
    out
}
