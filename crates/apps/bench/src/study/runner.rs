//! Runs a plan: arm by arm, test by test, repeat by repeat.
//!
//! Promises    caches are cleared before each test, and not between its repeats
//!             a test of which not every repeat was measured is run again as a whole when a run is gone on with

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use cairn_study::{Action, ArmMedia, Cell, Checks, Counters, Params, Phase, PhaseKind, Plan, Side, Step, Test};
use cairn_workload::{Addresses, Content, Kind, Spec};

use super::{
    cluster::OwnCluster,
    power::PowerSource,
    record::{CLUSTER, Record, manifest_of},
    sampler::Sampler,
    system::{Given, System},
};
use crate::{
    address::Address,
    job::{Job, Measured, StreamJob},
    precondition::Precondition,
    process, run,
};

/// What a user may choose.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the run is written to.
    pub folder: PathBuf,
    /// Targets instead of a cluster of the study's own.
    pub given: Option<Given>,
    /// What they hold may be lost.
    pub destructive: bool,
    /// Go on with the run in the folder.
    pub resume: bool,
    /// What the target draws.
    pub power: Option<PowerSource>,
    /// Of all that is drawn.
    pub seed: u64,
    /// Wait for a steady state (rounds of this length) instead of the plan's ramp.
    pub auto_ramp: Option<Duration>,
}

