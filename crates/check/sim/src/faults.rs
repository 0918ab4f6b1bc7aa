//! What a device can do wrong: one vocabulary (docs/fault-model.md uses the same words).
//!
//! Not here    torn and lost unsynced sectors: those come with a power loss (`medium.rs`); link faults (`net.rs`)

use std::collections::BTreeSet;

use cairn_env::DiskErrorKind;

use crate::medium::SECTOR;

/// A fault of one device. "Next" faults count operations, and several of one kind add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The next read fails; the one after it does not.
    ReadErrorNext,
    /// Reads of these bytes fail until they are written again (a sector that cannot be read).
    LatentSectorError {
        /// First byte.
        offset: u64,
        /// How many.
        len_bytes: u64,
    },
    /// The next write fails; each of its sectors holds the new bytes or the old.
    WriteErrorNext,
    /// The next write fails, as the file system below has no room; its sectors are as for [`Fault::WriteErrorNext`].
    NoSpaceNext,
    /// The next flush (or blocking sync) fails; of what it covered, any sector may be lost.
    FlushErrorNext,
    /// One bit turns over on the medium, at once (bit rot).
    BitFlip {
        /// The byte.
        offset: u64,
        /// The bit in it, 0..8.
        bit: u8,
    },
    /// The next write is acknowledged and not done: the sectors stay as they were (stale sectors).
    LostWriteNext,
    /// The next write is acknowledged and lands this many bytes further on (a multiple of 512), around the end.
    MisdirectedWriteNext {
        /// How far off.
        by_bytes: u64,
    },
    /// Every operation fails until [`crate::SimDisk::bring_back`]: pulled out, or its controller died.
    Gone,
    /// Every operation takes this many times as long; 1 is healthy again.
    Slow {
        /// How many times.
        times: u32,
    },
}

/// The faults that wait to happen on one device.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    read_errors: u32,
    write_errors: u32,
    no_space: u32,
    flush_errors: u32,
    lost_writes: u32,
    misdirected: Vec<u64>,
    latent: BTreeSet<u64>,
    pub(crate) gone: bool,
    pub(crate) slow_times: Option<u32>,
}

fn take_one(count: &mut u32) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}

impl Faults {
    /// Notes a fault; bit flips are the medium's.
    pub(crate) fn add(&mut self, fault: Fault) {
        match fault {
            Fault::ReadErrorNext => self.read_errors += 1,
            Fault::WriteErrorNext => self.write_errors += 1,
            Fault::NoSpaceNext => self.no_space += 1,
            Fault::FlushErrorNext => self.flush_errors += 1,
            Fault::LostWriteNext => self.lost_writes += 1,
            Fault::MisdirectedWriteNext { by_bytes } => self.misdirected.push(by_bytes),
            Fault::LatentSectorError { offset, len_bytes } => {
                let end = (offset + len_bytes).div_ceil(SECTOR);
                self.latent.extend(offset / SECTOR..end);
            }
            Fault::Gone => self.gone = true,
            Fault::Slow { times } => self.slow_times = Some(times),
            Fault::BitFlip { .. } => {}
        }
    }

    /// Forgets all but the sectors that cannot be read.
    pub(crate) fn heal(&mut self) {
        *self = Self { latent: std::mem::take(&mut self.latent), ..Self::default() };
    }

    /// Why a read of this range fails, if it does.
    pub(crate) fn on_read(&mut self, offset: u64, len_bytes: u64) -> Option<&'static str> {
        if take_one(&mut self.read_errors) {
            return Some("input/output error");
        }
        let sectors = offset / SECTOR..(offset + len_bytes).div_ceil(SECTOR);
        self.latent.range(sectors).next().map(|_| "unrecovered read error")
    }

    pub(crate) fn on_write_fails(&mut self) -> Option<DiskErrorKind> {
        if take_one(&mut self.no_space) {
            return Some(DiskErrorKind::NoSpace);
        }
        take_one(&mut self.write_errors).then_some(DiskErrorKind::Write)
    }

    pub(crate) fn on_flush_fails(&mut self) -> bool {
        take_one(&mut self.flush_errors)
    }

    /// Where a write of `len_bytes` really lands: none is nowhere. Written sectors can be read again.
    pub(crate) fn lands_at(&mut self, offset: u64, len_bytes: u64, device: u64) -> Option<u64> {
        if take_one(&mut self.lost_writes) {
            return None;
        }
        let mut lands = offset;
        if let Some(by_bytes) = self.misdirected.pop() {
            let last = device.saturating_sub(len_bytes);
            lands = (offset + by_bytes / SECTOR * SECTOR) % (last + SECTOR);
        }
        for sector in lands / SECTOR..(lands + len_bytes).div_ceil(SECTOR) {
            self.latent.remove(&sector);
        }
        Some(lands)
    }
}
