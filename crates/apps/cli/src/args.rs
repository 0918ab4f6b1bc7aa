//! The command line: nouns, verbs, flags. Nothing is done here.

mod bench;
mod cluster;
mod image;
mod policy;
mod snapshot;

pub use bench::{Bench, Calc, Capacity, Compare, EasyRun, Endurance, MediaName, Tco, Words};
pub use cluster::{Cluster, Devices, Init, Join, MemberUrls, Members, MembersHow, Upgrade};
pub use image::{Export, ImageFormat, Import};
pub use policy::{Method, Policy, PolicyCreate, PolicyEdit};
pub use snapshot::{Schedule, ScheduleCreate, ScheduleEdit, Snapshot};

use std::path::PathBuf;

use cairn_types::MaintenanceMode;
use clap::{
    Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};

use crate::{
    address::ApiAddress,
    output::Format,
    units::{seconds, size},
};

/// Manages a Cairn cluster: hosts, disk groups, virtual disks, policies.
///
/// Exit codes: 0 done, 1 refused or found bad, 2 wrong command line, 3 cannot reach.
#[derive(Debug, Parser)]
#[command(name = "cairn", version = cairn_release::release!(), max_term_width = 100, subcommand_required = true)]
pub struct Args {
    /// The management API: http://HOST:PORT or unix:/PATH
    #[arg(
        long, global = true, value_name = "URL",
        env = cairn_api::API_ENV, hide_env_values = true, default_value = cairn_api::API_DEFAULT
    )]
    pub api: ApiAddress,
    /// Form of the data on stdout
    #[arg(long, short, global = true, value_enum, default_value_t)]
    pub output: Format,
    /// Seconds to wait for an answer
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// What to do with which
    #[command(subcommand)]
    pub noun: Noun,
}

/// What a command is about.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// The cluster as a whole
    #[command(subcommand)]
    Cluster(Cluster),
    /// Servers of the cluster
    #[command(subcommand)]
    Host(Host),
    /// Cache device and capacity devices of a host
    #[command(subcommand)]
    DiskGroup(DiskGroup),
    /// Virtual disks
    #[command(subcommand)]
    Disk(Disk),
    /// Snapshots of disks: moments that can be read
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Who has which disk open
    #[command(subcommand)]
    Session(Session),
    /// Storage policies
    #[command(subcommand)]
    Policy(Policy),
    /// Health checks; exit code 1 where one finds an error
    Health {
        /// Something else than to show them
        #[command(subcommand)]
        verb: Option<Health>,
    },
    /// What would become of the disks; changes nothing
    #[command(subcommand)]
    WhatIf(WhatIf),
    /// Components that are being filled
    #[command(subcommand)]
    Resync(Resync),
    /// Disk groups read through now and then, so that blocks that go bad at rest are found and repaired
    #[command(subcommand)]
    Scrub(Scrub),
    /// What guests asked and where their bytes went, per host and disk group (per disk with --output json)
    Counters(Counters),
    /// The busiest disks with the slowest stage of each, and how full the logs are, again and again
    Top(Top),
    /// Write buffers and read caches
    #[command(subcommand)]
    Cache(Cache),
    /// Look into a device or file of a disk group, offline and read-only
    Inspect(Inspect),
    /// Measure storage, and calculate endurance, cost and capacity
    #[command(subcommand)]
    Bench(Box<Bench>),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the page of all commands
    #[command(hide = true)]
    Reference,
    /// Write the man pages of all commands into a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: PathBuf,
    },
    /// The release of this program
    Version,
}

/// Checks that are known of.
#[derive(Debug, Subcommand)]
pub enum Health {
    /// For a time, let what a check finds count for nothing; it is told all the same
    Mute {
        /// The check, by name
        check: String,
        /// How long, at most 90 days: 30m, 2h, 7d
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        for_s: u64,
        /// Why
        #[arg(long, value_name = "WORDS")]
        reason: String,
    },
    /// Let it count again
    Unmute {
        /// The check, by name
        check: String,
    },
    /// What was found so far and when it ended, the newest first: of each check the last 32 times
    History {
        /// Only what this check found
        #[arg(long, value_name = "NAME")]
        check: Option<String>,
    },
}

