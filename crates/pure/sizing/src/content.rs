//! What data comes to where it is packed, and where equal blocks are kept once: block after block, by the store's own packing.
//!
//! Promises    a packed block takes what a disk group that packs gives it; beside it stands the rule of vSAN
//! Assumes     two blocks with equal checksums of 96 bits are equal: among a billion blocks that is wrong once in 10^11 times
//! Not here    reading files; headers and metadata, which `cairn cluster capacity` tells

use std::hash::{DefaultHasher, Hasher as _};

use cairn_format::{PAGE_SECTORS, Packer, SECTOR_BYTES, crc32c};
use cairn_types::BLOCK_BYTES;
use serde::Serialize;

use crate::{error::SizingError, exact::Exact};

/// Sectors that vSAN keeps a block in whose packed form takes no more: 2 KiB.
const VSAN_SECTORS: u32 = 4;

/// Looks at blocks, one after the other.
#[derive(Default)]
pub struct Content {
    packer: Packer,
    zero_blocks: u64,
    /// Of each block that is not zero: a checksum of 96 bits, and the sectors that it takes in the four lowest.
    blocks: Vec<u128>,
}

/// What that came to. A block is 4 KiB; what is not zero counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContentReport {
    /// Blocks of zeroes: they take nothing where a group packs.
    pub zero_blocks: u64,
    /// All others.
    pub blocks: u64,
    /// Of these, those that came before with the same bytes.
    pub equal_blocks: u64,
    /// Bytes before : after, each block packed with LZ4 to sectors of 512 bytes, raw above six of them: what a disk group does.
    pub packed: Exact,
    /// Bytes before : after by vSAN's rule, 2 KiB or raw.
    pub vsan: Exact,
    /// Before : after where equal blocks are kept once, and none is packed.
    pub once: Exact,
    /// Both, as a disk group packs.
    pub once_packed: Exact,
    /// Both, by vSAN's rule.
    pub once_vsan: Exact,
}

impl Content {
    /// Takes a block in; shorter ones end with zeroes, as files do on a file system.
    ///
    /// # Panics
    /// When it is longer than a block.
    pub fn add(&mut self, bytes: &[u8]) {
        if bytes.iter().all(|byte| *byte == 0) {
            self.zero_blocks += 1;
            return;
        }
        let mut whole;
        let block = match bytes.len() < BLOCK_BYTES as usize {
            true => {
                whole = bytes.to_vec();
                whole.resize(BLOCK_BYTES as usize, 0);
                &whole[..]
            }
            false => bytes,
        };
        let sectors = self.packer.pack(block).map_or(PAGE_SECTORS, |packed| packed.len() as u32 / SECTOR_BYTES);
        let mut hasher = DefaultHasher::new();
        hasher.write(block);
        self.blocks.push((u128::from(hasher.finish()) << 32 | u128::from(crc32c(block))) << 4 | u128::from(sectors));
    }

    /// What all of them come to.
    ///
    /// # Errors
    /// None of them has data.
    pub fn report(mut self) -> Result<ContentReport, SizingError> {
        if self.blocks.is_empty() {
            let text = format!("{} blocks of zeroes, and nothing else: there is nothing to pack", self.zero_blocks);
            return Err(SizingError::value(text, "name files or folders with data"));
        }
        let (blocks, packed, vsan) = (self.blocks.len() as u64, self.sectors(|own| own), self.sectors(by_vsan));
        self.blocks.sort_unstable();
        self.blocks.dedup();
        let once = self.blocks.len() as u64;
        let raw = blocks * u64::from(PAGE_SECTORS);
        let ratio = |after: u64| Exact::fraction(i128::from(raw), i128::from(after));
        Ok(ContentReport {
            zero_blocks: self.zero_blocks,
            blocks,
            equal_blocks: blocks - once,
            packed: ratio(packed)?,
            vsan: ratio(vsan)?,
            once: ratio(once * u64::from(PAGE_SECTORS))?,
            once_packed: ratio(self.sectors(|own| own))?,
            once_vsan: ratio(self.sectors(by_vsan))?,
        })
    }

    fn sectors(&self, rule: impl Fn(u32) -> u32) -> u64 {
        self.blocks.iter().map(|block| u64::from(rule((block & 15) as u32))).sum()
    }
}

fn by_vsan(sectors: u32) -> u32 {
    if sectors <= VSAN_SECTORS { VSAN_SECTORS } else { PAGE_SECTORS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let step =
            |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let words = std::iter::successors(Some(seed ^ 0x9e37_79b9_7f4a_7c15), step);
        words.flat_map(|word| (word >> 32).to_le_bytes().into_iter().take(4)).take(bytes).collect()
    }

    /// Goal: each rule gives what it says. Method: noise twice, half of it, text, zeroes, and a short end, counted by hand.
    #[test]
    fn ratios_are_those_of_the_rules() {
        let mut content = Content::default();
        let half = |seed| [noise(seed, 1900), vec![0; 2196]].concat();
        for block in [noise(1, 4096), noise(1, 4096), half(2), vec![b'x'; 4096], vec![0; 4096], vec![b'y'; 100]] {
            content.add(&block);
        }
        let report = content.report().expect("there is data");
        assert_eq!((report.zero_blocks, report.blocks, report.equal_blocks), (1, 5, 1));
        // Sectors: 8, 8, 4, 1, 1; by 2 KiB: 8, 8, 4, 4, 4.
        let ratios = [report.packed, report.vsan, report.once, report.once_packed, report.once_vsan];
        let by_hand = [(40, 22), (40, 28), (40, 32), (40, 14), (40, 20)];
        assert_eq!(ratios, by_hand.map(|(above, below)| Exact::fraction(above, below).expect("a number")));
        assert!(Content::default().report().is_err());
    }
}
