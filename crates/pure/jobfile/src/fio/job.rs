//! One job of fio: its options as streams.

use std::time::Duration;

use cairn_workload::{Addresses, Content, KINDS_MAX, Kind, Spec};

use super::{ini::Section, options::Options};
use crate::{
    error::FileError,
    number,
    plan::{Arrivals, NamedTarget, Note, Stream, StreamPace},
};

/// A job.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) target: NamedTarget,
    pub(super) stonewall: bool,
    pub(super) ramp: Duration,
    /// None where it ends with its bytes.
    pub(super) runtime: Option<Duration>,
    /// None without a rate.
    pub(super) arrivals: Option<Arrivals>,
    /// numjobs.
    pub(super) copies: u64,
    offset_increment: u64,
    stream: Stream,
}

/// Where something begins or how long it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extent {
    Bytes(u64),
    Percent(f64),
}

const BLOCKING: [&str; 5] = ["psync", "sync", "vsync", "pvsync", "pvsync2"];
const QUEUEING: [&str; 5] = ["nbd", "libaio", "linuxaio", "io_uring", "posixaio"];
/// How many units duplicates are drawn from where the file does not say.
const DUPLICATES: u64 = 1000;
const NUMJOBS_MAX: u64 = 1024;

impl Job {
    pub(super) fn new(section: &Section, notes: &mut Vec<Note>) -> Result<Self, FileError> {
        let options = Options::new(section, notes)?;
        refuse(&options)?;
        let (outstanding, target) = engine(section, &options, notes)?;
        let (spec, part) = spec(section, &options)?;
        let (rate, arrivals) = rate(&options, &spec)?;
        let (content, duplicates_share) = content(&options)?;
        let runtime = options.read("runtime", 0.0, number::seconds)?;
        // A job's own name: what [global] has is its too, and does not name it, as in fio.
        let own_name = options.get("name").filter(|item| item.file.is_some() || item.line > section.line);
        let name = own_name.map_or(&section.name, |item| &item.value).clone();
        let mut stream = Stream {
            name: name.clone(),
            target: 0,
            spec,
            part,
            content,
            duplicates_share,
            outstanding,
            pace: rate.map_or(StreamPace::Closed, StreamPace::Rate),
            bytes_max: None,
            spans_max: None,
        };
        if options.is_on("time_based")? {
            if runtime == 0.0 {
                return Err(FileError::new(section.line, "time_based", "has no runtime="));
            }
        } else {
            ends(&options, &mut stream)?;
        }
        Ok(Self {
            name,
            line: section.line,
            target,
            stonewall: options.is_on("stonewall")? || options.is_on("wait_for_previous")?,
            ramp: Duration::from_secs_f64(options.read("ramp_time", 0.0, number::seconds)?),
            runtime: (runtime > 0.0).then(|| Duration::from_secs_f64(runtime)),
            arrivals,
            copies: options.read("numjobs", 1, |text| number::at_most(text, NUMJOBS_MAX))?.max(1),
            offset_increment: options.read("offset_increment", 0, number::bytes)?,
            stream,
        })
    }

    /// Its copies, as streams on target number `target`.
    pub(super) fn streams(&self, target: usize) -> Result<Vec<Stream>, FileError> {
        let copy = |n: u64| {
            let mut stream = Stream { target, ..self.stream.clone() };
            if self.copies > 1 {
                stream.name = format!("{}.{n}", self.name);
            }
            if self.offset_increment > 0 {
                if stream.part.is_some() {
                    let why = "goes with offset= and size= in bytes";
                    return Err(FileError::new(self.line, "offset_increment", why));
                }
                stream.spec.span_begin += n * self.offset_increment;
            }
            Ok(stream)
        };
        (0..self.copies).map(copy).collect()
    }
}

/// Options that are done in one way only.
fn refuse(options: &Options<'_>) -> Result<(), FileError> {
    let refused =
        |key: &str, why: &str| Err(options.get(key).expect("it was read").error(format!("is not done here: {why}")));
    if options.get("direct").is_some() && !options.is_on("direct")? {
        return refused("direct", "there is no page cache between: say direct=1");
    }
    if options.is_on("buffered")? {
        return refused("buffered", "there is no page cache between: say buffered=0, or direct=1");
    }
    for key in ["fsync", "fdatasync"] {
        if options.get(key).is_some_and(|item| item.value != "0") {
            return refused(key, "writes to paths are durable each (as sync=dsync), and flushes are not sent");
        }
    }
    if options.get("sync").is_some_and(|item| !["0", "1", "none", "sync", "dsync"].contains(&item.value.as_str())) {
        return refused("sync", "take sync=dsync: writes to paths are durable each");
    }
    for (key, fine, why) in [
        ("zero_buffers", "0", "what is written is random, never zeroes"),
        ("verify", "0", "what is read is not checked"),
        ("zonemode", "none", "there are no zones"),
        ("thinktime", "0", "take rate_iops="),
        ("startdelay", "0", "all jobs of a run begin at once"),
        ("nrfiles", "1", "a job has one target"),
        ("continue_on_error", "none", "a run ends at its first error"),
        ("kb_base", "1024", "k is 1,024 here: write bytes out"),
        ("rw_sequencer", "sequential", "each random request goes to a place of its own"),
    ] {
        if options.get(key).is_some_and(|item| item.value != fine) {
            return refused(key, why);
        }
    }
    Ok(())
}

