//! One run over time: throughput and latency of its samples, and what happened meanwhile.

use cairn_study::{Action, Cell, Manifest, PhaseKind, Sample, Step};

use super::{Source, facts::what, picture};
use crate::{
    document::{Block, Section},
    number::mib,
    plot::{Axis, Kind, LinePlot, Mark, Series},
};

/// Runs that are drawn, at most: more are looked at in `results.json`.
const RUNS_MAX: usize = 12;

/// Two pictures of each run.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let runs: Vec<&Cell> = source.results.cells.iter().filter(|cell| !cell.samples.is_empty()).collect();
    let most = Most::of(&runs);
    let mut blocks = Vec::new();
    for cell in runs.iter().take(RUNS_MAX) {
        let marks = marks(source.manifest, cell, most.seconds);
        blocks.push(picture(&throughput(source, cell, &marks, &most)));
        blocks.push(picture(&latency(source, cell, &marks, &most)));
    }
    if runs.len() > RUNS_MAX {
        blocks.push(Block::Text(format!("{} more runs are not drawn.", runs.len() - RUNS_MAX)));
    }
    Section::of("Over time", blocks)
}

/// Where the axes of all pictures end.
struct Most {
    seconds: f64,
    mib_per_s: f64,
    least_ms: f64,
    most_ms: f64,
}

impl Most {
    fn of(runs: &[&Cell]) -> Self {
        let mut most = Self { seconds: 0.0, mib_per_s: 0.0, least_ms: f64::INFINITY, most_ms: 0.0 };
        for piece in runs.iter().flat_map(|cell| pieces(cell)) {
            most.seconds = most.seconds.max(piece.until_s);
            most.mib_per_s = most.mib_per_s.max(piece.per_s(both(piece.sample)));
            if piece.sample.requests > 0 {
                most.least_ms = most.least_ms.min(piece.sample.mean_ns as f64 / 1e6);
                most.most_ms = most.most_ms.max(piece.sample.max_ns as f64 / 1e6);
            }
        }
        most
    }
}

/// A sample and when it was.
pub struct Piece<'a> {
    /// Where it ends.
    pub until_s: f64,
    /// How long it is; above 0.
    pub seconds: f64,
    /// What ended in it.
    pub sample: &'a Sample,
}

impl Piece<'_> {
    /// MiB/s of bytes of this piece.
    fn per_s(&self, bytes: u64) -> f64 {
        mib(bytes as f64) / self.seconds
    }
}

/// The samples of a run that have a length.
pub fn pieces(cell: &Cell) -> Vec<Piece<'_>> {
    let mut begin = 0;
    let mut pieces = Vec::new();
    for sample in &cell.samples {
        if sample.until_ms > begin {
            let seconds = (sample.until_ms - begin) as f64 / 1e3;
            pieces.push(Piece { until_s: sample.until_ms as f64 / 1e3, seconds, sample });
            begin = sample.until_ms;
        }
    }
    pieces
}

/// Bytes read and written.
fn both(sample: &Sample) -> u64 {
    sample.read_bytes.saturating_add(sample.written_bytes)
}

/// A run in the manifest, and what was done from its begin until the next run of its arm.
pub struct Run<'a> {
    /// When what is measured began, in ms since 1970.
    pub zero_ms: u64,
    /// Kills, restarts and the like, in order.
    pub steps: Vec<&'a Step>,
}

impl Run<'_> {
    /// Seconds from the begin of what is measured.
    pub fn seconds(&self, ms: u64) -> f64 {
        (ms as f64 - self.zero_ms as f64) / 1e3
    }
}

/// A run as the manifest has it; none where it has not.
pub fn run<'a>(manifest: &'a Manifest, cell: &Cell) -> Option<Run<'a>> {
    let is_this = |step: &Step| matches!(&step.action, Action::Run { cell: id, repeat } if *id == cell.id && *repeat == cell.repeat);
    let own = manifest.steps.iter().find(|step| is_this(step))?;
    let of_arm = || manifest.steps.iter().filter(|step| step.arm == own.arm && step.began_ms >= own.began_ms);
    let next = of_arm().filter(|step| matches!(step.action, Action::Run { .. }) && !is_this(step));
    let end = next.map(|step| step.began_ms).min().unwrap_or(u64::MAX);
    let measured = own.phases.iter().find(|phase| phase.kind == PhaseKind::Measure);
    let steps = of_arm().filter(|step| step.began_ms < end && !is_this(step)).collect();
    Some(Run { zero_ms: measured.map_or(own.began_ms, |phase| phase.began_ms), steps })
}

/// When a step is over that takes its time; when it began where it is an act.
pub fn moment_ms(step: &Step) -> u64 {
    match step.action {
        Action::Healthy => step.ended_ms,
        _ => step.began_ms,
    }
}

fn marks(manifest: &Manifest, cell: &Cell, until_s: f64) -> Vec<Mark> {
    let Some(run) = run(manifest, cell) else {
        return Vec::new();
    };
    let shown = |step: &&&Step| matches!(step.action, Action::Kill { .. } | Action::Restart { .. } | Action::Healthy);
    let mark = |step: &&Step| Mark { at: run.seconds(moment_ms(step)), name: what(step) };
    run.steps.iter().filter(shown).map(mark).filter(|mark| (0.0..=until_s).contains(&mark.at)).collect()
}

fn line(name: &str, style: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), points, style, kind: Kind::Line, on_right: false }
}

fn throughput(source: &Source<'_>, cell: &Cell, marks: &[Mark], most: &Most) -> LinePlot {
    let over = |bytes: fn(&Sample) -> u64| {
        pieces(cell).iter().map(|piece| (piece.until_s, piece.per_s(bytes(piece.sample)))).collect::<Vec<_>>()
    };
    LinePlot {
        title: format!("{}, repeat {}: throughput over time", cell.id, cell.repeat),
        caption: source.caption_of_all(),
        x: Axis::from_zero("time since the measurement began (s)", most.seconds),
        left: Axis::from_zero("throughput (MiB/s)", most.mib_per_s),
        right: None,
        series: vec![
            line("reads and writes", 0, over(both)),
            line("reads", 1, over(|sample| sample.read_bytes)),
            line("writes", 2, over(|sample| sample.written_bytes)),
        ],
        marks: marks.to_vec(),
    }
}

fn latency(source: &Source<'_>, cell: &Cell, marks: &[Mark], most: &Most) -> LinePlot {
    // Where nothing ended there is no latency: the line has a gap.
    let over = |ns: fn(&Sample) -> u64| {
        let ms = |piece: &Piece<'_>| match piece.sample.requests {
            0 => f64::NAN,
            _ => ns(piece.sample) as f64 / 1e6,
        };
        pieces(cell).iter().map(|piece| (piece.until_s, ms(piece))).collect::<Vec<_>>()
    };
    LinePlot {
        title: format!("{}, repeat {}: latency over time", cell.id, cell.repeat),
        caption: source.caption_of_all(),
        x: Axis::from_zero("time since the measurement began (s)", most.seconds),
        left: Axis::log("latency (ms)", most.least_ms, most.most_ms),
        right: None,
        series: vec![
            line("longest", 3, over(|sample| sample.max_ns)),
            line("p99", 1, over(|sample| sample.p99_ns)),
            line("mean", 0, over(|sample| sample.mean_ns)),
        ],
        marks: marks.to_vec(),
    }
}
