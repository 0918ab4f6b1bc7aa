//! The locate LED of a device of this host: which device is meant, and in words what stands in the way.
//!
//! Promises    only a device that the inventory lists is handed to the program outside, by the path that the inventory has for it
//!             a partition stands for its disk, which has the LED
//! Not here    how an LED is lit (`real`); which ones are lit: the enclosure knows, and nothing here keeps it

use cairn_api::{
    ApiError, ApiResult,
    v1::{DeviceLocate, DeviceLocated},
};
use cairn_env::{BlockDevice, Env, LocateError};
use cairn_wire::{Api, HostAnswer, HostCommand};

use super::names::{is_called, stable_path};
use crate::node::Node;

/// Whether a device, or its link by id, is called so: by the whole path, or by the link's own name, as lists show it.
fn is_meant(device: &BlockDevice, name: &str) -> bool {
    is_called(device, name) || device.ids.iter().any(|link| last_name(link) == name)
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The device that has the LED of the one that is called so.
fn find<'a>(devices: &'a [BlockDevice], name: &str) -> Option<&'a BlockDevice> {
    let found = devices.iter().find(|device| is_meant(device, name))?;
    let disk = devices.iter().find(|disk| disk.partitions.contains(&found.path));
    Some(disk.unwrap_or(found))
}

/// What to do in the place of it.
fn by_serial(device: &BlockDevice) -> String {
    match &device.serial {
        Some(serial) => format!("look for the device with the serial number {serial}"),
        None => "find the device by its slot".into(),
    }
}

/// Why an LED was neither lit nor put out, and what to do.
fn words(error: &LocateError, host: &str, device: &BlockDevice, lit: bool) -> ApiError {
    let path = &device.path;
    let command = format!("`ledctl --listed-only {}={path}`", if lit { "locate" } else { "locate_off" });
    match error {
        LocateError::NoProgram => {
            ApiError::refused(format!("host {host} has no ledctl, the program that speaks with enclosures"))
                .remedy(format!("Install it there (`apt install ledmon`), or {}", by_serial(device)))
        }
        LocateError::NotRoot => {
            ApiError::refused(format!("LEDs are for root, and the daemon of host {host} does not run as root"))
                .remedy(format!("As root at that host: {command}"))
        }
        LocateError::NoEnclosure => ApiError::refused(format!(
            "{path} of host {host} is in no enclosure and at no controller whose LEDs ledctl knows"
        ))
        .remedy(format!("`ledctl --list-controllers` at that host lists those; {}", by_serial(device))),
        LocateError::Silent { waited_s } => {
            ApiError::unavailable(format!("ledctl at host {host} did not answer within {waited_s} s"))
                .remedy(format!("Try again; an enclosure may hang: {}", by_serial(device)))
        }
        LocateError::Other(said) => ApiError::refused(format!("ledctl at host {host} refused {path}: {said}"))
            .remedy(format!("Try it there as root ({command}), or {}", by_serial(device))),
    }
}

impl<E: Env> Node<E> {
    /// Lights the locate LED of a device of a host, or puts it out.
    pub(crate) async fn host_locate(&self, host: String, request: DeviceLocate) -> ApiResult<DeviceLocated> {
        let server = self.find_host(&host)?;
        if server != self.me() {
            self.knows_devices()?;
        }
        match self.on_host(server, HostCommand::Locate(Api(request))).await? {
            HostAnswer::Located(Api(located)) => Ok(located),
            _ => Err(ApiError::internal(format!("host {host} answered something else"))),
        }
    }

    /// The same of this host.
    pub(crate) async fn locate_here(&self, request: DeviceLocate) -> ApiResult<DeviceLocated> {
        let outside = &self.inner.outside;
        let devices = outside.block_devices().await.map_err(ApiError::internal)?;
        let host = self.server_name(self.me());
        let Some(device) = find(&devices, &request.device) else {
            return Err(self.not_listed(&request.device, &host).await);
        };
        let lit = !request.off;
        let done = outside.locate(device.path.clone(), lit).await;
        done.map_err(|error| words(&error, &host, device, lit))?;
        Ok(DeviceLocated {
            host,
            path: device.path.clone(),
            stable_path: stable_path(device).cloned(),
            model: device.model.clone(),
            serial: device.serial.clone(),
            lit,
        })
    }

