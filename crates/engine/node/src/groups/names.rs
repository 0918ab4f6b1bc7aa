//! Names of devices: which of them stay from one start to the next.
//!
//! Promises    of several links the same one is chosen at each start
//! Not here    where the links come from (`real`)

use cairn_env::BlockDevice;

/// Links of `/dev/disk/by-id` in the order in which they are preferred: those that the device itself guarantees to be unique, then
/// those made of model and serial number, then those that somebody has given.
const PREFERRED: [&str; 11] =
    ["wwn-", "nvme-eui.", "nvme-uuid.", "ata-", "scsi-", "nvme-", "mmc-", "usb-", "virtio-", "dm-uuid-", "md-uuid-"];

/// What a device is called at every start, where the system has such a name for it.
pub(super) fn stable_path(device: &BlockDevice) -> Option<&String> {
    let rank = |path: &&String| {
        let link = path.rsplit('/').next().unwrap_or_default();
        PREFERRED
            .iter()
            .position(|kind| link.starts_with(kind))
            .map(|rank| (rank, path.len(), path.as_str().to_owned()))
    };
    let ranked = device.ids.iter().filter_map(|path| Some((rank(&path)?, path)));
    ranked.min().map(|(_, path)| path)
}

/// Whether a device is called so.
pub(crate) fn is_called(device: &BlockDevice, path: &str) -> bool {
    device.path == path || device.ids.iter().any(|link| link == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: one name of several, the same at each start. Method: links of one device in several orders; one without.
    #[test]
    fn the_preferred_link_is_chosen() {
        let chosen = |ids: &[&str]| {
            let ids = ids.iter().map(|link| format!("/dev/disk/by-id/{link}")).collect();
            stable_path(&BlockDevice { ids, ..BlockDevice::default() })
                .map(|path| path["/dev/disk/by-id/".len()..].to_owned())
        };
        assert_eq!(chosen(&["ata-X_1", "scsi-SATA_X_1", "wwn-0x5"]).as_deref(), Some("wwn-0x5"));
        assert_eq!(chosen(&["nvme-FAST_S1", "nvme-FAST_S1_1", "nvme-eui.01"]).as_deref(), Some("nvme-eui.01"));
        assert_eq!(chosen(&["nvme-FAST_S1_1", "nvme-FAST_S1"]).as_deref(), Some("nvme-FAST_S1"));
        assert_eq!(chosen(&["virtio-disk-7"]).as_deref(), Some("virtio-disk-7"));
        assert_eq!(chosen(&["lvm-pv-uuid-x"]), None);
        assert_eq!(chosen(&[]), None);
    }
}
