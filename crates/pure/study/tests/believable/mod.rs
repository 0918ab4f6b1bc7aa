//! Runs that a study could have left: steps in order, and numbers that agree with each other.

use cairn_measure::Histogram;
use cairn_study::{
    Action, ArmMedia, Cell, Checks, Counters, Desktops, Gauges, Manifest, Params, Phase, PhaseKind, Plan, Results,
    SCHEMA, Sample, Scale, Side, Step, TargetFacts, Test, VdiPart, VdiStorm,
};

/// Both files of a run.
#[derive(Clone)]
pub struct Believable {
    pub manifest: Manifest,
    pub results: Results,
    now_ms: u64,
}

/// Five tests of three repeats; each machine does 100 requests a second.
pub fn qos() -> Believable {
    Believable::of("iometer-qos", 3)
}

/// Two arms; the second has 1.4 times the rate of the first at equal outstanding I/O.
pub fn mixed() -> Believable {
    Believable::of("optane-mixed", 3)
}

/// Eight seconds at 100 MB/s, then 40 MB/s, of which destage moves both copies.
pub fn seqwrite() -> Believable {
    Believable::of("optane-seqwrite", 1)
}

/// All parts of both arms; clones wrote what is their own, own copies their images.
pub fn desktops() -> Believable {
    let plan = VdiStorm::of(Scale::Quick);
    let target =
        TargetFacts { hosts: 3, copies: 2, buffer_bytes: plan.cluster.buffer_bytes * 3, ..TargetFacts::default() };
    let manifest = Manifest {
        schema: SCHEMA,
        study: VdiStorm::NAME.into(),
        scale: plan.scale.to_string(),
        target,
        media: plan.arms.clone(),
        parameters: plan.parameters(),
        ..Manifest::default()
    };
    let results = Results { schema: SCHEMA, study: VdiStorm::NAME.into(), ..Results::default() };
    let mut run = Believable { manifest, results, now_ms: 1_700_000_000_000 };
    let (each, first) = (u64::from(plan.desktops), u64::from(plan.first_writes));
    for arm in &plan.arms {
        run.step(arm, Action::Start, Vec::new());
        let image = if VdiStorm::is_of_clones(&arm.arm) { 0 } else { plan.image_bytes };
        run.part(arm, VdiPart::Deploy, each * first, 2 * each * (first * 4096 + image));
        run.step(arm, Action::Clear { buffered_before_bytes: 1 << 20, buffered_after_bytes: 0 }, Vec::new());
        run.part(arm, VdiPart::Boot, each * u64::from(plan.boot_requests), 0);
        run.part(arm, VdiPart::Sessions(plan.desktops), 1000, 0);
        run.step(arm, Action::Verify { blocks: 900, wrong: 0 }, Vec::new());
        run.part(arm, VdiPart::Recompose, each * first, 0);
        run.step(arm, Action::Recompose { desktops: plan.desktops }, Vec::new());
        run.step(arm, Action::Stop, Vec::new());
    }
    run
}

impl Believable {
    /// A part of the study of desktops: requests of a millisecond, all of them writes.
    fn part(&mut self, arm: &ArmMedia, part: VdiPart, requests: u64, buffered_bytes: u64) {
        let mut histogram = Histogram::default();
        (0..requests).for_each(|_| histogram.record(1_000_000));
        let all = Side::of(&histogram, requests * 4096, 1.0);
        let desktops = VdiStorm::of(Scale::Quick).desktops;
        let id = format!("{}/{}", arm.arm, part.id());
        self.step(arm, Action::Run { cell: id.clone(), repeat: 1 }, Vec::new());
        self.results.cells.push(Cell {
            id,
            repeat: 1,
            params: Params { arm: arm.arm.clone(), vms: desktops, ..Params::default() },
            reads: Side::of(&Histogram::default(), 0, 1.0),
            writes: all.clone(),
            total: all,
            counted: Some(Counters { buffered_bytes, ..Counters::default() }),
            desktops: Some(Desktops { count: desktops, total_s: 1.0, each_s: vec![1.0; desktops as usize] }),
            ..Cell::default()
        });
    }

