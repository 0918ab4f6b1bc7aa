//! The block devices of this machine, as the kernel and udev tell them.
//!
//! Promises    only small files are read: no device is opened, and none that sleeps is woken
//! Assumes     sysfs, `proc` and udev's links stand under one root: `/`, or a tree that a test has made
//! Not here    what stands on a device (`occupant`, `format`), and whether it may be used (`node`)

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use cairn_env::BlockDevice;

/// Names of devices that are never a disk: memory, optical drives, floppies.
const NO_DISKS: [&str; 3] = ["ram", "sr", "fd"];
/// What the kernel counts sizes in, whatever the device does.
const SECTOR_BYTES: u64 = 512;
/// Bytes before the number on the page of SCSI that has the serial number.
const VPD_HEAD: usize = 4;
/// eMMC tells its wear in steps of so many per cent, from 1 on.
const EMMC_WEAR_STEP: u8 = 10;

/// A machine. The default one is this.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

impl Machine {
    /// The machine whose `sys`, `proc` and `dev` stand in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// All disks and partitions that have a size, by name.
    ///
    /// # Errors
    /// The kernel's list of block devices cannot be read.
    pub fn block_devices(&self) -> Result<Vec<BlockDevice>, String> {
        let folder = self.root.join("sys/class/block");
        let listed = fs::read_dir(&folder).map_err(|e| format!("{} cannot be read: {e}", folder.display()))?;
        let mut names: Vec<String> =
            listed.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| !NO_DISKS.iter().any(|kind| is_numbered(name, kind)));
        names.sort_by_key(|name| (name.len(), name.clone()));
        let links = self.ids();
        let one = |name: &String| {
            let ids = links.get(name).cloned().unwrap_or_default();
            // A device that goes while it is looked at has no folder any more.
            self.device(name, &fs::canonicalize(folder.join(name)).ok()?, ids)
        };
        Ok(names.iter().filter_map(one).collect())
    }

    /// The links of `/dev/disk/by-id`, by the name of the device that they lead to.
    fn ids(&self) -> BTreeMap<String, Vec<String>> {
        let mut links: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in entries(&self.root.join("dev/disk/by-id")) {
            let Ok(target) = fs::read_link(&entry) else { continue };
            let (Some(device), Some(link)) = (last_name(&target), entry.to_str()) else { continue };
            links.entry(device).or_default().push(link.to_owned());
        }
        links.values_mut().for_each(|links| links.sort());
        links
    }

    fn device(&self, name: &str, folder: &Path, ids: Vec<String>) -> Option<BlockDevice> {
        let sectors: u64 = line(&folder.join("size"))?.parse().ok()?;
        if sectors == 0 || line(&folder.join("hidden")).as_deref() == Some("1") {
            return None;
        }
        // A partition has what its disk has.
        let disk = if folder.join("partition").exists() { folder.parent()? } else { folder };
        Some(BlockDevice {
            users: self.users_of(folder, name),
            path: self.path_of(name),
            ids,
            len_bytes: sectors.saturating_mul(SECTOR_BYTES),
            model: line(&disk.join("device/model")),
            serial: serial(disk),
            rotates: line(&disk.join("queue/rotational")).map(|word| word == "1"),
            is_read_only: line(&folder.join("ro")).as_deref() == Some("1"),
            partitions: partitions(folder).iter().filter_map(|part| Some(self.path_of(&last_name(part)?))).collect(),
            temperature_c: temperature(disk),
            wear_percent: wear(disk),
        })
    }

    /// The device of this name: sysfs has an exclamation mark where its path has a slash.
    fn path_of(&self, name: &str) -> String {
        self.root.join("dev").join(name.replace('!', "/")).to_string_lossy().into_owned()
    }

    /// Who has a device, or a partition of it: mount points, swap, devices that are made of it. `folder` is its own in sysfs.
    pub(crate) fn users_of(&self, folder: &Path, name: &str) -> Vec<String> {
        let swaps = fs::read_to_string(self.root.join("proc/swaps")).unwrap_or_default();
        let is_swap = |name: &str| {
            let path = format!("/dev/{}", name.replace('!', "/"));
            swaps.lines().any(|line| line.split_whitespace().next() == Some(&path))
        };
        let mut users = Vec::new();
        for part in std::iter::once(folder.to_owned()).chain(partitions(folder)) {
            let holders = entries(&part.join("holders"));
            users.extend(holders.iter().filter_map(|holder| Some(format!("device {}", last_name(holder)?))));
            if let Some(number) = line(&part.join("dev")) {
                users.extend(self.mounts_of(&number));
            }
            let called = if part == folder { Some(name.to_owned()) } else { last_name(&part) };
            users.extend(called.filter(|name| is_swap(name)).map(|_| "swap".to_owned()));
        }
        users
    }

    /// Where the device of this number (`8:1`) is mounted.
    fn mounts_of(&self, number: &str) -> Vec<String> {
        let table = fs::read_to_string(self.root.join("proc/self/mountinfo")).unwrap_or_default();
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(2);
            let (device, point) = (fields.next()?, fields.nth(1)?);
            (device == number).then(|| format!("a mount at {point}"))
        };
        table.lines().filter_map(mount).collect()
    }

    /// The loop devices over a file.
    pub(crate) fn loops_over(&self, path: &Path) -> Vec<String> {
        let over = |folder: &PathBuf| {
            let file = line(&folder.join("loop/backing_file"))?;
            (Path::new(&file) == path).then(|| last_name(folder).map(|name| format!("device {name}")))?
        };
        entries(&self.root.join("sys/block")).iter().filter_map(over).collect()
    }
}

