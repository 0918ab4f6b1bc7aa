//! The command line.

use std::{path::PathBuf, time::Duration};

use cairn_store::{Fill, FillOrder, LogFill};
use cairn_types::{BLOCK_BYTES, ComponentId};
use cairn_workload::{Addresses, Content, Pace, Spec};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{seconds::seconds, study_args::StudyCommand};
use cairn_bench::{
    address::Address,
    group::GroupFiles,
    job::{Job, StreamJob},
};

/// Measures storage: loads on NBD exports, vhost-user devices, block devices and files.
#[derive(Debug, Parser)]
#[command(name = "cairn bench", bin_name = "cairn bench", version = cairn_release::release!(), max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Puts one load on one or more targets, and tells what it took.
    Load(Box<Load>),
    /// Writes every byte of targets before they are measured, and tells how long that took.
    Precondition(Precondition),
    /// FOR BENCHMARKS ONLY. Fills the block map of a disk group that no process uses, without writing data: reads of these blocks FAIL.
    ///
    /// A benchmark then begins with a full map of terabytes. Each block is mapped to a place on its capacity device where it was never
    /// written: it can be written over, trimmed and deleted like any other, and until it is written NO READ OF IT SUCCEEDS. Never
    /// do this to a disk that anybody needs. Refused where any of the blocks has data already. The group is kept as release 0.3.0 knows it
    /// from then on: 0.2.0 does not open it any more.
    FillMap(FillMap),
    /// FOR BENCHMARKS ONLY. Fills the write buffer of a disk group in files that no process uses with small writes, without their data.
    ///
    /// How long the group takes to open, and how much memory, can be seen with the next start of a daemon. What is written reads as zeroes,
    /// so WHAT THE COMPONENT HELD IS LOST. The cache device has to be a file with holes where its log is: one that is as it was made.
    FillLog(FillLog),
    /// Reads a job file of another tool, and tells the plan that it comes to. Nothing is run.
    Import(Import),
    /// Runs a job file of another tool: Vdbench's, fio's, IOMeter's, HCIBench's.
    Job(Box<JobFile>),
    /// Replays an I/O log of fio, each request when it was recorded, and tells what it took.
    Replay(Box<Replay>),
    /// Writes report.md, report.html and results.csv of a study's folder anew, from its manifest.json and results.json.
    Report {
        /// The folder.
        folder: PathBuf,
    },
    /// Compares folders of studies with the first of them: whether the load was the same, and what differs.
    Compare {
        /// The folders.
        #[arg(required = true, num_args = 2..)]
        folders: Vec<PathBuf>,
    },
    #[command(flatten)]
    Study(StudyCommand),
    /// Writes the man pages of all verbs into a folder.
    #[command(hide = true)]
    Manual {
        /// The folder.
        folder: PathBuf,
    },
    /// Prints a completion script for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Whose language a job file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A parameter file with sd=, wd= and rd=.
    Vdbench,
    /// A job file with [global] and jobs.
    Fio,
    /// A configuration file of IOMeter.
    Icf,
    /// Flags of its generator as one word ("-n 8 -t 4 ..."), a file with them, or a name such as
    /// fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads.
    Hcibench,
}

#[derive(Debug, Args)]
pub struct File {
    /// The job file.
    #[arg(allow_hyphen_values = true)]
    pub file: String,
    /// Whose language it is in; looked for in the file where not told.
    #[arg(long)]
    pub kind: Option<Kind>,
    /// What $NAME (Vdbench) or ${NAME} (fio) stands for; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    pub file: File,
    /// The form of the plan.
    #[arg(long, default_value = "table")]
    pub style: PlanStyle,
}

/// The form of a plan on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanStyle {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub struct JobFile {
    #[command(flatten)]
    pub file: File,
    /// Where the file's targets are, in its order, in place of what it says: all of those that --map leaves, or none.
    pub targets: Vec<Address>,
    /// Where one of its targets is; may be repeated.
    #[arg(long = "map", value_name = "NAME=ADDRESS")]
    pub maps: Vec<String>,
    /// Divides ramps, measured times and pauses by this: a trial of the file, and no result.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub time_scale: Option<f64>,
    /// Of all that is drawn: one seed is one load.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The targets' data may be lost. Needed where any run writes.
    #[arg(long)]
    pub destructive: bool,
    /// The form of the results.
    #[arg(long, default_value = "table")]
    pub style: Style,
}

