//! Where the bytes of a disk group are.

use cairn_api::v1::DiskGroupSpace;

use super::memory::GROUP_BYTES;

/// 8 GiB of blocks take 4 GiB.
pub fn space() -> DiskGroupSpace {
    let (stored_bytes, headers_bytes, dead_bytes) = (4 << 30, 48 << 20, 16 << 20);
    let (cleaner_reserve_bytes, outside_bytes) = (5 << 30, 1 << 20);
    let parts = stored_bytes + headers_bytes + dead_bytes + cleaner_reserve_bytes + outside_bytes;
    DiskGroupSpace {
        disks_bytes: 5 << 30,
        clones_bytes: 1 << 30,
        snapshots_bytes: 2 << 30,
        unknown_bytes: 0,
        promised_bytes: 3 << 30,
        capacity_bytes: GROUP_BYTES,
        stored_before_bytes: 8 << 30,
        stored_bytes,
        headers_bytes,
        dead_bytes,
        cleaner_reserve_bytes,
        free_bytes: GROUP_BYTES - parts,
        outside_bytes,
        checksums_bytes: 16 << 20,
        cache_bytes: GROUP_BYTES,
        log_bytes: 10 << 30,
        log_used_bytes: 1 << 30,
        metadata_bytes: 2 << 30,
        metadata_used_bytes: 200 << 20,
    }
}
