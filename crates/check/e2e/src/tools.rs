//! What the tests need of the machine: root, tools, the programs under test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::Outcome;

/// Program, Debian package.
const PACKAGES: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("bridge", "iproute2"),
    ("ss", "iproute2"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("etcd", "etcd-server"),
    ("fio", "fio"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("qemu-storage-daemon", "qemu-system-common"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_repair", "xfsprogs"),
    ("busybox", "busybox-static"),
    ("modprobe", "kmod"),
    ("libvirtd", "libvirt-daemon-system"),
    ("virsh", "libvirt-clients"),
    ("nsenter", "util-linux"),
    ("ldd", "libc-bin"),
    ("tar", "tar"),
];

/// A test's turn: tests of one program that start processes run one after the other, or they would measure each other.
#[derive(Debug)]
pub struct Turn {
    _lock: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits for the turn. A test that failed in its turn has ended it.
    ///
    /// # Panics
    /// When the test does not run as root: the message says how to.
    pub fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        assert!(
            rustix::process::geteuid().is_root(),
            "the end-to-end tests make network namespaces: run them as root (sudo make test-e2e)"
        );
        Self { _lock: TURN.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// A command of `program`, which must be installed.
///
/// # Panics
/// When it is not: the package that has it is named.
pub fn tool(program: &str) -> Command {
    let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists());
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map_or(program, |(_, package)| package);
    let path = found.unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"));
    Command::new(path)
}

/// Runs a command to its end and returns what it wrote to standard output.
///
/// # Errors
/// When it cannot be started or ends with another code than 0: the command line and what it said.
pub fn run(command: &mut Command) -> Outcome<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {shown}: {e}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{shown}: {}: {out}{said}", output.status))
}

/// The folder of the repository.
///
/// # Panics
/// When this crate is not three folders below it.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).expect("crates/check/e2e is three folders deep").to_owned()
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// A program under test, as `make test-e2e` built it. `CAIRN_BIN` names another folder.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("CAIRN_BIN").map_or_else(|| target().join("release"), PathBuf::from);
    let path = folder.join(name);
    assert!(path.exists(), "{} is not there: cargo build --release -p cairnd -p cairn-cli", path.display());
    path
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// How long a scenario keeps its load up: `CAIRN_E2E_SECONDS`, or 15 s.
pub fn load_time() -> Duration {
    Duration::from_secs(number("CAIRN_E2E_SECONDS").unwrap_or(15))
}

/// Faults one after the other: `CAIRN_E2E_CYCLES`, or 8 (see [`crate::inject::draw`]).
pub fn cycles() -> usize {
    number("CAIRN_E2E_CYCLES").unwrap_or(8) as usize
}

/// What is drawn is drawn from `CAIRN_E2E_SEED`, or from a seed that no other run had; a test prints it.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64);
    number("CAIRN_E2E_SEED").unwrap_or_else(|| crate::pattern::mix(now) % 1_000_000)
}
