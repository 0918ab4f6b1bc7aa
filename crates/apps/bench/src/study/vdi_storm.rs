//! Runs the study of desktops, on a cluster of its own for each arm.
//!
//! Assumes     a boot is one request after the other: what one desktop took is the sum of its requests' latencies

use std::{path::Path, time::Duration};

use cairn_study::{
    Action, ArmMedia, Cell, Counters, Desktops, Params, Step, TargetFacts, VdiPart, VdiStorm, response_ms, threshold_ms,
};
use cairn_workload::{Content, Kind, Pace};

use super::{
    cluster::OwnCluster,
    record::{CLUSTER, Record, manifest_of},
    runner::{added, cell_of, phases, precondition, spec, step},
    system::{clear_at, counters_at},
};
use crate::{
    address::Address,
    job::{Job, Measured, StreamJob},
    process, run,
};

const GOLDEN: &str = "golden";
/// What ends with its requests takes no longer than this.
const LONG: Duration = Duration::from_secs(86_400);
/// Requests of a desktop that may be outstanding while its sessions work.
const OUTSTANDING_MAX: u32 = 256;

/// Runs it, and says on the way what it does.
///
/// # Errors
/// What kept it from being measured; what was measured until then is in the record.
pub fn run(plan: &VdiStorm, folder: &Path, seed: u64, say: &(dyn Fn(String) + Sync)) -> Result<Record, String> {
    let manifest = manifest_of((VdiStorm::NAME, plan.scale), seed, plan.arms.clone(), plan.parameters());
    let media = &plan.arms[0];
    let caption = format!(
        "own cluster of {} hosts in one process on one machine; {}cache {}, capacity {}",
        plan.cluster.hosts,
        if media.is_modelled() { format!("modelled media, times x{}; ", media.dilation) } else { String::new() },
        media.cache,
        media.capacity
    );
    let mut record = Record::begin(folder, manifest, caption)?;
    let outcome = plan.arms.iter().try_for_each(|media| run_arm(plan, media, seed, &mut record, say));
    record.finish(outcome)
}

fn run_arm(
    plan: &VdiStorm,
    media: &ArmMedia,
    seed: u64,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
) -> Result<(), String> {
    let began_ms = process::unix_ms();
    say(format!("{}: starting {} hosts, writing an image", media.arm, plan.cluster.hosts));
    let cluster = OwnCluster::start(&record.folder().join(CLUSTER), &plan.cluster, media)?;
    let mut arm = Arm { plan, media, seed, cluster, record, say };
    arm.begin()?;
    arm.step(Action::Start, began_ms)?;
    let desktops = arm.deploy()?;
    arm.boot(&desktops)?;
    arm.work(&desktops)?;
    arm.recompose(desktops)?;
    let began_ms = process::unix_ms();
    let Arm { cluster, record, .. } = arm;
    cluster.stop();
    record.step(step(media, Action::Stop, began_ms, None))
}

/// Desktops of one image.
struct Made {
    names: Vec<String>,
    targets: Vec<Address>,
}

/// One arm under way.
struct Arm<'a> {
    plan: &'a VdiStorm,
    media: &'a ArmMedia,
    seed: u64,
    cluster: OwnCluster,
    record: &'a mut Record,
    say: &'a (dyn Fn(String) + Sync),
}

