//! What was measured, on what, in which order, and what speaks against it.

use cairn_study::{Action, Cell, Manifest, PhaseKind, Step};

use super::Source;
use crate::{
    document::{Block, Section},
    number::{NOT_KNOWN, count, decimal, known, mb, mib, percent, short, signed},
    table::Table,
};

/// What a reader has to know first.
pub fn warnings(source: &Source<'_>) -> Vec<String> {
    let (manifest, results) = (source.manifest, source.results);
    let mut warnings = Vec::new();
    if let Some(why) = results.ended_early.as_ref().or(manifest.ended_early.as_ref()) {
        warnings
            .push(format!("Incomplete: the study ended early ({why}). What follows is what was measured until then."));
    }
    if results.cells.is_empty() {
        warnings.push("Nothing was measured.".into());
    }
    let broken = results.cells.iter().filter(|cell| cell.checks.broken.is_some()).count();
    if broken > 0 {
        warnings.push(format!("{broken} of {} repeats broke; they count in no mean.", results.cells.len()));
    }
    if source.arms.iter().any(|arm| arm.modelled) {
        warnings.push(
            "Modelled media: times are those of a model of devices. They compare the arms of this report with each other, and with \
             nothing that was measured on hardware."
                .into(),
        );
    }
    warnings
}

/// Target, media, machine, parameters.
pub fn measured(source: &Source<'_>) -> Option<Section> {
    let manifest = source.manifest;
    let mut table = Table::new("", 2, &["", ""]);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([name.to_owned(), value]);
        }
    };
    let target = &manifest.target;
    fact("target", target.description.clone());
    fact("addresses", some_of(&target.addresses));
    let known_count = |count: u32| if count == 0 { String::new() } else { count.to_string() };
    fact("hosts", known_count(target.hosts));
    fact("policy", target.policy.clone());
    fact("copies of each byte", known_count(target.copies));
    fact("write buffer", bytes(target.buffer_bytes));
    fact("read cache in memory", bytes(target.read_cache_bytes));
    fact("working set", working_set(source));
    for media in &manifest.media {
        let times = if media.is_modelled() { format!("; times x{}", short(media.dilation)) } else { String::new() };
        fact(&format!("media of {}", media.arm), format!("cache {}, capacity {}{times}", media.cache, media.capacity));
    }
    let machine = &manifest.machine;
    if machine.processors > 0 {
        let memory = bytes(machine.memory_bytes);
        fact(
            "load ran on",
            format!("{} x {}, {memory}, Linux {}", machine.processors, machine.processor, machine.kernel),
        );
    }
    fact("version", manifest.version.clone());
    fact("seed", manifest.seed.to_string());
    for (name, value) in &manifest.parameters {
        fact(name, value.clone());
    }
    Section::of("What was measured", vec![Block::Table(table)])
}

/// "1,024.0 MiB (1,073.7 MB)"; empty where it is not known.
fn bytes(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!("{} MiB ({} MB)", decimal(mib(bytes as f64), 1), decimal(mb(bytes as f64), 1)),
    }
}

/// The largest that any configuration asks for, beside what could hide the media from it.
fn working_set(source: &Source<'_>) -> String {
    let target = &source.manifest.target;
    let set = |cell: &Cell| cell.params.span_bytes.saturating_mul(cell.params.disks.into());
    let most = source.results.cells.iter().map(set).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let beside = |name: &str, copies: u32, of: u64| match of {
        0 => String::new(),
        of => format!("; {} of {name}", percent(Some(most as f64 * f64::from(copies.max(1)) / of as f64), 0)),
    };
    let copies = if target.copies > 1 { format!(", {} times over its copies", target.copies) } else { String::new() };
    format!(
        "at most {}{copies}{}{}",
        bytes(most),
        beside("the write buffer", target.copies, target.buffer_bytes),
        beside("the read cache", 1, target.read_cache_bytes)
    )
}

/// What the study concludes.
pub fn verdicts(source: &Source<'_>) -> Option<Section> {
    let mut table = Table::new("", 3, &["what was to be shown", "holds", "because"]);
    for verdict in &source.results.verdicts {
        let holds = if verdict.holds { "yes" } else { "NO" };
        table.row([verdict.rule.clone(), holds.into(), verdict.because.clone()]);
    }
    Section::of(
        "Verdicts by the study's own rules",
        if table.rows.is_empty() { Vec::new() } else { vec![Block::Table(table)] },
    )
}

