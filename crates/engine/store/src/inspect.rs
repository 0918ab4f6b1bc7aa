//! What stands on a device, read without opening the disk group: for people, offline.
//!
//! Promises    reads only; goes on over damage and tells of it; values that serialise
//! Not here    the metadata store's contents: redb pages need the group to be opened
//!
//! A log batch or a run that is found is not always in use: what was destaged or moved stays until it is overwritten.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_env::Disk;
use cairn_format::{
    CacheRegions, CapacityRegions, DeviceRole, LogRecord, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, crc32c,
    decode_batch_header, decode_batch_records, decode_run_header, decode_superblock, run_header_pages,
};
use cairn_types::{BLOCK_BYTES, ComponentId};
use serde::Serialize;

const PAGE: usize = BLOCK_BYTES as usize;
/// Damaged places that a report lists, at most; the counts go on.
const FINDINGS_MAX: usize = 200;

/// What a device holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Both copies of the superblock, by offset: the superblock, or why there is none.
    pub superblocks: Vec<(u64, Result<Superblock, String>)>,
    /// Cache device: its log.
    pub log: Option<LogReport>,
    /// Capacity device: its segments.
    pub segments: Option<SegmentsReport>,
    /// What is wrong, in words, at most 200.
    pub findings: Vec<String>,
    /// How much is wrong.
    pub findings_count: u64,
}

/// What the log region holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LogReport {
    /// Segments that hold batches of this log.
    pub segments_used: u64,
    /// Batches.
    pub batches: u64,
    /// Records by kind.
    pub records: BTreeMap<&'static str, u64>,
    /// Data blocks.
    pub blocks: u64,
    /// Of those with a wrong checksum.
    pub bad_blocks: u64,
    /// Position of the oldest batch.
    pub first_position: Option<u64>,
    /// End of the newest batch.
    pub end_position: u64,
    /// The highest position that a batch says was durable before it.
    pub durable_position: u64,
}

/// What the segments hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SegmentsReport {
    /// Segments of the device.
    pub segments: u64,
    /// Those with runs.
    pub segments_used: u64,
    /// Runs.
    pub runs: u64,
    /// Blocks by component, old copies included.
    pub blocks: BTreeMap<ComponentId, u64>,
    /// Blocks with a wrong checksum.
    pub bad_blocks: u64,
}

impl DeviceReport {
    fn find(&mut self, text: String) {
        self.findings_count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(text);
        }
    }
    /// The superblock that holds: the good copy with the higher generation.
    pub fn superblock(&self) -> Option<&Superblock> {
        self.superblocks.iter().filter_map(|(_, s)| s.as_ref().ok()).max_by_key(|s| s.generation)
    }
}

/// Describes a device. Reads all of the log or all segments: about a minute per 30 GB on a SATA device.
pub async fn inspect_device<D: Disk>(disk: &D) -> DeviceReport {
    let mut report = DeviceReport {
        name: disk.name(),
        bytes: disk.len_bytes(),
        superblocks: Vec::new(),
        log: None,
        segments: None,
        findings: Vec::new(),
        findings_count: 0,
    };
    for offset in SUPERBLOCK_OFFSETS {
        let found = match disk.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => decode_superblock(&bytes).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = &found {
            report.find(format!("superblock at {offset}: {why}"));
        }
        report.superblocks.push((offset, found));
    }
    let Some(superblock) = report.superblock().cloned() else { return report };
    if superblock.device_bytes > report.bytes {
        report.find(format!(
            "the device has {} bytes, it had {} when it was formatted",
            report.bytes, superblock.device_bytes
        ));
    }
    match superblock.role {
        DeviceRole::Cache { regions, .. } => inspect_log(disk, &regions, &mut report).await,
        DeviceRole::Capacity { regions, .. } => inspect_segments(disk, &regions, &mut report).await,
    }
    report
}

/// Reads what can be read; pages that cannot are zero.
async fn read_tolerant<D: Disk>(disk: &D, offset: u64, len: u32, report: &mut DeviceReport) -> Bytes {
    if let Ok(data) = disk.read(offset, len).await {
        return data;
    }
    let mut data = cairn_env::PageBuf::zeroed(len as usize);
    for at in (0..len as usize).step_by(PAGE) {
        match disk.read(offset + at as u64, BLOCK_BYTES).await {
            Ok(page) => data[at..at + PAGE].copy_from_slice(&page),
            Err(error) => report.find(error.to_string()),
        }
    }
    data.freeze()
}

