//! A split virtqueue, as the guest's driver sees it: indices, and who has to be woken.
//!
//! Promises    R1  what is placed is seen by the device only once it is published, all of it at once
//!             R2  the device is kicked when it asked for it, and left alone while it looks by itself
//!             R3  an answer that comes while the ring is armed is either seen by `arm` or rings
//! Assumes     the device may write anything: only identifiers come from here, and who takes them looks at them first
//! Not here    requests and their memory (`queue`); kicking, and being rung (`driver`)
//! Source      virtio 1.2, 2.7 split virtqueues; 2.7.7.2 and 2.7.10 notification suppression

use std::sync::atomic::{Ordering, fence};

use vhost::VringConfigData;
use virtio_bindings::virtio_ring::VRING_USED_F_NO_NOTIFY;

use super::memory::Memory;

const DESCRIPTOR_BYTES: usize = 16;
const PAGE: usize = 4096;

/// A piece of a request in the guest's memory.
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) len_bytes: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

/// A ring. Its parts begin on pages of their own, so that one side's writes do not take the other's cache lines.
pub(super) struct Ring {
    size: u16,
    descriptors: usize,
    available: usize,
    used: usize,
    /// Both sides say at which index they want to be told, instead of whether (`VIRTIO_RING_F_EVENT_IDX`).
    event_index: bool,
    /// What was put into the available ring, what of it the device was told, what was taken from the used ring. They run through.
    placed: u16,
    published: u16,
    taken: u16,
}

/// Whether who wants to be told when `event` is passed has to be, now that an index went from `old` to `new`.
fn needs_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl Ring {
    /// An empty ring of `size` descriptors, a power of two, at the beginning of memory that is all zero.
    pub(super) fn new(size: u16, event_index: bool) -> Self {
        assert!(size.is_power_of_two());
        let available = (DESCRIPTOR_BYTES * usize::from(size)).next_multiple_of(PAGE);
        let used = (available + 6 + 2 * usize::from(size)).next_multiple_of(PAGE);
        Self { size, descriptors: 0, available, used, event_index, placed: 0, published: 0, taken: 0 }
    }

    /// Where the ring is over, at the end of a page.
    pub(super) fn end(&self) -> usize {
        (self.used + 6 + 8 * usize::from(self.size)).next_multiple_of(PAGE)
    }

    /// As a server is told of it.
    pub(super) fn config(&self, memory: &Memory) -> VringConfigData {
        VringConfigData {
            queue_max_size: self.size,
            queue_size: self.size,
            flags: 0,
            desc_table_addr: memory.user_address(self.descriptors),
            used_ring_addr: memory.user_address(self.used),
            avail_ring_addr: memory.user_address(self.available),
            log_addr: None,
        }
    }

    pub(super) fn size(&self) -> u16 {
        self.size
    }

    pub(super) fn describe(&self, memory: &Memory, number: u16, descriptor: &Descriptor) {
        let at = self.descriptors + DESCRIPTOR_BYTES * usize::from(number);
        let Descriptor { address, len_bytes, flags, next } = *descriptor;
        memory.put_u64(at, address);
        memory.put_u64(at + 8, u64::from(len_bytes) | u64::from(flags) << 32 | u64::from(next) << 48);
    }

    /// Puts the chain that begins with descriptor `head` behind those that are there. There are never more chains than descriptors.
    pub(super) fn place(&mut self, memory: &Memory, head: u16) {
        memory.put_u16(self.available + 4 + 2 * usize::from(self.placed % self.size), head);
        self.placed = self.placed.wrapping_add(1);
    }

    /// Shows the device what was placed. True where it wants to be kicked.
    pub(super) fn publish(&mut self, memory: &Memory) -> bool {
        let (old, new) = (self.published, self.placed);
        if old == new {
            return false;
        }
        memory.index(self.available + 2).store(new.to_le(), Ordering::Release);
        self.published = new;
        // R2. The device says what it wants before it looks for the last time: one of the two sees the other's word.
        fence(Ordering::SeqCst);
        if self.event_index {
            let event = u16::from_le(memory.index(self.avail_event()).load(Ordering::Relaxed));
            needs_event(event, new, old)
        } else {
            u32::from(u16::from_le(memory.index(self.used).load(Ordering::Relaxed))) & VRING_USED_F_NO_NOTIFY == 0
        }
    }

    /// The head of the next chain that the device is done with.
    pub(super) fn take(&mut self, memory: &Memory) -> Option<u32> {
        if !self.has_used(memory) {
            return None;
        }
        let head = memory.get_u32(self.used + 4 + 8 * usize::from(self.taken % self.size));
        self.taken = self.taken.wrapping_add(1);
        Some(head)
    }

    /// Asks to be told of the next answer. True where it came meanwhile: then nobody may tell of it.
    pub(super) fn arm(&self, memory: &Memory) -> bool {
        if self.event_index {
            memory.index(self.used_event()).store(self.taken.to_le(), Ordering::Release);
            // R3. As above, the other way round.
            fence(Ordering::SeqCst);
        }
        self.has_used(memory)
    }

    fn has_used(&self, memory: &Memory) -> bool {
        u16::from_le(memory.index(self.used + 2).load(Ordering::Acquire)) != self.taken
    }

    /// The device's word, behind the used ring.
    fn avail_event(&self) -> usize {
        self.used + 4 + 8 * usize::from(self.size)
    }

    /// Ours, behind the available ring.
    fn used_event(&self) -> usize {
        self.available + 4 + 2 * usize::from(self.size)
    }
}

