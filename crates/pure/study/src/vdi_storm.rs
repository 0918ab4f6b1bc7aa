//! The study of desktops: all are deployed, boot at once, work, and are made anew of a later image.
//!
//! Promises    both arms ask the same of their desktops; they differ in what a desktop is: a clone of the golden disk's snapshot, or an
//!             own copy of its image
//! Source      a study of virtual desktops on Virtual SAN by two vendors of drives and networks (2014): 450 desktops on three hosts, seconds
//!             a desktop to deploy, boot and recompose. VSImax 4.1: sessions until a response is a second above its baseline
//!             a boot: H. Klein, "Remarks on Windows Disk and File IO During System Boot" (2013): 62,000 requests, 16 % writes

use std::collections::BTreeMap;

use crate::{Action, ArmMedia, Cell, Cluster, Manifest, Results, Scale, Step, Verdict, results::verdict, verify::bins};

/// The study's name.
pub(crate) const NAME: &str = "vdi-storm";

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct VdiStorm {
    /// Its scale.
    pub scale: Scale,
    /// The media of both arms, in the order of [`Self::ARMS`].
    pub arms: Vec<ArmMedia>,
    /// What each arm runs on.
    pub cluster: Cluster,
    /// Desktops, one disk each; as many at each host.
    pub desktops: u32,
    /// Bytes of the golden disk, most of them a hole.
    pub golden_bytes: u64,
    /// Bytes of its image, from its beginning: what a desktop reads and writes.
    pub image_bytes: u64,
    /// Writes of 4 KiB with which a deployed desktop becomes its own.
    pub first_writes: u32,
    /// Requests of a boot, one after the other.
    pub boot_requests: u32,
    /// Sessions a desktop, step by step.
    pub sessions_each: Vec<u32>,
    /// What a session asks each second; divided by the dilation.
    pub session_per_s: f64,
    /// Of each step, before anything counts.
    pub ramp_ms: u64,
    /// Of each step, what counts.
    pub measure_ms: u64,
    /// Bytes of the golden disk that a later image changes.
    pub patch_bytes: u64,
}

/// The arms.
const CLONES: &str = "clones";
const COPIES: &str = "own-copies";
/// Bytes of a request of a boot.
const BOOT_REQUEST_BYTES: u32 = 16 << 10;
/// Reads among those, in per cent.
const BOOT_READ_PERCENT: u8 = 84;
/// Reads of a session, in per cent: office desktops write mostly.
const SESSION_READ_PERCENT: u8 = 20;
/// Requests of an action whose response counts, one after the other.
const ACTION_REQUESTS: f64 = 100.0;
/// A response so much above the baseline is too long.
const RESPONSE_ABOVE_MS: f64 = 1000.0;

/// What a cell with desktops is a measurement of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All desktops are made.
    Deploy,
    /// All boot at once.
    Boot,
    /// They work; so many sessions in all.
    Sessions(u32),
    /// All are made anew of a later image.
    Recompose,
}

impl Part {
    /// Its id within an arm.
    pub fn id(self) -> String {
        match self {
            Self::Deploy => "deploy".into(),
            Self::Boot => "boot".into(),
            Self::Sessions(count) => format!("sessions-{count}"),
            Self::Recompose => "recompose".into(),
        }
    }

    /// What a cell measures; none for what is of no such study.
    pub fn of(cell: &Cell) -> Option<Self> {
        match cell.id.split_once('/')?.1 {
            "deploy" => Some(Self::Deploy),
            "boot" => Some(Self::Boot),
            "recompose" => Some(Self::Recompose),
            id => id.strip_prefix("sessions-")?.parse().ok().map(Self::Sessions),
        }
    }
}

impl VdiStorm {
    /// The study's name.
    pub const NAME: &str = NAME;
    /// Its arms.
    pub const ARMS: [&str; 2] = [CLONES, COPIES];
    /// Bytes of a request of a boot.
    pub const BOOT_REQUEST_BYTES: u32 = BOOT_REQUEST_BYTES;
    /// Reads among those, in per cent.
    pub const BOOT_READ_PERCENT: u8 = BOOT_READ_PERCENT;
    /// Reads of a session, in per cent.
    pub const SESSION_READ_PERCENT: u8 = SESSION_READ_PERCENT;

