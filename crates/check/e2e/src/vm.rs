//! A real guest: QEMU (TCG, so that no /dev/kvm is needed) with Debian's cloud kernel and an initramfs made here.
//!
//! The guest looks at its disk. Without a file system it makes one, writes files with their checksums (a line on the console after
//! each), and reboots. With one it checks it (e2fsck -fn), compares all checksums, and powers off. While it writes the files it
//! writes small blocks and reads others beside them without a pause: whenever a fault comes, something is under way, and what is
//! answered overtakes what is not.
//!
//! Assumes     linux-image-cloud-amd64 in /boot and /lib/modules: virtio and virtio_blk as modules, ext4 built in
//! Not here    faults: the test makes them between two lines of the console

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Outcome,
    process::{Process, tail},
    tools::{run, tool},
    wait::wait_until,
};

/// What precedes the guest's words for the test on its console.
const MARK: &str = "GUEST:";

/// Memory of a guest.
const MEMORY_MIB: u32 = 256;
/// Queues of a disk on vhost-user, and processors of its guest.
const VHOST_USER_QUEUES: usize = 2;

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
exec </dev/ttyS0 >/dev/ttyS0 2>&1
export PATH=/bin
for module in $(cat /modules/order); do insmod /modules/$module; done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
pause=0.3
for word in $(cat /proc/cmdline); do case $word in cairn.pause=*) pause=${word#*=} ;; esac; done
magic=$(dd if=/dev/vda bs=1 skip=1080 count=2 2>/dev/null | hexdump -v -e '2/1 "%02x"')
fail() { echo "GUEST: failed: $1"; poweroff -f; sleep 60; }
if [ "$magic" = 53ef ]; then
    e2fsck -fn /dev/vda || fail "the file system is not clean"
    echo "GUEST: fsck clean"
    mount -t ext4 /dev/vda /mnt || fail "mount"
    cd /mnt
    sha256sum -c -s sums || fail "a checksum is wrong"
    echo "GUEST: $(wc -l <sums) checksums right"
    cd /
    umount /mnt
    echo "GUEST: done"
    poweroff -f
else
    mkfs.ext4 -q -F /dev/vda || fail "mkfs"
    mount -t ext4 /dev/vda /mnt || fail "mount"
    cd /mnt
    echo "GUEST: made a file system"
    while [ ! -e /enough ]; do
        dd if=/dev/urandom of=noise bs=4k count=8 conv=notrunc,fsync 2>/dev/null || fail "write and flush"
    done &
    while [ ! -e /enough ]; do
        dd if=/dev/vda of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null || fail "read"
    done &
    for n in $(seq 1 20); do
        dd if=/dev/urandom of=file-$n bs=64k count=24 2>/dev/null || fail "write"
        sha256sum file-$n >>sums
        sync || fail "sync"
        echo "GUEST: wrote file-$n"
        sleep $pause
    done
    : >/enough
    wait
    cd /
    umount /mnt || fail "umount"
    echo "GUEST: reboots"
    reboot -f
fi
sleep 60
"#;

/// How a guest's disk is attached; always a unix socket, to which QEMU comes again when its server has gone.
#[derive(Debug, Clone, Copy)]
pub enum Attached<'a> {
    /// An NBD export. Requests fail when there is no server for 60 s.
    Nbd {
        /// The server's socket.
        socket: &'a Path,
        /// The export's name.
        export: &'a str,
    },
    /// A vhost-user-blk back end, which shares the guest's memory. Requests wait for it as long as it takes. The guest has two
    /// processors, and the disk a queue for each.
    VhostUser {
        /// The back end's socket.
        socket: &'a Path,
    },
}

impl Attached<'_> {
    fn attach(&self, command: &mut Command) {
        match self {
            Self::Nbd { socket, export } => {
                command.arg("-blockdev").arg(format!(
                    "driver=nbd,node-name=disk,server.type=unix,server.path={},export={export},reconnect-delay=60",
                    socket.display()
                ));
                command.args(["-device", "virtio-blk-pci,drive=disk"]);
            }
            Self::VhostUser { socket } => {
                command.arg("-smp").arg(VHOST_USER_QUEUES.to_string());
                command.arg("-object").arg(format!("memory-backend-memfd,id=shared,size={MEMORY_MIB}M,share=on"));
                command.args(["-machine", "memory-backend=shared"]);
                command.arg("-chardev").arg(format!("socket,id=back-end,path={},reconnect=1", socket.display()));
                command
                    .arg("-device")
                    .arg(format!("vhost-user-blk-pci,chardev=back-end,num-queues={VHOST_USER_QUEUES}"));
            }
        }
    }
}

