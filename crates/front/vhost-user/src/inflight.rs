//! Which requests are under way, in memory that outlives this process: the front end keeps it and hands it to the next one.
//!
//! Promises    whatever the moment at which this process ends, a request whose answer the machine can see is not carried out again, and
//!             each other one is, in the order in which they came
//! Source      the vhost-user text, "Inflight I/O tracking", split virtqueues; answers are given one at a time, so a batch is one

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _, VolatileSlice};

/// The regions of all rings of a device.
pub(crate) struct Regions {
    memory: Arc<MmapRegion>,
    rings: u16,
    entries: u16,
}

/// That of one ring.
pub(crate) struct Inflight {
    memory: Arc<MmapRegion>,
    base: usize,
    entries: u16,
    /// The number that the next request gets.
    next: u64,
}

// struct { le64 features; le16 version, desc_num, last_batch_head, used_idx; desc[] }
const VERSION_AT: usize = 8;
const ENTRIES_AT: usize = 10;
const LAST_HEAD_AT: usize = 12;
const USED_AT: usize = 14;
const ENTRY_AT: usize = 16;
// desc: { u8 inflight, padding[5]; le16 next; le64 counter }
const ENTRY_BYTES: usize = 16;
const NEXT_AT: usize = 6;
const COUNTER_AT: usize = 8;
const VERSION: u16 = 1;
/// Each ring's region has its own lines of the processor's caches.
const ALIGN_BYTES: usize = 64;

/// Bytes of one ring's region.
fn ring_bytes(entries: u16) -> usize {
    (ENTRY_AT + usize::from(entries) * ENTRY_BYTES).next_multiple_of(ALIGN_BYTES)
}

