//! Servers for tests.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::{
    path::PathBuf,
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
        while !socket.exists() {
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
