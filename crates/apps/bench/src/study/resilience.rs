//! Runs the study of a host's death, against a cluster of its own or what a user names and kills.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use cairn_study::{Action, ArmMedia, Params, Resilience, Step, TargetFacts};
use cairn_workload::{Content, Kind, Pace};

use super::{
    processes::Processes,
    record::{CLUSTER, Record, manifest_of},
    runner::{as_it_is, cell_of, phases, precondition, spec, step},
    sampler::Sampler,
};
use crate::{
    address::Address,
    job::{Job, Measured, RunError, StreamJob},
    process, run,
};

/// Requests that may be outstanding at a disk: a stall of some seconds is made up for after it, not forgotten.
const OUTSTANDING_MAX: u32 = 1024;
/// How long all data may take to have all its copies again.
const HEALTHY_MAX: Duration = Duration::from_secs(600);

/// What is measured.
enum System {
    Own(Box<Processes>, Vec<Address>),
    Given(Hooks),
}

/// Targets that somebody else keeps, and how what serves them dies.
#[derive(Debug, Clone)]
pub struct Hooks {
    /// Where they are.
    pub targets: Vec<Address>,
    /// A command that ends what serves them, or a part of it.
    pub kill: String,
    /// A command that starts it again.
    pub restart: Option<String>,
}

impl System {
    fn targets(&self) -> &[Address] {
        match self {
            Self::Own(_, targets) => targets,
            Self::Given(hooks) => &hooks.targets,
        }
    }

    /// Kills, and tells whom.
    fn kill(&mut self) -> Result<String, String> {
        match self {
            Self::Own(cluster, _) => {
                cluster.kill_victim();
                Ok(cluster.victim())
            }
            Self::Given(hooks) => shell(&hooks.kill).map(|()| hooks.kill.clone()),
        }
    }

    /// Starts it again, and tells whom; none where nothing says how.
    fn restart(&mut self) -> Result<Option<String>, String> {
        match self {
            Self::Own(cluster, _) => cluster.restart_victim().map(|()| Some(cluster.victim())),
            Self::Given(hooks) => {
                hooks.restart.as_deref().map(|command| shell(command).map(|()| command.into())).transpose()
            }
        }
    }
}

