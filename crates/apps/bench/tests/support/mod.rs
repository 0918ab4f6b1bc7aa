//! Servers for tests.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// An nbdkit of this test, on a unix socket; it ends with it.
pub struct Server {
    child: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Server {
    /// `words` are nbdkit's: filters, plugin, parameters.
    pub fn start(words: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nbd.sock");
        let child = Command::new("nbdkit").arg("-f").arg("-U").arg(&socket).args(words).spawn();
        let child = child.expect("nbdkit is installed (`make setup`)");
        let until = Instant::now() + Duration::from_secs(10);
        while !listens(&socket) {
            assert!(Instant::now() < until, "nbdkit does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, socket, _dir: dir }
    }

    /// Of its default export.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process of this network namespace listens at this path: the file is there a moment before that.
fn listens(socket: &Path) -> bool {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    // Number, references, protocol, flags, type, state, inode, path; the flag of one that listens is 10000.
    let path_of_listener = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.get(3) == Some(&"00010000")).then(|| words.get(7).map(PathBuf::from)).flatten()
    };
    sockets.lines().any(|line| path_of_listener(line).as_deref() == Some(socket))
}

/// A qemu-storage-daemon of this test with one vhost-user block device, which is a file of that size; it ends with it.
pub struct Device {
    child: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Device {
    pub fn start(len_bytes: u64, is_writable: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (file, socket) = (dir.path().join("disk"), dir.path().join("disk.sock"));
        File::create(&file).unwrap().set_len(len_bytes).unwrap();
        let writable = if is_writable { "on" } else { "off" };
        let child = Command::new("qemu-storage-daemon")
            .arg("--blockdev")
            .arg(format!("driver=file,node-name=disk,discard=unmap,filename={}", file.display()))
            .arg("--export")
            .arg(format!(
                "type=vhost-user-blk,id=export,node-name=disk,addr.type=unix,addr.path={},writable={writable}",
                socket.display()
            ))
            .spawn();
        let child = child.expect("qemu-storage-daemon is installed (`make setup`)");
        let until = Instant::now() + Duration::from_secs(10);
        while !listens(&socket) {
            assert!(Instant::now() < until, "qemu-storage-daemon does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, socket, _dir: dir }
    }

    pub fn uri(&self) -> String {
        format!("vhost-user://{}", self.socket.display())
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
