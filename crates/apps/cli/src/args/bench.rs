//! `cairn bench`: flags of the calculators.

use std::{ffi::OsString, path::PathBuf};

use cairn_sizing::{Drive, Exact, Protection, Rating, Units};
use clap::Subcommand;

use crate::units::size;

/// Benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Calculators for buying and filling a cluster; none is asked
    #[command(subcommand)]
    Calc(Box<Calc>),
    /// Puts a load on NBD exports, block devices or files, and measures it
    ///
    /// `cairn bench load --help` tells its flags.
    #[command(disable_help_flag = true)]
    Load(Words),
    /// Writes every byte of NBD exports, block devices or files before they are measured
    ///
    /// `cairn bench precondition --help` tells its flags.
    #[command(disable_help_flag = true)]
    Precondition(Words),
    /// Writes the reports of a study's folder anew
    ///
    /// `cairn bench report --help` tells more.
    #[command(disable_help_flag = true)]
    Report(Words),
    /// Compares folders of studies: whether the load was the same, and what differs
    ///
    /// `cairn bench compare --help` tells more.
    #[command(disable_help_flag = true)]
    Compare(Words),
    /// Reads a job file of Vdbench, fio, IOMeter or HCIBench, and tells the plan that it comes to; nothing is run
    ///
    /// `cairn bench import --help` tells its flags.
    #[command(disable_help_flag = true)]
    Import(Words),
    /// Runs a job file of Vdbench, fio, IOMeter or HCIBench, and measures it
    ///
    /// `cairn bench job --help` tells its flags.
    #[command(disable_help_flag = true)]
    Job(Words),
    /// Replays an I/O log of fio, each request when it was recorded, and measures it
    ///
    /// `cairn bench replay --help` tells its flags.
    #[command(disable_help_flag = true)]
    Replay(Words),
    /// Shows the studies that there are
    #[command(disable_help_flag = true)]
    List(Words),
    /// Tells what a study is after, what it does, and what cannot be compared
    #[command(disable_help_flag = true)]
    Describe(Words),
    /// Shows what a study would do: its tests, what it writes, how long it takes
    ///
    /// `cairn bench plan --help` tells its flags.
    #[command(disable_help_flag = true)]
    Plan(Words),
    /// Runs a study, on a cluster of its own or on given targets
    ///
    /// `cairn bench run --help` tells its flags.
    #[command(disable_help_flag = true)]
    Run(Words),
    /// Checks a run against its study's rules
    ///
    /// `cairn bench verify --help` tells more.
    #[command(disable_help_flag = true)]
    Verify(Words),
}

/// Words for `cairn-bench`, which is a program of its own.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// As `--help` of this verb has them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub words: Vec<OsString>,
}

/// The calculators.
#[derive(Debug, Subcommand)]
pub enum Calc {
    /// How long cache drives last, and which load they stand for their years
    ///
    /// Without --drive: the two drives of the Optane white paper of 2023, and beside them what it prints. `--units paper`
    /// gives its numbers. With --iops, a drive that does not last its years is exit code 1.
    Endurance(Endurance),
    /// What a cluster costs over its years, for each VM, IOPS, usable TB and watt
    ///
    /// Without a file: table 8 of the IOmark-VM-HC report VM-HC-170711-a, with its slip of 30.00.
    /// docs/bench/calculators.md has a price list to start from.
    Tco(Tco),
    /// Raw and usable bytes by protection, cache, and what if hosts are lost
    ///
    /// Sizes: 20TB is decimal, 20T and 20TiB are binary; both are printed. Without sizes: the 16.384 TB of the Micron
    /// reference architecture for vSAN 6.7.
    Capacity(Capacity),
    /// How many test machines and disks of which size load a cluster: HCIBench's Easy Run
    ///
    /// The defaults are the cluster of the IOmark-VM-HC report VM-HC-170711-a. Nothing is run.
    EasyRun(EasyRun),
    /// Two numbers as ratio and as change, and what goes with them at equal outstanding I/O
    ///
    /// Without numbers: comparisons that the Intel blueprint of 2014 and the Optane white paper of 2023 print.
    Compare(Compare),
}

