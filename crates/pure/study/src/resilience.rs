//! The study of a host's death: a fixed rate while a host dies and comes back.
//!
//! Source      the data accessibility test of TPCx-HCI (a node is powered off abruptly, the run goes on, the throughput is shown), and
//!             X-Ray's idea of a fixed rate, where performance is the control and the system is the variable

use std::collections::BTreeMap;

use crate::{Action, ArmMedia, Cluster, Manifest, Results, Scale, Verdict, results::verdict};

/// The study's name.
pub(crate) const NAME: &str = "resilience";

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Resilience {
    /// Its scale.
    pub scale: Scale,
    /// The media under its own cluster.
    pub media: ArmMedia,
    /// Its own cluster, a process a host.
    pub cluster: Cluster,
    /// Virtual disks.
    pub disks: u32,
    /// Bytes of each.
    pub disk_bytes: u64,
    /// Requests of 4 KiB that are due each second, over all disks.
    pub rate_per_s: f64,
    /// Reads among them, in per cent.
    pub read_percent: u8,
    /// Before anything counts.
    pub ramp_ms: u64,
    /// What counts.
    pub measure_ms: u64,
    /// When the host dies, from the begin of what counts.
    pub kill_ms: u64,
    /// When it is started again.
    pub restart_ms: u64,
}

/// No single failure stops I/O for longer: the promise of a few seconds, with room for a machine that does other things.
const WAIT_MAX_MS: f64 = 5_000.0;
/// So much of the rate is reached, its stall and what is made up for after it included.
const RATE_MIN: f64 = 0.95;

impl Resilience {
    /// The study's name.
    pub const NAME: &str = NAME;

    /// At a scale.
    pub fn of(scale: Scale) -> Self {
        const MIB: u64 = 1 << 20;
        let (disks, disk_bytes, rate_per_s, seconds, dilation) = match scale {
            Scale::Quick => (8, 32 * MIB, 400.0, (90, 30, 50), 10.0),
            Scale::Lab => (32, 256 * MIB, 2_000.0, (600, 120, 240), 10.0),
            Scale::Paper => (128, 10_000 * MIB, 6_400.0, (7_200, 1_800, 3_600), 1.0),
        };
        let host_bytes = u64::from(disks) * disk_bytes * 2 / 4;
        Self {
            scale,
            media: ArmMedia {
                arm: "cairn".into(),
                cache: "nvme-nand".into(),
                capacity: "sata-ssd".into(),
                dilation,
                data_strips: 0,
                saves: false,
            },
            cluster: Cluster {
                hosts: 4,
                capacity_devices: 2,
                capacity_bytes: host_bytes.max(256 * MIB) / MIB * MIB,
                buffer_bytes: (host_bytes / 2).max(128 * MIB) / MIB * MIB,
                read_cache_bytes: 32 * MIB,
            },
            disks,
            disk_bytes,
            rate_per_s,
            read_percent: 70,
            ramp_ms: 3_000,
            measure_ms: seconds.0 * 1000,
            kill_ms: seconds.1 * 1000,
            restart_ms: seconds.2 * 1000,
        }
    }

    /// Its numbers by name.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let rows = [
            ("tests", "rate".to_owned()),
            ("repeats", "1".to_owned()),
            ("rate_per_s", self.rate_per_s.to_string()),
            ("read_percent", self.read_percent.to_string()),
            ("ramp_ms", self.ramp_ms.to_string()),
            ("measure_ms", self.measure_ms.to_string()),
            ("kill_ms", self.kill_ms.to_string()),
            ("restart_ms", self.restart_ms.to_string()),
            ("disks", self.disks.to_string()),
            ("disk_bytes", self.disk_bytes.to_string()),
            ("hosts", self.cluster.hosts.to_string()),
            ("buffer_bytes_per_host", self.cluster.buffer_bytes.to_string()),
        ];
        rows.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Judges a run: the failure happened while it was measured, no client saw it, nothing acknowledged was lost.
pub(crate) fn verify(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let Some(cell) = results.cells.first() else {
        let why = manifest.ended_early.clone().unwrap_or_else(|| "nothing was measured".into());
        return vec![verdict("a load was measured", false, why)];
    };
    let at = |is: fn(&Action) -> bool| manifest.steps.iter().find(|step| is(&step.action));
    let killed = at(|action| matches!(action, Action::Kill { .. }));
    let measured = at(|action| matches!(action, Action::Run { .. })).map(|step| (step.began_ms, step.ended_ms));
    let inside = killed.zip(measured).is_some_and(|(kill, (from, until))| (from..until).contains(&kill.began_ms));
    let who = killed.map_or("nothing was killed".to_owned(), |step| match &step.action {
        Action::Kill { host } => format!("killed: {host}"),
        _ => String::new(),
    });
    let mut verdicts = vec![verdict("a host was killed while the load was measured", inside, who)];
    let broken = cell.checks.broken.clone();
    let because = broken.clone().unwrap_or_else(|| format!("{} requests, none failed", cell.total.requests));
    verdicts.push(verdict("no request failed", broken.is_none(), because));
    // The longest wait of one request: other disks' requests go on meanwhile, so that a silence of all is shorter.
    let longest_ms = cell.total.latency.map(|latency| latency.max_ns as f64 / 1e6);
    let silence =
        cell.longest_silence_ms.map_or(String::new(), |ms| format!("; over all disks nothing ended for {ms:.0} ms"));
    let because = longest_ms.map_or("nothing ended".into(), |ms| format!("{ms:.0} ms{silence}"));
    let holds = longest_ms.is_some_and(|ms| ms <= WAIT_MAX_MS);
    verdicts.push(verdict("no request waited longer than 5 s", holds, because));
    let asked = cell.params.rate_per_s.unwrap_or_default();
    let because = format!("{:.1} of {asked:.1} requests a second", cell.total.iops);
    verdicts.push(verdict(
        "the rate was reached over the whole run (at least 95 %)",
        cell.total.iops >= asked * RATE_MIN,
        because,
    ));
    let checked = manifest.steps.iter().find_map(|step| match step.action {
        Action::Verify { blocks, wrong } => Some((blocks, wrong)),
        _ => None,
    });
    let because = checked
        .map_or("nothing was read back".into(), |(blocks, wrong)| format!("{blocks} blocks read back, {wrong} wrong"));
    let holds = checked.is_some_and(|(blocks, wrong)| blocks > 0 && wrong == 0);
    verdicts.push(verdict("every acknowledged write is there", holds, because));
    let healthy =
        at(|action| matches!(action, Action::Healthy)).zip(at(|action| matches!(action, Action::Restart { .. })));
    let because = healthy.map_or("that was not seen".into(), |(healthy, restart)| {
        format!("{:.1} s after the host came back", healthy.ended_ms.saturating_sub(restart.ended_ms) as f64 / 1e3)
    });
    verdicts.push(verdict("all data had all its copies again", healthy.is_some(), because));
    verdicts
}
