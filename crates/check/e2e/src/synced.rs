//! A guest that tells which files it has synced, on ext4 and on xfs. Another one looks for them in snapshots of both disks.
//!
//! Promises    the first guest says that it begins a file before it touches it. It says that one is synced when file and folder are
//!             a disk's moment has each file that was said to be synced before, and none that is begun later
//! Method      numbered files of random bytes, in turns on both: number n of ext4 is synced before that of xfs begins, and so on
//!             a number takes the place of one that is [`FILES`] older: odd ones the same blocks under a new name, even ones are made anew
//!             beside them folders come and go, and blocks are written and flushed: logs are never empty
//! Not here    when snapshots are taken, and what happens to hosts (tests/snapshots_guests.rs)

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Outcome,
    initramfs::Job,
    tools::{run, tool},
    vm::{Guest, nbd_node},
    wait::check,
};

/// Each has a disk of its own.
pub const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];
/// Files that each has at a time.
pub const FILES: u64 = 32;
/// xfs_repair and the modules of xfs come beside what the kernel needs.
const MEMORY_MIB: u32 = 512;

/// Writes files for ever.
const WRITES: &str = r#"
wait_for /dev/vda
wait_for /dev/vdb
mkfs.ext4 -q -F /dev/vda $(cat /job/mib-ext4)m || fail "mkfs.ext4"
mkfs.xfs -q -f -d size=$(cat /job/mib-xfs)m /dev/vdb || fail "mkfs.xfs"
mkdir /mnt/ext4 /mnt/xfs
mount -t ext4 /dev/vda /mnt/ext4 || fail "ext4: mount"
mount -t xfs /dev/vdb /mnt/xfs || fail "xfs: mount"
echo "GUEST: made file systems"
noise() {
    cd /mnt/$1
    m=1
    while true; do
        mkdir -p noise/$m || fail "$1: mkdir"
        echo $m >noise/$m/made
        mv noise/$m/made noise/$m/moved
        dd if=/dev/urandom of=noise/blocks bs=4k count=8 conv=notrunc,fsync 2>/dev/null || fail "$1: noise"
        rm -rf noise/$((m - 5))
        m=$((m + 1))
        sleep 0.1
    done
}
noise ext4 &
noise xfs &
kept=$(cat /job/kept)
n=1
while true; do
    for fs in ext4 xfs; do
        cd /mnt/$fs
        echo "GUEST: begins $fs $n"
        # It waits until the words have left.
        stty -echo
        old=file-$((n - kept))
        if [ $((n % 2)) = 1 ] && [ -e $old ]; then mv $old file-$n; else rm -f $old; fi
        dd if=/dev/urandom of=file-$n bs=64k count=1 conv=notrunc,fsync 2>/dev/null || fail "$fs: write"
        sync . || fail "$fs: sync"
        sum=$(sha256sum <file-$n)
        echo "GUEST: synced $fs $n ${sum%% *}"
    done
    n=$((n + 1))
done
"#;

/// Looks at all that `/job/looks` lists. What is wrong is said, and the next one is looked at.
const LOOKS: &str = r#"
kept=$(cat /job/kept)
mkdir /mnt/ext4 /mnt/xfs
bad() { echo "GUEST: bad: $name: $1"; }
device() {
    wait_for /sys/bus/scsi/devices/0:0:$1:$2/block
    echo /dev/$(ls /sys/bus/scsi/devices/0:0:$1:$2/block)
}
# A file system, its disk's target, how it is mounted without a replay of its log.
opens() {
    if [ $how = snapshot ]; then
        door=$(device $2 1)
        # Before a replay names may lead to nothing: there is no more to see than that it mounts.
        mount -t $1 -o ro,$3 $door /mnt/$1 && umount /mnt/$1 || bad "$1 does not mount read-only"
        dd if=/dev/zero of=$door bs=4k count=1 2>/dev/null && bad "$1 takes a write"
    fi
    mount -t $1 $(device $2 0) /mnt/$1 || bad "$1 does not mount"
}
newest() { echo $(ls /mnt/$1 | sed -n 's/^file-//p' | sort -n | tail -n 1); }
# A file system, the newest file in it, the newest that it must have, the newest that it may have.
files() {
    [ $2 -le $4 ] || bad "$1 has file-$2, and only $4 were begun"
    awk -v from=$(($2 + 1 - kept)) -v to=$3 '$1 > from && $1 <= to { print $2 "  file-" $1 }' /job/$1 >/sums
    cd /mnt/$1
    sha256sum -c /sums >/said 2>&1 || { bad "$1 should have files up to $3"; grep -v ': OK$' /said; }
    right=$((right + $(grep -c ': OK$' /said)))
    cd /
}
# A file system, its disk's target.
closes() {
    umount /mnt/$1 || bad "$1 is not unmounted"
    disk=$(device $2 0)
    case $1 in
        ext4) e2fsck -fn $disk ;;
        xfs) xfs_repair -n $disk ;;
    esac >/said 2>&1 && clean=$((clean + 1)) || { bad "$1 is not clean"; cat /said; }
}
while read -r name how ext4 ext4_synced ext4_begun xfs xfs_synced xfs_begun; do
    right=0 clean=0 ext4_newest= xfs_newest=
    [ $ext4 = - ] || { opens ext4 $ext4 noload; ext4_newest=$(newest ext4); }
    [ $xfs = - ] || { opens xfs $xfs norecovery; xfs_newest=$(newest xfs); }
    : ${ext4_newest:=0} ${xfs_newest:=0}
    if [ $ext4 != - ] && [ $xfs != - ]; then
        # Of one moment: what one disk has says what the other one must have.
        [ $ext4_synced -ge $xfs_newest ] || ext4_synced=$xfs_newest
        [ $xfs_synced -ge $((ext4_newest - 1)) ] || xfs_synced=$((ext4_newest - 1))
    fi
    [ $ext4 = - ] || { files ext4 $ext4_newest $ext4_synced $ext4_begun; closes ext4 $ext4; }
    [ $xfs = - ] || { files xfs $xfs_newest $xfs_synced $xfs_begun; closes xfs $xfs; }
    echo "GUEST: looked at $name $clean $right"