/// The device's side of a ring, for tests.
#[cfg(test)]
pub(super) mod device {
    use super::*;

    pub(crate) struct Device {
        taken: u16,
        used: u16,
        /// What `used` was when it was told last.
        told: u16,
    }

    impl Device {
        pub(crate) fn new() -> Self {
            Self { taken: 0, used: 0, told: 0 }
        }

        /// The head of the next chain that was published.
        pub(crate) fn next(&mut self, ring: &Ring, memory: &Memory) -> Option<u16> {
            if memory.index(ring.available + 2).load(Ordering::Acquire) == self.taken {
                return None;
            }
            let at = ring.available + 4 + 2 * usize::from(self.taken % ring.size);
            self.taken = self.taken.wrapping_add(1);
            Some(memory.index(at).load(Ordering::Relaxed))
        }

        /// Wants to be kicked for what comes after that many more.
        pub(crate) fn wants_kick_after(&self, more: u16, ring: &Ring, memory: &Memory) {
            memory.index(ring.avail_event()).store(self.taken.wrapping_add(more), Ordering::Relaxed);
        }

        pub(crate) fn descriptor(&self, number: u16, ring: &Ring, memory: &Memory) -> Descriptor {
            let at = ring.descriptors + DESCRIPTOR_BYTES * usize::from(number);
            let address = u64::from(memory.get_u32(at)) | u64::from(memory.get_u32(at + 4)) << 32;
            let last = memory.get_u32(at + 12);
            let len_bytes = memory.get_u32(at + 8);
            Descriptor { address, len_bytes, flags: last as u16, next: (last >> 16) as u16 }
        }

        /// Is done with that chain.
        pub(crate) fn done(&mut self, head: u32, ring: &Ring, memory: &Memory) {
            let at = ring.used + 4 + 8 * usize::from(self.used % ring.size);
            memory.put_u64(at, head.into());
            self.used = self.used.wrapping_add(1);
            memory.index(ring.used + 2).store(self.used, Ordering::Release);
        }