    /// A whole run of a study's quick plan, with so many repeats.
    pub fn of(study: &str, repeats: u32) -> Self {
        let plan = Plan { repeats, ..Plan::of(study, Scale::Quick).unwrap() };
        let buffer_bytes = plan.cluster.buffer_bytes * u64::from(plan.cluster.hosts);
        let mut run = Self {
            manifest: Manifest {
                schema: SCHEMA,
                study: plan.study.into(),
                scale: plan.scale.to_string(),
                target: TargetFacts { hosts: 4, copies: 2, buffer_bytes, ..TargetFacts::default() },
                media: plan.arms.clone(),
                parameters: plan.parameters(),
                ..Manifest::default()
            },
            results: Results { schema: SCHEMA, study: plan.study.into(), ..Results::default() },
            now_ms: 1_700_000_000_000,
        };
        for (number, arm) in plan.arms.iter().enumerate() {
            run.step(arm, Action::Start, Vec::new());
            run.step(arm, Action::Precondition { passes: 1, written_bytes: plan.precondition_bytes() }, Vec::new());
            for test in &plan.tests {
                run.step(arm, Action::Clear { buffered_before_bytes: 1 << 20, buffered_after_bytes: 0 }, Vec::new());
                for repeat in 1..=plan.repeats {
                    run.measure(&plan, arm, test, repeat, if number == 0 { 100.0 } else { 140.0 });
                }
            }
            run.step(arm, Action::Stop, Vec::new());
        }
        run
    }

    /// The cells of one configuration.
    pub fn cells<'a>(&'a mut self, id: &'a str) -> impl Iterator<Item = &'a mut Cell> {
        self.results.cells.iter_mut().filter(move |cell| cell.id == id)
    }

    fn step(&mut self, arm: &ArmMedia, action: Action, phases: Vec<Phase>) {
        let began_ms = self.now_ms;
        let ended_ms = phases.last().map_or(began_ms + 10, |phase| phase.ended_ms);
        self.now_ms = ended_ms + 5;
        let arm = arm.arm.clone();
        self.manifest.steps.push(Step { arm, action, began_ms, ended_ms, phases, before: None, after: None });
    }

    fn measure(&mut self, plan: &Plan, arm: &ArmMedia, test: &Test, repeat: u32, each_s: f64) {
        let id = format!("{}/{}", arm.arm, test.id);
        let mut at = self.now_ms;
        let mut phase = |kind, ms: u64| {
            at += ms;
            Phase { kind, began_ms: at - ms, ended_ms: at }
        };
        let phases = vec![
            phase(PhaseKind::Ramp, plan.ramp_ms),
            phase(PhaseKind::Measure, plan.measure_ms),
            phase(PhaseKind::Drain, 12),
        ];
        self.step(arm, Action::Run { cell: id.clone(), repeat }, phases);
        self.results.cells.push(cell(plan, arm, test, (id, repeat), each_s));
    }
}

/// Each outstanding request ends `each_s` times a second.
fn cell(plan: &Plan, arm: &ArmMedia, test: &Test, (id, repeat): (String, u32), each_s: f64) -> Cell {
    let load = &test.load;
    let seconds = plan.measure_ms as f64 / 1e3;
    let per_s = each_s * f64::from(load.outstanding);
    let requests = (per_s * seconds) as u64;
    let took_ns = (1e9 / each_s) as u64;
    let reads = requests * u64::from(load.read_percent) / 100;
    let side = |requests: u64| {
        let mut histogram = Histogram::default();
        (0..requests).for_each(|_| histogram.record(took_ns));
        Side::of(&histogram, requests * u64::from(load.request_bytes), seconds)
    };
    let written = (requests - reads) * u64::from(load.request_bytes);
    Cell {
        id,
        repeat,
        params: Params { arm: arm.arm.clone(), ..load.clone() },
        measured_ms: plan.measure_ms,
        reads: side(reads),
        writes: side(requests - reads),
        total: side(requests),
        samples: if load.read_percent == 0 { knee() } else { Vec::new() },
        counted: Some(Counters { guest_written_bytes: written, buffered_bytes: written * 2, ..Counters::default() }),
        checks: Checks {
            outstanding: Some(load.outstanding.into()),
            little_off: Some(0.001),
            harness_cpu: 0.1,
            ..Checks::default()
        },
        ..Cell::default()
    }
}

/// Twenty seconds: the buffer fills for eight, congestion is seen from the seventh on, destage has begun before.
fn knee() -> Vec<Sample> {
    let second = |number: u64| Sample {
        until_ms: (number + 1) * 1000,
        written_bytes: if number < 8 { 100_000_000 } else { 40_000_000 },
        gauges: Some(Gauges {
            log_fill_max_permille: (number as u32 * 120).min(960),
            congestion: if number < 6 { 0 } else { 120 },
            destaged_bytes: number.saturating_sub(3) * 80_000_000,
            ..Gauges::default()
        }),
        ..Sample::default()
    };
    (0..20).map(second).collect()
}