/// Runs `plan`, and says on the way what it does.
///
/// # Errors
/// What ended it; what was done until then is in its folder.
pub fn run(plan: &Plan, options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Record, String> {
    check(plan, options)?;
    let mut record = begin(plan, options)?;
    let outcome = plan.arms.iter().try_for_each(|arm| run_arm(plan, arm, options, &mut record, say));
    record.finish(outcome)
}

fn check(plan: &Plan, options: &Options) -> Result<(), String> {
    let Some(given) = &options.given else { return Ok(()) };
    if !options.destructive {
        return Err("this study writes, and what the targets hold is lost: say --destructive if that is meant".into());
    }
    if given.targets.len() != plan.disks as usize {
        return Err(format!("{} targets are given, and the study has {} disks", given.targets.len(), plan.disks));
    }
    Ok(())
}

/// A new record, or the one that is there, less the tests that were not finished.
fn begin(plan: &Plan, options: &Options) -> Result<Record, String> {
    let parameters = plan.parameters();
    let arms = if options.given.is_some() { vec![as_it_is()] } else { plan.arms.clone() };
    if options.resume {
        let mut record = Record::resume(&options.folder)?;
        let manifest = &record.manifest;
        let version = env!("CARGO_PKG_VERSION");
        let why = if (manifest.study.as_str(), manifest.scale.clone()) != (plan.study, plan.scale.to_string()) {
            Some(format!("it is {} at scale {}", manifest.study, manifest.scale))
        } else if manifest.parameters != parameters || manifest.media != arms || manifest.seed != options.seed {
            Some("its parameters, media or seed are others".to_owned())
        } else if manifest.version != version {
            Some(format!("it was begun by version {}, this is {version}", manifest.version))
        } else if manifest.ended_early.is_none() {
            Some("it is whole".to_owned())
        } else {
            None
        };
        if let Some(why) = why {
            return Err(format!("the run in {} cannot be gone on with: {why}", options.folder.display()));
        }
        forget_unfinished(plan, &mut record);
        record.go_on()?;
        return Ok(record);
    }
    let manifest = manifest_of((plan.study, plan.scale), options.seed, arms.clone(), parameters);
    Record::begin(&options.folder, manifest, caption(plan, &arms, options))
}

pub(super) fn as_it_is() -> ArmMedia {
    let name = ArmMedia::AS_IT_IS.to_owned();
    ArmMedia { arm: "target".into(), cache: name.clone(), capacity: name, dilation: 1.0, data_strips: 0, saves: false }
}

/// One line for every table and picture: what was measured on which media.
fn caption(plan: &Plan, arms: &[ArmMedia], options: &Options) -> String {
    let system = match &options.given {
        Some(given) => format!("{} given targets", given.targets.len()),
        None => format!("own cluster of {} hosts in one process on one machine", plan.cluster.hosts),
    };
    let media = |arm: &ArmMedia| format!("{}: cache {}, capacity {}", arm.arm, arm.cache, arm.capacity);
    match arms.iter().find(|arm| arm.is_modelled()) {
        Some(first) => {
            let each: Vec<String> = arms.iter().map(media).collect();
            format!("{system}; modelled media, times x{}; {}", first.dilation, each.join("; "))
        }
        None => format!("{system}; media as they are"),
    }
}

/// A test is finished when each repeat has its cell, unbroken, and its step: a run may have been ended between writing the two.
fn forget_unfinished(plan: &Plan, record: &mut Record) {
    let (cells, steps) = (&record.results.cells, &record.manifest.steps);
    let measured = |id: &str, repeat| {
        cells.iter().any(|cell| cell.id == id && cell.repeat == repeat && cell.checks.broken.is_none())
            && steps.iter().any(|step| is_run_of(step, id, Some(repeat)))
    };
    let whole = |id: &str| (1..=plan.repeats).all(|repeat| measured(id, repeat));
    let ids: Vec<String> = cells.iter().map(|cell| cell.id.clone()).filter(|id| !whole(id)).collect();
    record.results.cells.retain(|cell| !ids.contains(&cell.id));
    record.manifest.steps.retain(|step| !ids.iter().any(|id| is_run_of(step, id, None)));
}

fn is_run_of(step: &Step, id: &str, which: Option<u32>) -> bool {
    let fits = |repeat: u32| which.is_none_or(|which| which == repeat);
    matches!(&step.action, Action::Run { cell, repeat } if cell == id && fits(*repeat))
}

/// The id of a test's cells.
fn id_of(arm: &ArmMedia, test: &Test) -> String {
    format!("{}/{}", arm.arm, test.id)
}

fn run_arm(
    plan: &Plan,
    arm: &ArmMedia,
    options: &Options,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
) -> Result<(), String> {
    let arm = if options.given.is_some() { &as_it_is() } else { arm };
    let is_done = |record: &Record, test: &Test| record.results.cells.iter().any(|cell| cell.id == id_of(arm, test));
    let left: Vec<&Test> = plan.tests.iter().filter(|test| !is_done(record, test)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let mut begun = process::unix_ms();
    say(format!("{}: starting", arm.arm));
    let system = start(plan, arm, options)?;
    record.manifest.target = system.facts(plan);
    record.step(step(arm, Action::Start, begun, system.counters()))?;
    if plan.precondition_passes > 0 {
        begun = process::unix_ms();
        say(format!("{}: writing every byte of {} disks", arm.arm, plan.disks));
        let written_bytes = precondition_as(system.targets(), plan.disk_bytes, plan.precondition_passes, &|number| {
            content_before(plan, options.seed, number)
        })?;
        let action = Action::Precondition { passes: plan.precondition_passes, written_bytes };
        record.step(step(arm, action, begun, system.counters()))?;
    }
    for test in left {
        begun = process::unix_ms();
        say(format!("{}: {}: clearing caches", arm.arm, test.id));
        if let Some((buffered_before_bytes, buffered_after_bytes)) = system.clear()? {
            if let Some(action) = space_of(plan, &system)? {
                record.step(step(arm, action, begun, system.counters()))?;
            }
            let action = Action::Clear { buffered_before_bytes, buffered_after_bytes };
            record.step(step(arm, action, begun, system.counters()))?;
        }
        for repeat in 1..=plan.repeats {
            let (step, cell) = run_one(plan, arm, test, repeat, &system, options)?;
            say(told(&cell, plan.repeats));
            let broken = cell.checks.broken.clone();
            record.measured(step, cell)?;
            if let Some(why) = broken {
                return Err(format!("{}, repeat {repeat}: {why}", id_of(arm, test)));
            }
        }
    }
    begun = process::unix_ms();
    if plan.content.is_some() {
        system.clear()?;
        if let Some(action) = space_of(plan, &system)? {
            record.step(step(arm, action, begun, system.counters()))?;
        }
    }
    if let System::Own(cluster, _) = system {
        cluster.stop();
    }
    record.step(step(arm, Action::Stop, begun, None))
}

/// A step without phases, which ends now.
pub(super) fn step(arm: &ArmMedia, action: Action, began_ms: u64, after: Option<Counters>) -> Step {
    let (arm, ended_ms) = (arm.arm.clone(), process::unix_ms());
    Step { arm, action, began_ms, ended_ms, phases: Vec::new(), before: None, after }
}

/// What the arm is measured on, with its disks.
fn start(plan: &Plan, arm: &ArmMedia, options: &Options) -> Result<System, String> {
    if let Some(given) = &options.given {
        return Ok(System::Given(given.clone()));
    }
    let folder = options.folder.join(CLUSTER);
    let cluster = OwnCluster::start(&folder, &plan.cluster, arm);
    let cluster = cluster.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
    let targets = cluster.create_disks(plan.disks, plan.disk_bytes, (plan.stripe_width, arm.data_strips))?;
    Ok(System::Own(cluster, targets))
}

/// One line for who waits.
fn told(cell: &Cell, repeats: u32) -> String {
    let mean = cell.total.mean_ms().map_or("-".to_owned(), |ms| format!("{ms:.3} ms"));
    let bytes = cell.total.bytes_per_s / f64::from(1 << 20);
    let doubts =
        if cell.checks.doubts.is_empty() { String::new() } else { format!("  ! {}", cell.checks.doubts.join("; ")) };
    format!("{} {}/{repeats}: {:.0} IOPS, {bytes:.1} MiB/s, mean {mean}{doubts}", cell.id, cell.repeat, cell.total.iops)
}

/// What blocks take, where the plan says what they hold.
fn space_of(plan: &Plan, system: &System) -> Result<Option<Action>, String> {
    match plan.content {
        Some(_) => system.space(),
        None => Ok(None),
    }
}

/// What a plan's blocks hold in its tests.
fn content_of(plan: &Plan, seed: u64) -> Content {
    let noise = Content::random(seed, 0);
    match &plan.content {
        None => noise,
        Some(ratios) => Content {
            duplicate_share: ratios.duplicate_share(),
            duplicates: ratios.duplicates,
            random_share: 1.0 / ratios.compress,
            ..noise
        },
    }
}

/// What they hold when disks are written first, so many of them at once. Each pass has a seed of its own: duplicates of the last one are those of the tests.
fn content_before(plan: &Plan, seed: u64, number: u64) -> Content {
    let seed = match plan.content {
        None => seed.wrapping_add(number << 32),
        Some(_) => seed.wrapping_sub(u64::from(plan.precondition_passes - 1)),
    };
    Content { disk: number * TARGETS_AT_ONCE as u64, ..content_of(plan, seed) }
}

/// Targets that are written first together: all disks at once keep thousands of requests waiting for nothing.
const TARGETS_AT_ONCE: usize = 16;

/// Writes noise to every byte of all targets in 128 KiB, `passes` times. Tells the bytes.
pub(super) fn precondition(targets: &[Address], disk_bytes: u64, passes: u32, seed: u64) -> Result<u64, String> {
    precondition_as(targets, disk_bytes, passes, &|number| Content::random(seed.wrapping_add(number << 32), 0))
}

/// The same with this content, by the number of some targets that are written together.
fn precondition_as(
    targets: &[Address],
    disk_bytes: u64,
    passes: u32,
    content: &dyn Fn(u64) -> Content,
) -> Result<u64, String> {
    let mut written_bytes = 0;
    for (number, targets) in targets.chunks(TARGETS_AT_ONCE).enumerate() {
        let precondition = Precondition {
            targets: targets.to_vec(),
            bytes_each: Some(disk_bytes),
            passes,
            block_bytes: 128 << 10,
            content: content(number as u64),
            destructive: true,
        };
        let written = precondition.run(&|_, _| {});
        written_bytes += written.map_err(|why| format!("while disks were written first: {why}"))?.bytes;
    }
    Ok(written_bytes)
}

pub(super) fn spec(kind: Kind, span_bytes: u64, seed: u64) -> Spec {
    Spec { kinds: vec![kind], addresses: Addresses::Uniform, span_begin: 0, span_bytes, seed }
}

fn job_of(plan: &Plan, test: &Test, repeat: u32, system: &System, options: &Options) -> Job {
    let load = &test.load;
    let kind = Kind::new(load.request_bytes, load.read_percent, load.random_percent);
    let spec = spec(kind, load.span_bytes, options.seed.wrapping_add(u64::from(repeat) << 32));
    let stream = |(number, target): (u32, &Address)| StreamJob {
        // Evenly: the first ones have one more where it does not divide.
        outstanding: load.outstanding / load.disks + u32::from(number < load.outstanding % load.disks),
        ..StreamJob::new(target.clone(), spec.clone(), content_of(plan, options.seed))
    };
    Job {
        streams: (0..load.disks).zip(system.targets()).map(stream).collect(),
        ramp: Duration::from_millis(plan.ramp_ms),
        measure: Duration::from_millis(plan.measure_ms),
        bytes_max: test.bytes_max,
        verify: false,
        destructive: true,
    }
}

fn run_one(
    plan: &Plan,
    arm: &ArmMedia,
    test: &Test,
    repeat: u32,
    system: &System,
    options: &Options,
) -> Result<(Step, Cell), String> {
    let job = job_of(plan, test, repeat, system, options);
    let before = system.counters();
    let begun = process::unix_ms();
    if let Some(round) = options.auto_ramp {
        ramp_until_steady(&job, round)?;
    }
    let power = options.power.as_ref().map(PowerSource::begin);
    let sampler = Sampler::start(system.cairn());
    let measured = run::run(&job).map_err(|e| e.to_string())?;
    let power = power.and_then(super::power::Reading::end);
    let samples = sampler.samples(&measured, plan.ramp_ms);
    let after = system.counters();
    let id = id_of(arm, test);
    let step = Step {
        arm: arm.arm.clone(),
        action: Action::Run { cell: id.clone(), repeat },
        began_ms: begun,
        ended_ms: process::unix_ms(),
        phases: phases(&measured, plan.ramp_ms),
        before,
        after,
    };
    let params = Params { arm: arm.arm.clone(), ..test.load.clone() };
    let counted = before.zip(after).map(|(before, after)| added(&before, &after));
    let cell = Cell { samples, counted, power, ..cell_of(id, repeat, params, &job, &measured) };
    Ok((step, cell))
}

/// What a load measured, as a cell.
pub(super) fn cell_of(id: String, repeat: u32, params: Params, job: &Job, measured: &Measured) -> Cell {
    let seconds = measured.measured.as_secs_f64();
    let side = |side: &crate::job::Side| Side::of(&side.latency, side.bytes, seconds);
    Cell {
        id,
        repeat,
        params,
        measured_ms: measured.measured.as_millis() as u64,
        reads: side(&measured.reads),
        writes: side(&measured.writes),
        total: side(&measured.both()),
        longest_silence_ms: Some(measured.longest_silence.as_secs_f64() * 1e3),
        checks: checks(job, measured),
        ..Cell::default()
    }
}

pub(super) fn phases(measured: &Measured, ramp_ms: u64) -> Vec<Phase> {
    let from = measured.began_unix_ms;
    let counts = from + ramp_ms;
    let over = counts + measured.measured.as_millis() as u64;
    let phase = |kind, began_ms, ended_ms| Phase { kind, began_ms, ended_ms };
    vec![
        phase(PhaseKind::Ramp, from, counts),
        phase(PhaseKind::Measure, counts, over),
        phase(PhaseKind::Drain, over, measured.ended_unix_ms.max(over)),
    ]
}

fn checks(job: &Job, measured: &Measured) -> Checks {
    let little = measured.little(job);
    Checks {
        outstanding: little.map(|little| little.outstanding),
        little_off: little.map(|little| little.off),
        harness_cpu: measured.harness_cpu,
        lag_p99_ns: measured.lag.as_ref().and_then(|lag| lag.quantile_ns(cairn_measure::Quantile::P99)),
        doubts: measured.doubts(job),
        broken: measured.broken.as_ref().map(ToString::to_string),
    }
}

/// What was counted between two snapshots; gauges are those of the second.
pub(super) fn added(before: &Counters, after: &Counters) -> Counters {
    let diff = |of: fn(&Counters) -> u64| of(after).saturating_sub(of(before));
    Counters {
        guest_written_bytes: diff(|c| c.guest_written_bytes),
        guest_read_bytes: diff(|c| c.guest_read_bytes),
        buffered_bytes: diff(|c| c.buffered_bytes),
        log_written_bytes: diff(|c| c.log_written_bytes),
        destaged_bytes: diff(|c| c.destaged_bytes),
        capacity_written_by_destage_bytes: diff(|c| c.capacity_written_by_destage_bytes),
        capacity_written_by_cleaning_bytes: diff(|c| c.capacity_written_by_cleaning_bytes),
        capacity_written_otherwise_bytes: diff(|c| c.capacity_written_otherwise_bytes),
        read_from_buffer_bytes: diff(|c| c.read_from_buffer_bytes),
        read_from_cache_bytes: diff(|c| c.read_from_cache_bytes),
        read_from_capacity_bytes: diff(|c| c.read_from_capacity_bytes),
        ..*after
    }
}

/// Rounds of the same load until the last five are steady, 25 at most.
fn ramp_until_steady(job: &Job, round: Duration) -> Result<(), String> {
    const ROUNDS_MAX: usize = 25;
    let round = Job { ramp: Duration::ZERO, measure: round, ..job.clone() };
    let mut rates = Vec::new();
    while rates.len() < ROUNDS_MAX {
        let measured = run::run(&round).map_err(|e| e.to_string())?;
        rates.push(measured.per_s(&measured.both()));
        if cairn_measure::steadiness(&rates).is_some_and(|steadiness| steadiness.is_steady()) {
            return Ok(());
        }
    }
    Err(format!("no steady state within {ROUNDS_MAX} rounds: take longer rounds, or a fixed --ramp"))
}

/// A folder for a run that was not told where.
pub fn folder_of(plan_name: &str, scale: &str) -> PathBuf {
    Path::new(&format!("{plan_name}-{scale}-{}", process::unix_ms() / 1000)).to_owned()
}