/// Whether a name is a kind and a number.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn last_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// What is in a folder, by name; nothing where it is none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// What a small file says, without the blanks around it.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn partitions(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|entry| entry.join("partition").exists()).collect()
}

fn serial(disk: &Path) -> Option<String> {
    let page = || {
        let page = fs::read(disk.join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(page.get(VPD_HEAD..)?);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!text.is_empty()).then(|| text.to_owned())
    };
    line(&disk.join("serial")).or_else(|| line(&disk.join("device/serial"))).or_else(page)
}

/// The first sensor of the disk, or of the controller that has it: where several ways lead to an NVMe device they stand below it.
fn temperature(disk: &Path) -> Option<i32> {
    let device = disk.join("device");
    let named = |folder: &Path, kind: &str| -> Vec<PathBuf> {
        entries(folder).into_iter().filter(|entry| last_name(entry).is_some_and(|n| n.starts_with(kind))).collect()
    };
    let places =
        std::iter::once(device.clone()).chain(std::iter::once(device.join("hwmon"))).chain(named(&device, "nvme"));
    let sensors = places.flat_map(|place| named(&place, "hwmon"));
    let measured = |sensor: PathBuf| line(&sensor.join("temp1_input"))?.parse::<i32>().ok();
    sensors.filter_map(measured).next().map(|thousandths| thousandths / 1000)
}

