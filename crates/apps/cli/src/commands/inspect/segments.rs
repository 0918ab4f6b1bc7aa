//! The segments of a capacity device: runs of blocks, each naming the component of every block. What is live among them
//! only the map of the cache device knows.

use std::collections::BTreeMap;

use cairn_format::{
    CapacityRegions, PAGE_SECTORS, RunEntry, RunError, RunHeader, SECTOR_BYTES, Spot, crc32c, decode_run_header, unpack,
};
use cairn_types::{BLOCK_BYTES, ComponentId, format_bytes};
use serde::Serialize;

use super::{depth::Depth, device::Device};
use crate::output;

/// What was found in the segments.
#[derive(Debug, Default, Serialize)]
pub struct SegmentsReport {
    /// Segments that begin with a run.
    used: u32,
    /// Segments that there are.
    total: u32,
    /// Runs with a good header.
    runs: u64,
    /// Blocks in them, by component, live or not.
    blocks: BTreeMap<ComponentId, u64>,
    /// Blocks that several may refer to, and that were moved: their runs have their names, and no owners.
    #[serde(skip_serializing_if = "is_zero")]
    shared_moved: u64,
    /// Blocks that were compared with their checksum.
    blocks_verified: u64,
    /// Every run, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    list: Vec<Run>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One run.
#[derive(Debug, Serialize)]
struct Run {
    segment: u32,
    generation: u64,
    offset: u64,
    blocks: usize,
}

/// Walks all segments.
pub fn scan(device: &Device, regions: &CapacityRegions, depth: Depth, bad: &mut Vec<String>) -> SegmentsReport {
    let mut report = SegmentsReport { total: regions.segment_count, ..SegmentsReport::default() };
    for segment in 0..regions.segment_count {
        let start = regions.segments_offset + u64::from(segment) * u64::from(regions.segment_bytes);
        if let Err(error) = walk_segment(device, regions, (segment, start), depth, &mut report, bad) {
            bad.push(format!("segment {segment}: {error}"));
            // Past the end of a truncated device nothing more can be read.
            if start >= device.size_bytes {
                break;
            }
        }
    }
    report
}

fn walk_segment(
    device: &Device,
    regions: &CapacityRegions,
    (segment, start): (u32, u64),
    depth: Depth,
    report: &mut SegmentsReport,
    bad: &mut Vec<String>,
) -> Result<(), String> {
    let block = u64::from(BLOCK_BYTES);
    let end = start + u64::from(regions.segment_bytes);
    let (mut at, mut generation) = (start, None);
    while at + block <= end {
        let Some(run) = read_run(device, at)? else {
            return Ok(());
        };
        let of_this_use = run.log_id == regions.log_id
            && run.segment == segment
            && *generation.get_or_insert(run.generation) == run.generation;
        if !of_this_use {
            return Ok(());
        }
        if at == start {
            report.used += 1;
        }
        report.runs += 1;
        if depth.all {
            report.list.push(Run { segment, generation: run.generation, offset: at, blocks: run.entries.len() });
        }
        for (entry, spot) in run.entries.iter().zip(run.spots(0)) {
            match entry.name {
                None => *report.blocks.entry(entry.component).or_default() += 1,
                Some(_) => report.shared_moved += 1,
            }
            if depth.verify {
                report.blocks_verified += 1;
                let from = at + spot.sector() * u64::from(SECTOR_BYTES);
                if !is_right(device, from, entry, spot)? {
                    let what = match entry.name {
                        None => format!("block {} of component {}", entry.block, entry.component),
                        Some(name) => format!("a block of several owners, {name:?}"),
                    };
                    bad.push(format!("{what}, at {from}, has a wrong checksum"));
                }
            }
        }
        at += u64::from(run.shape().pages()) * block;
    }
    Ok(())
}

/// Whether the block that stands there, packed or not, has its checksum.
fn is_right(device: &Device, from: u64, entry: &RunEntry, spot: Spot) -> Result<bool, String> {
    let stored = device.read(from, (spot.sectors() * SECTOR_BYTES) as usize)?;
    if spot.sectors() == PAGE_SECTORS {
        return Ok(crc32c(&stored) == entry.crc);
    }
    let mut block = vec![0; BLOCK_BYTES as usize];
    Ok(unpack(&stored, &mut block) && crc32c(&block) == entry.crc)
}

/// The run at `offset`; none when no good header stands there: the end of what was written, or a torn run that nothing names.
fn read_run(device: &Device, offset: u64) -> Result<Option<RunHeader>, String> {
    let first = device.read(offset, BLOCK_BYTES as usize)?;
    match decode_run_header(&first) {
        Ok(run) => Ok(Some(run)),
        Err(RunError::Short(len)) => {
            Ok(device.read(offset, len as usize).ok().and_then(|bytes| decode_run_header(&bytes).ok()))
        }
        Err(RunError::NotARun | RunError::Checksum | RunError::Malformed) => Ok(None),
    }
}

impl SegmentsReport {
    /// For people.
    pub fn show(&self) -> String {
        let bytes = |blocks: u64| format_bytes(blocks * u64::from(BLOCK_BYTES));
        let components: Vec<String> =
            self.blocks.iter().map(|(component, blocks)| format!("{component} {}", bytes(*blocks))).collect();
        let mut text = output::pairs([
            (
                "segments",
                format!(
                    "{} of {} used, {} runs with {} of blocks, live or not",
                    self.used,
                    self.total,
                    self.runs,
                    bytes(self.blocks.values().sum::<u64>() + self.shared_moved)
                ),
            ),
            ("components", components.join("\n")),
        ]);
        if self.shared_moved > 0 {
            text += &format!("\n{} of blocks that several may refer to, moved", bytes(self.shared_moved));
        }
        if self.blocks_verified > 0 {
            text += &format!("\n{} blocks verified", self.blocks_verified);
        }
        if !self.list.is_empty() {
            let rows = self.list.iter().map(|run| {
                vec![
                    run.segment.to_string(),
                    run.generation.to_string(),
                    run.offset.to_string(),
                    run.blocks.to_string(),
                ]
            });
            text += "\n\n";
            text += &output::table(&["segment", "generation", "offset", "blocks"], rows);
        }
        text
    }
}
