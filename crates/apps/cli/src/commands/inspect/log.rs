//! The log of a cache device: every batch that can be found, and whether the chain of batches has holes.
//!
//! Batches stand back to back from the start of each segment; the last one of a segment's present use is followed by
//! older bytes. So the walk of a segment ends at the first thing that is no batch of the same wrap.

use std::collections::BTreeMap;

use cairn_format::{
    BatchError, BatchHeader, CacheRegions, LogRecord, crc32c, decode_batch_header, decode_batch_records,
    peek_batch_header_bytes,
};
use cairn_types::{BLOCK_BYTES, format_bytes};
use serde::Serialize;

use super::{depth::Depth, device::Device};
use crate::output;

/// What was found in the log.
#[derive(Debug, Default, Serialize)]
pub struct LogReport {
    /// Batches with a good header.
    batches: u64,
    /// Records by kind.
    records: BTreeMap<&'static str, u64>,
    /// Bytes of data in them.
    data_bytes: u64,
    /// Where the oldest batch begins, in bytes since the log was made. It may be older than the tail: the tail is metadata.
    first_position: Option<u64>,
    /// Where the newest batch ends.
    end_position: Option<u64>,
    /// What the newest batch says was durable before it.
    durable_position: Option<u64>,
    /// Which opening of the disk group wrote the newest batch.
    open_count: Option<u64>,
    /// Blocks that were compared with their checksum.
    blocks_verified: u64,
    /// Every batch, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    list: Vec<Batch>,
}

/// One batch.
#[derive(Debug, Serialize)]
struct Batch {
    position: u64,
    open_count: u64,
    header_bytes: u32,
    data_bytes: u32,
    records: Vec<&'static str>,
}

/// Walks all segments.
pub fn scan(device: &Device, regions: &CacheRegions, depth: Depth, bad: &mut Vec<String>) -> LogReport {
    let mut report = LogReport::default();
    let mut headers = Vec::new();
    let segment_bytes = u64::from(regions.log_segment_bytes.max(BLOCK_BYTES));
    for segment in 0..regions.log_bytes / segment_bytes {
        let span = (segment * segment_bytes, (segment + 1) * segment_bytes);
        walk_segment(device, regions, span, depth, &mut report, &mut headers, bad);
    }
    headers.sort_unstable_by_key(|header: &BatchHeader| header.position);
    report.list.sort_unstable_by_key(|batch| batch.position);
    if let (Some(first), Some(last)) = (headers.first(), headers.last()) {
        report.first_position = Some(first.position);
        report.end_position = Some(last.end());
        report.durable_position = Some(last.durable_position);
        report.open_count = Some(last.open_count);
    }
    holes(&headers, bad);
    report
}

fn walk_segment(
    device: &Device,
    regions: &CacheRegions,
    (start, end): (u64, u64),
    depth: Depth,
    report: &mut LogReport,
    headers: &mut Vec<BatchHeader>,
    bad: &mut Vec<String>,
) {
    let mut at = start;
    let mut wrap = None;
    while at < end {
        let offset = regions.log_offset + at;
        let (header, bytes) = match read_header(device, offset) {
            Ok(Some(found)) => found,
            // What ends a segment's present use; also a torn batch, which was never acknowledged.
            Ok(None) => return,
            Err(error) => {
                bad.push(format!("log at {offset}: {error}"));
                return;
            }
        };
        let of_this_log = header.log_id == regions.log_id
            && header.position % regions.log_bytes == at
            && header.end() - header.position <= end - at;
        let of_this_wrap =
            *wrap.get_or_insert(header.position / regions.log_bytes) == header.position / regions.log_bytes;
        if !of_this_log || !of_this_wrap {
            return;
        }
        match decode_batch_records(&header, &bytes) {
            Ok(records) => note(report, &header, &records, depth),
            Err(error) => bad.push(format!("batch at position {}: {error}", header.position)),
        }
        if depth.verify {
            report.blocks_verified += verify(device, offset, &header, &bytes, bad);
        }
        headers.push(header);
        at += header.end() - header.position;
    }
}

