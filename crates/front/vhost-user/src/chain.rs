//! A chain of descriptors as two lists of segments. Pure but for reading the machine's memory, where each descriptor is read once.
//!
//! Promises    it ends, whatever the memory holds; a segment may still lie outside the memory, which whoever copies finds out
//! Source      virtio 1.2, section 2.7.5

use smallvec::SmallVec;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address as _, Bytes as _, GuestAddress, GuestMemoryMmap};

/// A run of bytes in the machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: GuestAddress,
    /// Bytes.
    pub(crate) len: u32,
}

impl Segment {
    /// What is left behind its first `count` bytes; none where nothing is.
    pub(crate) fn without_first(self, count: u32) -> Option<Self> {
        let len = self.len.checked_sub(count).filter(|left| *left > 0)?;
        Some(Self { at: self.at.checked_add(count.into())?, len })
    }
}

/// Segments; those of a request of some KiB need no memory of their own.
pub(crate) type Segments = SmallVec<[Segment; 3]>;

/// What a request consists of.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// What the device reads, in order.
    pub(crate) readable: Segments,
    /// What it writes, in order, all behind what it reads.
    pub(crate) writable: Segments,
}

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;

/// The chain that begins with descriptor `head` of the table at `table`, which has `size` of them.
pub(crate) fn walk(memory: &GuestMemoryMmap, table: GuestAddress, size: u16, head: u16) -> Result<Chain, &'static str> {
    let mut chain = Chain::default();
    let (mut table, mut size, mut next, mut indirect) = (table, size, head, false);
    let mut left = size;
    loop {
        if next >= size || left == 0 {
            return Err("a chain of descriptors that leaves its table or has no end");
        }
        left -= 1;
        let at = table.checked_add(u64::from(next) * DESCRIPTOR_BYTES).ok_or("a table of descriptors without end")?;
        let descriptor: Descriptor = memory.read_obj(at).map_err(|_| "a descriptor outside the memory")?;
        if descriptor.refers_to_indirect_table() {
            let count = descriptor.len() / DESCRIPTOR_BYTES as u32;
            if indirect
                || descriptor.has_next()
                || count == 0
                || !descriptor.len().is_multiple_of(DESCRIPTOR_BYTES as u32)
            {
                return Err("an indirect table of descriptors that virtio does not allow");
            }
            (table, next, indirect) = (descriptor.addr(), 0, true);
            size = u16::try_from(count).map_err(|_| "an indirect table of too many descriptors")?;
            left = size;
            continue;
        }
        let segment = Segment { at: descriptor.addr(), len: descriptor.len() };
        match descriptor.is_write_only() {
            true => chain.writable.push(segment),
            false if chain.writable.is_empty() => chain.readable.push(segment),
            false => return Err("a descriptor to read behind one to write"),
        }
        if !descriptor.has_next() {
            return Ok(chain);
        }
        next = descriptor.next();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const TABLE: GuestAddress = GuestAddress(0x1000);
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;

    /// A memory with these (address, length, flags, next) as its table.
    pub(crate) fn table(descriptors: &[(u64, u32, u16, u16)]) -> GuestMemoryMmap {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
        put(&memory, TABLE, descriptors);
        memory
    }

    fn put(memory: &GuestMemoryMmap, table: GuestAddress, descriptors: &[(u64, u32, u16, u16)]) {
        for (number, (addr, len, flags, next)) in descriptors.iter().enumerate() {
            let at = GuestAddress(table.0 + number as u64 * DESCRIPTOR_BYTES);
            memory.write_obj(Descriptor::new(*addr, *len, *flags, *next), at).unwrap();
        }
    }

    fn lens(segments: &[Segment]) -> Vec<u32> {
        segments.iter().map(|s| s.len).collect()
    }

    #[test]
    fn a_chain_is_read_in_its_order() {
        let memory = table(&[(0, 1, WRITE, 0), (0x8000, 16, NEXT, 3), (0, 0, 0, 0), (0x9000, 512, NEXT | WRITE, 0)]);
        let chain = walk(&memory, TABLE, 4, 1).unwrap();
        assert_eq!((lens(&chain.readable), lens(&chain.writable)), (vec![16], vec![512, 1]));
    }

    #[test]
    fn an_indirect_table_takes_its_place() {
        let memory = table(&[(0x2000, 48, INDIRECT, 0)]);
        put(&memory, GuestAddress(0x2000), &[(0, 16, NEXT, 2), (0, 9, 0, 0), (0, 1, WRITE, 0)]);
        let chain = walk(&memory, TABLE, 1, 0).unwrap();
        assert_eq!((lens(&chain.readable), lens(&chain.writable)), (vec![16], vec![1]));
    }

    #[test]
    fn what_virtio_does_not_allow_is_refused() {
        let refused = |descriptors: &[(u64, u32, u16, u16)], size, head| {
            walk(&table(descriptors), TABLE, size, head).unwrap_err();
        };
        refused(&[(0, 16, NEXT, 0)], 1, 0); // a circle
        refused(&[(0, 16, NEXT, 1), (0, 16, NEXT, 0)], 2, 0);
        refused(&[(0, 16, NEXT, 9)], 8, 0); // out of the table
        refused(&[(0, 16, 0, 0)], 8, 8);
        refused(&[(0, 1, WRITE | NEXT, 1), (0, 16, 0, 0)], 8, 0); // to read behind to write
        refused(&[(0x2000, 40, INDIRECT, 0)], 8, 0); // half a descriptor
        refused(&[(0x2000, 0, INDIRECT, 0)], 8, 0);
        refused(&[(0x2000, 16, INDIRECT | NEXT, 1)], 8, 0);
        refused(&[(0x1000, 16, INDIRECT, 0)], 8, 0); // an indirect one in an indirect one: itself
        refused(&[(1 << 30, 16, INDIRECT, 0)], 8, 0); // outside the memory
        refused(&[(u64::MAX - 7, 32, INDIRECT, 0)], 8, 0);
    }
}