async fn inspect_log<D: Disk>(disk: &D, regions: &CacheRegions, report: &mut DeviceReport) {
    let mut log = LogReport::default();
    let len = regions.log_segment_bytes;
    for segment in 0..regions.log_bytes / u64::from(len) {
        let offset = regions.log_offset + segment * u64::from(len);
        let data = read_tolerant(disk, offset, len, report).await;
        let before = log.batches;
        walk_batches(&data, regions, segment * u64::from(len), &mut log, report);
        log.segments_used += u64::from(log.batches > before);
    }
    report.log = Some(log);
}

fn walk_batches(data: &Bytes, regions: &CacheRegions, at_in_log: u64, log: &mut LogReport, report: &mut DeviceReport) {
    let (mut at, mut expected) = (0usize, None);
    while at < data.len() {
        let Ok(header) = decode_batch_header(&data[at..]) else { return };
        let here = header.log_id == regions.log_id
            && header.position % regions.log_bytes == at_in_log + at as u64
            && expected.is_none_or(|position| position == header.position)
            && at + header.header_bytes as usize + header.data_bytes as usize <= data.len();
        if !here {
            return;
        }
        let place = format!("batch at position {}", header.position);
        let Ok(records) = decode_batch_records(&header, &data[at..]) else {
            report.find(format!("{place}: its records are not readable"));
            return;
        };
        log.batches += 1;
        log.first_position = Some(log.first_position.unwrap_or(u64::MAX).min(header.position));
        log.end_position = log.end_position.max(header.end());
        log.durable_position = log.durable_position.max(header.durable_position);
        let blocks = data[at + header.header_bytes as usize..].chunks_exact(PAGE);
        for (number, (block, crc)) in blocks.zip(records.iter().flat_map(LogRecord::data_crcs)).enumerate() {
            log.blocks += 1;
            if crc32c(block) != crc {
                log.bad_blocks += 1;
                report.find(format!("{place}: block {number} has a wrong checksum"));
            }
        }
        records.iter().for_each(|r| *log.records.entry(kind(r)).or_default() += 1);
        expected = Some(header.end());
        at += header.header_bytes as usize + header.data_bytes as usize;
    }
}

fn kind(record: &LogRecord) -> &'static str {
    match record {
        LogRecord::CreateComponent { .. } => "create-component",
        LogRecord::DeleteComponent { .. } => "delete-component",
        LogRecord::ResizeComponent { .. } => "resize-component",
        LogRecord::Write { .. } => "write",
        LogRecord::Zero { .. } => "zero",
        LogRecord::Copy { .. } => "copy",
        LogRecord::Placed { .. } => "placed",
        LogRecord::Undo { .. } => "undo",
        LogRecord::Settle { .. } => "settle",
        LogRecord::Record { .. } => "record",
        LogRecord::Remember { .. } => "remember",
    }
}

async fn inspect_segments<D: Disk>(disk: &D, regions: &CapacityRegions, report: &mut DeviceReport) {
    let mut found = SegmentsReport { segments: u64::from(regions.segment_count), ..SegmentsReport::default() };
    for segment in 0..regions.segment_count {
        let offset = regions.segments_offset + u64::from(segment) * u64::from(regions.segment_bytes);
        let data = read_tolerant(disk, offset, regions.segment_bytes, report).await;
        let before = found.runs;
        walk_runs(&data, regions, segment, &mut found, report);
        found.segments_used += u64::from(found.runs > before);
    }
    report.segments = Some(found);
}

fn walk_runs(
    data: &Bytes,
    regions: &CapacityRegions,
    segment: u32,
    found: &mut SegmentsReport,
    report: &mut DeviceReport,
) {
    let (mut at, mut generation) = (0usize, None);
    while at < data.len() {
        let Ok(run) = decode_run_header(&data[at..]) else { return };
        if run.log_id != regions.log_id || run.segment != segment || generation.is_some_and(|g| g != run.generation) {
            return;
        }
        generation = Some(run.generation);
        found.runs += 1;
        at += run_header_pages(run.entries.len() as u32) as usize * PAGE;
        for entry in &run.entries {
            let Some(block) = data.get(at..at + PAGE) else { return };
            *found.blocks.entry(entry.component).or_default() += 1;
            if crc32c(block) != entry.crc {
                found.bad_blocks += 1;
                report.find(format!(
                    "segment {segment}: block {} of component {} has a wrong checksum",
                    entry.block, entry.component
                ));
            }
            at += PAGE;
        }
    }
}