/// Endurance of cache drives.
#[derive(Debug, clap::Args)]
pub struct Endurance {
    /// A drive: name, capacity, rating, as "fast,800GB,100DWPD" or "cheap,1.6TB,8600TBW"; may be repeated
    #[arg(long = "drive", value_name = "NAME,SIZE,RATING", value_parser = drive)]
    pub drives: Vec<Drive>,
    /// Years that the rating is for, and that the drive is to last
    #[arg(long, value_name = "YEARS", default_value = "5", value_parser = exact)]
    pub years: Exact,
    /// Size of a guest's I/O
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = size)]
    pub block: u64,
    /// Per cent of the guests' I/Os that are reads
    #[arg(long, value_name = "PER CENT", default_value = "70", value_parser = exact)]
    pub read_percent: Exact,
    /// Bytes written to cache drives for one byte of a guest: 2 for a mirror with FTT=1
    #[arg(long, value_name = "COPIES", default_value = "2", value_parser = exact)]
    pub copies: Exact,
    /// Bytes written to a cache drive for one byte of a copy: logs, metadata, what is written twice
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = exact)]
    pub write_amplification: Exact,
    /// Cache drives that share the load
    #[arg(long, value_name = "DRIVES", default_value_t = 1)]
    pub cache_drives: u64,
    /// Guest I/Os per second, reads counted in, that are needed: says how long each drive lasts
    #[arg(long, value_name = "IOPS", value_parser = exact)]
    pub iops: Option<Exact>,
    /// TB written so far, from the drive's counter: says how many days are left (one --drive)
    #[arg(long, value_name = "TB", requires = "over_days", value_parser = exact)]
    pub written_tb: Option<Exact>,
    /// Days in which that was written
    #[arg(long, value_name = "DAYS", requires = "written_tb", value_parser = exact)]
    pub over_days: Option<Exact>,
    /// What a MB, a GB and a TB are
    #[arg(long, value_enum, default_value = "si")]
    pub units: UnitsName,
}

/// Systems of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum UnitsName {
    /// Decimal: 1 GB = 1,000 MB
    Si,
    /// As the Optane white paper has them: 1 GB = 1,024 MB, 1 TB = 1,000 GB
    Paper,
}

impl From<UnitsName> for Units {
    fn from(name: UnitsName) -> Self {
        match name {
            UnitsName::Si => Self::Si,
            UnitsName::Paper => Self::Paper,
        }
    }
}

/// Total cost of ownership.
#[derive(Debug, clap::Args)]
pub struct Tco {
    /// The price list: TOML, or JSON where its name ends in .json
    pub file: Option<PathBuf>,
    /// Years of support and energy; other than the list's, its stated support lines are left out
    #[arg(long, value_name = "YEARS", value_parser = exact)]
    pub years: Option<Exact>,
    /// Virtual machines that it runs
    #[arg(long, value_name = "VMS", value_parser = exact)]
    pub vms: Option<Exact>,
    /// Desktops that it runs
    #[arg(long, value_name = "DESKTOPS", value_parser = exact)]
    pub desktops: Option<Exact>,
    /// I/Os per second that it does
    #[arg(long, value_name = "IOPS", value_parser = exact)]
    pub iops: Option<Exact>,
    /// TB (decimal) that guests can use
    #[arg(long, value_name = "TB", value_parser = exact)]
    pub usable_tb: Option<Exact>,
    /// Watts that it draws
    #[arg(long, value_name = "WATTS", value_parser = exact)]
    pub watts: Option<Exact>,
    /// Price of a kWh; adds the energy of all years to the total
    #[arg(long, value_name = "PRICE", value_parser = exact)]
    pub kwh_price: Option<Exact>,
}

/// Capacity.
#[derive(Debug, clap::Args)]
pub struct Capacity {
    /// Raw bytes of all capacity devices: says what guests can use
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["usable", "raw_per_host"])]
    pub raw: Option<u64>,
    /// Raw bytes of each host
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "hosts", conflicts_with = "usable")]
    pub raw_per_host: Option<u64>,
    /// What guests are to use: says what raw bytes that takes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub usable: Option<u64>,
    /// Hosts, all alike
    #[arg(long, value_name = "HOSTS", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub hosts: Option<u64>,
    /// One protection only
    #[arg(long, value_enum)]
    pub protection: Option<ProtectionName>,
    /// Per cent of raw bytes that stay free
    #[arg(long, value_name = "PER CENT", default_value = "0", value_parser = exact)]
    pub slack: Exact,
    /// Bytes of guests in one stored byte, by deduplication and compression, before copies
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = exact)]
    pub reduction: Exact,
    /// Files and folders whose blocks are looked at: what packing brings them to is the reduction. Each file begins at a block
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "reduction")]
    pub content: Vec<PathBuf>,
    /// What guests have written, before copies: says how much cache that needs and, with --hosts, what a lost host means
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub used: Option<u64>,
    /// Per cent of that to be cache
    #[arg(long, value_name = "PER CENT", default_value = "10", value_parser = exact)]
    pub cache_percent: Exact,
    /// Hosts that are lost for good
    #[arg(long, value_name = "HOSTS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub hosts_lost: u64,
}