impl Arm<'_> {
    fn is_of_clones(&self) -> bool {
        VdiStorm::is_of_clones(&self.media.arm)
    }

    fn cairn(&self, words: &[&str]) -> Result<(), String> {
        self.cluster.cairn().done(words)
    }

    fn counters(&self) -> Option<Counters> {
        counters_at(self.cluster.cairn())
    }

    fn step(&mut self, action: Action, began_ms: u64) -> Result<(), String> {
        let after = self.counters();
        self.record.step(step(self.media, action, began_ms, after))
    }

    /// The golden disk and its first image; facts for the manifest.
    fn begin(&mut self) -> Result<(), String> {
        let size = self.plan.golden_bytes.to_string();
        self.cairn(&["policy", "create", "study"])?;
        self.cairn(&["disk", "create", GOLDEN, "--size", &size, "--policy", "study"])?;
        self.image(1, self.plan.image_bytes)?;
        let (plan, hosts) = (self.plan, u64::from(self.plan.cluster.hosts));
        self.record.manifest.target = TargetFacts {
            description: format!("own cluster of {hosts} hosts in one process, on files"),
            addresses: vec![GOLDEN.into()],
            hosts: plan.cluster.hosts,
            policy: "mirror, FTT 1".into(),
            copies: 2,
            buffer_bytes: plan.cluster.buffer_bytes * hosts,
            read_cache_bytes: plan.cluster.read_cache_bytes * hosts,
        };
        Ok(())
    }

    /// Writes the first bytes of the golden disk, and takes a snapshot of it.
    fn image(&self, number: u32, bytes: u64) -> Result<(), String> {
        let golden = self.cluster.attach(GOLDEN.into(), 1)?;
        precondition(&[golden], bytes, 1, self.seed.wrapping_add(u64::from(number)))?;
        self.cairn(&["snapshot", "create", &format!("image-{number}"), GOLDEN])
    }

    /// As many desktops as there are to be, of the image of this number.
    fn make(&self, image: u32) -> Result<Made, String> {
        let (plan, count) = (self.plan, self.plan.desktops.to_string());
        let (name, width) = (format!("desk-{image}"), count.len());
        let names: Vec<String> = (1..=plan.desktops).map(|n| format!("{name}-{n:0width$}")).collect();
        if self.is_of_clones() {
            self.cairn(&["disk", "clone", &format!("{GOLDEN}@image-{image}"), &name, "--count", &count])?;
        } else {
            let size = plan.golden_bytes.to_string();
            for name in &names {
                self.cairn(&["disk", "create", name, "--size", &size, "--policy", "study"])?;
            }
        }
        let attach = |(name, number): (&String, u32)| self.cluster.attach(name.clone(), number);
        let targets = names.iter().zip(1..).map(attach).collect::<Result<Vec<_>, _>>()?;
        if !self.is_of_clones() {
            precondition(&targets, plan.image_bytes, 1, self.seed.wrapping_add(image.into()))?;
        }
        Ok(Made { names, targets })
    }

    /// A load of each desktop.
    fn job(&self, targets: &[Address], kind: Kind, (round, bytes_max): (u64, Option<u64>)) -> Job {
        let spec = spec(kind, self.plan.image_bytes, self.seed.wrapping_add(round << 32));
        let stream = |target: &Address| StreamJob {
            bytes_max,
            ..StreamJob::new(target.clone(), spec.clone(), Content::random(self.seed.wrapping_add(round), 0))
        };
        Job { streams: targets.iter().map(stream).collect(), measure: LONG, destructive: true, ..Job::default() }
    }

    /// What makes each desktop its own.
    fn first_writes(&self, made: &Made, round: u64) -> Result<(Job, Measured), String> {
        let bytes = u64::from(self.plan.first_writes) * 4096;
        let job = self.job(&made.targets, Kind::new(4096, 0, 100), (round, Some(bytes)));
        let measured = unbroken(&job)?;
        Ok((job, measured))
    }

    fn params(&self, job: &Job, rate_per_s: Option<f64>) -> Params {
        let kind = job.streams[0].spec.kinds[0];
        Params {
            arm: self.media.arm.clone(),
            vms: self.plan.desktops,
            disks: self.plan.desktops,
            request_bytes: kind.request_bytes,
            read_percent: kind.read_percent,
            random_percent: 100,
            outstanding: if rate_per_s.is_some() { 0 } else { self.plan.desktops },
            rate_per_s,
            span_bytes: self.plan.image_bytes,
        }
    }

    /// Writes down a part that began then.
    fn measured(
        &mut self,
        (part, began_ms, before): (VdiPart, u64, Option<Counters>),
        (job, measured): (&Job, &Measured),
        (desktops, rate_per_s): (Option<Desktops>, Option<f64>),
    ) -> Result<Cell, String> {
        let after = self.counters();
        let id = format!("{}/{}", self.media.arm, part.id());
        let counted = before.zip(after).map(|(before, after)| added(&before, &after));
        let params = self.params(job, rate_per_s);
        let cell = Cell { counted, desktops, ..cell_of(id.clone(), 1, params, job, measured) };
        let phases = phases(measured, job.ramp.as_millis() as u64);
        let run = step(self.media, Action::Run { cell: id, repeat: 1 }, began_ms, after);
        let step = Step { phases, before, ..run };
        self.record.measured(step, cell.clone())?;
        Ok(cell)
    }

    fn desktops(&self, began_ms: u64) -> Desktops {
        let total_s = process::unix_ms().saturating_sub(began_ms) as f64 / 1e3;
        Desktops { count: self.plan.desktops, total_s, each_s: Vec::new() }
    }

    fn told(&self, part: VdiPart, desktops: &Desktops) {
        let (s, each) = (desktops.total_s, desktops.s_each());
        (self.say)(format!(
            "{}: {}: {} desktops in {s:.1} s, {each:.3} s each",
            self.media.arm,
            part.id(),
            desktops.count
        ));
    }

    fn deploy(&mut self) -> Result<Made, String> {
        let (began_ms, before) = (process::unix_ms(), self.counters());
        let made = self.make(1)?;
        let (job, measured) = self.first_writes(&made, 1)?;
        let desktops = self.desktops(began_ms);
        self.told(VdiPart::Deploy, &desktops);
        self.measured((VdiPart::Deploy, began_ms, before), (&job, &measured), (Some(desktops), None))?;
        Ok(made)
    }

    /// Caches are cleared, and all boot at once.
    fn boot(&mut self, made: &Made) -> Result<(), String> {
        let began_ms = process::unix_ms();
        let (buffered_before_bytes, buffered_after_bytes) = clear_at(self.cluster.cairn())?;
        self.step(Action::Clear { buffered_before_bytes, buffered_after_bytes }, began_ms)?;
        let (began_ms, before) = (process::unix_ms(), self.counters());
        let kind = Kind::new(VdiStorm::BOOT_REQUEST_BYTES, VdiStorm::BOOT_READ_PERCENT, 100);
        let bytes = u64::from(self.plan.boot_requests) * u64::from(VdiStorm::BOOT_REQUEST_BYTES);
        let job = self.job(&made.targets, kind, (2, Some(bytes)));
        let measured = unbroken(&job)?;
        let mut each_s: Vec<f64> = measured.streams.iter().map(|stream| seconds_of(&stream.both())).collect();
        each_s.sort_by(f64::total_cmp);
        let desktops = Desktops { count: self.plan.desktops, total_s: measured.measured.as_secs_f64(), each_s };
        self.told(VdiPart::Boot, &desktops);
        self.measured((VdiPart::Boot, began_ms, before), (&job, &measured), (Some(desktops), None)).map(drop)
    }

    /// Sessions work, more and more of them, until an action takes too long; then what they wrote last is read back.
    fn work(&mut self, made: &Made) -> Result<(), String> {
        let kind = Kind::new(4096, VdiStorm::SESSION_READ_PERCENT, 100);
        let (mut cells, mut last) = (Vec::new(), None);
        for (each, round) in self.plan.sessions_each.iter().zip(3..) {
            let sessions = each * self.plan.desktops;
            let per_s = self.plan.session_per_s * f64::from(*each) / self.media.dilation;
            let mut job = self.job(&made.targets, kind, (round, None));
            for stream in &mut job.streams {
                (stream.pace, stream.outstanding) = (Pace::Poisson { per_s }, OUTSTANDING_MAX);
            }
            job.ramp = Duration::from_millis(self.plan.ramp_ms);
            job.measure = Duration::from_millis(self.plan.measure_ms);
            job.verify = true;
            let (began_ms, before) = (process::unix_ms(), self.counters());
            let measured = unbroken(&job)?;
            let rate = per_s * f64::from(self.plan.desktops);
            let part = (VdiPart::Sessions(sessions), began_ms, before);
            let cell = self.measured(part, (&job, &measured), (None, Some(rate)))?;
            let (response, longest) = {
                cells.push(cell);
                let of_last = cells.last().and_then(response_ms).unwrap_or(f64::INFINITY);
                (of_last, threshold_ms(&cells, self.media.dilation).unwrap_or_default())
            };
            (self.say)(format!(
                "{}: {sessions} sessions: {rate:.0} requests a second, an action takes {response:.0} ms, at most {longest:.0}",
                self.media.arm
            ));
            last = Some(measured);
            if response > longest {
                break;
            }
        }
        let began_ms = process::unix_ms();
        let Some(last) = last else { return Ok(()) };
        let verified = run::read_back(&last).map_err(|error| error.to_string())?;
        self.step(Action::Verify { blocks: verified.places, wrong: verified.wrong }, began_ms)
    }

    /// The golden disk is patched, and all desktops are made anew of it: clones in the place of others, which are deleted, own copies written over.
    fn recompose(&mut self, before: Made) -> Result<(), String> {
        let (began_ms, counters) = (process::unix_ms(), self.counters());
        self.image(2, self.plan.patch_bytes)?;
        let (made, before) = match self.is_of_clones() {
            true => (self.make(2)?, before.names),
            // In the same place: two images of each would not fit.
            false => {
                precondition(&before.targets, self.plan.image_bytes, 1, self.seed.wrapping_add(2))?;
                (before, Vec::new())
            }
        };
        let (job, measured) = self.first_writes(&made, 64)?;
        for name in &before {
            self.cairn(&["disk", "delete", name, "--yes"])?;
        }
        self.cairn(&["snapshot", "delete", &format!("{GOLDEN}@image-1"), "--yes"])?;
        let desktops = self.desktops(began_ms);
        self.told(VdiPart::Recompose, &desktops);
        let part = (VdiPart::Recompose, began_ms, counters);
        self.measured(part, (&job, &measured), (Some(desktops), None))?;
        self.step(Action::Recompose { desktops: self.plan.desktops }, began_ms)
    }
}

/// Measures, and takes what broke for an error.
fn unbroken(job: &Job) -> Result<Measured, String> {
    let measured = run::run(job).map_err(|error| error.to_string())?;
    match &measured.broken {
        Some(why) => Err(why.to_string()),
        None => Ok(measured),
    }
}

/// All latencies of a side together.
fn seconds_of(side: &crate::job::Side) -> f64 {
    side.latency.mean_ns().unwrap_or_default() * side.latency.count() as f64 / 1e9
}