impl Regions {
    /// Makes regions; the file is for the front end. Their bytes are told by [`Self::len`].
    pub(crate) fn make(rings: u16, entries: u16) -> io::Result<(Self, File)> {
        let len = usize::from(rings) * ring_bytes(entries);
        let file: OwnedFd = memfd_create("cairn-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = File::from(file);
        Ok((Self::adopt(file.try_clone()?, 0, len as u64, rings, entries)?, file))
    }

    /// Takes regions that the front end kept.
    pub(crate) fn adopt(file: File, offset: u64, len: u64, rings: u16, entries: u16) -> io::Result<Self> {
        if len < usize::from(rings) as u64 * ring_bytes(entries) as u64 {
            return Err(io::Error::other("the region of requests that are under way is too small for its rings"));
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let memory = MmapRegion::from_file(FileOffset::new(file, offset), len).map_err(io::Error::other)?;
        Ok(Self { memory: Arc::new(memory), rings, entries })
    }

    /// Bytes of all.
    pub(crate) fn len(&self) -> u64 {
        self.memory.size() as u64
    }

    /// That of a ring with `entries` entries; none where the regions were made for fewer.
    pub(crate) fn ring(&self, index: u16, entries: u16) -> Option<Inflight> {
        let fits = index < self.rings && entries <= self.entries;
        let base = usize::from(index) * ring_bytes(self.entries);
        fits.then(|| Inflight { memory: self.memory.clone(), base, entries, next: 1 })
    }
}

impl Inflight {
    fn bytes(&self) -> VolatileSlice<'_> {
        self.memory.as_volatile_slice()
    }

    fn u16_at(&self, at: usize) -> u16 {
        self.bytes().load(self.base + at, Ordering::Acquire).expect("the region was measured")
    }

    fn put_u16(&self, at: usize, value: u16) {
        self.bytes().store(value, self.base + at, Ordering::Release).expect("the region was measured");
    }

    fn entry_at(head: u16) -> usize {
        ENTRY_AT + usize::from(head) * ENTRY_BYTES
    }

    fn mark(&self, head: u16, under_way: bool) {
        let at = self.base + Self::entry_at(head);
        self.bytes().store(u8::from(under_way), at, Ordering::Release).expect("the region was measured");
    }

    fn counter(&self, head: u16) -> u64 {
        let at = self.base + Self::entry_at(head) + COUNTER_AT;
        self.bytes().load(at, Ordering::Acquire).expect("the region was measured")
    }

    /// Begins with a ring whose machine has seen `used` answers: what is to be carried out again, in order. None where nothing was begun
    /// yet, so that the ring goes on where the front end says.
    pub(crate) fn recover(&mut self, used: u16) -> Option<Vec<u16>> {
        if self.u16_at(VERSION_AT) == 0 {
            self.put_u16(USED_AT, used);
            self.put_u16(ENTRIES_AT, self.entries);
            self.put_u16(VERSION_AT, VERSION);
            return None;
        }
        if self.u16_at(USED_AT) != used {
            // The machine sees the last answer, and the process ended before it was noted here.
            let head = self.u16_at(LAST_HEAD_AT);
            if head < self.entries {
                self.mark(head, false);
            }
            self.put_u16(USED_AT, used);
        }
        let is_under_way = |head: &u16| {
            let flag: u8 = self.bytes().load(self.base + Self::entry_at(*head), Ordering::Acquire).expect("measured");
            flag == 1
        };
        let mut again: Vec<u16> = (0..self.entries).filter(is_under_way).collect();
        again.sort_by_key(|head| self.counter(*head));
        self.next = again.last().map_or(1, |head| self.counter(*head).wrapping_add(1));
        Some(again)
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, head: u16) {
        let at = self.base + Self::entry_at(head) + COUNTER_AT;
        self.bytes().store(self.next, at, Ordering::Release).expect("the region was measured");
        self.next = self.next.wrapping_add(1);
        self.mark(head, true);
    }

    /// The machine is about to see its answer.
    pub(crate) fn ending(&self, head: u16) {
        let last = self.u16_at(LAST_HEAD_AT);
        self.put_u16(Self::entry_at(head) + NEXT_AT, last);
        self.put_u16(LAST_HEAD_AT, head);
    }

    /// The machine has seen it, and `used` answers in all.
    pub(crate) fn ended(&self, head: u16, used: u16) {
        self.mark(head, false);
        self.put_u16(USED_AT, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the next process makes of the regions.
    fn next(file: &File, used: u16) -> Option<Vec<u16>> {
        let len = file.metadata().unwrap().len();
        let regions = Regions::adopt(file.try_clone().unwrap(), 0, len, 2, 8).unwrap();
        regions.ring(1, 8).unwrap().recover(used)
    }

    #[test]
    fn what_was_under_way_comes_again_in_order_wherever_the_process_ended() {
        let (regions, file) = Regions::make(2, 8).unwrap();
        let mut ring = regions.ring(1, 8).unwrap();
        assert_eq!(ring.recover(u16::MAX), None, "nothing was begun");
        assert_eq!(next(&file, u16::MAX), Some(vec![]));
        for head in [5, 0, 3] {
            ring.begin(head);
        }
        assert_eq!(next(&file, u16::MAX), Some(vec![5, 0, 3]));
        ring.ending(0);
        assert_eq!(next(&file, u16::MAX), Some(vec![5, 0, 3]), "the machine has not seen it");
        assert_eq!(next(&file, 0), Some(vec![5, 3]), "it has");
        ring.ended(0, 0);
        assert_eq!(next(&file, 0), Some(vec![5, 3]));
        ring.begin(0);
        assert_eq!(next(&file, 0), Some(vec![5, 3, 0]), "the entry is used again, behind the others");
    }

    #[test]
    fn the_next_process_numbers_behind_the_last() {
        let (_, file) = Regions::make(1, 4).unwrap();
        let adopt = || Regions::adopt(file.try_clone().unwrap(), 0, file.metadata().unwrap().len(), 1, 4).unwrap();
        let mut first = adopt().ring(0, 4).unwrap();
        assert_eq!(first.recover(0), None);
        first.begin(2);
        let mut second = adopt().ring(0, 4).unwrap();
        assert_eq!(second.recover(0), Some(vec![2]));
        second.begin(1);
        assert_eq!(adopt().ring(0, 4).unwrap().recover(0), Some(vec![2, 1]));
    }

    #[test]
    fn regions_for_other_rings_are_refused() {
        let (regions, file) = Regions::make(2, 8).unwrap();
        assert!(regions.ring(2, 8).is_none());
        assert!(regions.ring(0, 16).is_none());
        assert!(Regions::adopt(file, 0, regions.len(), 3, 8).is_err());
    }
}