fn shell(command: &str) -> Result<(), String> {
    let status =
        Command::new("sh").args(["-c", command]).status().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// Runs it, and says on the way what it does.
///
/// # Errors
/// What kept it from being measured. What the failure did to the load is in the record.
pub fn run(
    plan: &Resilience,
    folder: &Path,
    hooks: Option<Hooks>,
    seed: u64,
    say: &(dyn Fn(String) + Sync),
) -> Result<Record, String> {
    let media = if hooks.is_some() { as_it_is() } else { plan.media.clone() };
    let manifest = manifest_of((Resilience::NAME, plan.scale), seed, vec![media.clone()], plan.parameters());
    let system = match (&hooks, media.is_modelled()) {
        (Some(hooks), _) => format!("{} given targets; media as they are", hooks.targets.len()),
        (None, true) => format!(
            "own cluster of {} hosts, a process each, on one machine; modelled media, times x{}: cache {}, capacity {}",
            plan.cluster.hosts, media.dilation, media.cache, media.capacity
        ),
        (None, false) => format!("own cluster of {} hosts, a process each, on one machine", plan.cluster.hosts),
    };
    let mut record = Record::begin(folder, manifest, system)?;
    let outcome = prepared(plan, &media, hooks, seed, &mut record, say)
        .and_then(|system| measured(plan, &media, system, seed, &mut record, say));
    record.finish(outcome)
}

fn prepared(
    plan: &Resilience,
    media: &ArmMedia,
    hooks: Option<Hooks>,
    seed: u64,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
) -> Result<System, String> {
    let mut begun = process::unix_ms();
    let own = hooks.is_none();
    let system = match hooks {
        Some(hooks) => System::Given(hooks),
        None => {
            say(format!("starting {} hosts and an etcd", plan.cluster.hosts));
            let cluster = Processes::start(&record.folder().join(CLUSTER), &plan.cluster, media)?;
            let targets = cluster.create_disks(plan.disks, plan.disk_bytes)?;
            System::Own(Box::new(cluster), targets)
        }
    };
    record.manifest.target = TargetFacts {
        description: record.results.caption.clone(),
        addresses: system.targets().iter().map(ToString::to_string).collect(),
        hosts: if own { plan.cluster.hosts } else { 0 },
        policy: if own { "mirror, FTT 1".into() } else { String::new() },
        copies: if own { 2 } else { 0 },
        buffer_bytes: if own { plan.cluster.buffer_bytes * u64::from(plan.cluster.hosts) } else { 0 },
        read_cache_bytes: if own { plan.cluster.read_cache_bytes * u64::from(plan.cluster.hosts) } else { 0 },
    };
    record.step(step(media, Action::Start, begun, None))?;
    begun = process::unix_ms();
    say(format!("writing every byte of {} disks", system.targets().len()));
    let written_bytes = precondition(system.targets(), plan.disk_bytes, 1, seed)?;
    record.step(step(media, Action::Precondition { passes: 1, written_bytes }, begun, None))?;
    Ok(system)
}

fn job_of(plan: &Resilience, targets: &[Address], seed: u64) -> Job {
    let each = plan.rate_per_s / targets.len() as f64;
    let spec = spec(Kind::new(4096, plan.read_percent, 100), plan.disk_bytes, seed);
    let stream = |target: &Address| StreamJob {
        outstanding: OUTSTANDING_MAX,
        pace: Pace::Rate { per_s: each },
        ..StreamJob::new(target.clone(), spec.clone(), Content::random(seed, 0))
    };
    Job {
        streams: targets.iter().map(stream).collect(),
        ramp: Duration::from_millis(plan.ramp_ms),
        measure: Duration::from_millis(plan.measure_ms),
        bytes_max: None,
        verify: true,
        destructive: true,
    }
}

fn measured(
    plan: &Resilience,
    media: &ArmMedia,
    mut system: System,
    seed: u64,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
) -> Result<(), String> {
    let job = job_of(plan, system.targets(), seed);
    let began_ms = process::unix_ms();
    say(format!("{:.0} requests a second for {} s", plan.rate_per_s, plan.measure_ms / 1000));
    let (load, failures) = thread::scope(|scope| {
        let load = scope.spawn(|| run::run(&job));
        let over = || load.is_finished();
        let failures = fail(plan, media, &mut system, record, say, &over);
        let load = load.join().unwrap_or_else(|_| Err(RunError::Job("the load generator failed".into())));
        (load, failures)
    });
    let load = load.map_err(|e| e.to_string())?;
    let id = format!("{}/rate", media.arm);
    let params = Params {
        arm: media.arm.clone(),
        disks: system.targets().len() as u32,
        vms: system.targets().len() as u32,
        request_bytes: 4096,
        read_percent: plan.read_percent,
        random_percent: 100,
        rate_per_s: Some(plan.rate_per_s),
        span_bytes: plan.disk_bytes,
        ..Params::default()
    };
    let samples = Sampler::start(None).samples(&load, plan.ramp_ms);
    let cell = cairn_study::Cell { samples, ..cell_of(id.clone(), 1, params, &job, &load) };
    let action = Action::Run { cell: id, repeat: 1 };
    let ended_ms = load.ended_unix_ms;
    let run = Step { began_ms, ended_ms, phases: phases(&load, plan.ramp_ms), ..step(media, action, began_ms, None) };
    record.measured(run, cell)?;
    // Only now: what was measured until a hook failed is kept.
    failures?;
    if let Some(why) = &load.broken {
        say(format!("the load broke: {why}"));
    }
    read_back(media, &load, record, say)
}

fn read_back(
    media: &ArmMedia,
    load: &Measured,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
) -> Result<(), String> {
    let began_ms = process::unix_ms();
    match run::read_back(load) {
        Ok(verified) => {
            let wrong = verified.first_wrong.map_or(String::new(), |first| format!(", the first {first}"));
            say(format!("{} blocks read back, {} wrong{wrong}", verified.places, verified.wrong));
            record.step(step(media, Action::Verify { blocks: verified.places, wrong: verified.wrong }, began_ms, None))
        }
        // Said by the verdicts: a target that is gone cannot show what it holds.
        Err(why) => {
            say(format!("nothing could be read back: {why}"));
            Ok(())
        }
    }
}

/// Kills when it is time, starts again when it is time, and waits until all copies are in sync.
fn fail(
    plan: &Resilience,
    media: &ArmMedia,
    system: &mut System,
    record: &mut Record,
    say: &(dyn Fn(String) + Sync),
    over: &dyn Fn() -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    let until = |ms: u64| {
        let due = Duration::from_millis(plan.ramp_ms + ms);
        while begun.elapsed() < due && !over() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    until(plan.kill_ms);
    let mut began_ms = process::unix_ms();
    let host = system.kill()?;
    say(format!("killed: {host}"));
    record.step(step(media, Action::Kill { host }, began_ms, None))?;
    until(plan.restart_ms);
    began_ms = process::unix_ms();
    let Some(host) = system.restart()? else { return Ok(()) };
    say(format!("started again: {host}"));
    record.step(step(media, Action::Restart { host }, began_ms, None))?;
    let System::Own(cluster, _) = system else { return Ok(()) };
    began_ms = process::unix_ms();
    let waiting = Instant::now();
    while !cluster.is_healthy() {
        if waiting.elapsed() > HEALTHY_MAX {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    say("all data has all its copies again".into());
    record.step(step(media, Action::Healthy, began_ms, None))
}
