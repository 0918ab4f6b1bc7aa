//! A server with disks in memory on a thread of its own, and the tools that test it.
//!
//! Promises    a tool that is not installed fails the test with the Debian package to install
#![allow(dead_code)]

pub mod client;
pub mod ramdisk;

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output},
    sync::mpsc,
    thread::JoinHandle,
};

use cairn_nbd::{Options, Server, SessionStats, serve_tcp, serve_unix};
use ramdisk::{RamDisk, RamDisks};
use tokio::{
    runtime,
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::LocalSet,
};

type Job = Box<dyn FnOnce(&RamDisks, &Server) + Send>;

/// A running server; its disks live on its thread.
pub struct Served {
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
    tcp: SocketAddr,
}

/// Serves disks of these names and sizes on a unix socket and on TCP.
pub fn serve(disks: &[(&'static str, u64)], options: Options) -> Served {
    let dir = tempfile::tempdir().expect("a directory for the socket");
    let path = dir.path().join("nbd.sock");
    let disks = disks.to_vec();
    let (jobs, mut todo) = unbounded_channel::<Job>();
    let (ready, is_ready) = mpsc::channel();
    // Made on the thread: its future is not `Send`.
    let body = move || async move {
        let exports = RamDisks::default();
        for (name, size) in disks {
            exports.add(name, size);
        }
        let any = "127.0.0.1:0".parse().expect("an address");
        let tcp = serve_tcp(any, exports.clone(), options.clone()).await;
        let tcp = tcp.expect("a TCP server");
        let unix = serve_unix(&path, exports.clone(), options).await;
        let unix = unix.expect("a unix server");
        ready.send(tcp.local_addr().expect("a TCP address")).expect("the test waits");
        while let Some(job) = todo.recv().await {
            job(&exports, &unix);
        }
        unix.stop().await;
        tcp.stop().await;
    };
    let thread = std::thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), body());
    });
    Served { tcp: is_ready.recv().expect("the server starts"), jobs: Some(jobs), thread: Some(thread), dir }
}

impl Served {
    /// Runs `act` on the server's thread.
    pub fn with<T: Send + 'static>(&self, act: impl FnOnce(&RamDisks, &Server) -> T + Send + 'static) -> T {
        let (answer, result) = mpsc::channel();
        let job: Job = Box::new(move |disks, server| {
            let _ = answer.send(act(disks, server));
        });
        let jobs = self.jobs.as_ref().expect("the server runs");
        jobs.send(job).unwrap_or_else(|_| panic!("the server has died"));
        result.recv().expect("the server has died")
    }

    /// Runs `act` with one disk.
    pub fn disk<T: Send + 'static>(&self, name: &'static str, act: impl FnOnce(&RamDisk) -> T + Send + 'static) -> T {
        self.with(move |disks, _| act(&disks.get(name)))
    }

    pub fn sessions(&self) -> Vec<SessionStats> {
        self.with(|_, server| server.sessions())
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("nbd.sock")
    }
    pub fn tcp(&self) -> SocketAddr {
        self.tcp
    }
    pub fn unix_uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket().display())
    }
    pub fn tcp_uri(&self, name: &str) -> String {
        format!("nbd://{}/{name}", self.tcp)
    }
    /// A file of the test's directory.
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Stops the server; fails if it died before.
    pub fn stop(mut self) {
        self.end();
        assert!(!self.socket().exists(), "the socket file was left behind");
    }

    fn end(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server died");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a tool; whatever it returns is for the caller to judge.
pub fn try_tool(package: &str, name: &str, args: &[&str]) -> Output {
    // Its own time limit: a client that waits for ever for an answer must not hang the suite.
    let output = Command::new("timeout").arg("60").arg(name).args(args).output();
    let output = output.expect("run `timeout` (Debian package coreutils)");
    assert!(output.status.code() != Some(127), "{name} is not installed: apt-get install {package}");
    output
}

/// Runs a tool that must succeed; returns what it printed.
pub fn tool(package: &str, name: &str, args: &[&str]) -> String {
    let output = try_tool(package, name, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name} {args:?}: {}\n{out}\n{err}", output.status);
    out
}