/// What an eMMC device says of its two kinds of cells: the worse one.
fn wear(disk: &Path) -> Option<u8> {
    let text = line(&disk.join("device/life_time"))?;
    let steps = text.split_whitespace().filter_map(|word| u8::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    // Zero is no answer.
    steps.max().filter(|steps| *steps > 0).map(|steps| steps.saturating_mul(EMMC_WEAR_STEP))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn link(root: &Path, at: &str, to: &str) {
        let at = root.join(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(to, at).unwrap();
    }

    /// A machine with an NVMe device, a SATA disk with a mounted and a swap partition, an eMMC device, and what is no disk.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        write(
            at,
            &[
                ("sys/devices/nvme/nvme0/nvme0n1/size", "7814037168\n"),
                ("sys/devices/nvme/nvme0/nvme0n1/ro", "0\n"),
                ("sys/devices/nvme/nvme0/nvme0n1/dev", "259:0\n"),
                ("sys/devices/nvme/nvme0/nvme0n1/queue/rotational", "0\n"),
                ("sys/devices/nvme/nvme0/model", "FAST 4T                 \n"),
                ("sys/devices/nvme/nvme0/serial", "S1\n"),
                ("sys/devices/nvme/nvme0/hwmon3/temp1_input", "41850\n"),
                ("sys/devices/sata/sda/size", "2048000\n"),
                ("sys/devices/sata/sda/ro", "0\n"),
                ("sys/devices/sata/sda/dev", "8:0\n"),
                ("sys/devices/sata/sda/queue/rotational", "1\n"),
                ("sys/devices/sata/sda/device/model", "SPINS\n"),
                ("sys/devices/sata/sda/device/vpd_pg80", "\0\u{1}\0\u{4}  Z9"),
                ("sys/devices/sata/sda/device/hwmon/hwmon1/temp1_input", "30000\n"),
                ("sys/devices/sata/sda/sda1/partition", "1\n"),
                ("sys/devices/sata/sda/sda1/size", "1024000\n"),
                ("sys/devices/sata/sda/sda1/dev", "8:1\n"),
                ("sys/devices/sata/sda/sda2/partition", "2\n"),
                ("sys/devices/sata/sda/sda2/size", "512000\n"),
                ("sys/devices/sata/sda/sda2/dev", "8:2\n"),
                ("sys/devices/sata/sda/sda2/holders/dm-0/name", ""),
                ("sys/devices/mmc/mmcblk0/size", "61071360\n"),
                ("sys/devices/mmc/mmcblk0/ro", "1\n"),
                ("sys/devices/mmc/mmcblk0/device/life_time", "0x02 0x0b\n"),
                ("sys/devices/virtual/loop0/size", "0\n"),
                ("sys/devices/virtual/ram0/size", "8192\n"),
                ("proc/swaps", "Filename Type Size\n/dev/sda2 partition 256000 0 -2\n"),
                ("proc/self/mountinfo", "22 1 8:1 / /home rw - ext4 /dev/sda1 rw\n"),
            ],
        );
        link(at, "sys/devices/nvme/nvme0/nvme0n1/device", "..");
        for (name, place) in [
            ("nvme0n1", "nvme/nvme0/nvme0n1"),
            ("sda", "sata/sda"),
            ("sda1", "sata/sda/sda1"),
            ("sda2", "sata/sda/sda2"),
            ("mmcblk0", "mmc/mmcblk0"),
            ("loop0", "virtual/loop0"),
            ("ram0", "virtual/ram0"),
        ] {
            link(at, &format!("sys/class/block/{name}"), &format!("../../devices/{place}"));
        }
        link(at, "dev/disk/by-id/wwn-0x5000", "../../sda");
        link(at, "dev/disk/by-id/ata-SPINS_Z9", "../../sda");
        link(at, "dev/disk/by-id/wwn-0x5000-part1", "../../sda1");
        link(at, "dev/disk/by-id/nvme-eui.0025", "../../nvme0n1");
        root
    }

    /// Goal: each device is told as it is, and nothing that is no disk. Method: a made tree with one of each kind.
    #[test]
    fn a_machine_tells_its_devices() {
        let root = tree();
        let below = |path: &str| path.replace(root.path().to_str().unwrap(), "");
        let mut devices = Machine::at(root.path()).block_devices().unwrap();
        for device in &mut devices {
            device.path = below(&device.path);
            device.ids.iter_mut().chain(&mut device.partitions).for_each(|path| *path = below(path));
        }
        let named = |path: &str| devices.iter().find(|device| device.path == path).cloned().unwrap();
        let names: Vec<&str> = devices.iter().map(|device| device.path.as_str()).collect();
        assert_eq!(names, ["/dev/sda", "/dev/sda1", "/dev/sda2", "/dev/mmcblk0", "/dev/nvme0n1"]);
        let fast = BlockDevice {
            path: "/dev/nvme0n1".into(),
            ids: vec!["/dev/disk/by-id/nvme-eui.0025".into()],
            len_bytes: 7_814_037_168 * 512,
            model: Some("FAST 4T".into()),
            serial: Some("S1".into()),
            rotates: Some(false),
            temperature_c: Some(41),
            ..BlockDevice::default()
        };
        assert_eq!(named("/dev/nvme0n1"), fast);
        let spins = named("/dev/sda");
        assert_eq!(spins.ids, ["/dev/disk/by-id/ata-SPINS_Z9", "/dev/disk/by-id/wwn-0x5000"]);
        assert_eq!(spins.partitions, ["/dev/sda1", "/dev/sda2"]);
        assert_eq!(spins.users, ["a mount at /home", "device dm-0", "swap"]);
        assert_eq!((spins.serial.as_deref(), spins.temperature_c, spins.rotates), (Some("Z9"), Some(30), Some(true)));
        let home = named("/dev/sda1");
        assert_eq!((home.users, home.model), (vec!["a mount at /home".to_owned()], Some("SPINS".into())));
        assert_eq!(named("/dev/sda2").users, ["device dm-0", "swap"]);
        let worn = named("/dev/mmcblk0");
        assert_eq!((worn.is_read_only, worn.wear_percent), (true, Some(110)));
    }

    /// Goal: no list is no empty machine. Method: a root without one.
    #[test]
    fn a_machine_without_a_list_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(Machine::at(root.path()).block_devices().unwrap_err().contains("sys/class/block"));
    }

    /// Goal: the tree that tests make is like a real one. Method: this machine's own, where it has one; each device is sound.
    #[test]
    fn this_machine_tells_its_own() {
        let Ok(devices) = Machine::default().block_devices() else { return };
        for device in devices {
            println!("{device:?}");
            assert!(device.path.starts_with("/dev/") && device.len_bytes > 0, "{device:?}");
            assert!(device.temperature_c.is_none_or(|c| (-60..150).contains(&c)), "{device:?}");
        }
    }
}
