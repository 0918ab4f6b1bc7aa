//! A daemon of one host with a configuration of its own, in a folder of its own.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// On a machine that may be busy.
const WAIT: Duration = Duration::from_secs(60);

/// A daemon that dies with its test.
pub struct Daemon(Child);

impl Daemon {
    /// Asks it to stop and waits for its end.
    pub fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder: its configuration, its data, its devices, and in `bin` programs that its daemon is to find before the system's.
pub struct Place(tempfile::TempDir);

impl Place {
    /// `more` is what the configuration has beside addresses and folders; DIR in it is the folder.
    pub fn new(more: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.configure(more);
        place
    }

    pub fn configure(&self, more: &str) {
        let text = format!(
            "[host]\nname = \"h1\"\ndata_dir = \"DIR/data\"\n[listen]\napi = \"\"\napi_socket = \"DIR/api.sock\"\nnbd = \"\"\n\
             nbd_socket = \"\"\n{more}"
        );
        fs::write(self.path("cairnd.toml"), text.replace("DIR", &self.dir().display().to_string())).unwrap();
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Starts a daemon and waits until it answers.
    pub fn start(&self) -> Daemon {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cairnd"));
        command.arg("--config").arg(self.path("cairnd.toml")).stdout(Stdio::null()).stderr(log);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        let mut daemon = Daemon(command.spawn().unwrap());
        let begun = Instant::now();
        while self.call("GET", "/api/v1/cluster", None).is_none_or(|(code, _)| code != 200) {
            assert!(daemon.0.try_wait().unwrap().is_none(), "it ended:\n{}", self.log());
            assert!(begun.elapsed() < WAIT, "it does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        daemon
    }

    fn call(&self, verb: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let mut stream = UnixStream::connect(self.path("api.sock")).ok()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        write!(
            stream,
            "{verb} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).unwrap_or_default()))
    }

    pub fn get(&self, path: &str) -> Value {
        let (code, body) = self.call("GET", path, None).unwrap();
        assert_eq!(code, 200, "{path}: {body}");
        body
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (code, answer) = self.call("POST", path, Some(body)).unwrap();
        (if code < 300 { 200 } else { code }, answer)
    }

    pub fn delete(&self, path: &str) -> (u16, Value) {
        let (code, answer) = self.call("DELETE", path, None).unwrap();
        (if code < 300 { 200 } else { code }, answer)
    }

    pub fn wait(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < WAIT, "{what}: not in {} s; its log:\n{}", WAIT.as_secs(), self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