/// Something that might happen.
#[derive(Debug, Subcommand)]
pub enum WhatIf {
    /// If a host were lost for good
    HostLoss {
        /// Name or id
        host: String,
    },
    /// If a disk group lost its cache device, or one of its capacity devices, for good
    DeviceLoss {
        /// The disk group's id, or its beginning
        disk_group: String,
        /// The capacity device, by its path as `cairn disk-group show` has it [default: the cache device, and all with it]
        #[arg(long, value_name = "PATH")]
        device: Option<String>,
    },
    /// If a host entered maintenance, as `cairn host maintenance enter --dry-run` tells
    Maintenance {
        /// Name or id
        host: String,
        /// What would be moved away first
        #[arg(long, default_value = MaintenanceMode::EnsureAccessibility.name(), value_parser = maintenance_mode())]
        mode: MaintenanceMode,
    },
    /// If a disk got another policy, as `cairn disk set-policy --dry-run` tells
    Policy {
        /// Name or id
        disk: String,
        /// The policy, by name
        policy: String,
    },
    /// If hosts came, or a disk group got a capacity device: the room then, the disks that get what they lack, and what moves there
    Grow {
        /// So many hosts, with one disk group each
        #[arg(long, value_name = "N", required_unless_present = "disk_group", conflicts_with = "disk_group")]
        hosts: Option<u8>,
        /// Capacity devices of each of these hosts
        #[arg(long, value_name = "N", conflicts_with = "disk_group")]
        devices: Option<u8>,
        /// The disk group that gets a capacity device: its id, or its beginning
        #[arg(long, value_name = "ID")]
        disk_group: Option<String>,
        /// Size of each capacity device
        #[arg(long, value_name = "SIZE", value_parser = size)]
        device_size: u64,
    },
}

/// Sessions of guests.
#[derive(Debug, Subcommand)]
pub enum Session {
    /// All of them, or those of one disk
    List {
        /// The disk's name
        #[arg(long)]
        disk: Option<String>,
    },
}

/// Servers of the cluster.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// All hosts
    List,
    /// One host
    Show {
        /// Name or id
        host: String,
    },
    /// All block devices of a host: free, used by which disk group, or why they cannot be used
    Devices {
        /// Name or id [default: the host that answers]
        host: Option<String>,
    },
    /// Light the locate LED of a device, so that it is found at the rack, or put it out
    ///
    /// The host does it with `ledctl` (Debian: ledmon), for devices in enclosures that this knows; it must run as root. Nothing keeps
    /// which LEDs are lit but the enclosure: put each out with --off.
    Locate {
        /// Its path or stable name, as `host devices` shows them
        device: String,
        /// The device's host, by name or id [default: the host that answers]
        #[arg(long)]
        host: Option<String>,
        /// Put the LED out
        #[arg(long)]
        off: bool,
    },
    /// Take a host that is empty out of the cluster; refused while a disk has anything there
    Remove {
        /// Name or id
        host: String,
        /// Only tell what stands in the way
        #[arg(long)]
        dry_run: bool,
        /// Wait until it is empty and no guest uses it; it must be in maintenance with full evacuation
        #[arg(long)]
        wait: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Give up a host that is dead, and rebuild elsewhere at once what it held; refused while it is alive
    Forget {
        /// Name or id
        host: String,
        /// Only tell what would be lost with it
        #[arg(long)]
        dry_run: bool,
        /// Forget it although disks are lost with it, or the host that is asked may be the one that is cut off
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Take a host that was removed or forgotten in again, when it starts next
    Readmit {
        /// Name or id
        host: String,
    },
    /// Maintenance: take a host out of use, and back
    #[command(subcommand)]
    Maintenance(Maintenance),
    /// Write the configuration of a host that joins; --api names a host of the cluster. Nothing is started
    Join(Join),
}

/// Maintenance of a host.
#[derive(Debug, Subcommand)]
pub enum Maintenance {
    /// Whether a host is in maintenance, and what has to be moved away before it is
    Show {
        /// Name or id
        host: String,
    },
    /// Take the host out of use: it is given nothing new, and what the mode says is moved to other hosts
    Enter {
        /// Name or id
        host: String,
        /// What is moved away: what disks need to be served, everything, or nothing
        #[arg(long, default_value = MaintenanceMode::EnsureAccessibility.name(), value_parser = maintenance_mode())]
        mode: MaintenanceMode,
        /// Only tell what would come of it: disks, bytes, what cannot be moved, what would not be served
        #[arg(long)]
        dry_run: bool,
        /// Enter although something cannot be moved, or disks cannot be served while the host is away
        #[arg(long)]
        force: bool,
        /// Return when nothing is left to be moved
        #[arg(long)]
        wait: bool,
    },
    /// Take the host into use again; what is being moved away stays
    Leave {
        /// Name or id
        host: String,
    },
}

fn maintenance_mode() -> impl TypedValueParser<Value = MaintenanceMode> {
    let named = |name: String| MaintenanceMode::ALL.into_iter().find(|mode| mode.name() == name);
    PossibleValuesParser::new(MaintenanceMode::ALL.map(MaintenanceMode::name))
        .map(move |name| named(name).expect("one of the possible values"))
}

fn on_or_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|word| word == "on")
}

