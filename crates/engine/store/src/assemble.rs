//! A run as one device write: its header, then raw blocks where they were read to, then packed ones back to back.
//!
//! Promises    a run of raw blocks alone is what it was before there were packed ones, and none of its blocks is copied
//! Not here    where it goes (`segments.rs`), writing it (`destage.rs`)

use bytes::Bytes;
use cairn_env::PageBuf;
use cairn_format::{RunHeader, Spot, encode_run_header};
use cairn_types::BLOCK_BYTES;

use crate::{capacity::OutBlock, segments::RunPlace};

const PAGE: usize = BLOCK_BYTES as usize;

/// A run that is to be written.
pub(crate) struct Run {
    /// Whole pages.
    pub parts: Vec<Bytes>,
    /// Where its blocks will stand, in the order in which they were given.
    pub spots: Vec<Spot>,
}

/// The run of some blocks at its place.
pub(crate) fn assemble(place: RunPlace, device: u32, log_id: u64, blocks: &[OutBlock]) -> Run {
    let RunPlace { segment, generation, .. } = place;
    let head = |entries| RunHeader { log_id, device, segment, generation, entries };
    if !blocks.iter().any(OutBlock::is_packed) {
        let header = head(blocks.iter().map(OutBlock::entry).collect());
        let mut parts = Vec::with_capacity(1 + blocks.len());
        parts.push(head_part(&header, place));
        parts.extend(blocks.iter().map(|block| block.data.clone()));
        return Run { parts, spots: (0..blocks.len() as u64).map(|at| Spot::raw(place.first_slot() + at)).collect() };
    }
    let (raw, packed): (Vec<usize>, Vec<usize>) = (0..blocks.len()).partition(|at| !blocks[*at].is_packed());
    let header = head(raw.iter().chain(&packed).map(|at| blocks[*at].entry()).collect());
    let mut parts = vec![head_part(&header, place)];
    parts.extend(raw.iter().map(|at| blocks[*at].data.clone()));
    parts.extend(back_to_back(packed.iter().map(|at| &blocks[*at].data)));
    let mut spots = vec![Spot::NONE; blocks.len()];
    raw.iter().chain(&packed).zip(header.spots(place.page)).for_each(|(at, spot)| spots[*at] = spot);
    Run { parts, spots }
}

fn head_part(header: &RunHeader, place: RunPlace) -> Bytes {
    let bytes = encode_run_header(header);
    assert_eq!(bytes.len(), place.header_pages as usize * PAGE);
    PageBuf::copy_of(&bytes).freeze()
}

/// Pages of packed blocks; the last is filled up.
fn back_to_back<'a>(packed: impl Iterator<Item = &'a Bytes> + Clone) -> Vec<Bytes> {
    let len: usize = packed.clone().map(Bytes::len).sum();
    let mut pages = PageBuf::zeroed(len.next_multiple_of(PAGE));
    let mut at = 0;
    for data in packed {
        pages[at..at + data.len()].copy_from_slice(data);
        at += data.len();
    }
    let pages = pages.freeze();
    (0..pages.len()).step_by(PAGE).map(|from| pages.slice(from..from + PAGE)).collect()
}