/// Whether each row may be believed.
pub fn checks(source: &Source<'_>) -> Option<Section> {
    let head = [
        "configuration",
        "doubts",
        "repeat",
        "asked for",
        "outstanding",
        "off (%)",
        "load's CPU (%)",
        "late, p99 (ms)",
        "failed",
    ];
    let mut table = Table::new("", 2, &head).note(
        "Outstanding: rate x mean latency (Little's law), for a closed loop within 5 % of what was asked for. The load's own processor \
         time is in per cent of one processor: above 80 % the load measures itself.",
    );
    for cell in &source.results.cells {
        let checks = &cell.checks;
        let mut doubts = checks.doubts.clone();
        doubts.extend(checks.broken.iter().map(|why| format!("BROKE: {why}")));
        let asked = match cell.params.rate_per_s {
            Some(rate) => format!("{}/s", decimal(rate, 0)),
            None => cell.params.outstanding.to_string(),
        };
        table.row([
            cell.id.clone(),
            if doubts.is_empty() { "none".into() } else { doubts.join("; ") },
            cell.repeat.to_string(),
            asked,
            known(checks.outstanding, 2),
            checks.little_off.map_or_else(|| NOT_KNOWN.into(), |off| signed(off * 100.0, 1)),
            decimal(checks.harness_cpu * 100.0, 0),
            known(checks.lag_p99_ns.map(|ns| ns as f64 / 1e6), 3),
            failed(cell),
        ]);
    }
    Section::of("Self-checks", if table.rows.is_empty() { Vec::new() } else { vec![Block::Table(table)] })
}

/// Requests that failed; not known without samples.
pub fn failed(cell: &Cell) -> String {
    match cell.samples.as_slice() {
        [] => NOT_KNOWN.into(),
        samples => count(samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.failed))),
    }
}

/// Everything that was done, in order.
pub fn steps(source: &Source<'_>) -> Option<Section> {
    let manifest = source.manifest;
    let first = manifest.steps.iter().map(|step| step.began_ms).min()?;
    let head = ["step", "arm", "what", "begins (s)", "takes (s)", "ramp (s)", "measured (s)", "drain (s)"];
    let mut table = Table::new("", 3, &head).note("Times are seconds since the first step began.");
    for (number, step) in manifest.steps.iter().enumerate() {
        table.row([
            (number + 1).to_string(),
            step.arm.clone(),
            what(step),
            seconds(step.began_ms - first),
            seconds(step.ended_ms.saturating_sub(step.began_ms)),
            phase(step, PhaseKind::Ramp),
            phase(step, PhaseKind::Measure),
            phase(step, PhaseKind::Drain),
        ]);
    }
    Section::of("How the numbers came to be", vec![Block::Text(whole(manifest)), Block::Table(table)])
}

fn whole(manifest: &Manifest) -> String {
    let begin = manifest.steps.iter().map(|step| step.began_ms).min().unwrap_or(0);
    let end = manifest.steps.iter().map(|step| step.ended_ms).max().unwrap_or(begin);
    let runs = manifest.steps.iter().filter(|step| matches!(step.action, Action::Run { .. })).count();
    format!("{} steps, {runs} of them measured, in {} s.", manifest.steps.len(), seconds(end.saturating_sub(begin)))
}

fn phase(step: &Step, kind: PhaseKind) -> String {
    let phase = step.phases.iter().find(|phase| phase.kind == kind);
    phase.map_or_else(String::new, |phase| seconds(phase.ended_ms.saturating_sub(phase.began_ms)))
}

fn seconds(ms: u64) -> String {
    decimal(ms as f64 / 1e3, 1)
}

/// A step in words.
pub fn what(step: &Step) -> String {
    let in_mib = |bytes: u64| format!("{} MiB", decimal(mib(bytes as f64), 1));
    match &step.action {
        Action::Start => "start".into(),
        Action::Precondition { passes, written_bytes } => {
            format!("precondition: {passes} passes, {} written", in_mib(*written_bytes))
        }
        Action::Clear { buffered_before_bytes, buffered_after_bytes } => {
            format!(
                "clear: {} buffered before, {} after",
                in_mib(*buffered_before_bytes),
                in_mib(*buffered_after_bytes)
            )
        }
        Action::Run { cell, repeat } => format!("run {cell}, repeat {repeat}"),
        Action::Kill { host } => format!("kill {host}"),
        Action::Restart { host } => format!("restart {host}"),
        Action::Healthy => "healthy again".into(),
        Action::Verify { blocks, wrong } => format!("verify: {} blocks, {} wrong", count(*blocks), count(*wrong)),
        Action::Space { guest_bytes, before_bytes, after_bytes, beside_bytes } => format!(
            "space: {} written by guests; {} held, {} stored, {} beside that",
            in_mib(*guest_bytes),
            in_mib(*before_bytes),
            in_mib(*after_bytes),
            in_mib(*beside_bytes)
        ),
        Action::Recompose { desktops } => format!("{desktops} desktops made anew"),
        Action::Stop => "stop".into(),
    }
}

/// A few, and how many more: the manifest has all.
fn some_of(addresses: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = addresses[..addresses.len().min(SHOWN)].join(", ");
    match addresses.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more (manifest.json)"),
    }
}