/// Disk groups.
#[derive(Debug, Subcommand)]
pub enum DiskGroup {
    /// All disk groups
    List,
    /// One disk group with its devices
    Show {
        /// Id, or the beginning of one
        disk_group: String,
    },
    /// Make a disk group out of devices, or of files
    Create {
        /// The host that has the devices, by name or id [default: the host that answers]
        #[arg(long)]
        host: Option<String>,
        /// The cache device: the fastest
        #[arg(long, value_name = "PATH")]
        cache: PathBuf,
        /// The capacity devices: 1 to 7
        #[arg(long, value_name = "PATH", required = true, num_args = 1..=7)]
        capacity: Vec<PathBuf>,
        /// Make the cache as a file of this size
        #[arg(long, value_name = "SIZE", value_parser = size, requires = "capacity_file_size")]
        cache_file_size: Option<u64>,
        /// Make each capacity device as a file of this size
        #[arg(long, value_name = "SIZE", value_parser = size, requires = "cache_file_size")]
        capacity_file_size: Option<u64>,
        /// Use devices that hold something already: it is lost
        #[arg(long)]
        overwrite: bool,
        /// Do not ask before overwriting
        #[arg(long, short)]
        yes: bool,
    },
    /// Move everything away from a disk group, so that it can be removed; guests go on meanwhile
    Drain {
        /// Id, or the beginning of one
        disk_group: String,
        /// Only tell what would come of it: disks, bytes, what cannot be moved
        #[arg(long)]
        dry_run: bool,
        /// Begin although something cannot be moved
        #[arg(long)]
        force: bool,
        /// Return when nothing is left there
        #[arg(long)]
        wait: bool,
        /// Take it into use again; what was moved away stays there
        #[arg(long, conflicts_with_all = ["dry_run", "force", "wait"])]
        stop: bool,
    },
    /// Add a capacity device to a disk group in use
    AddCapacity {
        /// Id, or the beginning of one
        disk_group: String,
        /// The device, on the disk group's host
        #[arg(long, value_name = "PATH")]
        device: PathBuf,
        /// Only tell what would come of it
        #[arg(long)]
        dry_run: bool,
        /// Use it although it holds something: that is lost
        #[arg(long)]
        overwrite: bool,
        /// Do not ask before overwriting
        #[arg(long, short)]
        yes: bool,
    },
    /// Put a device in the place of one that is dead or is to go; what is on that is lost and rebuilt elsewhere
    ReplaceDevice {
        /// Id, or the beginning of one
        disk_group: String,
        /// The device that goes: its path, or the beginning of its id
        #[arg(long, value_name = "OLD")]
        device: String,
        /// The new one, on the disk group's host
        #[arg(long, value_name = "NEW")]
        with: PathBuf,
        /// Only tell what would come of it: components, bytes, disks
        #[arg(long)]
        dry_run: bool,
        /// Go on although a disk's only good copy is lost
        #[arg(long)]
        force: bool,
        /// Use the new one although it holds something: that is lost
        #[arg(long)]
        overwrite: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Choose anew what can be chosen of a disk group in use; without an option: show it
    Set {
        /// Id, or the beginning of one
        disk_group: String,
        /// Pack what is moved to the capacity devices from now on (LZ4); what stands there stays as it is until it is overwritten, or with --rewrite
        #[arg(long, value_name = "on|off", value_parser = on_or_off())]
        compression: Option<bool>,
        /// Store blocks that are equal once on each capacity device, from now on; what stands there stays as it is until it is overwritten, or with
        /// --rewrite
        #[arg(long, value_name = "on|off", value_parser = on_or_off())]
        dedupe: Option<bool>,
        /// Write anew, in the background, what stands on the capacity devices now, so that it becomes as chosen; off: leave that
        #[arg(long, value_name = "on|off", value_parser = on_or_off(), num_args = 0..=1, default_missing_value = "on")]
        rewrite: Option<bool>,
    },
    /// Give up a disk group; refused while it holds components
    Remove {
        /// Id, or the beginning of one
        disk_group: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Virtual disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// All disks
    List,
    /// One disk with its components
    Show {
        /// Name or id
        disk: String,
    },
    /// What a disk takes: what is written, what its snapshots keep, what is set aside
    ///
    /// For each snapshot it tells what comes back if that alone is deleted. What disks keep of their past is looked through for it, in parts:
    /// some seconds for a TiB of it.
    Usage {
        /// Name or id
        disk: String,
    },
    /// Make a disk
    Create {
        /// Its name, also that of its NBD export
        name: String,
        /// Its size: 20G, 512MiB, 1.5T
        #[arg(long, short, value_name = "SIZE", value_parser = size)]
        size: u64,
        /// Its policy [default: default]
        #[arg(long, short)]
        policy: Option<String>,
        /// The host that will use it, by name or id: a copy is placed there where that is possible
        #[arg(long)]
        host: Option<String>,
        #[command(flatten)]
        limits: Limits,
    },
    /// Change how much guests may do with a disk, at once
    Set {
        /// Name or id
        disk: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Give a disk another policy, in use: copies come and go until it is met
    SetPolicy {
        /// Name or id
        disk: String,
        /// The policy, by name
        policy: String,
        /// Only tell what would come of it
        #[arg(long)]
        dry_run: bool,
        /// Set it although not all of it can be done now: the rest follows when there is room
        #[arg(long)]
        force: bool,
    },
    /// Move what a disk has on a host to another host, in use
    Move {
        /// Name or id
        disk: String,
        /// The host that it is on, by name or id
        #[arg(long, value_name = "HOST")]
        from: String,
        /// The host that it goes to, by name or id [default: wherever there is room]
        #[arg(long, value_name = "HOST")]
        to: Option<String>,
        /// Only tell what would come of it
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete a disk and what it holds; refused while a guest has it open
    Delete {
        /// Name or id
        disk: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Delete it although guests have it open: their requests fail from then on
        #[arg(long)]
        force: bool,
    },
    /// Make a disk of a snapshot, at once: a clone has of its own only what is written to it
    ///
    /// It reads all else of the snapshot, so that one stays until the clone is deleted or flattened. It has a policy and a place of its own, and
    /// may have snapshots and clones itself, at most 4 deep. A machine that is copied so keeps its name and addresses: see to that first.
    Clone {
        /// DISK@NAME
        snapshot: String,
        /// The name of the new disk; of several the first part: NAME-1, NAME-2
        name: String,
        /// So many of them
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        count: Option<u32>,
        /// The size, not below the snapshot's [default: the snapshot's]
        #[arg(long, short, value_name = "SIZE", value_parser = size)]
        size: Option<u64>,
        /// The policy, one of mirrors [default: that of the snapshot's disk]
        #[arg(long, short)]
        policy: Option<String>,
        /// The host that will use it: one copy goes there where that is possible
        #[arg(long)]
        host: Option<String>,
    },
    /// Copy what a clone has of its snapshot, so that it needs that no more; guests go on
    Flatten {
        /// Name or id
        disk: String,
        /// Return when it is done
        #[arg(long)]
        wait: bool,
    },
    /// Give a disk another name, also that of its exports and sockets; refused while a guest has it open
    Rename {
        /// Name or id
        disk: String,
        /// The new name
        name: String,
        /// Rename it although guests have it open: they go on, and cannot come back by its former name
        #[arg(long)]
        force: bool,
    },
    /// Grow a disk; a guest sees it when its machine is started anew, or the disk plugged in anew
    Resize {
        /// Name or id
        disk: String,
        /// The new size
        #[arg(long, short, value_name = "SIZE", value_parser = size)]
        size: u64,
    },
    /// Make a host the owner of a disk, so that a guest there has no extra hop
    Attach {
        /// Name or id
        disk: String,
        /// The host, by name or id [default: the host that answers]
        #[arg(long)]
        host: Option<String>,
    },
    /// Where the time of its reads and writes goes: each stage, each copy, and the slowest
    Latency {
        /// Name or id
        disk: String,
        /// Show what was measured since its hosts were started
        #[arg(long, conflicts_with = "seconds")]
        since_start: bool,
        /// Show what is measured within so many seconds from now
        #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        seconds: u64,
    },
    /// What libvirt is told of a disk: its `<disk>` for a domain
    Xml(DiskXml),
    /// Write what a disk, or a snapshot of it, holds to an image file; needs qemu-img (Debian: qemu-utils)
    Export(Export),
    /// Make a disk of an image file; needs qemu-img (Debian: qemu-utils)
    Import(Import),
    /// Say each change of a disk's state, until it is healthy
    Watch {
        /// Name or id
        disk: String,
        /// Go on when it is healthy
        #[arg(long)]
        forever: bool,
        /// Milliseconds between looks
        #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..))]
        interval_ms: u64,
    },
    /// What every seat of the disk's record holds: for debugging
    Record {
        /// Name or id
        disk: String,
    },
}

/// By which door a machine reaches a disk.
#[derive(Debug, clap::Args)]
pub struct DiskXml {
    /// Name or id
    pub disk: String,
    /// By NBD, from any server; the default
    #[arg(long, conflicts_with = "vhost_user")]
    pub nbd: bool,
    /// By vhost-user-blk, for a machine on the host itself
    #[arg(long)]
    pub vhost_user: bool,
    /// Through this host, by name or id [default: the host that answers]
    #[arg(long)]
    pub host: Option<String>,
    /// The disk's name in the domain
    #[arg(long, value_name = "DEVICE", default_value = "vda")]
    pub target: String,
}

/// What guests may do with a disk.
#[derive(Debug, clap::Args)]
pub struct Limits {
    /// Guest I/Os per second at most, of up to 32 KiB each; 0 is no limit [default: the policy's]
    #[arg(long, value_name = "IOPS")]
    pub iops_limit: Option<u32>,
    /// Bytes per second that guests read and write at most: 100M; 0 is no limit [default: the policy's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bandwidth_limit: Option<u64>,
}

impl From<Limits> for cairn_api::v1::DiskLimits {
    fn from(Limits { iops_limit, bandwidth_limit: bandwidth_limit_bytes_per_s }: Limits) -> Self {
        Self { iops_limit, bandwidth_limit_bytes_per_s }
    }
}

/// Resync.
#[derive(Debug, Subcommand)]
pub enum Resync {
    /// All that runs or waits
    List,
    /// Show progress until nothing is left
    Watch {
        /// Milliseconds between looks
        #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..))]
        interval_ms: u64,
    },
    /// Show how fast resync may go, or change it
    Settings {
        /// Bytes per second and host at most, such as 100M; 0 leaves it to the closed loop
        #[arg(long, value_name = "SIZE", value_parser = size)]
        bytes_per_s_max: Option<u64>,
    },
}

/// Scrub.
#[derive(Debug, Subcommand)]
pub enum Scrub {
    /// Of every disk group: pass, progress, rate, when it was last scrubbed, what was found and repaired
    Status,
    /// Begin a pass at once, as fast as guests allow; one that is under way goes on so
    Start(ScrubOf),
    /// Have it rest where it stands, also over restarts, until it is resumed or started
    Pause(ScrubOf),
    /// Go on from there
    Resume(ScrubOf),
}

/// Whose scrubs; those of the whole cluster where nothing is named.
#[derive(Debug, clap::Args)]
pub struct ScrubOf {
    /// Only of this disk group: its id, or the beginning of it
    #[arg(conflicts_with = "host")]
    pub disk_group: Option<String>,
    /// Only of this host's disk groups, by name or id
    #[arg(long)]
    pub host: Option<String>,
}

/// Counters.
#[derive(Debug, clap::Args)]
pub struct Counters {
    /// Show what was added since this snapshot, a file that `cairn counters --output json` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    pub since: Option<PathBuf>,
    /// Show what is added within so many seconds from now
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
}

/// The busiest disks.
#[derive(Debug, clap::Args)]
pub struct Top {
    /// Seconds of an interval
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Show one interval, and end
    #[arg(long)]
    pub once: bool,
    /// Disks that are shown, at most
    #[arg(long, value_name = "DISKS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub rows: u16,
}

/// Caches.
#[derive(Debug, Subcommand)]
pub enum Cache {
    /// Destage the write buffers and empty the read caches; exit code 1 where one is not clear in time
    Clear {
        /// Only those of this host, by name or id
        #[arg(long, conflicts_with = "disk_group")]
        host: Option<String>,
        /// Only those of this disk group: id, or the beginning of one
        #[arg(long, value_name = "ID")]
        disk_group: Option<String>,
        /// Seconds that it may take
        #[arg(long, value_name = "SECONDS", default_value_t = cairn_api::v1::CACHE_CLEAR_WAIT_DEFAULT_S, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        wait: u64,
    },
}

/// Looking into a device.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// The block device or file
    pub device: PathBuf,
    /// List the batches of the log (cache device) or the runs of the segments (capacity device)
    #[arg(long)]
    pub all: bool,
    /// Read every block and compare it with its checksum
    #[arg(long)]
    pub verify: bool,
}