/// The form of the result on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// For people.
    Table,
    /// For programs: all that was measured, with histograms.
    Json,
    /// As fio's json+ tells jobs.
    Fio,
    /// As the summary of Vdbench has its intervals.
    Vdbench,
    /// With the keys of HCIBench's res.txt.
    Hcibench,
    /// As IOMeter's CSV, with its 21 latency bins.
    Iometer,
    /// The 21 bins alone, a line for each.
    IometerBins,
}

#[derive(Debug, Args)]
pub struct Load {
    /// nbd+unix:///EXPORT?socket=PATH, nbd://HOST:PORT/EXPORT, vhost-user:///PATH, a block device or a file; several, each with this load.
    #[arg(required = true)]
    pub targets: Vec<Address>,
    /// Bytes of each request.
    #[arg(long, short = 'b', default_value = "4k", value_parser = request_bytes)]
    pub block: u32,
    /// Reads, in per cent; the rest are writes.
    #[arg(long, short = 'r', default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub read: u8,
    /// Requests that go anywhere, in per cent; the rest follow on the last one.
    #[arg(long, short = 's', default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub random: u8,
    /// Random requests by a Zipf distribution of this exponent (1.1 as fio's zipf:1.1).
    #[arg(long, conflicts_with = "hot")]
    pub zipf: Option<f64>,
    /// Random requests to a hot area: REQUESTS/AREA in per cent, such as 95/5.
    #[arg(long, value_parser = hot_area)]
    pub hot: Option<(u8, u8)>,
    /// Requests kept outstanding at each target; with --rate, the most that may be.
    #[arg(long, short = 'q', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub outstanding: u32,
    /// Requests that begin each second, over all targets, whatever has ended; latency counts from when each was due.
    #[arg(long)]
    pub rate: Option<f64>,
    /// At random times instead of evenly.
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Seconds before anything counts.
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub ramp: Duration,
    /// Seconds that are measured.
    #[arg(long, short = 't', default_value = "10", value_parser = seconds)]
    pub time: Duration,
    /// Ends once so many bytes have been asked for, over all targets, where that is before the time.
    #[arg(long, value_parser = size)]
    pub bytes: Option<u64>,
    /// Where the bytes that are asked for begin.
    #[arg(long, default_value = "0", value_parser = size)]
    pub offset: u64,
    /// How many there are; the whole target where not told.
    #[arg(long, value_parser = size)]
    pub span: Option<u64>,
    #[command(flatten)]
    pub content: Written,
    /// Remembers what it writes, and reads it back after the run: a place that holds anything else is told, with exit code 1.
    #[arg(long)]
    pub verify: bool,
    /// The targets' data may be lost. Needed for every load that writes.
    #[arg(long)]
    pub destructive: bool,
    /// The form of the result.
    #[arg(long, default_value = "table")]
    pub style: Style,
}

/// What is written.
#[derive(Debug, Args)]
pub struct Written {
    /// Deduplication ratio of what is written: 2 is 2:1.
    #[arg(long, default_value_t = 1.0)]
    pub dedupe: f64,
    /// How many different 4 KiB units the duplicates are drawn from.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub dedupe_sets: u64,
    /// Compression ratio of what is written: 2 is 2:1.
    #[arg(long, default_value_t = 1.0)]
    pub compress: f64,
    /// Of all that is drawn: one seed is one load.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Written {
    /// # Errors
    /// A ratio that is none.
    pub fn content(&self) -> Result<Content, String> {
        let ratio = |what: &str, ratio: f64| match ratio >= 1.0 && ratio.is_finite() {
            true => Ok(1.0 / ratio),
            false => Err(format!("a {what} ratio of {ratio}:1: take 1 (nothing is alike) or more")),
        };
        Ok(Content {
            duplicate_share: 1.0 - ratio("deduplication", self.dedupe)?,
            duplicates: self.dedupe_sets,
            random_share: ratio("compression", self.compress)?,
            ..Content::random(self.seed, 0)
        })
    }
}

