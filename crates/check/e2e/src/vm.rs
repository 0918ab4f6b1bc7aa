//! A real guest: QEMU (TCG, so that no /dev/kvm is needed) with a kernel of Debian, and a console that the test reads.
//!
//! The guest of most tests looks at its disk. Without a file system it makes one, writes files with their checksums (a line on the
//! console after each), and reboots. With one it checks it (e2fsck -fn), compares all checksums, and powers off. While it writes the
//! files it writes small blocks and reads others beside them without a pause: whenever a fault comes, something is under way, and
//! what is answered overtakes what is not.
//!
//! Not here    faults: the test makes them between two lines of the console; what a guest boots (`initramfs`)

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Outcome,
    initramfs::{Job, boot_files},
    process::{Process, tail},
    tools::tool,
    wait::wait_until,
};

/// What precedes the guest's words for the test on its console.
const MARK: &str = "GUEST:";

/// Memory of a guest.
const MEMORY_MIB: u32 = 256;
/// Queues of a disk on vhost-user, and processors of its guest.
const VHOST_USER_QUEUES: usize = 2;

/// What a guest does with its only disk.
const FILES: Job<'_> =
    Job { script: SCRIPT, programs: &["mkfs.ext4", "e2fsck"], modules: &["virtio_pci", "virtio_blk"], files: &[] };

const SCRIPT: &str = r#"wait_for /dev/vda
pause=0.3
for word in $(cat /proc/cmdline); do case $word in cairn.pause=*) pause=${word#*=} ;; esac; done
magic=$(dd if=/dev/vda bs=1 skip=1080 count=2 2>/dev/null | hexdump -v -e '2/1 "%02x"')
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
                command.arg("-blockdev").arg(nbd_node("disk", socket, export));
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

/// An NBD export as a node of QEMU's block layer. Requests fail when there is no server for 60 s.
pub fn nbd_node(name: &str, socket: &Path, export: &str) -> String {
    let socket = socket.display();
    format!("driver=nbd,node-name={name},server.type=unix,server.path={socket},export={export},reconnect-delay=60")
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
        let mut machine = tool("qemu-system-x86_64");
        machine.arg("-m").arg(MEMORY_MIB.to_string());
        disk.attach(&mut machine);
        Self::start(machine, &FILES, &format!("cairn.pause={pause_s}"), folder, logs)
    }

    /// Boots a machine, which is QEMU with its memory and devices, to do a job; `words` are for the kernel.
    ///
    /// # Errors
    /// When the kernel is missing or QEMU cannot be started.
    pub fn start(mut machine: Command, job: &Job<'_>, words: &str, folder: &Path, logs: &Path) -> Outcome<Self> {
        let (kernel, initramfs) = boot_files(job, folder)?;
        let console = logs.join("console.log");
        let _ = fs::remove_file(&console);
        machine.args(["-accel", "tcg,thread=single", "-nodefaults", "-display", "none"]);
        machine.arg("-serial").arg(format!("file:{}", console.display()));
        machine.arg("-kernel").arg(&kernel).arg("-initrd").arg(&initramfs);
        machine.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 {words}"));
        let process = Process::start(&machine, &logs.join("qemu.log"))?;
        Ok(Self { process, console })
    }

    /// The file with what it says.
    pub fn console(&self) -> &Path {
        &self.console
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

/// Kernel and initramfs of the guest that has one disk; the latter is made in `folder`.
///
/// # Errors
/// When the kernel is missing.
pub fn files_guest(folder: &Path) -> Outcome<(PathBuf, PathBuf)> {
    boot_files(&FILES, folder)
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
