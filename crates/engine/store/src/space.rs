//! Where the bytes of a group's capacity devices are.
//!
//! Promises    the parts of [`Space`] add up to the lengths of the devices that work
//! Not here    what components have (`component.rs`), what may still be written (`tier.rs`)

use cairn_env::{Disk as _, Env};
use cairn_format::RUN_ITEM_BYTES;
use cairn_types::BLOCK_BYTES;

use crate::{disk_group::DiskGroup, segments::Segments};

/// Bytes of all capacity devices that work: `outside + stored + headers + dead + cleaner_reserve + free`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Lengths of the devices.
    pub capacity_bytes: u64,
    /// Blocks that stand there, in use.
    pub stored_blocks: u64,
    /// What they take.
    pub stored_bytes: u64,
    /// What names them in headers of runs: 24 bytes a block.
    pub headers_bytes: u64,
    /// Overwritten, deleted, or never filled: the cleaner gives it back.
    pub dead_bytes: u64,
    /// Free segments that only the cleaner may fill.
    pub cleaner_reserve_bytes: u64,
    /// Free segments beside these.
    pub free_bytes: u64,
    /// What makes no segment: superblocks, and the end.
    pub outside_bytes: u64,
    /// Blocks set aside for components that have not written them.
    pub promised_blocks: u64,
}

impl Space {
    /// Whether the parts add up.
    ///
    /// # Errors
    /// How they do not, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let parts = self.outside_bytes
            + self.stored_bytes
            + self.headers_bytes
            + self.dead_bytes
            + self.cleaner_reserve_bytes
            + self.free_bytes;
        match parts == self.capacity_bytes {
            true => Ok(()),
            false => Err(format!("parts of space make {parts} bytes of {}: {self:?}", self.capacity_bytes)),
        }
    }

    fn add(&mut self, device_bytes: u64, segments: &Segments) {
        let segment_bytes = u64::from(segments.segment_pages) * u64::from(BLOCK_BYTES);
        let free = segments.free_segments();
        let reserve = segments.reserve().min(free);
        let headers = segments.live_items() * RUN_ITEM_BYTES as u64;
        let taken = segments.live_bytes() + headers;
        self.capacity_bytes += device_bytes;
        self.stored_blocks += segments.live_items();
        self.stored_bytes += segments.live_bytes();
        self.headers_bytes += headers;
        self.dead_bytes += ((segments.count() - free) * segment_bytes).saturating_sub(taken);
        self.cleaner_reserve_bytes += reserve * segment_bytes;
        self.free_bytes += (free - reserve) * segment_bytes;
        self.outside_bytes += device_bytes.saturating_sub(segments.count() * segment_bytes);
    }
}

impl<E: Env> DiskGroup<E> {
    /// Where the bytes of its capacity devices are. Looks at each component: not for each request.
    pub fn space(&self) -> Space {
        let inner = self.inner();
        let state = inner.state.borrow();
        let mut space = Space::default();
        for segments in state.tier.devices().iter().filter(|segments| !segments.failed) {
            let device_bytes = inner.disk(segments.device).map_or(0, |disk| disk.len_bytes());
            space.add(device_bytes, segments);
        }
        space.promised_blocks = state.components.all().map(|c| c.set_aside().saturating_sub(c.allocated())).sum();
        space
    }
}