/// The header at `offset`; none when no good one stands there.
fn read_header(device: &Device, offset: u64) -> Result<Option<(BatchHeader, Vec<u8>)>, String> {
    let first = device.read(offset, BLOCK_BYTES as usize)?;
    let Some(len) = peek_batch_header_bytes(&first) else {
        return Ok(None);
    };
    // The claimed length is bounded by the format, and past the device's end it is no header.
    let Ok(bytes) = device.read(offset, len as usize) else {
        return Ok(None);
    };
    match decode_batch_header(&bytes) {
        Ok(header) => Ok(Some((header, bytes))),
        Err(BatchError::Malformed) => Err(BatchError::Malformed.to_string()),
        Err(_) => Ok(None),
    }
}

fn note(report: &mut LogReport, header: &BatchHeader, records: &[LogRecord], depth: Depth) {
    report.batches += 1;
    report.data_bytes += u64::from(header.data_bytes);
    for record in records {
        *report.records.entry(kind(record)).or_default() += 1;
    }
    if depth.all {
        report.list.push(Batch {
            position: header.position,
            open_count: header.open_count,
            header_bytes: header.header_bytes,
            data_bytes: header.data_bytes,
            records: records.iter().map(kind).collect(),
        });
    }
}

fn verify(device: &Device, offset: u64, header: &BatchHeader, bytes: &[u8], bad: &mut Vec<String>) -> u64 {
    let Ok(records) = decode_batch_records(header, bytes) else {
        return 0;
    };
    let data_at = offset + u64::from(header.header_bytes);
    let crcs = records.iter().flat_map(LogRecord::data_crcs);
    let mut count = 0;
    for (index, crc) in (0u64..).zip(crcs) {
        let at = data_at + index * u64::from(BLOCK_BYTES);
        match device.read(at, BLOCK_BYTES as usize) {
            Ok(block) if crc32c(&block) == crc => {}
            Ok(_) => {
                bad.push(format!("block {index} of the batch at position {} has a wrong checksum", header.position))
            }
            Err(error) => bad.push(error),
        }
        count += 1;
    }
    count
}

/// A batch names the one before it. A named one that is not there, though older ones are, was lost to damage: the ring is
/// overwritten from its oldest end only, and a torn tail that recovery left behind is named by nobody.
fn holes(headers: &[BatchHeader], bad: &mut Vec<String>) {
    for pair in headers.windows(2) {
        let [before, after] = pair else { continue };
        let named = after.previous_position;
        if before.position < named && named < after.position {
            bad.push(format!(
                "the log has no good batch at position {named}, which the one at {} follows",
                after.position
            ));
        }
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
        LogRecord::Rows { .. } => "rows",
        LogRecord::ZeroRows { .. } => "zero-rows",
        LogRecord::Undo { .. } => "undo",
        LogRecord::Settle { .. } => "settle",
        LogRecord::Record { .. } => "record",
        LogRecord::Remember { .. } => "remember",
        LogRecord::Cuts { .. } => "cuts",
    }
}

impl LogReport {
    /// For people.
    pub fn show(&self) -> String {
        let position = |at: Option<u64>| at.map_or(String::new(), |at| at.to_string());
        let records: Vec<String> = self.records.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let mut text = output::pairs([
            ("log", format!("{} batches with {} of data", self.batches, format_bytes(self.data_bytes))),
            ("records", records.join(", ")),
            ("oldest batch at", position(self.first_position)),
            ("newest ends at", position(self.end_position)),
            ("durable", position(self.durable_position)),
            ("of opening", position(self.open_count)),
        ]);
        if self.blocks_verified > 0 {
            text += &format!("\n{} blocks verified", self.blocks_verified);
        }
        if !self.list.is_empty() {
            let rows = self.list.iter().map(|batch| {
                vec![
                    batch.position.to_string(),
                    batch.open_count.to_string(),
                    batch.header_bytes.to_string(),
                    batch.data_bytes.to_string(),
                    batch.records.join(" "),
                ]
            });
            text += "\n\n";
            text += &output::table(&["position", "opening", "header", "data", "records"], rows);
        }
        text
    }
}