#[derive(Debug, Args)]
pub struct Replay {
    /// An I/O log of fio, version 2 or 3 (`fio --write_iolog`).
    pub log: PathBuf,
    /// Where the log's files are, in the order in which it first names them: all of those that --map leaves.
    pub targets: Vec<Address>,
    /// Where one of its files is; may be repeated.
    #[arg(long = "map", value_name = "NAME=ADDRESS")]
    pub maps: Vec<String>,
    /// Divides the log's times by this: 2 is twice as fast as recorded, 0.5 half as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = faster)]
    pub time_scale: f64,
    /// As fast as requests end, whatever the log's times are; latency counts from when each began.
    #[arg(long, conflicts_with = "time_scale")]
    pub no_stall: bool,
    /// Requests that may be under way at once, over all targets; a request that waits for room is late.
    #[arg(long, short = 'q', default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub outstanding: u32,
    #[command(flatten)]
    pub content: Written,
    /// The targets' data may be lost. Needed for every log that writes or trims.
    #[arg(long)]
    pub destructive: bool,
    /// The form of the result.
    #[arg(long, default_value = "table")]
    pub style: Style,
}

#[derive(Debug, Args)]
pub struct Precondition {
    /// nbd+unix:///EXPORT?socket=PATH, nbd://HOST:PORT/EXPORT, vhost-user:///PATH, a block device or a file; several are written at the same time.
    #[arg(required = true)]
    pub targets: Vec<Address>,
    /// How often every byte is written.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub passes: u32,
    /// Bytes of each request; the last one of a target may be smaller.
    #[arg(long, short = 'b', default_value = "128k", value_parser = request_bytes)]
    pub block: u32,
    #[command(flatten)]
    pub content: Written,
    /// The targets' data may be lost. Always needed.
    #[arg(long)]
    pub destructive: bool,
}

#[derive(Debug, Args)]
pub struct FillMap {
    /// The cache device of the disk group: a block device or a file. No process may use it.
    pub cache: PathBuf,
    /// Its capacity devices, in the order of the configuration, all of them.
    #[arg(required = true)]
    pub capacity: Vec<PathBuf>,
    /// One component, by its id; all of the group where not told.
    #[arg(long, value_name = "ID")]
    pub component: Option<ComponentId>,
    /// Blocks of 4 KiB of each component, from its first one on; all where not told.
    #[arg(long, value_name = "COUNT", conflicts_with = "bytes", value_parser = clap::value_parser!(u64).range(1..))]
    pub blocks: Option<u64>,
    /// The same in bytes, such as 100GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bytes: Option<u64>,
    /// Where blocks stand that follow on: anywhere (the largest pages of the map), or one behind the other.
    #[arg(long, default_value = "random")]
    pub order: MapOrder,
    /// One seed is one map.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Leaves out the heads of what would have been written, which take a 128th of it: such segments can NOT be cleaned, so that a device
    /// which fills up stays full.
    #[arg(long)]
    pub no_heads: bool,
    /// Opens the group, tells blocks, pages and bytes of metadata, and maps nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Reads of all these blocks may fail from now on. Needed for all but --dry-run.
    #[arg(long)]
    pub destructive: bool,
    /// The form of the result.
    #[arg(long, default_value = "table")]
    pub style: PlanStyle,
}

/// Where blocks stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MapOrder {
    /// Anywhere, as after writes at random.
    Random,
    /// In order, as after one long write.
    Sequential,
}

impl FillMap {
    /// What is asked for.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn work(&self) -> Result<cairn_bench::fill_map::FillMap, String> {
        let block = u64::from(BLOCK_BYTES);
        if let Some(bytes) = self.bytes.filter(|bytes| *bytes == 0 || !bytes.is_multiple_of(block)) {
            return Err(format!("{bytes} bytes of each component: take a multiple of {block}"));
        }
        let order = match self.order {
            MapOrder::Random => FillOrder::Random,
            MapOrder::Sequential => FillOrder::Sequential,
        };
        let blocks_max = self.blocks.or(self.bytes.map(|bytes| bytes / block));
        let (component, seed, no_heads) = (self.component, self.seed, self.no_heads);
        Ok(cairn_bench::fill_map::FillMap {
            group: GroupFiles { cache: self.cache.clone(), capacity: self.capacity.clone() },
            fill: Fill { component, blocks_max, order, seed, no_heads },
            dry_run: self.dry_run,
            destructive: self.destructive,
        })
    }
}