    /// At a scale.
    pub fn of(scale: Scale) -> Self {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        let (desktops, golden_bytes, image_bytes, boot_requests, first_writes, (ramp_s, run_s), dilation) = match scale
        {
            Scale::Quick => (24, 2 * GIB, 16 * MIB, 600, 32, (1, 5), 10.0),
            Scale::Lab => (201, 40 * GIB, 32 * MIB, 2_000, 128, (10, 60), 10.0),
            Scale::Paper => (450, 40 * GIB, 10 * GIB, 62_000, 4_096, (60, 600), 1.0),
        };
        let media = |arm: &&str| ArmMedia {
            arm: (*arm).into(),
            cache: "nvme-nand".into(),
            capacity: "sata-ssd".into(),
            dilation,
            data_strips: 0,
            saves: false,
        };
        Self {
            scale,
            arms: Self::ARMS.iter().map(media).collect(),
            cluster: cluster_of(desktops, image_bytes),
            desktops,
            golden_bytes,
            image_bytes,
            first_writes,
            boot_requests,
            sessions_each: (0..10).map(|n| 1 << n).collect(),
            session_per_s: 10.0,
            ramp_ms: ramp_s * 1000,
            measure_ms: run_s * 1000,
            patch_bytes: image_bytes / 8,
        }
    }

    /// With so many desktops, where that is told, and a cluster that holds them.
    pub fn with_desktops(self, desktops: Option<u32>) -> Self {
        let desktops = desktops.unwrap_or(self.desktops);
        Self { desktops, cluster: cluster_of(desktops, self.image_bytes), ..self }
    }

    /// Its numbers by name.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let steps: Vec<String> = self.sessions_each.iter().map(ToString::to_string).collect();
        let rows = [
            ("arms", Self::ARMS.join(",")),
            ("desktops", self.desktops.to_string()),
            ("golden_bytes", self.golden_bytes.to_string()),
            ("image_bytes", self.image_bytes.to_string()),
            ("first_writes", self.first_writes.to_string()),
            ("boot_requests", self.boot_requests.to_string()),
            ("boot_request_bytes", BOOT_REQUEST_BYTES.to_string()),
            ("boot_read_percent", BOOT_READ_PERCENT.to_string()),
            ("sessions_each", steps.join(",")),
            ("session_per_s", self.session_per_s.to_string()),
            ("session_read_percent", SESSION_READ_PERCENT.to_string()),
            ("ramp_ms", self.ramp_ms.to_string()),
            ("measure_ms", self.measure_ms.to_string()),
            ("patch_bytes", self.patch_bytes.to_string()),
            ("hosts", self.cluster.hosts.to_string()),
            ("buffer_bytes_per_host", self.cluster.buffer_bytes.to_string()),
            ("read_cache_bytes_per_host", self.cluster.read_cache_bytes.to_string()),
        ];
        rows.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Whether an arm's desktops are clones.
    pub fn is_of_clones(arm: &str) -> bool {
        arm == CLONES
    }
}

/// Three hosts that hold an own copy of the image for each desktop, twice, with as much again free; write buffers take half of that.
fn cluster_of(desktops: u32, image_bytes: u64) -> Cluster {
    const MIB: u64 = 1 << 20;
    let host_bytes = u64::from(desktops) * image_bytes * 2 / 3;
    Cluster {
        hosts: 3,
        capacity_devices: 2,
        capacity_bytes: host_bytes.max(256 * MIB) / MIB * MIB,
        buffer_bytes: (host_bytes / 2).max(128 * MIB) / MIB * MIB,
        read_cache_bytes: (host_bytes / 16).max(16 * MIB) / MIB * MIB,
    }
}

/// The response of an action in a cell of sessions, in ms; none where nothing ended.
pub fn response_ms(cell: &Cell) -> Option<f64> {
    cell.total.mean_ms().map(|mean| mean * ACTION_REQUESTS)
}

/// The longest response that is not too long: a second, of the media's time, above the shortest of all steps. None without any.
pub fn threshold_ms<'a>(cells: impl IntoIterator<Item = &'a Cell>, dilation: f64) -> Option<f64> {
    let baseline = cells.into_iter().filter_map(response_ms).reduce(f64::min)?;
    Some(baseline + RESPONSE_ABOVE_MS * dilation)
}

/// The cells of an arm, in the order in which they were measured.
fn of_arm<'a>(results: &'a Results, arm: &'a str) -> impl Iterator<Item = (Part, &'a Cell)> {
    results.cells.iter().filter(move |cell| cell.params.arm == arm).filter_map(|cell| Some((Part::of(cell)?, cell)))
}

fn steps_of<'a>(manifest: &'a Manifest, arm: &'a str) -> impl Iterator<Item = &'a Step> {
    manifest.steps.iter().filter(move |step| step.arm == arm)
}

