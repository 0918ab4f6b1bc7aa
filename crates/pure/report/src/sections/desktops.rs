//! Desktops: seconds each to deploy, boot and recompose, arms beside each other, and how many sessions they carry.
//!
//! Assumes     both arms were asked the same (`cairn-study`)

use cairn_study::{Cell, VdiPart, response_ms, threshold_ms};

use super::Source;
use crate::{
    document::{Block, Section},
    group::Arm,
    number::{NOT_KNOWN, count, decimal, known, percent},
    table::Table,
};

/// A table of what was done to desktops, and one of sessions.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let blocks = [done(source), sessions(source)].into_iter().filter(|table| !table.rows.is_empty());
    Section::of("Desktops", blocks.map(Block::Table).collect())
}

fn cells<'a>(arm: &'a Arm<'_>) -> impl Iterator<Item = (VdiPart, &'a Cell)> {
    arm.configs.iter().flat_map(|config| config.sound()).filter_map(|cell| Some((VdiPart::of(cell)?, cell)))
}

fn done(source: &Source<'_>) -> Table {
    let head = [
        "arm",
        "part",
        "desktops",
        "seconds a desktop",
        "in all (s)",
        "one by itself: median (s)",
        "slowest (s)",
        "of the first arm",
        "stores read, of what guests read",
        "write buffers took (MiB a desktop)",
    ];
    let mut table = Table::new("Seconds a desktop", 2, &head).note(format!(
        "All of the time, divided by all desktops, as it is printed for deploying, booting and recomposing; all boot at once, so one by itself takes longer. \
         Deploy: clones of the golden disk's snapshot, or copies of its image, and the first writes of each. Recompose: the golden disk is patched; clones are \
         made anew of it and those before deleted, own copies written over. {}",
        source.note(&source.arms)
    ));
    for arm in &source.arms {
        for (part, cell) in cells(arm) {
            let Some(desktops) = &cell.desktops else { continue };
            let same = source.arms.first().and_then(|first| cells(first).find(|(other, _)| *other == part));
            let base = same.and_then(|(_, cell)| cell.desktops.as_ref()).map(cairn_study::Desktops::s_each);
            let times =
                base.filter(|base| *base > 0.0).map(|base| format!("{}x", decimal(desktops.s_each() / base, 2)));
            let read = cell.counted.filter(|counted| counted.guest_read_bytes > 0).map(|counted| {
                let stores =
                    counted.read_from_buffer_bytes + counted.read_from_cache_bytes + counted.read_from_capacity_bytes;
                stores as f64 / counted.guest_read_bytes as f64
            });
            let taken = cell
                .counted
                .map(|counted| crate::number::mib(counted.buffered_bytes as f64) / f64::from(desktops.count));
            table.row([
                arm.name.to_owned(),
                part.id(),
                desktops.count.to_string(),
                decimal(desktops.s_each(), 3),
                decimal(desktops.total_s, 1),
                known(cairn_study::median(&desktops.each_s), 2),
                known(desktops.each_s.last().copied(), 2),
                times.unwrap_or_else(|| NOT_KNOWN.into()),
                percent(read, 1),
                known(taken, 2),
            ]);
        }
    }
    table
}

fn sessions(source: &Source<'_>) -> Table {
    let head = [
        "arm",
        "sessions",
        "requests a second",
        "asked for",
        "p99 (ms)",
        "response of an action (ms)",
        "longest that is good (ms)",
        "",
    ];
    let mut notes = Vec::new();
    let mut table = Table::new("Sessions", 1, &head);
    for arm in &source.arms {
        let steps: Vec<(u32, &Cell)> = cells(arm)
            .filter_map(|(part, cell)| match part {
                VdiPart::Sessions(count) => Some((count, cell)),
                _ => None,
            })
            .collect();
        let longest = threshold_ms(steps.iter().map(|(_, cell)| *cell), arm.dilation);
        let is_good =
            |cell: &Cell| response_ms(cell).zip(longest).is_some_and(|(response, longest)| response <= longest);
        for (sessions, cell) in &steps {
            table.row([
                arm.name.to_owned(),
                count(u64::from(*sessions)),
                decimal(cell.total.iops, 0),
                known(cell.params.rate_per_s, 0),
                known(cell.total.latency.map(|latency| latency.p99_ns as f64 / 1e6), 1),
                known(response_ms(cell), 0),
                known(longest, 0),
                if is_good(cell) { String::new() } else { "too long".into() },
            ]);
        }
        let most = steps.iter().take_while(|(_, cell)| is_good(cell)).last();
        let at_end = steps.last().is_some_and(|(_, cell)| is_good(cell));
        notes.push(match most {
            Some((sessions, _)) if at_end => {
                format!("{}: no response was too long, up to {} sessions", arm.name, count(u64::from(*sessions)))
            }
            Some((sessions, _)) => format!("{}: {} sessions", arm.name, count(u64::from(*sessions))),
            None => format!("{}: none", arm.name),
        });
    }
    table.note(format!(
        "After VSImax: how many sessions, stepped up, before the response of an action (100 requests, one after the other) is a second of the media's time \
         above the shortest of all steps. Storage alone: no session has a processor here that it could lack. {}. {}",
        notes.join("; "),
        source.note(&source.arms)
    ))
}