#[derive(Debug, Args)]
pub struct FillLog {
    /// The cache device of the disk group: a file. No process may use it.
    pub cache: PathBuf,
    /// Its capacity devices, in the order of the configuration, all of them.
    #[arg(required = true)]
    pub capacity: Vec<PathBuf>,
    /// The component that is written, by its id; the largest of the group where not told.
    #[arg(long, value_name = "ID")]
    pub component: Option<ComponentId>,
    /// Writes that come to the log together: as many as guests have outstanding.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub writes_per_batch: u32,
    /// Blocks of 4 KiB of each write.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub blocks_per_write: u32,
    /// One seed is one row of places.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seed: u64,
    /// What the component holds is lost. Needed.
    #[arg(long)]
    pub destructive: bool,
    /// The form of the result.
    #[arg(long, default_value = "table")]
    pub style: PlanStyle,
}

impl FillLog {
    /// What is asked for.
    pub fn work(&self) -> cairn_bench::fill_log::FillLog {
        let (writes_per_batch, blocks_per_write) = (self.writes_per_batch, self.blocks_per_write);
        cairn_bench::fill_log::FillLog {
            group: GroupFiles { cache: self.cache.clone(), capacity: self.capacity.clone() },
            component: self.component,
            fill: LogFill { writes_per_batch, blocks_per_write, seed: self.seed },
            destructive: self.destructive,
        }
    }
}

impl Precondition {
    /// What is asked for.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn work(&self) -> Result<cairn_bench::precondition::Precondition, String> {
        if self.block == 0 || !self.block.is_multiple_of(512) || self.block > 32 << 20 {
            return Err(format!("a request of {} bytes: take a multiple of 512 up to 32 MiB", self.block));
        }
        Ok(cairn_bench::precondition::Precondition {
            targets: self.targets.clone(),
            bytes_each: None,
            passes: self.passes,
            block_bytes: self.block,
            content: self.content.content()?,
            destructive: self.destructive,
        })
    }
}

impl Load {
    /// The job that is asked for.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn job(&self) -> Result<Job, String> {
        if self.verify && self.read == 100 {
            return Err("nothing is written, so there is nothing to read back: leave --verify out".into());
        }
        let addresses = match (self.zipf, self.hot) {
            (Some(theta), _) => Addresses::Zipf { theta },
            (None, Some((requests_percent, area_percent))) => Addresses::HotArea { requests_percent, area_percent },
            (None, None) => Addresses::Uniform,
        };
        let each = |per_s: f64| per_s / self.targets.len().max(1) as f64;
        let pace = match (self.rate, self.poisson) {
            (None, _) => Pace::Closed,
            (Some(per_s), _) if !(per_s > 0.0 && per_s.is_finite()) => {
                return Err(format!("a rate of {per_s} a second: take one above 0"));
            }
            (Some(per_s), true) => Pace::Poisson { per_s: each(per_s) },
            (Some(per_s), false) => Pace::Rate { per_s: each(per_s) },
        };
        let spec = Spec {
            kinds: vec![cairn_workload::Kind::new(self.block, self.read, self.random)],
            addresses,
            span_begin: self.offset,
            span_bytes: self.span.unwrap_or(0),
            seed: self.content.seed,
        };
        let content = self.content.content()?;
        let outstanding = self.outstanding;
        let stream =
            |target: &Address| StreamJob { outstanding, pace, ..StreamJob::new(target.clone(), spec.clone(), content) };
        let streams = self.targets.iter().map(stream).collect();
        let (ramp, measure, verify, destructive) = (self.ramp, self.time, self.verify, self.destructive);
        Ok(Job { streams, ramp, measure, bytes_max: self.bytes, verify, destructive })
    }
}

fn size(text: &str) -> Result<u64, String> {
    cairn_types::parse_bytes(text)
}

fn request_bytes(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    u32::try_from(bytes).map_err(|_| format!("a request of {bytes} bytes: take a multiple of 512 up to 32 MiB"))
}

fn hot_area(text: &str) -> Result<(u8, u8), String> {
    let wrong = || format!("{text:?}: write REQUESTS/AREA in per cent, each from 1 to 99, such as 95/5");
    let (requests, area) = text.split_once('/').ok_or_else(wrong)?;
    let percent = |text: &str| text.trim().parse().ok().filter(|p| (1..=99).contains(p)).ok_or_else(wrong);
    Ok((percent(requests)?, percent(area)?))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?}: write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=1e6).contains(factor));
    factor.ok_or_else(|| format!("{text:?}: take a number from 1 on"))
}

fn faster(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.01..=1e6).contains(factor));
    factor.ok_or_else(|| format!("{text:?}: take a number from 0.01 on"))
}
