//! `cairn inspect`: what stands on a device of a disk group, offline and read-only.
//!
//! Promises    nothing is written; damage is reported and read past where that is possible
//! Assumes     no daemon has the device open: what changes under the reader looks like damage
//! Not here    how the store recovers from what is found (`store`); the pages of the metadata region

mod depth;
mod device;
mod log;
mod segments;

use cairn_format::{DeviceRole, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, decode_superblock};
use cairn_types::format_bytes;
use serde::Serialize;

use self::{depth::Depth, device::Device, log::LogReport, segments::SegmentsReport};
use super::Context;
use crate::{args::Inspect, fail::Fail, output};

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Report {
    path: String,
    size_bytes: u64,
    copies: Vec<Copy>,
    superblock: Option<Superblock>,
    log: Option<LogReport>,
    segments: Option<SegmentsReport>,
    /// What is not as it should be.
    bad: Vec<String>,
}

/// One copy of the superblock.
#[derive(Debug, Serialize)]
struct Copy {
    offset: u64,
    generation: Option<u64>,
    error: Option<String>,
}

/// Looks, prints, and refuses (exit code 1) what is bad.
pub fn run(context: &Context, what: &Inspect) -> Result<(), Fail> {
    let device = Device::open(&what.device)?;
    let depth = Depth { all: what.all, verify: what.verify };
    let report = look(&device, depth);
    if let Some(why) = foreign(&report) {
        return Err(Fail::refused(format!("{} is no device of a disk group: {why}", report.path))
            .remedy("name the cache or capacity device itself, not a partition or mount point of it"));
    }
    output::show(context.format, &report, show)?;
    match report.bad.is_empty() {
        true => Ok(()),
        false => Err(Fail::found_bad()),
    }
}

/// Why nothing of Cairn is on the device; none when something is, damaged or not.
fn foreign(report: &Report) -> Option<String> {
    let none = cairn_format::SuperblockError::None.to_string();
    let nothing = report.copies.iter().all(|copy| copy.error.as_ref() == Some(&none));
    (report.superblock.is_none() && nothing).then_some(none)
}

fn look(device: &Device, depth: Depth) -> Report {
    let mut bad = Vec::new();
    let mut copies = Vec::new();
    let mut found: Vec<Superblock> = Vec::new();
    for offset in SUPERBLOCK_OFFSETS {
        let decoded = device
            .read(offset, SUPERBLOCK_BYTES as usize)
            .and_then(|bytes| decode_superblock(&bytes).map_err(|error| error.to_string()));
        let (generation, error) = match decoded {
            Ok(superblock) => {
                let generation = superblock.generation;
                found.push(superblock);
                (Some(generation), None)
            }
            Err(error) => (None, Some(error)),
        };
        if let Some(error) = &error {
            bad.push(format!("superblock copy at {offset}: {error}"));
        }
        copies.push(Copy { offset, generation, error });
    }
    let superblock = found.into_iter().max_by_key(|copy| copy.generation);
    let (mut log, mut segments) = (None, None);
    if let Some(superblock) = &superblock {
        if superblock.device_bytes > device.size_bytes {
            bad.push(format!(
                "the device was formatted with {} and has {} now",
                format_bytes(superblock.device_bytes),
                format_bytes(device.size_bytes)
            ));
        }
        match &superblock.role {
            DeviceRole::Cache { regions, .. } => {
                log = Some(log::scan(device, regions, depth, &mut bad));
            }
            DeviceRole::Capacity { regions, .. } => {
                segments = Some(segments::scan(device, regions, depth, &mut bad));
            }
        }
    }
    Report { path: device.path.clone(), size_bytes: device.size_bytes, copies, superblock, log, segments, bad }
}

fn show(report: &Report) -> String {
    let mut text = output::pairs([
        ("device", report.path.clone()),
        ("size", format_bytes(report.size_bytes)),
        (
            "superblocks",
            report
                .copies
                .iter()
                .map(|copy| match (&copy.generation, &copy.error) {
                    (Some(generation), _) => {
                        format!("at {}: generation {generation}", copy.offset)
                    }
                    (None, error) => format!("at {}: {}", copy.offset, error.as_deref().unwrap_or_default()),
                })
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    ]);
    if let Some(superblock) = &report.superblock {
        text += "\n";
        text += &show_superblock(superblock);
    }
    if let Some(log) = &report.log {
        text += "\n";
        text += &log.show();
    }
    if let Some(segments) = &report.segments {
        text += "\n";
        text += &segments.show();
    }
    for bad in &report.bad {
        text += &format!("\nBAD: {bad}");
    }
    text
}

fn show_superblock(superblock: &Superblock) -> String {
    let (role, regions) = match &superblock.role {
        DeviceRole::Cache { regions, capacity } => (
            format!("cache of {} capacity devices", capacity.len()),
            format!(
                "metadata {} at {}, log {} at {} in segments of {}, opened {} times",
                format_bytes(regions.metadata_bytes),
                regions.metadata_offset,
                format_bytes(regions.log_bytes),
                regions.log_offset,
                format_bytes(u64::from(regions.log_segment_bytes)),
                regions.open_count
            ),
        ),
        DeviceRole::Capacity { regions, index } => (
            format!("capacity device {index}"),
            format!(
                "{} segments of {} at {}",
                regions.segment_count,
                format_bytes(u64::from(regions.segment_bytes)),
                regions.segments_offset
            ),
        ),
    };
    output::pairs([
        ("role", role),
        ("id", superblock.device.to_string()),
        ("disk group", superblock.disk_group.to_string()),
        ("host", superblock.host.to_string()),
        ("cluster", superblock.cluster.to_string()),
        ("regions", regions),
    ])
}
