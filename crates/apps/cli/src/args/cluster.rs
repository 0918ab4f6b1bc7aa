//! `cairn cluster`, and the hosts that are new to one.

use std::{net::SocketAddr, path::PathBuf};

use cairn_types::SlowDevices;
use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};

use crate::units::{address, place, seconds};

/// The cluster as a whole.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// What it is, how it is, how full it is
    Status,
    /// Where the bytes of all devices are: what disks, clones and snapshots have, what that takes, what is beside it
    Capacity,
    /// Show the settings that hold for all hosts, or change those named
    Settings {
        /// Seconds that a component may be absent before it is replaced
        #[arg(long, value_name = "SECONDS")]
        repair_delay_s: Option<u64>,
        /// Days in which each disk group is scrubbed once; 0: only when asked
        #[arg(long, value_name = "DAYS")]
        scrub_period_days: Option<u64>,
        /// Hosts' worth of capacity that new and growing disks leave free for rebuilding
        #[arg(long, value_name = "HOSTS")]
        rebuild_reserve_hosts: Option<u8>,
        /// Percentage points by which a disk group may be fuller than the emptiest before components go from it; 0: never
        #[arg(long, value_name = "POINTS")]
        rebalance_points: Option<u8>,
        /// What becomes of devices that are slow beside their peers: tell of them and empty their disk groups, only tell, or neither
        #[arg(long, value_name = "WHAT", value_parser = slow_devices())]
        slow_devices: Option<SlowDevices>,
    },
    /// For a while, do not replace what is lost: for work on the network, or on several hosts
    PauseRepair {
        /// How long, at most a day: 90, 30m, 2h
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        for_s: u64,
    },
    /// End a pause of repair
    ResumeRepair,
    /// From one release to the next, one host at a time
    #[command(subcommand)]
    Upgrade(Upgrade),
    /// The hosts that run the members of the directory, whose majority decides every change; all of them where no verb is given
    Members {
        /// A change
        #[command(subcommand)]
        verb: Option<Members>,
    },
    /// Write the configurations of the first hosts of a new cluster; nothing is started
    Init(Init),
}

/// Members of the directory.
#[derive(Debug, Subcommand)]
pub enum Members {
    /// Have another host run a member: 1, 3 or 5 are right
    Add {
        /// The host, by name or id
        host: String,
        #[command(flatten)]
        urls: MemberUrls,
        #[command(flatten)]
        how: MembersHow,
    },
    /// Have a host run its member no more; refused where too few of the others answer
    Remove {
        /// The host, by name or id
        host: String,
        #[command(flatten)]
        how: MembersHow,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Have a host run a member in the place of one that is dead or is to go
    Replace {
        /// The host that goes, by name or id; it may be forgotten already
        old: String,
        /// The host that comes, by name or id
        new: String,
        #[command(flatten)]
        urls: MemberUrls,
        #[command(flatten)]
        how: MembersHow,
    },
}

/// Where a new member is reached.
#[derive(Debug, Clone, clap::Args)]
pub struct MemberUrls {
    /// Where the other members reach it [default: the host's address, at the other members' port]
    #[arg(long, value_name = "URL")]
    pub peer_url: Option<String>,
    /// Where hosts reach it [default: the host's address, at the other members' port]
    #[arg(long, value_name = "URL")]
    pub client_url: Option<String>,
}

/// How the members are changed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct MembersHow {
    /// Only tell what would come of it
    #[arg(long)]
    pub dry_run: bool,
    /// Return when the members are as wanted
    #[arg(long)]
    pub wait: bool,
}

/// The first hosts of a new cluster.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// The cluster's name
    #[arg(long)]
    pub name: String,
    /// A host and the address at which the others reach it, once for each: host-1=10.0.0.1, or 10.0.0.1:9600
    #[arg(long = "host", value_name = "NAME=ADDRESS", required = true, value_parser = place)]
    pub hosts: Vec<(String, SocketAddr)>,
    #[command(flatten)]
    pub devices: Devices,
    /// The folder for HOST/cairnd.toml of each
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

/// The devices of a host's disk group.
#[derive(Debug, Clone, clap::Args)]
pub struct Devices {
    /// The cache device of the first disk group, the same path on each host [default: no disk group yet]
    #[arg(long, value_name = "PATH", requires = "capacity")]
    pub cache: Option<PathBuf>,
    /// Its capacity devices: 1 to 7
    #[arg(long, value_name = "PATH", num_args = 1..=7, requires = "cache")]
    pub capacity: Vec<PathBuf>,
}

/// The configuration of a host that joins.
#[derive(Debug, clap::Args)]
pub struct Join {
    /// The new host's name
    #[arg(long)]
    pub name: String,
    /// The address at which the others reach it: 10.0.0.4, or 10.0.0.4:9600
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub address: SocketAddr,
    #[command(flatten)]
    pub devices: Devices,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "/etc/cairn/cairnd.toml")]
    pub config: PathBuf,
    /// Write it in the place of one that is there; that is kept beside it, with .old
    #[arg(long)]
    pub overwrite: bool,
    /// Print it, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// An upgrade of the cluster.
#[derive(Debug, Subcommand)]
pub enum Upgrade {
    /// What every host runs, what the cluster uses, what finishing would switch on, and what stands in the way
    Status,
    /// Switch on what all hosts have; from then on older releases are refused, and nothing goes back
    Finish {
        /// Only say what would be switched on, or what stands in the way
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

fn slow_devices() -> impl TypedValueParser<Value = SlowDevices> {
    let named = |name: String| SlowDevices::ALL.into_iter().find(|what| what.name() == name);
    PossibleValuesParser::new(SlowDevices::ALL.map(SlowDevices::name))
        .map(move |name| named(name).expect("one of the possible values"))
}