/// Protections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProtectionName {
    /// One copy: FTT=0
    #[value(name = "mirror-0")]
    Mirror0,
    /// Two copies: FTT=1
    #[value(name = "mirror-1")]
    Mirror1,
    /// Three copies: FTT=2
    #[value(name = "mirror-2")]
    Mirror2,
    /// Four copies: FTT=3
    #[value(name = "mirror-3")]
    Mirror3,
    /// Three and a parity: FTT=1
    #[value(name = "raid-5")]
    Raid5,
    /// Four and two parities: FTT=2
    #[value(name = "raid-6")]
    Raid6,
}

impl From<ProtectionName> for Protection {
    fn from(name: ProtectionName) -> Self {
        match name {
            ProtectionName::Mirror0 => Self::Mirror { ftt: 0 },
            ProtectionName::Mirror1 => Self::Mirror { ftt: 1 },
            ProtectionName::Mirror2 => Self::Mirror { ftt: 2 },
            ProtectionName::Mirror3 => Self::Mirror { ftt: 3 },
            ProtectionName::Raid5 => Self::RAID5,
            ProtectionName::Raid6 => Self::RAID6,
        }
    }
}

/// Easy Run.
#[derive(Debug, clap::Args)]
pub struct EasyRun {
    /// Hosts
    #[arg(long, value_name = "HOSTS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub hosts: u64,
    /// Disk groups of each
    #[arg(long, value_name = "GROUPS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub groups_per_host: u64,
    /// Size of each cache device
    #[arg(long, value_name = "SIZE", default_value = "375GB", value_parser = size)]
    pub cache: u64,
    /// Raw bytes of the capacity devices of each group
    #[arg(long, value_name = "SIZE", default_value = "4TB", value_parser = size)]
    pub capacity_per_group: u64,
    /// Raw bytes of all capacity devices that are free [default: all]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub free: Option<u64>,
    /// What the capacity devices are
    #[arg(long, value_enum, default_value = "all-flash")]
    pub media: MediaName,
    /// How the test disks are protected
    #[arg(long, value_enum, default_value = "mirror-1")]
    pub protection: ProtectionName,
    /// The run is to keep a latency: four disks a machine instead of eight
    #[arg(long)]
    pub latency_target: bool,
    /// Blocks have no checksums: sequential profiles get all threads
    #[arg(long)]
    pub no_checksum: bool,
}

/// Kinds of capacity devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MediaName {
    /// The cache is a write buffer
    AllFlash,
    /// The cache holds reads and writes
    Hybrid,
}

/// Two numbers.
#[derive(Debug, clap::Args)]
pub struct Compare {
    /// I/Os per second, or whatever is better when it is more
    #[arg(requires = "after", value_parser = exact)]
    pub before: Option<Exact>,
    /// The same later, or of the other
    #[arg(value_parser = exact)]
    pub after: Option<Exact>,
    /// Ratio of I/Os per watt, after to before: says how much more power is drawn
    #[arg(long, value_name = "RATIO", requires = "after", value_parser = exact)]
    pub per_watt: Option<Exact>,
}

/// A number on the command line.
fn exact(text: &str) -> Result<Exact, String> {
    Exact::parse(text).map_err(|error| format!("{error}: {}", error.remedy))
}

/// "NAME,SIZE,RATING".
fn drive(text: &str) -> Result<Drive, String> {
    let form = "write name, capacity and rating, as fast,800GB,100DWPD or cheap,1.6TB,8600TBW";
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [name, capacity, rating] = parts[..] else {
        return Err(format!("{} parts instead of three: {form}", parts.len()));
    };
    if name.is_empty() {
        return Err(format!("the drive has no name: {form}"));
    }
    // GB by the book in both systems of units: what a paper calls 1.6 TB is 1,600 of its GB.
    let bytes = size(capacity)?;
    if bytes < 1_000_000_000 {
        return Err(format!("{capacity:?} is less than 1 GB: {form}"));
    }
    let capacity_gb = Exact::whole(bytes).over(Exact::whole(1_000_000_000)).map_err(|e| e.to_string())?;
    let lower = rating.to_ascii_lowercase();
    let number = |digits: &str| exact(digits.trim());
    let rating = match (lower.strip_suffix("dwpd"), lower.strip_suffix("tbw")) {
        (Some(digits), _) => Rating::Dwpd(number(digits)?),
        (_, Some(digits)) => Rating::Tbw(number(digits)?),
        _ => return Err(format!("{rating:?} is no rating, such as 3DWPD or 8600TBW: {form}")),
    };
    Ok(Drive { name: name.to_owned(), capacity_gb, rating })
}
