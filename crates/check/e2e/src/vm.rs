//! A real guest: QEMU (TCG, so that no /dev/kvm is needed) with Debian's cloud kernel and an initramfs made here.
//!
//! The guest looks at its disk. Without a file system it makes one, writes files with their checksums (a line on the console after
//! each), and reboots. With one it checks it (e2fsck -fn), compares all checksums, and powers off.
//!
//! Assumes     linux-image-cloud-amd64 in /boot and /lib/modules: virtio and virtio_blk as modules, ext4 built in
//! Not here    faults: the test makes them between two lines of the console

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
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

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
exec </dev/ttyS0 >/dev/ttyS0 2>&1
export PATH=/bin
for module in $(cat /modules/order); do insmod /modules/$module; done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
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
    for n in $(seq 1 20); do
        dd if=/dev/urandom of=file-$n bs=64k count=24 2>/dev/null || fail "write"
        sha256sum file-$n >>sums
        sync || fail "sync"
        echo "GUEST: wrote file-$n"
        sleep 0.3
    done
    cd /
    umount /mnt || fail "umount"
    echo "GUEST: reboots"
    reboot -f
fi
sleep 60
"#;

/// A running guest.
#[derive(Debug)]
pub struct Guest {
    process: Process,
    console: PathBuf,
}

impl Guest {
    /// Boots a guest whose disk is the NBD export at a unix socket. QEMU reconnects for 60 s.
    ///
    /// # Errors
    /// When the kernel is missing or QEMU cannot be started.
    pub fn boot(socket: &Path, export: &str, folder: &Path, logs: &Path) -> Outcome<Self> {
        let (kernel, version) = kernel()?;
        let initramfs = initramfs(&version, folder)?;
        let console = logs.join("console.log");
        let _ = fs::remove_file(&console);
        let mut command = tool("qemu-system-x86_64");
        command.args(["-accel", "tcg,thread=single", "-m", "256", "-smp", "1", "-nodefaults", "-display", "none"]);
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(&kernel).arg("-initrd").arg(&initramfs);
        command.args(["-append", "console=ttyS0 quiet panic=-1"]);
        command.arg("-blockdev").arg(format!(
            "driver=nbd,node-name=disk,server.type=unix,server.path={},export={export},reconnect-delay=60",
            socket.display()
        ));
        command.args(["-device", "virtio-blk-pci,drive=disk"]);
        let process = Process::start(&command, &logs.join("qemu.log"))?;
        Ok(Self { process, console })
    }

    /// Waits until the guest has said `words`.
    ///
    /// # Errors
    /// When it failed, QEMU ended, or `limit` has passed: the end of the console.
    pub fn wait_said(&mut self, words: &str, limit: Duration) -> Outcome<()> {
        let wanted = format!("{MARK} {words}");
        let console = self.console.clone();
        let mut dead = None;
        let heard = wait_until(&format!("the guest says {words:?}"), limit, || {
            let text = fs::read(&console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            if text.contains(&wanted) {
                return Ok(true);
            }
            if text.contains("GUEST: failed") {
                return Ok(false);
            }
            // What a dying QEMU wrote last may still be on its way to the file.
            if dead.is_some() {
                return Ok(false);
            }
            dead = self.process.ended();
            Err("it has not".into())
        });
        match heard {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "the guest failed before {words:?}: {dead:?}\n{}\n{}",
                tail(&console, 15),
                tail(&self.process.log, 5)
            )),
            Err(error) => Err(format!("{error}\n{}", tail(&console, 15))),
        }
    }
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