fn number(manifest: &Manifest, name: &str) -> u64 {
    manifest.parameters.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Judges a run: each part was measured in each arm, desktops were what the arm says, and what they wrote is there.
pub(crate) fn verify(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = vec![whole(manifest, results)];
    for arm in VdiStorm::ARMS {
        verdicts.push(cleared(manifest, arm));
        verdicts.push(booted(manifest, results, arm));
        verdicts.push(copied(manifest, results, arm));
        verdicts.push(read_back(manifest, arm));
        verdicts.push(recomposed(manifest, arm));
    }
    verdicts.push(bins(results));
    verdicts
}

fn whole(manifest: &Manifest, results: &Results) -> Verdict {
    let rule = "each part was measured once in each arm";
    if let Some(why) = &manifest.ended_early {
        return verdict(rule, false, format!("the run ended early: {why}"));
    }
    let of = |arm: &str| {
        let parts: Vec<Part> =
            of_arm(results, arm).filter(|(_, cell)| cell.checks.broken.is_none()).map(|(part, _)| part).collect();
        let once = [Part::Deploy, Part::Boot, Part::Recompose]
            .iter()
            .all(|one| parts.iter().filter(|part| *part == one).count() == 1);
        let steps = parts.iter().filter(|part| matches!(part, Part::Sessions(_))).count();
        (once && steps > 0, steps)
    };
    let told = VdiStorm::ARMS.map(of);
    let because = format!("{} and {} steps of sessions", told[0].1, told[1].1);
    verdict(rule, told.iter().all(|(is_whole, _)| *is_whole), because)
}

fn cleared(manifest: &Manifest, arm: &str) -> Verdict {
    let steps: Vec<&Step> = steps_of(manifest, arm).collect();
    let boot = format!("{arm}/boot");
    let at = steps.iter().position(|step| matches!(&step.action, Action::Run { cell, .. } if *cell == boot));
    let left = at.and_then(|at| at.checked_sub(1)).and_then(|before| match steps[before].action {
        Action::Clear { buffered_after_bytes, .. } => Some(buffered_after_bytes),
        _ => None,
    });
    let because = left.map_or("that was not seen".into(), |left| format!("{arm}: {left} bytes were buffered then"));
    let buffers = manifest.target.buffer_bytes;
    verdict("caches were cleared just before all boot", left.is_some_and(|left| left <= buffers / 100), because)
}

fn booted(manifest: &Manifest, results: &Results, arm: &str) -> Verdict {
    let (asked, each) = (number(manifest, "desktops"), number(manifest, "boot_requests"));
    let found = of_arm(results, arm).find(|(part, _)| *part == Part::Boot).map(|(_, cell)| cell);
    let (desktops, requests) = found.map_or((0, 0), |cell| {
        (cell.desktops.as_ref().map_or(0, |desktops| desktops.each_s.len() as u64), cell.total.requests)
    });
    let because = format!("{arm}: {desktops} of {asked} desktops, {requests} requests");
    let all = asked > 0 && desktops == asked && requests == asked * each;
    verdict("every desktop booted to its end", all, because)
}

/// Deploying clones writes what makes each its own, and no image; own copies are written in full.
fn copied(manifest: &Manifest, results: &Results, arm: &str) -> Verdict {
    const MIB: f64 = 1_048_576.0;
    let found = of_arm(results, arm).find(|(part, _)| *part == Part::Deploy).map(|(_, cell)| cell);
    let Some(counted) = found.and_then(|cell| cell.counted) else {
        return verdict("what was deployed is what the arm says", false, format!("{arm}: counters were not read"));
    };
    let (desktops, copies) = (number(manifest, "desktops"), u64::from(manifest.target.copies));
    let own = desktops * number(manifest, "first_writes") * 4096 * copies;
    let images = desktops * number(manifest, "image_bytes") * copies;
    let taken = counted.buffered_bytes;
    let holds = match VdiStorm::is_of_clones(arm) {
        true => taken <= own + own / 20,
        false => taken >= images,
    };
    let mib = |bytes: u64| bytes as f64 / MIB;
    let because = format!(
        "{arm}: {:.1} MiB went to write buffers; desktops' own writes are {:.1}, their images {:.1}",
        mib(taken),
        mib(own),
        mib(images)
    );
    verdict("what was deployed is what the arm says", holds, because)
}

fn read_back(manifest: &Manifest, arm: &str) -> Verdict {
    let found = steps_of(manifest, arm).find_map(|step| match step.action {
        Action::Verify { blocks, wrong } => Some((blocks, wrong)),
        _ => None,
    });
    let because = found.map_or(format!("{arm}: nothing was read back"), |(blocks, wrong)| {
        format!("{arm}: {blocks} blocks read back, {wrong} wrong")
    });
    let holds = found.is_some_and(|(blocks, wrong)| blocks > 0 && wrong == 0);
    verdict("what desktops wrote last is there", holds, because)
}

fn recomposed(manifest: &Manifest, arm: &str) -> Verdict {
    let asked = number(manifest, "desktops");
    let made = steps_of(manifest, arm).find_map(|step| match step.action {
        Action::Recompose { desktops } => Some(u64::from(desktops)),
        _ => None,
    });
    let because = made.map_or(format!("{arm}: that was not seen"), |made| format!("{arm}: {made} of {asked} desktops"));
    verdict("all desktops were made anew, and nothing is left of those before", made == Some(asked), because)
}
