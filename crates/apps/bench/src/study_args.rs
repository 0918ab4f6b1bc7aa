//! Studies on the command line: list, describe, plan, run, verify.

use std::{path::PathBuf, time::Duration};

use cairn_bench::{
    address::Address,
    report,
    study::{self, Given, Hooks, Options, PowerSource, Record},
};
use cairn_study::{MadeOf, Plan, Resilience, STUDIES, Scale, Study, VdiStorm};
use cairn_types::format_bytes;
use clap::{Args, Subcommand};

use crate::{DONE, REFUSED, USAGE, seconds::seconds};

#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Shows the studies that there are.
    List,
    /// Tells what a study is after, what it does, and what cannot be compared with its document.
    Describe {
        /// The study (see `list`).
        study: String,
    },
    /// Shows what a study would do: its tests, what it writes, how long it takes.
    Plan(Which),
    /// Runs a study, on a cluster of its own or on given targets; writes manifest, results and histograms to a folder.
    Run(Box<Run>),
    /// Checks a run against its study's rules: order, phases, repeats, Little's law, amplification.
    Verify {
        /// The folder of the run.
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Which {
    /// The study (see `list`).
    study: String,
    /// quick: minutes, on two processors; lab: about an hour; paper: the document's own numbers.
    #[arg(long, default_value = "quick")]
    scale: Scale,
    /// Tests to run, by id, such as vms-4,vms-8; all where left out.
    #[arg(long, value_delimiter = ',')]
    tests: Vec<String>,
    /// Repeats of each test instead of the scale's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,
    /// Seconds before anything counts instead of the scale's.
    #[arg(long, value_parser = seconds)]
    ramp: Option<Duration>,
    /// Seconds that are measured instead of the scale's.
    #[arg(long, short = 't', value_parser = seconds)]
    time: Option<Duration>,
    /// Arms, each as NAME:CACHE:CAPACITY with media models, such as hybrid:optane:hdd10k; those of the study where left out.
    #[arg(long, value_name = "NAME:CACHE:CAPACITY")]
    arm: Vec<String>,
    /// Every time of the media models is multiplied by this instead of the scale's factor.
    #[arg(long)]
    dilation: Option<f64>,
    /// For vdi-storm: so many desktops instead of the scale's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    desktops: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    which: Which,
    /// Where the run is written to [default: STUDY-SCALE-TIME here].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A target for each disk of the study, instead of a cluster of its own: nbd+unix://, nbd://, vhost-user://, a block device or a file.
    #[arg(long)]
    target: Vec<Address>,
    /// The management API of the Cairn cluster that serves the targets: for its counters, and to clear its caches.
    #[arg(long, requires = "target")]
    api: Option<String>,
    /// A command that clears the caches of what serves the targets.
    #[arg(long, requires = "target", conflicts_with = "api")]
    clear_command: Option<String>,
    /// For resilience on given targets: the command that ends what serves them, or a part of it.
    #[arg(long, requires = "target")]
    kill_command: Option<String>,
    /// And the command that starts it again.
    #[arg(long, requires = "kill_command")]
    restart_command: Option<String>,
    /// The targets' data may be lost.
    #[arg(long)]
    destructive: bool,
    /// Go on with the interrupted run in --dir.
    #[arg(long, requires = "dir")]
    resume: bool,
    /// What the target draws: rapl, command:CMD that prints watts, or watts such as 350W. None: told as n/a.
    #[arg(long)]
    power: Option<PowerSource>,
    /// Instead of a fixed ramp, rounds of so many seconds until the last five are steady (SNIA's rule), 25 at most.
    #[arg(long, value_parser = seconds)]
    auto_ramp: Option<Duration>,
    /// Of all that is drawn: one seed is one load.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Carries it out, and tells the exit code.
pub fn run(command: StudyCommand) -> u8 {
    let outcome = match command {
        StudyCommand::List => {
            STUDIES.iter().for_each(|study| println!("{:<16} {}", study.name, study.about));
            Ok(DONE)
        }
        StudyCommand::Describe { study } => describe(&study).map_err(|why| (USAGE, why)),
        StudyCommand::Plan(which) => plan_of(&which).map_err(|why| (USAGE, why)),
        StudyCommand::Run(run) => measure(&run),
        StudyCommand::Verify { dir } => verify(&dir).map_err(|why| (USAGE, why)),
    };
    outcome.unwrap_or_else(|(code, why)| {
        eprintln!("error: {why}");
        code
    })
}

fn describe(study: &str) -> Result<u8, String> {
    print!("{}", Study::of(study)?.page);
    Ok(DONE)
}

fn plan_of(which: &Which) -> Result<u8, String> {
    match Study::of(&which.study)?.made_of {
        MadeOf::Tests(_) => plan(which).map(|plan| show(&plan)),
        MadeOf::HostDeath(of) => resilience_of(which, of).map(|plan| show_resilience(&plan)),
        MadeOf::Desktops(of) => desktops_of(which, of).map(|plan| show_desktops(&plan)),
    }
}

/// The plan that is asked for.
fn plan(which: &Which) -> Result<Plan, String> {
    no_desktops(which)?;
    let Some(mut plan) = Plan::of(&which.study, which.scale) else {
        return Err(format!("{:?} is no study of tests", which.study));
    };
    if !which.tests.is_empty() {
        if let Some(wrong) = which.tests.iter().find(|id| plan.tests.iter().all(|test| test.id != **id)) {
            let all: Vec<&str> = plan.tests.iter().map(|test| test.id.as_str()).collect();
            return Err(format!("{} has no test {wrong}: its tests are {}", plan.study, all.join(", ")));
        }
        plan.tests.retain(|test| which.tests.contains(&test.id));
        // Disks that no test asks are not made, nor written first.
        plan.disks = plan.tests.iter().map(|test| test.load.disks).max().unwrap_or(plan.disks);
    }
    if !which.arm.is_empty() {
        let dilation = plan.arms.first().map_or(1.0, |arm| arm.dilation);
        plan.arms = which.arm.iter().map(|text| arm(text, dilation)).collect::<Result<_, _>>()?;
        let mut names: Vec<&str> = plan.arms.iter().map(|arm| arm.arm.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two arms are named {:?}: give each its own name", twice[0]));
        }
    }
    if let Some(dilation) = dilation_of(which)? {
        plan.arms.iter_mut().for_each(|arm| arm.dilation = dilation);
    }
    plan.repeats = which.repeats.unwrap_or(plan.repeats);
    plan.ramp_ms = which.ramp.map_or(plan.ramp_ms, |ramp| ramp.as_millis() as u64);
    plan.measure_ms = which.time.map_or(plan.measure_ms, |time| time.as_millis() as u64);
    if plan.measure_ms == 0 {
        return Err("a measured time of nothing: take a second or more".into());
    }
    Ok(plan)
}

/// The factor that is asked for.
fn dilation_of(which: &Which) -> Result<Option<f64>, String> {
    match which.dilation {
        Some(dilation) if !(1.0..=10_000.0).contains(&dilation) => {
            Err(format!("a dilation of {dilation}: take 1 to 10,000"))
        }
        dilation => Ok(dilation),
    }
}

fn arm(text: &str, dilation: f64) -> Result<cairn_study::ArmMedia, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [name, cache, capacity] = parts[..] else {
        return Err(format!("{text:?} is no arm: write NAME:CACHE:CAPACITY, such as hybrid:optane:hdd10k"));
    };
    if name.is_empty() || name.contains([',', '/']) {
        return Err(format!("{text:?}: an arm's name has one character or more, and neither comma nor slash"));
    }
    Ok(cairn_study::ArmMedia {
        arm: name.into(),
        cache: cache.into(),
        capacity: capacity.into(),
        dilation,
        data_strips: 0,
        saves: false,
    })
}

fn show(plan: &Plan) -> u8 {
    println!("{} at scale {}", plan.study, plan.scale);
    for arm in &plan.arms {
        println!("  arm {}: cache {}, capacity {}, times x{}", arm.arm, arm.cache, arm.capacity, arm.dilation);
    }
    let (cluster, disk) = (&plan.cluster, format_bytes(plan.disk_bytes));
    println!(
        "  on {} hosts, each with a write buffer of {}, {} for cached reads and {} capacity devices of {}; {} disks of {disk}",
        cluster.hosts,
        format_bytes(cluster.buffer_bytes),
        format_bytes(cluster.read_cache_bytes),
        cluster.capacity_devices,
        format_bytes(cluster.capacity_bytes),
        plan.disks,
    );
    for test in &plan.tests {
        let load = &test.load;
        let most = test.bytes_max.map_or(String::new(), |bytes| format!(", {} at most", format_bytes(bytes)));
        println!(
            "  clear, then {} x {}: {} disks, {} requests, {} % read, {} % random, {} outstanding{most}",
            plan.repeats,
            test.id,
            load.disks,
            format_bytes(load.request_bytes.into()),
            load.read_percent,
            load.random_percent,
            load.outstanding,
        );
    }
    let seconds = plan.load_ms() / 1000;
    println!(
        "  {} runs, {seconds} s of load at most; first {} are written, and before each test caches are cleared",
        plan.runs(),
        format_bytes(plan.precondition_bytes())
    );
    DONE
}

fn measure(run: &Run) -> Result<u8, (u8, String)> {
    match Study::of(&run.which.study).map_err(|why| (USAGE, why))?.made_of {
        MadeOf::HostDeath(of) => return resilience(run, of),
        MadeOf::Desktops(of) => return desktops(run, of),
        MadeOf::Tests(_) => {}
    }
    let plan = plan(&run.which).map_err(|why| (USAGE, why))?;
    let given = (!run.target.is_empty()).then(|| Given {
        targets: run.target.clone(),
        api: run.api.clone(),
        clear: run.clear_command.clone(),
    });
    let folder = run.dir.clone().unwrap_or_else(|| study::folder_of(plan.study, &plan.scale.to_string()));
    let options = Options {
        folder: folder.clone(),
        given,
        destructive: run.destructive,
        resume: run.resume,
        power: run.power.clone(),
        seed: run.seed,
        auto_ramp: run.auto_ramp,
    };
    let say = said();
    let record = study::run(&plan, &options, &say).map_err(|why| (REFUSED, why))?;
    judge(&record);
    reported(&record)?;
    Ok(DONE)
}

/// Says what a study does, with the seconds since now.
fn said() -> impl Fn(String) + Sync {
    let begun = std::time::Instant::now();
    move |words| eprintln!("{:>7.1} s  {words}", begun.elapsed().as_secs_f64())
}

/// Of a study whose verdict is its result.
fn judged(record: &Record) -> Result<u8, (u8, String)> {
    let held = judge(record);
    reported(record)?;
    Ok(if held { DONE } else { REFUSED })
}

/// Writes the reports, and says where they are.
fn reported(record: &Record) -> Result<(), (u8, String)> {
    let folder = record.folder();
    let files = report::write(folder).map_err(|why| (REFUSED, why.to_string()))?;
    println!("{} runs are in {}:", record.results.cells.len(), folder.display());
    files.iter().for_each(|file| println!("  {}", file.display()));
    Ok(())
}

fn no_desktops(which: &Which) -> Result<(), String> {
    match which.desktops {
        Some(_) => Err(format!("{} has no desktops: --desktops is for {}", which.study, VdiStorm::NAME)),
        None => Ok(()),
    }
}

/// The study of a host's death, as it is asked for.
fn resilience_of(which: &Which, of: fn(Scale) -> Resilience) -> Result<Resilience, String> {
    no_desktops(which)?;
    if !which.tests.is_empty() || which.repeats.is_some() {
        return Err("resilience is one run: --tests and --repeats have no meaning for it".into());
    }
    let mut plan = of(which.scale);
    if let Some(arm) = which.arm.first() {
        plan.media = self::arm(arm, plan.media.dilation)?;
    }
    plan.media.dilation = dilation_of(which)?.unwrap_or(plan.media.dilation);
    if let Some(time) = which.time {
        let (whole, ms) = (plan.measure_ms as f64, time.as_millis() as u64);
        let part = ms as f64 / whole;
        (plan.kill_ms, plan.restart_ms) = ((plan.kill_ms as f64 * part) as u64, (plan.restart_ms as f64 * part) as u64);
        plan.measure_ms = ms;
    }
    plan.ramp_ms = which.ramp.map_or(plan.ramp_ms, |ramp| ramp.as_millis() as u64);
    Ok(plan)
}

fn show_resilience(plan: &Resilience) -> u8 {
    let (cluster, media) = (&plan.cluster, &plan.media);
    println!("resilience at scale {}", plan.scale);
    println!(
        "  {} hosts, a process each, with a write buffer of {} and {} capacity devices of {}; cache {}, capacity {}, times x{}",
        cluster.hosts,
        format_bytes(cluster.buffer_bytes),
        cluster.capacity_devices,
        format_bytes(cluster.capacity_bytes),
        media.cache,
        media.capacity,
        media.dilation
    );
    println!("  {} disks of {}, every byte written once", plan.disks, format_bytes(plan.disk_bytes));
    println!(
        "  {} requests of 4 KiB due each second, {} % read: {} s of ramp and {} s that count",
        plan.rate_per_s,
        plan.read_percent,
        plan.ramp_ms as f64 / 1e3,
        plan.measure_ms as f64 / 1e3
    );
    println!(
        "  after {} s of those a host is killed, after {} s it is started again; then what was written is read back",
        plan.kill_ms as f64 / 1e3,
        plan.restart_ms as f64 / 1e3
    );
    DONE
}

/// Its verdict is the result: what a failure did to a load is what it is for.
fn resilience(run: &Run, of: fn(Scale) -> Resilience) -> Result<u8, (u8, String)> {
    let usage = |why: &str| Err((USAGE, why.to_owned()));
    if run.resume || run.auto_ramp.is_some() {
        return usage("resilience is one run: --resume and --auto-ramp have no meaning for it");
    }
    let plan = resilience_of(&run.which, of).map_err(|why| (USAGE, why))?;
    let hooks = match (&run.kill_command, run.target.is_empty()) {
        (Some(kill), false) => {
            let (targets, restart) = (run.target.clone(), run.restart_command.clone());
            Some(Hooks { targets, kill: kill.clone(), restart })
        }
        (None, false) => return usage("given targets need --kill-command: what ends what serves them"),
        _ => None,
    };
    if hooks.is_some() && !run.destructive {
        let why = "this study writes, and what the targets hold is lost: say --destructive if that is meant";
        return Err((REFUSED, why.into()));
    }
    let folder = run.dir.clone().unwrap_or_else(|| study::folder_of(Resilience::NAME, &plan.scale.to_string()));
    let say = said();
    let record = study::run_resilience(&plan, &folder, hooks, run.seed, &say).map_err(|why| (REFUSED, why))?;
    judged(&record)
}

/// The study of desktops, as it is asked for.
fn desktops_of(which: &Which, of: fn(Scale) -> VdiStorm) -> Result<VdiStorm, String> {
    if !which.tests.is_empty() || which.repeats.is_some() {
        return Err("vdi-storm is one run: --tests and --repeats have no meaning for it".into());
    }
    let mut plan = of(which.scale).with_desktops(which.desktops);
    if let Some(text) = which.arm.first() {
        if which.arm.len() > 1 {
            return Err("vdi-storm has its own two arms: one --arm names the media of both".into());
        }
        let media = arm(text, plan.arms[0].dilation)?;
        for own in &mut plan.arms {
            (own.cache, own.capacity) = (media.cache.clone(), media.capacity.clone());
        }
    }
    if let Some(dilation) = dilation_of(which)? {
        plan.arms.iter_mut().for_each(|arm| arm.dilation = dilation);
    }
    plan.ramp_ms = which.ramp.map_or(plan.ramp_ms, |ramp| ramp.as_millis() as u64);
    plan.measure_ms = which.time.map_or(plan.measure_ms, |time| time.as_millis() as u64);
    if plan.measure_ms == 0 {
        return Err("a measured time of nothing: take a second or more".into());
    }
    Ok(plan)
}

fn show_desktops(plan: &VdiStorm) -> u8 {
    let (cluster, media) = (&plan.cluster, &plan.arms[0]);
    println!("{} at scale {}", VdiStorm::NAME, plan.scale);
    println!(
        "  {} hosts, each with a write buffer of {} and {} capacity devices of {}; cache {}, capacity {}, times x{}",
        cluster.hosts,
        format_bytes(cluster.buffer_bytes),
        cluster.capacity_devices,
        format_bytes(cluster.capacity_bytes),
        media.cache,
        media.capacity,
        media.dilation
    );
    println!(
        "  a golden disk of {} with an image of {}",
        format_bytes(plan.golden_bytes),
        format_bytes(plan.image_bytes)
    );
    println!(
        "  {} desktops, first as clones of its snapshot, then on a new cluster as own copies of the image:",
        plan.desktops
    );
    println!("  deploy: each is made, and writes {} x 4 KiB", plan.first_writes);
    println!(
        "  clear, then boot, all at once: {} requests of {}, {} % read, one after the other",
        plan.boot_requests,
        format_bytes(VdiStorm::BOOT_REQUEST_BYTES.into()),
        VdiStorm::BOOT_READ_PERCENT
    );
    let steps = plan.sessions_each.len();
    println!(
        "  work: {} to {} sessions in {steps} steps at most, {} requests a second each, {} % read; {} s of ramp and {} s that count",
        plan.desktops,
        plan.desktops * plan.sessions_each.last().copied().unwrap_or_default(),
        plan.session_per_s / media.dilation,
        VdiStorm::SESSION_READ_PERCENT,
        plan.ramp_ms as f64 / 1e3,
        plan.measure_ms as f64 / 1e3
    );
    println!("  recompose: {} of the golden disk change; each desktop is made anew", format_bytes(plan.patch_bytes));
    DONE
}

/// Its verdict is the result, as that of resilience.
fn desktops(run: &Run, of: fn(Scale) -> VdiStorm) -> Result<u8, (u8, String)> {
    let usage = |why: &str| Err((USAGE, why.to_owned()));
    if run.resume || run.auto_ramp.is_some() || run.power.is_some() {
        return usage("vdi-storm is one run: --resume, --auto-ramp and --power have no meaning for it");
    }
    if !run.target.is_empty() {
        return usage("vdi-storm makes clones of snapshots, on clusters of its own: it takes no --target");
    }
    let plan = desktops_of(&run.which, of).map_err(|why| (USAGE, why))?;
    let folder = run.dir.clone().unwrap_or_else(|| study::folder_of(VdiStorm::NAME, &plan.scale.to_string()));
    let say = said();
    let record = study::run_vdi_storm(&plan, &folder, run.seed, &say).map_err(|why| (REFUSED, why))?;
    judged(&record)
}

fn verify(dir: &std::path::Path) -> Result<u8, String> {
    Ok(if judge(&Record::read(dir).map_err(|e| e.to_string())?) { DONE } else { REFUSED })
}

/// Prints the verdicts, and tells whether all hold.
fn judge(record: &Record) -> bool {
    let verdicts = cairn_study::verify(&record.manifest, &record.results);
    for verdict in &verdicts {
        println!("{} {}: {}", if verdict.holds { "ok  " } else { "FAIL" }, verdict.rule, verdict.because);
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.holds).count();
    println!("{} rules checked, {failed} broken", verdicts.len());
    failed == 0
}
