//! The effective configuration as a file that can be used: every key with its value, unit and meaning.

use std::fmt::Write as _;

use super::Config;

/// What stands beside each key: meaning, unit, off value.
const NOTES: &[(&str, &str)] = &[
    (
        "name",
        "the cluster's, or the host's (default: the machine's host name)",
    ),
    (
        "lease_ms",
        "for a new cluster; milliseconds, 1000..60000; later: cairn cluster settings",
    ),
    (
        "repair_delay_s",
        "for a new cluster; seconds until an absent component is replaced",
    ),
    (
        "fault_domain",
        "hosts that fail together; default: the host by itself",
    ),
    (
        "data_dir",
        "identity and local copies; one daemon at a time",
    ),
    ("shards", "threads; 0: one per processor, at most 8"),
    (
        "peers",
        "for other hosts; \"\": off (hosts of one process need none)",
    ),
    (
        "advertise",
        "what other hosts are told; \"\": the address of peers",
    ),
    ("api", "management, HTTP; \"\": off"),
    (
        "api_socket",
        "management, HTTP over a unix socket; \"\": off",
    ),
    (
        "api_trusted_network",
        "allow api beyond this machine, though it has no authentication",
    ),
    ("nbd", "guests' disks; \"\": off"),
    ("nbd_socket", "guests' disks; \"\": off"),
    ("kind", "embedded (one process) or etcd"),
    ("endpoints", "client URLs of an etcd that exists"),
    (
        "members",
        "etcd members that the cluster runs: [{ host, peer_url, client_url }]",
    ),
    ("etcd_program", "the etcd to start for members"),
    ("read_cache", "memory for cached reads, per disk group"),
    (
        "log_max",
        "the log of a new disk group takes this much of the cache device at most",
    ),
    ("format", "text or json"),
    (
        "level",
        "error, warn, info, debug, trace; per module: info,cairn_object=debug",
    ),
    (
        "disk_group",
        "to open at start: [[disk_group]] cache, capacity = [1..7], cache_size and capacity_size make files",
    ),
];

/// The effective configuration, as TOML with a comment on every key. It reads back as the same configuration.
///
/// # Panics
/// When the configuration cannot be written as TOML: its types always can.
pub fn print(config: &Config) -> String {
    let text = toml::to_string(config).expect("the configuration's types have a TOML form");
    let mut out = String::from("# cairnd: the effective configuration\n");
    for line in text.lines() {
        let key = line.split(" = ").next().unwrap_or_default();
        match NOTES.iter().find(|(name, _)| *name == key) {
            Some((_, note)) if line.contains(" = ") => writeln!(out, "{line:<40} # {note}"),
            _ => writeln!(out, "{line}"),
        }
        .expect("a string takes all text");
    }
    out
}
