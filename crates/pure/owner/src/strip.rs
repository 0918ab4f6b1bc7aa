//! What a member of rows holds at some positions, in one form for data, parity and holes.
//!
//! Promises    a block counts as a hole only if its bytes are zeroes, not where its checksum alone says so: guests choose bytes
//! Assumes     bytes fit their checksums: whoever took them from a message or a device has compared them
//! Not here    what follows for a row (image.rs)

use bytes::{Bytes, BytesMut};
use cairn_format::zero_block_crc;
use cairn_types::{BLOCK_BYTES, Contents, Crcs, Run};

const BLOCK: usize = BLOCK_BYTES as usize;

/// Blocks of one member, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// None: all are zeroes.
    bytes: Option<Bytes>,
    crcs: Crcs,
    /// What each block says of the columns that it was made from; 0 where it is data, and of a hole: a row of zeroes has that.
    row_checks: Crcs,
}

impl Strip {
    /// So many blocks of zeroes.
    pub fn zeroes(blocks: u32) -> Self {
        let blocks = blocks as usize;
        Self { bytes: None, crcs: Crcs::from_elem(zero_block_crc(), blocks), row_checks: Crcs::from_elem(0, blocks) }
    }

    /// Data, or what was never parity.
    ///
    /// # Panics
    /// There is not one checksum for each block.
    pub fn data(bytes: Bytes, crcs: Crcs) -> Self {
        let row_checks = Crcs::from_elem(0, crcs.len());
        Self::parity(bytes, crcs, row_checks)
    }

    /// Parity.
    ///
    /// # Panics
    /// There is not one checksum and one row check for each block.
    pub fn parity(bytes: Bytes, crcs: Crcs, row_checks: Crcs) -> Self {
        assert_eq!((bytes.len(), crcs.len()), (crcs.len() * BLOCK, row_checks.len()), "each block has its numbers");
        Self { bytes: Some(bytes), crcs, row_checks }
    }

    /// What a member told of so many blocks; none where it told of others, or of marks.
    pub fn of(contents: Contents, blocks: u32) -> Option<Self> {
        if !contents.is_whole(blocks) {
            return None;
        }
        let Contents { runs, data } = contents;
        let mut strip = Self { bytes: None, crcs: Crcs::new(), row_checks: Crcs::new() };
        for run in &runs {
            let count = run.blocks() as usize;
            match run {
                Run::Bad { .. } => return None,
                Run::Parity { crcs, row_checks } if crcs.len() != row_checks.len() => return None,
                Run::Parity { crcs, row_checks } => {
                    strip.crcs.extend_from_slice(crcs);
                    strip.row_checks.extend_from_slice(row_checks);
                }
                Run::Data { crcs } => {
                    strip.crcs.extend_from_slice(crcs);
                    strip.row_checks.extend(std::iter::repeat_n(0, count));
                }
                Run::Hole { .. } => {
                    strip.crcs.extend(std::iter::repeat_n(zero_block_crc(), count));
                    strip.row_checks.extend(std::iter::repeat_n(0, count));
                }
            }
        }
        strip.bytes = joined(&runs, data, blocks as usize * BLOCK);
        Some(strip)
    }

    /// How many blocks.
    pub fn blocks(&self) -> u32 {
        self.crcs.len() as u32
    }

    /// Their bytes; none: zeroes.
    pub fn bytes(&self) -> Option<&Bytes> {
        self.bytes.as_ref()
    }

    /// CRC-32C of each block.
    pub fn crcs(&self) -> &Crcs {
        &self.crcs
    }

    /// What each block says of the columns that it was made from.
    pub fn row_checks(&self) -> &Crcs {
        &self.row_checks
    }

    /// As the arithmetic of parity takes it.
    pub fn for_parity(&self) -> cairn_parity::Strip<'_> {
        self.bytes.as_ref().map_or(cairn_parity::Strip::Zeroes, |bytes| cairn_parity::Strip::Bytes(bytes))
    }

    /// Some of its blocks, counted from its first; no byte is copied.
    ///
    /// # Panics
    /// It has not so many.
    pub fn slice(&self, first: u32, count: u32) -> Self {
        let (from, to) = (first as usize, (first + count) as usize);
        Self {
            bytes: self.bytes.as_ref().map(|bytes| bytes.slice(from * BLOCK..to * BLOCK)),
            crcs: Crcs::from_slice(&self.crcs[from..to]),
            row_checks: Crcs::from_slice(&self.row_checks[from..to]),
        }
    }

    /// Whether no bytes need to be kept for a block of it.
    pub fn is_hole(&self, block: u32) -> bool {
        let at = block as usize;
        self.row_checks[at] == 0
            && self.crcs[at] == zero_block_crc()
            && self.bytes.as_ref().is_none_or(|bytes| bytes[at * BLOCK..(at + 1) * BLOCK].iter().all(|byte| *byte == 0))
    }

    /// Whether that is so of all of them.
    pub fn is_all_holes(&self) -> bool {
        self.bytes.is_none() && self.row_checks.iter().all(|check| *check == 0)
            || (0..self.blocks()).all(|n| self.is_hole(n))
    }

    /// What a member that holds it tells: data, or parity, and holes.
    pub fn contents(&self, is_parity: bool) -> Contents {
        let mut contents = Contents::default();
        self.tell(is_parity, &mut contents);
        contents
    }

    /// Tells what follows on `contents`.
    pub fn tell(&self, is_parity: bool, contents: &mut Contents) {
        let holes: Vec<bool> = (0..self.blocks()).map(|block| self.is_hole(block)).collect();
        let mut at = 0;
        for run in holes.chunk_by(|one, next| one == next) {
            let range = at..at + run.len();
            at = range.end;
            let bytes = match (&self.bytes, run[0]) {
                (Some(bytes), false) => bytes.slice(range.start * BLOCK..range.end * BLOCK),
                // A row check without bytes: parity of columns that cancel out.
                (None, false) => Bytes::from(vec![0; range.len() * BLOCK]),
                (_, true) => {
                    contents.push_hole(range.len() as u32);
                    continue;
                }
            };
            let crcs = Crcs::from_slice(&self.crcs[range.clone()]);
            contents.data.push(bytes);
            contents.runs.push(match is_parity {
                true => Run::Parity { crcs, row_checks: Crcs::from_slice(&self.row_checks[range]) },
                false => Run::Data { crcs },
            });
        }
    }
}

/// The bytes of all blocks in one piece, holes as zeroes; none where there is nothing but holes.
fn joined(runs: &[Run], mut data: Vec<Bytes>, len: usize) -> Option<Bytes> {
    if runs.iter().all(|run| run.crcs().is_empty()) {
        return None;
    }
    if let [only] = data.as_slice()
        && only.len() == len
    {
        return data.pop();
    }
    let mut all = BytesMut::zeroed(len);
    let (mut parts, mut part) = (data.into_iter(), Bytes::new());
    let mut at = 0;
    for run in runs {
        let end = at + run.blocks() as usize * BLOCK;
        while !run.crcs().is_empty() && at < end {
            if part.is_empty() {
                part = parts.next().expect("it was whole");
                continue;
            }
            let some = part.split_to(part.len().min(end - at));
            all[at..at + some.len()].copy_from_slice(&some);
            at += some.len();
        }
        at = end;
    }
    Some(all.freeze())
}

#[cfg(test)]
mod tests;
