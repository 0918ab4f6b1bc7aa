//! Whether blocks that came from another host are those that were sent: the checksums of the transport are weak, and the memory of
//! another host is not ours.
//!
//! Promises    whoever takes blocks from a message compares them here, once; what was changed counts as not received
//! Why         what becomes of such a message: docs/adr/0013

use cairn_types::{BLOCK_BYTES, Canary, ComponentOp};
use cairn_wire::{Request, block_crc};

/// Blocks are not those that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed;

/// Compares blocks, of which the last may be shorter, with their checksums.
pub(crate) fn compare<'a, 'b>(
    crcs: impl IntoIterator<Item = &'a u32>,
    blocks: impl IntoIterator<Item = &'b [u8]>,
) -> Result<(), Changed> {
    let right = blocks.into_iter().map(block_crc).eq(crcs.into_iter().copied());
    if right || Canary::ChangedBelieved.sings() { Ok(()) } else { Err(Changed) }
}

/// Compares the blocks of a write or a copy. The store believes what it is given: in memory of this process nothing changes
/// (fault model).
pub(crate) fn compare_request(request: &Request, payload: &[u8]) -> Result<(), Changed> {
    let blocks = payload.chunks(BLOCK_BYTES as usize);
    match request {
        Request::Change { op: ComponentOp::Apply { blocks: what, .. }, .. } => compare(what.crcs(), blocks),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockOp, ClientTag, ComponentId, DiskGroupId, Epoch, OpId, Run, SessionId};
    use cairn_wire::Target;

    use super::*;

    /// Goal: a bit that changed on the way, and blocks or checksums that are missing, are seen in writes and region copies.
    #[test]
    fn blocks_that_changed_on_the_way_are_seen() {
        let blocks: Vec<u8> = (0..3 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        let crcs: Vec<u32> = blocks.chunks(BLOCK_BYTES as usize).map(block_crc).collect();
        let to = Target {
            disk_group: DiskGroupId::default(),
            component: ComponentId::default(),
            epoch: Epoch::default(),
            session: SessionId::default(),
        };
        let (op, settled) = (OpId::ZERO, OpId::ZERO);
        let request = |blocks: BlockOp| {
            let client = ClientTag::default();
            Request::Change { to, op: ComponentOp::Apply { op, settled, client, blocks } }
        };
        let write = |crcs: &[u32]| request(BlockOp::Write { first_block: 0, crcs: crcs.into() });
        let (head, tail) = crcs.split_at(1);
        let data = |crcs: &[u32]| Run::Data { crcs: crcs.into() };
        let copy = BlockOp::Copy { first_block: 0, runs: vec![data(head), Run::Hole { blocks: 4 }, data(tail)] };
        for request in [write(&crcs), request(copy)] {
            assert_eq!(compare_request(&request, &blocks), Ok(()));
            let mut changed = blocks.clone();
            changed[5000] ^= 1;
            assert_eq!(compare_request(&request, &changed), Err(Changed));
            assert_eq!(compare_request(&request, &blocks[..blocks.len() - 512]), Err(Changed));
            assert_eq!(compare_request(&request, &blocks[..blocks.len() - BLOCK_BYTES as usize]), Err(Changed));
        }
        assert_eq!(compare_request(&write(head), &blocks), Err(Changed));
    }
}
