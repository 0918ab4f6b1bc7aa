//! The room on one capacity device, and which device of a disk group a new component goes to.
//!
//! Promises    placement (on a picture) and the store (on its devices) choose the same device
//! Not here    which disk group is chosen (`placement`), how room is counted (`store`)

use serde::{Deserialize, Serialize};

/// Bytes that a thin component must find free, at most: it starts empty, and its first writes must not fail.
///
/// 64 MiB hold what mkfs writes to a new disk of usual size. More would refuse disks on small clusters that would
/// have lived; less lets a disk be created that refuses its first write.
pub const THIN_HEADROOM_BYTES: u64 = 64 << 20;

/// Bytes that must be free for a component: its reservation, or the thin start if that is more.
pub fn demand_bytes(size_bytes: u64, reserved_bytes: u64) -> u64 {
    reserved_bytes.max(size_bytes.min(THIN_HEADROOM_BYTES))
}

/// The room on one capacity device. A device that failed has zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceRoom {
    /// Bytes that components may use.
    pub total_bytes: u64,
    /// Of these, bytes neither used nor reserved.
    pub free_bytes: u64,
    /// Bytes that its components have or reserve not yet, and may come to. Thin components promise more than there is.
    pub growth_bytes: u64,
}

impl DeviceRoom {
    /// The device for a new component that demands so much: the one with most room once its components have grown
    /// half way. One without room for the demand is chosen only where none has it.
    pub fn choose(devices: &[Self], demand_bytes: u64) -> Option<usize> {
        let key = |&device: &usize| {
            let room = &devices[device];
            let later = i128::from(room.free_bytes) - i128::from(room.growth_bytes / 2);
            (room.free_bytes >= demand_bytes, later, std::cmp::Reverse(device))
        };
        (0..devices.len()).filter(|device| devices[*device].total_bytes > 0).max_by_key(key)
    }

    /// Takes a component that demands so much now and may come to `size_bytes`.
    pub fn take(&mut self, demand_bytes: u64, size_bytes: u64) {
        self.free_bytes = self.free_bytes.saturating_sub(demand_bytes);
        self.growth_bytes += size_bytes.saturating_sub(demand_bytes);
    }

    /// Bytes that are in use, reserved, or promised to thin components.
    pub fn promised_bytes(&self) -> u64 {
        self.total_bytes - self.free_bytes.min(self.total_bytes) + self.growth_bytes
    }

    /// Whether a component of this size can be written in full, and all that others were promised too.
    pub fn holds_in_full(&self, size_bytes: u64) -> bool {
        self.promised_bytes().saturating_add(size_bytes) <= self.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn room(free: u64, growth: u64) -> DeviceRoom {
        DeviceRoom { total_bytes: 10 * GIB, free_bytes: free * GIB, growth_bytes: growth * GIB }
    }

    #[test]
    fn the_device_with_most_room_later_is_chosen() {
        let gone = DeviceRoom::default();
        assert_eq!(DeviceRoom::choose(&[room(4, 0), room(5, 0)], GIB), Some(1));
        // More is free now, and more of it is promised.
        assert_eq!(DeviceRoom::choose(&[room(6, 0), room(9, 8)], GIB), Some(0));
        // Only one has the demand, however much is promised there.
        assert_eq!(DeviceRoom::choose(&[room(6, 0), room(9, 8)], 7 * GIB), Some(1));
        // None has it: whoever asks is refused with the best room.
        assert_eq!(DeviceRoom::choose(&[gone, room(1, 0), room(2, 0)], 7 * GIB), Some(2));
        assert_eq!(DeviceRoom::choose(&[gone], 0), None);
        assert_eq!(DeviceRoom::choose(&[], 0), None);
        // The first of equal ones.
        assert_eq!(DeviceRoom::choose(&[room(1, 0), room(1, 0)], 0), Some(0));
    }

    #[test]
    fn what_is_promised_counts_once() {
        let mut device = room(10, 0);
        device.take(2 * GIB, 6 * GIB);
        assert_eq!(device, room(8, 4));
        assert_eq!(device.promised_bytes(), 6 * GIB);
        assert!(device.holds_in_full(4 * GIB));
        assert!(!device.holds_in_full(4 * GIB + 1));
    }
}