done </job/looks
echo "GUEST: done"
poweroff -f
sleep 60
"#;

/// What the console has said of one file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The newest file that was synced before.
    pub synced: u64,
    /// The newest file that was begun.
    pub begun: u64,
}

/// The guest that writes.
#[derive(Debug)]
pub struct Writer {
    guest: Guest,
}

impl Writer {
    /// Boots it on disks behind two sockets, of ext4 and of xfs, with the names of their exports. The file systems have so many MiB.
    ///
    /// # Errors
    /// When QEMU cannot be started.
    pub fn boot(disks: [(&Path, &str); 2], mib: [u64; 2], folder: &Path, logs: &Path) -> Outcome<Self> {
        let mut machine = machine();
        for (name, (socket, export)) in FILE_SYSTEMS.into_iter().zip(disks) {
            machine.arg("-blockdev").arg(nbd_node(name, socket, export));
            machine.arg("-device").arg(format!("virtio-blk-pci,drive={name}"));
        }
        let [ext4, xfs] = mib.map(|mib| mib.to_string());
        let job = Job {
            script: WRITES,
            programs: &["mkfs.ext4", "mkfs.xfs"],
            modules: &["virtio_pci", "virtio_blk", "xfs"],
            files: &[("kept", &FILES.to_string()), ("mib-ext4", &ext4), ("mib-xfs", &xfs)],
        };
        Ok(Self { guest: start(machine, &job, folder, logs)? })
    }

    /// Waits until it has said so.
    ///
    /// # Errors
    /// As [`Guest::wait_said`].
    pub fn wait_said(&mut self, words: &str, limit: Duration) -> Outcome<()> {
        self.guest.wait_said(words, limit)
    }

    /// Its console, which outlives it.
    pub fn console(&self) -> Console {
        Console(self.guest.console().to_owned())
    }
}

/// What the guest that writes has said.
#[derive(Debug, Clone)]
pub struct Console(PathBuf);

impl Console {
    /// Of both file systems until now.
    pub fn now(&self) -> [Moment; 2] {
        let mut moments = [Moment::default(); 2];
        for line in self.lines() {
            let mut words = line.split_whitespace();
            let (Some(what), Some(of), Some(number)) = (words.next(), words.next(), words.next()) else { continue };
            let (Some(at), Ok(number)) = (FILE_SYSTEMS.iter().position(|fs| *fs == of), number.parse()) else {
                continue;
            };
            match what {
                "begins" => moments[at].begun = number,
                "synced" => moments[at].synced = number,
                _ => {}
            }
        }
        moments
    }

    /// Number and checksum of each file that was synced, a line each.
    fn sums(&self, file_system: &str) -> String {
        let begin = format!("synced {file_system} ");
        self.lines()
            .iter()
            .filter_map(|line| line.strip_prefix(&begin))
            .fold(String::new(), |all, line| all + line + "\n")
    }

    /// Whole lines for the test, without their mark.
    fn lines(&self) -> Vec<String> {
        lines(&self.0)
    }
}

