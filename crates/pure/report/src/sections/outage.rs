//! A host that dies under load: how long nothing was answered, how deep the dip was, when all copies were there again.

use cairn_study::{Action, Cell, Step};

use super::{
    Source,
    facts::failed,
    time::{Run, moment_ms, pieces, run},
};
use crate::{
    document::{Block, Section},
    number::{NOT_KNOWN, count, known, percent},
    table::Table,
};

/// A row for each run.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let head = [
        "configuration",
        "repeat",
        "killed at (s)",
        "restarted at (s)",
        "full redundancy after the kill (s)",
        "after the restart (s)",
        "stall (s)",
        "dip",
        "longest request (ms)",
        "failed requests",
        "blocks verified",
        "of them wrong",
    ];
    let mut table = Table::new("", 1, &head).note(format!(
        "Stall: the longest time in which no request of any disk ended; a request of one disk may have waited longer. Dip: by how much the slowest sample after the kill is below \
         the mean of those before it. Times are from the begin of the measurement. {}",
        source.note(&source.arms)
    ));
    for cell in &source.results.cells {
        table.row(row(source, cell));
    }
    Section::of(
        "Resilience: what a death cost",
        if table.rows.is_empty() { Vec::new() } else { vec![Block::Table(table)] },
    )
}

fn row(source: &Source<'_>, cell: &Cell) -> Vec<String> {
    let run = run(source.manifest, cell);
    let first = |is: fn(&Action) -> bool| {
        run.as_ref().and_then(|run| Some(run.seconds(moment_ms(run.steps.iter().find(|step| is(&step.action))?))))
    };
    let killed = first(|action| matches!(action, Action::Kill { .. }));
    let restarted = first(|action| matches!(action, Action::Restart { .. }));
    let healthy = run.as_ref().and_then(last_healthy);
    let since = |begin: Option<f64>| known(healthy.zip(begin).map(|(healthy, begin)| healthy - begin), 1);
    let verified = run.as_ref().and_then(|run| run.steps.iter().find_map(|step| verified(step)));
    let (blocks, wrong) = match verified {
        Some((blocks, wrong)) => (count(blocks), count(wrong)),
        None => (NOT_KNOWN.into(), NOT_KNOWN.into()),
    };
    let longest = cell.total.latency.map(|latency| latency.max_ns as f64 / 1e6);
    vec![
        cell.id.clone(),
        cell.repeat.to_string(),
        known(killed, 1),
        known(restarted, 1),
        since(killed),
        since(restarted),
        known(stall_s(cell), 2),
        percent(killed.and_then(|killed| dip(cell, killed)), 1),
        known(longest, 1),
        failed(cell),
        blocks,
        wrong,
    ]
}

/// When all copies were there after everything that was done to hosts.
fn last_healthy(run: &Run<'_>) -> Option<f64> {
    let healthy = run.steps.iter().rev().find(|step| step.action == Action::Healthy)?;
    Some(run.seconds(moment_ms(healthy)))
}

fn verified(step: &Step) -> Option<(u64, u64)> {
    match step.action {
        Action::Verify { blocks, wrong } => Some((blocks, wrong)),
        _ => None,
    }
}

/// The longest time without an answer, of all disks together; from whole samples where only those are known.
fn stall_s(cell: &Cell) -> Option<f64> {
    if let Some(ms) = cell.longest_silence_ms {
        return Some(ms / 1e3);
    }
    let (mut now, mut longest) = (0.0, 0.0);
    for piece in pieces(cell) {
        now = if piece.sample.requests == 0 { now + piece.seconds } else { 0.0 };
        longest = f64::max(longest, now);
    }
    (!cell.samples.is_empty()).then_some(longest)
}

/// How far the slowest sample after `killed_s` is below the mean of those before, as a share.
fn dip(cell: &Cell, killed_s: f64) -> Option<f64> {
    let pieces = pieces(cell);
    let before = pieces.iter().filter(|piece| piece.until_s <= killed_s);
    let (requests, seconds) =
        before.fold((0.0, 0.0), |sum, piece| (sum.0 + piece.sample.requests as f64, sum.1 + piece.seconds));
    let after = pieces.iter().filter(|piece| piece.until_s > killed_s);
    let slowest = after.map(|piece| piece.sample.requests as f64 / piece.seconds).reduce(f64::min)?;
    (requests > 0.0).then(|| (1.0 - slowest / (requests / seconds)).max(0.0))
}
