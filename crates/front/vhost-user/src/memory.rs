//! A machine's memory, as its front end shares it.
//!
//! Promises    an address that lies in no region is refused, wherever it comes from
//! Not here    what lies where (`chain`, `vring`)

use std::fs::File;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::chain::Segment;

/// The regions, mapped.
pub(crate) struct Memory {
    pub(crate) map: GuestMemoryMmap,
    /// Where each lies in the front end's own addresses, in which it tells where its rings are.
    windows: Vec<Window>,
}

struct Window {
    user: u64,
    guest: u64,
    len: u64,
}

impl Memory {
    /// Maps what the front end shares.
    pub(crate) fn map(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Self, String> {
        let mut windows = Vec::with_capacity(regions.len());
        let mut mapped = Vec::with_capacity(regions.len());
        for (region, file) in regions.iter().zip(files) {
            let (guest, user, len, offset) =
                (region.guest_phys_addr, region.user_addr, region.memory_size, region.mmap_offset);
            let size = usize::try_from(len).map_err(|e| e.to_string())?;
            let memory = MmapRegion::from_file(FileOffset::new(file, offset), size).map_err(|e| e.to_string())?;
            let memory = GuestRegionMmap::new(memory, GuestAddress(guest));
            mapped.push(memory.ok_or_else(|| format!("a region at {guest:#x} of {len} bytes has no end"))?);
            windows.push(Window { user, guest, len });
        }
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|e| e.to_string())?;
        Ok(Self { map, windows })
    }

    /// Where an address of the front end lies in the machine's memory.
    pub(crate) fn guest_of(&self, user: u64) -> Option<GuestAddress> {
        let inside = |window: &&Window| user.checked_sub(window.user).is_some_and(|at| at < window.len);
        let window = self.windows.iter().find(inside)?;
        window.guest.checked_add(user - window.user).map(GuestAddress)
    }
}

/// Fills `into` from the segments, in order. The segments have at least as many bytes.
pub(crate) fn gather(memory: &GuestMemoryMmap, segments: &[Segment], into: &mut [u8]) -> Result<(), String> {
    let mut rest = into;
    for segment in segments {
        let (piece, after) = rest.split_at_mut(rest.len().min(segment.len as usize));
        memory.read_slice(piece, segment.at).map_err(|e| e.to_string())?;
        rest = after;
    }
    assert!(rest.is_empty(), "a request was measured before its data was taken");
    Ok(())
}

/// Writes `pieces` to the segments, in order; how many bytes found room.
pub(crate) fn scatter<P: AsRef<[u8]>>(
    memory: &GuestMemoryMmap,
    segments: &[Segment],
    pieces: &[P],
) -> Result<u32, String> {
    let mut segments = segments.iter();
    let mut room = segments.next().copied();
    let mut written = 0;
    for piece in pieces {
        let mut piece = piece.as_ref();
        while let Some(segment) = room.filter(|_| !piece.is_empty()) {
            let (now, later) = piece.split_at(piece.len().min(segment.len as usize));
            memory.write_slice(now, segment.at).map_err(|e| e.to_string())?;
            (written, piece) = (written + now.len() as u32, later);
            room = segment.without_first(now.len() as u32).or_else(|| segments.next().copied());
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_segments_need_not_match() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap();
        let at = |at: u64, len: u32| Segment { at: GuestAddress(at), len };
        let segments = [at(100, 3), at(200, 0), at(300, 5)];
        assert_eq!(scatter(&memory, &segments, &[&b"ab"[..], b"cdef", b"gh"]), Ok(8));
        let mut back = [0; 8];
        gather(&memory, &segments, &mut back).unwrap();
        assert_eq!(&back, b"abcdefgh");
        assert_eq!(scatter(&memory, &segments, &[&[7; 20][..]]), Ok(8), "more than there is room for");
        assert!(scatter(&memory, &[at(4090, 10)], &[[0; 10]]).is_err(), "beyond the memory");
        assert!(gather(&memory, &[at(u64::MAX, 1)], &mut [0]).is_err());
    }
}
