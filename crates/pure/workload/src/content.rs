//! What is written: blocks that can be told again, and that shrink as much as they were asked to.

use crate::draw::{below, unit, word};

/// Deduplication and content go by units of this size, at multiples of it.
pub const UNIT_BYTES: usize = 4096;

/// What the blocks of a disk hold. Deduplication and compression are independent of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Content {
    /// Of all that is drawn.
    pub seed: u64,
    /// Disks of one group may share their duplicates; each disk's own blocks differ from every other's.
    pub disk: u64,
    /// Units that are one of `duplicates`, 0..=1: a ratio of n:1 is 1 - 1/n.
    pub duplicate_share: f64,
    /// How many different units the duplicates are drawn from; at least 1.
    pub duplicates: u64,
    /// The part of each unit that a compressor finds nothing in, 0..=1: a ratio of n:1 is 1/n.
    pub random_share: f64,
}

impl Content {
    /// Nothing is alike and nothing shrinks.
    pub fn random(seed: u64, disk: u64) -> Self {
        Self { seed, disk, duplicate_share: 0.0, duplicates: 1, random_share: 1.0 }
    }

    /// The seed of a unit's bytes. What is written again differs, unless it is a duplicate both times.
    fn unit(&self, unit: u64, generation: u64) -> u64 {
        let own = word(word(self.seed, self.disk), word(unit, generation));
        match unit_is(own, self.duplicate_share) {
            true => word(!self.seed, below(word(own, 1), self.duplicates.max(1))),
            false => word(own, 2),
        }
    }

    /// Fills `bytes` as byte `offset` on of the disk, written for the `generation`th time, holds them.
    pub fn fill(&self, offset: u64, generation: u64, bytes: &mut [u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % UNIT_BYTES as u64) as usize;
            let len = (UNIT_BYTES - within).min(bytes.len() - done);
            let seed = self.unit(at / UNIT_BYTES as u64, generation);
            self.fill_unit(seed, within, &mut bytes[done..done + len]);
            done += len;
        }
    }

    /// Random words first, then one word over and over; neither is ever zero.
    fn fill_unit(&self, seed: u64, begin: usize, bytes: &mut [u8]) {
        let random = (UNIT_BYTES as f64 * self.random_share.clamp(0.0, 1.0)).round() as usize;
        let (first, filler) = (begin / 8, word(seed, u64::MAX) | 0x0101_0101_0101_0101);
        let (mut number, mut done) = (first as u64, 0);
        while done < bytes.len() {
            let is_random = (number as usize) * 8 < random;
            let told = if is_random { word(seed, number) | 1 } else { filler }.to_le_bytes();
            let skip = (begin + done) % 8;
            let len = (8 - skip).min(bytes.len() - done);
            bytes[done..done + len].copy_from_slice(&told[skip..skip + len]);
            (number, done) = (number + 1, done + len);
        }
    }

    /// Whether `bytes` are what the `generation`th write of byte `offset` on left there.
    pub fn is(&self, offset: u64, generation: u64, bytes: &[u8]) -> bool {
        let mut expected = vec![0; bytes.len()];
        self.fill(offset, generation, &mut expected);
        expected == bytes
    }
}

fn unit_is(own: u64, share: f64) -> bool {
    unit(word(own, 0)) < share
}