/// What is outstanding, and where it goes.
fn engine(section: &Section, options: &Options<'_>, notes: &mut Vec<Note>) -> Result<(u32, NamedTarget), FileError> {
    let engine = options.get("ioengine").map_or("psync", |item| item.value.as_str());
    let depth = options.read("iodepth", 1, |text| number::at_most(text, 4096))?.max(1) as u32;
    if !BLOCKING.contains(&engine) && !QUEUEING.contains(&engine) {
        let item = options.get("ioengine").expect("only its value can be another");
        let why = format!("{engine} is not done here: take nbd, libaio, io_uring, psync or one of their kind");
        return Err(item.error(why));
    }
    let mut note = |key: &str, text: &str| {
        let line = options.get(key).map_or(section.line, |item| item.line);
        notes.push(Note { line, text: format!("{}: {text}", section.name) });
    };
    let outstanding = if BLOCKING.contains(&engine) { 1 } else { depth };
    if outstanding != depth {
        note("iodepth", &format!("iodepth={depth} is 1, as {engine} waits for each request (as in fio)"));
    }
    let other = if engine == "nbd" { "filename" } else { "uri" };
    if let Some(item) = options.get(other) {
        return Err(item.error(format!("does not go with ioengine={engine}: nbd has uri=, all others have filename=")));
    }
    if engine == "nbd" {
        let uri = options.get("uri").map(|item| item.value.clone());
        return Ok((outstanding, NamedTarget { name: uri.clone().unwrap_or(section.name.clone()), address: uri }));
    }
    if options.get("direct").is_none() && options.get("buffered").is_none() {
        note("filename", "no direct=1: requests go past the page cache all the same");
    }
    let Some(file) = options.get("filename") else {
        return Ok((outstanding, NamedTarget { name: section.name.clone(), address: None }));
    };
    if file.value.replace("\\:", "").contains(':') {
        return Err(file.error("has several files: give each a job of its own"));
    }
    let path = file.value.replace("\\:", ":");
    Ok((outstanding, NamedTarget { name: path.clone(), address: Some(path) }))
}

/// What is asked for, and the part of the target.
fn spec(section: &Section, options: &Options<'_>) -> Result<(Spec, Option<(f64, f64)>), FileError> {
    let (read_percent, random) = direction(options)?;
    let random_percent = match options.get("percentage_random") {
        Some(item) if !random => return Err(item.error("goes with rw=randread, randwrite or randrw")),
        _ if !random => 0,
        _ => options.read("percentage_random", 100, number::percent_whole)?,
    };
    let sizes = sizes(options)?;
    let kinds = kinds(&sizes, read_percent, random_percent);
    if kinds.len() > KINDS_MAX {
        return Err(FileError::new(section.line, "bs", format!("comes to more than {KINDS_MAX} sizes")));
    }
    let addresses = options.read("random_distribution", Addresses::Uniform, distribution)?;
    let offset = options.read("offset", Extent::Bytes(0), extent)?;
    let size = options.get("size").map(|_| options.read("size", Extent::Bytes(0), extent)).transpose()?;
    let (span_begin, span_bytes, part) = match (offset, size) {
        (Extent::Bytes(begin), None) => (begin, 0, None),
        (Extent::Bytes(begin), Some(Extent::Bytes(bytes))) => (begin, bytes, None),
        (Extent::Bytes(0), Some(Extent::Percent(to))) => (0, 0, Some((0.0, to))),
        (Extent::Percent(from), None) => (0, 0, Some((from, 100.0))),
        (Extent::Percent(from), Some(Extent::Percent(of))) => (0, 0, Some((from, (from + of).min(100.0)))),
        _ => {
            return Err(FileError::new(
                section.line,
                "offset",
                "and size= are one in bytes and one in per cent: take one of the two",
            ));
        }
    };
    Ok((Spec { kinds, addresses, span_begin, span_bytes, seed: 1 }, part))
}