/// A running guest.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    console: PathBuf,
}

impl Guest {
    /// Boots a guest.
    ///
    /// # Errors
    /// When the kernel is missing or QEMU cannot be started.
    pub fn boot(disk: Attached<'_>, folder: &Path, logs: &Path) -> Outcome<Self> {
        Self::boot_pausing(disk, folder, logs, 0.3)
    }

    /// The same with so many seconds between one file and the next. What is written beside the files goes on meanwhile.
    ///
    /// # Errors
    /// When the kernel is missing or QEMU cannot be started.
    pub fn boot_pausing(disk: Attached<'_>, folder: &Path, logs: &Path, pause_s: f64) -> Outcome<Self> {
        let (kernel, initramfs) = boot_files(folder)?;
        let console = logs.join("console.log");
        let _ = fs::remove_file(&console);
        let mut command = tool("qemu-system-x86_64");
        command.args(["-accel", "tcg,thread=single", "-nodefaults", "-display", "none"]);
        command.arg("-m").arg(MEMORY_MIB.to_string());
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(&kernel).arg("-initrd").arg(&initramfs);
        command.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 cairn.pause={pause_s}"));
        disk.attach(&mut command);
        let process = Process::start(&command, &logs.join("qemu.log"))?;
        Ok(Self { process, console })
    }

    /// Waits until the guest has said `words`.
    ///
    /// # Errors
    /// When it failed, QEMU ended, or `limit` has passed: the end of the console.
    pub fn wait_said(&mut self, words: &str, limit: Duration) -> Outcome<()> {
        let heard = wait_console(&self.console, words, limit, || self.process.ended());
        heard.map_err(|error| format!("{error}\n{}", tail(&self.process.log, 5)))
    }

    /// Waits until QEMU has ended by itself, since the guest has powered off.
    ///
    /// # Errors
    /// When it runs on after `limit`, or fails: the end of its log.
    pub fn wait_off(mut self, limit: Duration) -> Outcome<()> {
        wait_until("the guest is off", limit, || self.process.ended().map(drop).ok_or("QEMU still runs".into()))?;
        self.process.finish()
    }

    /// Requests that a vhost-user back end took and has not answered: what it carries out again after its death. QEMU keeps the
    /// table of them in memory that it shares with the back end.
    ///
    /// # Errors
    /// When QEMU has no such table.
    pub fn under_way(&self) -> Outcome<usize> {
        let io = |e: std::io::Error| format!("cannot look for the requests under way: {e}");
        for entry in fs::read_dir(format!("/proc/{}/fd", self.process.pid())).map_err(io)?.flatten() {
            let leads_to = fs::read_link(entry.path()).unwrap_or_default().display().to_string();
            if leads_to.starts_with("/memfd:") && !leads_to.contains("memory-backend") {
                return Ok(in_flight(&fs::read(entry.path()).map_err(io)?));
            }
        }
        Err("QEMU holds no table of requests under way".into())
    }
}

/// Kernel and initramfs of the guest; the latter is made in `folder`.
///
/// # Errors
/// When the kernel is missing.
pub fn boot_files(folder: &Path) -> Outcome<(PathBuf, PathBuf)> {
    let (kernel, version) = kernel()?;
    Ok((kernel, initramfs(&version, folder)?))
}

/// Waits until the guest has said `words` on the console in this file; `ended` tells when nobody will write to it any more.
///
/// # Errors
/// When it failed, has ended, or `limit` has passed: the end of the console.
pub fn wait_console(
    console: &Path,
    words: &str,
    limit: Duration,
    mut ended: impl FnMut() -> Option<String>,
) -> Outcome<()> {
    let wanted = format!("{MARK} {words}");
    let mut dead = None;
    let heard = wait_until(&format!("the guest says {words:?}"), limit, || {
        let text = fs::read(console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        if text.contains(&wanted) {
            return Ok(true);
        }
        // What a dying QEMU wrote last may still be on its way to the file.
        if text.contains("GUEST: failed") || dead.is_some() {
            return Ok(false);
        }
        dead = ended();
        Err("it has not".into())
    });
    match heard {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("the guest failed before {words:?}: {dead:?}\n{}", tail(console, 15))),
        Err(error) => Err(format!("{error}\n{}", tail(console, 15))),
    }
}