fn lines(console: &Path) -> Vec<String> {
    let text = fs::read(console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(|line| line.trim().strip_prefix("GUEST: ")).map(str::to_owned).collect()
}

/// A state of both disks, or of one of them, that is looked at.
#[derive(Debug, Clone)]
pub struct Look {
    /// What it is called, in one word.
    pub name: String,
    /// Each disk's export, and what it has to have; none: this disk is not looked at.
    pub of: [Option<(String, Moment)>; 2],
    /// The disk itself, which a guest can write to.
    pub head: bool,
    /// Where its exports are.
    pub socket: PathBuf,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// File systems that were clean after their logs were replayed.
    pub clean: u64,
    /// Files with the checksum that was told when they were synced.
    pub right: u64,
    /// What is wrong, each with the name of what was looked at.
    pub bad: Vec<(String, String)>,
}

/// A guest that looks.
#[derive(Debug)]
pub struct Looker {
    guest: Guest,
    looks: usize,
    /// Layers on snapshots, to which logs are replayed.
    layers: PathBuf,
}

impl Looker {
    /// Boots it with all that it is to look at. It needs none of what the guest that writes has but its words.
    ///
    /// # Errors
    /// When QEMU cannot be started.
    pub fn boot(looks: &[Look], sizes_mib: [u64; 2], said: &Console, folder: &Path, logs: &Path) -> Outcome<Self> {
        let layers = folder.join("layers");
        fs::create_dir_all(&layers).map_err(|e| format!("cannot make {}: {e}", layers.display()))?;
        let empty = FILE_SYSTEMS.map(|fs| layers.join(format!("{fs}.qcow2")));
        for (path, mib) in empty.iter().zip(sizes_mib) {
            run(tool("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(path).arg(format!("{mib}M")))?;
        }
        let mut machine = machine();
        machine.args(["-device", "virtio-scsi-pci,id=scsi"]);
        let mut listed = String::new();
        for (n, look) in looks.iter().enumerate() {
            let how = if look.head { "head" } else { "snapshot" };
            let _ = write!(listed, "{} {how}", look.name);
            for (at, of) in look.of.iter().enumerate() {
                let Some((export, Moment { synced, begun })) = of else {
                    listed.push_str(" - 0 0");
                    continue;
                };
                let target = 2 * n + at;
                let layer = (!look.head).then_some((empty[at].as_path(), layers.as_path()));
                attach(&mut machine, target, (&look.socket, export), layer)?;
                let _ = write!(listed, " {target} {synced} {begun}");
            }
            listed.push('\n');
        }
        let [ext4, xfs] = FILE_SYSTEMS.map(|fs| said.sums(fs));
        let files = [("kept", &*FILES.to_string()), ("looks", &listed), ("ext4", &ext4), ("xfs", &xfs)];
        let job = Job {
            script: LOOKS,
            programs: &["e2fsck", "xfs_repair"],
            modules: &["virtio_pci", "virtio_scsi", "sd_mod", "xfs"],
            files: &files,
        };
        Ok(Self { guest: start(machine, &job, folder, logs)?, looks: looks.len(), layers })
    }

    /// Waits until it has looked at all of them.
    ///
    /// # Errors
    /// When it did not come to an end.
    pub fn finish(mut self, limit: Duration) -> Outcome<Found> {
        let ended = self.guest.wait_said("done", limit);
        let _ = fs::remove_dir_all(&self.layers);
        let lines = lines(self.guest.console());
        ended?;
        let bad = lines.iter().filter_map(|line| line.strip_prefix("bad: ")?.split_once(": "));
        let bad: Vec<_> = bad.map(|(name, words)| (name.to_owned(), words.to_owned())).collect();
        let looked: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("looked at ")).collect();
        check(looked.len() == self.looks, || format!("{} of {} were looked at", looked.len(), self.looks))?;
        let number = |line: &str, n: usize| line.split_whitespace().nth(n).and_then(|word| word.parse::<u64>().ok());
        let sum = |n: usize| looked.iter().filter_map(|line| number(line, n)).sum();
        Ok(Found { clean: sum(1), right: sum(2), bad })
    }
}

/// A disk as unit 0 of a target: itself, or what an empty layer lets be written on it. Then unit 1 is the bare door.
fn attach(machine: &mut Command, target: usize, door: (&Path, &str), layer: Option<(&Path, &Path)>) -> Outcome<()> {
    let mut node = |words: String| {
        machine.arg("-blockdev").arg(words);
    };
    let under = nbd_node(&format!("under-{target}"), door.0, door.1);
    let Some((empty, folder)) = layer else {
        node(under);
        unit(machine, target, 0, "under");
        return Ok(());
    };
    let path = folder.join(format!("{target}.qcow2"));
    fs::copy(empty, &path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
    node(format!("{under},read-only=on"));
    node(format!(
        "driver=qcow2,node-name=layer-{target},backing=under-{target},file.driver=file,file.filename={}",
        path.display()
    ));
    // QEMU lets nobody else have what is under a layer.
    node(format!("{},read-only=on", nbd_node(&format!("door-{target}"), door.0, door.1)));
    unit(machine, target, 0, "layer");
    unit(machine, target, 1, "door");
    Ok(())
}

fn unit(machine: &mut Command, target: usize, number: usize, node: &str) {
    machine.arg("-device").arg(format!("scsi-hd,bus=scsi.0,scsi-id={target},lun={number},drive={node}-{target}"));
}

fn machine() -> Command {
    let mut machine = tool("qemu-system-x86_64");
    machine.arg("-m").arg(MEMORY_MIB.to_string());
    machine
}

fn start(machine: Command, job: &Job<'_>, folder: &Path, logs: &Path) -> Outcome<Guest> {
    fs::create_dir_all(logs).map_err(|e| format!("cannot make {}: {e}", logs.display()))?;
    Guest::start(machine, job, "", folder, logs)
}
