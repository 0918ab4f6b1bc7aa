//! Arguments of `cairn policy`.

use clap::Subcommand;

use crate::units::size;

/// Storage policies.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// All policies
    List,
    /// One policy
    Show {
        /// Name
        policy: String,
    },
    /// What this cluster can hold, with its price: mirrors, RAID-5, RAID-6
    Suggest,
    /// Make a policy
    Create(PolicyCreate),
    /// Change what a policy asks for, and with it all disks that have it, in use
    Edit(PolicyEdit),
    /// Delete a policy; disks keep the rules that they were made with
    Delete {
        /// Name
        policy: String,
    },
}

/// How a disk survives failures.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Method {
    /// Full copies across fault domains
    Mirror,
    /// RAID-5 (with --ftt 1) or RAID-6 (--ftt 2) across fault domains: less space than copies, slower writes
    ErasureCoding,
}

/// A policy to be made.
#[derive(Debug, clap::Args)]
pub struct PolicyCreate {
    /// Its name
    pub name: String,
    /// Failures to tolerate, 0 to 3
    #[arg(long, default_value_t = 1)]
    pub ftt: u8,
    /// How a disk survives failures
    #[arg(long, value_enum, default_value = "mirror")]
    pub ftm: Method,
    /// With erasure coding: strips of data in a row, 2 to 8; 0: as many as the fault domains allow
    #[arg(long, value_name = "STRIPS", default_value_t = 0)]
    pub data_strips: u8,
    /// Capacity devices that each copy is spread over, 1 to 12
    #[arg(long, default_value_t = 1)]
    pub stripe_width: u8,
    /// Per cent of the disk's size set aside at creation
    #[arg(long, value_name = "PER CENT", default_value_t = 0)]
    pub reservation: u8,
    /// No checksums
    #[arg(long)]
    pub no_checksum: bool,
    /// Make disks even where the cluster cannot hold all copies now
    #[arg(long)]
    pub force_provisioning: bool,
    /// Guest I/Os per second at most, of up to 32 KiB each; 0 is no limit
    #[arg(long, value_name = "IOPS", default_value_t = 0)]
    pub iops_limit: u32,
    /// Bytes per second that guests read and write at most: 100M; 0 is no limit
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub bandwidth_limit: u64,
    /// Ask a majority before each answer: for hosts whose clock may stop
    #[arg(long)]
    pub confirmed_reads: bool,
}

/// What is to be changed of a policy; what is left out stays.
#[derive(Debug, clap::Args)]
pub struct PolicyEdit {
    /// Its name
    pub policy: String,
    /// Failures to tolerate, 0 to 3
    #[arg(long)]
    pub ftt: Option<u8>,
    /// How a disk survives failures
    #[arg(long, value_enum)]
    pub ftm: Option<Method>,
    /// With erasure coding: strips of data in a row, 2 to 8; 0: as many as the fault domains allow
    #[arg(long, value_name = "STRIPS")]
    pub data_strips: Option<u8>,
    /// Capacity devices that each copy is spread over, 1 to 12
    #[arg(long)]
    pub stripe_width: Option<u8>,
    /// Per cent of the disk's size set aside
    #[arg(long, value_name = "PER CENT")]
    pub reservation: Option<u8>,
    /// Make disks even where the cluster cannot hold all copies then
    #[arg(long, value_name = "BOOL")]
    pub force_provisioning: Option<bool>,
    /// Guest I/Os per second at most, of up to 32 KiB each; 0 is no limit
    #[arg(long, value_name = "IOPS")]
    pub iops_limit: Option<u32>,
    /// Bytes per second that guests read and write at most: 100M; 0 is no limit
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bandwidth_limit: Option<u64>,
    /// Ask a majority before each answer: for hosts whose clock may stop
    #[arg(long, value_name = "BOOL")]
    pub confirmed_reads: Option<bool>,
    /// Only tell what would come of it
    #[arg(long)]
    pub dry_run: bool,
    /// Change it although not all of it can be done now: the rest follows when there is room
    #[arg(long)]
    pub force: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}