/// `rw=`: reads in per cent, and whether they are random.
fn direction(options: &Options<'_>) -> Result<(u8, bool), FileError> {
    let mixed = match options.get("rwmixwrite") {
        Some(_) if options.get("rwmixread").is_none() => 100 - options.read("rwmixwrite", 50, number::percent_whole)?,
        _ => options.read("rwmixread", 50, number::percent_whole)?,
    };
    options.read("rw", (100, false), |text| match text {
        "read" => Ok((100, false)),
        "write" => Ok((0, false)),
        "randread" => Ok((100, true)),
        "randwrite" => Ok((0, true)),
        "rw" | "readwrite" => Ok((mixed, false)),
        "randrw" => Ok((mixed, true)),
        other => Err(format!("{other} is not done here: take read, write, rw, randread, randwrite or randrw")),
    })
}

/// Sizes of requests, each behind its weight.
type Weighted = Vec<(u32, u32)>;

/// Sizes with weights, of reads and of writes.
struct Sizes {
    reads: Weighted,
    writes: Weighted,
}

fn sizes(options: &Options<'_>) -> Result<Sizes, FileError> {
    let one = |text: &str| Ok(vec![(1, number::request_bytes(text)?)]);
    let (key, read): (_, fn(&str) -> _) = match () {
        () if options.get("bssplit").is_some() => ("bssplit", split),
        () if options.get("bsrange").is_some() => ("bsrange", range),
        () => ("bs", one),
    };
    let default = || vec![(1, 4096)];
    options.read(key, Sizes { reads: default(), writes: default() }, |text| {
        let parts: Vec<&str> = text.split(',').collect();
        match parts[..] {
            [both] => Ok(Sizes { reads: read(both)?, writes: read(both)? }),
            [reads, writes] | [reads, writes, _] => {
                let of = |text: &str| if text.is_empty() { Ok(default()) } else { read(text) };
                Ok(Sizes { reads: of(reads)?, writes: of(writes)? })
            }
            _ => Err(format!("{text:?}: take one size, or two with a comma for reads and writes")),
        }
    })
}

/// `4k/50:8k/50`; parts without a percentage share what is left.
fn split(text: &str) -> Result<Weighted, String> {
    let mut all = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = if percent.is_empty() { None } else { Some(number::percent_whole(percent)?) };
        all.push((percent, number::request_bytes(size)?));
    }
    let told: u32 = all.iter().filter_map(|(percent, _)| percent.map(u32::from)).sum();
    let without = all.iter().filter(|(percent, _)| percent.is_none()).count() as u32;
    if told > 100 || (without == 0 && told != 100) {
        return Err(format!("{text:?}: percentages add up to {told}, not to 100"));
    }
    // In parts of `without` per cent each, so that what is left divides evenly.
    let each = without.max(1);
    let weight = |percent: Option<u8>| percent.map_or(100 - told, |percent| u32::from(percent) * each);
    Ok(all.into_iter().map(|(percent, bytes)| (weight(percent), bytes)).filter(|(weight, _)| *weight > 0).collect())
}

/// `4k-64k`: every multiple of the least up to the most, each as often.
fn range(text: &str) -> Result<Weighted, String> {
    let (low, high) = text.split_once('-').ok_or_else(|| format!("{text:?}: write 4k-64k"))?;
    let (low, high) = (number::request_bytes(low)?, number::request_bytes(high)?);
    let all: Weighted = (low..=high).step_by(low as usize).take(KINDS_MAX + 1).map(|bytes| (1, bytes)).collect();
    match all.len() {
        0 => Err(format!("{text:?} does not go up")),
        n if n > KINDS_MAX => Err(format!("{text:?} comes to more than {KINDS_MAX} sizes")),
        _ => Ok(all),
    }
}

/// Reads and writes of their sizes, as often as `read_percent` says.
fn kinds(sizes: &Sizes, read_percent: u8, random_percent: u8) -> Vec<Kind> {
    if sizes.reads == sizes.writes {
        let kind =
            |(weight, bytes): &(u32, u32)| Kind { weight: *weight, ..Kind::new(*bytes, read_percent, random_percent) };
        return sizes.reads.iter().map(kind).collect();
    }
    let sum = |all: &[(u32, u32)]| all.iter().map(|(weight, _)| u64::from(*weight)).sum::<u64>().max(1);
    // In millionths of each direction's share.
    let weight = |weight: u32, all: &[(u32, u32)], percent: u8| {
        (u64::from(weight) * u64::from(percent) * 10_000 / sum(all)) as u32
    };
    let reads = sizes.reads.iter().map(|(parts, bytes)| Kind {
        weight: weight(*parts, &sizes.reads, read_percent),
        ..Kind::new(*bytes, 100, random_percent)
    });
    let writes = sizes.writes.iter().map(|(parts, bytes)| Kind {
        weight: weight(*parts, &sizes.writes, 100 - read_percent),
        ..Kind::new(*bytes, 0, random_percent)
    });
    reads.chain(writes).filter(|kind| kind.weight > 0).collect()
}

