//! Bytes of guests' requests, which begin and end anywhere in blocks.

use bytes::Bytes;
use cairn_types::BLOCK_BYTES;
use cairn_volume::Extent;
use cairn_wire::AllocatedPiece;

/// The `len` bytes after the first `skip` of `parts`.
pub(crate) fn cut(parts: Vec<Bytes>, mut skip: usize, mut len: usize) -> Vec<Bytes> {
    let mut result = Vec::with_capacity(parts.len());
    for mut part in parts {
        let drop = skip.min(part.len());
        part = part.slice(drop..);
        skip -= drop;
        part.truncate(len);
        len -= part.len();
        if !part.is_empty() {
            result.push(part);
        }
    }
    result
}

/// Allocation in blocks as byte extents of exactly the range asked for.
pub(crate) fn extents(pieces: &[AllocatedPiece], offset: u64, len_bytes: u64) -> Vec<Extent> {
    let block = u64::from(BLOCK_BYTES);
    let mut found: Vec<Extent> = Vec::new();
    for piece in pieces {
        let from = (piece.range.first * block).max(offset);
        let to = (piece.range.end() * block).min(offset + len_bytes);
        if from >= to {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.allocated == piece.allocated => last.len_bytes += to - from,
            _ => found.push(Extent { len_bytes: to - from, allocated: piece.allocated }),
        }
    }
    found
}
