//! Devices of the hosts in memory: those of the host's disk group, a free one, one with partitions, one that hardly answers.

use cairn_api::{ApiError, ApiResult, v1::*};

fn device(path: &str, state: HostDeviceState) -> HostDevice {
    HostDevice {
        path: path.into(),
        stable_path: None,
        size_bytes: 4 << 40,
        model: None,
        serial: None,
        rotational: Some(true),
        state,
        disk_group: None,
        role: None,
        reason: None,
        temperature_c: None,
        wear_percent: None,
    }
}

pub fn host_devices(group: &DiskGroup) -> Vec<HostDevice> {
    let claimed = |found: &Device, role| HostDevice {
        size_bytes: found.size_bytes,
        rotational: Some(role == HostDeviceRole::Capacity),
        disk_group: Some(group.id),
        role: Some(role),
        ..device(&found.path, HostDeviceState::Claimed)
    };
    let cache = group.cache.iter().map(|found| HostDevice {
        stable_path: Some("/dev/disk/by-id/nvme-eui.0025385b21404321".into()),
        model: Some("FAST 960G".into()),
        serial: Some("S3EVNX0K".into()),
        temperature_c: Some(41),
        wear_percent: Some(7),
        ..claimed(found, HostDeviceRole::Cache)
    });
    let capacity = group.devices.iter().map(|found| claimed(found, HostDeviceRole::Capacity));
    let free = HostDevice {
        stable_path: Some("/dev/disk/by-id/wwn-0x5000c500a0b1c2d3".into()),
        ..device("/dev/sdb", HostDeviceState::Free)
    };
    let used = HostDevice {
        reason: Some("has partitions: /dev/sdc1, /dev/sdc2".into()),
        ..device("/dev/sdc", HostDeviceState::Unusable)
    };
    cache.chain(capacity).chain([free, used]).collect()
}

/// The LED of one of them; those of capacity devices are in no enclosure.
pub fn located(host: String, devices: &[HostDevice], request: &DeviceLocate) -> ApiResult<DeviceLocated> {
    let name = request.device.as_str();
    let is_meant = |device: &&HostDevice| {
        device.path == name || device.stable_path.as_ref().is_some_and(|path| path.rsplit('/').next() == Some(name))
    };
    let Some(found) = devices.iter().find(is_meant) else {
        return Err(ApiError::not_found(format!("host {host} has no block device {name:?}"))
            .remedy(format!("`cairn host devices {host}` lists them")));
    };
    if found.role == Some(HostDeviceRole::Capacity) {
        return Err(ApiError::refused(format!(
            "{name} of host {host} is in no enclosure and at no controller whose LEDs ledctl knows"
        ))
        .remedy("`ledctl --list-controllers` at that host lists those; find the device by its slot"));
    }
    Ok(DeviceLocated {
        host,
        path: found.path.clone(),
        stable_path: found.stable_path.clone(),
        model: found.model.clone(),
        serial: found.serial.clone(),
        lit: !request.off,
    })
}

/// A device more, or in the place of another, which has a disk's component.
pub fn changed(group: &DiskGroup, device: String, instead_of: Option<String>) -> DeviceChange {
    let loses = u32::from(instead_of.is_some());
    DeviceChange {
        host: group.host_name.clone(),
        disk_group: group.id,
        device,
        size_bytes: 4 << 40,
        usable_bytes: 3 << 40,
        instead_of,
        made_anew: false,
        components_lost: loses,
        bytes_lost: u64::from(loses) << 30,
        reduced: (0..loses).map(|_| "wounded".to_owned()).collect(),
        last_copies: Vec::new(),
        notes: Vec::new(),
    }
}
