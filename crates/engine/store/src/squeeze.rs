//! Squeezing: what is destaged is packed on the way to the capacity tier, where the group is set so.
//!
//! Promises    what is packed unpacks to the same bytes, right or wrong: whose checksum was wrong is told when it is read
//!             the shard's thread packs nothing; what does not pack costs little (`patience.rs`)
//! Not here    the form of a packed block (`cairn-format`), where it goes (`segments.rs`), whether there is room (`charge.rs`)
//!
//! A block of zeroes needs no item, unless it is parity: an entry that stands nowhere has no row check.

use bytes::Bytes;
use cairn_env::Env;
use cairn_format::{Packer, zero_block_crc};
use cairn_types::ComponentId;
use futures::{StreamExt, stream};

use crate::{
    capacity::OutBlock,
    disk_group::Inner,
    patience::{Misses, is_tried},
    records::RecordId,
    state::State,
};

/// Blocks of one job: packing text takes some 0.4 ms, unpacking it 0.1 ms, fingerprints 12 us.
pub(crate) const BLOCKS_PER_JOB: usize = 64;
/// Jobs at once.
pub(crate) const JOBS: usize = 2;

/// A block on its way to a capacity device.
pub(crate) struct Outgoing {
    /// Its place among the round's spots.
    pub at: usize,
    /// It has a row check.
    pub is_parity: bool,
    /// Of the log; none for a block that moves.
    pub record: Option<RecordId>,
    /// As it stood, where it moves and was packed: it takes no more room than it did.
    pub packed: Option<Bytes>,
    pub block: OutBlock,
}

/// What became of a block.
enum Squeezed {
    Raw,
    Zero,
    Packed(Bytes),
}

/// A block of a job.
struct ToPack {
    component: ComponentId,
    crc: u32,
    is_parity: bool,
    data: Bytes,
    packed: Option<Bytes>,
}

fn squeeze(job: &[ToPack], misses: &mut Misses) -> Vec<Squeezed> {
    let mut packer = Packer::default();
    let mut one = |ToPack { component, crc, is_parity, data, packed }: &ToPack| {
        if let Some(packed) = packed {
            return Squeezed::Packed(packed.clone());
        }
        // The checksum first: bytes that should be zeroes and are not stay what they are, and the other way round.
        if !is_parity && *crc == zero_block_crc() && data.iter().all(|byte| *byte == 0) {
            return Squeezed::Zero;
        }
        let missed = misses.entry(*component).or_default();
        let packed = is_tried(*missed).then(|| packer.pack(data)).flatten();
        *missed = if packed.is_some() { 0 } else { missed.saturating_add(1) };
        packed.map_or(Squeezed::Raw, |packed| Squeezed::Packed(packed.into()))
    };
    job.iter().map(&mut one).collect()
}

impl<E: Env> Inner<E> {
    /// Packs what can be, in place. Gives the places of blocks that need no item, and takes these out.
    pub(crate) async fn squeeze(&self, blocks: &mut Vec<Outgoing>) -> Vec<usize> {
        let jobs = blocks.chunks(BLOCKS_PER_JOB).map(|some| {
            let to_pack = |Outgoing { is_parity, packed, block, .. }: &Outgoing| ToPack {
                component: block.component,
                crc: block.crc,
                is_parity: *is_parity,
                data: block.data.clone(),
                packed: packed.clone(),
            };
            let job: Vec<ToPack> = some.iter().map(to_pack).collect();
            async move {
                let mut misses = self.state.borrow().patience.of(job.iter().map(|block| block.component));
                let done = self.env.run_blocking(move || (squeeze(&job, &mut misses), misses)).await;
                let State { patience, components, .. } = &mut *self.state.borrow_mut();
                patience.learn(done.1, |id| components.is_here(id));
                done.0
            }
        });
        let squeezed: Vec<Vec<Squeezed>> = stream::iter(jobs).buffered(JOBS).collect().await;
        let (mut kept, mut zeroes) = (Vec::with_capacity(blocks.len()), Vec::new());
        let (mut packed_blocks, mut packed_bytes) = (0, 0);
        for (mut outgoing, squeezed) in std::mem::take(blocks).into_iter().zip(squeezed.into_iter().flatten()) {
            match squeezed {
                Squeezed::Raw => {}
                Squeezed::Packed(bytes) => {
                    (packed_blocks, packed_bytes) = (packed_blocks + 1, packed_bytes + bytes.len() as u64);
                    outgoing.block.data = bytes;
                }
                Squeezed::Zero => {
                    zeroes.push(outgoing.at);
                    continue;
                }
            }
            kept.push(outgoing);
        }
        *blocks = kept;
        let counters = &mut self.state.borrow_mut().counters;
        counters.packed_blocks += packed_blocks;
        counters.packed_bytes += packed_bytes;
        counters.zero_blocks += zeroes.len() as u64;
        counters.unpacked_blocks += blocks.len() as u64 - packed_blocks;
        zeroes
    }
}

#[cfg(test)]
mod tests {
    use cairn_format::crc32c;

    use super::*;

    fn noise(seed: u64) -> Bytes {
        let mut state = seed;
        let mut byte = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 56) as u8
        };
        (0..4096).map(|_| byte()).collect::<Vec<u8>>().into()
    }

    /// Goal: noise is given up, and text behind it is found again; zeroes are told, unless they are parity or not what their checksum says. Method:
    /// blocks of each kind.
    #[test]
    fn noise_is_given_up_and_text_is_found_again() {
        let (id, mut misses) = (ComponentId(1), Misses::new());
        let of = |crc: u32, is_parity: bool, data: Bytes| ToPack { component: id, crc, is_parity, data, packed: None };
        let block = |data: Bytes| of(crc32c(&data), false, data);
        let job: Vec<ToPack> = (0..100).map(|seed| block(noise(seed))).collect();
        assert!(squeeze(&job, &mut misses).iter().all(|one| matches!(one, Squeezed::Raw)));
        assert_eq!(misses[&id], 100);
        let text = || block(Bytes::from(vec![b'x'; 4096]));
        let job: Vec<ToPack> = (0..10).map(|_| text()).collect();
        let packed: Vec<bool> = squeeze(&job, &mut misses)
            .iter()
            .map(|one| matches!(one, Squeezed::Packed(bytes) if bytes.len() == 512))
            .collect();
        assert_eq!((packed.iter().filter(|packed| **packed).count(), misses[&id]), (6, 0), "{packed:?}");
        let zeroes = Bytes::from(vec![0; 4096]);
        let job = vec![
            block(zeroes.clone()),
            of(zero_block_crc(), true, zeroes.clone()),
            of(7, false, zeroes),
            of(zero_block_crc(), false, noise(1)),
            ToPack { packed: Some(Bytes::from_static(b"as it stood")), ..block(noise(2)) },
        ];
        let told: Vec<u8> = squeeze(&job, &mut misses)
            .iter()
            .map(|one| match one {
                Squeezed::Zero => 0,
                Squeezed::Packed(_) => 1,
                Squeezed::Raw => 2,
            })
            .collect();
        assert_eq!(told, [0, 1, 1, 2, 1]);
    }
}