fn distribution(text: &str) -> Result<Addresses, String> {
    match text.split_once(':') {
        None if text == "random" => Ok(Addresses::Uniform),
        Some(("zipf", theta)) => {
            let theta = number::number(theta)?;
            match theta > 0.0 && theta < 10.0 && theta != 1.0 {
                true => Ok(Addresses::Zipf { theta }),
                false => Err(format!("{text}: an exponent lies between 0 and 10, and is not 1 exactly")),
            }
        }
        _ => Err(format!("{text} is not done here: take random or zipf:1.1")),
    }
}

fn extent(text: &str) -> Result<Extent, String> {
    match text.ends_with('%') {
        true => number::percent(text).map(Extent::Percent),
        false => number::bytes(text).map(Extent::Bytes),
    }
}

/// Requests a second, and how they follow each other.
fn rate(options: &Options<'_>, spec: &Spec) -> Result<(Option<f64>, Option<Arrivals>), FileError> {
    let reads = spec.mean(|kind| f64::from(kind.read_percent)) / 100.0;
    let (item, each) = match (options.get("rate_iops"), options.get("rate")) {
        (None, None) => return Ok((None, None)),
        (Some(_), Some(rate)) => return Err(rate.error("and rate_iops= are both told: take one")),
        (Some(item), None) => (item, 1.0),
        (None, Some(item)) => (item, spec.mean(|kind| f64::from(kind.request_bytes))),
    };
    let told: Vec<&str> = item.value.split(',').collect();
    let one = |text: &str| number::bytes(text).map(|n| n as f64 / each).map_err(|why| item.error(why));
    let (of_reads, of_writes) = match told[..] {
        [both] => (one(both)?, one(both)?),
        [reads, writes] | [reads, writes, _] => (one(reads)?, one(writes)?),
        _ => return Err(item.error("take one number, or two with a comma for reads and writes")),
    };
    let per_s = match reads {
        1.0 => of_reads,
        0.0 => of_writes,
        share if ((of_reads / (of_reads + of_writes)) - share).abs() < 0.01 => of_reads + of_writes,
        share => {
            let percent = share * 100.0;
            let why =
                format!("{of_reads} reads and {of_writes} writes a second are not the mix of {percent:.0} % reads");
            return Err(item.error(format!("{why}: give both, with a comma, or take two jobs")));
        }
    };
    if per_s <= 0.0 {
        return Err(item.error("a rate of 0 a second: take one above 0"));
    }
    let arrivals = options.read("rate_process", Arrivals::Even, |text| match text {
        "linear" => Ok(Arrivals::Even),
        "poisson" => Ok(Arrivals::Poisson),
        other => Err(format!("{other} is not done here: take linear or poisson")),
    })?;
    Ok((Some(per_s), Some(arrivals)))
}

/// What is written.
fn content(options: &Options<'_>) -> Result<(Content, Option<f64>), FileError> {
    let duplicate_share = options.read("dedupe_percentage", 0.0, number::percent)? / 100.0;
    let random_share = 1.0 - options.read("buffer_compress_percentage", 0.0, number::percent)? / 100.0;
    let working_set = options.read("dedupe_mode", false, |text| match text {
        "repeat" => Ok(false),
        "working_set" => Ok(true),
        other => Err(format!("{other}: take repeat or working_set")),
    })?;
    let share = options.read("dedupe_working_set_percentage", 5.0, number::percent)? / 100.0;
    let content = Content { duplicate_share, duplicates: DUPLICATES, random_share, ..Content::random(1, 0) };
    Ok((content, working_set.then_some(share)))
}

/// Where a job ends that is not time_based: with io_size, otherwise with size, otherwise with the target.
fn ends(options: &Options<'_>, stream: &mut Stream) -> Result<(), FileError> {
    let loops = options.read("loops", 1, |text| number::at_most(text, 1_000_000))?.max(1);
    let bytes = match options.get("io_size") {
        Some(_) => options.read("io_size", 0, number::bytes)?,
        None => stream.spec.span_bytes,
    };
    match bytes {
        0 => stream.spans_max = Some(loops as f64),
        bytes => stream.bytes_max = Some(bytes.saturating_mul(loops)),
    }
    Ok(())
}
