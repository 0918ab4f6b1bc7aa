//! Whether blocks that came from another host are those that were sent: the checksums of the transport are weak, and the memory of
//! another host is not ours.
//!
//! Promises    whoever takes blocks from a message compares them here, once; what was changed counts as not received
//! Why         what becomes of such a message: docs/adr/0013

use cairn_parity::crc_of_difference;
use cairn_types::{BLOCK_BYTES, BlockOp, Canary, ComponentOp, Contents, Run};
use cairn_wire::{Request, block_crc};

/// Blocks are not those that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed;

/// Compares blocks, of which the last may be shorter, with their checksums.
pub(crate) fn compare<'a, 'b>(
    crcs: impl IntoIterator<Item = &'a u32>,
    blocks: impl IntoIterator<Item = &'b [u8]>,
) -> Result<(), Changed> {
    compare_each(crcs.into_iter().copied(), blocks)
}

fn compare_each<'b>(
    crcs: impl Iterator<Item = u32>,
    blocks: impl IntoIterator<Item = &'b [u8]>,
) -> Result<(), Changed> {
    let right = blocks.into_iter().map(block_crc).eq(crcs);
    if right || Canary::ChangedBelieved.sings() { Ok(()) } else { Err(Changed) }
}

/// Lengths and, for what came over the network, checksums.
pub(crate) fn check(contents: &Contents, blocks: u32, verify: bool) -> Result<(), Changed> {
    if !contents.is_whole(blocks) {
        return Err(Changed);
    }
    if !verify {
        return Ok(());
    }
    let crcs = contents.runs.iter().flat_map(Run::crcs);
    compare(crcs, contents.data.iter().flat_map(|part| part.chunks_exact(BLOCK_BYTES as usize)))
}

/// Compares the blocks of a write, a copy, a piece of history, or a difference, which has no checksums of its own. The store believes what it is given: in memory
/// of this process nothing changes (fault model).
pub(crate) fn compare_request(request: &Request, payload: &[u8]) -> Result<(), Changed> {
    let blocks = payload.chunks(BLOCK_BYTES as usize);
    if let Request::FillHistory { runs, .. } = request {
        return compare(runs.iter().flat_map(Run::crcs), blocks);
    }
    let (Request::Change { op, .. } | Request::Exchange { op, .. }) = request else { return Ok(()) };
    match op {
        ComponentOp::Apply { blocks: BlockOp::Difference(d), .. } if d.old.len() != d.new.len() => Err(Changed),
        ComponentOp::Apply { blocks: BlockOp::Difference(d), .. } => {
            compare_each(d.old.iter().zip(&d.new).map(|(old, new)| crc_of_difference(*old, *new)), blocks)
        }
        ComponentOp::Apply { blocks: what, .. } => compare(what.crcs(), blocks),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{ClientTag, ComponentId, Difference, DiskGroupId, Epoch, OpId, SessionId};
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

    /// Goal: a difference that changed on the way, or was made from another block than its sender says, is seen. Method: two blocks, each
    /// bit of what is told of them apart.
    #[test]
    fn a_difference_is_compared_with_what_it_is_the_difference_of() {
        let block = |seed: usize| (0..BLOCK_BYTES as usize).map(|at| ((at * seed) >> 3) as u8).collect::<Vec<_>>();
        let (old, new) = ([block(3), block(5)].concat(), [block(7), block(11)].concat());
        let crcs = |bytes: &[u8]| bytes.chunks(BLOCK_BYTES as usize).map(block_crc).collect::<Vec<_>>();
        let payload: Vec<u8> = old.iter().zip(&new).map(|(old, new)| old ^ new).collect();
        let to = Target {
            disk_group: DiskGroupId::default(),
            component: ComponentId::default(),
            epoch: Epoch::default(),
            session: SessionId::default(),
        };
        let request = |old: &[u32], new: &[u32]| {
            let (old, new) = (old.into(), new.into());
            let difference = Difference { members: 5, first_block: 9, column: 1, factor: 2, old, new };
            let blocks = BlockOp::Difference(Box::new(difference));
            let (op, settled, client) = (OpId::ZERO, OpId::ZERO, ClientTag::default());
            Request::Change { to, op: ComponentOp::Apply { op, settled, client, blocks } }
        };
        let (old, new) = (crcs(&old), crcs(&new));
        assert_eq!(compare_request(&request(&old, &new), &payload), Ok(()));
        let mut changed = payload.clone();
        changed[5000] ^= 1;
        assert_eq!(compare_request(&request(&old, &new), &changed), Err(Changed));
        assert_eq!(compare_request(&request(&[old[0], old[1] ^ 1], &new), &payload), Err(Changed));
        assert_eq!(compare_request(&request(&old, &new[..1]), &payload), Err(Changed));
        assert_eq!(compare_request(&request(&old, &new), &payload[..BLOCK_BYTES as usize]), Err(Changed));
    }
}
