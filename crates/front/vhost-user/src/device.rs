//! What a disk offers to a front end: features and the configuration space. Pure.

use cairn_volume::{Alignment, VolumeInfo};
use virtio_bindings::{
    virtio_blk::{
        VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_TOPOLOGY, VIRTIO_BLK_F_WRITE_ZEROES,
    },
    virtio_config::VIRTIO_F_VERSION_1,
    virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC},
};

/// Bytes of a sector: virtio's unit of addresses.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Entries of a ring, at most.
pub(crate) const RING_ENTRIES_MAX: u16 = 1024;
/// Rings of a device, at most: QEMU asks for one per virtual processor. All are served by one thread.
pub(crate) const RINGS_MAX: u16 = 16;
/// Bytes of one request's data, at most: as of an NBD request.
pub(crate) const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Data segments of a request. A ring of 128 entries, QEMU's default, has room for them, the header and the status.
const SEGMENTS_MAX: u32 = 126;
/// A trim or a zeroing touches no data, so one may be long: 1 GiB.
const RANGE_SECTORS_MAX: u32 = (1 << 30) / SECTOR_BYTES as u32;
/// Blocks of 4 KiB are written without reading first: 2^3 sectors.
const PHYSICAL_BLOCK_EXPONENT: u8 = 3;

/// That the vhost-user protocol has features of its own.
pub(crate) const PROTOCOL_FEATURES: u64 = 1 << 30;
/// Notifications that say from where on they are wanted.
pub(crate) const EVENT_IDX: u64 = 1 << VIRTIO_RING_F_EVENT_IDX;

/// Virtio's feature bits of any disk. FLUSH is not among them: an acknowledged write is durable, which is what a device without it says.
const FEATURES: u64 = 1 << VIRTIO_F_VERSION_1
    | EVENT_IDX
    | 1 << VIRTIO_RING_F_INDIRECT_DESC
    | 1 << VIRTIO_BLK_F_SEG_MAX
    | 1 << VIRTIO_BLK_F_BLK_SIZE
    | 1 << VIRTIO_BLK_F_TOPOLOGY
    | 1 << VIRTIO_BLK_F_MQ
    | PROTOCOL_FEATURES;

/// All that is offered of a disk.
pub(crate) fn features(read_only: bool) -> u64 {
    let changes =
        if read_only { 1 << VIRTIO_BLK_F_RO } else { 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES };
    FEATURES | changes
}

/// What a front end is told of a disk, and its requests are judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) size_bytes: u64,
    pub(crate) alignment: Option<Alignment>,
    pub(crate) read_only: bool,
}

impl Told {
    pub(crate) fn of(info: &VolumeInfo) -> Self {
        Self { size_bytes: info.size_bytes, alignment: info.alignment, read_only: info.read_only }
    }

    /// The least and the best size of requests, in sectors. File systems lay out what they write by them (Linux: io_min, io_opt).
    fn io_sizes(self) -> (u16, u32) {
        let sectors = |bytes: u32| bytes / SECTOR_BYTES as u32;
        let block = 1 << PHYSICAL_BLOCK_EXPONENT;
        let Some(Alignment { strip_bytes, row_bytes }) = self.alignment else { return (block, 0) };
        (u16::try_from(sectors(strip_bytes)).unwrap_or(block), sectors(row_bytes))
    }
}

/// `len` bytes of the configuration space of a disk, from `offset` on; zeros beyond what is known of it.
pub(crate) fn config(told: Told, offset: u32, len: u32) -> Vec<u8> {
    let (io_min, io_opt) = told.io_sizes();
    let mut space = Vec::with_capacity(60);
    let mut put = |bytes: &[u8]| space.extend_from_slice(bytes);
    put(&(told.size_bytes / SECTOR_BYTES).to_le_bytes()); // capacity
    put(&0u32.to_le_bytes()); // size_max: not offered
    put(&SEGMENTS_MAX.to_le_bytes());
    put(&[0; 4]); // geometry: not offered
    put(&(SECTOR_BYTES as u32).to_le_bytes()); // blk_size
    put(&[PHYSICAL_BLOCK_EXPONENT, 0]);
    put(&io_min.to_le_bytes());
    put(&io_opt.to_le_bytes());
    put(&[0, 0]); // writeback: not offered; unused
    put(&RINGS_MAX.to_le_bytes());
    // The rest is of discards and zeroes, which are not offered of a read-only disk.
    if !told.read_only {
        put(&RANGE_SECTORS_MAX.to_le_bytes()); // max_discard_sectors
        put(&1u32.to_le_bytes()); // max_discard_seg
        put(&(1u32 << PHYSICAL_BLOCK_EXPONENT).to_le_bytes()); // discard_sector_alignment
        put(&RANGE_SECTORS_MAX.to_le_bytes()); // max_write_zeroes_sectors
        put(&1u32.to_le_bytes()); // max_write_zeroes_seg
        put(&[1, 0, 0, 0]); // write_zeroes_may_unmap
    }
    let byte = |at: u64| usize::try_from(at).ok().and_then(|at| space.get(at)).copied().unwrap_or(0);
    (u64::from(offset)..u64::from(offset) + u64::from(len)).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places are those of `struct virtio_blk_config` (virtio 1.2, section 5.2.4).
    #[test]
    fn the_configuration_space_is_virtios() {
        let mirror = Told { size_bytes: 1 << 30, alignment: None, read_only: false };
        let all = config(mirror, 0, 60);
        assert_eq!(all[0..8], (1u64 << 21).to_le_bytes());
        assert_eq!(all[12..16], SEGMENTS_MAX.to_le_bytes());
        assert_eq!(all[20..24], 512u32.to_le_bytes());
        assert_eq!(all[26..32], [8, 0, 0, 0, 0, 0], "requests of 4 KiB, and none that is better than others");
        let alignment = Some(Alignment { strip_bytes: 64 << 10, row_bytes: 192 << 10 });
        let rows = config(Told { alignment, ..mirror }, 26, 6);
        assert_eq!((&rows[..2], &rows[2..]), (&128u16.to_le_bytes()[..], &384u32.to_le_bytes()[..]));
        assert_eq!(all[34..36], RINGS_MAX.to_le_bytes());
        assert_eq!(all[48..52], RANGE_SECTORS_MAX.to_le_bytes());
        assert_eq!(all[56], 1);
        assert_eq!(config(mirror, 32, 64)[..28], all[32..]);
        assert_eq!(config(mirror, 32, 64)[28..], [0; 36], "a newer front end asks for more");
        assert_eq!(config(mirror, u32::MAX, 2), [0, 0]);
        let read_only = config(Told { read_only: true, ..mirror }, 0, 60);
        assert_eq!((&read_only[..36], &read_only[36..]), (&all[..36], &[0; 24][..]), "nothing of discards and zeroes");
    }
}