    /// Why a device that the system does not list has no LED: it is a file, it is gone, or nobody knows it.
    async fn not_listed(&self, name: &str, host: &str) -> ApiError {
        let lists = format!("`cairn host devices {host}` lists them");
        let claims = self.claims(&self.shards_of(self.server_of(self.me())));
        let Some(claim) = claims.into_iter().find(|claim| claim.path == name || last_name(&claim.path) == name) else {
            return ApiError::not_found(format!("host {host} has no block device {name:?}")).remedy(lists);
        };
        let (path, disk_group) = (claim.path, claim.disk_group);
        match self.peek_at(&path).await {
            Ok(_) => ApiError::refused(format!(
                "{path} of disk group {disk_group} is no block device of host {host}: a file has no LED"
            ))
            .remedy(format!("Give the device that it lies on: {lists}")),
            Err(why) => ApiError::refused(format!(
                "{path} of disk group {disk_group} is gone ({why}): what the system of host {host} does not list nothing can light"
            ))
            .remedy(format!("Light the others one by one, it is the one that stays dark: {lists}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_api::ApiErrorKind;

    use super::*;

    fn disk(path: &str, links: &[&str], partitions: &[&str]) -> BlockDevice {
        let own = |names: &[&str], folder: &str| names.iter().map(|name| format!("{folder}{name}")).collect();
        BlockDevice {
            path: path.into(),
            ids: own(links, "/dev/disk/by-id/"),
            partitions: own(partitions, ""),
            ..BlockDevice::default()
        }
    }

    /// Goal: a device is found by each name that lists show, and by nothing else. Method: two disks, one with a partition.
    #[test]
    fn a_device_is_found_by_its_names() {
        let devices = [
            disk("/dev/sda", &["wwn-0x5000", "ata-SPINS_Z9"], &["/dev/sda1"]),
            disk("/dev/sda1", &["wwn-0x5000-part1"], &[]),
            disk("/dev/nvme0n1", &["nvme-eui.0025"], &[]),
        ];
        let found = |name: &str| find(&devices, name).map(|device| device.path.as_str());
        for name in ["/dev/sda", "/dev/disk/by-id/ata-SPINS_Z9", "wwn-0x5000", "/dev/sda1", "wwn-0x5000-part1"] {
            assert_eq!(found(name), Some("/dev/sda"), "{name}");
        }
        assert_eq!(found("nvme-eui.0025"), Some("/dev/nvme0n1"));
        for name in ["", "/", "sda", "/dev/sd", "/dev/sdb", "/dev/sda,/dev/nvme0n1", "/dev/sda /dev/sdb", "wwn-0x5"] {
            assert_eq!(found(name), None, "{name:?}");
        }
    }

    /// Goal: whoever reads an error knows what to do. Method: each kind, for a device with a serial number.
    #[test]
    fn each_error_says_what_to_do() {
        let device = BlockDevice { serial: Some("Z9".into()), ..disk("/dev/sda", &[], &[]) };
        let table = [
            (LocateError::NoProgram, true, ["no ledctl", "apt install ledmon"]),
            (LocateError::NotRoot, true, ["not run as root", "`ledctl --listed-only locate=/dev/sda`"]),
            (LocateError::NotRoot, false, ["not run as root", "`ledctl --listed-only locate_off=/dev/sda`"]),
            (LocateError::NoEnclosure, true, ["no enclosure", "serial number Z9"]),
            (LocateError::Silent { waited_s: 20 }, true, ["within 20 s", "Try again"]),
            (LocateError::Other("it said no".into()), true, ["it said no", "as root"]),
        ];
        for (error, lit, parts) in table {
            let told = words(&error, "h2", &device, lit);
            let text = told.to_string();
            assert!(parts.iter().all(|part| text.contains(part)) && text.contains("h2"), "{text}");
            let is_silent = matches!(error, LocateError::Silent { .. });
            assert_eq!(told.kind == ApiErrorKind::Unavailable, is_silent, "{text}");
        }
    }
}