/// The marked descriptors in the in-flight regions of all queues (QueueRegionSplit of the vhost-user specification).
fn in_flight(table: &[u8]) -> usize {
    const HEAD: usize = 16;
    const DESCRIPTOR: usize = 16;
    let of_queue = table.len() / VHOST_USER_QUEUES;
    let descriptors = table.chunks_exact(of_queue).flat_map(|queue| {
        let count = usize::from(u16::from_le_bytes([queue[10], queue[11]]));
        queue[HEAD..].chunks_exact(DESCRIPTOR).take(count)
    });
    descriptors.filter(|descriptor| descriptor[0] == 1).count()
}

/// The newest cloud kernel with its version.
fn kernel() -> Outcome<(PathBuf, String)> {
    let mut found: Vec<String> = fs::read_dir("/boot")
        .map_err(|e| e.to_string())?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix("vmlinuz-").filter(|v| v.ends_with("-cloud-amd64")).map(str::to_owned))
        .collect();
    found.sort();
    let version = found.pop().ok_or("no /boot/vmlinuz-*-cloud-amd64: apt-get install linux-image-cloud-amd64")?;
    Ok((PathBuf::from(format!("/boot/vmlinuz-{version}")), version))
}

/// busybox, the file system's tools with their libraries, the modules of virtio in their order, the script.
fn initramfs(version: &str, folder: &Path) -> Outcome<PathBuf> {
    let root = folder.join("initramfs");
    let io = |e: std::io::Error| format!("cannot make the initramfs: {e}");
    for name in ["bin", "dev", "proc", "mnt", "modules"] {
        fs::create_dir_all(root.join(name)).map_err(io)?;
    }
    let busybox = PathBuf::from(tool("busybox").get_program());
    fs::copy(&busybox, root.join("bin/busybox")).map_err(io)?;
    for name in [
        "mount",
        "umount",
        "cat",
        "insmod",
        "sleep",
        "dd",
        "hexdump",
        "sha256sum",
        "wc",
        "seq",
        "sync",
        "poweroff",
        "reboot",
    ] {
        let _ = symlink("busybox", root.join("bin").join(name));
    }
    for name in ["mkfs.ext4", "e2fsck"] {
        let program = PathBuf::from(tool(name).get_program());
        fs::copy(&program, root.join("bin").join(name)).map_err(io)?;
        for library in run(tool("ldd").arg(&program))?.split_whitespace().filter(|word| word.starts_with('/')) {
            let library = library.trim_end_matches(':');
            let to = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().ok_or("a library without a folder")?).map_err(io)?;
            fs::copy(library, to).map_err(io)?;
        }
    }
    let order = modules(version, &root)?;
    fs::write(root.join("modules/order"), order.join("\n")).map_err(io)?;
    fs::write(root.join("init"), INIT).map_err(io)?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).map_err(io)?;
    let image = folder.join("initramfs.cpio");
    let script = format!("cd {} && find . | busybox cpio -o -H newc >{} 2>/dev/null", root.display(), image.display());
    run(tool("busybox").args(["sh", "-c", &script]))?;
    Ok(image)
}

/// Copies the modules that a virtio disk on PCI needs; their names in the order of loading.
fn modules(version: &str, root: &Path) -> Outcome<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for wanted in ["virtio_pci", "virtio_blk"] {
        let shown = run(tool("modprobe").args(["-S", version, "--show-depends", wanted]))?;
        for path in shown.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let path = Path::new(path.split_whitespace().next().unwrap_or_default());
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("a module without a name")?.to_owned();
            if !order.contains(&name) {
                fs::copy(path, root.join("modules").join(&name)).map_err(|e| format!("module {name}: {e}"))?;
                order.push(name);
            }
        }
    }
    Ok(order)
}