        /// Whether the driver is to be told of what is done since the last time that this was asked.
        pub(crate) fn rings(&mut self, ring: &Ring, memory: &Memory) -> bool {
            let event = memory.index(ring.used_event()).load(Ordering::Relaxed);
            let rings = needs_event(event, self.used, self.told);
            self.told = self.used;
            rings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{device::Device, *};

    #[test]
    fn who_is_told_when() {
        // event, new, old
        assert!(needs_event(0, 1, 0), "the first one, for who wants it");
        assert!(needs_event(0, 3, 0), "several at once that pass it");
        assert!(!needs_event(0, 2, 1), "it was passed before");
        assert!(!needs_event(5, 5, 3), "not passed yet");
        assert!(needs_event(5, 6, 3));
        assert!(needs_event(u16::MAX, 0, u16::MAX), "around the end");
        assert!(needs_event(u16::MAX - 1, 2, u16::MAX - 2));
        assert!(!needs_event(2, 2, u16::MAX - 2));
        assert!(!needs_event(u16::MAX - 3, 2, u16::MAX - 2));
        assert!(!needs_event(0, 7, 7), "nothing new");
    }

    fn ring(event_index: bool) -> (Ring, Memory) {
        let ring = Ring::new(4, event_index);
        let memory = Memory::new(ring.end()).unwrap();
        (ring, memory)
    }

    #[test]
    fn indices_run_through_and_around() {
        let ((mut ring, memory), mut device) = (ring(true), Device::new());
        let (mut kicks, mut bells) = (0, 0);
        for round in 0..50_000_u32 {
            let count = (round % 4 + 1) as u16;
            for head in 0..count {
                ring.place(&memory, (head + round as u16) % 4);
            }
            assert_eq!(device.next(&ring, &memory), None, "nothing is seen before it is published");
            kicks += u32::from(ring.publish(&memory));
            for head in 0..count {
                let seen = device.next(&ring, &memory);
                assert_eq!(seen, Some((head + round as u16) % 4));
                device.done(seen.unwrap().into(), &ring, &memory);
            }
            assert_eq!(device.next(&ring, &memory), None);
            device.wants_kick_after(0, &ring, &memory);
            bells += u32::from(device.rings(&ring, &memory));
            let taken: Vec<u32> = std::iter::from_fn(|| ring.take(&memory)).collect();
            assert_eq!(taken, (0..count).map(|head| u32::from((head + round as u16) % 4)).collect::<Vec<_>>());
            assert!(!ring.arm(&memory));
        }
        assert_eq!((kicks, bells), (50_000, 50_000), "each side is told once for what comes at once");
    }

    #[test]
    fn a_device_that_looks_by_itself_is_left_alone() {
        let ((mut ring, memory), mut device) = (ring(true), Device::new());
        ring.place(&memory, 0);
        assert!(ring.publish(&memory));
        assert!(!ring.publish(&memory), "nothing new");
        assert_eq!(device.next(&ring, &memory), Some(0));
        ring.place(&memory, 1);
        assert!(!ring.publish(&memory), "it was told and has not asked again");
        assert_eq!(device.next(&ring, &memory), Some(1));
        device.wants_kick_after(1, &ring, &memory);
        ring.place(&memory, 2);
        assert!(!ring.publish(&memory));
        ring.place(&memory, 3);
        assert!(ring.publish(&memory));
    }

    #[test]
    fn an_answer_that_comes_while_the_ring_is_armed_is_seen_or_rings() {
        let ((mut ring, memory), mut device) = (ring(true), Device::new());
        (0..3).for_each(|head| ring.place(&memory, head));
        ring.publish(&memory);
        device.done(0, &ring, &memory);
        assert!(device.rings(&ring, &memory), "a new ring is armed");
        assert_eq!(ring.take(&memory), Some(0));
        device.done(1, &ring, &memory);
        assert!(!device.rings(&ring, &memory), "the ring was not armed anew");
        assert!(ring.arm(&memory), "so it has to be seen");
        assert_eq!((ring.take(&memory), ring.take(&memory)), (Some(1), None));
        assert!(!ring.arm(&memory));
        device.done(2, &ring, &memory);
        assert!(device.rings(&ring, &memory));
        assert_eq!(ring.take(&memory), Some(2));
    }

    #[test]
    fn without_event_indices_a_flag_says_whether() {
        let ((mut ring, memory), mut device) = (ring(false), Device::new());
        ring.place(&memory, 0);
        assert!(ring.publish(&memory));
        memory.put_u16(ring.used, VRING_USED_F_NO_NOTIFY as u16);
        ring.place(&memory, 1);
        assert!(!ring.publish(&memory));
        memory.put_u16(ring.used, 0);
        ring.place(&memory, 2);
        assert!(ring.publish(&memory));
        device.done(0, &ring, &memory);
        assert_eq!(ring.take(&memory), Some(0));
        assert!(!ring.arm(&memory));
        assert_eq!(memory.get_u32(ring.used_event()) as u16, 0, "nobody reads it");
    }
}
